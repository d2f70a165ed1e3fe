"""Averages over a group from tables without all of its columns: exact worst cases of tiny tables, and coverage."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_checks import counts, rarely_missed
from scipy.optimize import linprog
from test_bounds import FREE, noisy

import maquette as mq
from maquette.curator import Measurement
from maquette.estimates import Check, DenseModel, Evidence, MergedEvidence, Merging, Reach, Residuals, rounded
from maquette.privacy import DiscreteGaussian
from maquette.query import Marginal
from maquette.releases.averages import averaged, bounded, searched, seen
from maquette.releases.bounds import Asked, Bounds

SCHEMA = mq.Schema([mq.Integer("v", 0, 8), mq.Boolean("a"), mq.Boolean("b")])
COLUMNS = ("v", "a", "b")
NUMBERS = np.arange(9) / 8


def people(rows: int, share: float, seed: int = 0) -> np.ndarray:
    """Rows in which v depends on a and b; `share` of them have b."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(rows) < 0.5, rng.random(rows) < share
    v = np.clip(np.rint(2 + 2 * a + 2 * b + rng.normal(0, 1, rows)), 0, 8)
    return np.stack([v, a, b], axis=1).astype(np.int64)


def average(**kept: bool) -> Asked:
    """The average of v where columns have these values."""
    per = np.ones(SCHEMA.shape(COLUMNS))
    for name, value in kept.items():
        shape = [2 if other == name else 1 for other in COLUMNS]
        per = per * (np.arange(2) == value).reshape(shape)
    return Asked(COLUMNS, per * NUMBERS[:, None, None], per)


def truth(rows: Any, asked: Asked) -> float:
    cells = counts(SCHEMA, rows, COLUMNS)
    assert asked.per is not None
    return float((cells * asked.weights).sum() / (cells * asked.per).sum())


def programmed(reach: Reach, weights: np.ndarray) -> float:
    """The same by linear programming: counts, more and fewer, with more + fewer within the distance."""
    size = weights.size
    cells, ones, none = reach.cells.reshape(-1), np.ones(size), np.zeros(size)
    equal = np.hstack([np.eye(size), -np.eye(size), np.eye(size)])
    total = np.concatenate([ones, none, none])
    found = linprog(
        -np.concatenate([weights.reshape(-1), none, none]),
        A_ub=np.stack([np.concatenate([none, ones, ones]), total, -total]),
        b_ub=[reach.farthest, reach.rows[1], -reach.rows[0]],
        A_eq=equal,
        b_eq=cells,
    )
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize("seed", range(60))
def test_the_largest_total_within_a_distance_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 6, (2, 3)).astype(float) * (rng.random((2, 3)) < 0.7)
    weights = rng.integers(-4, 5, (2, 3)) / 4 - (seed % 3 == 0)
    farthest, about = float(rng.integers(0, 12)), cells.sum() + rng.integers(-2, 3)
    reach = Reach(cells, farthest, (max(0.0, about - 2), about + 2))
    if abs(about - cells.sum()) - 2 > farthest:
        return
    assert reach.most(weights) == pytest.approx(programmed(reach, weights), abs=1e-7)


def test_a_check_that_has_failed_says_nothing() -> None:
    assert Reach(np.array([5.0, 5.0]), 1.0, (20.0, 30.0)).most(np.array([0.0, 1.0])) == np.inf


def tables(pairs: np.ndarray, group: int) -> Iterator[np.ndarray]:
    """Every table of v, a, b with these counts of v and a, and so many rows with a and b."""
    cells = [range(int(count) + 1) for count in pairs.reshape(-1)]
    for with_b in itertools.product(*cells):
        inside = np.reshape(with_b, pairs.shape)
        if inside[:, 1].sum() == group:
            yield np.stack([pairs - inside, inside], axis=2)


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_from_a_pair_are_the_extremes_over_all_tables_with_its_counts(seed: int) -> None:
    """Without noise: every table with the same pair and size of the group lies within, and some are at each end."""
    rng = np.random.default_rng(seed)
    pairs, numbers = rng.integers(0, 4, (3, 2)), np.array([0.0, 0.4, 1.0])
    pairs[0, 1] += 1
    per = np.zeros((3, 2, 2))
    per[:, 1, 1] = 1.0
    weights, between = per * numbers[:, None, None], (0.0, 1.0)
    sides = seen(("v", "a", "b"), weights, per, ("v", "a"), between)
    for group in range(1, int(pairs[:, 1].sum()) + 1):
        known = tuple({s: float((side.excess(s) * pairs).sum()) for s in {*numbers, *(1 - numbers)}} for side in sides)
        low, high = averaged(between, float(group), [(known[0], known[1])], [])
        found = [(table * weights).sum() / (table * per).sum() for table in tables(pairs, group)]
        assert (low, high) == pytest.approx((min(found), max(found)))
        near = searched(lambda s: float((sides[0].excess(s) * pairs).sum()), float(group), between)
        assert high - 1e-9 <= near <= high + 0.02


def within(reach: Reach) -> Iterator[np.ndarray]:
    """Every table of counts within a distance."""
    flat = reach.cells.reshape(-1).astype(int)
    spread = int(reach.farthest)
    for found in itertools.product(*(range(max(0, c - spread), c + spread + 1) for c in flat)):
        if np.abs(found - flat).sum() <= spread and reach.rows[0] <= sum(found) <= reach.rows[1]:
            yield np.reshape(found, reach.cells.shape)


