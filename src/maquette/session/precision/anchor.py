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

K = 0.5
LEAST = math.sqrt(1 - K)  # of psi
FINE = 1 / 32  # between the places at which what can go wrong is compared with what may
CLOSE = 1e-7
KEPT = 2**12


def half_width(rows: float, own: float, doubt: float) -> float:
    """How far a count may be off: half of the rows, with this variance, plus noise of its own of variance `own`."""
    if not own:
        return math.inf
    return math.sqrt(own) * _deviations(math.sqrt(rows / 4 / own), doubt)


@lru_cache(KEPT)
def own_variance(rows: float, doubt: float) -> float:
    """The variance of its own noise with which a count is within one; `rows` is that of the number of rows; or 0."""
    return _last(lambda own: own > 0 and half_width(rows, own, doubt) <= 1.0, 0.0, 1.0)


@lru_cache(KEPT)
def _deviations(ratio: float, doubt: float) -> float:
    """The half-width in deviations of a count's own noise, where that of half of the rows has `ratio` of them."""
    x = np.arange(0.0, math.sqrt(2 * math.log(1 / (doubt * LEAST)) / K) + FINE, FINE)
    allowed = doubt * LEAST * np.exp(K * x[:-1] ** 2 / 2)  # from each place to the next both sides grow
    far = ratio * x[1:]
    return -_last(lambda less: bool((_outside(-less, far) <= allowed).all()), -60.0 - 2 * float(far[-1]), 0.0)


def _outside(width: float, shift: Values) -> Values:
    """The probability that a normal number is off by more than a half-width after a shift; one for a long shift."""
    from scipy.special import ndtr

    return np.asarray(np.where(shift < width, ndtr(shift - width) + ndtr(-shift - width), 1.0))


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number up to which something holds, which it does for the low one."""
    while high - low > CLOSE * max(abs(low), CLOSE):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
