"""Intervals of a release by kind: ratios, parts of a question, merged levels, what both allow, and what cannot be."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_checks import SCHEMA, Seeded, counts, exact, rarely_missed, records, table_of

import maquette as mq
from maquette.curator import Curator, Measurement
from maquette.estimates import DenseModel, Estimate, MergedEvidence, Merging, NoEvidence, Residuals
from maquette.privacy import DiscreteGaussian, Loss
from maquette.query import Contrasts, LinearQuery, Marginal
from maquette.releases.bounds import Asked, Bounds

FREE = Loss(epsilon=0.0, delta=0.0, rho=0.0, units=0, currency="zcdp")
ROWS = 3_000
AGES = mq.Schema([mq.Integer("age", 0, 19), mq.Boolean("smoker"), mq.Boolean("old")])
PEOPLE = records(AGES, ROWS)


def noisy(
    schema: mq.Schema,
    rows: Any,
    columns: tuple[str, ...],
    variance: int,
    rng: Any,
    *,
    groups: Any = None,
    residual: bool = False,
) -> Measurement:
    """A measured table, or its groups of levels of the first column, or their residual at the noise of a table."""
    exact_counts = counts(schema, rows, columns)
    if groups is None:
        noise = np.rint(rng.normal(0, np.sqrt(variance), exact_counts.shape))
        event = DiscreteGaussian(Fraction(variance), Fraction(1))
        return Measurement(Marginal(schema, columns), exact_counts + noise, event, FREE)
    merging = Merging(schema, {columns[0]: groups})
    question = merging.residual(columns) if residual else merging.table(columns)
    assert isinstance(question, Contrasts)
    found = question.combine(exact_counts)
    if residual:  # whole-number rows are long: noise is that of the table times their length
        variance *= round(float(np.prod([(matrix.astype(float) ** 2).sum(axis=1)[0] for matrix in question.matrices])))
    event = DiscreteGaussian(Fraction(variance), Fraction(1))
    return Measurement(question, found + np.rint(rng.normal(0, np.sqrt(variance), found.shape)), event, FREE)


@functools.cache
def model() -> DenseModel:
    return DenseModel(SCHEMA, np.full(SCHEMA.shape(SCHEMA.names), 1 / SCHEMA.size))


@pytest.mark.thorough
def test_fieller_holds_for_fractions_and_averages_of_small_groups() -> None:
    """Numerator and denominator share noise: one interval for both, no wider than it must be."""
    rows = records(SCHEMA, 400)
    middles = (np.arange(4) * 2 - 3) / 3  # in [-1, 1]
    where = np.zeros((3, 4))
    where[2] = 1.0
    table = counts(SCHEMA, rows, ("region", "age"))
    truth = float((where * middles * table).sum() / (where * table).sum())
    share = float((where * table).sum() / table.sum())
    hits = []
    for seed in range(600):
        evidence = Residuals(SCHEMA)
        evidence.add(noisy(SCHEMA, rows, ("region", "age"), 9, np.random.default_rng(seed)))
        bounds = Bounds(model(), evidence, None)
        columns = ("region", "age")
        average = bounds.of(Asked(columns, where * middles, where, (-1.0, 1.0)), 0.9, truth)
        fraction = bounds.of(Asked(columns, where, np.ones((3, 4))), 0.9, share)
        hits.append((average.low <= truth <= average.high, fraction.low <= share <= fraction.high))
        assert average.kind == fraction.kind == "measured"
        assert average.low < average.high
    found = np.sum(hits, axis=0)
    assert found.min() >= rarely_missed(600, 0.9, 2)
    alone = [_without_value(seed, rows, where, truth) for seed in range(600)]
    assert sum(alone) <= 600 * 0.95, "no wider than it must be"


def _without_value(seed: int, rows: Any, where: Any, truth: float) -> bool:
    """Whether the interval holds, where the model's value is the wrong end of the range and does not widen it."""
    evidence = Residuals(SCHEMA)
    evidence.add(noisy(SCHEMA, rows, ("region", "age"), 9, np.random.default_rng(seed)))
    low, high = Bounds(model(), evidence, None)._covered(
        Asked(("region", "age"), where, np.ones((3, 4)), (0.0, 1.0)), 0.9
    )
    share = float((where * counts(SCHEMA, rows, ("region", "age"))).sum() / len(rows))
    return low <= share <= high


PARTS: dict[str, list[tuple[str, ...]]] = {
    "columns": [("age",), ("smoker",), ("old",)],
    "pairs": [("age", "smoker"), ("smoker", "old"), ("age", "old")],
    "one pair": [("age", "smoker"), ("old",)],
}
CONDITIONS = ("age < 12 AND smoker AND old", "age >= 3 AND old", "age = 4 OR smoker OR old", "NOT (smoker AND old)")


