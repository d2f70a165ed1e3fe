"""Both engines count what a plain loop counts, whatever the rows hold and however they are asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from table_checks import DIRTY, POOLS, Rows, codes, counted, raw, subsets

from gate_tools import tallied
from maquette.curator.engines import kernels
from maquette.curator.engines.api import Engine
from maquette.curator.engines.counting import CountingEngine, joint_tables
from maquette.curator.engines.duckdb import DuckDBEngine
from maquette.curator.engines.encoding import layout_of, planes_of, records_of
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.open import open_table
from maquette.curator.table import engine_of
from maquette.errors import QueryError, UnreadableSource
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Marginal
from maquette.schema import Boolean, Category, Integer, Schema

rows_of_dirt = st.lists(st.tuples(*(st.sampled_from(POOLS[name]) for name in DIRTY.names)), min_size=1, max_size=40)
NUMBERS = Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate([2, 3, 5, 7, 300])])


def engines(table: object, schema: Schema) -> tuple[Engine, Engine]:
    """The same table counted in memory and in DuckDB."""
    return tuple(engine_of(keep(open_table(table, schema, memory_limit=limit))) for limit in (2**20, 0))  # type: ignore[return-value]


_kept: list[object] = []


def keep(table: Any) -> Any:
    """An engine lives as long as its handle: hold the last few."""
    _kept.append(table)
    del _kept[:-8]
    return table


def random_numbers(rows: int, seed: int = 0) -> tuple[pa.Table, list[tuple[int, ...]]]:
    rng = np.random.default_rng(seed)
    columns = {c.name: rng.integers(0, c.size, rows) for c in NUMBERS}
    return pa.table(columns), list(zip(*(values.tolist() for values in columns.values()), strict=True))


@pytest.mark.thorough
@given(rows_of_dirt)
@settings(max_examples=12)
def test_engines_agree_with_a_plain_loop_on_dirty_rows(rows: Rows) -> None:
    memory, duck = engines(pa.table({k: pa.array(v, pa.string()) for k, v in raw(rows).items()}), DIRTY)
    assert isinstance(memory, MemoryEngine)
    assert isinstance(duck, DuckDBEngine)
    assert memory.rows == duck.rows == len(rows)
    assert memory.fingerprint == duck.fingerprint
    records = codes(rows)
    sets = subsets(DIRTY.names, 2)
    duck.prefetch(sets)
    for columns in sets:
        expected = counted(records, DIRTY, columns)
        assert np.array_equal(memory.counts(columns), expected)
        assert np.array_equal(duck.counts(columns[::-1]), expected.transpose())
    for engine in (memory, duck):
        assert sorted(map(tuple, np.concatenate(list(engine.blocks())).tolist())) == sorted(records)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("work", [0, 2**62], ids=["compiled", "plain"])
@pytest.mark.parametrize("sets", [[("c0", "c1", "c4")], subsets(NUMBERS.names, 5)], ids=["one set", "all sets"])
def test_both_kernels_count_exactly(work: int, sets: Sequence[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_LOADING", work)
    monkeypatch.setattr(kernels, "_compiled_pays", lambda _: work == 0)
    monkeypatch.setattr(kernels, "_FEW", 100)
    table, records = random_numbers(5_000)
    codes_ = [table[name].to_numpy() for name in NUMBERS.names]
    chunks = [planes_of(NUMBERS, [c[a:b] for c in codes_]) for a, b in itertools.pairwise([0, 1, 2_047, 2_050, 5_000])]
    layouts = [layout_of(NUMBERS, [NUMBERS.position(name) for name in names]) for names in sets]
    for threads in (1, 2, 3):
        for names, flat in zip(sets, kernels.histograms(chunks, layouts, threads), strict=True):
            assert np.array_equal(flat.reshape(NUMBERS.shape(names)), counted(records, NUMBERS, names))


def test_codes_out_of_range_write_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_compiled_pays", lambda _: True)
    layouts = [kernels.Layout((0,), (1,), 2), kernels.Layout((1,), (1,), 2)]
    planes = np.array([[255] * 9, [0] * 9], dtype=np.uint8)
    first, other = kernels.histograms([planes], layouts, 1)
    assert (int(first.sum()), other.tolist()) == (9, [9, 0])


def test_planes_hold_the_codes() -> None:
    schema = Schema([Integer("a", 0, 255), Integer("b", 0, 256), Integer("c", 0, 70_000), Integer("d", 0, 0)])
    records = np.array([[255, 256, 70_000, 0], [0, 255, 65_536, 0], [7, 1, 255, 0]], dtype=np.int32)
    planes = planes_of(schema, list(records.T))
    assert planes.shape == (1 + 2 + 3 + 1, 3)
    assert np.array_equal(records_of(schema, planes), records)


def test_counts_are_read_only_and_shaped_as_asked() -> None:
    table, records = random_numbers(50)
    memory, duck = engines(table, NUMBERS)
    for engine in (memory, duck):
        for columns in (["c3", "c0", "c2"], ["c0", "c2", "c3"], []):
            counts = engine.counts(columns)
            assert counts.shape == NUMBERS.shape(columns)
            assert counts.dtype == np.int64
            assert not counts.flags.writeable
            assert np.array_equal(counts, counted(records, NUMBERS, columns))


def test_prefetch_changes_nothing_but_the_number_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.curator.engines.counting._MANY", 1)
    monkeypatch.setattr("maquette.curator.engines.counting._CACHE", 300)
    table, records = random_numbers(400)
    for engine in engines(table, NUMBERS):
        passes: list[Any] = []
        count = engine._count  # type: ignore[attr-defined]
        monkeypatch.setattr(
            engine, "_count", lambda sets, count=count, passes=passes: passes.append(sets) or count(sets)
        )
        sets = subsets(NUMBERS.names, 3)
        engine.prefetch(sets)
        assert len(passes) == 1
        for columns in sets:
            assert np.array_equal(engine.counts(columns), counted(records, NUMBERS, columns))
        assert len(passes) == 1


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=7).flatmap(
        lambda sizes: st.tuples(
            st.just(sizes), st.lists(st.sets(st.integers(0, len(sizes) - 1), max_size=4).map(sorted), max_size=12)
        )
    ),
    st.integers(0, 500),
)
def test_joint_tables_hold_every_set_within_the_limit(case: tuple[list[int], list[list[int]]], limit: int) -> None:
    sizes, sets = case
    wanted = sorted({tuple(s) for s in sets})
    tables = list(joint_tables(wanted, sizes, limit))
    assert all(any(set(s) <= set(t) for t in tables) for s in wanted)
    assert len(tables) <= len(wanted)
    cells = [np.prod([sizes[i] for i in t], dtype=int) for t in tables]
    assert all(c <= limit or t in wanted for c, t in zip(cells, tables, strict=True))


def test_memory_of_counted_tables_is_bounded() -> None:
    table, records = random_numbers(60)
    memory, _ = engines(table, NUMBERS)
    assert isinstance(memory, CountingEngine)
    memory._memory = 8 * 400
    memory.prefetch(subsets(NUMBERS.names, 3))
    for columns in subsets(NUMBERS.names, 3):
        assert np.array_equal(memory.counts(columns), counted(records, NUMBERS, columns))
        kept = sum(t.nbytes for t in memory._tables.values())
        assert kept == memory._used <= 8 * 400


def test_too_many_cells_are_refused_and_a_repeated_column_too() -> None:
    schema = Schema([Integer(f"c{i}", 0, 999) for i in range(3)])
    for engine in engines({f"c{i}": [1, 2] for i in range(3)}, schema):
        with pytest.raises(QueryError, match="1,000,000,000 cells"):
            engine.counts(schema.names)
        engine.prefetch([schema.names])
        with pytest.raises(QueryError, match="twice"):
            engine.counts(["c0", "c0"])
        with pytest.raises(QueryError, match="no column"):
            engine.counts(["c9"])


@pytest.mark.thorough
def test_threads_share_an_engine() -> None:
    table, records = random_numbers(300)
    sets = subsets(NUMBERS.names, 3)
    for engine in engines(table, NUMBERS):

        def wrong(shift: int, engine: Engine = engine) -> list[tuple[str, ...]]:
            asked = sets[shift:] + sets[:shift]
            return [s for s in asked if not np.array_equal(engine.counts(s), counted(records, NUMBERS, s))]

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(wrong, range(0, 24, 6))) == [[]] * 4


def test_rows_left_in_place_are_refused_once_they_change(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "true\nfalse\n" * 50)
    table = open_table(path, Schema([Boolean("a")]), memory_limit=0)
    engine = engine_of(table)
    assert engine.counts(["a"]).tolist() == [50, 50]
    for changed in ("true\nfalse\n" * 50 + "true\n", "true\nmaybe\n" * 50):
        path.write_text("a\n" + changed)
        engine._tables.clear()  # type: ignore[attr-defined]
        with pytest.raises(UnreadableSource, match="no longer holds"):
            engine.counts(["a"])


class Huge:
    """An engine whose counts could not be summed in floating point."""

    schema = Schema([Category("a", [str(i) for i in range(4_097)])])
    rows = 2**53 + 4_096
    fingerprint = "huge"

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        return np.array([2**53] + [1] * 4_096, dtype=np.int64)

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        raise AssertionError

    def prefetch(self, column_sets: object) -> None: ...


def test_sums_are_exact_integers_not_floats() -> None:
    weights = np.ones(4_097)
    weights[-1] = 0.0  # so that the question depends on the column
    marginal = Marginal(Huge.schema, (), LinearQuery.product(Huge.schema, {"a": weights}))
    assert int(tallied(Huge(), marginal)) == 2**53 + 4_095


def test_values_beyond_64_bits_are_clamped_not_wrapped() -> None:
    schema = Schema([Integer("a", -(2**53), 2**53, width=2**52)])
    for values in (pa.array([2**62, -(2**62), 2**63 - 1, 0]), pa.array([str(10**30), str(-(10**30)), str(2**64), "0"])):
        for engine in engines(pa.table({"a": values}), schema):
            assert engine.counts(["a"]).tolist() == [1, 0, 1, 0, 2]


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=30), st.booleans())
@settings(max_examples=15)
def test_tally_from_records_equals_tally_from_counts(records: list[tuple[int, ...]], weighted: bool) -> None:
    schema = Schema([Integer(name, 0, 2) for name in "abc"])
    weight = LinearQuery.product(schema, {"b": [0.0, 0.25, 1.0]}) if weighted else None
    table = keep(open_table(pa.table({n: [r[i] for r in records] for i, n in enumerate("abc")}), schema))
    marginal = Marginal(schema, ["c", "a"], weight)
    by_counts = tallied(engine_of(table), marginal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maquette.curator.compile.FEW_CELLS", 0)
        by_records = tallied(engine_of(table), marginal)
    assert np.array_equal(by_counts, by_records)
    expected = np.zeros((3, 3), dtype=np.int64)
    for a, b, c in records:
        expected[c, a] += [0, 2**18, 2**20][b] if weighted else 1
    assert np.array_equal(by_counts, expected)
