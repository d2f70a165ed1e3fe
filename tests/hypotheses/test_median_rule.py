"""The median rule: never empties, halves, works for non-linear queries; the rules as printed do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis_checks import SMALL, line, random_net, weigh

from maquette.errors import QueryError
from maquette.hypothesis import Median
from maquette.query import LinearQuery
from maquette.query.classes.low_sensitivity import LowSensitivityQuery

ROWS = 6
TINY = line(3)
ALPHAS = (0.02, 0.05, 0.1, 0.2)
Query = LinearQuery | LowSensitivityQuery


def many_queries() -> list[Query]:
    rng = np.random.default_rng(1)
    linear: list[Query] = [weigh(TINY, rng.random(3)) for _ in range(30)]
    functions: dict[str, Any] = {
        "largest": np.max,
        "smallest": np.min,
        "collisions": lambda h: (h**2).sum(),
        "range": np.ptp,
        "middle": lambda h: np.sort(h)[1],
        "product": lambda h: h[0] * (1 - h[1]),
    }
    return linear + [LowSensitivityQuery(n, f, sensitivity=2 / ROWS) for n, f in functions.items()]


def value_of(query: Query, histogram: np.ndarray) -> float:
    if isinstance(query, LowSensitivityQuery):
        return query(histogram)
    return float(histogram @ query.weights(["x"]))


def longest_run(alpha: float, adversary: str) -> int:
    """Over every table of six rows: the most updates; every one must halve the net and keep the table itself."""
    queries, rng, longest = many_queries(), np.random.default_rng(2), 0
    net = Median.multisets(TINY, ROWS, alpha=alpha, tolerance=0.0)._net
    for table in net[::3]:
        model = Median(TINY, net, alpha=alpha, tolerance=0.0)
        truth = np.array([value_of(query, table) for query in queries])
        made = 0
        while True:
            answers = np.array([model.answer(query) for query in queries])
            off = np.flatnonzero(np.abs(answers - truth) >= alpha)
            if not len(off):
                break
            gaps = np.abs(answers - truth)[off]
            chosen = off[gaps.argmin() if adversary == "min-gap" else rng.integers(len(off))]
            before = model.alive
            value = truth[chosen] + np.sign(answers[chosen] - truth[chosen]) * alpha * (1 - 1e-9)
            model.update(queries[chosen], float(value))
            made += 1
            assert 1 <= model.alive <= before / 2
            assert (np.abs(model._net[model._alive] - table).sum(axis=1) < 1e-12).any()
        assert made <= model.update_bound
        longest = max(longest, made)
    return longest


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("adversary", ["min-gap", "random"])
def test_the_median_never_exceeds_log2_of_its_net_also_for_non_linear_queries(adversary: str) -> None:
    longest = max(longest_run(alpha, adversary) for alpha in ALPHAS)
    assert Median.multisets(TINY, ROWS, alpha=0.1, tolerance=0.0).update_bound == 4
    assert math.comb(3 + ROWS - 1, ROWS) == 28
    assert longest <= 4


def test_the_printed_natural_logarithm_is_exceeded() -> None:
    """Printed (erratum A7): T = log |net|. Halving counts in base 2; ln 28 = 3.3 and four updates occur."""
    assert max(longest_run(0.02, adversary) for adversary in ("min-gap", "random")) > math.log(28)


def test_the_printed_rule_with_a_net_as_coarse_as_alpha_deletes_everybody() -> None:
    """Printed (erratum A6): an alpha-net, updates at >= alpha. Two equal candidates exactly alpha away from the
    table.
    """
    alpha, answers, truth = 0.1, np.array([0.5, 0.5]), 0.4
    median = np.sort(answers)[(len(answers) - 1) // 2]
    assert median - truth >= alpha - 1e-12
    survivors = answers[answers < median]
    assert len(survivors) == 0
    half = np.full((2, 2), 0.5)
    with pytest.raises(QueryError, match="strictly less than alpha"):
        Median(line(2), half, alpha=alpha, tolerance=alpha)


def test_a_step_that_would_leave_nobody_changes_nothing() -> None:
    model = Median(line(2), np.full((2, 2), 0.5), alpha=0.2, tolerance=0.1)
    model.update(weigh(line(2), np.array([1.0, 0.0])), 0.0)
    assert model.alive == 2


def test_multisets_are_as_fine_as_they_say() -> None:
    rng, schema, rows = np.random.default_rng(3), line(4), 7
    model = Median.multisets(schema, rows, alpha=0.2)
    assert model.tolerance == pytest.approx(4 / 28)
    assert len(model._net) == math.comb(4 + rows - 1, rows)
    worst = 0.0
    for _ in range(300):
        table = rng.dirichlet(np.ones(4))
        distances = 0.5 * np.abs(model._net - table).sum(axis=1)  # the worst linear query over [0, 1] weights
        worst = max(worst, float(distances.min()))
    assert 0.5 * model.tolerance < worst <= model.tolerance


def test_the_class_bound_is_that_of_the_multisets_fine_enough() -> None:
    alpha, cells = 0.3, 4
    rows = math.floor(cells / (4 * alpha)) + 1
    model = Median.multisets(line(cells), rows, alpha=alpha)
    assert model.update_bound <= Median.max_updates(line(cells), alpha) < model.update_bound + 1


def test_a_sample_is_one_living_candidate() -> None:
    model = Median(SMALL, random_net(SMALL, 50), alpha=0.2, tolerance=0.1)
    records = model.sample(4000, np.random.default_rng(4))
    counts = np.zeros(SMALL.shape(SMALL.names))
    np.add.at(counts, tuple(records.T), 1)
    distance = np.abs(model._net[model._alive] * 4000 - counts.reshape(-1)).max(axis=1)
    assert distance.min() < 1 + 1e-6


def test_low_sensitivity_queries_are_told_apart_by_name() -> None:
    largest = LowSensitivityQuery("largest", np.max, sensitivity=0.01)
    same = LowSensitivityQuery("largest", np.min, sensitivity=0.02)
    other = LowSensitivityQuery("smallest", np.min, sensitivity=0.01)
    assert {largest, same, other} == {largest, other}
    assert hash(largest) == hash(same)