@pytest.mark.thorough
@pytest.mark.parametrize("name", PARTS)
def test_a_question_about_columns_not_measured_together_lies_within_its_parts(name: str) -> None:
    held = dict.fromkeys(CONDITIONS, 0)
    for seed in range(150):
        rng, evidence = np.random.default_rng(seed), Residuals(AGES)
        for columns in PARTS[name]:
            evidence.add(noisy(AGES, PEOPLE, columns, 400, rng))
        bounds = Bounds(model(), evidence, None)
        for text in CONDITIONS:
            query = mq.where(AGES, text)
            truth = exact(query, PEOPLE) / ROWS
            weights = query.weights(query.columns)
            found = bounds.of(Asked(query.columns, weights, np.ones(weights.shape)), 0.9, truth)
            assert (found.low, found.high) != (0.0, 1.0), f"{text}: the parts say something"
            assert found.kind == "measured"
            total = bounds.of(Asked(query.columns, weights), 0.9, truth * ROWS)
            held[text] += found.low <= truth <= found.high and total.low <= truth * ROWS <= total.high
    assert min(held.values()) >= rarely_missed(150, 0.8, len(held))


def test_the_bounds_of_parts_are_those_of_frechet() -> None:
    """Without noise: P(A) + P(B) - 1 to the smaller of the two, and with pairs the pairs' own."""
    evidence = Residuals(AGES)
    for columns in (("age",), ("smoker",), ("old",)):
        evidence.add(noisy(AGES, PEOPLE, columns, 1, np.random.default_rng(0)))
    bounds = Bounds(model(), evidence, None)
    query = mq.where(AGES, "age < 15 AND NOT old")
    parts = [exact(mq.where(AGES, text), PEOPLE) / ROWS for text in ("age < 15", "NOT old")]
    found = bounds.of(Asked(query.columns, query.weights(query.columns), np.ones((20, 2))), 0.95, 0.5)
    assert found.low == pytest.approx(min(0.5, max(0.0, sum(parts) - 1)), abs=0.02)
    assert found.high == pytest.approx(max(0.5, min(parts)), abs=0.02)


GROUPS = np.arange(20) // 5


def merged(
    seed: int, fine: int = 400, coarse: int = 100, *, residual: bool = False, people: Any = PEOPLE, groups: Any = GROUPS
) -> MergedEvidence:
    """Levels of age measured alone, its groups with smoker: as a table, or only what both say beyond each of them."""
    rng, merging = np.random.default_rng(seed), Merging(AGES, {"age": groups})
    levels, grouped = Residuals(AGES), Residuals(merging.merged)
    levels.add(noisy(AGES, people, ("age",), fine, rng))
    measured = noisy(AGES, people, ("smoker",), fine, rng)
    levels.add(measured)
    grouped.add(Measurement(Marginal(merging.merged, ["smoker"]), measured.values, measured.event, FREE))
    pair = noisy(AGES, people, ("age", "smoker"), coarse, rng, groups=groups, residual=residual)
    merging.take(pair, ("age", "smoker"), grouped)
    return MergedEvidence(merging, levels, grouped)


def beyond(seed: int) -> MergedEvidence:
    """The same, but of the groups only what the pair says beyond its columns."""
    evidence = merged(seed)
    kept = Residuals(evidence.merging.merged)
    for columns, values, variances in evidence.coarse:
        if columns == ("age", "smoker"):
            kept.combine(columns, values, variances)
    for columns, values, variances in evidence.fine:
        if columns in ((), ("smoker",)):
            kept.combine(columns, values, variances)
    return MergedEvidence(evidence.merging, evidence.fine, kept)


