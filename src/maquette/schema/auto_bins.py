"""Bins for a number whose distribution nobody knows: a wide public grid, and bins cut from noisy counts over it.

`Number(..., bins="auto")` declares a range that surely holds all values, such as 0 to 10,000,000. Its levels are then
the cells of a wide grid, which follows from the declaration alone. The curator measures noisy counts of these cells
once, for a price, and `drawn_cuts` joins them to bins of about equal counts. It sees noisy counts only, so what it
does is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

AUTO = "auto"
BINS = 16  # bins that are cut if nobody says how many
EVEN = 1_000  # maximum steps of equal width over the range
DIGITS = 8  # decimal digits between the end of the range and the finest step, for a column without precision
BRANCHING = 12  # cells of one level of the tree that make a cell of the level above
_UNEVEN = 10, 100  # from a hundred steps on, edges have two significant digits

Counts = NDArray[np.float64]


def wide_edges(low: float, high: float, precision: int | None) -> list[float]:
    """The edges of the wide grid: about a thousand equal steps, and every number of two significant digits.

    The equal steps serve values far from zero, such as years; the significant digits serve values of any magnitude,
    such as incomes. No step is finer than the declared precision.

    >>> wide_edges(0, 12, 0)
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    >>> [edge for edge in wide_edges(0, 1_000_000, 0) if 97 <= edge <= 120]
    [97.0, 98.0, 99.0, 100.0, 110.0, 120.0]
    """
    begin, end = Fraction(low), Fraction(high)
    reach = max(abs(begin), abs(end))
    finest = _power(reach, -DIGITS) if precision is None else Fraction(1, 10**precision)
    even = max(_round_step((end - begin) / EVEN), finest)
    points = {even * k for k in range(math.ceil(begin / even), math.floor(end / even) + 1)}
    for point in _significant(finest, reach):
        points |= {point, -point}
    inside = {float(point) for point in points if begin < point < end}
    return sorted({float(low), *inside, float(high)})


def _significant(finest: Fraction, reach: Fraction) -> Iterator[Fraction]:
    """Zero and the positive numbers up to `reach` of at most two significant digits in steps of `finest`."""
    yield Fraction(0)
    step = finest
    yield from (step * k for k in range(1, _UNEVEN[0]))
    while step * _UNEVEN[0] <= reach:
        yield from (step * k for k in range(*_UNEVEN))
        step *= 10


def _power(number: Fraction, digits: int) -> Fraction:
    """The power of ten at or below a positive number, moved by some digits."""
    power = Fraction(10) ** math.floor(math.log10(number))
    return power * Fraction(10) ** digits


def _round_step(least: Fraction) -> Fraction:
    """The smallest of 1, 2, 5, 10, 20, ... and their tenths that is not below `least`."""
    power = _power(least, -1)
    return next(power * k for k in itertools.chain((1, 2, 5, 10, 20, 50, 100, 200)) if power * k >= least)


def tree_groups(cells: int) -> list[list[range]]:
    """The levels of the tree over some cells, coarsest first; the last one is the cells themselves.

    >>> [len(level) for level in tree_groups(300)]
    [3, 25, 300]
    """
    levels = [[range(cell, cell + 1) for cell in range(cells)]]
    while len(levels[0]) > BRANCHING:
        below = levels[0]
        parts = [below[start : start + BRANCHING] for start in range(0, len(below), BRANCHING)]
        levels.insert(0, [range(part[0].start, part[-1].stop) for part in parts])
    return levels


def drawn_cuts(measured: Sequence[Counts], bins: int) -> list[int]:
    """Where to cut the cells of a wide grid so that each of `bins` bins holds about the same count, the ends less.

    `measured` has noisy counts of every level of `tree_groups`, with noise of one variance. The result has the first
    cell of every bin but the first. A cell that alone holds more than its share becomes a bin of its own, and there
    are fewer bins.
    """
    cells = consistent(measured)
    running = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(cells)]))
    total = running[-1]
    if not total > 0:  # noise alone: equal numbers of cells are as good as anything
        return sorted({round(len(cells) * k / bins) for k in range(1, bins)} - {0, len(cells)})
    cuts = set()
    for share in _shares(bins):
        target = total * share
        after = int(np.searchsorted(running, target))
        nearer = after - 1 if target - running[after - 1] < running[after] - target else after
        cuts.add(nearer)
    return sorted(cuts - {0, len(cells)})


def _shares(bins: int) -> list[float]:
    """Equal shares, and two more at either end: the outermost bins of a long tail would else reach across it."""
    ends = [1 / (part * bins) for part in (4, 16)]
    return sorted([*ends, *(k / bins for k in range(1, bins)), *(1 - end for end in ends)])


def consistent(measured: Sequence[Counts]) -> Counts:
    """The least-squares estimate of the cells from the noisy counts of all levels of their tree.

    Upwards, the counts of a node and the sum of its children are averaged by their variances; downwards, what then
    remains between a node and its children is shared among them by their variances.
    """
    values, variances = [np.asarray(level, dtype=np.float64) for level in measured], [np.ones(len(measured[-1]))]
    for i in range(len(values) - 2, -1, -1):
        starts = np.arange(0, len(values[i + 1]), BRANCHING)
        below, spread = np.add.reduceat(values[i + 1], starts), np.add.reduceat(variances[0], starts)
        values[i] = (values[i] * spread + below) / (1 + spread)
        variances.insert(0, spread / (1 + spread))
    for i in range(1, len(values)):
        starts = np.arange(0, len(values[i]), BRANCHING)
        sizes = np.diff(np.append(starts, len(values[i])))
        left = values[i - 1] - np.add.reduceat(values[i], starts)
        share = variances[i] / np.repeat(np.add.reduceat(variances[i], starts), sizes)
        values[i] = values[i] + np.repeat(left, sizes) * share
    return values[-1]
