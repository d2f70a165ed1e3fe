"""View: a question in terms of residuals: what it needs of every set of columns, and how noise reaches it.

Counts over columns S split into orthogonal parts, one for every subset A of S: what A says beyond its own subsets
(`maquette.estimates.residuals`). A question over S is a sum over these parts, so its estimate is a sum of estimates and
its noise variance is sum_A gain_A / precision_A. A question that factors into one vector per column is never
enumerated; any other is written out over the cells of S. Public computation.

A part can also be measured in other bases (`maquette.session.precision.bases`), in which ranges or sums have less
noise. What several bases say is averaged with one weight each for the whole part.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.estimates import Columns, forward, subsets
from maquette.query import LARGEST, Buckets, Contrasts, Marginal, is_ordered, orthonormal
from maquette.schema import Schema
from maquette.session.precision.bases import inverse, is_plain, numbers_of, plain, sums_key, waves_key
from maquette.session.precision.description import Description, described, weighed

Values = NDArray[np.float64]
Part = tuple[Values, Values]  # coefficients in counts, and their variances
Read = Callable[[Columns], Part]

MAX_CELLS = 2**20  # of the columns of a question, and of everything written out for one that does not factor
MAX_COLUMNS = 12  # a question has 2^columns parts

NEGLIGIBLE = 1e-18
EXACTLY = 1e-12  # relative error of floating-point weights
STEPS = 8  # from half of the cells to all of them


class Component(NamedTuple):
    """What a part contributes to one number, in counts, and the variance of its noise."""

    value: float
    variance: float


class Outline(NamedTuple):
    """Of the contrast for one number: its largest entry, and the factor that converts it to counts."""

    largest: int
    factor: float


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


NOTHING: Mapping[Columns, Component] = MappingProxyType({})
Mixture = Mapping[Columns, Mapping[Columns, float]]  # by part: the keys from which it is read, and their weights
UNMIXED: Mixture = MappingProxyType({})

CELLS: Columns = ("*",)  # the part that is one noisy histogram of the whole universe, without its total


_basis = cache(orthonormal)


class View(ABC):
    """How every cell of a marginal depends on the parts of its columns."""

    def __init__(self, schema: Schema, columns: Columns, shape: tuple[int, ...], description: Description) -> None:
        self.schema = schema
        self.columns = columns
        self.shape = shape
        self.description = description
        self._kept: dict[Columns, Values] = {}

    @cached_property
    def parts(self) -> tuple[Columns, ...]:
        """Every subset of the columns; a column with one level has no part of its own."""
        return tuple(subsets(tuple(name for name in self.columns if self.schema[name].size > 1)))

    @cached_property
    def gains(self) -> dict[Columns, float]:
        """For every part with non-zero gain: variance of the noisiest cell per unit of the part's variance."""
        gains = {part: self._gain(part) for part in self.parts}
        return {part: gain for part, gain in gains.items() if gain > NEGLIGIBLE}

    @cached_property
    def others(self) -> dict[Columns, dict[Columns, float]]:
        """For parts that can be measured in other bases: the gain by key, relative to `gains`."""
        return {}

    @property
    def ranged(self) -> bool:
        """Whether it holds a range of several levels of an ordered column."""
        return False

    def sources(self, mixed: Mixture, part: Columns) -> list[tuple[Columns, float]]:
        """The keys from which a part is read, each with its weight."""
        return list(mixed[part].items()) if part in mixed else [(part, 1.0)]

    def look(
        self,
        read: Read,
        instead: Mapping[Columns, Component] = NOTHING,
        mixed: Mixture = UNMIXED,
    ) -> tuple[Values, Values]:
        """Estimate and variance of every cell, in counts; `instead` replaces some parts of a single number."""
        if not self.shape:
            return self._look_once(read, instead, mixed)
        values, variances = np.zeros(self.shape), np.zeros(self.shape)
        for part in self.gains:
            for key, weight in self.sources(mixed, part):
                coefficients, noise = read(key)
                values += weight * self._project(key, coefficients, 1)
                variances += weight**2 * self._project(key, noise, 2)
        return values, variances

    def _look_once(self, read: Read, instead: Mapping[Columns, Component], mixed: Mixture) -> tuple[Values, Values]:
        """`look` for a single number, computed from its shares."""
        own = [instead[part] for part in self.gains if part in instead]
        keys = [source for part in self.gains if part not in instead for source in self.sources(mixed, part)]
        value, variance = sum(one.value for one in own), sum(one.variance for one in own)
        if keys:
            coefficients, noises = zip(*(read(key) for key, _ in keys), strict=True)
            shares = np.concatenate(
                [self._flat(key) if weight == 1.0 else weight * self._flat(key) for key, weight in keys]
            )
            value += float(shares @ np.concatenate(coefficients, axis=None))
            variance += float(shares**2 @ np.concatenate(noises, axis=None))
        return np.array(value), np.array(variance)

    def sizes(self, key: Columns, shape: tuple[int, ...]) -> Values:
        """The squared weights of every cell under a key whose numbers have this shape, added up."""
        return self._project(key, np.ones(shape), 2)

    def _spread_out(self, part: Columns, size: int) -> Values:
        return self._shares(part).reshape(*self.shape, size) if self.shape else self._flat(part)

    def _flat(self, part: Columns) -> Values:
        if part not in self._kept:
            self._kept[part] = self._shares(part).reshape(-1)
        return self._kept[part]

    def component(self, part: Columns) -> tuple[Contrasts, float] | None:
        """What a part contributes to a single number: one contrast, and the factor that converts it to counts."""
        return None

    def outline(self, part: Columns) -> Outline | None:
        """The size of that contrast, computed before it is built."""
        return None

    def covariance(
        self,
        other: View,
        read: Read,
        instead: Mapping[Columns, Component] = NOTHING,
        mixed: tuple[Mixture, Mixture] = (UNMIXED, UNMIXED),
    ) -> Values:
        """The covariance of the noise of two views of the same shape, cell by cell; `mixed` of both in turn."""
        total = np.zeros(self.shape)
        for part in self.gains:
            if part not in other.gains or part in instead:
                continue
            theirs = dict(other.sources(mixed[1], part))
            for key, weight in self.sources(mixed[0], part):
                if key in theirs:
                    noise = read(key)[1].reshape(-1)
                    one, two = (view._spread_out(key, len(noise)) for view in (self, other))
                    total += weight * theirs[key] * (one * two * noise).sum(axis=-1)
        return total

    @abstractmethod
    def peak(self, part: Columns) -> float:
        """The gain of one coefficient of a part: the largest square of a share."""

    @abstractmethod
    def _gain(self, part: Columns) -> float:
        """Variance of the noisiest cell per unit of a part's variance."""

    @abstractmethod
    def _project(self, part: Columns, block: Values, power: int) -> Values:
        """Sum a block of coefficients with the shares of every cell, raised to `power`."""

    @abstractmethod
    def _shares(self, part: Columns) -> Values:
        """The shares: the axes of the cells, then those of the part."""


