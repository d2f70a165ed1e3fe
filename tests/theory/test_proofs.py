"""The proofs of our own, step by step against brute force on small cases, and the constants that the code uses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from maquette.audit.reference import discrete_laplace
from maquette.curator.cap import clipped
from maquette.privacy.gdp import GdpAccountant
from maquette.privacy.lazy import lazy_epsilon, lazy_rate

GDP = GdpAccountant()


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(2, 5), Fraction(1), Fraction(10, 3), Fraction(40)])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_discrete_gaussian_by_brute_force(variance: Fraction, shift: int) -> None:
    """The whole trade-off function of X against X + shift, corner by corner, is above that of the claimed mu."""
    with mpmath.workdps(60):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        reach = int(11 * math.sqrt(variance)) + shift + 8
        weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * v)) for x in range(-reach, reach + 1)]
        total = mpmath.fsum(weights)
        below = [mpmath.mpf(0)]
        for weight in weights:
            below.append(below[-1] + weight / total)
        cost = GDP.gaussian_cost(variance, Fraction(shift**2))
        mu = mpmath.sqrt(mpmath.mpf(cost.numerator) / cost.denominator)
        tightest = mpmath.mpf(0)
        for i in range(reach - int(5 * math.sqrt(variance)), reach + int(5 * math.sqrt(variance)) + shift + 1):
            accept, miss = below[i], below[i - shift]
            if miss > 0 and accept < 1:
                found = _score(accept) - _score(miss)
                assert found <= mu
                tightest = max(tightest, found)
        assert tightest > mu * (mpmath.mpf("0.98") if variance >= 1 else mpmath.mpf("0.6"))


def _score(probability: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * probability - 1)


def test_the_run_of_the_proof_is_a_run_and_holds_zero() -> None:
    """Step (iii) and (iv): ln(p/q) is convex in j, and p_0 <= q_0 for every threshold."""
    for variance in (Fraction(1, 3), Fraction(1), Fraction(5)):
        with mpmath.workdps(50):
            v = mpmath.mpf(variance.numerator) / variance.denominator
            s = mpmath.sqrt(v * (1 + mpmath.sqrt(1 - 1 / (3 * v))) / 2)
            reach = int(12 * math.sqrt(variance)) + 8
            law = {x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * v)) for x in range(-reach, reach + 1)}
            total = mpmath.fsum(law.values())
            for m in range(-3, 4):
                y = s * _score(mpmath.fsum(law[x] for x in range(-reach, m)) / total)
                logs = []
                for j in range(-3, 4):
                    q = mpmath.ncdf((y + j + 1) / s) - mpmath.ncdf((y + j) / s)
                    logs.append(mpmath.log(law[m + j] / total / q))
                assert all(
                    a - 2 * b + c > -(mpmath.mpf(10) ** -30) for a, b, c in zip(logs, logs[1:], logs[2:], strict=False)
                )
                assert logs[3] <= mpmath.mpf(10) ** -30


def test_selections_of_every_range_cost_at_most_half_a_pure_access() -> None:
    for epsilon in (0.05, 0.7, 2.0, 6.0):
        mu = math.sqrt(GDP.pure_cost(Fraction(epsilon) / GDP.selection_gain))
        for t in np.linspace(0.0, epsilon, 41)[1:-1]:
            low, high = math.exp(t - epsilon), math.exp(t)
            alarm = (1 - low) / (high - low)  # of the two-point law with mean 1
            with mpmath.workdps(30):
                assert _score(1 - mpmath.mpf(alarm)) + _score(mpmath.mpf(high) * alarm) <= mu * (1 + 1e-12)


@pytest.mark.thorough
def test_the_cap_by_brute_force() -> None:
    """Definition, bound on probabilities and sensitivity, at D = 1 and 2, on all small score vectors."""
    for scale, cap in itertools.product((Fraction(2, 3), Fraction(5, 2)), (1, 2, 3)):
        level = {}
        for scores in itertools.product(range(-2, 9), repeat=3):
            found = clipped(np.array(scores, dtype=np.int64), scale, cap)
            level[scores] = found
            expected = _level(scores, scale, cap)
            assert (found == np.minimum(scores, expected)).all()
            weights = np.exp((found - found.max()) / float(scale))
            assert weights.max() * cap <= weights.sum() * (1 + 1e-12)
        for scores in itertools.product(range(7), repeat=3):
            for change in itertools.product((-2, 0, 1, 2), repeat=3):
                moved = tuple(s + c for s, c in zip(scores, change, strict=True))
                assert np.abs(level[scores] - level[moved]).max() <= max(map(abs, change))


def _level(scores: tuple[int, ...], scale: Fraction, cap: int) -> int:
    for guess in range(max(scores), min(scores) - 1, -1):
        terms = [math.exp(min(s - guess, 0) / float(scale)) for s in scores]
        assert (
            abs(math.fsum(terms) - cap) > 1e-9
            or len(set(scores)) == 1
            or cap in terms
            or cap == sum(t == 1.0 for t in terms)
        ), "too close for floats"
        if math.fsum(terms) >= cap:
            return guess
    return min(scores)


def _worst_delta(hits: int, rate: float, rounds: int, epsilon: float) -> float:
    """The exact delta of the best adversary: rounds are vertices, losses whole multiples of the rate."""
    strong = 1 / (1 + math.exp(-rate))
    stop = np.maximum(1 - np.exp(epsilon - rate * np.arange(-rounds - 1, rounds + 2)), 0.0)
    value = np.tile(stop, (hits + 1, 1))
    for _ in range(rounds):
        up, down = np.roll(value, -1, axis=1), np.roll(value, 1, axis=1)
        options = [
            np.tile(stop, (hits, 1)),
            strong * up[1:] + (1 - strong) * down[:-1],
            (1 - strong) * down[1:] + strong * up[:-1],
            strong * up[:-1] + (1 - strong) * down[:-1],
        ]
        value[1:] = np.maximum.reduce(options)
    return float(value[hits, rounds + 1])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("hits", "delta"), [(1, 1e-3), (2, 1e-6), (5, 1e-9)])
def test_lazy_rounds_by_brute_force(hits: int, delta: float) -> None:
    for epsilon in (0.5, 1.0, 3.0):
        rate = lazy_rate(hits=hits, epsilon=epsilon, delta=delta)
        assert lazy_epsilon(hits=hits, rate=rate, delta=delta) <= epsilon
        assert _worst_delta(hits, rate, 300, epsilon) <= delta
        assert _worst_delta(hits, 1.6 * rate, 300, epsilon) > delta, "the charge is far from tight"


def test_a_round_of_lazy_rounds_by_enumeration() -> None:
    """The claim for one round, for every public set of a small window: E[e^(sL - m[hit])] <= 1."""
    for rate, s in ((0.3, 1.0), (0.3, 1.7), (0.05, 9.0)):
        u = math.expm1(s * rate) * math.expm1((1 + s) * rate)
        assert u < 1
        window = np.arange(-60, 62)
        one, two = (discrete_laplace(window - c, 1 / rate) for c in (0, 1))
        one, two = one / one.sum(), two / two.sum()
        ratios = np.exp(s * np.log(one / two)) * one
        for start, end in itertools.combinations(range(0, 122, 3), 2):
            for inside in (True, False):
                hit = np.zeros(122, dtype=bool)
                hit[start:end] = True
                hit = hit if inside else ~hit
                silent, silent_other = one[~hit].sum(), two[~hit].sum()
                quiet = silent * (silent / silent_other) ** s if silent > 0 else 0.0
                assert quiet + (1 - u) * ratios[hit].sum() <= 1 + 1e-6  # the window is cut off at e^-18 or less


@pytest.mark.thorough
def test_interleaved_guards_cost_their_sum() -> None:
    """Two AboveThreshold guards, asked in any order by an adversary that sees everything: exact, for all adversaries.

    One statistic differs by one between the tables. For each guard P(answers) is a sum over its noisy threshold; the
    best adversary over all interleavings is found by search, and compared with the sum of the two prices.
    """
    scales = (2.0, 4.0), (3.0, 6.0)  # threshold and query noise of each guard: epsilon 1 and 2/3
    prices = [1 / t + 2 / q for t, q in scales]
    worst = 0.0
    for order in itertools.product((0, 1), repeat=4):
        for answers in itertools.product((False, True), repeat=4):
            for statistics in itertools.product((-9, 9), repeat=4):
                loss = 0.0
                for guard in (0, 1):
                    mine = [(a, x) for g, a, x in zip(order, answers, statistics, strict=True) if g == guard]
                    cut = next((i + 1 for i, (a, _) in enumerate(mine) if a), len(mine))
                    loss += _largest(scales[guard], mine[:cut])
                worst = max(worst, loss)
    assert worst <= sum(prices)
    assert worst > 0.5 * sum(prices)


_MEMO: dict[tuple[tuple[float, float], tuple[tuple[bool, int], ...]], float] = {}


def _largest(scales: tuple[float, float], asked: list[tuple[bool, int]]) -> float:
    """The largest log-ratio of one guard's answers over all ways in which each statistic may move by one."""
    key = (scales, tuple(asked))
    if key not in _MEMO:
        base = _probability(scales, asked)
        moved = [
            _probability(scales, [(a, x + d) for (a, x), d in zip(asked, change, strict=True)])
            for change in itertools.product((-1, 0, 1), repeat=len(asked))
        ]
        _MEMO[key] = max(abs(math.log(base / other)) for other in moved)
    return _MEMO[key]


def _probability(scales: tuple[float, float], asked: list[tuple[bool, int]]) -> float:
    shifts = np.arange(-120, 121)
    total = discrete_laplace(shifts, scales[0]).copy()
    decay = math.exp(-1 / scales[1])
    for above, statistic in asked:
        gap = shifts - statistic  # above if the query's noise is at least the gap
        tail = np.where(
            gap > 0, decay ** np.maximum(gap, 0) / (1 + decay), 1 - decay ** (1 - np.minimum(gap, 0)) / (1 + decay)
        )
        total *= tail if above else 1 - tail
    return float(total.sum())
