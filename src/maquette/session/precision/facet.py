"""Facet: what one column of a product says by itself; questions that share a condition share it. Public facts."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.bounded import Bounded
from maquette.estimates import Columns, helmert_of
from maquette.query import is_ordered
from maquette.schema import Schema
from maquette.session.precision.bases import inverse, is_plain, is_whole, numbers_of
from maquette.session.precision.description import Named

EXACTLY = 1e-12  # relative error of floating-point weights
KEPT = 2**11  # facets, each of at most SMALL weights
SMALL = 2**10

Values = NDArray[np.float64]


class Whole(NamedTuple):
    """size * condition - (number of levels held) for one column, divided by the common divisor."""

    row: NDArray[np.int64]
    largest: int
    factor: float


class Facet:
    """One column of a product: a matrix of weights over its levels, one row for each level of an axis."""

    def __init__(self, schema: Schema, name: str, matrix: Values) -> None:
        self._schema = schema
        self._name = name
        self.matrix = matrix
        basis = helmert_of(matrix)
        self.means: Values = basis[:, 0] / math.sqrt(schema[name].size)
        self.contrasts: Values = basis[:, 1:]
        squares = self.contrasts**2
        # Largest squared weights: outside a part, inside it in total, and of one coefficient.
        self.outside, self.inside, self.peak = (
            float(numbers.max(initial=0.0)) for numbers in (self.means**2, squares.sum(axis=1), squares)
        )
        self.ordered = is_ordered(schema, name)
        self._weights: dict[int, tuple[Values, Values]] = {}
        self._relatives: dict[int, float] = {}

    @cached_property
    def named(self) -> Named:
        """The bits of the condition."""
        return Named(self._schema[self._name], self.matrix)

    @cached_property
    def summed(self) -> bool:
        """Whether the column enters by its numbers alone: weights that are these times a factor, plus a constant."""
        rows = self.matrix
        numbers = numbers_of(self._schema, self._name) if len(rows) == 1 and rows.shape[1] > 2 else None
        if numbers is None:
            return False
        centred = rows[0] - rows[0].mean()
        factor = float(centred @ numbers) / float(numbers @ numbers)
        return bool(factor and np.abs(centred - factor * numbers).max() <= EXACTLY * np.abs(centred).max())

    @cached_property
    def ranged(self) -> bool:
        """Whether it holds a range of several levels of an ordered column."""
        return self.ordered and any(_is_range(row) for row in self.matrix)

    @cached_property
    def whole(self) -> Whole | None:
        """The whole numbers of a single condition with weights 0 and 1 only."""
        weights = self.matrix
        if len(weights) != 1 or not ((weights == 0.0) | (weights == 1.0)).all():
            return None
        condition = weights.astype(np.int64)
        row = condition.size * condition - condition.sum()
        common = math.gcd(*row[0].tolist()) or 1
        return Whole(row // common, int(np.abs(row).max()) // common, common / condition.size)

    def weights(self, key: Columns) -> Values:
        """The weights over the rows of the column's matrix in a basis; few matrices serve many keys."""
        if is_plain(key):
            return self.contrasts
        matrix = inverse(self._schema, key, self._name)
        known = self._weights.get(id(matrix))
        if known is None or known[0] is not matrix:
            rows = self.matrix
            if is_whole(key):  # its rows do not sum to zero, so what smaller parts say is taken away
                rows = rows - rows.mean(axis=1, keepdims=True)
            self._weights[id(matrix)] = known = matrix, np.asarray(rows @ matrix)
        return known[1]

    def relative(self, key: Columns) -> float:
        """The largest squared weight in a basis, in total, relative to that of the contrasts."""
        weights = self.weights(key)
        if id(weights) not in self._relatives:  # `_weights` keeps the array, so its id is its own
            self._relatives[id(weights)] = float((weights**2).sum(axis=1).max(initial=0.0)) / self.inside
        return self._relatives[id(weights)]


_FACETS: Bounded[tuple[Schema, str, tuple[int, ...], bytes], Facet] = Bounded(KEPT)


def facet_of(schema: Schema, name: str, matrix: Values) -> Facet:
    """The facet of a column; small ones are kept."""
    if matrix.size > SMALL or matrix.dtype != np.float64:
        return Facet(schema, name, matrix)
    key = schema, name, matrix.shape, matrix.tobytes()
    found = _FACETS.get(key)
    if found is None:
        found = _FACETS[key] = Facet(schema, name, matrix.copy())
    return found


def _is_range(row: Values) -> bool:
    held = np.flatnonzero(row)
    return 1 < len(held) < len(row) and int(held[-1] - held[0]) + 1 == len(held)
