"""Contrasts: whole-number combinations of the cells of a marginal, one small public matrix per axis.

Cell k of the result is the sum over cells c of the marginal of prod_i matrix_i[k_i, c_i] * count(c). Matrix rows that
compare levels (parities, deviations from the mean) measure what is *new* in a marginal, without paying again for what
its subsets already say.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.forms import Combined, Form, Residual
from maquette.query.marginal import Marginal
from maquette.query.moves import LARGEST, Moves
from maquette.schema import Schema

KEPT = 2**8  # maximum matrices that are cached
SMALL = 2**6  # maximum levels of a column whose matrices are cached

Matrix = NDArray[np.int64]
Gains = tuple[int, int, int]


class Contrasts:
    """A marginal multiplied by one whole-number matrix per axis."""

    def __init__(self, marginal: Marginal, matrices: Sequence[NDArray[Any]]) -> None:
        self.marginal = marginal
        self._form: Form | None = None
        self.matrices: tuple[Matrix, ...] = tuple(np.array(matrix, dtype=np.int64) for matrix in matrices)
        if [m.ndim for m in self.matrices] != [2] * len(marginal.axes) or any(
            matrix.shape[1] != size or not (given.dtype == np.int64 or np.array_equal(matrix, given))
            for matrix, given, size in zip(self.matrices, map(np.asarray, matrices), marginal.shape, strict=True)
        ):
            raise QueryError(
                "the matrices do not fit the marginal",
                expected=f"a whole-number matrix with one column per level for each axis of {marginal!r}",
            )
        if any(matrix.min(initial=0) < -LARGEST or matrix.max(initial=0) > LARGEST for matrix in self.matrices):
            raise QueryError(f"an entry of these contrasts exceeds {LARGEST:,}", advice="use coarser matrices")
        for matrix in self.matrices:  # sensitivities are worked out once
            matrix.flags.writeable = False
        self._refuse_heavy()

    @classmethod
    def of(
        cls, marginal: Marginal, matrices: tuple[Matrix, ...], gains: Sequence[Gains], form: Form | None = None
    ) -> Contrasts:
        """Contrasts from valid whole-number matrices whose gains are already known."""
        made = cls.__new__(cls)
        made.marginal, made.matrices, made._form = marginal, matrices, form
        made.gains = together(gains)
        made._refuse_heavy()
        return made

    def _refuse_heavy(self) -> None:
        if self.gains[0] * self.grid > LARGEST:
            raise QueryError(f"the weights of these contrasts exceed {LARGEST:,}", advice="use coarser matrices")

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

    @property
    def form(self) -> Form:
        """The question as data, for the wall."""
        if self._form is not None:
            return self._form
        return Combined(self.marginal.form, self.matrices)  # type: ignore[arg-type]  # the wall checks it

    @property
    def moves(self) -> Moves:
        """What one row adds to the values, in whole numbers of 1/grid."""
        seen = self.marginal.moves
        return Moves(seen.low, seen.high, self.cells, everywhere=seen.everywhere, gains=self.gains)

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        return digest_of(self.marginal.key, self.matrices)

    @cached_property
    def gains(self) -> Gains:
        """Maximum change by one row of weight 1: of one value, of all values in L1, and in squared L2; exact."""
        return together([gains_of(matrix) for matrix in self.matrices])

    def combine(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Apply the matrices to a table of the marginal's shape."""
        for matrix in self.matrices:  # combine the first axis and put the result last
            cells = cells.reshape(matrix.shape[1], -1).T @ matrix.T
        return cells.reshape(self.shape)

    def __repr__(self) -> str:
        return f"Contrasts({self.cells} of {self.marginal!r})"


def residual(schema: Schema, columns: Sequence[str]) -> Contrasts:
    """What a marginal says beyond its subsets, as orthogonal contrasts of nearly equal norm.

    The matrix rows are Helmert contrasts (the first k levels against the next), scaled to whole numbers. They sum to
    zero along every axis, so all smaller marginals cancel. Under add-remove one table row changes them by the same
    squared L2 norm in every cell, up to rounding: prod (size - 1) / size of its change of the whole marginal, in equal
    units. Reference: the residual basis of Xiao, He, Zhang and Kifer, ResidualPlanner (2023).
    """
    sizes = schema.shape(columns)
    rows = helmert_rows(sizes, _rows)
    marginal = Marginal(schema, columns)
    matrices, gains = [matrix for matrix, _ in rows], [gains for _, gains in rows]
    return Contrasts.of(marginal, tuple(matrices), gains, Residual(tuple(columns)))


def helmert_rows(sizes: Sequence[int], rows: Callable[[int, int], tuple[Matrix, Gains]]) -> list[tuple[Matrix, Gains]]:
    """The matrix of each axis and its gains, at the largest scale that keeps weights below LARGEST."""
    scale = 1 if set(sizes) <= {2} else 2 ** min(12, 28 // len(sizes))
    made = [rows(size, scale) for size in sizes]
    while scale > 1 and math.prod(gains[0] for _, gains in made) > LARGEST:
        scale //= 2  # rounding up may exceed the largest weight
        made = [rows(size, scale) for size in sizes]
    return made


def helmert(size: int, scale: int) -> Matrix:
    """size - 1 mutually orthogonal whole-number rows that sum to zero, each of norm about `scale`."""
    rows = np.zeros((size - 1, size), dtype=np.int64)
    for k in range(1, size):
        rows[k - 1, :k] = 1
        rows[k - 1, k] = -k
        rows[k - 1] *= max(1, round(scale / math.sqrt(k * (k + 1))))
    return rows


def _rows(size: int, scale: int) -> tuple[Matrix, Gains]:
    """The matrix and its gains, cached if small."""
    return _kept_rows(size, scale) if size <= SMALL else _kept_rows.__wrapped__(size, scale)


@lru_cache(KEPT)
def _kept_rows(size: int, scale: int) -> tuple[Matrix, Gains]:
    rows = helmert(size, scale)
    rows.flags.writeable = False
    return rows, gains_of(rows)


def digest_of(table: str, matrices: Sequence[Matrix]) -> str:
    """The canonical digest of contrasts, from the digest of their table."""
    state = hashlib.sha256(f"contrasts {table} {tuple(len(matrix) for matrix in matrices)}".encode())
    for matrix in matrices:
        state.update(np.ascontiguousarray(matrix).data)
    return state.hexdigest()


def gains_of(matrix: Matrix) -> Gains:
    """The largest entry, and the largest L1 and squared L2 norm of a column; exact."""
    sizes: NDArray[Any] = np.abs(matrix)
    largest = int(sizes.max(initial=0))
    if largest**2 * len(sizes) >= 2**63:
        sizes = sizes.astype(object)
    return largest, int(sizes.sum(axis=0).max()), int((sizes**2).sum(axis=0).max())


def together(gains: Sequence[Gains]) -> Gains:
    """The gains of a product with one factor per axis; at least 1."""
    largest, l1, l2_squared = (max(1, math.prod(factors)) for factors in zip((1, 1, 1), *gains, strict=True))
    return largest, l1, l2_squared


def orthonormal(size: int) -> NDArray[np.float64]:
    """The constant row and the Helmert rows, each of norm one."""
    rows: NDArray[np.float64] = np.vstack([np.ones(size), helmert(size, 1)]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
