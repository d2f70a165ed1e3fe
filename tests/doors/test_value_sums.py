"""Sums of values at the wall: exact, clamped row by row, and no more lost on any neighbour than was charged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from gate_tools import lose_no_more_than_charged, one_contribution, patched
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, compile as compile_module
from maquette.curator.compiled import Valued
from maquette.curator.engines import encoded
from maquette.errors import QueryError
from maquette.query import Buckets, Moves, ValueSums
from maquette.schema import Boolean, Integer, Number, Schema

SCHEMA = Schema([
    Integer("gain", -20, 99, width=40, atoms=[0], nullable=True, missing=["?"]),
    Number("score", edges=[0, 1, 5], precision=1),
    Boolean("a"),
])  # fmt: skip
POINTS = [("-50", "0.3", True), ("0", "9", False), ("77", "4.96", True), ("?", "0", False), ("120", "2.5", True)]
BASE = ((POINTS[0],), (POINTS[3],))
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
SETTINGS = [("add-remove", 1), ("replace", 1), ("add-remove", 2), ("replace", 2), ("add-remove", 3), ("replace", 3)]
FEW = [POINTS[0], POINTS[3], POINTS[4]]  # the least value, a missing one, the largest


def asked() -> list[ValueSums]:
    holds = mq.where(SCHEMA, "a")
    kept = Buckets("k", ("zero",), (mq.where(SCHEMA, "gain = 0"),))
    return [
        ValueSums(SCHEMA, "gain"),
        ValueSums(SCHEMA, "gain", low=-3, high=10, axes=["a"]),
        ValueSums(SCHEMA, "gain", centre=40, where=holds),
        ValueSums(SCHEMA, "gain", centre=-60),
        ValueSums(SCHEMA, "score", centre=25),
        ValueSums(SCHEMA, "score", low=10, high=30, centre=20, axes=["a"], where=mq.where(SCHEMA, "gain > 0")),
        ValueSums(SCHEMA, "score", axes=[kept]),
    ]


def gate(cells: int = 2**22, settings: Any = tuple(SETTINGS)) -> None:
    """`cells` decides whether sums of cells or records are visited."""
    with mock.patch("maquette.curator.compile.FEW_CELLS", cells):
        for relation, m in settings:
            points = POINTS if m < 3 else FEW
            lose_no_more_than_charged(SCHEMA, asked(), BASE, points, [(relation, m)])


@pytest.mark.thorough
@pytest.mark.parametrize("cells", [2**22, 0], ids=["cells", "records"])
def test_sums_of_values_lose_no_more_than_they_are_charged(cells: int) -> None:
    gate(cells)


def _not_clamped() -> Any:
    return patched(encoded, "clamped", lambda values, amount: values.astype(np.int64) - amount.centre)


def _centre_not_in_the_price() -> Any:
    original = ValueSums.moves.fget  # type: ignore[attr-defined]

    def moves(self: ValueSums) -> Moves:
        known = original(self)
        return Moves(self.low, self.high, known.cells, everywhere=known.everywhere)

    return patched(ValueSums, "moves", property(moves))


def _narrow_price() -> Any:
    original = compile_module.Valued

    def priced(**named: Any) -> Valued:
        moves = named["moves"]
        half = Moves(moves.low // 2, moves.high // 2, moves.cells, everywhere=moves.everywhere)
        return original(**{**named, "moves": half})

    return patched(compile_module, "Valued", priced)


def _missing_is_a_number() -> Any:
    """The mark of a missing value is added up."""
    return patched(encoded, "clamped", lambda values, amount: values.astype(np.int64))


def _in_two_cells() -> Any:
    original = Valued.values

    def doubled(self: Valued, engine: Any) -> np.ndarray:
        summed = original(self, engine)
        return summed + summed.sum() if summed.size > 1 else summed

    return patched(Valued, "values", doubled)


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "values are not clamped": _not_clamped,
    "the centre is not in the price": _centre_not_in_the_price,
    "half the range is paid for": _narrow_price,
    "the mark of a missing value is added": _missing_is_a_number,
    "a row's value is in every cell": _in_two_cells,
    "sums of values ignore contributions": one_contribution,
}


CASES = [(name, setting) for name in MUTANTS for setting in SETTINGS if setting[1] > 1 or "contributions" not in name]


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize(("mutant", "setting"), CASES, ids=str)
def test_value_mutant_is_killed(mutant: str, setting: tuple[str, int]) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        gate(settings=[setting])


def plainly(rows: list[tuple[Any, ...]], question: ValueSums) -> list[int]:
    """One row at a time, in Python."""
    place = SCHEMA.position(question.column)
    records = SCHEMA.encode({name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)})
    total = np.zeros(question.shape, dtype=np.int64)
    cells = dict(question.queries())
    for row, record in zip(rows, records, strict=True):
        if row[place] == "?":
            continue
        grid = SCHEMA[question.column].value_grid
        assert grid is not None
        value = max(min(round(float(row[place]) / float(grid.step)), question.high), question.low) - question.centre
        for cell, query in cells.items():
            total[cell] += round(float(query.evaluate(record[None, :])[0])) * value
    return [int(number) for number in np.ravel(total)]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("cells", [2**22, 0], ids=["cells", "records"])
@pytest.mark.parametrize("memory_limit", [2**30, 0], ids=["memory", "duckdb"])
def test_sums_are_those_of_a_plain_loop(memory_limit: int, cells: int) -> None:
    rng = np.random.default_rng(3)
    rows = [POINTS[i] for i in rng.integers(0, len(POINTS), 200)]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)}
    table = mq.open_table(columns, SCHEMA, memory_limit=memory_limit)
    noise = ScriptedNoise([0] * 99)
    with (
        mock.patch("maquette.curator.compile.FEW_CELLS", cells),
        Curator(table, BUDGETS["laplace"], noise=noise) as curator,
    ):
        assert curator.keeps_values
        for question in asked():
            assert np.ravel(curator.measure(question, epsilon=1.0).values).tolist() == plainly(rows, question)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("memory_limit", [2**30, 0], ids=["memory", "duckdb"])
def test_the_values_kept_of_a_person_do_not_depend_on_the_order_of_rows(memory_limit: int) -> None:
    schema = Schema([Integer("gain", 0, 999, width=1000)])
    rows = [(person, value) for person in "abc" for value in (1, 20, 300, 4, 5)]
    sums = set()
    for order in (rows, rows[::-1], sorted(rows, key=lambda row: row[1])):
        columns = {"person": [row[0] for row in order], "gain": [row[1] for row in order]}
        table = mq.open_table(columns, schema, privacy_unit="person", max_contributions=2, memory_limit=memory_limit)
        with Curator(table, BUDGETS["laplace"], noise=ScriptedNoise([0] * 9)) as curator:
            sums.add(float(curator.measure(ValueSums(schema, "gain"), epsilon=1.0).values))
    assert len(sums) == 1


def test_a_table_without_values_refuses_before_any_charge() -> None:
    from gate_tools import Rows
    from maquette.curator import table_of as handle

    engine = Rows(SCHEMA, [[0, 0, 0]])
    engine.fingerprint = "public"
    with Curator(handle(engine), BUDGETS["laplace"]) as curator:
        assert not curator.keeps_values
        with pytest.raises(QueryError, match="keeps no values"):
            curator.measure(ValueSums(SCHEMA, "gain"), epsilon=1.0)
        assert curator.spent.epsilon == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"column": "a"}, "no values beside its levels"),
        ({"column": "gain", "low": 5, "high": 4}, "values run from"),
        ({"column": "gain", "centre": 2**40}, "exceed"),
        ({"column": "gain", "centre": 0.5}, "values run from"),
        ({"column": "gain", "low": 2**70, "high": 2**70 + 1, "centre": 2**70}, "exceed"),  # it was charged, then failed
    ],
)
def test_bad_sums_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ValueSums(SCHEMA, **settings)
