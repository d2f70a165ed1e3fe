"""The features of single columns in the fit of a mixture: their cells, centred, for all columns at once.

The two centred cells of a yes/no column are one number and its opposite. So it has one feature, sqrt(2) times the
second cell: products of features then have the same sums of squares, in a quarter of the multiplications.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float32]

ROOT = math.sqrt(2.0)


def width_of(cells: int) -> int:
    """The number of features of a column."""
    return 1 if cells == 2 else cells


def narrowed(table: Table, axes: Iterable[int]) -> Table:
    """Centred cells with a single column along each of these axes, as features."""
    for axis in axes:
        if table.shape[axis] == 2:
            table = np.asarray(ROOT * table.take([1], axis=axis), dtype=np.float32)
    return table


class ColumnFeatures:
    """How `width` features are made of `cells` cells; those of blocks of several columns are left to others."""

    def __init__(self, columns: Iterable[tuple[slice, slice]], cells: int, width: int) -> None:
        """`columns` has the cells and the features of each column."""
        self._from, self._to = np.zeros(width, np.intp), np.zeros(cells, np.intp)
        self._centre, self._scale = np.zeros(width, np.float32), np.ones(width, np.float32)
        self._back = np.ones(cells, np.float32)
        for own, made in columns:
            size = own.stop - own.start
            self._centre[made] = 1 / size
            if size == 2:
                self._from[made], self._to[own] = own.start + 1, made.start
                self._scale[made], self._back[own] = ROOT, (-1 / ROOT, 1 / ROOT)
            else:
                self._from[made] = np.arange(own.start, own.stop)
                self._to[own] = np.arange(made.start, made.stop)

    def forward(self, tables: Table, made: Table) -> None:
        """Write the features of components, one in a row."""
        np.take(tables, self._from, axis=1, out=made, mode="clip")
        made -= self._centre
        made *= self._scale

    def backward(self, gradient: Table, pulled: Table) -> None:
        """Write the gradient with respect to cells, from that with respect to features, up to a constant per column."""
        np.take(gradient, self._to, axis=1, out=pulled, mode="clip")
        pulled *= self._back
