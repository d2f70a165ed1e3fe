"""Worth: the split of a charge over tables is the best there is, and follows rows, noise and what was seen."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import maquette as mq
from maquette.estimates import Columns, Wanted, believed, noise_of, split, unexplained, wanted, weights_of
from maquette.estimates.worth import ECHO, MEDIAN

SCHEMA = mq.Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate((2, 5, 12, 40, 3))])
TABLES = list(itertools.combinations(SCHEMA.names, 3))
WEIGHTS = {size: weights_of(TABLES, size) for size in (1, 2, 3)}


def example(seed: int, count: int = 8) -> Wanted:
    rng = np.random.default_rng(seed)
    errors, noises = np.exp(rng.normal(4, 1.5, count)), np.exp(rng.normal(3, 1.5, count))
    before = rng.random(count) * (rng.random(count) < 0.4)
    return Wanted(errors, noises, rng.integers(1, 5, count).astype(float), before, rng.random(count) + 0.2)


def total(asked: Wanted, shares: Any) -> float:
    """What the shares are to make small: the errors that are left, each with its weight and as often as it is there."""
    return float((asked.weights * asked.copies * asked.after(shares)).sum())


@pytest.mark.parametrize("seed", range(12))
def test_no_other_split_leaves_less_error(seed: int) -> None:
    """Against a general solver, and against moving a little from any table to any other."""
    asked = example(seed)
    shares = asked.shares()
    assert shares.min() >= 0.0
    assert shares.sum() == pytest.approx(1.0)
    best = total(asked, shares)
    size = len(shares)
    from scipy import optimize

    found = optimize.minimize(
        lambda s: total(asked, np.maximum(s, 0.0)) / best,
        np.full(size, 1 / size),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * size,
        constraints={"type": "eq", "fun": lambda s: s.sum() - 1.0},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert best <= float(found.fun) * best * (1 + 1e-9)
    assert float(found.fun) == pytest.approx(1.0, abs=2e-3), "the solver does not come near: nothing was compared"
    for one, other in itertools.permutations(range(size), 2):
        moved = shares.copy()
        step = min(1e-4, moved[one])
        moved[one] -= step
        moved[other] += step
        assert total(asked, moved) >= best * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_what_gets_a_share_gains_the_same_by_more_and_the_rest_gains_less(seed: int) -> None:
    """The conditions of Karush, Kuhn and Tucker."""
    asked = example(seed)
    shares = asked.shares()
    slopes = (asked.errors / asked.noises) ** 2
    gain = asked.weights * asked.errors * slopes / 2 / (1 + (shares / asked.copies + asked.before) * slopes) ** 1.5
    bought = shares > 1e-12
    assert bought.any()
    assert gain[bought] == pytest.approx(gain[bought].max(), rel=1e-6)
    assert (gain[~bought] <= gain[bought].max() * (1 + 1e-6)).all()


def test_tables_that_are_not_worth_their_noise_get_nothing() -> None:
    shares = wanted([100.0, 0.5, 0.0], [10.0, 200.0, 1.0], [1.0, 1.0, 1.0]).shares()
    assert shares.tolist() == [1.0, 0.0, 0.0]
    assert wanted([0.0, 0.0], [1.0, 5.0], [1.0, 2.0]).shares().tolist() == [0.0, 0.0]
    assert wanted([], [], []).shares().tolist() == []


def test_what_was_spent_before_counts() -> None:
    """Two equal tables, of which one has had a fifth of a charge before: they end up equal."""
    shares = wanted([100.0, 100.0], [10.0, 10.0], [1.0, 1.0], [0.2, 0.0]).shares()
    assert shares == pytest.approx([0.4, 0.6])
    assert wanted([100.0, 100.0], [10.0, 10.0], [1.0, 1.0], [3.0, 0.0]).shares() == pytest.approx([0.0, 1.0])


def test_a_table_that_counts_more_or_errs_more_gets_more() -> None:
    heavy = wanted([50.0, 50.0], [10.0, 10.0], [3.0, 1.0]).shares()
    assert heavy[0] > heavy[1] > 0
    wrong = wanted([60.0, 30.0], [30.0, 30.0], [1.0, 1.0]).shares()
    assert wrong[0] > wrong[1]


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.floats(1e-2, 1e5)] * 3), min_size=1, max_size=12))
def test_any_errors_and_noises_are_split_into_a_whole(tables: list[tuple[float, float, float]]) -> None:
    errors, noises, weights = zip(*tables, strict=True)
    shares = wanted(errors, noises, weights).shares()
    assert np.isfinite(shares).all()
    assert shares.min() >= 0.0
    assert shares.sum() == pytest.approx(1.0)


def test_the_split_sums_to_one_and_goes_from_columns_to_triples_as_rows_grow() -> None:
    found = [split(SCHEMA, WEIGHTS, rows, 30.0, 0.1) for rows in 10.0 ** np.arange(1.5, 8)]
    for each in found:
        assert list(each) == [1, 2, 3]
        assert sum(each.values()) == pytest.approx(1.0)
        assert min(each.values()) >= 0.0
    columns, triples = [each[1] for each in found], [each[3] for each in found]
    assert (np.diff(columns) <= 1e-9).all()
    assert (np.diff(triples) >= -1e-9).all()
    assert columns[0] > 0.99
    assert triples[0] == 0.0
    assert triples[-1] > 0.3


def test_the_split_depends_on_rows_over_noise_alone() -> None:
    one, other = (split(SCHEMA, WEIGHTS, 3000.0 * by, 20.0 * by, 0.1) for by in (1.0, 7.0))
    assert one == pytest.approx(other, rel=1e-6)


def test_a_plan_of_very_many_tables_looks_at_some() -> None:
    """Sixty columns have 34,220 triples; the sample stands for all of them."""
    wide = mq.Schema([mq.Integer(f"c{i}", 0, 3) for i in range(60)])
    weights = {size: weights_of(itertools.combinations(wide.names, 3), size) for size in (1, 2, 3)}
    found = split(wide, weights, 1e5, 30.0, 0.1)
    assert sum(found.values()) == pytest.approx(1.0)
    assert 0.0 < found[1] < found[2]


def test_without_a_look_tables_err_as_usual() -> None:
    for size in (2, 3):
        found = believed(np.array([5.0, -7.0, 0.0]), math.inf, 1000.0, size)
        assert (found == found[0]).all()
        assert MEDIAN[size] * 1000 < found[0] < 4 * MEDIAN[size] * 1000, "the mean of a skewed law is above its median"


def test_a_sharp_look_is_believed_and_a_blurred_one_is_drawn_to_what_is_usual() -> None:
    errors = np.array([4.0, 30.0, 90.0, 400.0, 2000.0])
    assert believed(errors, 1e-3, 1000.0, 2) == pytest.approx(errors, rel=1e-12)
    usual = believed(errors, math.inf, 1000.0, 2)
    assert believed(np.array([10.0, 60.0]), 1e7, 1000.0, 2) == pytest.approx(usual[:2], rel=1e-3)
    noisy = np.array([-300.0, -20.0, 0.0, 100.0, 300.0])
    drawn = believed(noisy, 100.0, 1000.0, 2)
    assert (drawn > 0).all()
    assert (np.diff(drawn) > 0).all()
    assert drawn[-1] < noisy[-1], "much of a large noisy error is noise"


def test_an_error_beyond_all_usual_ones_and_all_noise_is_itself() -> None:
    assert believed(np.array([900.0]), 150.0, 1000.0, 2) == pytest.approx([900.0])


def test_believed_errors_are_nearer_the_truth_than_noisy_ones() -> None:
    """Errors as tables usually err, noise of the size of a typical one: the mean square is less than a half."""
    rng = np.random.default_rng(0)
    truth = 1000 * MEDIAN[2] * np.exp(np.clip(rng.normal(0, 1, 4000), -2, 2.6))
    noisy = truth + 40 * rng.standard_normal(4000)
    found = believed(noisy, 40.0, 1000.0, 2)
    assert ((found - truth) ** 2).mean() < 0.5 * ((noisy - truth) ** 2).mean()


def test_a_pair_that_stronger_pairs_explain_counts_in_part() -> None:
    errors: dict[Columns, float] = {("a", "b"): 5.0, ("a", "c"): 3.0, ("b", "c"): 4.0, ("d", "e"): 1.0, ("c", "d"): 0.5}
    found = unexplained(errors)
    assert list(found) == list(errors)
    assert found == errors | {("a", "c"): ECHO * 3.0}
    assert unexplained({}) == {}
    shuffled = dict(reversed(list(errors.items())))
    assert unexplained(shuffled) == found


@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_explained_is_a_spanning_forest_of_the_largest_errors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations("abcdefgh", 2) if rng.random() < 0.5]
    errors: dict[Columns, float] = {pair: float(rng.random()) for pair in pairs}
    kept = {pair for pair, error in unexplained(errors).items() if error == errors[pair]}
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from((a, b, errors[a, b]) for a, b in pairs)
    assert kept == {tuple(sorted(edge)) for edge in networkx.maximum_spanning_edges(graph, data=False)}


def test_sets_of_a_workload_are_counted_by_the_tables_that_hold_them() -> None:
    tables = [("a", "b", "c"), ("a", "b"), ("d",)]
    assert weights_of(tables, 1) == {("a",): 2.0, ("b",): 2.0, ("c",): 1.0, ("d",): 1.0}
    assert weights_of(tables, 2) == {("a", "b"): 2.0, ("a", "c"): 1.0, ("b", "c"): 1.0}
    assert weights_of(tables, 4) == {}


def test_noise_grows_with_cells_and_deviation_and_columns_keep_more_of_it() -> None:
    assert noise_of(20, 3.0) == pytest.approx(2 * noise_of(10, 3.0)) == pytest.approx(2 * noise_of(20, 1.5))
    assert noise_of(10, 3.0, column=True) > noise_of(10, 3.0)
