"""Ratios of linear forms over a box, in time that grows with the shorter form.

A share of a total divides each of many short forms by one long one. What the long form adds outside the short one does
not depend on the short one, up to its sign: it is added up once for each form (`Sides`), and what both forms share is
taken out of it again. Sums are kept without rounding, so that nothing is lost when a large part is taken out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Form = dict[int, float]  # coefficients by variable; -1 is the constant
Ends = tuple[Sequence[float], Sequence[float]]  # the low and the high end of every variable
STEPS = 60  # of Dinkelbach's method


def partials(numbers: Iterable[float]) -> list[float]:
    """Floats whose exact sum is that of the numbers, which are finite; Shewchuk 1997."""
    kept: list[float] = []
    for number in numbers:
        count, total = 0, number
        for other in kept:
            one, two = (total, other) if abs(total) >= abs(other) else (other, total)
            total = one + two
            lost = two - (total - one)
            if lost:
                kept[count] = lost
                count += 1
        kept[count:] = [total]
    return kept


@dataclass(frozen=True)
class Sides:
    """The least and the largest value of a form over a box, each as floats to be added up; and its signs."""

    least: list[float]
    most: list[float]
    finite: bool
    positive: int  # number of coefficients above 0
    negative: bool  # whether one is below 0

    @classmethod
    def of(cls, form: Mapping[int, float], ends: Ends) -> Sides:
        """Added up over the whole form."""
        low, high = ends
        pairs = [(c, c) if v < 0 else _reach(c, low[v], high[v]) for v, c in form.items()]
        finite = all(math.isfinite(least) and math.isfinite(most) for least, most in pairs)
        least, most = (partials(side) for side in zip(*pairs, strict=True)) if finite and pairs else ([], [])
        coefficients = form.values()
        return cls(least, most, finite, sum(c > 0 for c in coefficients), any(c < 0 for c in coefficients))


def _reach(coefficient: float, low: float, high: float) -> tuple[float, float]:
    """The least and the largest of coefficient * x; 0 times an unknown number is 0."""
    if not coefficient:
        return 0.0, 0.0
    one, two = coefficient * low, coefficient * high
    return (one, two) if one <= two else (two, one)


class Ratio:
    """The range of above / below over a box; the denominator must not be negative. Dinkelbach's method, both ways.

    The largest ratio is the least r with above - r below <= 0 everywhere on the box. Each step takes the ratio at the
    vertex where above - r below is largest; it stops when that is not positive, and then r is a bound even if the
    denominator can be 0.
    """

    def __init__(self, above: Form, below: Form, sides: tuple[Sides, Sides], ends: Ends) -> None:
        self._low, self._high = ends
        self._sides = sides
        short, long = (above, below) if len(above) <= len(below) else (below, above)
        common = [v for v in short if v in long]
        self._shares = [(above[v], below[v]) for v in common if below[v] > 0]
        if all(side.finite for side in sides):
            both = [v for v in common if v >= 0]
        else:  # nothing can be taken out of an infinite sum: every variable by itself
            both = [v for v in {*above, *below} if v >= 0]
        self._both = [(v, above.get(v, 0.0), below.get(v, 0.0)) for v in both]
        self._only = [self._without(form, side, both) for form, side in zip((above, below), sides, strict=True)]

    def _without(self, form: Form, sides: Sides, both: Sequence[int]) -> tuple[float, float]:
        """The least and the largest value of a form without the variables that are looked at one by one."""
        if not sides.finite:
            return form.get(-1, 0.0), form.get(-1, 0.0)
        reached = [_reach(form.get(v, 0.0), self._low[v], self._high[v]) for v in both]
        least = math.fsum([*sides.least, *(-low for low, _ in reached)])
        return least, math.fsum([*sides.most, *(-high for _, high in reached)])

    def range(self) -> tuple[float, float]:
        """The least and the largest ratio."""
        return -self._largest(-1.0), self._largest(1.0)

    def _largest(self, sign: float) -> float:
        below = self._sides[1]
        shares = [sign * a / b for a, b in self._shares]
        if below.positive > len(shares):  # a variable, or the constant, of the denominator alone
            shares.append(0.0)
        start = max(shares, default=0.0)
        limit = start if not below.negative and self._worst(sign, start)[0] <= 1e-9 else math.inf
        (low, high), (least, most) = self._bounds(0), self._bounds(1)
        if least <= 0:
            return limit
        _, top, bottom = self._worst(sign, (low if sign > 0 else -high) / most - 1.0)
        found = top / bottom
        for _ in range(STEPS):
            if not math.isfinite(found):
                return limit
            excess, top, bottom = self._worst(sign, found)
            if excess <= 0 or top / bottom <= found:
                break
            found = top / bottom
        return min(found + 1e-12 * max(1.0, abs(found)), limit)

    def _bounds(self, which: int) -> tuple[float, float]:
        low, high = self._only[which]
        for part in self._both:
            one, two = _reach(part[1 + which], self._low[part[0]], self._high[part[0]])
            low, high = low + one, high + two
        return low, high

    def _worst(self, sign: float, ratio: float) -> tuple[float, float, float]:
        """The vertex where above - ratio * below is largest: that difference, and both forms there."""
        (above_low, above_high), (below_low, below_high) = self._only
        top = above_high if sign > 0 else -above_low
        bottom = below_low if ratio >= 0 else below_high
        for variable, a, b in self._both:
            end = self._high[variable] if sign * a - ratio * b > 0 else self._low[variable]
            top += sign * a * end if a else 0.0
            bottom += b * end if b else 0.0
        return top - ratio * bottom, top, bottom
