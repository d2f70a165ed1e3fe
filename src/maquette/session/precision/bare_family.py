"""Bare family: how far noise can move any question of a bare table's family, with the noise e that all of them share.

A question has the weight h of the number of rows and noise of its own. Given e, it exceeds t with the probability that
a normal number does after a shift by h e. The sum over the family has to stay below the doubt times psi(e) for every e
(`anchor`), if the table was bought after e was seen. Bought in the same charge, e is drawn after the choice, and the
variances add up. Sums are compared on a grid of e: both sides grow with it. As in `family`, a part of the doubt is kept
for a width of each question's own. Public computation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.privacy import sum_half_width
from maquette.query import bare_questions_of, family_of
from maquette.schema import Schema
from maquette.session.precision.anchor import CLOSE, KEPT, allowed_by, coarse, half_width, last
from maquette.session.precision.bases import bare_kind, plain
from maquette.session.precision.family import BINS, LEAST, OWN

Values = NDArray[np.float64]

WEIGHTS = 64  # weights of the number of rows are rounded up to multiples of 1 / WEIGHTS


@dataclass(frozen=True)
class Doubt:
    """What may go wrong with a bare table: `after` the number of rows was seen, or in the same charge."""

    doubt: float
    k: float
    after: bool


@dataclass(frozen=True)
class BareWithin:
    """Half-widths of the questions of a bare table: `most`, or less for those with little noise of their own."""

    most: float
    rows: float  # the variance of the number of rows
    each: Doubt

    def of(self, own: Values, weights: Values) -> Values:
        """The half-widths of questions with these variances of their own and weights of the number of rows."""
        pairs = zip(np.ravel(own).tolist(), np.ravel(weights).tolist(), strict=True)
        widths = np.array([min(self._one(*pair), self.most) for pair in pairs], dtype=np.float64)
        return widths.reshape(np.shape(own))

    def _one(self, own: float, weight: float) -> float:
        if not own:
            return math.inf
        if self.each.after:
            return half_width(4 * weight**2 * self.rows, own, self.each.doubt, self.each.k)
        return sum_half_width(
            math.sqrt(own + weight**2 * self.rows), 1.0, 1 - max(LEAST, self.each.doubt), gaussian=True
        )


def bare_within(schema: Schema, key: Columns, told: Doubt, rows: float, own: float) -> BareWithin:
    """How far questions are off; `rows` and `own` are the variances of the number of rows and of each number."""
    kind = bare_kind(key)
    assert kind is not None, "only a bare table has such a family"
    each = Doubt(OWN * told.doubt / family_of(schema, kind, plain(key)), told.k, told.after)
    most = math.sqrt(own) * _deviations(schema, key, told, math.sqrt(rows / own))
    return BareWithin(most, rows, each)


@lru_cache(KEPT)
def bare_variance(schema: Schema, key: Columns, told: Doubt, rows: float) -> float:
    """The variance of each number with which all questions are within one; 0 if there is none."""
    told = _coarsened(told)
    return last(lambda own: own > 0 and _holds(schema, key, told, rows, own), 0.0, 1.0) * (1 - 4 * CLOSE)


def _deviations(schema: Schema, key: Columns, told: Doubt, ratio: float) -> float:
    """The half-width in deviations of a number measured, where the number of rows has `ratio` of them."""
    return _deviations_at(schema, key, _coarsened(told), ratio)


@lru_cache(KEPT)
def _deviations_at(schema: Schema, key: Columns, told: Doubt, ratio: float) -> float:
    return -last(lambda less: _holds(schema, key, told, (ratio / less) ** 2, less**-2), -200.0 * (1 + ratio), -1e-3)


def _coarsened(told: Doubt) -> Doubt:
    return Doubt(coarse(told.doubt), told.k, told.after)


def _holds(schema: Schema, key: Columns, told: Doubt, rows: float, own: float) -> bool:
    """Whether all questions are within one, but for the doubt; with these variances."""
    from scipy.special import erfc, ndtr

    weights, variances, counts = _grouped(schema, key)
    if not told.after:
        deviations = np.sqrt(weights**2 * rows + variances * own)
        return bool(counts @ erfc(1 / (deviations * math.sqrt(2))) <= (1 - OWN) * told.doubt)
    near, allowed = allowed_by(told.doubt, told.k)
    shift, deviation = np.outer(weights * math.sqrt(rows), near), np.sqrt(variances * own)[:, None]
    outside = np.where(shift < 1, ndtr((shift - 1) / deviation) + ndtr((-shift - 1) / deviation), 1.0)
    return bool((counts @ outside <= (1 - OWN) * allowed).all())


@lru_cache(KEPT)
def _grouped(schema: Schema, key: Columns) -> tuple[Values, Values, Values]:
    """Weights of the number of rows and variances of their own, rounded up, and how many questions have them."""
    kind = bare_kind(key)
    assert kind is not None, "only a bare table has such a family"
    found = bare_questions_of(schema, kind, plain(key)[0])
    most = float(found.own.max())
    pairs = np.stack([np.ceil(np.abs(found.rows) * WEIGHTS) / WEIGHTS, np.ceil(found.own / most * BINS) / BINS * most])
    (weights, variances), counts = np.unique(pairs, axis=1, return_counts=True)
    return weights, np.maximum(variances, most / BINS), counts.astype(np.float64)
