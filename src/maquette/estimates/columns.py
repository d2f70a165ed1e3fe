"""Columns: the probabilities of one column from its noisy counts, smoothed as far as noise demands.

Ordered columns of many levels are shrunk scale by scale (Haar contrasts of halves, quarters and so on, each scale by
its James-Stein factor), so that levels keep their shape where they stand out of the noise and are spread evenly where
they do not. Any other column gets, level by level, the mean of what could have given the noisy count if all tables
were equally likely before (exponential prior, normal noise). Public computation: it sees released numbers only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MANY = 8  # levels of an ordered column from which neighbours are smoothed
USED = 0.5  # part of a difference from expected counts above which they are not used
LEAST = 1e-4  # mass that is spread over all levels of a smoothed column
KEPT = 64  # sizes of columns whose halves are kept

Values = NDArray[np.float64]
Places = NDArray[np.int64]


def smoothed(counts: Values, deviation: float, *, ordered: bool) -> Values:
    """Probabilities of the levels, from counts with independent noise of this standard deviation."""
    total = max(float(counts.sum()), 1.0)
    if deviation <= 0.0:
        found: Values = np.maximum(counts, 0.0)
        found = found if found.sum() > 0 else np.ones(len(counts))
        return np.asarray(found / found.sum())
    if ordered and len(counts) >= MANY:
        shrunk = _shrunk(counts, deviation, total)
        found = _nearest(shrunk / total) + LEAST / len(counts)
    else:
        found = _expected(counts, deviation, total)
    shares: Values = found / found.sum()
    return shares


def towards(counts: Values, deviation: float, expected: Values, *, ordered: bool) -> tuple[Values, float]:
    """Counts shrunk towards `expected` ones as far as noise alone explains the difference; and the part of it kept.

    `expected` is public, with the same total. The positive-part James-Stein estimate: where the difference is noise
    little of it is kept, where it is more the counts stay, so a wrong expectation costs nothing on the whole. One that
    is farther from the counts than an even table, or explains less than half the difference, is not used: the part kept
    is then 1.
    """
    apart = counts - expected
    if deviation <= 0.0 or len(counts) < 2 or (apart**2).sum() >= ((counts - counts.mean()) ** 2).sum():
        return counts, 1.0
    if ordered and len(counts) >= MANY:
        kept = _shrunk(apart, deviation, 0.0)
    else:
        kept = _factor(apart, deviation, len(counts) - 1) * apart
    share = math.sqrt(float((kept**2).sum()) / max(float((apart**2).sum()), 1e-300))
    return (expected + kept, share) if share < USED else (counts, 1.0)


def projected(counts: Values, total: float) -> Values:
    """The nearest probabilities to counts of this total; no level is quite empty."""
    found = _nearest(counts / max(total, 1.0)) + LEAST / len(counts)
    shares: Values = found / found.sum()
    return shares


def _shrunk(counts: Values, deviation: float, total: float) -> Values:
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    steps = np.zeros(len(counts) + 1)
    for halves in _haar(len(counts)):
        begin, middle, end = sums[halves.begin], sums[halves.middle], sums[halves.end]
        contrasts = halves.left * (middle - begin) - halves.right * (end - middle)
        contrasts *= _factor(contrasts, deviation, len(contrasts))
        np.add.at(steps, halves.begin, halves.left * contrasts)
        np.add.at(steps, halves.middle, -(halves.left + halves.right) * contrasts)
        np.add.at(steps, halves.end, halves.right * contrasts)
    spread: Values = total / len(counts) + np.cumsum(steps[:-1])
    return spread


def _factor(contrasts: Values, deviation: float, size: int) -> float:
    """The positive-part James-Stein factor of contrasts with `size` independent noises."""
    power = float((contrasts**2).sum())
    return max(0.0, 1.0 - (size if size > 2 else 1) * deviation**2 / max(power, 1e-300))


class Halves(NamedTuple):
    """The intervals of one scale: an orthonormal contrast weighs the first half by `left`, the other by -`right`."""

    begin: Places
    middle: Places
    end: Places
    left: Values
    right: Values


@lru_cache(KEPT)
def _haar(size: int) -> list[Halves]:
    """The halves of every interval, scale by scale, from the whole column down to single levels."""
    made = []
    begin, end = np.array([0]), np.array([size])
    while (long := end - begin >= 2).any():
        begin, end = begin[long], end[long]
        middle = (begin + end) // 2
        first, second = middle - begin, end - middle
        left, right = np.sqrt(second / first / (first + second)), np.sqrt(first / second / (first + second))
        made.append(Halves(begin, middle, end, left, right))
        begin, end = np.concatenate([begin, middle]), np.concatenate([middle, end])
    return made


def _nearest(values: Values) -> Values:
    """The nearest probabilities, in Euclidean distance."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, ordered.size + 1)
    kept = int(np.count_nonzero(ordered > excess))
    found: Values = np.maximum(values - excess[kept - 1], 0.0)
    return found


def _expected(counts: Values, deviation: float, total: float) -> Values:
    """The posterior mean of every count: exponential prior of the mean count, normal noise."""
    from scipy.special import log_ndtr

    centre = counts - deviation**2 * len(counts) / total
    scaled = centre / deviation
    hazard = np.exp(-(scaled**2) / 2 - math.log(math.sqrt(2 * math.pi)) - log_ndtr(scaled))
    found: Values = np.maximum(centre + deviation * hazard, 1e-9 * total)
    return found
