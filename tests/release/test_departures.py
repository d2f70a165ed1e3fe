"""Departures: answers follow the measurements where noise does not explain the difference, and still add up."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from release_checks import SCHEMA, Seeded, exact, records, released, table_of

import maquette as mq
from maquette.estimates import DenseModel, Departures, MergedEvidence, Merging, Residuals, forward, subsets
from maquette.schema import Schema

ROWS, DEVIATION = 2000.0, 15.0
SMALL = Schema([mq.Integer("a", 0, 5), mq.Boolean("b"), mq.Integer("c", 0, 3)])
PAIR = ("a", "b")
GROUPS = np.array([0, 0, 1, 1, 1, 2])


def evidence_of(truth: np.ndarray, seed: int, columns: tuple[str, ...] = PAIR) -> Residuals:
    """Every subset of these columns with noise of one deviation for each coefficient; the number of rows without."""
    rng, made = np.random.default_rng(seed), Residuals(SMALL)
    for part in subsets(columns):
        cells = truth.sum(axis=tuple(i for i, name in enumerate(SMALL.names) if name not in part)) * ROWS
        block = np.asarray(forward(cells)[(slice(1, None),) * len(part)])
        noise = rng.normal(0.0, DEVIATION, block.shape) if part else 0.0
        made.combine(part, block + noise, np.full(block.shape, DEVIATION**2 if part else 1e-12))
    return made


def some(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(48)).reshape(6, 2, 4)


def errors(model: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Mean squared errors over cells of the pair: of the model, of the drawn answers, of the evidence; in its units."""
    found = np.zeros(3)
    table, right = (each.sum(axis=2) * ROWS for each in (model, truth))
    for seed in range(60):
        evidence = evidence_of(truth, seed)
        departures = Departures(SMALL, DenseModel(SMALL, model), evidence)
        for cell in np.ndindex(right.shape):
            weights = np.zeros(right.shape)
            weights[cell] = 1.0
            told = table[cell], table[cell] + departures.total(weights, PAIR), evidence.estimate(weights, PAIR).total
            found += (np.array(told) - right[cell]) ** 2
    of_model, of_drawn, of_evidence = found / found[2]
    return float(of_model), float(of_drawn), float(of_evidence)


def test_a_right_model_is_hardly_moved_by_noise() -> None:
    of_model, of_drawn, _ = errors(some(0), some(0))
    assert of_model == 0.0
    assert of_drawn < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_model_errs_about_as_little_as_the_measurements(seed: int) -> None:
    of_model, of_drawn, of_evidence = errors(some(seed), some(seed + 10))
    assert of_model > 20 * of_evidence
    assert of_drawn < 1.2 * of_evidence


def merged_evidence(truth: np.ndarray, seed: int) -> MergedEvidence:
    """The levels of a alone; its pair with b in three groups, beyond its columns."""
    merging, fine = Merging(SMALL, {"a": GROUPS}), evidence_of(truth, seed)
    coarse, levels = Residuals(merging.merged), Residuals(SMALL)
    rng, cells = np.random.default_rng(seed), truth.sum(axis=2) * ROWS
    grouped = np.stack([cells[group == GROUPS].sum(axis=0) for group in range(3)])
    block = forward(grouped)[1:, 1:]
    coarse.combine(PAIR, block + rng.normal(0, DEVIATION, block.shape), np.full(block.shape, DEVIATION**2))
    for columns, values, variances in fine:
        if columns != PAIR:
            levels.combine(columns, values, variances)
        if columns in ((), ("b",)):
            coarse.combine(columns, values, variances)
    return MergedEvidence(merging, levels, coarse)


