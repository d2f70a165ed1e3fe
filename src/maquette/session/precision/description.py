"""Description: the number of bits that name a question, so that intervals can hold for all questions at once.

An analyst who chooses questions by looking at earlier answers may choose any question. Question q gets the share
2^-bits(q) of the failure probability. The bits are the length of a prefix code, so the shares add up to at most one
(Kraft), and all intervals hold together for any questions in any order. The code: the set of columns; then one of its
cells; or, for a product of per-column conditions, each condition as one level, an interval of levels or any set of
levels; for any other yes/no question, one bit for every cell. Weights without a code get the bound over all directions
instead. A ratio is either a number over the number of rows, named as that number, or an average, named as the count in
its denominator and the column.

Reference: description length as in Dwork et al. and Stemmer's lecture; here over questions, against the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns, subsets
from maquette.schema import Column, Schema
from maquette.session.precision.naming import CELL, DIRECTION, EXACTLY, OTHER, PRODUCT, TABLE, condition_bits, set_bits

Values = NDArray[np.float64]

KIND = math.log2(7)  # a cell, a product, a table, any direction, a share of all rows, an average, or rented
_CONDITION = 2.0  # a level, an interval, a set, or a declared function on a set
_FUNCTIONS = 2.0  # which function: midpoints from zero or from the centre, their size or with sign


@dataclass(frozen=True)
class Description:
    """`bits` name the question (infinite if it has no code), `set_bits` its columns; it has `cells` directions."""

    bits: float
    set_bits: float
    cells: int
    name: float = math.inf  # bits in the shorter code, and those of "any weights on these columns"
    direction: float = math.inf

    @property
    def over_rows(self) -> Description:
        """The ratio of this number and the number of rows."""
        return self._within(KIND, OTHER, self.cells)

    def _within(self, which: float, shorter: float, cells: int) -> Description:
        named = shorter + self.name, shorter + self.direction
        return Description(which + self.bits, which + self.set_bits, cells, *named)

    def averaged(self, above: Description, columns: int) -> Description:
        """The average of one of `columns` columns: this counts the rows, and `above` sums the column over them.

        Each determines the other, given the column: the numerator is a declared function of the column times the
        condition in the denominator. All directions of both are at most as many as their cells together.
        """
        which = math.log2(columns)
        return self._within(KIND + which, OTHER + which, self.cells + above.cells)


class Named:
    """The bits of the condition of one column, each computed once it is needed; with several rows, the most."""

    def __init__(self, column: Column, rows: Values) -> None:
        self._column = column
        self._held = rows[rows.any(axis=1)] if rows.any() else rows  # a row of zeros needs no name beside others

    @cached_property
    def is_levels(self) -> bool:
        """Whether every row holds one level."""
        return all(_is_level(row) for row in self._held)

    @cached_property
    def bits(self) -> float:
        """In the longer code."""
        return max(_condition(self._column, row) for row in self._held)

    @cached_property
    def name(self) -> float:
        """In the shorter code."""
        functions = _functions(self._column)
        return max(condition_bits(row, functions) for row in self._held)


def described(schema: Schema, columns: Mapping[str, Named]) -> Description:
    """A product of one condition for each column; with several rows, the row with the longest name.

    A row of zeros needs no name unless there is no other: its number is zero, whatever the noise.
    """
    names = tuple(columns)
    of_set = _set_bits(schema, len(names))
    if all(one.is_levels for one in columns.values()):
        bits = math.log2(schema.cells(names))
        name = CELL + bits
    else:
        bits = sum(one.bits for one in columns.values())
        name = PRODUCT + sum(one.name for one in columns.values())
    shorter = set_bits(len(schema), len(names))
    return Description(of_set + KIND + bits, of_set, schema.cells(names), shorter + name, shorter + DIRECTION)


def weighed(schema: Schema, columns: tuple[str, ...], weights: Values) -> Description:
    """Any weights over the cells of some columns."""
    cells, of_set = schema.cells(columns), _set_bits(schema, len(columns))
    plain = bool(((weights == 0.0) | (weights == 1.0)).all())
    shorter = set_bits(len(schema), len(columns))
    name = shorter + TABLE + cells if plain else math.inf
    return Description(of_set + KIND + cells if plain else math.inf, of_set, cells, name, shorter + DIRECTION)


def _set_bits(schema: Schema, size: int) -> float:
    return math.log2(len(schema) + 1) + math.log2(math.comb(len(schema), size))


def _is_level(row: Values) -> bool:
    return bool(np.count_nonzero(row) == 1 and row.max() == 1.0)


def _condition(column: Column, row: Values) -> float:
    """The bits of one condition on one column."""
    levels, held = len(row), np.flatnonzero(row)
    if not np.isin(row, (0.0, 1.0)).all():
        return _CONDITION + _FUNCTIONS + levels if _is_declared(column, row) else math.inf
    if _is_level(row):
        return _CONDITION + math.log2(levels)
    as_set = float(levels)
    if len(held) and held[-1] - held[0] + 1 == len(held):
        return _CONDITION + min(as_set, 2 * math.log2(levels))
    return _CONDITION + as_set


def _is_declared(column: Column, row: Values) -> bool:
    """Whether the weights, on levels with weight, are those of SUM or AVG over the declared midpoints."""
    return any(
        np.allclose(np.where(row == 0.0, 0.0, function), row, rtol=0.0, atol=EXACTLY) for function in _functions(column)
    )


def _functions(column: Column) -> list[Values]:
    """The weights that SUM and AVG have on a column, and their sizes."""
    if column.midpoints is None:
        return []
    values = np.append(column.midpoints, 0.0) if column.nullable else column.midpoints
    found = []
    for centre in (0.0, float(column.midpoints.min() + column.midpoints.max()) / 2):
        known = np.where(column.is_null(), 0.0, values - centre)
        function = known / (float(np.abs(known).max()) or 1.0)
        found += [function, np.abs(function)]
    return found


def parts_of(schema: Schema, columns: Columns) -> tuple[Columns, ...]:
    """Every subset of some columns; a column with one level has no part of its own."""
    return tuple(subsets(tuple(name for name in columns if schema[name].size > 1)))
