"""Contrasts: whole-number combinations of the cells of a marginal, one small public matrix per axis.

Cell k of the result is the sum over cells c of the marginal of prod_i matrix_i[k_i, c_i] * count(c). Rows that
compare levels (parities, deviations from the mean) learn what is *new* in a marginal, without paying again for what
its subsets already say.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.marginal import Marginal
from maquette.schema import Schema

LARGEST = 2**28  # what one row can weigh, so that sums over 2^32 rows stay well within 64 bits

Matrix = NDArray[np.int64]


class Contrasts:
    """A marginal seen through one whole-number matrix per axis."""

    def __init__(self, marginal: Marginal, matrices: Sequence[NDArray[Any]]) -> None:
        self.marginal = marginal
        self.matrices: tuple[Matrix, ...] = tuple(np.array(matrix, dtype=np.int64) for matrix in matrices)
        if [m.ndim for m in self.matrices] != [2] * len(marginal.axes) or any(
            matrix.shape[1] != size or not np.array_equal(matrix, given)
            for matrix, given, size in zip(self.matrices, matrices, marginal.shape, strict=True)
        ):
            raise QueryError(f"expected a whole-number matrix with one column per level for each axis of {marginal!r}")
        if any((matrix < -LARGEST).any() or (matrix > LARGEST).any() for matrix in self.matrices):
            raise QueryError(f"an entry of these contrasts exceeds {LARGEST:,}; use coarser matrices")
        if self.gains[0] * marginal.grid > LARGEST:
            raise QueryError(f"the weights of these contrasts exceed {LARGEST:,}; use coarser matrices")

    @property
    def schema(self) -> Schema:
        """The universe."""
        return self.marginal.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column they depend on."""
        return self.marginal.columns

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of combinations along each axis."""
        return tuple(len(matrix) for matrix in self.matrices)

    @property
    def cells(self) -> int:
        """The number of combinations."""
        return math.prod(self.shape)

    @property
    def grid(self) -> int:
        """Values are whole multiples of 1/grid at the wall."""
        return self.marginal.grid

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        state = hashlib.sha256(f"contrasts {self.marginal.key} {self.shape}".encode())
        for matrix in self.matrices:
            state.update(matrix.tobytes())
        return state.hexdigest()

    @cached_property
    def gains(self) -> tuple[int, int, int]:
        """How far one row of weight 1 moves one value, all values in L1, and all in squared L2, at most; exact."""
        sizes = [np.abs(matrix.astype(object)) for matrix in self.matrices]
        largest = math.prod(int(size.max()) for size in sizes)
        l1 = math.prod(int(size.sum(axis=0).max()) for size in sizes)
        l2_squared = math.prod(int((size**2).sum(axis=0).max()) for size in sizes)
        return largest, l1, l2_squared

    def tally(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exact values, in units of 1/grid, from the counts over `columns`."""
        return self.combine(self.marginal.tally(counts))

    def tally_records(self, records: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The same from encoded records."""
        return self.combine(self.marginal.tally_records(records))

    def combine(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Apply the matrices to a table of the marginal's shape."""
        for axis, matrix in enumerate(self.matrices):
            cells = np.moveaxis(np.tensordot(matrix, cells, axes=(1, axis)), 0, axis)
        return cells

    def __repr__(self) -> str:
        return f"Contrasts({self.cells} of {self.marginal!r})"


def residual(schema: Schema, columns: Sequence[str]) -> Contrasts:
    """What a marginal says beyond its subsets, as orthogonal contrasts of nearly equal norm.

    Rows are Helmert contrasts (the first k levels against the next), scaled to whole numbers; they sum to zero along
    every axis, so they are blind to all smaller marginals. Under add-remove one row moves them by the same squared L2
    norm in every cell, up to rounding: prod (size - 1) / size of what it moves the whole marginal, in equal units.
    Reference: the residual basis of Xiao, He, Zhang and Kifer, ResidualPlanner (2023).
    """
    sizes = schema.shape(columns)
    scale = 1 if set(sizes) <= {2} else 2 ** min(12, 28 // len(sizes))
    while scale > 1 and math.prod(int(np.abs(helmert(size, scale)).max()) for size in sizes) > LARGEST:
        scale //= 2  # rounding up may overshoot what weights can be
    return Contrasts(Marginal(schema, columns), [helmert(size, scale) for size in sizes])


def helmert(size: int, scale: int) -> Matrix:
    """size - 1 mutually orthogonal whole-number rows that sum to zero, each of norm about `scale`."""
    rows = np.zeros((size - 1, size), dtype=np.int64)
    for k in range(1, size):
        rows[k - 1, :k] = 1
        rows[k - 1, k] = -k
        rows[k - 1] *= max(1, round(scale / math.sqrt(k * (k + 1))))
    return rows


def orthonormal(size: int) -> NDArray[np.float64]:
    """The constant row and the Helmert rows, each of norm one."""
    rows: NDArray[np.float64] = np.vstack([np.ones(size), helmert(size, 1)]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
