"""Averages over a group: bounds from tables that do not hold all columns of the question, or only groups of levels.

Let c be the exact counts of the cells, x the number whose average is asked for, in [l, h], and p >= 0 the weight of a
cell in the group. With N = sum of x p c and D = sum of p c > 0, the average is N / D. For any s in [l, h] and any F
with N - s D <= F,

    N / D  <=  s + max(F, 0) / D  <=  s + max(F, 0) / m,    if 0 < m <= D.

So a bound needs the fewest rows m of the group and, for some s, the largest excess F over s; none of them needs all
columns. Seen through some columns, where x is at most t and p lies in [a, b] inside a cell, the excess is at most the
total of (t - s) b where t >= s and of (t - s) a elsewhere. Without noise the best s gives the mean of the largest m
values among the rows that the columns show: no table with the same counts of these columns could exceed it.

The excess comes from measurements, for a few s fixed beforehand that share the failure probability, and from the check,
whose bounds hold together, so that the best s may be searched for. An average exists only if the group has a row, so m
is at least the least positive weight; where nothing better is known the bound is mostly the declared range, and the
group may be empty. From below everything is the same, with x mirrored: l + h - x. All of it is post-processing.
docs/theory/certified-check.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns, Reach

Values = NDArray[np.float64]
Interval = tuple[float, float]
Excess = Callable[[float], float]  # of a number s: N - s D is at most this

POINTS = (0.125, 0.25, 0.375, 0.5, 0.75)  # where measurements bound the excess, in parts of the range
SEARCHED = 10  # steps of the search for the best s
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Seen:
    """A group seen through some columns: in each cell the number is at most `top`, its weight in [fewest, most]."""

    columns: Columns
    top: Values
    fewest: Values
    most: Values

    @property
    def useful(self) -> bool:
        """Whether the columns tell numbers of the group apart."""
        tops = self.top[self.most > 0]
        return tops.size > 0 and bool(tops.min() < tops.max())

    def excess(self, s: float) -> Values:
        """Weights of cells whose total is at least N - s D."""
        over = self.top - s
        return np.where(over >= 0, over * self.most, over * self.fewest)

    def checked(self, reach: Reach) -> Excess:
        """The largest excess within the distance of a check; cells that weigh the same are one."""
        kinds = np.zeros(self.top.size, dtype=np.int64)
        for part in (self.top, self.fewest, self.most):
            found, places = np.unique(part, return_inverse=True)
            kinds = kinds * len(found) + places.reshape(-1)
        _, firsts, places = np.unique(kinds, return_index=True, return_inverse=True)
        cells: Values = np.bincount(places.reshape(-1), weights=reach.cells.reshape(-1)).astype(np.float64)
        whole = Reach(cells, reach.farthest, reach.rows)
        few = Seen(self.columns, *(part.reshape(-1)[firsts] for part in (self.top, self.fewest, self.most)))
        return lambda s: whole.most(few.excess(s))


def seen(columns: Columns, weights: Values, per: Values, part: Columns, between: Interval) -> tuple[Seen, Seen]:
    """The group through the columns of `part`: as it is, and with its numbers mirrored."""
    hidden = tuple(axis for axis, name in enumerate(columns) if name not in part)
    counted = per > 0
    numbers = np.divide(weights, per, out=np.full(per.shape, between[0]), where=counted)
    numbers = np.clip(numbers, *between)
    highest, lowest = (
        ufunc.reduce(np.where(counted, numbers, end), axis=hidden)
        for ufunc, end in ((np.maximum, between[0]), (np.minimum, between[1]))
    )
    fewest, most = per.min(axis=hidden), per.max(axis=hidden)
    return Seen(part, highest, fewest, most), Seen(part, sum(between) - lowest, fewest, most)


def points(between: Interval) -> list[float]:
    """The numbers of a range at which measurements bound an excess."""
    least, most = between
    return [least + point * (most - least) for point in POINTS]


def averaged(
    between: Interval,
    fewest: float,
    known: Sequence[tuple[Mapping[float, float], Mapping[float, float]]],
    excesses: Sequence[tuple[Excess, Excess]],
) -> Interval:
    """Bounds on the average of a group of at least `fewest` rows.

    The excess is known at some numbers, or can be had at any; each pair is of the numbers and of the mirrored ones.
    """
    least, most = between
    above, below = (
        min(
            *(bounded(s, excess, fewest) for each in known for s, excess in each[side].items()),
            *(searched(each[side], fewest, between) for each in excesses),
            most,
        )
        for side in (0, 1)
    )
    return max(least, least + most - below), above


def bounded(s: float, excess: float, fewest: float) -> float:
    """No average of a group of at least `fewest` rows exceeds this."""
    return s + max(0.0, excess) / fewest


def searched(excess: Excess, fewest: float, between: Interval) -> float:
    """The least bound over all s, by golden section: it is convex in s, and every s gives a bound."""
    low, high = between

    def at(place: float) -> tuple[float, float]:
        s = low + place * (high - low)
        return bounded(s, excess(s), fewest), s

    left, right = at(1.0 - GOLDEN), at(GOLDEN)
    best = min(left, right)[0]
    for _ in range(SEARCHED):
        if left <= right:
            high, right = right[1], left
            left = at(1.0 - GOLDEN)
        else:
            low, left = left[1], right
            right = at(GOLDEN)
        best = min(best, left[0], right[0])
    return best
