"""Counts of privacy units at the wall: exact, once in every cell, and no more lost than was charged."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import neighbours_of, one_contribution, patched, table_of
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.curator.compiled import UnitsCounted
from maquette.errors import QueryError
from maquette.privacy import UNITS_PER_ONE, Relation
from maquette.query import Buckets, LinearQuery, Moves, UnitCounts
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Category("region", ["n", "s", "e"]), Boolean("a")])
POINTS = [("n", True), ("s", True), ("e", False)]
BASE = ((POINTS[0],), (POINTS[1], POINTS[2]))
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
SETTINGS = [(relation, m) for m in (2, 3) for relation in ("add-remove", "replace")]


def asked() -> list[UnitCounts]:
    some = Buckets("k", ("n",), (mq.where(SCHEMA, "region = 'n'"),))
    return [
        UnitCounts(SCHEMA),
        UnitCounts(SCHEMA, ["region"]),
        UnitCounts(SCHEMA, ["region", "a"]),
        UnitCounts(SCHEMA, ["region"], mq.where(SCHEMA, "a")),
        UnitCounts(SCHEMA, [], mq.where(SCHEMA, "region <> 'n'")),
        UnitCounts(SCHEMA, [some]),
    ]


def gate(settings: Any = tuple(SETTINGS)) -> None:
    """On every pair of neighbours the values differ by no more than the noise that was paid for hides."""
    for (relation, m), (law, budget) in itertools.product(settings, BUDGETS.items()):

        @functools.cache
        def seen(units: Any, relation: Any = relation, m: int = m, budget: mq.Budget = budget) -> Any:
            noise = ScriptedNoise([0] * 99)
            with Curator(table_of(SCHEMA, units, m), budget, relation=relation, noise=noise) as curator:
                price: dict[str, Any] = {"epsilon": 0.7} if budget.accounting == "pure" else {"rho": 0.7}
                released = [curator.measure(question, **price) for question in asked()]
                charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
            return [np.ravel(measured.values) for measured in released], noise.calls, charges

        for one, other in neighbours_of(BASE, POINTS, relation, m):
            (first, calls, charges), (second, others, _) = seen(one), seen(other)
            assert calls == others, "the noise asked for depends on the rows"
            for a, b, call, charged in zip(first, second, calls, charges, strict=True):
                shift, scale = np.abs(a - b), float(call.scale)
                lost = shift.sum() / scale if law == "laplace" else (shift**2).sum() / (2 * scale)
                assert lost <= charged * (1 + 1e-9), f"{relation}, m={m}, {law}: lost {lost}, charged {charged}"


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting[0]}-{setting[1]}")
def test_counts_of_units_lose_no_more_than_they_are_charged(setting: Any) -> None:
    gate([setting])


def _rows_are_counted() -> Any:
    """Every row adds one, although the price is that of units."""

    def values(self: UnitsCounted, engine: Any) -> np.ndarray:
        total = np.zeros(self.cells + 1, dtype=np.int64)
        for records, _ in engine.units():
            places = np.where(self.weigh(records) == 1, self.place(records), self.cells)
            np.add.at(total, places, 1)
        return total[:-1].reshape(self.shape)

    return patched(UnitsCounted, "values", values)


def _one_cell_is_paid_for() -> Any:
    return patched(Relation, "_entered", lambda self, moves: 1)


def _replace_as_add_remove() -> Any:
    return patched(Relation, "_entered", lambda self, moves: min(self.max_contributions, moves.cells))


def _root_of_the_cells() -> Any:
    return patched(Relation, "_entered", lambda self, moves: max(1, int(self.max_contributions**0.5)))


def _twice() -> Any:
    original = UnitsCounted.values
    return patched(UnitsCounted, "values", lambda self, engine: 2 * original(self, engine))


def _as_rows() -> Any:
    """Units are priced as if they were rows of one cell."""
    return patched(UnitCounts, "moves", property(lambda self: Moves(0, 1, 1, everywhere=False, once=True)))


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], tuple[str, int]]] = {
    "rows are counted at the price of units": (_rows_are_counted, ("add-remove", 2)),
    "one cell is paid for": (_one_cell_is_paid_for, ("add-remove", 2)),
    "replace of units as add-remove": (_replace_as_add_remove, ("replace", 2)),
    "the root of the cells is paid for": (_root_of_the_cells, ("add-remove", 3)),
    "a unit is counted twice": (_twice, ("add-remove", 2)),
    "groups of units are priced as one": (_as_rows, ("add-remove", 2)),
    "counts of units ignore contributions": (one_contribution, ("add-remove", 3)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_unit_mutant_is_killed(mutant: str) -> None:
    broken, setting = MUTANTS[mutant]
    with broken(), pytest.raises(AssertionError):
        gate([setting])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("memory_limit", [2**30, 0], ids=["memory", "duckdb"])
def test_units_are_those_of_a_plain_loop(memory_limit: int) -> None:
    rng = np.random.default_rng(5)
    rows = [
        (int(person), *POINTS[i]) for person, i in zip(rng.integers(0, 60, 200), rng.integers(0, 3, 200), strict=True)
    ]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("person", "region", "a"))}
    table = mq.open_table(columns, SCHEMA, privacy_unit="person", max_contributions=50, memory_limit=memory_limit)
    with Curator(table, BUDGETS["laplace"], noise=ScriptedNoise([0] * 99)) as curator:
        found = [curator.measure(question, epsilon=1.0).values for question in asked()]
    persons = {((region, a), name) for name, region, a in rows}
    assert int(found[0]) == len({name for _, name in persons})
    by_region = [len({name for place, name in persons if place[0] == region}) for region in "nse"]
    assert found[1].tolist() == by_region
    assert found[3].tolist() == [len({n for place, n in persons if place == (r, True)}) for r in "nse"]
    assert int(found[4]) == len({name for place, name in persons if place[0] != "n"})
    assert found[5].tolist() == by_region[:1]


def test_a_table_that_does_not_know_its_units_refuses_before_any_charge(tmp_path: Any) -> None:
    columns = {"person": [1, 1, 2], "region": ["n", "s", "e"], "a": [True, False, True]}
    arguments: dict[str, Any] = {"privacy_unit": "person", "max_contributions": 2}
    shelved = mq.open_table(columns, SCHEMA, planes=tmp_path, memory_limit=0, **arguments)
    for table in (shelved, mq.open_table({"region": ["n"], "a": [True]}, SCHEMA)):
        with Curator(table, BUDGETS["laplace"]) as curator:
            with pytest.raises(QueryError, match="does not know which rows"):
                curator.measure(UnitCounts(SCHEMA), epsilon=1.0)
            assert curator.spent.epsilon == 0


def test_units_are_counted_where_a_predicate_holds() -> None:
    with pytest.raises(QueryError, match="predicate"):
        UnitCounts(SCHEMA, [], LinearQuery.product(SCHEMA, {"a": [0.5, 1.0]}))
