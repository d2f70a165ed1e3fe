"""Contribution bounds: removing a unit changes the kept table by at most max_contributions rows, and nothing else."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from maquette.curator.contributions import bounded, unit_sql
from maquette.curator.engines.encoding import codes_sql
from maquette.curator.open import open_table
from maquette.curator.table import engine_of
from maquette.errors import OutOfDomain
from maquette.schema import Boolean, Integer, Schema

PAIR = Schema([Boolean("a"), Boolean("b")])
Row = tuple[str, int, int]


def kept(engine: duckdb.DuckDBPyConnection, rows: Sequence[Row], bound: int) -> Counter[tuple[int, int]]:
    """The multiset of records kept; an empty table keeps none."""
    if not rows:
        return Counter()
    source = engine.from_arrow(pa.table([list(column) for column in zip(*rows, strict=True)], names=["who", "a", "b"]))
    codes = source.project(f"{codes_sql(PAIR, {'a': 'a', 'b': 'b'})}, {unit_sql('who')}")
    return Counter(row[:2] for row in bounded(codes, PAIR, bound).fetchall())


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def tiny_tables() -> list[list[Row]]:
    """All tables of up to three rows over two units and two kinds of row, and some of five rows over three units."""
    kinds = list(itertools.product(["u", "v"], [0, 1], [1]))
    small = [list(rows) for n in range(1, 4) for rows in itertools.combinations_with_replacement(kinds, n)]
    rng = np.random.default_rng(2)
    larger = [[("uvw"[rng.integers(3)], *map(int, rng.integers(0, 2, 2))) for _ in range(5)] for _ in range(4)]
    return small + larger  # type: ignore[operator]


@pytest.mark.thorough
@pytest.mark.parametrize("bound", [1, 2])
def test_removing_a_unit_removes_its_kept_rows_and_nothing_else(bound: int, engine: duckdb.DuckDBPyConnection) -> None:
    for rows in tiny_tables():
        whole = kept(engine, rows, bound)
        for unit in sorted({row[0] for row in rows}):
            without = kept(engine, [row for row in rows if row[0] != unit], bound)
            alone = kept(engine, [row for row in rows if row[0] == unit], bound)
            assert whole == without + alone
            assert sum((whole - without).values()) + sum((without - whole).values()) <= bound
            assert sum(alone.values()) == min(bound, sum(row[0] == unit for row in rows))


def test_what_is_kept_depends_neither_on_order_nor_on_where_rows_are_counted(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    rows: list[Row] = [("u", 0, 0), ("u", 0, 1), ("u", 1, 1), ("v", 1, 0), ("v", 1, 0), ("u", 0, 0)]
    reference = kept(engine, rows, 2)
    for order in list(itertools.permutations(rows))[::60]:
        assert kept(engine, order, 2) == reference
    source = pa.table([list(column) for column in zip(*rows, strict=True)], names=["who", "a", "b"])
    for limit in (2**20, 0):
        table = open_table(source, PAIR, privacy_unit="who", max_contributions=2, memory_limit=limit)
        counts = engine_of(table).counts(["a", "b"])
        assert {(a, b): n for (a, b), n in np.ndenumerate(counts) if n} == reference


def test_an_owner_of_a_hundred_rows_keeps_the_declared_number() -> None:
    schema = Schema([Integer("visit", 0, 99)])
    source = pa.table({"visit": [*range(100), 7], "owner": [*[1] * 100, 2]})
    for bound in (1, 5, 100, 1000):
        table = open_table(source, schema, privacy_unit="owner", max_contributions=bound)
        assert engine_of(table).rows == min(bound, 100) + 1
        assert (table.privacy_unit, table.max_contributions) == ("owner", bound)


def test_kept_rows_are_a_fair_sample_of_a_units_rows() -> None:
    """400 units with nine rows of one kind and one of another: the rare kind is kept a tenth of the time."""
    units = [f"unit {i}" for i in range(400) for _ in range(10)]
    values = [int(j == 0) for _ in range(400) for j in range(10)]
    table = open_table({"id": units, "a": values, "b": values}, PAIR, privacy_unit="id")
    rare = int(engine_of(table).counts(["a"])[1])
    assert (
        abs(rare - 40) <= 5 * 6
    )  # five standard deviations of Binomial(400, 0.1); the order is fixed, so it never moves


def test_a_unit_is_its_trimmed_text_whatever_its_type() -> None:
    rows = {"a": [0, 1, 1], "b": [0, 0, 1]}
    by_text = open_table({**rows, "id": ["7", " 7\t\u2003\x0b\n", "8"]}, PAIR, privacy_unit="id")
    by_number = open_table({**rows, "id": [7, 7, 8]}, PAIR, privacy_unit="id")
    assert engine_of(by_text).rows == engine_of(by_number).rows == 2
    assert engine_of(by_text).fingerprint == engine_of(by_number).fingerprint


def test_the_unit_may_be_a_column_of_the_schema() -> None:
    table = open_table({"a": [0, 0, 1], "b": [0, 1, 1]}, PAIR, privacy_unit="a")
    assert engine_of(table).counts(["a"]).tolist() == [1, 1]


@pytest.mark.parametrize("absent", [None, "", "  ", "\t\n\u3000", " NaN"])
def test_rows_without_an_owner_are_refused_with_a_count(absent: str | None) -> None:
    rows = {"a": [0, 1, 1], "b": [0, 0, 1], "id": ["7", absent, absent]}
    with pytest.raises(OutOfDomain, match="2 rows have no value in the privacy unit 'id'") as caught:
        open_table(rows, PAIR, privacy_unit="id")
    assert caught.value.counts == {"id": 2}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_not_a_number_is_no_owner_in_any_frame(kind: pa.DataType) -> None:
    import polars as pl

    owners = pa.array(np.array([7.0, np.nan, -np.nan]), kind)
    arrow = pa.table({"a": [0, 1, 1], "b": [0, 0, 1], "id": owners})
    for source in (arrow, pl.from_arrow(arrow), arrow.to_pandas(), arrow.to_pydict()):
        with pytest.raises(OutOfDomain, match="2 rows have no value in the privacy unit 'id'"):
            open_table(source, PAIR, privacy_unit="id")
