"""Every aggregate of SQL through the whole way down: on all neighbours, at the extremes of the declared ranges too, the
measured numbers differ by no more than what was charged hides. Exact, with noise off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import neighbours_of, one_contribution, patched, table_of
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.privacy import UNITS_PER_ONE, Relation
from maquette.schema import Boolean, Category, Integer, Schema

SCHEMA = Schema([Integer("x", -3, 9, width=4), Integer("y", 0, 2), Category("g", ["a", "b"])])
POINTS = [("-3", "0", "a"), ("9", "2", "b"), ("2", "1", "a"), ("-99", "99", "b")]  # ends, inside, beyond both ends
BASE = ((POINTS[0],), (POINTS[2], POINTS[1]))
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
STATEMENTS = {
    "median": "SELECT median(y) FROM t",
    "quantile": "SELECT g, quantile_disc(y, 0.9) AS q FROM t GROUP BY g",
    "extreme quantile": "SELECT quantile_disc(x, 0.99) AS q FROM t",
    "variance": "SELECT var_samp(x) FROM t",
    "deviation": "SELECT g, stddev_pop(x) AS s FROM t GROUP BY g",
    "covariance": "SELECT covar_samp(x, y) FROM t",
    "correlation": "SELECT corr(x, y) FROM t",
    "moments": "SELECT count(*), avg(x), avg(x * x) AS second, avg(x * x * x) AS third FROM t",
    "top-k": "SELECT x, count(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 2",
    "histogram": "SELECT x, y, count(*) AS n FROM t GROUP BY x, y",
    "distribution": "SELECT x, sum(count(*)) OVER (ORDER BY x) AS below FROM t GROUP BY x",
    "weights": "SELECT sum(CASE WHEN g = 'a' THEN x ELSE -y END) AS s, avg(y > 0) AS share FROM t",
    "rollup": "SELECT g, y, count(*), sum(x) FROM t GROUP BY ROLLUP (g, y)",
    "between cuts": "/* cuts = between */ SELECT g, count(*) AS n FROM t WHERE x > 2 GROUP BY g",
    "people": "SELECT count(DISTINCT person) FROM t",
    "people by group": "SELECT g, count(DISTINCT person) AS n FROM t WHERE y > 0 GROUP BY g",
}
SETTINGS = [(relation, m) for m in (1, 2, 3) for relation in ("add-remove", "replace")]


def gate(text: str, relation: Any, m: int, laws: Any = tuple(BUDGETS)) -> None:
    """The loss between any two neighbours is at most the charge."""
    for law in laws:
        budget = BUDGETS[law]

        @functools.cache
        def seen(units: Any, budget: mq.Budget = budget) -> Any:
            noise = ScriptedNoise([0] * 999)
            with Curator(table_of(SCHEMA, units, m), budget, relation=relation, noise=noise) as curator:
                price: dict[str, Any] = {"epsilon": 0.7} if budget.accounting == "pure" else {"rho": 0.7}
                mq.answer(curator, text, **price)
                (charge,) = curator.ledger.charges()
                released = curator.recall(charge.id)
            assert released is not None
            return [np.ravel(values) for values in released], noise.calls, charge.units / UNITS_PER_ONE

        for one, other in neighbours_of(BASE, POINTS, relation, m):
            (first, calls, charged), (second, others, _) = seen(one), seen(other)
            assert calls == others, "the noise asked for depends on the rows"
            lost = 0.0
            for a, b, call in zip(first, second, calls, strict=True):
                shift, scale = np.abs(a.astype(float) - b), float(call.scale)
                lost += shift.sum() / scale if law == "laplace" else (shift**2).sum() / (2 * scale)
            assert lost <= charged * (1 + 1e-9), f"{relation}, m={m}, {law}: lost {lost}, charged {charged}"


def kinds(m: int) -> list[str]:
    return [name for name in STATEMENTS if m > 1 or not name.startswith("people")]


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("name", kinds(1))
def test_an_aggregate_loses_no_more_than_it_is_charged(name: str) -> None:
    gate(STATEMENTS[name], "add-remove", 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("relation", "m"), SETTINGS[1:], ids=str)
def test_every_aggregate_loses_no_more_than_it_is_charged(relation: str, m: int) -> None:
    for name in kinds(m):
        gate(STATEMENTS[name], relation, m, laws=("gaussian",) if m == 3 else tuple(BUDGETS))


def _as_add_remove(name: str) -> Any:
    sound = getattr(Relation, name)
    return patched(Relation, name, lambda self, m: sound(Relation("add-remove", self.max_contributions), m))


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str, str, int, str]] = {
    "a quantile ignores contributions": (one_contribution, "median", "add-remove", 2, "gaussian"),
    "a variance ignores contributions": (one_contribution, "variance", "add-remove", 2, "laplace"),
    "a histogram under replace as add-remove (L2)": (
        lambda: _as_add_remove("l2_squared"), "histogram", "replace", 1, "gaussian",
    ),
    "a histogram under replace as add-remove (L1)": (
        lambda: _as_add_remove("l1"), "histogram", "replace", 1, "laplace",
    ),
    "people by group pay for one group": (
        lambda: patched(Relation, "_entered", lambda self, moves: 1), "people by group", "add-remove", 2, "laplace",
    ),
}  # fmt: skip


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_sql_mutant_is_killed(mutant: str) -> None:
    broken, name, relation, m, law = MUTANTS[mutant]
    with broken(), pytest.raises(AssertionError):
        gate(STATEMENTS[name], relation, m, laws=[law])


def test_a_boolean_column_is_no_special_case() -> None:
    schema = Schema([Boolean("b"), Integer("y", 0, 2)])
    with Curator(table_of(schema, (((True, 1),), ((False, 2),)), 1), BUDGETS["laplace"]) as curator:
        assert mq.answer(curator, "SELECT avg(b) AS share, corr(y, y) AS one FROM t", epsilon=5.0).numbers