class ProductView(View):
    """A question that is a product: one matrix for each column, whose rows are the levels of one axis."""

    def __init__(self, schema: Schema, matrices: Mapping[str, Values], axes: Mapping[str, int], scale: float) -> None:
        columns = tuple(sorted(matrices, key=schema.position))
        self._order = sorted(range(len(columns)), key=lambda i: axes.get(columns[i], -1))
        kept = [name for name in columns if name in axes]
        shape = tuple(matrices[name].shape[0] for name in sorted(kept, key=lambda name: axes[name]))
        super().__init__(schema, columns, shape, described(schema, matrices))
        self._scale = scale
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
            self._insides[name, id(matrix)] = known = matrix, np.asarray(self._matrices[name] @ matrix)
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


class TableView(View):
    """Any question: the weights of every cell, written out over the columns."""

    def __init__(self, schema: Schema, columns: Columns, weights: Values, shape: tuple[int, ...]) -> None:
        super().__init__(schema, columns, shape, weighed(schema, columns, weights))
        self._coefficients = np.stack([forward(cell) for cell in weights.reshape((-1, *schema.shape(columns)))])

    def _gain(self, part: Columns) -> float:
        return float((self._shares(part) ** 2).reshape(len(self._coefficients), -1).sum(axis=1).max(initial=0.0))

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return float((self._shares(part) ** 2).max(initial=0.0))

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        shares = self._shares(part).reshape(len(self._coefficients), -1)
        return np.asarray((shares**power @ block.reshape(-1)).reshape(self.shape))

    def _shares(self, part: Columns) -> Values:
        lift = math.prod(self.schema[name].size for name in self.columns if name not in part)
        block = tuple(slice(1, None) if name in part else 0 for name in self.columns)
        return np.asarray(self._coefficients[(slice(None), *block)] / math.sqrt(lift))


