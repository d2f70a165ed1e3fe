"""Sparse vector noise and the error of the online iterative construction.

A guard tests any number of adaptive queries and pays for its hits only, at most c = T(a'). Scales are in units of
the sensitivity (1/rows for fractions). Errors hold with probability 1 - beta for `queries` tests; privacy does not
depend on the number of tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maquette.privacy import lazy_epsilon, lazy_rate, zcdp_rho
from maquette.theory.arguments import PROBABILITY, checked
from maquette.theory.offline import Construction
from maquette.theory.solve import fixed_point
from maquette.theory.updates import Updates

__all__ = [
    "Scales",
    "book",
    "concentrated",
    "lazy",
    "lazy_epsilon",
    "lazy_rate",
    "lecture",
    "lecture_settings",
    "numeric_sparse_accuracy",
    "resampled",
    "resampled_approximate",
    "tight",
    "unresampled",
]

_ROOT_512 = math.sqrt(512)
_TEST_SHARES = (0.5, 0.7, 0.8, 0.9, 0.95)
_DESCENDING: list[float] = np.geomspace(1.0, 1e-6, 350).tolist()


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Noise of a numeric sparse vector: Laplace scales; in zCDP `answer` is a Gaussian standard deviation."""

    threshold: float
    query: float
    answer: float


@checked()
def resampled(*, hits: int, epsilon: float) -> Scales:
    """Pure DP, a fresh threshold after every hit: scales 2c and 4c at 8/9 epsilon, answers c at epsilon/9.

    Dwork and Roth, NumericSparse, theorem 3.25. Corrected: the printed answers at 2 epsilon/9 with scale 2c are the
    same thing. Mechanisms §6.2.
    """
    tests, answers = epsilon * 8 / 9, epsilon / 9
    return Scales(threshold=2 * hits / tests, query=4 * hits / tests, answer=hits / answers)


@checked()
def unresampled(*, hits: int, epsilon: float) -> Scales:
    """Pure DP, one threshold noise for all hits: scales 1/e1 and 2c/e2, with e1 : e2 = 1 : (2c)^(2/3) of 8/9 epsilon.

    Lyu, Su and Li 2017, algorithm 1. Mechanisms §6.2.
    """
    ratio = (2 * hits) ** (2 / 3)
    tests = epsilon * 8 / 9
    query = 2 * hits * (1 + ratio) / (tests * ratio)
    return Scales(threshold=(1 + ratio) / tests, query=query, answer=9 * hits / epsilon)


@checked(delta=PROBABILITY)
def resampled_approximate(*, hits: int, epsilon: float, delta: float) -> Scales:
    """(epsilon, delta), strong composition: scales s and 2s, s = sqrt(32 c ln(2/delta)) / e1, e1 : epsilon = r : r + 1.

    r = sqrt(512); answers sqrt(8 c ln(2/delta)) (r + 1) / epsilon. Dwork and Roth, theorem 3.28. Corrected: a dropped
    epsilon and a share 1/r that should be 1/(r + 1) (erratum A11). An epsilon above 1 is used as 1.
    """
    epsilon = min(epsilon, 1.0)
    unit = math.sqrt(32 * hits * math.log(2 / delta)) * (_ROOT_512 + 1) / (_ROOT_512 * epsilon)
    answer = math.sqrt(8 * hits * math.log(2 / delta)) * (_ROOT_512 + 1) / epsilon
    return Scales(threshold=unit, query=2 * unit, answer=answer)


@checked()
def concentrated(*, hits: int, rho: float, test_share: float = 0.9) -> Scales:
    """rho-zCDP: c fresh AboveThresholds of e' = sqrt(2 share rho / c), scales 2/e' and 4/e'; Gaussian answers.

    Mechanisms §6.2.
    """
    each = math.sqrt(2 * test_share * rho / hits)
    return Scales(threshold=2 / each, query=4 / each, answer=math.sqrt(hits / (2 * (1 - test_share) * rho)))


@checked()
def numeric_sparse_accuracy(
    *, hits: float, queries: int, epsilon: float, delta: float, rows: int, beta: float
) -> float:
    """Error of the book's NumericSparse, on tests and answers, with probability 1 - beta.

    Pure: 9c (ln k + ln(4c/beta)) / (epsilon n), theorem 3.26. Otherwise (sqrt(512) + 1) sqrt(c ln(2/delta)) /
    (epsilon n) max(ln k + ln(4c/beta), sqrt(8) ln(2c/beta)), theorem 3.28. Corrected: the printed statement lacks the
    second term of the maximum, which the numeric answers need (erratum A11).
    """
    tests = math.log(queries) + math.log(4 * hits / beta)
    if delta == 0:
        return 9 * hits * tests / (epsilon * rows)
    answers = math.sqrt(8) * math.log(2 * hits / beta)
    unit = (_ROOT_512 + 1) * math.sqrt(hits * math.log(2 / delta)) / (min(epsilon, 1.0) * rows)
    return unit * max(tests, answers)


