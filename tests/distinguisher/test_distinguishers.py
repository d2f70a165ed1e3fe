"""Distinguishers: the right cell, the right direction, and a solver that agrees with enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS, Distinguisher, Pointed, distinguisher_of, widest_conjunction
from maquette.errors import QueryError
from maquette.privacy import Accountant
from maquette.query import LinearQuery, Marginal

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"]), mq.Boolean("c")])


def people() -> dict[str, Any]:
    return {"a": [True] * 30 + [False] * 10, "b": ["x"] * 30 + ["z"] * 10, "c": [True, False] * 20}


class Careful:
    """A distinguisher of someone else's, out of the doors that there are."""

    def point(self, curator: Curator, tables: Any, answers: Any, **price: Any) -> Pointed:
        worst = curator.select_worst(tables, answers, mechanism="permute-and-flip", **price)
        return Pointed(tables[worst.index].query(worst.cell or ()), None, worst.cost)

    def error(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        return 2 * moves / accountant.pure_epsilon(units) * math.log(queries / gamma) + 1


EVERY: dict[str, Distinguisher] = {**DISTINGUISHERS, "someone else's": Careful()}


@pytest.mark.parametrize("name", EVERY)
def test_a_generous_budget_points_at_the_largest_error(name: str) -> None:
    """At epsilon 200 the next candidate, 20 rows behind, has probability below exp(-2000)."""
    tables = [Marginal(SCHEMA, ["a", "b"]), Marginal(SCHEMA, ["c"])]
    public = [np.zeros((2, 3)), np.array([20.0, 20.0])]
    public[0][0, 2] = 5.0
    with Curator(mq.open_table(people(), SCHEMA), mq.Budget(epsilon=1000.0)) as curator:
        pointed = EVERY[name].point(curator, tables, public, epsilon=200.0)
        assert pointed.query == mq.where(SCHEMA, "a AND b = 'x'")
        assert pointed.sign == (1 if name == "signed" else None)
        public[0][1, 0] = 90.0
        pointed = EVERY[name].point(curator, tables, public, epsilon=200.0)
        assert pointed.query == mq.where(SCHEMA, "a AND b = 'x'")
        assert pointed.sign == (-1 if name == "signed" else None)
        assert curator.spent.epsilon == pytest.approx(400.0)


@pytest.mark.parametrize("name", EVERY)
def test_more_budget_and_fewer_queries_point_more_precisely(name: str) -> None:
    accountant = mq.Budget(epsilon=1.0).accountant

    def error(units: int = 10**9, queries: int = 100, moves: int = 1, gamma: float = 0.01) -> float:
        return EVERY[name].error(accountant, units=units, queries=queries, moves=moves, gamma=gamma)

    assert 0 < error(units=2 * 10**9) < error() < error(queries=1000)
    assert error() < min(error(moves=2), error(gamma=0.001))


def test_objects_are_distinguishers_and_others_are_refused() -> None:
    careful = EVERY["someone else's"]
    assert distinguisher_of(careful) is careful
    assert distinguisher_of("signed") is DISTINGUISHERS["signed"]
    with pytest.raises(QueryError, match="is not a distinguisher; expected an object with `point` and `error`"):
        distinguisher_of(object())  # type: ignore[arg-type]
    with Curator(mq.open_table(people(), SCHEMA), mq.Budget(epsilon=40.0)) as curator:
        workload = mq.marginals(SCHEMA, k=1)
        release = mq.release(
            curator,
            workload,
            method="iterative-construction",
            hypothesis="perceptron",
            distinguisher=careful,
            rows=10**9,
        )
    assert release.certificate.accuracy is not None


@pytest.mark.thorough(fast=7)
@pytest.mark.parametrize("literals", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_solver_finds_what_enumeration_finds(literals: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = np.stack([rng.integers(0, column.size, 40) for column in SCHEMA], axis=1)
    weights = rng.normal(size=40)
    found = widest_conjunction(SCHEMA, records, weights, literals=literals)
    gaps = []
    for names in itertools.combinations(SCHEMA.names, literals):
        for levels in itertools.product(*(range(SCHEMA[name].size) for name in names)):
            factors = {n: np.arange(SCHEMA[n].size) == v for n, v in zip(names, levels, strict=True)}
            gaps.append(abs(float(LinearQuery.product(SCHEMA, factors).evaluate(records) @ weights)))
    assert found.optimal
    assert len(found.literals) == literals
    assert abs(found.gap) == pytest.approx(max(gaps))
    assert found.gap == pytest.approx(float(found.query.evaluate(records) @ weights))


def test_the_solver_refuses_what_makes_no_sense() -> None:
    with pytest.raises(QueryError, match="1 to 3"):
        widest_conjunction(SCHEMA, np.zeros((2, 3), dtype=np.int32), np.ones(2), literals=4)
    with pytest.raises(QueryError, match="encoded records"):
        widest_conjunction(SCHEMA, np.zeros((2, 2), dtype=np.int32), np.ones(2), literals=1)
