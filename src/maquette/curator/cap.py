"""A cap on the probabilities of an exponential mechanism: scores are clipped so that no probability exceeds 1/cap.

This is water-filling: all candidates with scores above the clipping level get the same probability, at most 1/cap, and
those below it keep their proportions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator.exact import sum_reaches

# Bounds the relative error of an exactly rounded sum of float terms exp(-x) that is near `cap`: the error of an exp is
# at most 64 ulp plus x times the error of x, and the sum of x exp(-x) over n terms is at most ln(n / cap) times the sum
# of exp(-x).
_SLACK = 2.0**-42
_ROUGH = 2.0**-50  # the additional error of a plain float sum, per term

Integers = NDArray[np.int64]


def clipped(scores: Integers, scale: Fraction, cap: int) -> Integers:
    """The scores, cut off at the largest integer level at which no probability exceeds 1/cap.

    The level is the largest whole number L with sum_i exp(min(s_i - L, 0) / scale) >= cap; it exists because there are
    at least `cap` scores. Sensitivity: if every score changes by at most the whole number D, so does every clipped one.
    Proof: s'_i >= s_i - D gives min(s'_i - (L - D), 0) >= min(s_i - L, 0), hence the sum for s' at L - D is at least
    cap, hence L' >= L - D; by symmetry |L - L'| <= D; and |min(a, L) - min(a', L')| <= max(|a - a'|, |L - L'|). So an
    exponential mechanism on clipped scores costs as much as on the scores themselves, in range and in epsilon.
    Exact: float arithmetic decides only outside its error bound, and exact arithmetic within it.
    """
    level = int(scores.max())
    if not _reaches(scores, level, scale, cap):
        low = int(np.partition(scores, len(scores) - cap)[len(scores) - cap])
        while level - low > 1:
            middle = (low + level) // 2
            low, level = (middle, level) if _reaches(scores, middle, scale, cap) else (low, middle)
        level = low
    return np.minimum(scores, level)


def _reaches(scores: Integers, level: int, scale: Fraction, cap: int) -> bool:
    deficits = np.maximum(level - scores, 0)
    terms = np.exp(-(deficits.astype(np.float64) / float(scale)))
    margin = float(terms.sum()) / cap - 1.0
    if abs(margin) > _ROUGH * len(terms) + _SLACK:
        return margin > 0
    margin = math.fsum(terms) / cap - 1.0
    if abs(margin) > _SLACK:
        return margin > 0
    different, times = np.unique(deficits, return_counts=True)
    return sum_reaches([int(d) / scale for d in different], times.tolist(), cap)
