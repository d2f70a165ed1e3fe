"""Waves: whole-number contrasts of ordered columns in which every range of levels is cheap.

In Helmert contrasts all coefficients have equal noise, so half of the levels of a column of c levels have the noise of
c / 4 cells. A range is smooth: its coefficient at frequency k falls like 1 / sin(pi k / c). Here the contrasts are
sines and cosines, frequency k with precision in proportion to 1 / sin(pi k / c): one row of the table then moves them
 by the same squared length wherever it lies, and every range has noise of order (log c)^2 instead of c. Up to its
sign in the contrasts, the complement of a range is a range around the end, so the set of all ranges is unchanged by
rotation; by convexity some circulant design, diagonal in this basis, is the best one for all ranges.

The matrices are rounded to whole numbers whose rows sum to zero; prices and estimates use the rounded ones. Reference:
Li, Miklau, Hay, McGregor and Rastogi, The matrix mechanism (2015); circulant designs as in Fichtenberger, Henzinger and
Upadhyay (2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.query.contrasts import Contrasts, Gains, Matrix, gains_of, helmert
from maquette.query.marginal import Marginal
from maquette.query.moves import LARGEST
from maquette.schema import Ordered, Schema

LEAST = 8  # levels: with fewer, ranges are hardly smoother than any other set of levels
MOST = 2**10  # levels: a matrix has their square as entries
KEPT = 2**7  # maximum matrices that are cached


@lru_cache(KEPT)
def is_ordered(schema: Schema, name: str) -> bool:
    """Whether a column has enough ordered levels for ranges to matter."""
    return isinstance(schema[name], Ordered) and LEAST <= schema[name].size <= MOST


def waves_of(schema: Schema, columns: Sequence[str]) -> Contrasts:
    """What a marginal says beyond its subsets, as waves along its ordered columns, Helmert rows along the others."""
    scale = scale_of(schema, columns)
    rows = [_rows(schema[name].size, scale, is_ordered(schema, name)) for name in columns]
    return Contrasts.of(Marginal(schema, columns), tuple(matrix for matrix, _ in rows), [gains for _, gains in rows])


def inverse_waves(schema: Schema, columns: Sequence[str], name: str) -> NDArray[np.float64]:
    """Weights of one column over its levels, times this, are its weights over the rows of the matrix per unit scale."""
    return _inverse(schema[name].size, scale_of(schema, columns), is_ordered(schema, name))


@lru_cache(2**12)
def _fitting(sizes: tuple[int, ...], ordered: tuple[bool, ...]) -> int:
    scale: int = 2 ** min(12, 28 // max(1, len(sizes)))
    while scale > 1 and math.prod(_rows(*each)[1][0] for each in _each(sizes, ordered, scale)) > LARGEST:
        scale //= 2
    return scale


def _each(sizes: tuple[int, ...], ordered: tuple[bool, ...], scale: int) -> list[tuple[int, int, bool]]:
    return [(size, scale, waved) for size, waved in zip(sizes, ordered, strict=True)]


def scale_of(schema: Schema, columns: Sequence[str]) -> int:
    """By what the rows of every matrix are multiplied before they are rounded."""
    return _fitting(schema.shape(columns), tuple(is_ordered(schema, name) for name in columns))


@lru_cache(KEPT)
def _rows(size: int, scale: int, waved: bool) -> tuple[Matrix, Gains]:
    rows = waves(size, scale) if waved else helmert(size, scale)
    rows.flags.writeable = False
    return rows, gains_of(rows)


@lru_cache(KEPT)
def _inverse(size: int, scale: int, waved: bool) -> NDArray[np.float64]:
    inverse = np.linalg.pinv(_rows(size, scale, waved)[0] / scale).astype(np.float64)
    inverse.flags.writeable = False
    return inverse


def waves(size: int, scale: int) -> Matrix:
    """size - 1 independent whole-number rows that sum to zero; a row of the table moves them by about `scale`."""
    return np.stack([_whole(row) for row in sines(size, 1.0, scale)])


def sines(size: int, first: float, scale: float) -> NDArray[np.float64]:
    """Sines and cosines of every frequency from the first, 1 or 1/2, in steps of one; a row moves them by `scale`.

    Frequency f has precision in proportion to 1 / sin(pi f / size).
    """
    places = (np.arange(size) + 0.5) * (2 * math.pi / size)
    rows: list[NDArray[np.float64]] = []
    strength: list[float] = []
    for f in np.arange(first, size / 2 + 0.25):
        both = (np.cos(f * places), np.sin(f * places)) if 2 * f < size else (np.sin(f * places),)
        rows += [row / float(np.linalg.norm(row)) for row in both]
        strength += [1.0 / math.sqrt(math.sin(math.pi * f / size))] * len(both)
    weighed = np.array(rows) * np.array(strength)[:, None]
    weighed *= scale / math.sqrt(float((weighed**2).sum(axis=0).max()))
    return np.asarray(weighed)


def _whole(row: NDArray[np.float64]) -> NDArray[np.int64]:
    """The row rounded to whole numbers that sum to zero: those rounded furthest go the other way."""
    rounded = np.rint(row).astype(np.int64)
    excess = int(rounded.sum())
    further = np.argsort(np.sign(excess) * (row - rounded), kind="stable")[: abs(excess)]
    rounded[further] -= np.sign(excess)
    return np.asarray(rounded)
