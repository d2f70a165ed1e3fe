"""Bound: what any purchase of parts for one question costs at least, told without pricing one.

`Pricing.shop` buys precision in proportion to sqrt(gain reuse / rate), so much that the half-width is within the
tolerance. The half-width is at least a number of standard deviations, which bounds the variance that is enough; and
what reaches this bound is cheaper: precisions fall as the variance grows, and where more parts are rented, since a
rented part is more precise at the same scale, and costs less. Only Gaussian noise has such a bound: its price is at
least proportional to its precision. Public inputs only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """One part of a question: variance per unit of its own, units per unit of precision, and what is known of it.

    `rent` is the factor by which renting it is cheaper; 0 if it is not rented.
    """

    gain: float
    rate: float
    reuse: float
    have: float
    rent: float


class Bound(NamedTuple):
    """The least price in ledger units, and the least price divided by expected reuse."""

    units: float
    burden: float


def bound_of(lines: Sequence[Line], variance: float) -> Bound:
    """The least that must be paid for a variance; parts that are precise enough already are left alone."""
    free = [(line, math.sqrt(line.gain * max(line.reuse, line.rent) / line.rate)) for line in lines]
    settled = 0.0
    while True:  # a part left alone uses less variance than planned, so the scale only falls
        scale = sum([line.gain / want for line, want in free]) / (variance - settled)
        less = [one for one in free if one[0].have < one[1] * scale]
        if len(less) == len(free):
            break
        settled += sum([line.gain / line.have for line, want in free if line.have >= want * scale])
        free = less
    units = burden = 0.0
    for line, want in free:
        price = line.rate * (want * scale - line.have)
        units += price / (line.rent or 1.0)
        burden += price / (line.rent or line.reuse)
    return Bound(units, burden)
