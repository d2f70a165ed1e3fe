"""Lazy rounds: what a guard without threshold noise costs, at delta.

A round adds discrete Laplace noise to an integer statistic and releases the sum if it falls into a public set (a hit),
otherwise says only that it did not. After c hits the guard is sealed. Rounds without a hit are not free one by one,
but all of them together cost no more than the hits; the theorem and its proof are in docs/theory/lazy-rounds.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MAX_RATE = 0.5  # nobody would open a guard with less noise than this
_MOST = 1 - 1e-6  # near the pole of its logarithm rounding grows, a millionfold here
_MARGIN = 1 + 1e-9  # covers that rounding
_SLACK = 1e-12  # covers the rounding of the other terms, which do not cancel and stay below a thousand

_ORDERS: NDArray[np.float64] = np.geomspace(1e-6, math.log(2.0), 400)  # s * rate
_GROWTH: NDArray[np.float64] = np.expm1(_ORDERS)


def lazy_epsilon(*, hits: int, rate: float, delta: float) -> float:
    """Epsilon at delta of a guard sealed after c hits, for noise of scale sensitivity / rate; rounded up.

    For every s > 0 with (e^(s rate) - 1)(e^((1 + s) rate) - 1) < 1, the Rényi divergence of order 1 + s between
    neighbours is at most c m / s, m = -ln(1 - (e^(s rate) - 1)(e^((1 + s) rate) - 1)), however many rounds there are
    and however they are chosen; no smaller m will do. Hence epsilon = (c m + ln(1/delta) + s ln s - (1 + s) ln(1 + s))
    / s, the least over a grid of s, each of which is valid. Corrected: the lecture claims epsilon with delta 0
    (erratum D2) and does not seal (erratum D4).
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

    At a fixed s * rate the loss divided by the rate never falls as the rate grows. So scaling a rate that costs too
    much by epsilon / loss gives one that does not, and the reverse; where that is slow, halving their distance is not.
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
