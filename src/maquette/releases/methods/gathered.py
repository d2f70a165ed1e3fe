"""Gathered: what a release has measured, and the models that explain it; all of it is public.

The levels of rare values are merged before tables are measured, so there are two kinds of evidence: `fine`, of the
columns with all their levels, and `coarse`, of tables of groups. Two models can be fitted to both: a junction tree of
the tables that it can hold, and a mixture of products of all tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates import (
    Columns,
    Counted,
    Evidence,
    KnownColumn,
    MergedEvidence,
    MergedModel,
    Merging,
    Residuals,
    components,
    estimates,
    smoothed,
    spread,
)
from maquette.hypothesis import GraphicalModel, JunctionTree, Mixture
from maquette.schema import Ordered, Schema

EXACT = 1e-12  # variance of a public number of rows
PATIENCE = 60  # tables that do not fit in the junction tree, after which no other is tried

Values = NDArray[np.float64]
Told = Callable[[int, float], None]


@dataclass
class Gathered:
    """Noisy columns and tables, as they are measured one after the other."""

    schema: Schema
    names: list[str]
    levels: dict[str, tuple[Values, float]] = field(default_factory=dict)  # counts and the variance of a level

    def __post_init__(self) -> None:
        self.fine = Residuals(self.schema)
        self.merge({})

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self.fine.rows

    @property
    def tables(self) -> list[Columns]:
        """The measured tables of two and more columns."""
        return [columns for columns, _, _ in self.coarse.stored() if len(columns) > 1]

    @property
    def evidence(self) -> Evidence:
        """Everything that was measured."""
        coarse = self._with_columns()
        return MergedEvidence(self.merging, self.fine, coarse) if self.merging.changed else coarse

    def merge(self, groups: Mapping[str, NDArray[np.int64]]) -> None:
        """Measure tables of these groups of levels from now on."""
        self.merging = Merging(self.schema, groups)
        self.coarse = Residuals(self.merging.merged)

    def learn(self, name: str, measurement: Measurement) -> None:
        """Add a measured column, or the number of rows if it has no name."""
        self.fine.add(measurement)
        if not name:
            return
        variance = spread(measurement) ** 2
        if name in self.levels:
            counts, before = self.levels[name]
            joint = 1.0 / (1.0 / variance + 1.0 / before)
            self.levels[name] = (joint * (counts / before + measurement.values / variance), joint)
        else:
            self.levels[name] = (measurement.values, variance)

    def take(self, columns: Columns, measurement: Measurement) -> None:
        """Add the measured residual of a table of groups."""
        self.merging.take(measurement, columns, self.coarse)

    def probabilities(self, name: str) -> Values:
        """Those of the levels of a column; the total is that of all columns together."""
        counts, variance = self._settled(name)
        return smoothed(counts, math.sqrt(variance), ordered=isinstance(self.schema[name], Ordered))

    def grouped(self, name: str) -> Values:
        """The probabilities of the groups of a column."""
        return np.bincount(self.merging.groups[name], weights=self.probabilities(name)).astype(np.float64)

    def _settled(self, name: str) -> tuple[Values, float]:
        counts, variance = self.levels[name]
        return counts + (self.rows - counts.sum()) / len(counts), variance

    def _counted(self, name: str, counts: Values, variance: float) -> tuple[Values, Values]:
        """The counts of groups, and their variances: the noise of a group is that of all its levels."""
        groups = self.merging.groups[name]
        values = np.bincount(groups, weights=counts).astype(np.float64)
        return values, np.bincount(groups).astype(np.float64) * variance

    def _with_columns(self) -> Residuals:
        """The coarse evidence with the number of rows and the columns that keep all their levels."""
        made = Residuals(self.merging.merged)
        made.gaussian, made.separate = self.coarse.gaussian and self.fine.gaussian, self.coarse.separate
        for columns, values, variances in self.coarse:
            made.combine(columns, values, variances)
        changed = set(self.merging.changed)
        for columns, values, variances in self.fine:
            if columns and columns[0] not in changed:
                made.combine(columns, values, variances)
        total = self.fine.estimate(np.ones(()), ())
        made.combine((), np.array(total.total), np.array(max(total.deviation**2, EXACT)))
        return made

    def within(self) -> dict[str, Values]:
        """The share of every level in its group."""
        shares: dict[str, Values] = {}
        for name in self.merging.changed:
            groups = self.merging.groups[name]
            mass = (self.probabilities(name) if name in self.levels else np.ones(len(groups))) + 1e-12
            shares[name] = mass / np.bincount(groups, weights=mass)[groups]
        return shares


def tree_of(
    gathered: Gathered, gains: Mapping[Columns, float], max_cells: int, told: Told
) -> tuple[GraphicalModel | MergedModel, str]:
    """The junction tree of the measured tables that gain most, as many as it can hold; and a word on its fit."""
    merged = gathered.merging.merged
    tree, kept = _held(merged, gains, max_cells)
    inside = Residuals(merged)
    evidence = gathered._with_columns()
    inside.gaussian, inside.separate = evidence.gaussian, evidence.separate
    for columns, values, variances in evidence:
        if len(columns) < 2 or any(set(columns) <= set(node) for node in tree.nodes):
            inside.combine(columns, values, variances)
    model = GraphicalModel(merged, [(name,) for name in gathered.names], zeros=merged.zeros)
    for columns in kept:  # one at a time: the tree is then the one whose cells were counted
        model = model.grown([columns])
    # All measured sets become cliques, so that each keeps parameters of its own.
    model = model.grown([columns for columns, _, _ in inside.stored() if columns])
    counted = [
        Counted(name, *gathered._counted(name, *gathered.levels[name]))
        for name in gathered.names
        if name in gathered.merging.changed
    ]
    *_, fitted = estimates(model, inside, counted=counted, progress=told)
    said = f"junction tree: {len(kept)} of {len(gains)} tables, {tree.cells:,} cells, residuals {fitted.residual:.2f}"
    whole = fitted.model.grown(fitted.model.tree.nodes)  # as in a saved file, so that loading computes the same
    return (MergedModel(gathered.merging, whole, gathered.within()) if gathered.merging.changed else whole), said


def _held(merged: Schema, gains: Mapping[Columns, float], max_cells: int) -> tuple[JunctionTree, list[Columns]]:
    """The tables that fit in a tree of `max_cells`, the most useful first."""
    sizes = dict(zip(merged.names, merged.shape(merged.names), strict=True))
    tree, refused = JunctionTree(sizes, [columns for columns, _ in merged.zeros]), 0
    kept: list[Columns] = []
    for columns in sorted(gains, key=lambda each: (-gains[each], each)):
        if tree.cells_with(columns) <= max_cells:
            tree = tree.with_cliques([columns])
            kept.append(columns)
        else:
            refused += 1
        if refused >= PATIENCE:
            break
    return tree, kept


def mixture_of(gathered: Gathered, *, count: int | None = None) -> tuple[Mixture, str]:
    """The mixture of products of everything measured, over all levels; and a word on its fit."""
    known = {
        name: KnownColumn(*gathered._counted(name, *gathered._settled(name)), gathered.grouped(name))
        for name in gathered.names
    }
    fitted = components(gathered._with_columns(), known, count=count)
    shares, groups = gathered.within(), gathered.merging.groups
    blocks = []
    for columns, table in fitted.tables:
        (name, *_) = columns  # columns of impossible combinations keep their levels, so a merged one is alone
        wide = table[:, groups[name]] * shares[name] if name in shares else table
        blocks.append((columns, wide.astype(np.float32)))
    said = f"mixture: {len(fitted.weights)} components, residuals {fitted.residual:.2f}"
    return Mixture(gathered.schema, fitted.weights, blocks), said
