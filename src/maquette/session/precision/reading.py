"""Reading: estimated numbers with their noise, and the totals and ratios computed from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.answers import OutputColumn
from maquette.session.precision.width import STEP

Values = NDArray[np.float64]
Bounds = tuple[Values, Values, NDArray[np.bool_]]  # low, high, and whether anything is known


@dataclass(frozen=True)
class Reading:
    """Every cell of a marginal: its estimate in counts, the variance of its noise, and its half-width."""

    values: Values
    variances: Values
    widths: Values


def total(reading: Reading, scale: float, sides: tuple[float, float], guarantee: str | None) -> OutputColumn:
    """Scaled counts; a quantity that is never negative, or never positive, is not estimated to be."""
    values, widths = scale * reading.values, scale * reading.widths
    return OutputColumn(values, np.clip(values - widths, *sides), np.clip(values + widths, *sides), guarantee)


def fieller(top: Reading, bottom: Reading, covariance: Values, multiplier: float) -> Bounds:
    """Confidence set for the ratio of two Gaussian estimates: all r with |top - r bottom| within its own half-width.

    top - r bottom has variance v_t - 2 r c + r^2 v_b, so for the true r it is within `multiplier` standard deviations
    of zero exactly as often as one number is: the joint treatment loses nothing. The set is an interval where bottom
    itself is more than `multiplier` standard deviations above zero (the third array). Its ends increase with top, so
    STEP, for noise in whole counts, moves top by that amount either way, or by the half-width where that is less.
    Reference: Fieller 1954.
    """
    square = multiplier**2
    a = bottom.values**2 - square * bottom.variances
    known = (a > 0) & (bottom.values > 0)
    divisor = np.where(known, a, 1.0)
    middle = np.where(known, top.values / np.where(known, bottom.values, 1.0), 0.0)
    variance = np.maximum(top.variances - 2 * middle * covariance + middle**2 * bottom.variances, 0.0)
    step = np.minimum(STEP, multiplier * np.sqrt(variance))

    def end(above: Values, side: int) -> Values:
        b = above * bottom.values - square * covariance
        c = above**2 - square * top.variances
        return np.asarray((b + side * np.sqrt(np.maximum(b**2 - a * c, 0.0))) / divisor)

    return end(top.values - step, -1), end(top.values + step, 1), known


def corners(top: Reading, bottom: Reading) -> Bounds:
    """The range of the ratio over all values within the two half-widths."""
    fewest = bottom.values - bottom.widths
    known = fewest > 0
    least = np.where(known, fewest, 1.0)
    ends = [(top.values + s * top.widths) / n for s in (-1, 1) for n in (least, least + 2 * bottom.widths)]
    return np.min(ends, axis=0), np.max(ends, axis=0), known


def narrower(one: Bounds, other: Bounds, top: Reading, bottom: Reading) -> Bounds:
    """Of two ranges that both hold, the narrower one, cell by cell, if the ratio itself lies in it."""
    middle = top.values / np.where(bottom.values > 0, bottom.values, 1.0)
    within = other[2] & (other[0] <= middle) & (middle <= other[1])
    taken = within & (~one[2] | (other[1] - other[0] < one[1] - one[0]))
    return np.where(taken, other[0], one[0]), np.where(taken, other[1], one[1]), one[2] | taken


def ratio(
    top: Reading,
    bottom: Reading,
    bounds: Bounds,
    *,
    scale: float,
    centre: float,
    lowest: float,
    highest: float,
    guarantee: str | None,
) -> OutputColumn:
    """centre + scale * top / bottom, clamped to its declared range; the interval is this range if bottom may be 0."""
    low, high, known = bounds
    value = np.clip(centre + scale * top.values / np.maximum(bottom.values, 1.0), lowest, highest)
    low = np.where(known, np.clip(centre + scale * low, lowest, highest), lowest)
    high = np.where(known, np.clip(centre + scale * high, lowest, highest), highest)
    return OutputColumn(value, low, high, guarantee)
