"""Lazy rounds: the cost of a guard without threshold noise, at delta.

A round adds discrete Laplace noise to an integer statistic. If the sum falls into a public set (a hit), it is released;
otherwise the round only says that there was no hit. After c hits the guard is sealed. A single round without a hit is
not free, but all of them together add nothing to the cost of the hits; the theorem and its proof are in
docs/theory/lazy-rounds.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MAX_RATE = 0.5  # a guard with less noise than this would be of no use
_MOST = 1 - 1e-6  # near the pole of the logarithm rounding errors grow, here by a factor of a million
_MARGIN = 1 + 1e-9  # covers that rounding
_SLACK = 1e-12  # covers the rounding of the other terms, which do not cancel and stay below a thousand

_ORDERS: NDArray[np.float64] = np.geomspace(1e-6, math.log(2.0), 400)  # s * rate
_GROWTH: NDArray[np.float64] = np.expm1(_ORDERS)


def lazy_epsilon(*, hits: int, rate: float, delta: float) -> float:
    """Epsilon at delta of a guard sealed after c hits, for noise of scale sensitivity / rate; rounded up.

    For every s > 0 with (e^(s rate) - 1)(e^((1 + s) rate) - 1) < 1, the Rényi divergence of order 1 + s between
    neighbours is at most c m / s, m = -ln(1 - (e^(s rate) - 1)(e^((1 + s) rate) - 1)), for any number of rounds, also
    chosen adaptively; no smaller m is valid. Hence epsilon = (c m + ln(1/delta) + s ln s - (1 + s) ln(1 + s)) / s, the
    smallest over a grid of s; every s is valid. Corrected: the lecture claims epsilon with delta 0 (erratum D2) and
    does not seal (erratum D4).
    """
    shift = _GROWTH * np.expm1(_ORDERS + rate)
    valid = shift < _MOST
    if not valid.any():
        return math.inf
    s = _ORDERS[valid] / rate
    moment = -np.log1p(-shift[valid]) * _MARGIN
    tail = -math.log(delta) - s * np.log1p(1.0 / s) - np.log1p(s) + _SLACK
    return max(0.0, float(((hits * moment + tail) / s).min()))


@lru_cache(maxsize=4096)
def lazy_rate(*, hits: int, epsilon: float, delta: float) -> float:
    """The largest rate, 0.5 at most, whose `lazy_epsilon` at delta is at most epsilon.

    At a fixed s * rate, loss / rate does not decrease as the rate grows. So scaling a rate that costs too much by
    epsilon / loss gives one that costs at most epsilon, and the reverse. Where this converges slowly, bisection is
    used.
    """
    low, high = 0.0, MAX_RATE
    while high > low * (1 + 1e-11):
        loss = lazy_epsilon(hits=hits, rate=high, delta=delta)
        if loss <= epsilon:
            return high
        low = max(low, high * epsilon / loss)
        cost = lazy_epsilon(hits=hits, rate=low, delta=delta)
        high = min(high, low * epsilon / cost) if cost else high
        middle = math.sqrt(low * high)
        affordable = lazy_epsilon(hits=hits, rate=middle, delta=delta) <= epsilon
        low, high = (middle, high) if affordable else (low, middle)
    while lazy_epsilon(hits=hits, rate=low, delta=delta) > epsilon:
        low *= 1 - 1e-12
    return low
