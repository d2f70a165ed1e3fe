"""Weights of columns with many levels, and what the grid of the wall does to weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maquette as mq
from maquette.errors import QueryError
from maquette.privacy import Kind
from maquette.query import LinearQuery, parse, where
from maquette.session.question import Question

SURE = 1 - 1e-7


@pytest.mark.parametrize("top", [10, 4095, 4096, 9000])
def test_a_weight_is_a_predicate_only_if_it_is_zero_or_one(top: int) -> None:
    schema = mq.Schema([mq.Integer("x", 0, top)])
    weight = LinearQuery.product(schema, {"x": np.arange(top + 1) / top})
    assert (weight.is_predicate, weight.grid, weight.bounds) == (False, 2**20, (0.0, 1.0))
    halves = LinearQuery.product(schema, {"x": np.where(np.arange(top + 1) % 2, 0.5, 1.0)})
    assert (halves.is_predicate, halves.bounds, halves.rounding) == (False, (0.5, 1.0), 0.0)
    assert where(schema, "x >= 5").is_predicate
    assert where(schema, "x >= 5").rounding == 0.0


def test_sums_and_averages_of_a_column_of_many_levels_are_its_own() -> None:
    schema = mq.Schema([mq.Integer("pay", 0, 5000)])
    table = mq.open_table({"pay": [2501] * 400}, schema)
    with mq.Curator(table, mq.Budget(epsilon=2_000.0)) as curator:
        total = mq.answer(curator, "SELECT sum(pay) FROM t", epsilon=400.0, confidence=SURE)
        mean = mq.answer(curator, "SELECT avg(pay) FROM t", epsilon=400.0, confidence=SURE)
        spread = mq.answer(curator, "SELECT stddev_pop(pay) FROM t", epsilon=400.0, confidence=SURE)
        asked = mq.online(curator, alpha=0.05, beta=1 - SURE).ask("SELECT sum(pay) FROM t", strict=True)
    assert total.low <= 2501 * 400 <= total.high
    assert total.high - total.low < 1_000
    assert mean.low <= 2501 <= mean.high
    assert mean.high - mean.low < 10
    assert spread.low <= 0.0 < spread.high < 100
    assert asked.low <= 2501 * 400 <= asked.high


@pytest.mark.parametrize(("relation", "most"), [("replace", None), ("add-remove", 500_000)])
def test_intervals_allow_for_the_grid_where_rows_have_a_public_bound(relation: Kind, most: int | None) -> None:
    """7 of 9 is not a multiple of 2^-20: with little noise, 400,000 rows of it were outside every interval."""
    schema = mq.Schema([mq.Integer("visits", 0, 9)])
    table = mq.open_table({"visits": [7] * 400_000}, schema)
    weight = parse(schema, "SELECT sum(visits) FROM t").marginals[0].weight
    assert 0.0 < weight.rounding <= 2.0**-21
    with mq.Curator(table, mq.Budget(epsilon=9_000.0), relation=relation, max_rows=most) as curator:
        for request in map(str, range(3)):
            one = mq.answer(curator, "SELECT sum(visits) FROM t", epsilon=1_400.0, request=request, confidence=SURE)
            assert one.low <= 2_800_000 <= one.high


def test_an_average_allows_for_the_grid_by_its_count() -> None:
    """Measured from 4.5, a visit of 7 weighs 5/9: no multiple of 2^-20 either."""
    schema = mq.Schema([mq.Integer("visits", 0, 9)])
    table = mq.open_table({"visits": [7] * 400_000}, schema)
    with mq.Curator(table, mq.Budget(epsilon=9_000.0)) as curator:
        one = mq.answer(curator, "SELECT avg(visits) FROM t", epsilon=4_500.0, confidence=SURE)
        assert one.low <= 7 <= one.high
        assert one.high - one.low > 2 * 4.5 * 1e-7


@pytest.mark.parametrize("seed", range(8))
def test_bounds_and_kinds_of_sums_are_those_of_their_list_of_weights(seed: int) -> None:
    rng, made = np.random.default_rng(seed), set()
    schema = mq.Schema([mq.Integer("x", 0, 4500), mq.Integer("y", 0, 4100)])
    for high, low in itertools.product((0.0, 0.5, 1.0), repeat=2):
        for choices in ([0.0, 1.0], [0.25, 0.5], [0.0]):
            drawn = low + (high - low) * rng.choice(choices, 4501)
            one = LinearQuery.product(schema, {"x": drawn})
            for weight in (one, ~one, one & where(schema, "y > 7") if seed == 0 else one):
                found = weight._diagram
                assert weight.is_predicate == (found.values <= {0.0, 1.0})
                assert weight.bounds == (min(found.values), max(found.values))
                made.add(weight.is_predicate)
    assert made == {True, False}


def test_whether_a_sum_is_a_condition_is_found_without_a_list_of_its_weights() -> None:
    """A session tries to measure each question from half of the rows, which only conditions can be."""
    schema = mq.Schema([mq.Integer("pay", 0, 50_000)])
    (goal, *_) = Question.of(schema, "SELECT sum(pay) FROM t WHERE pay > 7").goals
    assert goal.from_half is None
    assert "values" not in vars(goal.marginal.weight.sum)


@pytest.mark.parametrize("of", ["sum(pay)", "avg(pay)", "variance(pay)", "sum(-debt)", "corr(pay, debt)"])
def test_numbers_of_too_many_levels_are_not_added_up(of: str) -> None:
    """Free for whoever may ask, and 8 GB for each list of the numbers of two thousand million levels."""
    schema = mq.Schema([mq.Integer("pay", 0, 2**30), mq.Integer("debt", 0, 2**53, width=2**23), mq.Boolean("smoker")])
    with pytest.raises(QueryError, match="more than the 16,777,216 whose numbers add up"):
        parse(schema, f"SELECT {of} FROM t")
