"""Residuals: everything measured, in one orthogonal basis where each number has independent noise.

The counts over columns S are the sum, over subsets A of S, of what A says beyond its own subsets. In orthonormal
Helmert coordinates these parts are orthogonal and iid noise stays iid, so any collection of measured marginals and
contrasts becomes one table of coefficients with a precision each, repeats combine by inverse variance, and an
unbiased estimate of any covered query with its exact noise variance is a sum. All of it is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.errors import QueryError
from maquette.estimates.evidence import Estimate, spread
from maquette.hypothesis import Arrays, saving
from maquette.privacy import DiscreteGaussian
from maquette.query import Contrasts, orthonormal
from maquette.schema import Schema

Values = NDArray[np.float64]
Columns = tuple[str, ...]  # in schema order
SMALL = 64  # levels of a column whose orthonormal rows are multiplied by as a matrix, which is faster


class Residuals:
    """Estimates (in counts) and precisions of the coefficients of every measured set of columns."""

    kind: ClassVar[str] = "residuals"

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._sums: dict[Columns, Values] = {}
        self._precisions: dict[Columns, Values] = {}
        self.gaussian = True
        self.separate = True  # whether the noise of every coefficient is independent of the others

    def add(self, measurement: Measurement) -> None:
        """Add a measured marginal of plain columns, or the contrasts made by `residual`."""
        question = measurement.question
        variance = spread(measurement) ** 2
        self.gaussian &= isinstance(measurement.event, DiscreteGaussian)
        names = (question.marginal if isinstance(question, Contrasts) else question).names
        order = sorted(range(len(names)), key=lambda axis: self.schema.position(names[axis]))
        columns, values = tuple(names[axis] for axis in order), np.transpose(measurement.values, order)
        if isinstance(question, Contrasts):
            norms = np.ones(())
            for axis in order:
                norms = np.multiply.outer(norms, _norms(question.matrices[axis]))
            self.combine(columns, values / norms, variance / norms**2)
            return
        coefficients = forward(values)
        self.separate &= self.gaussian or question.cells == 1  # rotated Laplace noise is uncorrelated, not independent
        for part in self._parts(columns):
            lift = math.prod(self.schema[name].size for name in columns if name not in part)
            block = coefficients[_block(columns, part)] * math.sqrt(lift)
            self.combine(part, block, np.full(block.shape, variance * lift))

    def combine(self, columns: Columns, values: Values, variance: Values) -> None:
        """Add coefficients of one set of columns, weighted by inverse variance."""
        precision = 1.0 / variance
        self._add(columns, values * precision, precision)

    def _add(self, columns: Columns, sums: Values, precisions: Values) -> None:
        self._sums[columns] = self._sums.get(columns, 0.0) + sums
        self._precisions[columns] = self._precisions.get(columns, 0.0) + precisions

    def stored(self) -> Iterator[tuple[Columns, Values, Values]]:
        """Every measured set with the sums of its coefficients, weighted by precision, and their precisions."""
        return ((columns, sums, self._precisions[columns]) for columns, sums in self._sums.items())

    def facts(self) -> dict[str, Any]:
        """The measured sets, and the law of the noise."""
        return {"gaussian": self.gaussian, "separate": self.separate, "sets": [list(columns) for columns in self._sums]}

    def arrays(self) -> Arrays:
        """The arrays of `stored`, set after set."""
        found: dict[str, Values] = {}
        for i, (_, sums, precisions) in enumerate(self.stored()):
            found[f"{i}-sums"], found[f"{i}-precisions"] = sums, precisions
        return found

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The residuals that `facts` and `arrays` describe."""
        residuals = cls(schema)
        residuals.gaussian, residuals.separate = bool(facts["gaussian"]), bool(facts["separate"])
        for i, named in enumerate(facts["sets"]):
            shape = [size - 1 for size in schema.shape(saving.names({"set": named}, "set"))]
            sums, precisions = (saving.array(arrays, f"{i}-{part}", shape) for part in ("sums", "precisions"))
            columns = saving.columns(schema, named)
            residuals._add(columns, sums, precisions)
            total = residuals._precisions[columns]
            if not ((precisions > 0) & np.isfinite(total) & np.isfinite(residuals._sums[columns])).all():
                raise saving.unfit("precisions must be above 0")
        return residuals

    def __iter__(self) -> Iterator[tuple[Columns, Values, Values]]:
        """Every measured set with its coefficients and their variances."""
        for columns, sums in self._sums.items():
            variance = 1.0 / self._precisions[columns]
            yield columns, sums * variance, variance

    def __contains__(self, columns: Columns) -> bool:
        return columns in self._sums

    def coefficients(self, columns: Columns) -> tuple[Values, Values]:
        """The coefficients of one measured set, and their variances."""
        variance = 1.0 / self._precisions[columns]
        return self._sums[columns] * variance, variance

    @property
    def rows(self) -> float:
        """The estimated number of rows, at least one."""
        if () not in self._sums:
            return 1.0
        return max(1.0, float(self._sums[()] / self._precisions[()]))

    def covers(self, columns: Sequence[str]) -> bool:
        """Whether every subset of these columns was measured."""
        return not self.lacks(columns)

    def lacks(self, columns: Sequence[str]) -> list[Columns]:
        """The subsets of these columns that were not measured."""
        ordered = tuple(sorted(columns, key=self.schema.position))
        return [part for part in self._parts(ordered) if part not in self._sums]

    def _parts(self, columns: Columns) -> Iterator[Columns]:
        """The subsets that carry information: a column of one level has no contrasts."""
        return subsets(tuple(name for name in columns if self.schema[name].size > 1))

    def estimate(self, weights: Values, columns: Columns, *, but: Container[Columns] = ()) -> Estimate:
        """The unbiased total (in counts) of a query with these weights over the cells of `columns`.

        The weights have nothing to say about the subsets in `but`, which need not have been measured.
        """
        coefficients = forward(weights)
        total = variance = largest = 0.0
        for part in self._parts(columns):
            if part in but:
                continue
            lift = math.prod(self.schema[name].size for name in columns if name not in part)
            share = coefficients[_block(columns, part)] / math.sqrt(lift)
            precision = self._precisions[part]
            total += float((share * self._sums[part] / precision).sum())
            variance += float((share**2 / precision).sum())
            largest = max(largest, float((share**2 / precision).max(initial=0.0)))
        if not (self.gaussian or self.separate):
            largest = variance  # a single noise value may account for all of it
        return Estimate(total, math.sqrt(variance), math.sqrt(largest), self.gaussian)

    def marginal(self, columns: Columns) -> tuple[Values, Values]:
        """Unbiased counts of every cell, and the variance of each."""
        sizes = self.schema.shape(columns)
        coefficients, variances = np.zeros(sizes), np.zeros(sizes)
        for part in self._parts(columns):
            lift = math.prod(self.schema[name].size for name in columns if name not in part)
            precision = self._precisions[part]
            coefficients[_block(columns, part)] = self._sums[part] / precision / math.sqrt(lift)
            variances[_block(columns, part)] = 1.0 / precision / lift
        return backward(coefficients), backward(variances, power=2)


