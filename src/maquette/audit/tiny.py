"""A universe of six points on which every neighbour is tried: people with up to three rows, under both relations."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from maquette.audit.benches import Bench, Relation, Unit, open_units
from maquette.curator import PrivateTable
from maquette.privacy import Budget
from maquette.query import Buckets, Contrasts, Keys, LinearQuery, Marginal, additive, lookup, where
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["x", "y", "z"])])
POINTS = tuple(itertools.product(range(2), range(3)))
BASE: tuple[Unit, ...] = (((0, 0),), ((1, 2),))
PURE, ZCDP = Budget(epsilon=9e3), Budget(rho=1e3, delta=1e-9)
SETTINGS: tuple[tuple[Relation, int], ...] = (
    ("add-remove", 1),
    ("replace", 1),
    ("add-remove", 2),
    ("replace", 2),
    ("replace", 3),
)


def asked(text: str) -> LinearQuery:
    """A condition on the tiny universe."""
    return where(SCHEMA, text)


THIRDS = LinearQuery.product(SCHEMA, {"b": [0.25, 1 / 3, 0.9]})
QUESTIONS: tuple[Any, ...] = (
    Marginal(SCHEMA),
    asked("a AND b = 'x'"),
    Marginal(SCHEMA, ["b", "a"]),
    Marginal(SCHEMA, ["a"], THIRDS),
    THIRDS,
    Marginal(SCHEMA, [Buckets("k", ("one", "two"), (asked("a"), asked("NOT a AND b IN ('x', 'y')")))]),
    Marginal(SCHEMA, [Buckets("k", ("one",), (asked("a"),))]),
    Marginal(SCHEMA, [Buckets("k", ("one",), (asked("a"),))], THIRDS),
    additive(SCHEMA, {"a": [0.2, 1], "b": [0.5, 1, 0.1]}),
    lookup(SCHEMA, [{"a": True, "b": "x"}, {"a": False, "b": "z"}], weights=[0.5, 1.0]),
    Keys(SCHEMA, [{"a": True, "b": "x"}, {"a": False, "b": "z"}, {"a": True, "b": "z"}]),
    Contrasts(Marginal(SCHEMA, ["a", "b"]), [np.array([[1, -1]]), np.array([[2, -1, -1], [0, 3, -3]])]),
    Contrasts(Marginal(SCHEMA, ["b"], THIRDS), [np.array([[-2, 1, 2]])]),
)
SEVERAL = (QUESTIONS[2], QUESTIONS[1], QUESTIONS[3])
ANSWERS = (np.full((3, 2), 0.4), np.array(1.0), np.array([0.3, 0.6]))
# As in the check of a release: sets of levels that overlap, so that one row is in several questions of a table.
FAMILY = (
    Contrasts(Marginal(SCHEMA, ["a", "b"]), [np.array([[1, 1], [0, 1]]), np.array([[1, 1, 0], [0, 1, 1], [0, 1, 0]])]),
    Contrasts(Marginal(SCHEMA, ["b"]), [np.array([[1, 1, 0], [1, 0, 0]])]),
)
FAMILY_ANSWERS = (np.full((2, 3), 9.0), np.array([0.0, 0.0]))


@functools.cache
def tiny_table(units: tuple[Unit, ...], contributions: int) -> PrivateTable:
    """A table of people, opened once."""
    return open_units(SCHEMA, units, contributions, in_memory=True)


def bench(units: tuple[Unit, ...], contributions: int, budget: Budget, relation: Relation) -> Bench:
    """A curator of a tiny table."""
    return Bench(tiny_table(units, contributions), units, budget, relation)


def neighbours(relation: Relation, contributions: int) -> Iterator[tuple[tuple[Unit, ...], tuple[Unit, ...]]]:
    """Pairs of tables with the other units fixed: counts are linear, so these are all possible differences.

    A unit with two rows or more holds one point several times, or two points once.
    """
    units: list[Unit] = [(p,) * size for size in range(1, contributions + 1) for p in POINTS]
    if contributions > 1:
        units += [(POINTS[0], POINTS[4]), (POINTS[2], POINTS[5])]
    if relation == "add-remove":
        yield from ((BASE, (*BASE, unit)) for unit in units)
    else:
        yield from (((*BASE, one), (*BASE, other)) for one, other in itertools.combinations(units, 2))