WEIGHTS = {
    "a group": (GROUPS == 1).astype(float),
    "a range that cuts": (np.arange(20) >= 7).astype(float),
    "one level": (np.arange(20) == 3).astype(float),
    "rising": np.arange(20) / 19,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", WEIGHTS)
def test_levels_and_groups_together_are_unbiased_and_less_noisy_than_levels(name: str) -> None:
    weights = WEIGHTS[name]
    truth = float(weights @ counts(AGES, PEOPLE, ("age",)))
    found = [merged(seed).estimate(weights, ("age",)) for seed in range(500)]
    errors = np.array([(each.total - truth) / each.deviation for each in found])
    assert abs(errors.mean()) < 5 / np.sqrt(500)
    assert 0.85 < errors.std() < 1.15
    alone = merged(0).fine.estimate(weights, ("age",)).deviation
    assert found[0].deviation <= alone
    if name == "a group":
        assert found[0].deviation < 0.75 * alone


PAIRS = {
    "groups": np.outer(np.isin(GROUPS, [1, 2]), [0.0, 1.0]),
    "rising over groups": np.outer(GROUPS / 3, [0.2, 1.0]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PAIRS)
def test_what_only_levels_say_of_groups_is_added_up_from_them(name: str) -> None:
    weights, columns = PAIRS[name], ("age", "smoker")
    truth = float((weights * counts(AGES, PEOPLE, columns)).sum())
    found = []
    for seed in range(500):
        evidence = merged(seed, residual=True)
        assert ("age",) not in evidence.coarse
        assert evidence.covers(columns)
        found.append(evidence.estimate(weights, columns))
    assert all(type(each) is Estimate for each in found)  # no group is cut, so nothing but noise is unknown
    errors = np.array([(each.total - truth) / each.deviation for each in found])
    assert abs(errors.mean()) < 5 / np.sqrt(500)
    assert 0.85 < errors.std() < 1.15


def test_columns_that_were_not_merged_use_everything_that_was_measured() -> None:
    evidence = merged(0)
    smoker = evidence.estimate(np.array([0.0, 1.0]), ("smoker",))
    assert smoker.deviation < evidence.fine.estimate(np.array([0.0, 1.0]), ("smoker",)).deviation


CUTS = ("age < 7 AND smoker", "age < 9 AND smoker", "age >= 6 AND NOT smoker", "age IN (2, 7, 12) AND smoker")


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("text", CUTS)
def test_a_condition_that_cuts_a_group_is_narrowed_by_its_levels_and_holds(text: str, residual: bool) -> None:
    query, columns = mq.where(AGES, text), ("age", "smoker")
    weights, truth = query.weights(columns), exact(mq.where(AGES, text), PEOPLE)
    held, widths, wide = 0, [], []
    for seed in range(200):
        evidence = merged(seed, residual=residual)
        estimate = evidence.estimate(weights, columns)
        held += abs(estimate.total - truth) <= estimate.half_width(0.9)
        widths.append(estimate.half_width(0.9))
        low, high = (evidence._reduced(weights, columns, ufunc) for ufunc in (np.minimum, np.maximum))
        ends = [evidence._grouped(part, columns) for part in (low, high)]
        wide.append((ends[1].total - ends[0].total) / 2 + ends[1].half_width(0.9))
    assert held >= rarely_missed(200, 0.9, 2 * len(CUTS))
    assert np.mean(widths) <= np.mean(wide) * (1.01 if text == CUTS[0] else 0.95), (np.mean(widths), np.mean(wide))


@pytest.mark.thorough
@pytest.mark.parametrize("levels", [(0,), (0, 2), (0, 2, 4, 6), (0, 2, 4, 6, 8, 10, 12, 14)])
def test_ends_that_are_chosen_by_noisy_numbers_hold(levels: tuple[int, ...]) -> None:
    """In every group all smokers have the other level: nobody is counted, and noise alone can choose the higher end."""
    people = PEOPLE.copy()
    people[:, 1] = people[:, 0] % 2
    query, columns = mq.where(AGES, f"age IN ({', '.join(map(str, levels))}) AND smoker"), ("age", "smoker")
    weights, groups = query.weights(columns), np.arange(20) // 2
    assert exact(query, people) == 0
    found = [merged(seed, people=people, groups=groups).estimate(weights, columns) for seed in range(200)]
    held = sum(each.total <= each.half_width(0.9) for each in found)
    assert held >= rarely_missed(200, 0.9, 4)


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["age >= 5 AND age < 10 AND smoker", "age < 15 AND NOT smoker"])
def test_groups_that_were_measured_with_others_only_are_sums_of_levels(text: str) -> None:
    query, columns = mq.where(AGES, text), ("age", "smoker")
    weights, truth = query.weights(columns), exact(mq.where(AGES, text), PEOPLE)
    found = [beyond(seed).estimate(weights, columns) for seed in range(500)]
    assert beyond(0).covers(columns)
    assert not beyond(0).coarse.covers(columns)
    errors = np.array([(each.total - truth) / each.deviation for each in found])
    assert abs(errors.mean()) < 5 / np.sqrt(500)
    assert 0.85 < errors.std() < 1.15
    assert all(each.half_width(0.9) < 2 * each.deviation for each in found), "no group is cut"


@pytest.mark.thorough
@pytest.mark.parametrize("text", CUTS)
def test_a_cut_group_whose_levels_stand_for_it_holds_too(text: str) -> None:
    query, columns = mq.where(AGES, text), ("age", "smoker")
    weights, truth = query.weights(columns), exact(mq.where(AGES, text), PEOPLE)
    found = [beyond(seed).estimate(weights, columns) for seed in range(200)]
    held = sum(abs(each.total - truth) <= each.half_width(0.9) for each in found)
    assert held >= rarely_missed(200, 0.9, len(CUTS))


@functools.cache
def made(check: bool = True) -> mq.Release:
    with Curator(table_of(SCHEMA, 4_000), mq.Budget(rho=0.1, delta=1e-9), noise=Seeded(4)) as curator:
        return mq.release(curator, mq.marginals(SCHEMA, k=2), method="everything", check=check)


def test_sql_and_a_condition_give_the_same_interval() -> None:
    """A count and the fraction of the rows: they differ by the noise of the number of rows, which a fraction shares."""
    for text in ("smoker", "smoker AND region = 'n'", "age >= 20 AND region = 's'"):
        fraction, count = made().answer(text), made().answer(f"SELECT count(*) FROM t WHERE {text}")
        assert count.value == pytest.approx(fraction.value * made().rows)
        width, same = count.high - count.low, (fraction.high - fraction.low) * made().rows
        assert width == pytest.approx(same, rel=0.35)
        assert count.bound == fraction.bound == "measured"


def test_what_is_measured_and_checked_is_what_both_allow() -> None:
    """The check takes a twentieth of the failure probability: intervals are hardly wider than without it."""
    plain = mq.Release(SCHEMA, made().model, made().evidence, made().certificate)
    for text in ("smoker", "smoker AND region = 'n'", "age >= 20 AND region = 's'", "region = 's'"):
        both, one = made().answer(text), plain.answer(text)
        assert both.high - both.low <= 1.04 * (one.high - one.low)


def test_no_bound_is_one_that_cannot_be() -> None:
    """0 to all rows, fractions in [0, 1], averages in the declared range, whatever the kind."""
    empty = mq.Release(SCHEMA, made().model, NoEvidence(4_000.0), made().certificate)
    statement = "SELECT region, count(*) AS n, avg(age) AS mean, sum(age) AS total FROM t GROUP BY region"
    for release, text in itertools.product(
        (made(), empty), ("smoker", "region = 'n' AND age < 10", "age < 0 OR smoker")
    ):
        answer = release.answer(text, confidence=0.9999)
        assert 0 <= answer.low <= answer.value <= answer.high <= 1
    for release in (made(), empty):
        for row in release.answer(statement, confidence=0.9999).rows:
            assert 0 <= row["n"].low <= row["n"].value <= row["n"].high
            assert 0 <= row["mean"].low <= row["mean"].value <= row["mean"].high <= 39
            assert row["total"].low <= row["total"].value <= row["total"].high
    assert {number.bound for number in empty.answer(statement).numbers} == {"logical"}


def test_a_question_that_holds_for_all_is_exact() -> None:
    everyone = LinearQuery.constant(SCHEMA)
    answer = made().answer(everyone)
    assert (answer.low, answer.value, answer.high) == (1.0, 1.0, 1.0)


def test_an_answer_says_its_kind_in_every_form() -> None:
    one = made().answer("smoker")
    assert one.as_dict()["bound"] == "measured"
    assert one.to_pandas()["value_bound"].tolist() == ["measured"]
    table = made().answer("SELECT region, count(*) AS n FROM t GROUP BY region")
    assert table.to_pandas()["n_bound"].tolist() == ["measured"] * 3
    assert table.as_dict()["rows"][0]["n"]["bound"] == "measured"
    assert table.as_dict()["confidence"] == 0.95
    assert "noise interval" in str(table.guarantee)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_in_which_nothing_is_possible_is_told_in_order(sign: int) -> None:
    """Noise may say that a total of numbers above zero is below it: then zero is all that is told."""
    evidence = Residuals(SCHEMA)
    event = DiscreteGaussian(Fraction(1), Fraction(1))
    evidence.add(Measurement(Marginal(SCHEMA, ("region",)), np.array([-50.0, 40.0, 40.0]), event, FREE))
    bounds = Bounds(model(), evidence, None)
    asked = Asked(("region",), sign * np.array([1.0, 0.0, 0.0]))
    value = bounds.nearest(asked, -50.0 * sign)
    found = bounds.of(asked, 0.95, -50.0 * sign)
    assert (value, found.low, found.high) == (0.0, 0.0, 0.0)
