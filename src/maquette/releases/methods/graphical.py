"""Graphical release: few tables measured well, a junction-tree model fitted to them; for universes of any size.

The columns are measured first and rare levels merged. Noisy errors of all pairs against independent columns say which
tables are worth their noise; those that fit in a junction tree of bounded size are measured at once, as residuals with
the best split of the charge; one convex fit explains them. Where the noise is small beside what pairs leave
unexplained, a part of the budget is kept for a second round, which looks for errors of the fitted model, in larger
tables too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from maquette.curator import Curator, Measurement
from maquette.errors import QueryError
from maquette.estimates import (
    MEAN,
    STAGES,
    Allocation,
    Columns,
    Counted,
    Estimated,
    Evidence,
    MergedEvidence,
    MergedModel,
    Merging,
    Residuals,
    Step,
    estimates,
    spread,
    units_for,
)
from maquette.hypothesis import GraphicalModel, JunctionTree
from maquette.query import Contrasts, Marginal, Workload
from maquette.releases.artifact import Model, Release, certified
from maquette.releases.methods.selection import Candidate, candidates_of, chosen, groups
from maquette.releases.progress import Progress

FIRST = 0.2  # share of the budget for all single columns
SELECT = 0.02  # share of the budget for the errors of a round
LOOK = 0.2  # maximum share of a round for its errors, if there are many rounds
SECOND = 0.4  # share of the rest for a second round, if there is one
MAX_CELLS = 100_000  # for one round; with several, noise is small and a larger model pays
MORE_CELLS = 200_000
TABLES = 2  # tables a column is expected to be measured in, before any is chosen
EXACT = 1e-12  # variance of a public number of rows
QUIET = 0.02  # expected noise of a pair (as a fraction of rows) below which a second round pays
MANY = 20_000  # maximum number of candidates of a round
LARGEST = 2**22  # maximum cells of a candidate, before merging: the curator counts those at once


def graphical(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    rounds: int | None = None,
    max_cells: int | None = None,
    progress: bool | None = None,
) -> Release:
    """Release a graphical model of at most `max_cells` cells; interrupting it releases what has been paid for.

    `rounds` is the number of times tables are chosen and measured (default: one, or two where noise is small), and
    `max_cells` bounds the cells of the junction tree (default: 100,000 in one round, 200,000 in more).

    Privacy: one `measure_many` of the columns, then in every round one `measure_error` of candidate tables against the
    model's answers and one `measure_many` of residuals of those chosen. Each is charged to the ledger before it is
    answered, so the whole is an adaptive composition within the budget's own accounting (Gaussian mechanisms only,
    unless the budget is pure). Groups of levels, candidates, the choice among them, shares, the number of rounds and
    the fit are computed from released numbers and public ones (schema, workload, budget) alone.

    Accuracy: no theorem; the intervals are those of what was measured, and trivial for any other question.
    """
    for word, value in (("rounds", rounds), ("max_cells", max_cells)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise QueryError(f"{word} is {value!r}", expected="a whole number of at least 1, or None to choose")
    with curator.account("graphical") as account:
        run = _Run(curator, workload, units_for(curator, epsilon, rho, units), rounds, max_cells)
        with Progress("fitting", STAGES, progress) as shown:
            try:
                run.columns()
                for share in run.plan():
                    run.round(share, shown)
            except KeyboardInterrupt as interrupt:
                if run.fitted is None:
                    interrupt.add_note(f"{account.loss} was charged; there is no model yet to release")
                    raise
    # Cost from the account: an access that was charged and then interrupted gave nothing, but it was paid.
    certificate = certified(curator, "graphical", account)
    return Release(curator.schema, run.model, run.evidence, certificate, trace=run.trace)


@dataclass
class _Run:
    """The state of one release; everything in it is public."""

    curator: Curator
    workload: Workload
    units: int
    rounds: int | None
    cells: int | None

    def __post_init__(self) -> None:
        self.schema = self.curator.schema
        self.tables = self.workload.tables
        used = {name for table in self.tables for name in table if self.schema[name].size > 1}
        self.names = [name for name in self.schema.names if name in used]
        self.pure = self.curator.budget.accountant.currency == "pure"
        self.fine = Residuals(self.schema)
        self.fitted: Estimated | None = None
        self.trace: list[Step] = []
        self.spent = 0
        self.counted: list[Counted] = []
        self.measured: dict[Columns, None] = {}
        self._check_room()

    def _check_room(self) -> None:
        """Refuse impossible combinations that no model of the allowed size can hold, before anything is charged."""
        sets = [columns for columns, _ in self.schema.zeros]
        sizes = {name: self.schema[name].size for columns in sets for name in columns}
        needed, allowed = JunctionTree(sizes, sets).cells if sets else 0, self.cells or MAX_CELLS
        if needed > allowed:
            raise QueryError(
                f"the impossible combinations of the schema need a model of {needed:,} cells, more than the "
                f"{allowed:,} allowed",
                advice="give max_cells, or declare them over fewer columns or fewer levels",
            )

    @property
    def left(self) -> int:
        """The units that remain of the release's budget."""
        return self.units - self.spent

    @property
    def model(self) -> Model:
        """The model as it stands, over all levels."""
        assert self.fitted is not None, "columns() comes first"
        model = self.fitted.model
        model = model.grown(model.tree.nodes)  # as in a saved file, so that the loaded model computes the same bytes
        return MergedModel(self.merging, model, self.merging.within(self.fine)) if self.merging.changed else model

    @property
    def evidence(self) -> Evidence:
        """Everything that was measured."""
        return MergedEvidence(self.merging, self.fine, self.coarse) if self.merging.changed else self.coarse

    @property
    def _has_pairs(self) -> bool:
        """Whether there is anything to learn beyond single columns."""
        return any(self.schema.cells(table) > max(self.schema.shape(table), default=1) for table in self.tables)

    def columns(self) -> None:
        """Measure each column separately, and merge levels that later tables could not distinguish from noise."""
        questions = [Marginal(self.schema, [name]) for name in self.names] or [Marginal(self.schema)]
        power = 1 / 2 if self.pure else 2 / 3  # minimises the sum of the expected errors of all columns
        shares = [question.cells**power for question in questions]
        amount = FIRST * self.units if self._has_pairs else self.units
        measured = self.curator.measure_many(questions, units=int(amount), shares=shares)
        self._pay(measured)
        for measurement in measured:
            self.fine.add(measurement)
        self._total(self.fine)
        deviation = self._deviation(self.left / (TABLES * len(self.names))) if self._has_pairs else 0.0
        found = {name: groups(self.schema, name, self.fine.marginal((name,))[0], deviation) for name in self.names}
        self.merging = Merging(self.schema, found)
        self.coarse = Residuals(self.merging.merged)
        changed = set(self.merging.changed)
        for measurement in measured:
            (name,) = measurement.marginal.columns or ("",)
            if name in changed:
                self._count(name, measurement)
            else:
                self.coarse.add(measurement)
        if self.names and changed == set(self.names):
            self.coarse.combine(
                (), np.array(self.fine.rows), np.array(self.fine.estimate(np.ones(()), ()).deviation ** 2)
            )
        self._total(self.coarse)
        merged = self.merging.merged
        start = GraphicalModel(merged, [(name,) for name in self.names], zeros=merged.zeros)
        self._fit(start, None)

    def _total(self, residuals: Residuals) -> None:
        if self.curator.relation.rows_are_public:
            residuals.combine((), np.array(self.curator.count_rows()), np.array(EXACT))

    def _count(self, name: str, measurement: Measurement) -> None:
        """A merged column as counts of groups; the noise of a group is the sum of one noise value per level."""
        groups_of = self.merging.groups[name]
        sizes = np.bincount(groups_of).astype(np.float64)
        values = np.bincount(groups_of, weights=measurement.values).astype(np.float64)
        self.counted.append(Counted(name, values, sizes * spread(measurement) ** 2))
        self.coarse.gaussian &= self.fine.gaussian

    def plan(self) -> list[float]:
        """For each round, the share of what then remains that it may spend."""
        if not self._has_pairs:
            return []
        rounds = self.rounds
        if rounds is None:
            sizes = [float(size) for size in self.merging.merged.shape(self.names)]
            cells = (sum(sizes) / len(sizes)) ** 2
            noise = 0.4 * self._deviation(self.left / (TABLES * len(self.names))) * cells / self.coarse.rows
            rounds = 2 if noise < QUIET else 1
        self.max_cells = self.cells or (MAX_CELLS if rounds == 1 else MORE_CELLS)
        return [*[1 - SECOND] * (rounds - 1), 1.0]

    def round(self, share: float, shown: Progress) -> None:
        """Find the tables on which the model is wrong, measure those worth their price, and fit."""
        assert self.fitted is not None, "columns() comes first"
        budget = share * self.left
        before = self.spent
        found = self._errors(min(SELECT * self.units, LOOK * budget))
        spendable = budget - (self.spent - before)
        model = self.fitted.model
        tables = chosen(
            model.tree,
            [Candidate(columns, error, weight) for columns, error, weight in found],
            doubt=self._doubt,
            deviation=self._deviation(spendable / (TABLES * len(self.names))),
            max_cells=self.max_cells,
        )
        self._note(found, tables)
        lonely = [(name,) for name in self.names if not any(name in table for table in tables)]
        self._measure([*tables, *lonely], spendable)
        for table in tables:  # one at a time: the tree is then the one whose cells were counted
            model = model.grown([table])
        # All measured sets become cliques, so that each keeps parameters of its own.
        self._fit(model.grown([columns for columns, _, _ in self.coarse.stored() if columns]), shown)

    def _note(self, found: list[tuple[Columns, float, float]], tables: list[Columns]) -> None:
        """Keep for the trace how wrong the model was on the tables chosen in this round."""
        number, rows = self.trace[-1].round + 1 if self.trace else 1, self.coarse.rows
        errors = {columns: error for columns, error, _ in found if columns in set(tables)}
        self.trace += [Step(number, columns, errors[columns] / rows, MEAN * self._doubt / rows) for columns in errors]

    def _errors(self, units: float) -> list[tuple[Columns, float, float]]:
        """Candidate tables, half their noisy L1 error in rows, and how many tables of the workload hold each."""
        assert self.fitted is not None, "columns() comes first"
        weights = candidates_of(self.tables, 2)
        if self.measured:
            larger = candidates_of(self.tables, 3) if math.comb(len(self.names), 3) <= MANY else {}
            weights = {**weights, **larger}
        known = set(self.names)
        sets = [s for s in weights if set(s) <= known and self.schema.cells(s) <= LARGEST][:MANY]
        if not sets:
            self._doubt = 0.0
            return []
        answers = [cells * self.coarse.rows for cells in self.fitted.model.marginals(sets)]
        errors = self.curator.measure_error([self.merging.table(s) for s in sets], answers, units=int(units))
        self.spent += errors.cost.units
        self._doubt = errors.deviation / 2
        return [(s, float(error) / 2, weights[s]) for s, error in zip(sets, errors.values, strict=True)]

    def _measure(self, tables: list[Columns], units: float) -> None:
        """Measure tables for one charge: as residuals, split to minimise the sum of their expected errors."""
        questions: list[Contrasts | Marginal]
        if self.pure:  # contrasts move further in L1 than tables do
            sets, shares = tables, [math.sqrt(self.merging.merged.cells(table)) for table in tables]
            questions = [self.merging.table(table) for table in tables]
        else:
            allocation = Allocation(self.merging.merged, tables)
            sets, shares = allocation.sets, list(allocation.shares)
            questions = [self.merging.residual(part) if part else Marginal(self.schema) for part in sets]
        measured = self.curator.measure_many(questions, units=int(units), shares=shares)
        self._pay(measured)
        for part, measurement in zip(sets, measured, strict=True):
            self.merging.take(measurement, part, self.coarse)
        self.measured.update(dict.fromkeys(tables))

    def _pay(self, measured: tuple[Measurement, ...]) -> None:
        self.spent += sum(measurement.cost.units for measurement in measured)

    def _fit(self, model: GraphicalModel, shown: Progress | None) -> None:
        told = None if shown is None else shown.update
        for fitted in estimates(model, self.coarse, counted=self.counted, start=self.fitted, progress=told):
            self.fitted = fitted

    def _deviation(self, units: float) -> float:
        """The standard deviation of one cell of a table that costs `units`."""
        accountant, relation = self.curator.budget.accountant, self.curator.relation
        table = Marginal(self.schema, self.names[:1])
        if self.pure:
            return math.sqrt(2) * float(accountant.laplace_scale(int(units), Fraction(relation.l1(table))))
        return math.sqrt(accountant.gaussian_variance(int(units), Fraction(relation.l2_squared(table))))