def subsets(columns: Columns) -> Iterator[Columns]:
    """Every subset, the empty one and the whole included."""
    for size in range(len(columns) + 1):
        yield from itertools.combinations(columns, size)


def forward(cells: Values) -> Values:
    """Orthonormal coefficients of a table; index 0 along an axis is the constant."""
    for axis in range(np.ndim(cells)):
        cells = np.moveaxis(helmert_of(np.moveaxis(cells, axis, -1)), -1, axis)
    return np.asarray(cells)


def backward(coefficients: Values, *, power: int = 1) -> Values:
    """The table of these coefficients; with power 2, cell variances from coefficient variances."""
    for axis in range(np.ndim(coefficients)):
        coefficients = np.moveaxis(_cells(np.moveaxis(coefficients, axis, -1), power), -1, axis)
    return np.asarray(coefficients)


def helmert_of(cells: Values) -> Values:
    """`orthonormal` applied to the last axis. Row k holds k ones and then -k: running sums stand for a large matrix."""
    size = cells.shape[-1]
    if size <= SMALL:
        return np.asarray(cells @ _basis(size).T)
    row = np.arange(1.0, size)
    sums = np.cumsum(cells, axis=-1, dtype=np.float64)
    made = np.empty(cells.shape)
    made[..., 0] = sums[..., -1] / math.sqrt(size)
    made[..., 1:] = (sums[..., :-1] - row * cells[..., 1:]) / np.sqrt(row * (row + 1))
    return made


def _cells(coefficients: Values, power: int) -> Values:
    """The transpose of `helmert_of`, with every weight to a power."""
    size = coefficients.shape[-1]
    if size <= SMALL:
        return np.asarray(coefficients @ _basis(size) ** power)
    row = np.arange(1.0, size)
    scaled = coefficients[..., 1:] / np.sqrt(row * (row + 1)) ** power
    made = np.empty(coefficients.shape)
    made[..., -1] = 0.0
    made[..., :-1] = np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    made[..., 1:] += (-row) ** power * scaled
    made += coefficients[..., :1] / math.sqrt(size) ** power
    return made


@cache
def _basis(size: int) -> Values:
    return orthonormal(size)


def _norms(matrix: NDArray[np.int64]) -> Values:
    """The norms of whole-number Helmert rows; any other contrasts are refused."""
    norms: Values = np.linalg.norm(matrix, axis=1)
    expected = _basis(matrix.shape[1])[1:]
    if matrix.shape != expected.shape or not np.allclose(matrix / norms[:, None], expected):
        raise QueryError("only the contrasts made by `residual` can be combined with other measurements")
    return norms


def _block(columns: Columns, part: Columns) -> tuple[slice | int, ...]:
    """Index of a subset's coefficients: all but the constant along its own axes, the constant along the others."""
    return tuple(slice(1, None) if name in part else 0 for name in columns)
