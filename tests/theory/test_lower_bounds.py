"""Lower bounds against exact optima: a linear program over all mechanisms, and every upper bound that is run."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.theory import lower, noise
from maquette.theory.planning.mechanisms import MECHANISMS
from maquette.theory.planning.question import Question


def least_failure(rows: int, epsilon: float, delta: float, error: float) -> float:
    """The least worst-case Pr[|answer - count / n| > error] over all (epsilon, delta)-DP mechanisms on one count.

    A linear program: the law of the answer, on a grid that holds the best answers, for every count 0..n; neighbouring
    counts differ by one. (epsilon, delta) needs a slack for every answer, which sums to at most delta.
    """
    grid = np.arange(0, 2 * rows + 1) / (2 * rows)
    cells, counts = len(grid), rows + 1
    laws = counts * cells
    slack = 2 * rows * cells
    size = laws + slack + 1
    upper, bound = [], []
    for x in range(rows):
        for side, (one, other) in enumerate(((x, x + 1), (x + 1, x))):
            start = laws + (2 * x + side) * cells
            for y in range(cells):
                row = np.zeros(size)
                row[one * cells + y], row[other * cells + y], row[start + y] = 1.0, -math.exp(epsilon), -1.0
                upper.append(row)
                bound.append(0.0)
            total = np.zeros(size)
            total[start : start + cells] = 1.0
            upper.append(total)
            bound.append(delta)
    for x in range(counts):
        row = np.zeros(size)
        row[x * cells : (x + 1) * cells] = np.abs(grid - x / rows) > error + 1e-12
        row[-1] = -1.0
        upper.append(row)
        bound.append(0.0)
    equal = np.zeros((counts, size))
    for x in range(counts):
        equal[x, x * cells : (x + 1) * cells] = 1.0
    cost = np.zeros(size)
    cost[-1] = 1.0
    from scipy.optimize import linprog

    solved = linprog(cost, np.array(upper), bound, equal, np.ones(counts), bounds=(0, None), method="highs")
    assert solved.status == 0
    return float(solved.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.4, 0.0), (0.5, 0.05)])
def test_no_mechanism_beats_the_bound_on_one_query(epsilon: float, delta: float) -> None:
    """By linear programming over all mechanisms on eight rows: an error below the bound fails with more than beta."""
    rows = 8
    for beta in (0.02, 0.1, 0.3):
        error = lower.single(epsilon=epsilon, delta=delta, rows=rows, beta=beta)
        if error > 0:
            assert least_failure(rows, epsilon, delta, error - 1e-6) > beta - 1e-9


def test_the_bound_on_one_query_is_tight_to_a_step() -> None:
    """At an error one row larger some mechanism fails with at most beta."""
    error = lower.single(epsilon=1.0, delta=0.0, rows=8, beta=0.1)
    assert error >= 2 / 16
    assert least_failure(8, 1.0, 0.0, error + 1 / 8) <= 0.1


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_packing_is_the_largest_k_of_its_inequality(epsilon: float) -> None:
    for universe, queries, beta in ((64, 100, 0.05), (2**20, 5, 0.3), (3, 2, 0.01)):
        rows, points = 10**6, min(universe, 2**queries)
        k = round(lower.packing(universe=universe, queries=queries, epsilon=epsilon, rows=rows, beta=beta) * 2 * rows)
        assert (1 - beta) * (1 + (points - 1) * math.exp(-k * epsilon)) > 1
        assert (1 - beta) * (1 + (points - 1) * math.exp(-(k + 1) * epsilon)) <= 1 + 1e-12


def subset_counts(bits: int) -> NDArray[np.int64]:
    """Tables of bits by subsets: how many bits of the subset are 1."""
    listed = np.array(list(itertools.product((0, 1), repeat=bits)))
    return np.asarray(listed @ listed.T)


@pytest.mark.parametrize("error", [0.5, 1.0, 1.5])
def test_answers_to_all_subsets_reconstruct_all_but_four_times_their_error(error: float) -> None:
    """Two tables of six bits that share answers within E on every subset differ in at most 4 E bits: all pairs."""
    bits = 6
    counts, listed = subset_counts(bits), np.array(list(itertools.product((0, 1), repeat=bits)))
    apart = np.abs(counts[:, None, :] - counts[None, :, :]).max(axis=2)
    differ = np.abs(listed[:, None, :] - listed[None, :, :]).sum(axis=2)
    assert differ[apart <= 2 * error].max() <= 4 * error
    assert differ[apart <= 2 * error].max() > 2 * error, "a mutant with 2 E instead of 4 E is refuted"


def test_private_answers_to_all_subsets_keep_the_bound_of_reconstruction() -> None:
    """Randomised response on every bit, exactly: its errors on all subsets of 8 bits exceed the bound with beta."""
    bits, epsilon = 8, 1.0
    flip, counts = 1 / (1 + math.exp(epsilon)), subset_counts(8)
    listed = np.array(list(itertools.product((0, 1), repeat=bits)))
    for beta in (0.05, 0.2):
        bound = lower.reconstruction(universe=16, queries=256, epsilon=epsilon, delta=0.0, rows=bits, beta=beta)
        assert bound == pytest.approx((flip - beta) / (4 * (1 - beta)))
        failed = []
        for table in (0, 37, 255):
            flips = np.abs(listed - listed[table]).sum(axis=1)
            chance = flip**flips * (1 - flip) ** (bits - flips)
            errors = np.abs(counts - counts[table]).max(axis=1) / bits
            failed.append(float(chance[errors > bound - 1e-9].sum()))
        assert max(failed) >= beta
    few = lower.reconstruction(universe=16, queries=255, epsilon=epsilon, delta=0.0, rows=bits, beta=0.05)
    assert few < lower.reconstruction(universe=16, queries=256, epsilon=epsilon, delta=0.0, rows=bits, beta=0.05)
    assert lower.reconstruction(universe=16, queries=256, epsilon=4.0, delta=0.0, rows=bits, beta=0.05) == 0.0


def test_no_promise_of_a_plan_is_below_a_proved_lower_bound() -> None:
    """Every mechanism, over sizes and budgets: an upper bound below a lower bound would be a wrong proof."""
    for rows, universe, queries, epsilon in ((10**3, 64, 100, 1.0), (10**5, 2**10, 1000, 0.1), (10**6, 2**20, 50, 2.0)):
        question = Question(
            rows=rows, universe=universe, queries=queries, epsilon=epsilon, delta=0.0, beta=0.05, relation="replace"
        )
        least = max(
            lower.single(epsilon=epsilon, delta=0.0, rows=rows, beta=0.05),
            lower.packing(universe=universe, queries=queries, epsilon=epsilon, rows=rows, beta=0.05),
            lower.reconstruction(universe=universe, queries=queries, epsilon=epsilon, delta=0.0, rows=rows, beta=0.05),
        )
        assert least > 0
        for mechanism in MECHANISMS:
            if mechanism.pure is not None and mechanism.general:
                assert mechanism.promise(question)[0].error >= least, mechanism.name


def test_laplace_noise_is_within_a_factor_of_the_bound_on_one_query() -> None:
    facts: dict[str, Any] = {"epsilon": 0.01, "rows": 10**5, "beta": 0.05}
    assert 1 < noise.laplace_accuracy(queries=1, **facts) / lower.single(delta=0.0, **facts) < 2.2


@pytest.mark.thorough
def test_a_plan_says_what_no_mechanism_can_do() -> None:
    found = mq.plan(rows=10**5, universe=2**20, queries=10**6, epsilon=1.0, alpha=0.2, relation="replace", delta=1e-9)
    assert {limit.name for limit in found.limits} == {"single", "reconstruction", "fingerprinting", "efficient"}
    assert [limit.proved for limit in found.limits if limit.name == "single"] == [True]
    assert "no mechanism can" in str(found)
    assert "nobody knows" in str(found)
    assert all(promise.seconds > 0 for promise in found)
    averaged = found["mw-averaged"]
    assert averaged.epsilon_needed is not None
    again = mq.plan(
        rows=10**5, universe=2**20, queries=10**6, epsilon=averaged.epsilon_needed, relation="replace", delta=1e-9
    )["mw-averaged"]
    assert again.error <= 0.2 < 1.02 * again.error
    assert found.possibilities().startswith("<svg")
    assert averaged.title in found.possibilities()


@pytest.mark.thorough
def test_the_map_numbers_every_mechanism_and_names_every_region() -> None:
    found = mq.plan(rows=10**5, universe=2**20, queries=10**6, epsilon=1.0, alpha=0.05, relation="replace", delta=1e-9)
    drawn = found.possibilities()
    reached = [promise for promise in found if promise.rows_needed is not None]
    numbers = {int(number) for number in re.findall(r">(\d+)\. ", drawn)}
    assert numbers == set(range(1, len(reached) + 1))
    assert all(promise.title in drawn for promise in reached)
    assert all(limit.short in drawn for limit in found.limits)
    height = float(re.search(r'height="(\d+)"', drawn)[1])  # type: ignore[index]
    assert all(0 <= float(y) <= height for y in re.findall(r'<text [^>]*y="([\d.-]+)"', drawn))
    for circle in re.findall(r'<circle [^>]*fill="none"[^>]*><title>([^<]*)', drawn):
        promise = next(each for each in reached if each.title == circle)
        assert not (promise.proved and promise.general)
