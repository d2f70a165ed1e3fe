"""Factors: tables of numbers over a few columns, summed, multiplied and lined up.

A factor is a table and the tuple of its columns, one per axis. Axes run from small columns to large ones where there is
a choice: a pass over memory is fast when its last axis is long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

Values = NDArray[np.float64]
Columns = tuple[int, ...]

MAX_TABLE = 2**27  # numbers in one intermediate table: 1 GB


class Factor(NamedTuple):
    """A table with one axis for each of `columns`."""

    table: Values
    columns: Columns

    def onto(self, kept: Collection[int]) -> Factor:
        """The sums over all columns that are not kept."""
        axes = tuple(axis for axis, column in enumerate(self.columns) if column not in kept)
        if not axes:
            return self
        left = tuple(column for column in self.columns if column in kept)
        return Factor(np.asarray(self.table.sum(axis=axes)), left)

    def ordered(self, columns: Sequence[int]) -> Values:
        """The table with its axes in this order."""
        return np.transpose(self.table, [self.columns.index(column) for column in columns])

    def spread(self, columns: Sequence[int]) -> Values:
        """The table with axes of length one for columns it lacks, to be broadcast over a table of `columns`."""
        shared = [column for column in columns if column in self.columns]
        ordered = self.ordered(shared)
        lengths = iter(ordered.shape)
        return ordered.reshape([next(lengths) if column in self.columns else 1 for column in columns])

    def times(self, other: Factor, kept: Collection[int]) -> Factor:
        """The product, summed over all columns that are not kept: one matrix product per level of shared columns."""
        one, two = self._only(other, kept), other._only(self, kept)
        shared = [column for column in one.columns if column in two.columns]
        both = [column for column in shared if column in kept]
        gone = [column for column in shared if column not in kept]
        left = [column for column in one.columns if column not in shared]
        right = [column for column in two.columns if column not in shared]
        a, b = one.ordered([*both, *left, *gone]), two.ordered([*both, *gone, *right])
        batch, rows, inner = (
            a.shape[: len(both)],
            a.shape[len(both) : len(both) + len(left)],
            a.shape[len(a.shape) - len(gone) :],
        )
        columns = b.shape[len(shared) :]
        refuse_large(math.prod((*batch, *rows, *columns)))
        products = np.matmul(
            a.reshape(math.prod(batch), math.prod(rows), math.prod(inner)),
            b.reshape(math.prod(batch), math.prod(inner), math.prod(columns)),
        )
        return Factor(products.reshape((*batch, *rows, *columns)), (*both, *left, *right))

    def _only(self, other: Factor, kept: Collection[int]) -> Factor:
        """The sums over columns that neither the other factor nor the result needs."""
        return self.onto({column for column in self.columns if column in other.columns or column in kept})


def refuse_large(cells: int) -> None:
    """Refuse an intermediate table that would not fit in memory."""
    if cells > MAX_TABLE:
        raise QueryError(
            f"the question needs an intermediate table of {cells:,} cells, more than {MAX_TABLE:,}",
            advice="ask about fewer columns at a time, or build the model with a clique that holds these columns",
        )
