"""ProductView: a question that factors into one vector per column; it is never enumerated.

It alone can be read in the other bases of its parts, and rented part by part. Public computation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from maquette.estimates import Columns
from maquette.query import LARGEST, Contrasts, Marginal, RangeBasis, family_of, is_ordered
from maquette.schema import Schema
from maquette.session.precision.bases import is_plain, plain, sums_key, waves_key, whole_keys
from maquette.session.precision.description import described
from maquette.session.precision.facet import Whole, facet_of
from maquette.session.precision.view import Outline, Values, View


class ProductView(View):
    """A question that is a product: one matrix for each column, whose rows are the levels of one axis."""

    def __init__(self, schema: Schema, matrices: Mapping[str, Values], axes: Mapping[str, int], scale: float) -> None:
        columns = tuple(sorted(matrices, key=schema.position))
        self._order = sorted(range(len(columns)), key=lambda i: axes.get(columns[i], -1))
        kept = [name for name in columns if name in axes]
        shape = tuple(matrices[name].shape[0] for name in sorted(kept, key=lambda name: axes[name]))
        self._facets = {name: facet_of(schema, name, matrices[name]) for name in columns}
        named = {name: self._facets[name].named for name in matrices}
        super().__init__(schema, columns, shape, described(schema, named))
        self.factor = self._scale = scale
        self.axes = axes
        self._means = {name: facet.means for name, facet in self._facets.items()}
        self._components: dict[Columns, tuple[Contrasts, float]] = {}

    def _gain(self, part: Columns) -> float:
        return self._scale**2 * self._sizes[part]

    @cached_property
    def _sizes(self) -> dict[Columns, float]:
        """For every part its gain at unit scale, column by column: each is computed from an earlier one."""
        sizes: dict[Columns, float] = {(): 1.0}
        for name, facet in self._facets.items():
            inside = {(*part, name): size * facet.inside for part, size in sizes.items()}
            sizes = {part: size * facet.outside for part, size in sizes.items()} | inside
        return sizes

    @cached_property
    def others(self) -> dict[Columns, dict[Columns, float]]:
        """For parts that can be measured in other bases: the gain by key, relative to `gains`."""
        found: dict[Columns, dict[Columns, float]] = {}
        for part in self.gains:
            keys = [waves_key(part)] if any(self._facets[name].ordered for name in part) else []
            keys += [sums_key(part, name) for name in part if self._facets[name].summed]
            if part == self.columns:
                keys += self.whole_keys
            if keys:
                found[part] = {key: math.prod(self._facets[name].relative(key) for name in part) for key in keys}
        return found

    @cached_property
    def whole_keys(self) -> tuple[Columns, ...]:
        """The ways to measure the whole table of its columns."""
        return whole_keys(self.schema, self.columns)

    def ordered(self, name: str) -> bool:
        """Whether a column has enough ordered levels for ranges to matter."""
        return self._facets[name].ordered if name in self._facets else is_ordered(self.schema, name)

    def family(self, kind: RangeBasis, columns: Columns) -> int:
        """How many questions a whole table of these columns is bought for."""
        return family_of(self.schema, kind, columns)

    def rows(self, name: str) -> Values:
        """The conditions on a column; on one that it does not concern, all of its levels."""
        return self._facets[name].matrix if name in self._facets else np.ones((1, self.schema[name].size))

    @cached_property
    def ranged(self) -> bool:
        """Whether it holds a range of several levels of an ordered column."""
        return any(facet.ranged for facet in self._facets.values())

    def _inside(self, key: Columns, name: str) -> Values:
        """The weights of one column over the rows of its matrix in a basis."""
        return self._facets[name].weights(key)

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        sizes = [facet.peak if name in part else facet.outside for name, facet in self._facets.items()]
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
        outline = self._outlines.get(part) if part else None
        return outline if outline is not None and outline.largest <= LARGEST else None

    @cached_property
    def _outlines(self) -> dict[Columns, Outline]:
        """For every part of conditions with weights 0 and 1 only, the size of its contrast; as `_sizes`."""
        found: dict[Columns, Outline] = {} if self.shape or self._scale != 1.0 else {(): Outline(1, 1.0)}
        for name in self.columns:
            mean, whole = float(self._means[name][0]) if found else 0.0, self._whole.get(name)
            inside = (
                {}
                if whole is None
                else {
                    (*part, name): Outline(largest * whole.largest, factor * whole.factor)
                    for part, (largest, factor) in found.items()
                }
            )
            found = {part: Outline(one.largest, one.factor * mean) for part, one in found.items()} | inside
        return found

    @cached_property
    def _whole(self) -> dict[str, Whole]:
        """The whole numbers of every column whose condition has weights 0 and 1 only."""
        return {name: facet.whole for name, facet in self._facets.items() if facet.whole is not None}

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
            row = self._facets[name].contrasts[0]
            inside = {(*part, name): np.multiply.outer(flat, row) for part, flat in flats.items()}
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
