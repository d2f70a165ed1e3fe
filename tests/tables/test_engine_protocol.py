"""What every counting engine keeps: exact counts, each record once, one fingerprint for the same rows.

Add yours to `KINDS`: a function from raw columns and a schema to a table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations, permutations
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator import Engine, PrivateTable, table_of
from maquette.curator.table import engine_of
from maquette.errors import DataError, SchemaError
from page_examples import example

Columns = Mapping[str, Sequence[Any]]
FOLDER = tempfile.TemporaryDirectory()
KINDS: dict[str, Callable[[Columns, mq.Schema], PrivateTable]] = {
    "memory": mq.open_table,
    "duckdb": lambda columns, schema: mq.open_table(columns, schema, memory_limit=0),
    "planes": lambda columns, schema: mq.open_table(
        columns, schema, memory_limit=0, planes=tempfile.mkdtemp(prefix="planes-", dir=FOLDER.name)
    ),
    "example": lambda columns, schema: table_of(example("ArrayEngine")(columns, schema)),
}
SCHEMA = mq.Schema([
    mq.Integer("age", 0, 9, width=3),
    mq.Category("city", ["Oslo", "Rome"], other="other", nullable=True),
    mq.Boolean("smoker"),
    mq.Integer("code", 0, 299),
])  # fmt: skip
SETS = list(chain.from_iterable(combinations(SCHEMA.names, k) for k in range(4)))


def columns(rows: int = 500) -> dict[str, list[Any]]:
    rng = np.random.default_rng(7)
    return {
        "age": rng.integers(-2, 14, rows).tolist(),
        "city": [("Oslo", "Rome", "Lima", None)[i] for i in rng.integers(0, 4, rows)],
        "smoker": (rng.random(rows) < 0.3).tolist(),
        "code": rng.integers(0, 300, rows).tolist(),
    }


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> PrivateTable:
    return KINDS[request.param](columns(), SCHEMA)


@pytest.fixture
def engine(table: PrivateTable) -> Engine:
    return engine_of(table)


def records() -> np.ndarray:
    return np.stack([column.encode(columns()[column.name]) for column in SCHEMA], axis=1)


def counted(names: Sequence[str]) -> np.ndarray:
    """A plain loop."""
    counts = np.zeros(SCHEMA.shape(names), dtype=np.int64)
    for record in records():
        counts[tuple(record[SCHEMA.position(name)] for name in names)] += 1
    return counts


def test_it_is_an_engine_of_its_schema(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.schema == SCHEMA
    assert engine.rows == 500


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("names", [*SETS, *permutations(["age", "city", "smoker"])], ids=" x ".join)
def test_counts_are_those_of_a_plain_loop_in_the_order_asked(engine: Engine, names: Sequence[str]) -> None:
    counts = engine.counts(names)
    assert counts.dtype == np.int64
    assert np.array_equal(counts, counted(names))
    assert int(counts.sum()) == engine.rows
    assert np.array_equal(engine.counts(names), counts)


def test_counts_cannot_be_written(engine: Engine) -> None:
    with pytest.raises(ValueError, match="read-only"):
        engine.counts(["smoker"])[0] = 0


@pytest.mark.thorough(fast=1)
def test_blocks_hold_every_record_once(engine: Engine) -> None:
    for _ in range(2):
        blocks = list(engine.blocks())
        assert {block.dtype for block in blocks} == {np.dtype(np.int32)}
        assert sorted(map(tuple, np.concatenate(blocks).tolist())) == sorted(map(tuple, records().tolist()))


@pytest.mark.thorough
def test_a_prefetch_changes_no_count(engine: Engine) -> None:
    engine.prefetch(SETS)
    engine.prefetch([])
    for names in SETS:
        assert np.array_equal(engine.counts(names), counted(names))


@pytest.mark.thorough
def test_many_threads_count_the_same(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        for names, counts in zip(SETS * 4, pool.map(engine.counts, SETS * 4), strict=True):
            assert np.array_equal(counts, counted(names))


@pytest.mark.thorough(fast=1)
def test_the_same_rows_have_one_fingerprint_whatever_counts_them(engine: Engine) -> None:
    reference = KINDS["memory"](columns(), SCHEMA)
    assert engine.fingerprint == engine_of(reference).fingerprint


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_is_of_the_rows_as_a_multiset(kind: str) -> None:
    first, other = columns(), columns()
    other["smoker"][17] = not other["smoker"][17]
    reordered = {name: values[::-1] for name, values in first.items()}
    tables = [KINDS[kind](rows, SCHEMA) for rows in (first, reordered, other)]
    prints = [engine_of(each).fingerprint for each in tables]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.thorough
def test_a_curator_answers_through_it(table: PrivateTable) -> None:
    with mq.Curator(table, mq.Budget(epsilon=1000.0)) as curator:
        answer = mq.answer(curator, "SELECT count(*) FROM t WHERE smoker AND age >= 3", epsilon=200.0)
        true = counted(["smoker", "age"])[1, 1:].sum()
        assert abs(answer.count - true) < 5
        release = mq.release(curator, mq.marginals(SCHEMA, k=1))
        assert release.sample(50).num_rows == 50


def test_only_an_engine_makes_a_table() -> None:
    made = example("ArrayEngine")(columns(), SCHEMA)
    with pytest.raises(DataError, match="counted by an engine"):
        table_of(object())  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="no privacy_unit"):
        table_of(made, max_contributions=2)
    for name, wrong in (("rows", 0), ("rows", 2.0), ("fingerprint", "")):
        broken = example("ArrayEngine")(columns(), SCHEMA)
        setattr(broken, name, wrong)
        with pytest.raises(DataError, match="an engine"):
            table_of(broken)


def test_the_unit_and_its_bound_reach_the_table() -> None:
    table = table_of(example("ArrayEngine")(columns(), SCHEMA), privacy_unit="person", max_contributions=3)
    assert (table.privacy_unit, table.max_contributions) == ("person", 3)
    with mq.Curator(table, mq.Budget(epsilon=1.0)) as curator:
        assert curator.relation.max_contributions == 3