@checked()
def book(*, updates: Updates, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> float:
    """OnlineIC with the book's parameters: error 3 alpha, alpha the accuracy of NumericSparse with T(alpha) hits.

    Dwork and Roth, theorems 5.14 and 5.15: threshold 2 alpha, two tests for each query, hence 2k. Corrected: the
    numeric answers (erratum A11), noise scaled by 1/n, sealed instead of halted after c hits (erratum A10).
    """

    def requirement(alpha: float) -> float:
        hits = max(1.0, updates(alpha))
        return numeric_sparse_accuracy(
            hits=hits, queries=2 * queries, epsilon=epsilon, delta=delta, rows=rows, beta=beta
        )

    return 3 * fixed_point(requirement)


@checked()
def tight(*, updates: Updates, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """OnlineIC on AboveThreshold and noisy answers: alpha = a' + 2W, minimised over a', and over the share under zCDP.

    One test |f(x) - f(D)| for each query; W = query scale ln(2k/beta) + threshold scale ln(4c/beta) bounds its noise,
    all as fractions of rows, and the answers stay within a'. Pure: Laplace answers, with a fresh threshold for each of
    c hits or one for all (ln(4/beta) then), whichever is better. Otherwise zCDP with Gaussian ones. Mechanisms §6.4.
    """

    def tested(scales: Scales, answers: float, resolution: float, thresholds: int) -> float:
        if answers >= resolution * rows:
            return math.inf
        width = scales.query * math.log(2 * queries / beta) + scales.threshold * math.log(4 * thresholds / beta)
        return resolution + 2 * width / rows

    if delta == 0:

        def pure(resolution: float, hits: int, refreshed: float) -> float:
            scales = (resampled if refreshed else unresampled)(hits=hits, epsilon=epsilon)
            answers = scales.answer * math.log(4 * hits / beta)
            return tested(scales, answers, resolution, hits if refreshed else 1)

        return _best(updates, pure, (1.0, 0.0))
    rho = zcdp_rho(epsilon, delta)

    def error(resolution: float, hits: int, share: float) -> float:
        scales = concentrated(hits=hits, rho=rho, test_share=share)
        return tested(scales, scales.answer * math.sqrt(2 * math.log(8 * hits / beta)), resolution, hits)

    return _best(updates, error, _TEST_SHARES)


@checked(delta=PROBABILITY)
def lazy(*, updates: Updates, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """OnlineIC without threshold noise: alpha = a' + 2 Nb, Nb = ln(k/beta) / (rate n) < a'.

    Privacy (epsilon, delta) from `lazy_epsilon`, tighter than Mechanisms §6.3; needs delta > 0. Hardt and Rothblum's
    private multiplicative weights, with the parameters of Mechanisms §6.5.
    """

    def error(resolution: float, hits: int, share: float) -> float:
        noise = math.log(queries / beta) / (lazy_rate(hits=hits, epsilon=epsilon, delta=delta) * rows)
        return resolution + 2 * noise if noise < resolution else math.inf

    return _best(updates, error, (1.0,))


@checked(delta=PROBABILITY)
def lecture_settings(*, universe: int, epsilon: float, delta: float, rows: float) -> tuple[float, int, float]:
    """Eta, the updates c and the noise rate of the lecture's private multiplicative weights.

    eta = (ln N / n)^(1/3), c = ln N / eta^2, sigma = c ln(1/delta) / (epsilon n); the rate is 1 / (sigma n), lowered
    where the noise would cost more than epsilon. Lecture on many queries, algorithm 2 ("modified parameters").
    """
    eta = min(4.0, math.cbrt(math.log(max(universe, 2)) / rows))
    hits = max(1, math.floor(math.log(max(universe, 2)) / eta**2))
    own = epsilon / (hits * math.log(1 / delta))
    fits = lazy_epsilon(hits=hits, rate=own, delta=delta) <= epsilon
    return eta, hits, own if fits else lazy_rate(hits=hits, epsilon=epsilon, delta=delta)


@checked(delta=PROBABILITY)
def lecture(*, universe: int, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """The lecture's private multiplicative weights: 3 tau / 2, tau = max(4 eta, 2 sigma ln(k/beta)).

    Theorem 8, made (epsilon, delta) (erratum D2); its rate is n^(-1/3), that of `lazy` n^(-1/2).
    """
    eta, hits, rate = lecture_settings(universe=universe, epsilon=epsilon, delta=delta, rows=rows)
    noise = math.log(queries / beta) / (rate * rows)
    threshold = max(4 * eta, 2 * noise)
    return Construction(alpha=threshold + noise, resolution=eta / 4, rounds=hits, share=1.0)


def _best(updates: Updates, error: Callable[[float, int, float], float], shares: tuple[float, ...]) -> Construction:
    """The least error over resolutions and shares for tests; coarse resolutions first."""
    found = [Construction(alpha=math.inf, resolution=1.0, rounds=1, share=shares[0])]
    for resolution in _DESCENDING:
        hits = max(1, math.floor(updates(resolution)))
        tried = [
            Construction(alpha=error(resolution, hits, share), resolution=resolution, rounds=hits, share=share)
            for share in shares
        ]
        best = min(tried, key=lambda choice: choice.alpha)
        if math.isinf(best.alpha):
            break  # a finer resolution takes more hits, hence more noise: it does not fit either
        found.append(best)
    return min(found, key=lambda choice: choice.alpha)
