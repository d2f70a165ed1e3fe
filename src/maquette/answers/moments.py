"""Moments and quantiles from measured numbers: the value, and the range while all of these stay in their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from maquette.schema import Integer, Ordered

Ends = tuple[float, float]
Known = Sequence[Ends]
"""How far values may lie from what is multiplied, the variance added for that, and how far their mean is from it."""


def _mean(total: Ends, rows: Ends, scale: float) -> Ends:
    """The range of total / rows, within the declared range [-scale, scale]."""
    if rows[0] <= 0:
        return -scale, scale
    corners = [t / n for t in total for n in rows]
    return max(min(corners), -scale), min(max(corners), scale)


def _square(one: Ends) -> Ends:
    a, b = one[0] ** 2, one[1] ** 2
    return (0.0 if one[0] <= 0 <= one[1] else min(a, b)), max(a, b)


def _corrected(rows: Ends, sample: float) -> Ends:
    """n / (n - 1) for a sample, 1 for a population."""
    if not sample:
        return 1.0, 1.0
    few = max(rows[0], 2.0)
    many = max(rows[1], few)
    return many / (many - 1), few / (few - 1)


def _variance(n: float, total: float, squares: float, half: float, sample: float, *_: float) -> float:
    if n <= sample:
        return math.nan
    return max(0.0, (squares - total * total / n) / (n - sample))


def _shifted(mean: Ends, shift: Ends) -> Ends:
    """The mean of the numbers that are multiplied, where that of the values is known."""
    return mean[0] - shift[1], mean[1] + shift[1]


def _spread_ends(n: Ends, total: Ends, squares: Ends, half: float, known: Known) -> Ends:
    """The standard deviation of the rows at hand, wherever values lie in their bins.

    The squares count values as even inside a bin, which adds at most `even` to the variance of the middles. A value is
    its middle plus something of size at most `hidden`, so its deviation differs from the middles' by at most that much.
    """
    hidden, even, shift = known
    mean, second = _square(_shifted(_mean(total, n, half), shift)), _mean(squares, n, half**2)
    low = math.sqrt(max(0.0, max(second[0], 0.0) - mean[1] - even[1])) - hidden[1]
    high = math.sqrt(max(0.0, second[1] - mean[0])) + hidden[1]
    return max(0.0, low), min(high, half)


def _variance_ends(n: Ends, total: Ends, squares: Ends, half: Ends, sample: Ends, *known: Ends) -> Ends:
    low, high = _spread_ends(n, total, squares, half[1], known)
    factor = _corrected(n, sample[0])
    return low**2 * factor[0], high**2 * factor[1]


def _deviation(*parts: float) -> float:
    return math.sqrt(max(_variance(*parts), 0.0))


def _deviation_ends(*parts: Ends) -> Ends:
    low, high = _variance_ends(*parts)
    return math.sqrt(low), math.sqrt(high)


def _covariance(n: float, x: float, y: float, xy: float, a: float, b: float, sample: float, *_: float) -> float:  # noqa: PLR0917
    return math.nan if n <= sample else (xy - x * y / n) / (n - sample)


def _covariance_ends(n: Ends, x: Ends, y: Ends, xy: Ends, a: Ends, b: Ends, sample: Ends, *known: Ends) -> Ends:  # noqa: PLR0917
    one, two = known[:3], known[3:]
    low, high = _product_ends(n, (x, a[1], one), (y, b[1], two), xy)
    slack = a[1] * two[0][1] + one[0][1] * b[1]  # a and b reach to the ends of bins, so this holds the product too
    factor, most = _corrected(n, sample[0]), a[1] * b[1]
    low, high = max(low - slack, -most), min(high + slack, most)
    ends = [low * f for f in factor] + [high * f for f in factor]
    return min(ends), max(ends)


def _product_ends(n: Ends, one: tuple[Ends, float, Known], two: tuple[Ends, float, Known], xy: Ends) -> Ends:
    """The covariance of the numbers that are multiplied; a side is its sum, its reach and what is known of it."""
    first, second = (_shifted(_mean(total, n, half), known[2]) for total, half, known in (one, two))
    both = _mean(xy, n, one[1] * two[1])
    product = [p * q for p in first for q in second]
    return both[0] - max(product), both[1] - min(product)


def _correlation(n: float, x: float, y: float, xy: float, xx: float, yy: float, a: float, b: float, *_: float) -> float:  # noqa: PLR0917
    spread = _variance(n, x, xx, a, 0.0) * _variance(n, y, yy, b, 0.0) if n > 0 else 0.0
    if spread <= 0:
        return math.nan
    return min(1.0, max(-1.0, _covariance(n, x, y, xy, a, b, 0.0) / math.sqrt(spread)))


def _correlation_ends(n: Ends, x: Ends, y: Ends, xy: Ends, xx: Ends, yy: Ends, a: Ends, b: Ends, *known: Ends) -> Ends:  # noqa: PLR0917
    first, second = known[:3], known[3:]
    low, high = _product_ends(n, (x, a[1], first), (y, b[1], second), xy)
    one = _spread_ends(n, x, xx, a[1], first)
    two = _spread_ends(n, y, yy, b[1], second)
    slack = one[1] * second[0][1] + first[0][1] * two[1]
    least, most = one[0] * two[0], one[1] * two[1]

    def divided(value: float, side: int) -> float:
        by = least if value * side > 0 else most
        return value / by if by > 0 else side * 1.0 if value * side > 0 else 0.0

    return max(-1.0, divided(low - slack, -1)), min(1.0, divided(high + slack, 1))


def _between_ends(inner: Ends, outer: Ends) -> Ends:
    """What lies between a number on the rows that surely count, and the same on all that may."""
    return inner[0], max(inner[0], outer[1])


def _average(total: float, rows: float, least: float, largest: float) -> float:
    return min(max(total / max(rows, 1.0), least), largest)


def _average_ends(total: Ends, rows: Ends, least: Ends, largest: Ends) -> Ends:
    """An average of numbers in a declared range, which is all that is known where there may be no rows."""
    if rows[0] <= 0:
        return least[0], largest[0]
    corners = [min(max(t / n, least[0]), largest[0]) for t in total for n in rows]
    return min(corners), max(corners)


FORMULAS: dict[str, tuple[Callable[..., float], Callable[..., Ends]]] = {
    "mq_between": (lambda inner, outer: (inner + outer) / 2, _between_ends),
    "mq_average": (_average, _average_ends),
    "mq_variance": (_variance, _variance_ends),
    "mq_deviation": (_deviation, _deviation_ends),
    "mq_covariance": (_covariance, _covariance_ends),
    "mq_correlation": (_correlation, _correlation_ends),
}


def quantile(column: Any) -> tuple[Callable[..., float], Callable[..., Ends]]:
    """A quantile from the rows at or below each level: arguments share, discrete, rows, then one count for each cut.

    The value lies in the level where the counts pass the wanted rank; there is none where no rows are counted. A bin
    stands for its midpoint; the interval runs from the first value of the lowest level that is possible to the last
    value of the highest.
    """
    assert isinstance(column, Ordered)
    middles = [float(value) for value in (column.midpoints if column.midpoints is not None else ())]
    step = 1.0 if isinstance(column, Integer) else 0.0
    after = {math.nextafter(atom, math.inf): float(atom) for atom in getattr(column, "atoms", ())}
    firsts = [after.get(edge, edge) for edge in map(float, column.boundaries[:-1])]
    lasts = [float(edge) - step for edge in column.boundaries[1:]]

    def level(rank: float, counts: list[float]) -> int:
        return next((i for i, count in enumerate(counts) if count > rank), len(counts))

    def chosen(share: float, rows: float, discrete: float) -> float:
        """The row that a discrete quantile is, from the lowest; in falling order if `discrete` is 2."""
        if discrete > 1:
            return min(math.floor(share * rows + 1e-9), math.ceil(rows) - 1)
        return math.ceil(share * rows - 1e-9) - 1

    def value(share: float, discrete: float, rows: float, *cuts: float) -> float:
        if rows <= 0:
            return math.nan
        rising = list(accumulate(cuts, max))
        if discrete:
            return middles[level(max(0.0, chosen(share, rows, discrete)), rising)]
        rank = max(0.0, share * (rows - 1))
        below, above = (middles[level(r, rising)] for r in (math.floor(rank), math.ceil(rank)))
        return below + (above - below) * (rank - math.floor(rank))

    def ends(share: Ends, discrete: Ends, rows: Ends, *cuts: Ends) -> Ends:
        q = share[0]
        least = chosen(q, rows[0], discrete[0]) if discrete[0] else math.floor(q * (rows[0] - 1))
        most = chosen(q, rows[1], discrete[0]) if discrete[0] else math.ceil(q * (rows[1] - 1))
        lowest = level(max(0, least), [high for _, high in cuts])
        highest = level(max(0, most), [low for low, _ in cuts])
        return firsts[lowest], lasts[max(highest, lowest)]

    return value, ends
