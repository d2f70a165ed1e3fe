"""Sums over the cells of each block of a mixture, and one number for each block taken from all its cells.

Blocks are small and many, which is what numpy's reductions are slow at. So blocks of one size stand side by side, and
cell c of all of them is one strided column.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

LONG = 64  # cells of a block from which numpy's own loops are fast

Table = NDArray[np.float32]


class BlockRuns:
    """Blocks of these lengths, one after the other; the more neighbours have one length, the faster."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._blocks = len(lengths)
        self._runs: list[tuple[slice, slice, int]] = []  # cells, blocks and the cells of each
        cell = block = 0
        for size, run in itertools.groupby(lengths):
            number = len(list(run))
            self._runs.append((slice(cell, cell + number * size), slice(block, block + number), size))
            cell, block = cell + number * size, block + number

    def summed(self, cells: Table) -> Table:
        """The sums of every block, for each row."""
        sums = np.empty((len(cells), self._blocks), np.float32)
        for own, blocks, size in self._runs:
            if _by_block(blocks, size):
                sums[:, blocks] = cells[:, own].reshape(len(cells), -1, size).sum(axis=2)
                continue
            out = sums[:, blocks]
            out[...] = cells[:, own.start : own.stop : size]
            for c in range(1, size):
                out += cells[:, own.start + c : own.stop : size]
        return sums

    def multiply(self, cells: Table, factors: Table) -> None:
        """Multiply the cells of every block by its factor, in place."""
        for part, own in self._parts(cells, factors):
            np.multiply(part, own, out=part)

    def subtract(self, cells: Table, amounts: Table) -> None:
        """Subtract from the cells of every block its amount, in place."""
        for part, own in self._parts(cells, amounts):
            np.subtract(part, own, out=part)

    def _parts(self, cells: Table, numbers: Table) -> Iterator[tuple[Table, Table]]:
        """Views of the cells, each with the numbers that belong to it."""
        for own, blocks, size in self._runs:
            if _by_block(blocks, size):
                for i, block in enumerate(range(blocks.start, blocks.stop)):
                    start = own.start + i * size
                    yield cells[:, start : start + size], numbers[:, block : block + 1]
            else:
                for c in range(size):
                    yield cells[:, own.start + c : own.stop : size], numbers[:, blocks]


def _by_block(blocks: slice, size: int) -> bool:
    """Whether blocks of one length are taken one by one, rather than their first cells, their second cells, ..."""
    return size >= LONG or size > blocks.stop - blocks.start
