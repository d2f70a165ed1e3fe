"""ProductView: a question that factors into one vector per column; it is never enumerated.

It alone can be read in the other bases of its parts, and rented part by part. Public computation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.query import LARGEST, Contrasts, Marginal, is_ordered, orthonormal
from maquette.schema import Schema
from maquette.session.precision.bases import (
    inverse,
    is_plain,
    numbers_of,
    plain,
    sums_key,
    waves_key,
    whole_keys,
    whole_kind,
)
from maquette.session.precision.description import described
from maquette.session.precision.view import Outline, Values, View

EXACTLY = 1e-12  # relative error of floating-point weights


class _Whole(NamedTuple):
    """size * condition - (number of levels held) for one column, divided by the common divisor."""

    row: NDArray[np.int64]
    largest: int
    factor: float


class _Size(NamedTuple):
    """Largest squared weights of a column: outside a part, inside it in total, and of one coefficient."""

    outside: float
    inside: float
    peak: float

    @classmethod
    def of(cls, means: Values, contrasts: Values) -> _Size:
        squares = contrasts**2
        return cls(*(float(numbers.max(initial=0.0)) for numbers in (means**2, squares.sum(axis=1), squares)))


_basis = cache(orthonormal)


class ProductView(View):
    """A question that is a product: one matrix for each column, whose rows are the levels of one axis."""

    def __init__(self, schema: Schema, matrices: Mapping[str, Values], axes: Mapping[str, int], scale: float) -> None:
        columns = tuple(sorted(matrices, key=schema.position))
        self._order = sorted(range(len(columns)), key=lambda i: axes.get(columns[i], -1))
        kept = [name for name in columns if name in axes]
        shape = tuple(matrices[name].shape[0] for name in sorted(kept, key=lambda name: axes[name]))
        super().__init__(schema, columns, shape, described(schema, matrices))
        self.factor = self._scale = scale
        self.axes = axes
        self._matrices = matrices
        basis = {name: matrices[name] @ _basis(schema[name].size).T for name in columns}
        self._means = {name: rows[:, 0] / math.sqrt(schema[name].size) for name, rows in basis.items()}
        self._contrasts = {name: rows[:, 1:] for name, rows in basis.items()}
        self._sizes = {name: _Size.of(self._means[name], self._contrasts[name]) for name in columns}
        self._components: dict[Columns, tuple[Contrasts, float]] = {}
        self._insides: dict[tuple[str, int], tuple[Values, Values]] = {}
        self._relatives: dict[tuple[str, int], float] = {}

    def _gain(self, part: Columns) -> float:
        sizes = [size.inside if name in part else size.outside for name, size in self._sizes.items()]
        return self._scale**2 * math.prod(sizes)

    @cached_property
    def others(self) -> dict[Columns, dict[Columns, float]]:
        """For parts that can be measured in other bases: the gain by key, relative to `gains`."""
        found: dict[Columns, dict[Columns, float]] = {}
        for part in self.gains:
            keys = [waves_key(part)] if any(is_ordered(self.schema, name) for name in part) else []
            keys += [sums_key(part, name) for name in part if name in self._sums]
            if part == self.columns:
                keys += whole_keys(self.schema, part)
            if keys:
                found[part] = {key: math.prod(self._relative(key, name) for name in part) for key in keys}
        return found

    def _relative(self, key: Columns, name: str) -> float:
        inside = self._inside(key, name)
        if (name, id(inside)) not in self._relatives:  # `_insides` keeps the array, so its id is its own
            self._relatives[name, id(inside)] = (
                float((inside**2).sum(axis=1).max(initial=0.0)) / self._sizes[name].inside
            )
        return self._relatives[name, id(inside)]

    def rows(self, name: str) -> Values:
        """The conditions on a column; on one that it does not concern, all of its levels."""
        return self._matrices[name] if name in self._matrices else np.ones((1, self.schema[name].size))

    @cached_property
    def _sums(self) -> frozenset[str]:
        """The columns that enter by their numbers alone: weights that are these times a factor, plus a constant."""
        found = set()
        for name, rows in self._matrices.items():
            numbers = numbers_of(self.schema, name) if len(rows) == 1 and self.schema[name].size > 2 else None
            if numbers is not None:
                centred = rows[0] - rows[0].mean()
                factor = float(centred @ numbers) / float(numbers @ numbers)
                if factor and np.abs(centred - factor * numbers).max() <= EXACTLY * np.abs(centred).max():
                    found.add(name)
        return frozenset(found)

    @cached_property
    def ranged(self) -> bool:
        """Whether it holds a range of several levels of an ordered column."""
        ordered = [rows for name, rows in self._matrices.items() if is_ordered(self.schema, name)]
        return any(_is_range(row) for rows in ordered for row in rows)

    def _inside(self, key: Columns, name: str) -> Values:
        """The weights of one column over the rows of its matrix in a basis; few matrices serve many keys."""
        if is_plain(key):
            return self._contrasts[name]
        matrix = inverse(self.schema, key, name)
        known = self._insides.get((name, id(matrix)))
        if known is None or known[0] is not matrix:
            rows = self._matrices[name]
            if whole_kind(key) is not None:  # its rows do not sum to zero, so what smaller parts say is taken away
                rows = rows - rows.mean(axis=1, keepdims=True)
            self._insides[name, id(matrix)] = known = matrix, np.asarray(rows @ matrix)
        return known[1]

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        sizes = [size.peak if name in part else size.outside for name, size in self._sizes.items()]
        return self._scale**2 * math.prod(sizes)

    def component(self, part: Columns) -> tuple[Contrasts, float] | None:
        """The product of size * condition - held levels over the part's columns: whole numbers that sum to zero.

        None for multiples of a question: they would have separate noise under the same name.
        """
        outline = self.outline(part)
        if outline is None:
            return None
        if part not in self._components:
            rows = [self._whole[name].row for name in self.columns if name in part]
            self._components[part] = Contrasts(Marginal(self.schema, part), rows), outline.factor
        return self._components[part]

    def outline(self, part: Columns) -> Outline | None:
        """The size of that contrast, computed before it is built."""
        if self.shape or self._scale != 1.0 or not part or not self._whole.keys() >= set(part):
            return None
        factor, largest = 1.0, 1
        for name in self.columns:
            if name in part:
                factor *= self._whole[name].factor
                largest *= self._whole[name].largest
            else:
                factor *= float(self._means[name][0])
        return Outline(largest, factor) if largest <= LARGEST else None

    @cached_property
    def _whole(self) -> dict[str, _Whole]:
        """The whole numbers of every column whose condition has weights 0 and 1 only."""
        found = {}
        for name, weights in self._matrices.items():
            if len(weights) == 1 and ((weights == 0.0) | (weights == 1.0)).all():
                condition = weights.astype(np.int64)
                row = condition.size * condition - condition.sum()
                common = math.gcd(*row[0].tolist()) or 1
                found[name] = _Whole(row // common, int(np.abs(row).max()) // common, common / condition.size)
        return found

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        cells = block
        for name in plain(part):  # sums over the first axis and appends the new one
            cells = np.tensordot(cells, self._inside(part, name).T ** power, axes=(0, 0))
        for i, name in enumerate(self.columns):
            if name not in plain(part):
                cells = np.multiply.outer(self._means[name] ** power, cells)
                cells = np.moveaxis(cells, 0, i)
        return np.asarray(np.transpose(cells, self._order).reshape(self.shape)) * self._scale**power

    def _flat(self, part: Columns) -> Values:
        if is_plain(part):
            return self._flats[part]
        if part not in self._kept:
            inside, flat = plain(part), np.array([self._scale])
            for name in self.columns:
                flat = (
                    np.multiply.outer(flat, self._inside(part, name)[0]).reshape(-1)
                    if name in inside
                    else flat * self._means[name]
                )
            self._kept[part] = flat
        return self._kept[part]

    @cached_property
    def _flats(self) -> dict[Columns, Values]:
        """The shares of a single number in all parts, column by column: each is computed from an earlier one."""
        flats: dict[Columns, Values] = {(): np.array([self._scale])}
        for name in self.columns:
            inside = {(*part, name): np.multiply.outer(flat, self._contrasts[name][0]) for part, flat in flats.items()}
            outside = {part: flat * self._means[name] for part, flat in flats.items()}
            flats = outside | {part: shares.reshape(-1) for part, shares in inside.items()}
        return flats

    def _shares(self, part: Columns) -> Values:
        shares = np.full((1, 1), self._scale)
        for name in self.columns:
            inside = name in plain(part)
            shares = np.kron(shares, self._inside(part, name) if inside else self._means[name][:, None])
        rows = [len(self._means[name]) for name in self.columns]
        return np.asarray(np.transpose(shares.reshape(*rows, -1), [*self._order, len(rows)]))


def _is_range(row: Values) -> bool:
    held = np.flatnonzero(row)
    return 1 < len(held) < len(row) and int(held[-1] - held[0]) + 1 == len(held)
