"""Intervals: they hold as often as they say, from the exact laws of the noise and over seeded releases."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_checks import BUDGETS, SCHEMA, Seeded, covered, exact, open_records, records, released, table_of

import maquette as mq
from maquette.audit.reference import discrete_gaussian, discrete_laplace
from maquette.curator import Measurement
from maquette.errors import QueryError
from maquette.estimates.residuals import Residuals
from maquette.estimates.tables import Tables
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Loss
from maquette.query import LinearQuery, Marginal, residual
from maquette.schema import Schema

FREE = Loss(epsilon=0.0, delta=0.0, rho=0.0, units=0, currency="zcdp")
BIT = Schema([mq.Boolean("bit")])
CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)
REACH = 4000
GRID = np.arange(-REACH, REACH + 1)

Event = DiscreteGaussian | DiscreteLaplace


def event(law: str, size: float) -> Event:
    return (
        DiscreteGaussian(Fraction(size), Fraction(1))
        if law == "gaussian"
        else DiscreteLaplace(Fraction(size), Fraction(1))
    )


def law_of(noise: Event) -> np.ndarray:
    if isinstance(noise, DiscreteGaussian):
        return discrete_gaussian(GRID, float(noise.variance))
    return discrete_laplace(GRID, float(noise.scale))


def within(law: np.ndarray, width: float) -> float:
    """P(|Z| <= width) for a law on a grid with its centre in the middle."""
    reach = (len(law) - 1) // 2
    places = np.arange(-reach, reach + 1)
    return float(law[np.abs(places) <= width + 1e-9].sum())


@pytest.mark.thorough(fast=14)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [0.05, 0.1, 0.2, 0.34, 0.5, 1.0, 2.0, 3.7, 10.0, 90.0])
def test_one_cell_and_sums_of_cells_hold_exactly(law: str, size: float) -> None:
    """One cell, the whole table (two noises), and half of each (whose steps are half a row)."""
    noise = event(law, size)
    tables = Tables(BIT, [Measurement(Marginal(BIT, ["bit"]), np.zeros(2), noise, FREE)])
    one, two = law_of(noise), np.convolve(law_of(noise), law_of(noise))
    for confidence in CONFIDENCES:
        assert within(one, tables.estimate(np.array([1.0, 0.0]), ("bit",)).half_width(confidence)) >= confidence
        assert within(two, tables.estimate(np.array([1.0, 1.0]), ("bit",)).half_width(confidence)) >= confidence
        assert within(two, 2 * tables.estimate(np.array([0.5, 0.5]), ("bit",)).half_width(confidence)) >= confidence


@pytest.mark.thorough(fast=15)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("sizes", list(itertools.product([0.1, 0.5, 2.0, 30.0], repeat=2)))
def test_sums_of_residuals_hold_exactly(law: str, sizes: tuple[float, float]) -> None:
    """A count from a total and a contrast: half the sum of two noises of different size."""
    residuals = Residuals(BIT)
    residuals.add(Measurement(Marginal(BIT), np.zeros(()), event(law, sizes[0]), FREE))
    residuals.add(Measurement(residual(BIT, ["bit"]), np.zeros(1), event(law, sizes[1]), FREE))
    two = np.convolve(law_of(event(law, sizes[0])), law_of(event(law, sizes[1])))
    for confidence in CONFIDENCES:
        estimate = residuals.estimate(np.array([0.0, 1.0]), ("bit",))
        assert within(two, 2 * estimate.half_width(confidence)) >= confidence
    wide = residuals.estimate(np.array([0.0, 1.0]), ("bit",))
    if law == "gaussian" and max(sizes) == 30.0:
        assert within(two, 2 * wide.half_width(0.95)) < 0.975, "no wider than it must be"


ROWS = 400
QUESTIONS = [mq.where(SCHEMA, text) for text in ("smoker", "region = 's' AND age >= 20", "smoker OR region = 'n'")]
SQL = "SELECT count(*), sum(age), avg(age) FROM t WHERE region = 's'"


@functools.cache
def rows_of() -> np.ndarray:
    return records(SCHEMA, ROWS)


@functools.cache
def truths() -> list[float]:
    """The exact numbers that QUESTIONS and SQL ask for, by plain numpy on midpoints of bins."""
    chosen = rows_of()[:, 1] == 2
    middles = np.asarray(SCHEMA["age"].midpoints)[rows_of()[:, 2]][chosen]
    return [*(exact(q, rows_of()) / ROWS for q in QUESTIONS), chosen.sum(), middles.sum(), middles.mean()]


def answers_of(ask: Callable[[Any], mq.Answered]) -> list[mq.Answer]:
    """The answers to QUESTIONS and the three of SQL."""
    return [number for asked in (*QUESTIONS, SQL) for number in ask(asked).numbers]


CASES = [
    ("everything", "zcdp", "add-remove"),
    ("everything", "pure", "replace"),
    ("gaussian", "gdp", "add-remove"),
    ("gaussian", "zcdp", "replace"),
    ("laplace", "pure", "add-remove"),
    ("laplace", "zcdp", "replace"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "currency", "relation"), CASES)
def test_answers_of_a_release_hold(method: str, currency: str, relation: Any) -> None:
    """At 80% a wrong interval shows soonest: 400 releases, predicates and SQL alike."""
    settings = {"steps": 3} if method == "everything" else {}

    def intervals(seed: int) -> list[tuple[float, float, float]]:
        noise = Seeded(seed)
        made = released(method, table_of(SCHEMA, ROWS), BUDGETS[currency], noise, relation=relation, **settings)
        answers = answers_of(lambda asked: made.answer(asked, confidence=0.8))
        return [(a.low, truth, a.high) for a, truth in zip(answers, truths(), strict=True)]

    covered(400, 0.8, intervals)


@pytest.mark.thorough
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_direct_answers_hold(currency: str, relation: Any) -> None:
    weighted = LinearQuery.product(SCHEMA, {"age": [0.0, 0.3, 0.6, 1.0]})
    price = {"epsilon": 0.05} if currency == "pure" else {"rho": 0.001}
    budget = mq.Budget(epsilon=1.0) if currency == "pure" else mq.Budget(rho=1.0, delta=1e-6)
    expected = [*truths(), exact(weighted, rows_of()) / ROWS]

    def intervals(seed: int) -> list[tuple[float, float, float]]:
        with mq.Curator(table_of(SCHEMA, ROWS), budget, relation=relation, noise=Seeded(seed)) as curator:
            ask: Any = functools.partial(mq.answer, curator, confidence=0.8, **price)  # type: ignore[arg-type]
            answers = [*answers_of(ask), ask(weighted)]
        return [(a.low, truth, a.high) for a, truth in zip(answers, expected, strict=True)]

    covered(400, 0.8, intervals)


def test_a_weighted_question_is_answered_where_rows_are_private() -> None:
    """Two totals, the weights and what they leave over; asked again it is the recorded answer."""
    weighted = LinearQuery.product(SCHEMA, {"age": [0.0, 0.25, 0.5, 1.0]})
    with mq.Curator(table_of(SCHEMA, ROWS), mq.Budget(epsilon=200.0)) as curator:
        first = mq.answer(curator, weighted, epsilon=100.0)
        again = mq.answer(curator, weighted, epsilon=100.0)
        assert curator.spent.epsilon == pytest.approx(100.0, rel=1e-9)
    assert isinstance(first, mq.Answer)
    assert first == again
    assert first.value == pytest.approx(exact(weighted, rows_of()) / ROWS, abs=1e-3)


def test_a_confidence_that_is_none_is_refused_by_every_release() -> None:
    table, workload = open_records(BIT, np.zeros((9, 1), int)), mq.marginals(BIT, k=1)
    made = released("averaged-construction", table, mq.Budget(epsilon=1.0), Seeded(0), workload=workload, rounds=3)
    for confidence in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(QueryError, match="confidence"):
            made.answer("bit", confidence=confidence)