class CellView(View):
    """Any question over a small universe: the weight of every cell, minus the mean weight."""

    def __init__(self, schema: Schema, weights: Values, shape: tuple[int, ...], description: Description) -> None:
        super().__init__(schema, schema.names, shape, description)
        cells = weights.reshape(-1, schema.size)
        self._means = cells.mean(axis=1)
        self._deviations = cells - self._means[:, None]

    @cached_property
    def parts(self) -> tuple[Columns, ...]:
        """The number of rows, and the histogram."""
        return (), CELLS

    @property
    def hardest(self) -> tuple[View, ...]:
        """Questions of this description over half of the cells or more: no question of the same mean has more noise."""
        size = self.schema.size
        counts = sorted({math.ceil(size * (STEPS + i) / (2 * STEPS)) for i in range(STEPS + 1)})
        held = [(np.arange(size) < count).astype(np.float64) for count in counts]
        return tuple(CellView(self.schema, weights, (), self.description) for weights in held)

    def _shares(self, part: Columns) -> Values:
        return np.asarray(self._deviations if part else self._means[:, None])

    def _gain(self, part: Columns) -> float:
        return float((self._shares(part) ** 2).sum(axis=1).max(initial=0.0))

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return float((self._shares(part) ** 2).max(initial=0.0))

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        return np.asarray((self._shares(part) ** power @ block.reshape(-1)).reshape(self.shape))


def _is_range(row: Values) -> bool:
    held = np.flatnonzero(row)
    return 1 < len(held) < len(row) and int(held[-1] - held[0]) + 1 == len(held)


def cell_view_of(marginal: Marginal, *, signed: bool = False) -> View:
    """The view of a marginal where the whole universe is one histogram."""
    plain = view_of(marginal, signed=signed)
    weights = _written_out(marginal, marginal.schema.names, signed)
    return CellView(marginal.schema, weights, plain.shape, plain.description)


def _written_out(marginal: Marginal, columns: Columns, signed: bool) -> Values:
    """The weight of every combination of the columns in every cell."""
    weights = np.stack([query.weights(columns) for _, query in marginal.queries()])
    cells = weights.reshape((*marginal.shape, *marginal.schema.shape(columns)))
    if signed:
        last = len(marginal.shape) - 1
        cells = np.take(cells, 1, axis=last) - np.take(cells, 0, axis=last)
    return np.asarray(cells)


def view_of(marginal: Marginal, *, signed: bool = False) -> View:
    """The view of a marginal; if signed, its last axis is read as (negative, positive).

    A marginal whose axes and weight factor over the columns is a product; any other is written out.
    """
    schema, columns = marginal.schema, marginal.columns
    product = _product(marginal, signed) if schema.cells(columns) <= MAX_CELLS else None
    if product is not None:
        return product
    if len(columns) > MAX_COLUMNS or schema.cells(columns) * marginal.cells > MAX_CELLS:
        raise TooWide(f"the question depends on {len(columns)} columns with {schema.cells(columns):,} combinations")
    shape = marginal.shape[:-1] if signed else marginal.shape
    return TableView(schema, columns, _written_out(marginal, columns, signed), shape)


class TooWide(QueryError):
    """A question that cannot be split into parts of reasonable size; it can still be measured as asked."""

    code = "query.too-wide"


def _product(marginal: Marginal, signed: bool) -> ProductView | None:
    """One matrix for each column, if the question is a product; None otherwise."""
    schema, terms = marginal.schema, marginal.weight.terms
    if len(terms) != 1 or len(marginal.columns) > MAX_COLUMNS:
        return None
    rows = {schema.columns[position].name: factor[None, :] for position, factor in terms[0].factors.items()}
    axes: dict[str, int] = {}
    for number, axis in enumerate(marginal.axes):
        levels = _levels(schema, axis)
        if levels is None:
            return None
        name, matrix = levels
        if name in axes:
            return None
        if signed and number == len(marginal.axes) - 1:
            matrix = matrix[1:] - matrix[:1]
        else:
            axes[name] = number
        rows[name] = matrix * rows[name] if name in rows else matrix
    return ProductView(schema, rows, axes, terms[0].coefficient)


def _levels(schema: Schema, axis: str | Buckets) -> tuple[str, Values] | None:
    """The column of an axis and the indicator of each of its levels; None if the axis does not concern one column."""
    if isinstance(axis, str):
        return axis, np.eye(schema[axis].size)
    names = {name for part in axis.parts for name in part.columns}
    if len(names) != 1:
        return None
    (name,) = names
    return name, np.stack([part.weights((name,)) for part in axis.parts])
