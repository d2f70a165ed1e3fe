"""Sums of a block: the tables of some of its columns, centred along each, from the joint tables of all components.

A block of several columns has thousands of cells, and many sets of its columns may have been measured. Its columns are
split into a left and a right part of about as many cells. What a set has on the right is summed first, for all sets
together; what it has on the left is then summed in the much smaller tables that are left. Public computation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis import Block

Table = NDArray[np.float32]
Set = tuple[int, ...]


class BlockSums:
    """The centred tables of `sets` of columns (by name, in the order of the block), side by side."""

    def __init__(self, block: Block, sets: Sequence[Sequence[str]]) -> None:
        axes = [tuple(block.columns.index(name) for name in names) for names in sets]
        cut = _halved(block.shape)
        self._shape = math.prod(block.shape[:cut]), math.prod(block.shape[cut:])
        widths = [math.prod(block.shape[axis] for axis in each) for each in axes]
        ends = [0, *itertools.accumulate(widths)]
        listed: dict[Set, list[tuple[Set, slice]]] = {}
        for each, start, stop in zip(axes, ends, ends[1:], strict=False):
            left, right = tuple(a for a in each if a < cut), tuple(a - cut for a in each if a >= cut)
            listed.setdefault(right, []).append((left, slice(start, stop)))
        groups = [_Group(block.shape, cut, right, own) for right, own in listed.items()]
        # A set with all columns on the right gains nothing by a sum there: its left part goes first.
        self._whole = [group for group in groups if group.right.shape[1] == self._shape[1]]
        self._groups = [group for group in groups if group.right.shape[1] < self._shape[1]]
        ends = [0, *itertools.accumulate(group.right.shape[1] for group in self._groups)]
        self._places = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
        empty = np.empty((self._shape[1], 0), np.float32)
        self._rights = np.concatenate([empty, *(group.right for group in self._groups)], axis=1)

    def forward(self, cells: Table, made: Table) -> None:
        """Write the centred tables of every component."""
        whole = cells.reshape(len(cells), *self._shape)
        summed = np.matmul(whole, self._rights)
        for group, place in zip(self._groups, self._places, strict=True):
            group.write(np.matmul(group.left.T, summed[:, :, place]), made)
        for group in self._whole:
            group.write(np.matmul(group.left.T, whole) @ group.right, made)

    def backward(self, gradient: Table, pulled: Table) -> None:
        """Write the gradient with respect to the cells: the transpose of `forward`."""
        summed = np.empty((len(gradient), self._shape[0], self._rights.shape[1]), np.float32)
        for group, place in zip(self._groups, self._places, strict=True):
            summed[:, :, place] = np.matmul(group.left, group.read(gradient))
        found = np.matmul(summed, self._rights.T)
        for group in self._whole:
            found += np.matmul(group.left, group.read(gradient) @ group.right.T)
        pulled[...] = found.reshape(len(gradient), -1)


class _Group:
    """Sets with the same columns on the right: the matrices of both sides, and where each set is written."""

    def __init__(self, shape: Sequence[int], cut: int, right: Set, own: Sequence[tuple[Set, slice]]) -> None:
        lefts = [_centring(shape[:cut], left) for left, _ in own]
        self.left, self.right = np.concatenate(lefts, axis=1), _centring(shape[cut:], right)
        ends = [0, *itertools.accumulate(left.shape[1] for left in lefts)]
        self._places = [
            (slice(*ends_of), place) for ends_of, (_, place) in zip(itertools.pairwise(ends), own, strict=True)
        ]

    def write(self, tables: Table, made: Table) -> None:
        """Put tables of the left columns by the right ones where they belong."""
        for inside, place in self._places:
            made[:, place] = tables[:, inside].reshape(len(made), -1)

    def read(self, made: Table) -> Table:
        """The reverse of `write`."""
        tables = np.empty((len(made), self.left.shape[1], self.right.shape[1]), np.float32)
        for inside, place in self._places:
            tables[:, inside] = made[:, place].reshape(len(made), -1, self.right.shape[1])
        return tables


def _halved(shape: Sequence[int]) -> int:
    """How many axes come first where the larger of the two parts is smallest."""
    return min(range(len(shape) + 1), key=lambda cut: max(math.prod(shape[:cut]), math.prod(shape[cut:])))


def _centring(shape: Sequence[int], axes: Set) -> Table:
    """The matrix from cells of this shape to sums over all but some axes, centred along each of these."""
    places = np.indices(shape).reshape(len(shape), -1)
    matrix = np.ones((math.prod(shape), 1))
    for axis in axes:
        size = shape[axis]
        centred = (places[axis][:, None] == np.arange(size)) - 1.0 / size
        matrix = (matrix[:, :, None] * centred[:, None, :]).reshape(len(matrix), -1)
    return matrix.astype(np.float32)
