"""Family: how far noise can move any question of the family that a whole table is bought for, all of them together.

The questions of a family are fixed before the noise of their table is drawn, and so are their variances, which differ:
a short range has less noise than a long one, and few have as much as the hardest. All of them are promised within one
half-width h, so what can go wrong is the sum of their tails at h, each with its own variance: for 32 levels as much as
135 times the hardest alone, though there are 528 ranges. Nothing about their correlations is used. A small part of the
doubt is kept for a second promise, a number of its own deviations for each question: easy questions have narrower
intervals. Public computation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.privacy import sum_half_width
from maquette.query import hardest_of, variances_of
from maquette.schema import Schema
from maquette.session.precision.bases import BEGINS, KEPT, bare_kind, ends_of, plain, whole_kind

Values = NDArray[np.float64]

OWN = 0.1  # share of a table's doubt for intervals in proportion to each question's own deviation
BINS = 128  # variances are rounded up to multiples of the largest divided by this
CLOSE = 1e-9
LEAST = 1e-15  # the smallest doubt that a confidence resolves: a million of them add up to almost nothing


class Within(NamedTuple):
    """Half-widths of questions read from a whole table: a number of their deviations, and at most `most` counts."""

    deviations: float
    most: float = math.inf

    def of(self, variances: Values) -> Values:
        """The half-widths of questions with these variances."""
        return np.minimum(self.deviations * np.sqrt(variances), self.most)


def places_of(schema: Schema, key: Columns) -> int:
    """How many counts a whole table costs, about: the variance of its hardest question for the price of one count."""
    kind = whole_kind(key)
    assert kind is not None, "only a whole table has a family"
    shared = 0 if bare_kind(key) is None else 1  # the noise that it shares makes it dearer
    return max(1, round(hardest_of(schema, kind, plain(key)))) + shared


def within(schema: Schema, key: Columns, family: int, doubt: float, variance: float) -> Within:
    """How far the questions of a family can be off, but for a failure probability of `doubt` for all of them."""
    kind = whole_kind(key)
    assert kind is not None, "only a whole table has a family"
    own = sum_half_width(1.0, 1.0, 1 - max(LEAST, OWN * doubt / family), gaussian=True)
    return Within(own, hardest(schema, key, doubt) * math.sqrt(hardest_of(schema, kind, plain(key)) * variance))


@lru_cache(KEPT)
def hardest(schema: Schema, key: Columns, doubt: float) -> float:
    """So many deviations of the hardest question bound them all."""
    ratios, counts = _tails(schema, key)
    low, high = 0.0, 40.0
    while high - low > CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if _outside(middle, ratios, counts) > (1 - OWN) * doubt else (low, middle)
    return high


def _outside(deviations: float, ratios: Values, counts: Values) -> float:
    """The sum of the probabilities with which normal numbers of these variances exceed a bound."""
    from scipy.special import erfc

    return float(counts @ erfc(deviations / np.sqrt(2 * ratios)))


@lru_cache(KEPT)
def _tails(schema: Schema, key: Columns) -> tuple[Values, Values]:
    """Variances relative to the hardest question, rounded up, and how many questions have them."""
    kind = whole_kind(key)
    assert kind is not None, "only a whole table has a family"
    ends = ends_of(schema, key)
    ratios: Values = np.ones(1)
    counts: Values = np.ones(1)
    for name in plain(key):
        variances = variances_of(schema, kind, plain(key), name)
        relative = variances / variances.max()
        if ends is not None and name in ends:  # all levels come last of those that begin, first of those that end
            last = schema[name].size
            relative = relative[:last] if ends[name] == BEGINS else relative[last - 1 :]
        products = np.multiply.outer(ratios, relative).reshape(-1)
        times = np.repeat(counts, len(relative))
        bins = np.clip(np.ceil(products * BINS).astype(int), 1, BINS)
        found = np.bincount(bins, weights=times, minlength=BINS + 1).astype(np.float64)
        ratios = np.asarray(np.flatnonzero(found) / BINS)
        counts = found[found > 0]
    return ratios, counts