@pytest.mark.parametrize("merged", [False, True])
def test_drawn_answers_add_up_to_those_of_fewer_columns(merged: bool) -> None:
    """Also levels of a merged group, which divide what is known of the group by the shares of the model."""
    evidence = merged_evidence(some(5), 1) if merged else evidence_of(some(5), 1)
    departures = Departures(SMALL, DenseModel(SMALL, some(6)), evidence)
    cells = np.zeros((6, 2))
    for cell in np.ndindex(6, 2):
        weights = np.zeros((6, 2))
        weights[cell] = 1.0
        cells[cell] = departures.total(weights, PAIR)
    assert np.abs(cells).max() > DEVIATION
    assert cells.sum() == pytest.approx(0.0, abs=1e-6)
    by_b = [departures.total(np.eye(2)[level], ("b",)) for level in range(2)]
    by_a = [departures.total(np.eye(6)[level], ("a",)) for level in range(6)]
    np.testing.assert_allclose(cells.sum(axis=0), by_b, atol=1e-6)
    np.testing.assert_allclose(cells.sum(axis=1), by_a, atol=1e-6)
    weights = np.random.default_rng(2).random((6, 2))
    assert departures.total(weights, PAIR) == pytest.approx(float((weights * cells).sum()))


def test_what_was_not_measured_together_is_left_to_the_model() -> None:
    departures = Departures(SMALL, DenseModel(SMALL, some(6)), evidence_of(some(5), 1))
    assert departures.total(np.ones((6, 4)), ("a", "c")) == 0.0


RECORDS = 3000
TEXTS = ["smoker", "region = 's' AND age >= 20", "smoker OR region = 'n'", "NOT smoker AND age < 30"]


@functools.cache
def misled() -> mq.Release:
    """A release whose model is wrong, and whose measurements are not."""
    made = released("everything", table_of(SCHEMA, RECORDS), mq.Budget(epsilon=4.0, delta=1e-6), Seeded(3), steps=3)
    assert isinstance(made.evidence, Residuals)
    even = np.ones(SCHEMA.shape(SCHEMA.names)) / SCHEMA.cells(SCHEMA.names)
    return mq.Release(SCHEMA, DenseModel(SCHEMA, even), made.evidence, made.certificate)


@pytest.mark.parametrize("text", TEXTS)
def test_answers_of_a_wrong_model_are_near_the_rows_and_its_intervals_narrow(text: str) -> None:
    made, query = misled(), mq.where(SCHEMA, text)
    answer, truth = made.answer(text), exact(query, records(SCHEMA, RECORDS))
    estimate = made.evidence.estimate(query.weights(query.columns), query.columns)
    assert abs(made.model.answer(query) * RECORDS - truth) > 6 * estimate.deviation
    assert answer.count == pytest.approx(truth, abs=4 * estimate.deviation)
    assert answer.high - answer.low < 4.5 * estimate.deviation / made.rows


@pytest.mark.parametrize("text", TEXTS)
def test_a_number_is_the_same_by_predicate_and_sql_and_at_every_confidence(text: str) -> None:
    made = misled()
    for confidence in (0.5, 0.9, 0.95, 0.999):
        answer = made.answer(text, confidence=confidence)
        counted = made.answer(f"SELECT count(*) FROM t WHERE {text}", confidence=confidence)
        assert answer.count == pytest.approx(made.answer(text).count)
        assert counted.value == pytest.approx(answer.count)
        for found in (answer, counted):
            assert found.low <= found.value <= found.high


def test_groups_add_up_and_averages_stay_in_their_range() -> None:
    made = misled()
    groups = made.answer("SELECT region, count(*), avg(age) FROM t GROUP BY region")
    counted, averages = groups.numbers[::2], groups.numbers[1::2]
    total = sum(number.value for number in counted)
    assert total == pytest.approx(made.rows, rel=0.01)
    rows = records(SCHEMA, RECORDS)
    middles = np.asarray(SCHEMA["age"].midpoints)[rows[:, 2]]
    for level, average in enumerate(averages):
        assert average.low <= average.value <= average.high
        assert average.value == pytest.approx(middles[rows[:, 1] == level].mean(), abs=3.0)


def test_impossible_combinations_stay_empty() -> None:
    """Whatever the noise of their cells says."""
    schema = Schema(SMALL.columns, impossible=[{"a": "0", "b": "true"}])
    truth = some(5)
    truth[0, 1] = 0.0
    model = some(6)
    model[0, 1] = 0.0
    departures = Departures(schema, DenseModel(schema, model / model.sum()), evidence_of(truth / truth.sum(), 4))
    assert departures.closed(PAIR)
    assert departures.total(np.eye(12)[1].reshape(6, 2), PAIR) == 0.0
    assert departures.total(np.eye(6)[0], ("a",)) != 0.0
