"""The values of a numeric column as whole numbers: what the wall adds up in sums and averages.

A binned column loses where in its bin a value lies. For sums the wall therefore reads the value itself, clamped to the
declared range and rounded to a declared grid. The grid follows from the declaration alone, never from data: the
declared precision of a `Number`, whole numbers for an `Integer`, and a power of two where neither fits in `MOST` steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

MOST = 2**28  # the most that one row can add to a sum at the wall
LEAST = -1022  # the power of two below which a float loses digits
FINE = 2**24  # steps from zero to the end of the range of a column without a declared precision


@dataclass(frozen=True)
class ValueGrid:
    """Values are k * `step` for whole numbers k from `low` to `high`."""

    step: Fraction
    low: int
    high: int

    @property
    def middle(self) -> int:
        """The whole number nearest to the middle of the range: measured from it, a value is smallest at most."""
        return (self.low + self.high) // 2

    def centre(self, value: float) -> int:
        """The whole number nearest to a value, or the middle where a row could then be further away than sums hold."""
        nearest = round(value / self.step)
        return nearest if max(nearest - self.low, self.high - nearest) <= MOST else self.middle


def grid_of(low: float, high: float, step: Fraction | None = None) -> ValueGrid:
    """The grid of a declared range: `step` if it is fine enough to be held, otherwise a power of two."""
    reach = max(abs(Fraction(low)), abs(Fraction(high)))
    if step is None or reach / step > MOST:
        limit = FINE if step is None else MOST
        share = reach / limit
        power = share.numerator.bit_length() - share.denominator.bit_length() - 1  # share is more than 2^power
        step = Fraction(2) ** max(power, LEAST) if reach else Fraction(1)
        while reach / step > limit:
            step *= 2
    return ValueGrid(step, math.floor(Fraction(low) / step), math.ceil(Fraction(high) / step))
