"""Gathered: what a release has measured, and the models that explain it; all of it is public.

The levels of rare values are merged before tables are measured, so there are two kinds of evidence: `fine`, of the
columns with all their levels, and `coarse`, of tables of groups. Two models can be fitted to both: a junction tree of
the tables that it can hold, and a mixture of products of all tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates import (
    STAGES,
    Columns,
    Counted,
    Estimated,
    Evidence,
    KnownColumn,
    MergedEvidence,
    MergedModel,
    Merging,
    Planned,
    Residuals,
    components,
    estimates,
    forward,
    projected,
    smoothed,
    spread,
    towards,
    width_of,
)
from maquette.hypothesis import GraphicalModel, JunctionTree, Mixture
from maquette.releases.methods.phases import growing, laying_out, mixing
from maquette.schema import Ordered, Schema

MEAN = 0.4  # half the mean of |noise|, in standard deviations
LEAST = 0.05  # least part of a column's variance that a start leaves
EXACT = 1e-12  # variance of a public number of rows
POWER = 0.35  # of a table's cells, by which its gain is divided in the second order of adding tables to a tree
PATIENCE = 60  # tables that do not fit in the junction tree, after which no other is tried
WIDE = 64  # columns from which a tree begins with the spanning forest of the best pairs
ADDED = 150  # maximum tables that are added to that forest
PLACED = 15_000  # the same, times the number of columns: a larger tree takes longer to add to
STEPPED = 300_000  # maximum number of gradients of a wide tree's fit, times its columns and tables
USUALLY = 400  # gradients that the fit of a tree usually takes

Values = NDArray[np.float64]
Told = Callable[[float, float], None]


@dataclass
class Gathered:
    """Noisy columns and tables, as they are measured one after the other."""

    schema: Schema
    names: list[str]
    levels: dict[str, tuple[Values, float]] = field(default_factory=dict)  # counts and the variance of a level
    expected: dict[str, Values] = field(default_factory=dict)  # probabilities of columns, of a public start
    hints: dict[Columns, tuple[Values, float]] = field(default_factory=dict)  # pairs of a start, and their errors

    apart: dict[Columns, float] = field(default_factory=dict)  # how far pairs are expected to be from independence

    def __post_init__(self) -> None:
        self.fine = Residuals(self.schema)
        self.interrupted = False  # whether a fit was
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
        best, kept = self._towards_start(name)
        if kept < 1.0:
            return projected(best, self.rows)
        return smoothed(counts, math.sqrt(variance), ordered=isinstance(self.schema[name], Ordered))

    def distance(self, name: str, probabilities: Values) -> float:
        """The squared distance of a column from these probabilities, in units of its noise, beyond what noise adds."""
        counts, variance = self._settled(name)
        return float(((counts - probabilities * self.rows) ** 2).sum() / variance) - (len(counts) - 1)

    def error(self, name: str) -> float | None:
        """The error of a column that is expected without measuring it again, in rows; None if no start says it."""
        best, kept = self._towards_start(name)
        if kept >= 1.0:
            return None
        apart = np.abs(best - self.expected[name] * self.rows)
        return 0.5 * float(apart.sum()) + MEAN * len(best) * math.sqrt(self.levels[name][1] * kept)

    def _towards_start(self, name: str) -> tuple[Values, float]:
        """The counts of a column, shrunk towards a start as far as noise explains the difference; the part kept."""
        counts, variance = self._settled(name)
        if name not in self.expected:
            return counts, 1.0
        ordered = isinstance(self.schema[name], Ordered)
        return towards(counts, math.sqrt(variance), self.expected[name] * self.rows, ordered=ordered)

    def best(self, name: str) -> tuple[Values, float]:
        """The counts of a column for a fit, and the variance of each: shrunk towards a start where that is right."""
        best, kept = self._towards_start(name)
        return best, self.levels[name][1] * max(kept, LEAST)

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

    def explained(self) -> Residuals:
        """What models are fitted to: the evidence, and what a start expects where it was found to be right."""
        evidence = self._with_columns()
        if not self.expected:
            return evidence
        made = Residuals(self.merging.merged)
        made.gaussian, made.separate = evidence.gaussian, evidence.separate
        for columns, values, variances in evidence:
            if len(columns) != 1:
                made.combine(columns, values, variances)
            else:
                counts, variance = self.best(columns[0])
                made.combine(columns, forward(counts)[1:], np.full(len(counts) - 1, variance))
        for columns, (table, error) in self.hints.items():
            values = forward(table * self.rows)[1:, 1:]
            variance = (error / (MEAN * table.size)) ** 2  # of a cell whose table is off by this error
            made.combine(columns, values, np.full(values.shape, max(variance, EXACT)))
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
    evidence = gathered.explained()
    inside.gaussian, inside.separate = evidence.gaussian, evidence.separate
    for columns, values, variances in evidence:
        if len(columns) < 2 or tree.holds(columns):
            inside.combine(columns, values, variances)
    model = GraphicalModel(merged, [(name,) for name in gathered.names], zeros=merged.zeros)
    # On the tree whose cells were counted; all measured sets become cliques, each with parameters of its own.
    model = model.grown([*kept, *(columns for columns, _, _ in inside.stored() if columns)], tree=tree)
    counted = [
        Counted(name, *gathered._counted(name, *(gathered.best(name) if gathered.expected else gathered.levels[name])))
        for name in gathered.names
        if name in gathered.merging.changed
    ]

    def shown(stage: int, residual: float) -> None:
        told(stage / STAGES, residual)

    wide = len(gathered.names) >= WIDE
    steps = _gradients(gathered, len(kept)) if wide else None
    fits = estimates(model, inside, counted=counted, gradients=steps, lengthen=not wide, progress=shown)
    fitted = _finest(gathered, fits)
    said = f"junction tree: {len(kept)} of {len(gains)} tables, {tree.cells:,} cells, residuals {fitted.residual:.2f}"
    said += ", fit interrupted" if gathered.interrupted else ""
    whole = fitted.model.grown(fitted.model.tree.nodes)  # as in a saved file, so that loading computes the same
    return (MergedModel(gathered.merging, whole, gathered.within()) if gathered.merging.changed else whole), said


def sharp_of(gathered: Gathered, tree: GraphicalModel | MergedModel) -> dict[Columns, Values]:
    """The tree's tables of the measured pairs that it holds."""
    held = (tree.model if isinstance(tree, MergedModel) else tree).tree
    return {pair: tree.marginal(pair) for pair in gathered.tables if len(pair) == 2 and held.holds(pair)}


