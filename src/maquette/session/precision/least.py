"""Least: the smallest precision with which something holds, for what holds from some precision on."""

from __future__ import annotations

import math
from collections.abc import Callable

FURTHEST = 60  # doublings


def least_precision(enough: Callable[[float], bool], guess: float) -> float | None:
    """The least precision that is enough, to one part in ten thousand; None if none within reason is."""
    low = high = guess
    for _ in range(FURTHEST):
        if enough(high):
            break
        low, high = high, 2 * high
    else:
        return None
    while low == high or (low > guess / 2**FURTHEST and enough(low)):
        low, high = low / 2, low
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
