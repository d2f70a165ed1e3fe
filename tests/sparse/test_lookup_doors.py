"""Look-ups at the wall: the exact loss on all neighbours is within the charge, by counts and by records."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.curator.compiled import AtPoints
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Keys, lookup
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["x", "y", "z"])])
POINTS = [(a, b) for a in (False, True) for b in "xyz"]
LISTED = [{"a": True, "b": "x"}, {"a": True, "b": "z"}, {"a": False, "b": "y"}]
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
BASE = ((False, "x"), (True, "z"))


@functools.cache
def table(rows: tuple[tuple[bool, str], ...]) -> mq.PrivateTable:
    return mq.open_table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]}, SCHEMA)


def neighbours(relation: str) -> Iterator[tuple[Any, Any]]:
    if relation == "add-remove":
        yield from ((BASE, (*BASE, point)) for point in POINTS)
    else:
        yield from (((*BASE, one), (*BASE, other)) for one, other in itertools.permutations(POINTS, 2))


def gate(cells: int) -> None:
    """`cells` decides whether counts or records are visited."""
    for relation, (law, budget) in itertools.product(("add-remove", "replace"), BUDGETS.items()):

        @functools.cache
        def seen(rows: Any, relation: Any = relation, budget: mq.Budget = budget) -> Any:
            noise = ScriptedNoise([0] * 99)
            with Curator(table(rows), budget, relation=relation, noise=noise) as curator:
                price: dict[str, Any] = {"epsilon": 0.7} if budget.accounting == "pure" else {"rho": 0.7}
                weighted = lookup(SCHEMA, LISTED, weights=[0.25, 1.0, 1 / 3])
                asked: list[Any] = [
                    Keys(SCHEMA, LISTED),
                    Keys(SCHEMA, LISTED[0]),
                    lookup(SCHEMA, LISTED),
                    weighted,
                ]
                released = [m for q in asked for m in [curator.measure(q, **price)]]
                charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
            return [np.ravel(m.values) * m.question.grid for m in released], noise.calls, charges

        with mock.patch("maquette.curator.compile.FEW_CELLS", cells):
            tight = 0.0
            for one, other in neighbours(relation):
                (first, calls, charges), (second, others, _) = seen(one), seen(other)
                assert calls == others
                for a, b, call, charged in zip(first, second, calls, charges, strict=True):
                    shift, scale = np.abs(a - b), float(call.scale)
                    lost = shift.sum() / scale if law == "laplace" else (shift**2).sum() / (2 * scale)
                    assert lost <= charged * (1 + 1e-9), f"{relation}, {law}: lost {lost}, charged {charged}"
                    tight = max(tight, lost / charged)
            assert tight > 0.99


@pytest.mark.parametrize("cells", [2**22, 0], ids=["counts", "records"])
def test_lookups_lose_no_more_than_they_are_charged(cells: int) -> None:
    gate(cells)


_values = AtPoints.values


def _keys_listed_twice() -> Any:
    """A row that falls into two cells."""

    def doubled(self: AtPoints, engine: Any) -> np.ndarray:
        counted = _values(self, engine)
        return counted + np.roll(counted, 1) if self.weights is None else counted

    return mock.patch.object(AtPoints, "values", doubled)


def _rows_matched_to_several_keys() -> Any:
    def values(self: AtPoints, engine: Any) -> np.ndarray:
        if self.weights is not None:
            return _values(self, engine)
        matched = [self.points[:, 0] == record[0] for records in engine.blocks() for record in records]
        return np.asarray(np.sum(matched, axis=0, dtype=np.int64, initial=0))

    return mock.patch.object(AtPoints, "values", values)


def _weights_beyond_one() -> Any:
    def values(self: AtPoints, engine: Any) -> np.ndarray:
        counted = _values(self, engine)
        return counted if self.weights is None else 2 * counted

    return mock.patch.object(AtPoints, "values", values)


MUTANTS: dict[str, tuple[Callable[[], Any], int]] = {
    "keys listed twice": (_keys_listed_twice, 2**22),
    "rows matched to several keys": (_rows_matched_to_several_keys, 0),
    "weights beyond one": (_weights_beyond_one, 2**22),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_lookup_mutant_is_killed(mutant: str) -> None:
    breaking, cells = MUTANTS[mutant]
    with breaking(), pytest.raises(AssertionError):
        gate(cells)
