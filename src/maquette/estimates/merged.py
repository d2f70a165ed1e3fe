"""Merged levels: columns seen through groups of levels, and what a model over the groups says about the levels.

A table over columns with many rare levels is mostly noise. Grouped, it has fewer cells, each with the same noise, and
the model needs less memory; within a group the levels are assumed to depend on nothing else. Groups come from released
numbers, so all of this is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates.evidence import Estimate, spread
from maquette.estimates.residuals import Columns, Residuals, forward, subsets
from maquette.hypothesis import Arrays, GraphicalModel, refined, saving, systematic
from maquette.privacy import DiscreteGaussian
from maquette.query import Contrasts, LinearQuery, Marginal, Term, helmert, residual
from maquette.schema import Column, Integer, Schema

Values = NDArray[np.float64]
Groups = NDArray[np.int64]

SCALE = 2**12
CUTS = 8  # maximum groups of a question that are narrowed by their levels; a range cuts two
WORTH = 2.0  # deviations by which the levels must narrow an end, because a choice widens the noise
PLAIN = 0.9  # share of the doubt for ends that no level has narrowed


class Merging:
    """The group of every level, for the columns that have any; `merged` is the schema of the groups.

    A column of an impossible combination keeps its levels, even if `groups` merges them: in a group with possible
    levels an impossible one would get a share of the mass.
    """

    def __init__(self, schema: Schema, groups: Mapping[str, Groups]) -> None:
        self.schema = schema
        whole = {name for entry in schema.impossible for name in entry}
        groups = {name: found for name, found in groups.items() if name not in whole}
        self.groups = {name: groups.get(name, np.arange(schema[name].size)) for name in schema.names}
        self.merged = Schema([self._column(column) for column in schema], impossible=schema.impossible)

    def _column(self, column: Column) -> Column:
        groups = int(self.groups[column.name].max()) + 1
        return column if groups == column.size else Integer(column.name, 0, groups - 1)

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The columns with fewer groups than levels."""
        return tuple(name for name in self.schema.names if self.merged[name].size < self.schema[name].size)

    def arrays(self) -> dict[str, Groups]:
        """The groups of the changed columns."""
        return {f"groups-{i}": self.groups[name] for i, name in enumerate(self.changed)}

    @classmethod
    def restore(cls, schema: Schema, changed: Sequence[str], arrays: Arrays) -> Merging:
        """The merging of these columns, with the groups in `arrays`."""
        names = saving.names({"merging": changed}, "merging")
        groups = {n: saving.array(arrays, f"groups-{i}", schema.shape([n]), np.int64) for i, n in enumerate(names)}
        if any(not 0 <= found.min() <= found.max() < len(found) for found in groups.values()):
            raise saving.unfit("groups do not fit the levels of their columns")
        return cls(schema, groups)

    def table(self, columns: Sequence[str]) -> Contrasts | Marginal:
        """The counts of all combinations of groups; one row moves one of them by one."""
        if self._whole(columns):
            return Marginal(self.schema, columns)  # the same counts; the wall knows it without reading matrices
        return Contrasts(Marginal(self.schema, columns), [self._members(name) for name in columns])

    def residual(self, columns: Sequence[str]) -> Contrasts:
        """What the table of groups says beyond its subsets: as `maquette.query.residual`, one level for each group."""
        if self._whole(columns):
            return residual(self.schema, columns)
        sizes = self.merged.shape(columns)
        scale = 1 if set(sizes) <= {2} else min(SCALE, 2 ** (28 // max(1, len(sizes))))
        matrices = [helmert(size, scale)[:, self.groups[name]] for size, name in zip(sizes, columns, strict=True)]
        return Contrasts(Marginal(self.schema, columns), matrices)

    def _whole(self, columns: Sequence[str]) -> bool:
        """Whether all levels of these columns are groups of their own."""
        return not any(name in self.changed for name in columns)

    def _members(self, name: str) -> NDArray[np.int64]:
        groups = self.groups[name]
        return np.asarray(groups == np.arange(self.merged[name].size)[:, None], dtype=np.int64)

    def take(self, measurement: Measurement, columns: Columns, into: Residuals) -> None:
        """Add measured contrasts made by `residual` or `table` to residuals over the groups."""
        variance = spread(measurement) ** 2
        into.gaussian &= isinstance(measurement.event, DiscreteGaussian)
        if measurement.values.shape == self.merged.shape(columns):
            into.separate &= into.gaussian or not columns
            self._take_table(measurement.values, variance, columns, into)
            return
        norms = np.ones(())
        question = measurement.question
        assert isinstance(question, Contrasts), "only contrasts have fewer values than groups"
        for name, matrix in zip(columns, question.matrices, strict=True):
            firsts = np.unique(self.groups[name], return_index=True)[1]
            norms = np.multiply.outer(norms, np.linalg.norm(matrix[:, firsts], axis=1))
        into.combine(columns, measurement.values / norms, variance / norms**2)

    def _take_table(self, values: Values, variance: float, columns: Columns, into: Residuals) -> None:
        coefficients = forward(values)
        for part in subsets(columns):
            lift = self.merged.cells([name for name in columns if name not in part])
            place = tuple(slice(1, None) if name in part else 0 for name in columns)
            block = coefficients[place] * math.sqrt(lift)
            into.combine(part, block, np.full(block.shape, variance * lift))

    def within(self, fine: Residuals) -> dict[str, Values]:
        """The share of every level in its group, from the measured columns; every level keeps some mass."""
        shares: dict[str, Values] = {}
        for name in self.changed:
            counts, variances = fine.marginal((name,))
            masses = np.maximum(counts, np.maximum(np.sqrt(variances) / 2, 1e-9))
            shares[name] = masses / np.bincount(self.groups[name], weights=masses)[self.groups[name]]
        return shares


@dataclass(frozen=True)
class MergedModel:
    """A graphical model over groups of levels, with the share of each level in its group."""

    kind: ClassVar[str] = "merged"
    merging: Merging
    model: GraphicalModel
    shares: dict[str, Values]

    @property
    def schema(self) -> Schema:
        """The universe, with all its levels."""
        return self.merging.schema

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        terms = [
            Term(term.coefficient, {place: self._gathered(place, factor) for place, factor in term.factors.items()})
            for term in query.terms
        ]
        return self.model.answer(LinearQuery(self.merging.merged, terms))

    def _gathered(self, position: int, factor: Values) -> Values:
        """The mean weight of each group."""
        name = self.schema.names[position]
        if name not in self.shares:
            return factor
        return np.minimum(np.bincount(self.merging.groups[name], weights=factor * self.shares[name]), 1.0)

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of these columns, axes in the order asked."""
        cells = self.model.marginal(columns)
        for axis, name in enumerate(columns):
            if name in self.shares:
                shares = self.shares[name].reshape([-1 if i == axis else 1 for i in range(cells.ndim)])
                cells = np.take(cells, self.merging.groups[name], axis=axis) * shares
        return cells

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, drawn and then refined: tables of two and three columns are close to the model's."""
        return refined(self, self.draw(rows, rng))

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records: groups from the model, then each level appears its share of the group's rows, rounded."""
        records = self.model.draw(rows, rng, start)
        for name, shares in self.shares.items():
            place, groups = self.schema.position(name), self.merging.groups[name]
            drawn = records[:, place].copy()
            for group in range(int(groups.max()) + 1):
                levels, here = np.flatnonzero(groups == group), np.flatnonzero(drawn == group)
                if len(here):
                    records[here, place] = levels[systematic(shares[levels], len(here), rng)]
        return records

    def facts(self) -> dict[str, Any]:
        """The merged columns, and the model of their groups."""
        merging, shares = list(self.merging.changed), list(self.shares)
        return {"merging": merging, "shares": shares, "model": saving.described(self.model)}

    def arrays(self) -> Arrays:
        """The shares, the groups, and the numbers of the model of groups."""
        shares = {f"shares-{i}": shares for i, shares in enumerate(self.shares.values())}
        return {**shares, **self.merging.arrays(), **saving.prefixed("merged", self.model.arrays())}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        merging = Merging.restore(schema, facts["merging"], arrays)
        names = saving.names(facts, "shares")
        shares = {name: saving.array(arrays, f"shares-{i}", schema.shape([name])) for i, name in enumerate(names)}
        model = GraphicalModel.restore(merging.merged, facts["model"], saving.inside("merged", arrays))
        return cls(merging, model, shares)

    def __repr__(self) -> str:
        return f"MergedModel({', '.join(self.shares)} merged, {self.model!r})"


@dataclass(frozen=True)
class Bounded(Estimate):
    """An estimate of something that is known only up to `slack`, even without noise.

    Noisy numbers chose its ends among others, and all of them hold together: `share` of the doubt is for these.
    """

    slack: float = 0.0
    share: float = 1.0

    def half_width(self, confidence: float) -> float:
        """How far noise and merging can have moved the total."""
        return super().half_width(1.0 - (1.0 - confidence) * self.share) + self.slack


@dataclass(frozen=True)
class MergedEvidence:
    """What was measured: levels (`fine`) and groups (`coarse`).

    Where both say something of a query, they are combined by their noise; what only levels say of the groups of one
    column is added up from them (`_grouped`). A query that distinguishes levels of one group lies between two that do
    not: those with the least and the largest weight in each cell of groups. Its interval runs from the lower end of the
    first to the upper end of the second, narrowed by the measured levels (`_ends`).
    """

    kind: ClassVar[str] = "merged"
    merging: Merging
    fine: Residuals
    coarse: Residuals

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self.coarse.rows

    def covers(self, columns: Sequence[str]) -> bool:
        """Whether every subset of these columns was measured, of levels or of groups."""
        lacking = self.coarse.lacks(columns)
        return self.fine.covers(columns) or all(len(part) == 1 and part in self.fine for part in lacking)

    def estimate(self, weights: Values, columns: Columns) -> Estimate:
        """An estimate of the total whose interval contains it."""
        if self.coarse.covers(columns) and not set(columns) & set(self.merging.changed):
            return self.coarse.estimate(weights, columns)  # it holds all measurements of such columns
        if columns and self.fine.covers(columns):
            return self._combined(weights, columns)
        if not any(self._cuts(weights, columns, name) for name in columns if name in self.merging.changed):
            return self._grouped(self._reduced(weights, columns, np.maximum), columns)
        low, high, share = self._ends(weights, columns)
        return Bounded(
            (low.total + high.total) / 2,
            max(low.deviation, high.deviation),
            max(low.largest, high.largest),
            low.gaussian,
            slack=abs(high.total - low.total) / 2,
            share=share,
        )

    def _combined(self, weights: Values, columns: Columns) -> Estimate:
        """From levels and groups of one column: levels(w - a h) + groups(a h), at the factor a with the least noise.

        h is the mean weight of each group, less a constant, so that it does not touch the number of rows: then the two
        parts have independent noise, and their sum is unbiased for every a.
        """
        alone = self.fine.estimate(weights, columns)
        if len(columns) > 1 or not self.coarse.covers(columns) or not self._gaussian:
            return alone
        groups = self.merging.groups[columns[0]]
        means = np.bincount(groups, weights=weights) / np.bincount(groups)
        means = means - means.mean()
        mean, rest = (self.fine.estimate(part, columns) for part in (means[groups], weights - means[groups]))
        other = self.coarse.estimate(means, columns)
        shared = (alone.deviation**2 + mean.deviation**2 - rest.deviation**2) / 2
        noise = mean.deviation**2 + other.deviation**2
        factor = shared / noise if noise else 0.0
        deviation = math.sqrt(max(0.0, alone.deviation**2 - factor * shared))
        return Estimate(alone.total + factor * (other.total - mean.total), deviation, deviation, True)

    @property
    def _gaussian(self) -> bool:
        return self.fine.gaussian and self.coarse.gaussian

    def _ends(self, weights: Values, columns: Columns) -> tuple[Estimate, Estimate, float]:
        """Estimates of a total below and of one above, and their share of the doubt.

        Of the rows of a group that fit the rest of a condition, at most those are counted whose level fits, and at
        least those that remain if all rows of other levels are among them. Where that is narrower than all or none of
        the group, the measured levels replace or correct its cells. Noisy numbers decide where that is, so all ends
        that they could have chosen share the doubt.
        """
        low, high = (self._reduced(weights, columns, ufunc) for ufunc in (np.minimum, np.maximum))
        ends = self._grouped(low, columns), self._grouped(high, columns)
        cut = [name for name in columns if name in self.merging.changed and self._cuts(weights, columns, name)]
        if len(cut) != 1 or len(columns) < 2 or not self._gaussian or not self.fine.covers(cut):
            return *ends, 1.0
        (name,), axis, groups = cut, columns.index(cut[0]), self.merging.groups[cut[0]]
        seen = np.moveaxis(self._reduced(weights, columns, np.maximum, but=name), axis, 0).reshape(len(groups), -1)
        low, high = (np.moveaxis(part, axis, 0) for part in (low, high))
        shape, low, high = high.shape, low.reshape(len(low), -1).copy(), high.reshape(len(high), -1).copy()
        fits, misses = seen.max(axis=1), (high[groups] - seen).max(axis=1)
        below, above = np.zeros(len(groups)), np.zeros(len(groups))
        tried, lifted, lowered = np.flatnonzero((low != high).any(axis=1))[:CUTS], 0, 0
        for group in tried:
            here = groups == group
            all_of, none = (self._cells(part, group, shape, axis, columns) for part in (high, low))
            inside, outside = (self.fine.estimate(part * here, (name,)) for part in (fits, misses))
            if all_of - outside.total > none + WORTH * outside.deviation:
                low[group], below, lifted = high[group], below + misses * here, lifted + 1
            if inside.total < all_of - WORTH * inside.deviation:
                high[group], above, lowered = 0.0, above + fits * here, lowered + 1
        tables = (np.moveaxis(part.reshape(shape), 0, axis) for part in (low, high))
        first, second = (
            self._grouped(table, columns, {name: part}) for table, part in zip(tables, (-below, above), strict=True)
        )
        return first, second, min(_share(len(tried), chosen) for chosen in (lifted, lowered))

    def _grouped(self, weights: Values, columns: Columns, levels: Mapping[str, Values] | None = None) -> Estimate:
        """The estimate of weights of groups, plus weights of the levels of single columns.

        What a single column says is added up from its levels where its groups were not measured by themselves: its mean
        weights, less a constant, so that they do not touch the number of rows. The noise of levels is independent of
        that of groups, but for the number of rows, whose noise they share at most.
        """
        lacking, parts = self.coarse.lacks(columns), dict(levels or {})
        for (name,) in lacking:
            axis, groups = columns.index(name), self.merging.groups[name]
            means = weights.mean(axis=tuple(i for i in range(weights.ndim) if i != axis))
            means -= means[groups].mean()
            weights = weights - means.reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
            parts[name] = parts.get(name, 0.0) + means[groups]
        found = [self.coarse.estimate(weights, columns, but=lacking)]
        found += [self.fine.estimate(part, (name,)) for name, part in parts.items()]
        total, of_levels = (part.estimate(np.ones(()), ()).deviation for part in (self.coarse, self.fine))
        shared = [abs(float(weights.mean())) * total, *(abs(float(part.mean())) * of_levels for part in parts.values())]
        variance = sum(each.deviation**2 for each in found) + sum(shared) ** 2 - sum(each**2 for each in shared)
        return Estimate(
            sum(each.total for each in found),
            math.sqrt(variance),
            max(each.largest for each in found),
            all(each.gaussian for each in found),
        )

    def _cells(self, flat: Values, group: int, shape: tuple[int, ...], axis: int, columns: Columns) -> float:
        """The estimated total of one group's cells."""
        only = np.zeros_like(flat)
        only[group] = flat[group]
        return self._grouped(np.moveaxis(only.reshape(shape), 0, axis), columns).total

    def _cuts(self, weights: Values, columns: Columns, name: str) -> bool:
        """Whether the weights distinguish levels of one group of a column."""
        axis, (order, starts) = columns.index(name), self._runs[name]
        runs = np.take(weights, order, axis=axis)
        least, most = (ufunc.reduceat(runs, starts, axis=axis) for ufunc in (np.minimum, np.maximum))
        return bool((least != most).any())

    def facts(self) -> dict[str, Any]:
        """The merged columns, and what was measured of levels and of groups."""
        parts = {"fine": saving.described(self.fine), "coarse": saving.described(self.coarse)}
        return {"merging": list(self.merging.changed), **parts}

    def arrays(self) -> Arrays:
        """The groups, and the numbers of both."""
        fine, coarse = (saving.prefixed(name, part.arrays()) for name, part in self._parts)
        return {**self.merging.arrays(), **fine, **coarse}

    @property
    def _parts(self) -> tuple[tuple[str, Residuals], ...]:
        return ("fine", self.fine), ("coarse", self.coarse)

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The evidence that `facts` and `arrays` describe."""
        merging = Merging.restore(schema, facts["merging"], arrays)
        fine = Residuals.restore(schema, facts["fine"], saving.inside("fine", arrays))
        return cls(merging, fine, Residuals.restore(merging.merged, facts["coarse"], saving.inside("coarse", arrays)))

    def _reduced(self, weights: Values, columns: Columns, ufunc: np.ufunc, but: str | None = None) -> Values:
        """The least or the largest weight in each cell of groups; one column may keep its levels."""
        for axis, name in enumerate(columns):
            if name in self.merging.changed and name != but:
                order, starts = self._runs[name]
                weights = ufunc.reduceat(np.take(weights, order, axis=axis), starts, axis=axis)
        return weights

    @cached_property
    def _runs(self) -> dict[str, tuple[Groups, Groups]]:
        """The levels of each merged column, group after group, and where each group begins."""
        runs: dict[str, tuple[Groups, Groups]] = {}
        for name in self.merging.changed:
            groups = self.merging.groups[name]
            order = np.argsort(groups, kind="stable")
            runs[name] = order, np.unique(groups[order], return_index=True)[1]
        return runs


def _share(groups: int, narrowed: int) -> float:
    """Of the doubt, the share of one choice of groups: each number of narrowed ones has the same, and each such set."""
    return (1.0 - PLAIN) / groups / math.comb(groups, narrowed) if narrowed else PLAIN
