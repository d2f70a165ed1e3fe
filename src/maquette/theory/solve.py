"""Solving for alpha: the fixed points and minima behind the accuracy theorems."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Resolutions a tight bound chooses from. Every one is valid; a finer grid would gain less than 0.1%.
RESOLUTIONS: NDArray[np.float64] = np.geomspace(1e-7, 1.0, 700)


def fixed_point(rhs: Callable[[float], float]) -> float:
    """The alpha with alpha == rhs(alpha), for a positive non-increasing right-hand side.

    The theorems read "accurate for every alpha >= rhs(alpha)", where rhs falls because T(alpha) does. So the smallest
    such alpha is the unique fixed point. Bisection on log alpha, down to neighbouring floats. Mechanisms §5.2.

    >>> fixed_point(lambda alpha: 8 / alpha**2)
    2.0
    """
    low = high = 1.0
    while rhs(high) > high:
        high *= 2
    while rhs(low) < low:
        low /= 2
    while low < (middle := math.sqrt(low * high)) < high:
        if rhs(middle) > middle:
            low = middle
        else:
            high = middle
    return high


def is_vacuous(alpha: float) -> bool:
    """Whether an error bound promises nothing: answers are fractions, so an error of 1 needs no data."""
    return alpha >= 1


def power(base: int, exponent: float) -> float:
    """base^exponent for a universe of any size: infinite where a float would overflow."""
    log = exponent * math.log(base)
    return math.exp(log) if log < 700 else math.inf
