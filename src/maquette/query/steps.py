"""Steps: whole tables measured at once, so that every range of their ordered columns has little noise.

A range that begins with its column is half of everything plus half of a step, -1 on one side of a cut and +1 on the
other. Steps are unchanged by rotation if what goes around the end changes sign. So sines and cosines of odd half
frequencies f, each with precision in proportion to 1 / sin(pi f / c), measure all steps of c levels equally well, with
variance G^2 for G the mean of 1 / sin(pi f / c), and one more row measures everything. Together every range that begins
or ends with the column has the variance ((1 + G) / 2)^2 of a count: 4.3 for 32 levels, where the square root of the
prefix sums has 4.7. Any range is served by `waves` and a row for everything. For several columns the matrices
are multiplied, and so are the variances; columns without an order are measured level by level.

Nothing else is needed to answer from such a table: its rows span everything. The matrices are rounded to whole numbers;
prices and estimates use the rounded ones. References: Mathias, The Hadamard operator norm of a circulant and
applications (1993); Henzinger and Upadhyay, Improved differentially private continual observation using group algebra
(2025).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.query.bare import (
    BARE_BASES,
    BareBasis,
    BareQuestions,
    BareReading,
    bare_matrix,
    bare_questions,
    bare_reading,
)
from maquette.query.contrasts import Contrasts, Gains, Matrix, gains_of
from maquette.query.marginal import Marginal
from maquette.query.moves import LARGEST
from maquette.query.waves import KEPT, is_ordered, sines
from maquette.schema import Schema

Values = NDArray[np.float64]
RangeBasis = Literal["steps", "waves"] | BareBasis

RANGE_BASES: tuple[RangeBasis, ...] = ("steps", "waves")  # for ranges that begin or end with their column, and for all
PARTS = 2**10  # shares of the row for everything are multiples of 1 / PARTS


def whole_table(schema: Schema, kind: RangeBasis, columns: Sequence[str]) -> Contrasts:
    """A whole table: the matrix of `kind` along its ordered columns, the levels themselves along the others."""
    scale = whole_scale(schema, columns)
    rows = [_rows(schema[name].size, kind if is_ordered(schema, name) else None, scale) for name in columns]
    return Contrasts.of(Marginal(schema, columns), tuple(matrix for matrix, _ in rows), [gains for _, gains in rows])


def whole_inverse(schema: Schema, kind: RangeBasis, columns: Sequence[str], name: str) -> Values:
    """Weights of one column over its levels, times this, are its weights over the rows of the matrix per unit scale."""
    return _inverse(schema[name].size, kind if is_ordered(schema, name) else None, whole_scale(schema, columns))


def bare_reading_of(schema: Schema, kind: BareBasis, name: str) -> BareReading:
    """How questions about one column are read from its bare table and a number of rows."""
    return bare_reading(schema[name].size, kind, whole_scale(schema, (name,)))


def bare_questions_of(schema: Schema, kind: BareBasis, name: str) -> BareQuestions:
    """The questions that the bare table of one column is bought for."""
    return bare_questions(schema[name].size, kind, whole_scale(schema, (name,)))


def whole_scale(schema: Schema, columns: Sequence[str]) -> int:
    """By what the rows of the matrix of every ordered column are multiplied before they are rounded."""
    ordered = sum(is_ordered(schema, name) for name in columns)
    scale: int = 2 ** min(12, 28 // max(1, ordered))
    while scale > 1 and (scale + 1) ** ordered > LARGEST:  # no entry exceeds the length of its column
        scale //= 2
    return scale


@lru_cache(KEPT)
def family_of(schema: Schema, kind: RangeBasis, columns: tuple[str, ...]) -> int:
    """How many questions a whole table is bought for: one range of each ordered column, one level of the others."""
    return math.prod(_members(schema[name].size, kind if is_ordered(schema, name) else None) for name in columns)


def _members(size: int, kind: RangeBasis | None) -> int:
    if kind is None:
        return size
    return 2 * size if kind in ("steps", "bare steps") else size * (size + 1) // 2


@lru_cache(KEPT)
def hardest_of(schema: Schema, kind: RangeBasis, columns: tuple[str, ...]) -> float:
    """The largest variance of one of these questions, where every number measured has variance one at unit scale."""
    scale = whole_scale(schema, columns)
    return math.prod(_hardest(schema[name].size, kind, scale) for name in columns if is_ordered(schema, name))


@lru_cache(KEPT)
def _hardest(size: int, kind: RangeBasis, scale: int) -> float:
    return float(_variances(size, kind, scale).max())


def variances_of(schema: Schema, kind: RangeBasis, columns: tuple[str, ...], name: str) -> Values:
    """The variances that the conditions on one column have in these questions; those of the others multiply them."""
    size = schema[name].size
    return _variances(size, kind, whole_scale(schema, columns)) if is_ordered(schema, name) else np.ones(size)


@lru_cache(KEPT)
def _variances(size: int, kind: RangeBasis, scale: int) -> Values:
    if kind in BARE_BASES:
        return bare_questions(size, kind, scale).own
    ends = np.vstack([np.zeros(size), np.tri(size)]) @ _inverse(size, kind, scale)
    if kind == "steps":  # all levels both begin and end there
        found = np.array([row @ row for row in (*ends[1:], *(ends[-1] - ends[1:-1]))])
    else:
        products = ends @ ends.T
        lengths = np.diag(products)[:, None] + np.diag(products)[None, :] - 2 * products
        found = lengths[np.triu_indices(size + 1, 1)]
    found.flags.writeable = False
    return found


@lru_cache(KEPT)
def _rows(size: int, kind: RangeBasis | None, scale: int) -> tuple[Matrix, Gains]:
    rows = np.eye(size, dtype=np.int64) if kind is None else _matrix(size, kind, scale)
    rows.flags.writeable = False
    return rows, gains_of(rows)


@lru_cache(KEPT)
def _inverse(size: int, kind: RangeBasis | None, scale: int) -> Values:
    inverse = np.eye(size) if kind is None else np.linalg.pinv(_rows(size, kind, scale)[0] / scale)
    inverse = inverse.astype(np.float64)
    inverse.flags.writeable = False
    return inverse


def _matrix(size: int, kind: RangeBasis, scale: int) -> Matrix:
    """A row for everything, then the waves or half waves; one row of the table moves them by about `scale`."""
    if kind in BARE_BASES:
        return bare_matrix(size, kind, scale)
    share = _share(size, kind)
    everything = np.full((1, size), scale * math.sqrt(share))
    others = sines(size, 0.5 if kind == "steps" else 1.0, scale * math.sqrt(1 - share))
    return np.asarray(np.rint(np.vstack([everything, others])).astype(np.int64))


def _share(size: int, kind: RangeBasis) -> float:
    """The share of the precision for everything at which the hardest question has the least noise."""
    if kind == "steps":
        mean = sum(1 / math.sin(math.pi * (2 * j + 1) / (2 * size)) for j in range(size)) / size
        return max(1, round(PARTS / (1 + mean))) / PARTS
    frequencies, lengths = np.arange(1, size), np.arange(1, size + 1)
    sizes = np.sin(math.pi * frequencies / size)
    noise = np.sin(math.pi * np.outer(lengths, frequencies) / size) ** 2 @ (1 / sizes) / size
    noise *= (1 / sizes).sum() / size
    shares = np.arange(1, PARTS) / PARTS
    worst = ((lengths / size)[:, None] ** 2 / shares + noise[:, None] / (1 - shares)).max(axis=0)
    return float(shares[int(np.argmin(np.round(worst, 9)))])
