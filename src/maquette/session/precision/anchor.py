"""Anchor: the number of rows, measured once, from half of which counts are then measured.

A count is half of the rows plus half of what is held less what is not, and that difference is moved by a row as much as
the count itself. So where the number of rows is known well, a count costs a quarter. All such counts share the noise e
of the number of rows. With x = e in deviations, psi(x) = sqrt(1 - K) exp(K x^2 / 2) has expectation at most one. So if
given e, and everything before its own noise, every measurement misses with probability at most its share of the doubt
times psi(x), all of them together miss as often as their shares add up to, whoever chooses them and however e was used
for that (docs/theory/all-together.md). Measurements that do not depend on e have the least value of psi times their
share. Public computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

K = 0.5  # of sessions whose division names no other
FINE = 1 / 32  # between the places at which what can go wrong is compared with what may
CLOSE = 1e-7
GRID = 16  # doubts to each factor of two
KEPT = 2**12


def least(k: float) -> float:
    """The least value of psi."""
    return math.sqrt(1 - k)


def half_width(rows: float, own: float, doubt: float, k: float = K) -> float:
    """How far a count may be off: half of the rows, with this variance, plus noise of its own of variance `own`."""
    return math.sqrt(own) * _deviations(math.sqrt(rows / 4 / own), coarse(doubt), k) if own else math.inf


def own_variance(rows: float, doubt: float, k: float = K) -> float:
    """The variance of its own noise with which a count is within one; `rows` is that of the number of rows; or 0."""
    return _own_variance(rows, coarse(doubt), k)


def coarse(doubt: float) -> float:
    """The next lower doubt of a grid: a series of shares has few of them, and their widths are computed once."""
    return min(doubt, math.exp2(math.floor(GRID * math.log2(doubt)) / GRID))


@lru_cache(KEPT)
def _own_variance(rows: float, doubt: float, k: float) -> float:
    near, allowed = allowed_by(doubt, k)

    def enough(own: float) -> bool:
        return own > 0 and bool((_outside(own**-0.5, math.sqrt(rows / 4 / own) * near) <= allowed).all())

    return last(enough, 0.0, 1.0) * (1 - 4 * CLOSE)  # so that `half_width` finds it enough


@lru_cache(KEPT)
def _deviations(ratio: float, doubt: float, k: float) -> float:
    """The half-width in deviations of a count's own noise, where that of half of the rows has `ratio` of them."""
    near, allowed = allowed_by(doubt, k)
    far = ratio * near
    return -last(lambda less: bool((_outside(-less, far) <= allowed).all()), -60.0 - 2 * float(far[-1]), 0.0)


@lru_cache(KEPT)
def allowed_by(doubt: float, k: float) -> tuple[Values, Values]:
    """Sizes of the noise of the rows, in deviations, and how often a count may miss up to each of them.

    From each place to the next both grow: the miss is that of the farther place, the allowance that of the nearer.
    """
    x = np.arange(0.0, math.sqrt(2 * math.log(1 / (doubt * least(k))) / k) + FINE, FINE)
    return x[1:], doubt * least(k) * np.exp(k * x[:-1] ** 2 / 2)


def _outside(width: float, shift: Values) -> Values:
    """The probability that a normal number is off by more than a half-width after a shift; one for a long shift."""
    from scipy.special import ndtr

    return np.asarray(np.where(shift < width, ndtr(shift - width) + ndtr(-shift - width), 1.0))


def last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number up to which something holds, which it does for the low one."""
    while high - low > CLOSE * max(abs(low), CLOSE):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
