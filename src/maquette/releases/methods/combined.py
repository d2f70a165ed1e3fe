"""Combined release: what is worth its noise is measured, several models explain it, and the check keeps the best.

Columns come first. The number of rows and the noise then say how the rest is split between columns, pairs and triples;
where tables could not pay, columns get everything. One look at the errors of all pairs says which are worth measuring,
and how precisely: no model decides. With little noise, a second look compares triples with a first model. Two models
are fitted to what was measured: a junction tree, of the tables that it can hold, and a mixture of products, of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.errors import QueryError
from maquette.estimates import (
    MEAN,
    STAGES,
    Columns,
    Counted,
    Estimated,
    Evidence,
    KnownColumn,
    MergedEvidence,
    MergedModel,
    Merging,
    Residuals,
    Step,
    believed,
    components,
    estimates,
    mixture_holds,
    noise_of,
    smoothed,
    split,
    spread,
    tables_of,
    unexplained,
    units_for,
    wanted,
    weights_of,
)
from maquette.hypothesis import GraphicalModel, JunctionTree, Mixture
from maquette.query import Contrasts, Marginal, Workload
from maquette.releases.artifact import Model
from maquette.releases.methods.draft import Draft
from maquette.releases.methods.selection import groups
from maquette.releases.progress import Progress
from maquette.schema import Ordered

FIRST = 0.1  # share of the budget for a first measurement of the columns
PAYS = 0.02  # share of pairs in the split below which tables are not worth choosing
LOOK = 0.03  # maximum share of the budget for a look at errors
SHARP = 0.015  # standard deviation of an error, as a fraction of rows, that is enough
BLURRED = 0.1  # standard deviation above which a look says nothing
CHOICE = 0.01  # share of the budget that compares the models, at the end
DIFFERENCE = 0.03  # standard deviation of a comparison, as a fraction of rows, above which it is not bought
COMPARED = 100  # tables on which models are compared
DEEPER = 0.05  # share of triples in the split above which they are looked at
MAX_CELLS = 200_000  # of the junction tree
TRIPLES, TRIPLE_CELLS = 300, 60_000  # most triples that are looked at, and most cells of them together
PATIENCE = 60  # tables that do not fit in the junction tree, after which no other is tried
FEWEST = 8  # levels that every column keeps
ORDERED = (6.0, 128)  # how levels of ordered columns are merged: the rise and the most groups of `selection.groups`
NAMED = (1.0, 128)  # of others: two names may mean opposite things, so only the rarest are merged
EXACT = 1e-12  # variance of a public number of rows
MANY = 20_000  # maximum number of candidates of a look
LARGEST = 2**22  # maximum cells of a candidate, before merging: the curator counts those at once
SLIGHT = 1e-6  # share below which a table is left out

Values = NDArray[np.float64]


def combined(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    max_cells: int = MAX_CELLS,
    target: str | None = None,
    progress: bool | None = None,
) -> Draft:
    """Release the better of a junction tree and a mixture of products, fitted to the same measurements.

    `max_cells` bounds the cells of the junction tree. `target` names a column whose tables count more: rows that train
    a model of that column need them. Interrupting the fits releases what has been fitted.

    Privacy: one `measure_many` of the columns; one `measure_error` of pairs against independent columns and one
    `measure_many` of columns and residuals of pairs; with little noise the same again for triples, against the first
    mixture. Each is charged before it is answered, so the whole is an adaptive composition of Gaussian mechanisms.
    Groups of levels, candidates, shares and fits are computed from released numbers and public ones alone.

    Accuracy: no theorem; intervals come from what was measured and from the check of the finished model.
    """
    if isinstance(max_cells, bool) or not isinstance(max_cells, int) or max_cells < 1:
        raise QueryError(f"max_cells is {max_cells!r}", expected="a whole number of at least 1")
    if curator.budget.accountant.currency == "pure":
        raise QueryError(
            "method 'combined' needs a budget with delta above 0",
            advice='take method="graphical" or "everything", or give the budget a delta',
        )
    if target is not None:
        curator.schema.position(target)
    run = _Run(curator, workload, units_for(curator, epsilon, rho, units), max_cells, target)
    with Progress("fitting", STAGES, progress) as shown:
        run.columns()
        try:
            if run.has_tables and run.look():
                run.deeper()
            run.fit(shown)
        except KeyboardInterrupt as interrupt:
            if not run.models:
                interrupt.add_note("what was measured is charged; there is no model yet to release")
                raise
    return Draft(
        model=run.best(),
        evidence=run.evidence,
        trace=run.trace,
        explanation=tuple(run.said),
    )


@dataclass
class _Run:
    """The state of one release; everything in it is public."""

    curator: Curator
    workload: Workload
    units: int
    max_cells: int
    target: str | None

    def __post_init__(self) -> None:
        self.schema = self.curator.schema
        self.tables = tables_of(self.schema, list(self.workload.marginals))
        used = {name for table in self.tables for name in table if self.schema[name].size > 1}
        self.names = [name for name in self.schema.names if name in used]
        self.weights = {size: self._weights(size) for size in (1, 2, 3)}
        self.has_tables = bool(self.weights[2])
        self.fine = Residuals(self.schema)
        self.levels: dict[str, tuple[Values, float]] = {}  # counts of each column and the variance of a level
        self.models: list[Model] = []
        self.trace: list[Step] = []
        self.said: list[str] = []
        self.spent = self.reserve = 0
        self.interrupted = False
        self._check_room()

    def _weights(self, size: int) -> dict[Columns, float]:
        """The sets of columns of the workload of this size; those with the target column count more."""
        known = set(self.names)
        found = {c: w for c, w in weights_of(self.tables, size).items() if set(c) <= known}
        if len(found) > MANY:
            found = dict(list(found.items())[:MANY])
        if self.target is None or size == 1:
            return found
        return {c: w * len(self.names) if self.target in c else w for c, w in found.items()}

    def _check_room(self) -> None:
        """Refuse impossible combinations that no model of the allowed size can hold, before anything is charged."""
        sets = [columns for columns, _ in self.schema.zeros]
        sizes = {name: self.schema[name].size for columns in sets for name in columns}
        needed = JunctionTree(sizes, sets).cells if sets else 0
        if needed > self.max_cells:
            raise QueryError(
                f"the impossible combinations of the schema need a model of {needed:,} cells, more than the "
                f"{self.max_cells:,} allowed",
                advice="give max_cells, or declare them over fewer columns or fewer levels",
            )

    @property
    def left(self) -> int:
        """The units that remain for measurements."""
        return self.units - self.spent - self.reserve

    @property
    def evidence(self) -> Evidence:
        """Everything that was measured."""
        return MergedEvidence(self.merging, self.fine, self.coarse) if self.merging.changed else self.coarse

    def columns(self) -> None:
        """Measure each column; then the number of rows is known, and what is worth buying next."""
        if not self.has_tables:
            self._measure_columns(dict.fromkeys(self.names or [""], 1.0), self.units)
            self._merge({})
            return
        power = {name: self.schema[name].size ** (2 / 3) for name in self.names}
        total = sum(power.values())
        self._measure_columns({name: each / total for name, each in power.items()}, int(FIRST * self.units))
        rows = self.fine.rows
        share = int(CHOICE * self.units)
        self.reserve = share if self._deviation(share) < DIFFERENCE * rows else 0
        left = self.left
        self.split = split(self.schema, self.weights, rows, self._deviation(left), self.spent / left)
        pays = self.split[2] + self.split[3] >= PAYS
        self.said.append(
            f"about {rows:,.0f} rows; expected best split of the rest: "
            + ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, self.split.values(), strict=True))
        )
        if not pays:
            self.said.append("tables are not worth their noise: all of the rest measures the columns again")
            self.reserve = 0
            self._measure_columns(self._column_shares(), self.left)
            self._merge({})
            self.has_tables = False
            return
        deviation = self._deviation(left / (2 * len(self.names)))
        self._merge({name: self._groups(name, deviation) for name in self.names})

    def _groups(self, name: str, deviation: float) -> NDArray[np.int64]:
        rise, most = ORDERED if isinstance(self.schema[name], Ordered) else NAMED
        counts = self._smooth(name) * self.fine.rows
        return groups(self.schema, name, counts, deviation, rise=rise, fewest=FEWEST, most=most)

    def _column_shares(self) -> dict[str, float]:
        power = {name: self.schema[name].size ** (2 / 3) for name in self.names}
        return {name: each / sum(power.values()) for name, each in power.items()}

    def _measure_columns(self, shares: dict[str, float], units: int) -> None:
        questions = [Marginal(self.schema, [name] if name else []) for name in shares]
        measured = self.curator.measure_many(questions, units=units, shares=list(shares.values()))
        self._pay(measured)
        if self.curator.relation.rows_are_public and () not in self.fine:
            self.fine.combine((), np.array(self.curator.count_rows()), np.array(EXACT))
        for name, measurement in zip(shares, measured, strict=True):
            self._learn(name, measurement)

    def _learn(self, name: str, measurement: Measurement) -> None:
        """Add a measured column to what is known of its levels."""
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

    def _smooth(self, name: str) -> Values:
        """The probabilities of the levels of a column; the total is that of all columns together."""
        counts, variance = self.levels[name]
        moved = counts + (self.fine.rows - counts.sum()) / len(counts)
        return smoothed(moved, math.sqrt(variance), ordered=isinstance(self.schema[name], Ordered))

    def _merge(self, groups: dict[str, NDArray[np.int64]]) -> None:
        self.merging = Merging(self.schema, groups)
        self.coarse = Residuals(self.merging.merged)

    def look(self) -> bool:
        """Look at the errors of all pairs, then measure columns and pairs; whether any pair was measured."""
        sets = [s for s in self.weights[2] if self.schema.cells(s) <= LARGEST]
        self._settle()
        errors = self._errors(sets, [np.multiply.outer(self.known[a], self.known[b]) for a, b in sets])
        part = self.split[1] + self.split[2]
        amount = int(self.left * part / (part + self.split[3])) if self._goes_deeper else self.left
        shares, sets = self._shares(sets, unexplained(errors), amount)
        self._measure(sets, shares, amount)
        self._note(sets, errors)
        self._settle()
        return bool(sets)

    def deeper(self) -> None:
        """With little noise, look at triples against a first mixture, and measure those worth their noise."""
        if not self._goes_deeper:
            return
        first = self._mixture(quick=True)
        listed = [s for s in self.weights[3] if self.merging.merged.cells(s) <= LARGEST]
        sets = self._affordable(listed)
        errors = self._errors(sets, [self._merged_cells(first, s) for s in sets])
        shares, chosen = self._shares(sets, errors, self.left, columns=False)
        if chosen:
            self._measure(chosen, shares, self.left)
            self._note(chosen, errors)

    @property
    def _goes_deeper(self) -> bool:
        return bool(self.weights[3]) and self.split[3] >= DEEPER and mixture_holds(self.merging.merged)

    def _affordable(self, sets: Sequence[Columns]) -> list[Columns]:
        """The triples whose pairs err most, as many as the fit can take."""
        errors = {step.columns: step.distance for step in self.trace}
        found: list[Columns] = []
        cells = 0

        def promise(triple: Columns) -> float:
            return self.weights[3][triple] * sum(errors.get(pair, 0.0) for pair in itertools.combinations(triple, 2))

        for each in sorted(sets, key=lambda s: (-promise(s), s)):
            if cells + self.merging.merged.cells(each) <= TRIPLE_CELLS and len(found) < TRIPLES:
                cells += self.merging.merged.cells(each)
                found.append(each)
        return found

    def _settle(self) -> None:
        """Recompute the probabilities of the groups of every column from all that is known of its levels."""
        self.known = {name: np.bincount(self.merging.groups[name], weights=self._smooth(name)) for name in self.names}
        if () not in self.coarse or self.coarse.rows != self.fine.rows:
            self.coarse = self._with_rows(self.coarse)

    def _with_rows(self, residuals: Residuals) -> Residuals:
        """The same residuals, and the number of rows as the columns give it."""
        made = Residuals(residuals.schema)
        made.gaussian, made.separate = residuals.gaussian and self.fine.gaussian, residuals.separate
        for columns, values, variances in residuals:
            if columns:
                made.combine(columns, values, variances)
        total = self.fine.estimate(np.ones(()), ())
        made.combine((), np.array(total.total), np.array(max(total.deviation**2, EXACT)))
        return made

    def _errors(self, sets: Sequence[Columns], cells: Sequence[Values]) -> dict[Columns, float]:
        """Half the L1 errors of tables, in rows, less what noise explains; expected ones if a look says nothing."""
        rows, scale = self.fine.rows, math.sqrt(len(sets)) / 2
        needed = (scale * self._deviation(self.units) / (SHARP * rows)) ** 2
        share = min(LOOK, needed)
        if not sets or scale * self._deviation(self.units * share) > BLURRED * rows:
            self.said.append("a look at the errors of tables would say nothing and was not bought")
            self.doubt = math.inf
            size = len(sets[0]) if sets else 2
            return dict(zip(sets, map(float, believed(np.zeros(len(sets)), math.inf, rows, size)), strict=True))
        answers = [each * rows for each in cells]
        found = self.curator.measure_error(
            [self.merging.table(s) for s in sets], answers, units=int(self.units * share)
        )
        self.spent += found.cost.units
        self.doubt = found.deviation / 2
        errors = believed(np.asarray(found.values) / 2, self.doubt, rows, len(sets[0]))
        return dict(zip(sets, map(float, errors), strict=True))

    def _shares(
        self, sets: Sequence[Columns], errors: dict[Columns, float], units: int, *, columns: bool = True
    ) -> tuple[list[float], list[Columns]]:
        """The best split of `units` over columns and tables, and the tables that get some of it."""
        deviation, merged = self._deviation(units), self.merging.merged
        singles: list[Columns] = [(name,) for name in self.names] if columns else []
        noises = [noise_of(self.schema.cells(s), deviation, column=True) for s in singles]
        noises += [noise_of(merged.cells(s) * _kept(merged.shape(s)), deviation) for s in sets]
        before = [deviation**2 / self.levels[s[0]][1] for s in singles] + [0.0] * len(sets)
        expected = [_COLUMN * self.fine.rows] * len(singles) + [errors[s] for s in sets]
        weights = [self.weights[1][s] for s in singles] + [self.weights[len(s)][s] for s in sets]
        asked = wanted(expected, noises, weights, before)
        shares = asked.shares()
        kept = [(s, share) for s, share in zip([*singles, *sets], shares, strict=True) if share > SLIGHT]
        return [share for _, share in kept], [s for s, _ in kept]

    def _measure(self, sets: Sequence[Columns], shares: Sequence[float], units: int) -> None:
        """Measure columns and residuals of tables for one charge."""
        if not sets:
            return
        questions: list[Contrasts | Marginal] = [
            Marginal(self.schema, s) if len(s) == 1 else self.merging.residual(s) for s in sets
        ]
        measured = self.curator.measure_many(questions, units=units, shares=list(shares))
        self._pay(measured)
        for columns, measurement in zip(sets, measured, strict=True):
            if len(columns) == 1:
                self._learn(columns[0], measurement)
            else:
                self.merging.take(measurement, columns, self.coarse)

    def _note(self, sets: Sequence[Columns], errors: dict[Columns, float]) -> None:
        """Keep for the trace how wrong the model was on the tables chosen in this round."""
        number, rows = self.trace[-1].round + 1 if self.trace else 1, self.fine.rows
        doubt = 0.0 if math.isinf(self.doubt) else MEAN * self.doubt / rows
        tables = [s for s in sets if len(s) > 1]
        self.trace += [Step(number, s, errors[s] / rows, doubt) for s in tables]
        self.said.append(f"{len(tables)} of {len(errors)} tables were worth their noise in round {number}")

    def fit(self, shown: Progress) -> None:
        """Fit every model that can hold what was measured; the one that usually errs least comes first."""
        self._settle()
        self._count_columns()
        tree = self._tree(shown)
        self.models.append(tree)
        if self.interrupted:
            self.said.append("the fit was interrupted")
        elif mixture_holds(self.merging.merged) and any(len(c) > 1 for c, _, _ in self.coarse.stored()):
            self.models.append(self._mixture())

    def best(self) -> Model:
        """The model that is closest to the rows on some tables of the workload; the first if that cannot be bought.

        The tables are drawn from a fixed seed. One row moves the mean of their distances by at most one, so a small
        share tells models apart even where single distances are noise.
        """
        names = [type(getattr(model, "model", model)).__name__ for model in self.models]
        if len(self.models) == 1 or not self.reserve:
            self.said.append(f"kept the {names[0]}" + (": a comparison would say nothing" if self.models[1:] else ""))
            return self.models[0]
        tables = self._compared()
        rows, count = self.fine.rows, len(self.models)
        answers = [np.asarray(model.marginal(table)) * rows for model in self.models for table in tables]
        asked = [Marginal(self.schema, table) for table in tables] * count
        try:
            found = self.curator.measure_error(asked, answers, units=self.units - self.spent)
        except KeyboardInterrupt:
            self.said.append(f"kept the {names[0]}: the comparison was interrupted")
            return self.models[0]
        means = np.asarray(found.values).reshape(count, -1).mean(axis=1) / 2 / rows
        best = int(np.argmin(means))
        listed = ", ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))
        self.said.append(f"kept the {names[best]}: mean distance of {len(tables)} tables from the rows: {listed}")
        return self.models[best]

    def _compared(self) -> list[Columns]:
        tables = [table for table in self.tables if self.schema.cells(table) <= LARGEST]
        largest = max(map(len, tables), default=0)
        tables = [table for table in tables if len(table) == largest]
        if len(tables) > COMPARED:
            tables = [tables[i] for i in np.random.default_rng(0).choice(len(tables), COMPARED, replace=False)]
        return tables

    def _count_columns(self) -> None:
        """Columns for the fits: those with all their levels as residuals, merged ones as counts of groups."""
        self.counted: list[Counted] = []
        for name in self.names:
            counts, variance = self.levels[name]
            if name in self.merging.changed:
                groups = self.merging.groups[name]
                sizes = np.bincount(groups).astype(np.float64)
                values = np.bincount(groups, weights=counts).astype(np.float64)
                self.counted.append(Counted(name, values, sizes * variance))
            elif (name,) not in self.coarse:
                for columns, values, variances in self.fine:
                    if columns == (name,):
                        self.coarse.combine(columns, values, variances)

    def _tree(self, shown: Progress) -> Model:
        """The junction tree of the measured tables that gain most, as many as it can hold."""
        merged = self.merging.merged
        tree = JunctionTree(
            dict(zip(merged.names, merged.shape(merged.names), strict=True)), [c for c, _ in merged.zeros]
        )
        gain = {step.columns: step.distance * self.weights[len(step.columns)][step.columns] for step in self.trace}
        kept: set[Columns] = set()
        refused = 0
        for columns in sorted(gain, key=lambda each: (-gain[each], each)):
            if tree.cells_with(columns) <= self.max_cells:
                tree = tree.with_cliques([columns])
                kept.add(columns)
            else:
                refused += 1
            if refused >= PATIENCE:
                break
        inside = Residuals(merged)
        inside.gaussian, inside.separate = self.coarse.gaussian, self.coarse.separate
        for columns, values, variances in self.coarse:
            if len(columns) < 2 or any(set(columns) <= set(node) for node in tree.nodes):
                inside.combine(columns, values, variances)
        singles = [(name,) for name in self.names]
        model = GraphicalModel(merged, singles, zeros=merged.zeros)
        for columns in sorted(kept, key=lambda each: (-gain[each], each)):
            model = model.grown([columns])
        model = model.grown([columns for columns, _, _ in inside.stored() if columns])
        fitted = self._fitted(estimates(model, inside, counted=self.counted, progress=shown.update))
        self.said.append(
            f"junction tree: {len(kept)} of {len(gain)} tables, {tree.cells:,} cells, residuals {fitted.residual:.2f}"
        )
        whole = fitted.model.grown(fitted.model.tree.nodes)  # as in a saved file, so that loading computes the same
        return MergedModel(self.merging, whole, self._within()) if self.merging.changed else whole

    def _fitted(self, fits: Iterable[Estimated]) -> Estimated:
        """The last of ever finer fits; an interrupt keeps the last that is there."""
        kept: list[Estimated] = []
        try:
            for each in fits:
                kept[:] = [each]
        except KeyboardInterrupt:
            if not kept:
                raise
            self.interrupted = True
        return kept[0]

    def _within(self) -> dict[str, Values]:
        """The share of every level in its group."""
        shares: dict[str, Values] = {}
        for name in self.merging.changed:
            groups = self.merging.groups[name]
            mass = self._smooth(name) if name in self.levels else np.ones(len(groups))
            mass = mass + 1e-12
            shares[name] = mass / np.bincount(groups, weights=mass)[groups]
        return shares

    def _mixture(self, *, quick: bool = False) -> Mixture:
        """The mixture of products of everything measured, over all levels."""
        known = {}
        for name in self.names:
            counts, variance = self.levels[name]
            groups = self.merging.groups[name]
            sizes = np.bincount(groups).astype(np.float64)
            grouped = np.bincount(groups, weights=counts + (self.fine.rows - counts.sum()) / len(counts))
            known[name] = KnownColumn(grouped.astype(np.float64), sizes * variance, np.asarray(self.known[name]))
        fitted = components(self.coarse, known, count=QUICK if quick else None)
        if not quick:
            self.said.append(f"mixture: {len(fitted.weights)} components, residuals {fitted.residual:.2f}")
        shares = self._within()
        blocks = []
        for columns, table in fitted.tables:
            (name, *others) = columns
            wide = table[:, self.merging.groups[name]] * shares[name] if name in shares and not others else table
            blocks.append((columns, wide.astype(np.float32)))
        return Mixture(self.schema, fitted.weights, blocks)

    def _merged_cells(self, model: Mixture, columns: Columns) -> Values:
        cells = model.marginal(columns)
        for axis, name in enumerate(columns):
            if name in self.merging.changed:
                members = (self.merging.groups[name] == np.arange(self.merging.merged[name].size)[:, None]).astype(
                    float
                )
                cells = np.moveaxis(np.tensordot(members, cells, axes=(1, axis)), 0, axis)
        return cells

    def _pay(self, measured: tuple[Measurement, ...]) -> None:
        self.spent += sum(measurement.cost.units for measurement in measured)

    def _deviation(self, units: float) -> float:
        """The standard deviation of one cell of a table that costs `units`."""
        accountant, relation = self.curator.budget.accountant, self.curator.relation
        table = Marginal(self.schema, self.names[:1])
        return math.sqrt(accountant.gaussian_variance(max(1, int(units)), Fraction(relation.l2_squared(table))))


KINDS = ("columns", "pairs", "triples")
QUICK = 150  # components of the model against which triples are looked at
_COLUMN = 0.3  # expected error of a column that was not measured, as a fraction of rows


def _kept(sizes: Sequence[int]) -> float:
    """The length of what one row moves in the residual of a table with these sizes."""
    return math.sqrt(math.prod((size - 1) / size for size in sizes))
