"""The measuring door where it takes shortcuts: what is drawn together, counted together, recorded and converted."""

from __future__ import annotations

import io
import itertools
import math
import pickle
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

import maquette as mq
from gate_tools import exact, exact_by_records
from maquette.curator import Curator
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.noise import ExactNoise
from maquette.curator.table import engine_of
from maquette.curator.transaction import pack, unpack
from maquette.errors import LedgerCorrupted, QueryError
from maquette.privacy import UNITS_PER_ONE, zcdp
from maquette.query import Contrasts, LinearQuery, Marginal, residual
from maquette.query.contrasts import helmert
from maquette.schema import Category, Schema

SIZES = (2, 3, 5, 2)
SCHEMA = Schema([Category(f"c{i}", [str(level) for level in range(size)]) for i, size in enumerate(SIZES)])
RECORDS = np.random.default_rng(4).integers(0, SIZES, (500, 4))
SETS = [s for k in range(1, 5) for s in itertools.permutations(SCHEMA.names, k)]
ZCDP = mq.Budget(rho=1.0, delta=1e-9)


def opened() -> mq.PrivateTable:
    return mq.open_table({f"c{i}": [str(level) for level in RECORDS[:, i]] for i in range(4)}, SCHEMA)


def brute(columns: Sequence[str]) -> np.ndarray:
    counts = np.zeros(SCHEMA.shape(columns), dtype=np.int64)
    for record in RECORDS:
        counts[tuple(record[SCHEMA.position(name)] for name in columns)] += 1
    return counts


@pytest.mark.parametrize(("budget", "law"), [(mq.Budget(epsilon=9.0), "laplaces"), (ZCDP, "gaussians")])
def test_production_noise_is_drawn_at_the_scale_of_every_part(
    budget: mq.Budget, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[Fraction], list[int]]] = []

    def numbered(self: ExactNoise, scales: Sequence[Fraction], sizes: Sequence[int]) -> list[np.ndarray]:
        asked.append((list(scales), list(sizes)))
        return [1000 * (i + 1) + np.arange(size) for i, size in enumerate(sizes)]

    monkeypatch.setattr(ExactNoise, law, numbered)
    questions: list[Any] = [residual(SCHEMA, ("c1", "c2")), Marginal(SCHEMA, ("c3", "c0")), Marginal(SCHEMA)]
    with Curator(opened(), budget) as curator:
        measured = curator.measure_many(questions, epsilon=0.5, shares=[1, 2, 5])
    ((scales, sizes),) = asked
    assert sizes == [8, 4, 1]
    assert scales == [getattr(one.event, "scale" if law == "laplaces" else "variance") for one in measured]
    assert len(set(scales)) == 3
    values_of = [exact(questions[0], RECORDS), brute(("c3", "c0")), brute(())]
    for i, (one, values) in enumerate(zip(measured, values_of, strict=True)):
        assert (one.values - values).reshape(-1).tolist() == [1000 * (i + 1) + j for j in range(values.size)]


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("sets", [SETS[:4], SETS[-3:], [("c0", "c1"), ("c3",)], SETS, [("c2",)]])
def test_sets_counted_together_have_the_counts_of_each(sets: list[tuple[str, ...]]) -> None:
    engine = engine_of(opened())
    for _ in range(2):
        engine.prefetch(sets)
        for columns in sets:
            assert np.array_equal(engine.counts(columns), brute(columns))


def test_the_parts_of_one_question_take_one_pass_and_later_ones_none(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Any] = []
    count = MemoryEngine._count
    monkeypatch.setattr(MemoryEngine, "_count", lambda self, sets: passes.append(list(sets)) or count(self, sets))
    engine = engine_of(opened())
    engine.prefetch([("c0",), ("c1", "c3"), ("c0", "c1", "c3")])
    assert passes == [[(0, 1, 3)]]
    engine.prefetch([("c1",), ("c0", "c3")])
    assert np.array_equal(engine.counts(("c3", "c0")), brute(("c3", "c0")))
    assert len(passes) == 1


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("memory", [0, 8, 100, 500, 2_000])
def test_counts_survive_a_small_memory(memory: int) -> None:
    engine = engine_of(opened())
    engine._memory = memory  # type: ignore[attr-defined]
    for sets in (SETS[:8], SETS, SETS[::-3]):
        engine.prefetch(sets)
        for columns in sets:
            assert np.array_equal(engine.counts(columns), brute(columns))
    kept = engine._tables  # type: ignore[attr-defined]
    assert sum(table.nbytes for table in kept.values()) <= memory
    assert set(engine._counted) <= set(kept)  # type: ignore[attr-defined]


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes: list[tuple[int, ...]] = [(), (1,), (0,), (3,), (2, 3), (2, 0), (3, 1, 2), (1, 1, 1)]
    plain = [np.asarray(rng.integers(-(2**62), 2**62, shape)) for shape in shapes]
    return [*plain, *(array.T for array in plain), plain[4][:, ::2]]