def _gradients(gathered: Gathered, tables: int) -> int:
    """The gradients that a wide tree may take."""
    return STEPPED // (len(gathered.names) + tables)


def fits_of(gathered: Gathered, max_cells: int, expected: Sequence[Columns] = ()) -> list[float]:
    """The work that is predicted for the tree and for the mixture of what was measured, or is expected to be."""
    merged, tables = gathered.merging.merged, gathered.tables or expected
    sizes = [merged[name].size for name in gathered.names]
    most = len(tables) if len(sizes) < WIDE else len(sizes) + PLACED // len(sizes)
    linked = len(sizes) + min(len(tables), most)
    cells = min(max_cells, sum(sizes) + sum(sorted(map(merged.cells, tables))[:most]))
    width = sum(map(width_of, sizes))
    planned = Planned.of(width, len(sizes))
    tree = growing(cells, linked, min(USUALLY, STEPPED // max(1, linked)))
    laid = laying_out(len(tables))
    return [tree + laid, planned.fits * mixing(width, planned.components, planned.steps) + laid]


def _finest(gathered: Gathered, fits: Iterable[Estimated]) -> Estimated:
    """The last of ever finer fits; after an interrupt, the last that is there."""
    kept: list[Estimated] = []
    try:
        for each in fits:
            kept[:] = [each]
    except KeyboardInterrupt:
        if not kept:
            raise
        gathered.interrupted = True
    return kept[0]


def _held(merged: Schema, gains: Mapping[Columns, float], max_cells: int) -> tuple[JunctionTree, list[Columns]]:
    """The tables that fit in a tree of `max_cells`: of two orders to add them in, that which holds more gain.

    The most useful table first is not always best: a large one may leave no room for several others. So tables are also
    tried by gain over a power of their cells. Only pairs are: what a table of three columns adds to its pairs is seldom
    implied by others, and small tables before it leave it out. Where there are many columns one order has to do: each
    takes long.
    """
    plain = sorted(gains, key=lambda each: (-gains[each], each))
    if any(len(columns) > 2 for columns in gains):
        return _filled(merged, plain, max_cells)
    dense = sorted(gains, key=lambda each: (-gains[each] / merged.cells(each) ** POWER, each))
    found = _filled(merged, plain, max_cells)
    if len(merged.names) >= WIDE or dense == plain or len(found[1]) == len(gains):
        return found

    def held(tree: JunctionTree) -> float:
        return math.fsum(gain for columns, gain in gains.items() if tree.holds(columns))

    other = _filled(merged, dense, max_cells)
    return other if held(other[0]) > held(found[0]) else found


def _filled(merged: Schema, ranked: Sequence[Columns], max_cells: int) -> tuple[JunctionTree, list[Columns]]:
    """The tables that fit in a tree of `max_cells`, added one by one in this order.

    Where there are many columns, the spanning forest of the best pairs is taken at once and few tables are added to it:
    every table tried there takes longer, and most do not fit.
    """
    sizes = dict(zip(merged.names, merged.shape(merged.names), strict=True))
    zeros = [columns for columns, _ in merged.zeros]
    kept = _forest(ranked) if len(sizes) >= WIDE else []
    tree, refused = JunctionTree(sizes, [*zeros, *kept]), 0
    most = len(kept) + min(ADDED, PLACED // len(sizes)) if kept else len(ranked)
    if tree.cells > max_cells and kept:
        tree, kept = JunctionTree(sizes, zeros), []
    taken = set(kept)
    for columns in (each for each in ranked if each not in taken):
        if tree.cells_with(columns) <= max_cells:
            tree = tree.with_cliques([columns])
            kept.append(columns)
        else:
            refused += 1
        if refused >= PATIENCE or len(kept) >= most:
            break
    return tree, kept


def _forest(ranked: Iterable[Columns]) -> list[Columns]:
    """The pairs that link columns which no better pairs link."""
    root: dict[str, str] = {}

    def top(name: str) -> str:
        while root.get(name, name) != name:
            name = root[name]
        return name

    kept: list[Columns] = []
    for pair in ranked:
        ends = {top(name) for name in pair}
        if len(pair) == len(ends) == 2:
            one, other = sorted(ends)
            root[one] = other
            kept.append(pair)
    return kept


def product_of(gathered: Gathered) -> tuple[Mixture, str]:
    """Independent columns, smoothed: what is left to publish where nothing else was worth its noise."""
    schema = gathered.schema
    known = set(gathered.levels)
    tables = [
        gathered.probabilities(name) if name in known else np.full(schema[name].size, 1 / schema[name].size)
        for name in schema.names
    ]
    blocks = [((name,), table[None, :]) for name, table in zip(schema.names, tables, strict=True)]
    return Mixture(schema, np.ones(1), blocks), f"independent columns: {len(gathered.names)}, smoothed"


def mixture_of(gathered: Gathered, *, count: int | None = None, told: Told | None = None) -> tuple[Mixture, str]:
    """The mixture of products of everything measured, over all levels; and a word on its fit."""
    known = {
        name: KnownColumn(*gathered._counted(name, *gathered.best(name)), gathered.grouped(name))
        for name in gathered.names
    }
    measured = set(gathered.tables) | set(gathered.hints)
    apart = {pair: error for pair, error in gathered.apart.items() if pair not in measured}
    fitted = components(gathered.explained(), known, count=count, apart=apart, progress=told)
    shares, groups = gathered.within(), gathered.merging.groups
    blocks = []
    for columns, table in fitted.tables:
        (name, *_) = columns  # columns of impossible combinations keep their levels, so a merged one is alone
        wide = table[:, groups[name]] * shares[name] if name in shares else table
        blocks.append((columns, wide.astype(np.float32)))
    said = f"mixture: {len(fitted.weights):,} components, residuals {fitted.residual:.2f}"
    return Mixture(gathered.schema, fitted.weights, blocks), said
