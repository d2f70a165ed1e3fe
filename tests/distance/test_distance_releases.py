"""Distances offline and online, through the doors: what is charged, what is promised, and how far answers are."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from distance_checks import cube, curator_of, exact, opened, points

import maquette as mq
from maquette.errors import QueryError
from maquette.estimates.evidence import NoEvidence
from maquette.estimates.residuals import Residuals
from maquette.estimates.sums import estimate_sum
from maquette.hypothesis import Separable
from maquette.query import Box, LinearQuery, additive
from maquette.releases import Release, distance_construction, histograms
from maquette.session import OnlineIC, distance_rule
from maquette.theory import distance as theory, updates as update_theory

ROWS = 3000


def test_bounds_are_those_stated() -> None:
    assert theory.updates([(0.02, 20)] * 50, 0.05) == pytest.approx(update_theory.separable(20, 0.05))
    assert theory.updates([(0.25, 10), (0.75, 40)], 0.1) == pytest.approx(
        50 * (0.25 * math.log(10) + 0.75 * math.log(40))
    )
    assert theory.grid_error([(0.5, 100)] * 2) == pytest.approx(1 / 200)
    assert theory.crossover(levels=1200) == pytest.approx(100, rel=1e-3)
    assert theory.crossover(levels=1200, place=0.5) == pytest.approx(25, rel=1e-3)
    facts = {"queries": 1000, "epsilon": 1.0, "delta": 1e-9, "beta": 0.05}
    for bound in (theory.offline, theory.online):
        errors = [bound(levels=100, rows=rows, **facts).alpha for rows in (10**4, 10**5, 10**6)]  # type: ignore[arg-type]
        assert errors == sorted(errors, reverse=True)
        finer = bound(levels=10**4, rows=10**5, **facts).alpha  # type: ignore[arg-type]
        assert errors[1] < finer < errors[1] * 2**0.25 * 1.05  # the fourth root of ln s


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("columns", [2, 20])
def test_histograms_have_the_noise_that_theory_says_whatever_the_columns(columns: int) -> None:
    levels, box = 30, Box(cube(columns, 30))
    table, sites = opened(box.schema, points(ROWS, columns)), box.distances(np.vstack([np.zeros(columns)]))
    truth, errors = exact(table, sites[0]), []
    for _ in range(40):
        curator = mq.Curator(table, mq.Budget(rho=0.5, delta=1e-9))
        made = histograms(curator, sites)
        estimate = estimate_sum(made.evidence, sites[0].sum)
        assert estimate is not None
        # The constant's own noise is common to all columns: leave it out by taking the rows as they are.
        errors.append((estimate.total - truth * ROWS) / estimate.deviation)
    assert np.std(errors) == pytest.approx(1.0, rel=0.5)
    assert abs(np.mean(errors)) < 5.5 / math.sqrt(40)
    assert estimate is not None
    assert sites[0].sum is not None
    without_rows = math.sqrt(
        estimate.deviation**2 - (float(sites[0].sum.constant) + _mean(sites[0])) ** 2 * _rows(made)
    )
    assert without_rows / ROWS == pytest.approx(
        theory.histogram_deviation(levels=levels, place=0.0, rho=0.5, rows=ROWS), rel=0.01
    )


def _mean(query: LinearQuery) -> float:
    assert query.sum is not None
    return sum(float(part.mean()) for part in query.sum.parts.values())


def _rows(release: Release) -> float:
    """The variance of the number of rows."""
    assert isinstance(release.evidence, Residuals)
    return float({columns: variance for columns, _, variance in release.evidence}[()])


def test_a_sum_from_columns_is_the_estimate_from_their_table() -> None:
    box = Box(cube(2, 12))
    curator = curator_of(box.schema, points(ROWS, 2))
    residuals = Residuals(box.schema)
    for measured in curator.measure_many([["x0", "x1"], ["x1"]], rho=0.01):
        residuals.add(measured)
    query = box.distance([0.2, 0.9])
    one, other = estimate_sum(residuals, query.sum), residuals.estimate(query.weights(), query.columns)
    assert one is not None
    assert one.total == pytest.approx(other.total)
    assert one.deviation == pytest.approx(other.deviation)
    assert estimate_sum(residuals, None) is None
    assert estimate_sum(NoEvidence(5.0), query.sum) is None
    assert estimate_sum(Residuals(box.schema), query.sum) is None


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_released_histograms_cover_the_distances_and_can_be_saved(delta: float, tmp_path: Path) -> None:
    box = Box(cube(12, 40))
    rows, rng = points(ROWS, 12), np.random.default_rng(2)
    table, sites = opened(box.schema, rows), box.distances(rng.random((200, 12)))
    curator = mq.Curator(table, mq.Budget(epsilon=2.0, delta=delta))
    made = histograms(curator, sites)
    assert curator.remaining.epsilon < 1e-3
    truth = np.array([exact(table, query) for query in sites])
    answers = [made.answer(query, confidence=1 - 1e-6) for query in sites]
    assert all(answer.low <= value <= answer.high for answer, value in zip(answers, truth, strict=True))
    assert all(answer.guarantee and answer.high - answer.low < 0.2 for answer in answers)
    made.save(tmp_path / "sites.maq")
    again = Release.load(tmp_path / "sites.maq")
    assert again.answer(sites[7]).value == made.answer(sites[7]).value


def test_histograms_refuse_what_they_cannot_answer_before_any_charge() -> None:
    box = Box(cube(2, 10))
    curator = curator_of(box.schema, points(100, 2))
    with pytest.raises(QueryError, match="not a sum over columns"):
        histograms(curator, mq.queries(box.schema, ["x0 < 0.5 AND x1 < 0.5"]))
    with pytest.raises(QueryError, match="nothing to measure"):
        histograms(curator, mq.queries(box.schema, [LinearQuery.constant(box.schema)]))
    assert curator.ledger.spent() == 0


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_construction_keeps_its_promise(relation: str) -> None:
    box = Box(cube(10, 20))
    rows, rng = np.random.default_rng(3).integers(0, 3, (20_000, 10)) / 20.0, np.random.default_rng(4)
    sites = box.distances(rng.random((40, 10)))
    curator = curator_of(box.schema, rows, epsilon=4.0, relation=relation)
    made = distance_construction(curator, sites)
    assert made.certificate.accuracy is not None
    alpha = float(made.certificate.accuracy.split()[4])
    table = opened(box.schema, rows)
    errors = [abs(made.answer(query).value - exact(table, query)) for query in sites]
    assert max(errors) <= alpha < 0.2
    uniform = Separable(box.schema)
    assert max(errors) < max(abs(uniform.answer(query) - exact(table, query)) for query in sites)


def test_the_construction_refuses_before_any_charge() -> None:
    box = Box(cube(2, 10))
    curator = curator_of(box.schema, points(50, 2), relation="replace")
    sites = box.distances(box.lattice(2))
    for work, says in (
        (lambda: distance_construction(curator, mq.queries(box.schema, ["x0 < 0.5"])), "Box.distances"),  # type: ignore[arg-type]
        (lambda: distance_construction(curator, Box(cube(3, 10)).distances([[0, 0, 0]])), "another schema"),
        (lambda: distance_construction(curator, sites, beta=2.0), "0 < beta < 1"),
        (lambda: distance_construction(curator, sites), "promises an error"),
    ):
        with pytest.raises(QueryError, match=says):
            work()
    assert curator.ledger.spent() == 0


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [2, 50])
def test_online_distances_stay_within_their_promise(columns: int) -> None:
    box = Box(cube(columns, 20))
    rows = np.random.default_rng(5).integers(0, 2, (200_000 if columns == 2 else 60_000, columns)) / 20.0
    table = opened(box.schema, rows)
    curator = mq.Curator(table, mq.Budget(epsilon=2.0, delta=1e-9), relation="replace")
    session = OnlineIC(curator, distance_rule(box), queries=60)
    spent = curator.ledger.spent()
    assert isinstance(session.hypothesis, Separable)
    assert session.hits_left == math.floor(session.hypothesis.update_bound)
    rng = np.random.default_rng(6)
    for place in [np.zeros(columns), np.ones(columns), *rng.random((38, columns))]:
        query = box.distance(place)
        assert abs(session.ask(query).value - exact(table, query)) <= session.alpha
    assert session.updates > 0
    assert curator.ledger.spent() == spent


def test_an_online_question_that_cannot_be_learned_uses_no_hit() -> None:
    box = Box(cube(3, 20))
    curator = curator_of(box.schema, np.zeros((100_000, 3)), epsilon=2.0, relation="replace")
    session = OnlineIC(curator, distance_rule(box), queries=20)
    hits, spent = session.hits_left, curator.ledger.spent()
    lopsided = additive(box.schema, {"x0": np.arange(20) < 1, "x1": np.arange(20) < 1})
    for question, says in (("x0 < 0.5 AND x1 < 0.5", "not a sum over columns"), (lopsided, "model's shares")):
        with pytest.raises(QueryError, match=says):
            session.ask(question)
    assert (session.hits_left, curator.ledger.spent()) == (hits, spent)


def test_a_practical_session_answers_distances_too() -> None:
    box = Box(cube(6, 50))
    rows = points(40_000, 6)
    table = opened(box.schema, rows)
    session = mq.online(mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9)), alpha=0.03)
    for place in np.random.default_rng(7).random((5, 6)):
        query = box.distance(place)
        answer, again = session.ask(query), session.ask(box.distance(place))
        assert abs(answer.value - exact(table, query)) <= 0.06  # of a private number of rows: a deviation is 0.0112
        assert again.value == answer.value
