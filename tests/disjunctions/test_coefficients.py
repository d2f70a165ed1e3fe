"""Coefficient releases: exact without noise up to their bias, what they charge, honest intervals, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.errors import BudgetExceeded, QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Literals, conjunctions, disjunctions, literal_query, marginals, where
from maquette.releases.classes.coefficients import ROWS_SHARE, ParityAnswers, coefficients, largest_degree
from maquette.schema import Boolean, Integer, Schema
from maquette.theory.polynomial import least_interval


def _model(release: mq.Release) -> ParityAnswers:
    assert isinstance(release.model, ParityAnswers)
    return release.model


D, ROWS = 8, 300
SCHEMA = Schema([Boolean(f"s{i}") for i in range(D)])
ZCDP = mq.Budget(rho=10.0, delta=1e-9)
EVERY = disjunctions(SCHEMA, 5)


def records() -> NDArray[np.int32]:
    rng = np.random.default_rng(5)
    shared = rng.random(ROWS) < 0.3
    return (rng.random((ROWS, D)) < np.where(shared, 0.6, 0.1)[:, None]).astype(np.int32)


DATA = records()


def opened(schema: Schema = SCHEMA) -> mq.PrivateTable:
    columns: dict[str, Any] = {name: DATA[:, i] == 1 for i, name in enumerate(SCHEMA.names)}
    columns["n"] = [1] * ROWS
    return mq.open_table({name: columns[name] for name in schema.names}, schema)


class SeededNoise(ScriptedNoise):
    """Rounded normal and two-sided geometric noise from a seed. Not private."""

    def __init__(self, seed: int) -> None:
        super().__init__([])
        self._rng = np.random.default_rng(seed)

    def gaussian(self, variance: Fraction, size: int) -> NDArray[np.int64]:
        return np.rint(self._rng.normal(0.0, math.sqrt(variance), size)).astype(np.int64)

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        chance = -math.expm1(-1 / float(scale))
        return np.subtract(*self._rng.geometric(chance, (2, size))).astype(np.int64)


def silent(degree: int, relation: str = "add-remove", workload: Any = EVERY) -> mq.Release:
    noise = ScriptedNoise([0] * 1000)
    with mq.Curator(opened(), ZCDP, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
        return coefficients(curator, workload, degree=degree, rho=0.001)


def literal_questions(size: int, rng: np.random.Generator, count: int = 20) -> list[Literals]:
    drawn = []
    for _ in range(count):
        names = tuple(sorted(rng.choice(SCHEMA.names, size, replace=False)))
        join = "any" if rng.random() < 0.5 else "all"
        drawn.append(Literals(join, names, tuple(rng.integers(0, 2, size).tolist())))  # type: ignore[arg-type]
    return drawn


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_without_noise_answers_are_within_the_bias_of_the_rows(degree: int, relation: str) -> None:
    release = silent(degree, relation)
    model = release.model
    assert isinstance(model, ParityAnswers)
    assert model.degree <= degree
    rng = np.random.default_rng(degree)
    for size in (1, 2, 3, 4, 5):
        polynomial = model.polynomial(size)
        held = polynomial.values
        for literals in literal_questions(size, rng):
            query = literal_query(SCHEMA, literals)
            truth = query.evaluate(DATA).mean()
            matches = DATA[:, [SCHEMA.position(n) for n in literals.columns]] == np.array(literals.levels)
            expected = held[matches.sum(axis=1)].mean()
            if literals.join == "all" and size > 1:  # one literal is any of one
                expected = 1 - held[(~matches).sum(axis=1)].mean()
            assert model.answer(query) == pytest.approx(expected, abs=1e-9)
            assert abs(model.answer(query) - truth) <= polynomial.error + 1e-9
            answer = release.answer(query)
            assert answer.low <= truth <= answer.high


def test_with_a_generous_budget_everything_is_exact() -> None:
    noise = ScriptedNoise([0] * 1000)
    with mq.Curator(opened(), mq.Budget(rho=9000.0, delta=1e-9), noise=noise) as curator:
        release = coefficients(curator, EVERY)
    assert _model(release).degree == 5
    assert "bias of at most 0 " in str(release.certificate.accuracy)
    for query in EVERY.sample(30, np.random.default_rng(0)):
        assert release.answer(query).value == pytest.approx(query.evaluate(DATA).mean(), abs=1e-6)
    assert release.answer("SELECT count(*) FROM t WHERE s0 OR s4 OR NOT s7").count == pytest.approx(
        where(SCHEMA, "s0 OR s4 OR NOT s7").evaluate(DATA).sum(), abs=1e-3
    )
    table = np.zeros((2, 2, 2))
    np.add.at(table, (DATA[:, 3], DATA[:, 0], DATA[:, 6]), 1 / ROWS)
    assert release.marginal("s3", "s0", "s6") == pytest.approx(table, abs=1e-9)
    # Any question about few columns, not only literals.
    odd = where(SCHEMA, "(s0 AND NOT s1) OR (s1 AND NOT s0)")
    assert release.answer(odd).value == pytest.approx(odd.evaluate(DATA).mean(), abs=1e-6)


@pytest.mark.parametrize(("relation", "moved"), [("add-remove", 1), ("replace", 2)])
def test_it_charges_what_its_doors_charge(relation: Any, moved: int) -> None:
    noise, price = ScriptedNoise([0] * 1000), 0.02
    with mq.Curator(opened(), ZCDP, relation=relation, noise=noise) as curator:
        release = coefficients(curator, EVERY, degree=2, rho=price)
        charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
    assert sum(charges) == pytest.approx(price)
    assert sum(charges) <= price
    assert release.cost.rho == pytest.approx(price)
    calls = list(noise.calls)
    if relation == "add-remove":
        first = calls.pop(0)
        assert charges[0] == pytest.approx(ROWS_SHARE * price)
        assert float(first.scale) == pytest.approx(1 / (2 * ROWS_SHARE * price), rel=1e-4)
    assert len(charges) == (2 if relation == "add-remove" else 1)
    assert [(call.kind, call.size) for call in calls] == [("gaussian", 8), ("gaussian", 28)]
    # The squared L2 sensitivity of m parities is m, four times that where a row is replaced.
    spent = sum(call.size * moved**2 / (2 * float(call.scale)) for call in calls)
    assert spent == pytest.approx(charges[-1], rel=1e-4)


def test_a_pure_budget_gets_laplace_noise() -> None:
    noise = ScriptedNoise([0] * 1000)
    with mq.Curator(opened(), mq.Budget(epsilon=5.0), noise=noise) as curator:
        release = coefficients(curator, disjunctions(SCHEMA, 3, monotone=True), epsilon=4.0)
        assert curator.spent.epsilon == pytest.approx(4.0)
    assert {call.kind for call in noise.calls} == {"laplace"}
    assert not _model(release).gaussian
    parities = sum(call.size for call in noise.calls[1:])
    assert float(noise.calls[-1].scale) == pytest.approx(parities / (4.0 * (1 - ROWS_SHARE)), rel=1e-3)


COVERAGE = [
    pytest.param(mq.Budget(rho=0.02, delta=1e-9), "add-remove", 2, id="biased"),
    pytest.param(mq.Budget(rho=0.5, delta=1e-9), "add-remove", None, id="tuned"),
    pytest.param(mq.Budget(rho=0.5, delta=1e-9), "replace", None, id="replace"),
    pytest.param(mq.Budget(epsilon=3.0), "add-remove", 2, id="laplace"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("budget", "relation", "degree"), COVERAGE)
def test_intervals_hold_the_truth_as_often_as_they_say(budget: mq.Budget, relation: Any, degree: int | None) -> None:
    runs, missed, rng = 60, {0.8: 0, 0.95: 0}, np.random.default_rng(7)
    table = opened()
    for seed in range(runs):
        with mq.Curator(table, budget, relation=relation, noise=SeededNoise(seed)) as curator:
            release = coefficients(curator, EVERY, degree=degree)
        query = literal_query(SCHEMA, literal_questions(int(rng.integers(1, 6)), rng, 1)[0])
        truth = query.evaluate(DATA).mean()
        for confidence in missed:
            answer = release.answer(query, confidence=confidence)
            assert 0.0 <= answer.low <= answer.value <= answer.high <= 1.0
            missed[confidence] += not answer.low <= truth <= answer.high
    for confidence, count in missed.items():
        assert count <= scipy.stats.binom.isf(1e-6, runs, 1 - confidence)


@pytest.mark.thorough
def test_noise_is_as_small_as_promised() -> None:
    """The deviation over seeds of a disjunction's estimate is that of its polynomial over the parities' noise."""
    budget, runs = mq.Budget(rho=0.2, delta=1e-9), 100
    query, values = disjunctions(SCHEMA, 4, monotone=True)[0], []
    table = opened()
    for seed in range(runs):
        with mq.Curator(table, budget, relation="replace", noise=SeededNoise(seed)) as curator:
            model = _model(coefficients(curator, disjunctions(SCHEMA, 4), degree=3))
        values.append(model.answer(query))
    found = model.polynomial(4)
    variance = sum(math.comb(4, s) * c**2 * model.variances[s] for s, c in enumerate(found.parities) if s)
    ratio = np.var(values, ddof=1) * ROWS**2 / variance
    low, high = (scipy.stats.chi2.ppf(p, runs - 1) / (runs - 1) for p in (1e-7, 1 - 1e-7))
    assert low <= ratio <= high


def test_the_polynomial_is_the_best_for_the_noise_at_hand() -> None:
    model = _model(silent(3))
    noise = tuple(2.0 * math.sqrt(v) / model.rows for v in model.variances[1:])
    assert np.array_equal(model.polynomial(5).values, least_interval(5, noise).values)


def test_a_saved_release_answers_the_same(tmp_path: Path) -> None:
    with mq.Curator(opened(), ZCDP) as curator:
        release = coefficients(curator, conjunctions(SCHEMA, 5), degree=3, rho=0.05)
    release.save(tmp_path / "one.maq")
    loaded = mq.Release.load(tmp_path / "one.maq")
    for query in EVERY.sample(10, np.random.default_rng(1)):
        assert loaded.answer(query) == release.answer(query)
    assert loaded.certificate == release.certificate
    assert "coefficients" in release.certificate.method


@pytest.mark.thorough
def test_hundreds_of_columns_in_one_release() -> None:
    schema = Schema([Boolean(f"s{i}") for i in range(120)])
    data = np.random.default_rng(2).random((2000, 120)) < 0.05
    table = mq.open_table({name: data[:, i] for i, name in enumerate(schema.names)}, schema)
    with mq.Curator(table, mq.Budget(epsilon=300.0, delta=1e-9)) as curator:
        release = coefficients(curator, disjunctions(schema, 5, monotone=True), degree=2)
    query = disjunctions(schema, 5, monotone=True).sample(1, np.random.default_rng(3))[0]
    truth = query.evaluate(data.astype(np.int32)).mean()
    answer = release.answer(query)
    assert answer.low <= truth <= answer.high
    assert answer.high - answer.low < 0.5


MIXED = Schema([*SCHEMA.columns, Integer("n", 0, 4)])
REFUSED: list[tuple[str, Any, str]] = [
    ("wide column", lambda: coefficients_of(MIXED, disjunctions(MIXED, 2)), r"n \(5\)"),
    ("k beyond d", lambda: coefficients_of(SCHEMA, disjunctions(SCHEMA, 9)), "k is 9; .* the number of columns, 8"),
    ("marginals", lambda: coefficients_of(SCHEMA, marginals(SCHEMA, 2)), "made by disjunctions or conjunctions"),
    ("schema", lambda: coefficients_of(SCHEMA, disjunctions(MIXED, 2, SCHEMA.names)), "another schema"),
    ("degree", lambda: coefficients_of(SCHEMA, EVERY, degree=6), "whole number from 1 to 5 for 5 of 8 columns"),
    ("degree zero", lambda: coefficients_of(SCHEMA, EVERY, degree=0), "degree is 0"),
    ("degree text", lambda: coefficients_of(SCHEMA, EVERY, degree="2"), "degree is '2'"),
]


def coefficients_of(schema: Schema, workload: Any, **settings: Any) -> None:
    with mq.Curator(opened(schema), ZCDP) as curator:
        try:
            coefficients(curator, workload, rho=0.5, **settings)
        finally:
            assert curator.ledger.spent() == 0


@pytest.mark.parametrize(("call", "message"), [pytest.param(c, m, id=name) for name, c, m in REFUSED])
def test_bad_input_is_refused_before_any_charge(call: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        call()


def test_more_than_remains_is_refused_before_any_charge() -> None:
    with mq.Curator(opened(), ZCDP) as curator:
        with pytest.raises(BudgetExceeded):
            coefficients(curator, EVERY, rho=11.0)
        assert curator.ledger.spent() == 0


def test_questions_it_cannot_answer_are_explained() -> None:
    release = silent(2, workload=disjunctions(SCHEMA, 4, SCHEMA.names[:6]))
    assert _model(release).degree == 2
    for text, message in (
        ("s0 OR s1 OR s2 OR s3 OR s4", "about 5 columns; expected at most 4"),
        ("(s0 AND s1) OR s2", "`a OR b OR ...`"),
        ("s0 OR s7", "'s7' was not measured"),
    ):
        with pytest.raises(QueryError, match=message):
            release.answer(text)
    with pytest.raises(QueryError, match="cannot be sampled"):
        release.sample(3)
    with pytest.raises(QueryError, match="the columns s0, s1, s2; expected at most 2 different ones"):
        release.marginal("s0", "s1", "s2")
    with pytest.raises(QueryError, match="another schema"):
        release.model.answer(where(MIXED, "s0"))


def test_degrees_stay_within_what_can_be_measured() -> None:
    assert [largest_degree(d, k) for d, k in ((8, 5), (50, 10), (100, 10), (400, 4), (6_000_000, 2))] == [5, 5, 4, 2, 0]
    assert sum(1 for _ in itertools.combinations(range(8), 2)) == 28