@pytest.mark.parametrize("seed", range(6))
def test_the_bounds_of_a_check_hold_for_every_table_within_its_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells, per = rng.integers(0, 5, (3, 2)).astype(float), np.zeros((3, 2))
    per[:, 1], cells[1, 1] = 1.0, 6.0
    weights, between = per * np.array([[0.0], [0.4], [1.0]]), (0.0, 1.0)
    reach = Reach(cells, 3.0, (cells.sum() - 1, cells.sum() + 1))
    sides = seen(("v", "a"), weights, per, ("v", "a"), between)
    fewest = max(1.0, reach.total(per)[0])
    low, high = averaged(between, fewest, [], [(sides[0].checked(reach), sides[1].checked(reach))])
    averages = [(weights * c).sum() / (per * c).sum() for c in within(reach) if (per * c).sum() > 0]
    assert low - 1e-9 <= min(averages) <= low + 0.02
    assert high - 0.02 <= max(averages) <= high + 1e-9
    plain = reach.ratio(weights, per, between)
    assert low >= plain[0] - 1e-3, "knowing that counts are not negative, no wider than without"
    assert high <= plain[1] + 1e-3


def test_a_known_excess_of_a_group_that_may_be_empty_says_little() -> None:
    assert bounded(0.5, 30.0, 1.0) > 1.0
    assert averaged((0.0, 1.0), 1.0, [({0.5: 30.0}, {0.5: 30.0})], []) == (0.0, 1.0)


PAIRS = [("v", "a"), ("v", "b"), ("a", "b")]
GROUPS = {"two columns": {"a": True, "b": True}, "other side": {"a": False, "b": True}, "one column": {"b": True}}
MODEL = DenseModel(SCHEMA, np.full(SCHEMA.shape(SCHEMA.names), 1 / SCHEMA.size))


def paired(rows: Any, rng: Any) -> Residuals:
    evidence = Residuals(SCHEMA)
    for columns in PAIRS:
        evidence.add(noisy(SCHEMA, rows, columns, 25, rng))
    return evidence


def grouped(rows: Any, rng: Any) -> MergedEvidence:
    """Levels of v alone, and three groups of them with a and with b; a with b."""
    merging = Merging(SCHEMA, {"v": np.arange(9) // 3})
    fine, coarse = Residuals(SCHEMA), Residuals(merging.merged)
    fine.add(noisy(SCHEMA, rows, ("v",), 25, rng))
    for columns in (("v", "a"), ("v", "b")):
        merging.take(noisy(SCHEMA, rows, columns, 25, rng, groups=np.arange(9) // 3), columns, coarse)
    pair = noisy(SCHEMA, rows, ("a", "b"), 25, rng)
    coarse.add(Measurement(Marginal(merging.merged, ("a", "b")), pair.values, pair.event, FREE))
    fine.add(pair)
    return MergedEvidence(merging, fine, coarse)


EVIDENCE: dict[str, Callable[[Any, Any], Evidence]] = {"pairs": paired, "groups of levels": grouped}


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.4, 0.02, 0.004])
@pytest.mark.parametrize("name", EVIDENCE)
def test_averages_of_columns_not_measured_together_hold(name: str, share: float) -> None:
    """Groups of hundreds of rows, of about ten and of one or two: the true average lies within."""
    rows = people(1_500, share)
    held, runs = dict.fromkeys(GROUPS, 0), 25
    for seed in range(runs):
        bounds = Bounds(MODEL, EVIDENCE[name](rows, np.random.default_rng(seed)), None)
        for group, kept in GROUPS.items():
            asked = average(**kept)
            exact = truth(rows, asked)
            found = bounds.of(asked, 0.8, 0.5)
            ends = bounds._ends(asked, 0.8)[0]  # not widened to hold the answer
            held[group] += ends[0] <= exact <= ends[1]
            assert found.low <= ends[0] <= ends[1] <= found.high
            if share == 0.4:
                assert found.kind == "measured"
                assert found.high - found.low < 0.9
    assert min(held.values()) >= rarely_missed(runs, 0.8, 2 * 3 * len(held))


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.4, 0.02])
def test_measurements_and_check_together_hold(share: float) -> None:
    """A model that knows the pairs only, its distance from the rows, and the number of rows of the group."""
    rows, runs, held = people(1_500, share), 40, 0
    cells = counts(SCHEMA, rows, COLUMNS)
    mixed = cells.sum(axis=2, keepdims=True) * cells.sum(axis=(0, 1))
    model = DenseModel(SCHEMA, mixed / mixed.sum())
    distance = np.abs(rounded(model.marginal(COLUMNS), float(len(rows))) - cells).sum()
    asked = average(a=True, b=True)
    exact = truth(rows, asked)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        noise = np.rint(rng.normal(0, 5, 2))
        event = DiscreteGaussian(Fraction(25), Fraction(1))
        check = Check(
            (COLUMNS,), np.array([distance + noise[0]]), float(len(rows)), len(rows) + noise[1], False, event, 1
        )
        ends = Bounds(model, paired(rows, rng), check)._averaged(asked, 0.2)
        held += all(low <= exact <= high for low, high in ends)
    assert held >= rarely_missed(runs, 0.8, 2)