def test_what_is_recorded_is_numpys_own_format() -> None:
    stream = io.BytesIO()
    for array in arrays():
        npy.write_array(stream, array, allow_pickle=False)
    assert pack(arrays()) == stream.getvalue()
    for one, other in zip(unpack(stream.getvalue()), arrays(), strict=True):
        assert (one.dtype, one.shape) == (np.dtype(np.int64), other.shape)
        assert np.array_equal(one, other)
        assert one.flags.writeable
    assert unpack(b"") == []


def test_a_record_of_anything_but_whole_numbers_is_refused() -> None:
    stream = io.BytesIO()
    npy.write_array(stream, np.array([0.5]), allow_pickle=False)
    with pytest.raises(LedgerCorrupted, match="whole numbers"):
        unpack(stream.getvalue())


def test_epsilon_is_converted_for_those_who_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    converted: list[float] = []
    original = zcdp.zcdp_epsilon
    monkeypatch.setattr(zcdp, "zcdp_epsilon", lambda rho, delta: converted.append(rho) or original(rho, delta))
    with Curator(opened(), ZCDP, ledger=tmp_path / "ledger") as curator:
        converted.clear()
        first, second = curator.measure_many([["c0"], ["c1"]], rho=0.01)
        together = curator.cost_of([first, second])
        assert converted == []
        for cost in (first.cost, together, first.cost):
            assert cost.epsilon == original(cost.units / UNITS_PER_ONE, 1e-9)
        assert len(converted) == 2
        again = pickle.loads(pickle.dumps(second.cost))
        assert again == second.cost == curator.budget.accountant.loss(second.cost.units, 1e-9)
        assert hash(again) == hash(second.cost)
        assert repr(again).startswith("epsilon 0.")


def reference_gains(matrices: Sequence[np.ndarray]) -> tuple[int, ...]:
    whole = np.ones((1, 1), dtype=object)
    for matrix in matrices:
        whole = np.kron(whole, matrix.astype(object))
    sizes = np.abs(whole)
    return int(sizes.max()), int(sizes.sum(axis=0).max()), int((sizes**2).sum(axis=0).max())


@pytest.mark.parametrize("columns", [(), ("c0",), ("c2",), ("c3", "c1"), ("c2", "c0", "c1"), ("c0", "c1", "c2", "c3")])
def test_contrasts_are_their_definition(columns: tuple[str, ...]) -> None:
    made = residual(SCHEMA, columns)
    plain = Contrasts(Marginal(SCHEMA, columns, LinearQuery.constant(SCHEMA)), made.matrices)
    assert made.gains == plain.gains == reference_gains(made.matrices)
    assert (made.key, made.marginal.key, made.grid) == (plain.key, Marginal(SCHEMA, columns).key, 1)
    whole = np.ones((1, 1), dtype=np.int64)
    for matrix in made.matrices:
        whole = np.kron(whole, matrix)
    expected = (whole @ brute(columns).reshape(-1)).reshape(made.shape)
    for question in (made, plain):
        assert np.array_equal(exact(question, RECORDS), expected)
        assert np.array_equal(exact_by_records(question, RECORDS), expected)


def test_gains_of_large_entries_do_not_wrap() -> None:
    matrix = np.full((200, 2), 2**28)
    assert Contrasts(Marginal(SCHEMA, ["c0"]), [matrix]).gains == (2**28, 200 * 2**28, 200 * 2**56)


def test_contrasts_too_heavy_to_add_exactly_are_refused() -> None:
    schema = Schema([Category(f"c{i}", [str(level) for level in range(20)]) for i in range(7)])
    assert math.prod(int(np.abs(helmert(20, 1)).max()) for _ in range(7)) > 2**28
    with pytest.raises(QueryError, match=r"weights of these contrasts exceed|more than"):
        residual(schema, schema.names)
    with pytest.raises(QueryError, match="weights of these contrasts exceed"):
        Contrasts(Marginal(SCHEMA, ["c0", "c3"]), [np.full((1, 2), 2**20)] * 2)
    shared = residual(SCHEMA, ("c1",)).matrices[0]
    with pytest.raises(ValueError, match="read-only"):
        shared[0, 0] = 7
