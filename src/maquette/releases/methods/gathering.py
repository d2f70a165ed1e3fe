"""Gathering: which tables of a workload to measure, and how precisely, by what each is worth.

Columns come first. The number of rows and the noise then say how the rest is split between columns, pairs and triples;
where tables could not pay, columns get everything. One look at the errors of all pairs says which are worth measuring,
and how precisely: no model decides. With little noise, a second look compares triples with a first model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.estimates import (
    COLUMN_ERROR,
    MEAN,
    Columns,
    Step,
    believed,
    mixture_holds,
    noise_of,
    split,
    tables_of,
    unexplained,
    wanted,
    weights_of,
)
from maquette.hypothesis import Mixture
from maquette.query import Contrasts, Marginal, Workload
from maquette.releases.methods.gathered import EXACT, Gathered, mixture_of
from maquette.releases.methods.selection import groups
from maquette.schema import Ordered

FIRST = 0.1  # share of the budget for a first measurement of the columns
PAYS = 0.02  # share of tables in the split below which they are not worth choosing
LOOK = 0.03  # maximum share of the budget for a look at errors
SHARP = 0.015  # standard deviation of an error, as a fraction of rows, that is enough
BLURRED = 0.1  # standard deviation above which a look says nothing
DEEPER = 0.05  # share of triples in the split above which they are looked at
QUICK = 150  # components of the mixture with which triples are compared
TRIPLES, TRIPLE_CELLS = 300, 120_000  # most triples that are looked at, and most cells of them together
FEWEST = 8  # levels that every column keeps
ORDERED = (6.0, 128)  # how levels of ordered columns are merged: the rise and the most groups of `selection.groups`
NAMED = (1.0, 128)  # of others: two names may mean opposite things, so only the rarest are merged
MANY = 20_000  # maximum number of candidates of a look
LARGEST = 2**22  # maximum cells of a candidate, before merging: the curator counts those at once
SLIGHT = 1e-6  # share below which a table is left out
KINDS = ("columns", "pairs", "triples")

Values = NDArray[np.float64]
Errors = dict[Columns, float]


class Gathering:
    """One run of measurements within `units`; what it knows is public, and `said` tells what was decided.

    Privacy: one `measure_many` of the columns; one `measure_error` of pairs against independent columns and one
    `measure_many` of columns and residuals of pairs; with little noise the same again for triples, against a mixture.
    Each is charged before it is answered. Groups, candidates and shares are functions of released and public numbers.
    """

    def __init__(self, curator: Curator, workload: Workload, units: int, target: str | None) -> None:
        self.curator, self.units, self.target = curator, units, target
        self.schema = curator.schema
        self.tables = tables_of(self.schema, list(workload.marginals))
        used = {name for table in self.tables for name in table if self.schema[name].size > 1}
        self.names = [name for name in self.schema.names if name in used]
        self.weights = {size: self._weights(size) for size in (1, 2, 3)}
        self.found = Gathered(self.schema, self.names)
        self.trace: list[Step] = []
        self.said: list[str] = []
        self.spent = self.reserve = 0

    def _weights(self, size: int) -> dict[Columns, float]:
        """The sets of columns of the workload of this size; those with the target column count more."""
        known = set(self.names)
        sets = {s: weight for s, weight in weights_of(self.tables, size).items() if set(s) <= known}
        kept = dict(itertools.islice(sets.items(), MANY))
        if self.target is None or size == 1:
            return kept
        return {s: weight * len(self.names) if self.target in s else weight for s, weight in kept.items()}

    @property
    def left(self) -> int:
        """The units that remain for measurements."""
        return self.units - self.spent - self.reserve

    @property
    def gains(self) -> Errors:
        """The measured tables, and how far a simpler model was from each, times its weight."""
        return {step.columns: step.distance * self.weights[len(step.columns)][step.columns] for step in self.trace}

    def run(self, reserve: float, worth: float) -> None:
        """Measure columns, pairs and triples, as far as each is worth its noise.

        The share `reserve` of the budget is kept if its noise, in one number, is below `worth` of the rows.
        """
        if not self.weights[2]:
            return self._measure_columns(self.units)
        self._measure_columns(int(FIRST * self.units))
        kept = int(reserve * self.units)
        self.reserve = kept if self.deviation(kept) < worth * self.found.rows else 0
        if not self._pays():
            self.reserve = 0
            return self._measure_columns(self.left)
        deviation = self.deviation(self.left / (2 * len(self.names)))
        self.found.merge({name: self._groups(name, deviation) for name in self.names})
        self._pairs()
        if self._goes_deeper and self.found.tables and mixture_holds(self.found.merging.merged):
            self._triples()
        return None

    def _pays(self) -> bool:
        """Whether tables are worth measuring; decides how what is left is split."""
        rows, left = self.found.rows, self.left
        self.split = split(self.schema, self.weights, rows, self.deviation(left), self.spent / left)
        shares = ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, self.split.values(), strict=True))
        self.said.append(f"about {rows:,.0f} rows; expected best split of what is left: {shares}")
        if self.split[2] + self.split[3] >= PAYS:
            return True
        self.said.append("tables are not worth their noise: what is left measures the columns again")
        return False

    def _measure_columns(self, units: int) -> None:
        """Measure each column by itself; shares make the sum of their expected errors least."""
        names = self.names or [""]
        questions = [Marginal(self.schema, [name] if name else []) for name in names]
        shares = [question.cells ** (2 / 3) for question in questions]
        measured = self.curator.measure_many(questions, units=units, shares=shares)
        self._pay(measured)
        for name, measurement in zip(names, measured, strict=True):
            self.found.learn(name, measurement)
        if self.curator.relation.rows_are_public:
            self.found.fine.combine((), np.array(self.curator.count_rows()), np.array(EXACT))

    def _groups(self, name: str, deviation: float) -> NDArray[np.int64]:
        rise, most = ORDERED if isinstance(self.schema[name], Ordered) else NAMED
        counts = self.found.probabilities(name) * self.found.rows
        return groups(self.schema, name, counts, deviation, rise=rise, fewest=FEWEST, most=most)

    def _pairs(self) -> None:
        """Look at the errors of all pairs, then measure columns and pairs."""
        sets = [s for s in self.weights[2] if self.schema.cells(s) <= LARGEST]
        known = {name: self.found.grouped(name) for name in self.names}
        errors = self._errors(sets, [np.multiply.outer(known[a], known[b]) for a, b in sets])
        part = self.split[1] + self.split[2]
        amount = int(self.left * part / (part + self.split[3])) if self._goes_deeper else self.left
        shares = self._shares(unexplained(errors), amount, columns=True)
        self._measure(shares, amount)
        self._note(shares, errors)

    @property
    def _goes_deeper(self) -> bool:
        return bool(self.weights[3]) and self.split[3] >= DEEPER

    def _triples(self) -> None:
        """Look at triples against a first mixture, and measure those worth their noise."""
        first, _ = mixture_of(self.found, count=QUICK)
        sets = self._affordable()
        errors = self._errors(sets, [self._cells(first, s) for s in sets])
        shares = self._shares(errors, self.left, columns=False)
        self._measure(shares, self.left)
        self._note(shares, errors)

    def _affordable(self) -> list[Columns]:
        """The triples whose pairs err most for their size, as many as a fit can take."""
        errors = {step.columns: step.distance for step in self.trace}
        merged = self.found.merging.merged
        cells = {s: merged.cells(s) for s in self.weights[3] if self.schema.cells(s) <= LARGEST}

        def promise(triple: Columns) -> float:
            error = sum(errors.get(pair, 0.0) for pair in itertools.combinations(triple, 2))
            return self.weights[3][triple] * error / math.sqrt(cells[triple])

        found: list[Columns] = []
        total = 0
        for each in sorted(cells, key=lambda s: (-promise(s), s)):
            if total + cells[each] <= TRIPLE_CELLS and len(found) < TRIPLES:
                total += cells[each]
                found.append(each)
        return found

    def _cells(self, model: Mixture, columns: Columns) -> Values:
        """The model's table of groups."""
        cells = model.marginal(columns)
        merging = self.found.merging
        for axis, name in enumerate(columns):
            if name in merging.changed:
                members = merging.groups[name] == np.arange(merging.merged[name].size)[:, None]
                cells = np.moveaxis(np.tensordot(members.astype(np.float64), cells, axes=(1, axis)), 0, axis)
        return cells

    def _errors(self, sets: Sequence[Columns], cells: Sequence[Values]) -> Errors:
        """Half the L1 errors of tables, in rows, as far as to believe them; expected ones if a look says nothing."""
        rows, scale = self.found.rows, math.sqrt(len(sets)) / 2
        share = min(LOOK, (scale * self.deviation(self.units) / (SHARP * rows)) ** 2)
        values, self.doubt = np.zeros(len(sets)), math.inf
        if sets and scale * self.deviation(self.units * share) <= BLURRED * rows:
            asked = [self.found.merging.table(s) for s in sets]
            seen = self.curator.measure_error(asked, [each * rows for each in cells], units=int(self.units * share))
            self.spent += seen.cost.units
            values, self.doubt = np.asarray(seen.values) / 2, seen.deviation / 2
        else:
            self.said.append("a look at the errors of tables would say nothing and was not bought")
        errors = believed(values, self.doubt, rows, len(sets[0]) if sets else 2)
        return dict(zip(sets, map(float, errors), strict=True))

    def _shares(self, errors: Mapping[Columns, float], units: int, *, columns: bool) -> dict[Columns, float]:
        """The tables worth measuring, and columns again, with the best split of `units` over them."""
        deviation, merged = self.deviation(units), self.found.merging.merged
        singles: list[Columns] = [(name,) for name in self.names] if columns else []
        noises = [noise_of(self.schema.cells(s), deviation, column=True) for s in singles]
        noises += [noise_of(merged.cells(s) * _kept(merged.shape(s)), deviation) for s in errors]
        before = [deviation**2 / self.found.levels[s[0]][1] for s in singles] + [0.0] * len(errors)
        expected = [COLUMN_ERROR * self.found.rows] * len(singles) + list(errors.values())
        weights = [self.weights[len(s)][s] for s in (*singles, *errors)]
        shares = wanted(expected, noises, weights, before).shares()
        return {s: share for s, share in zip((*singles, *errors), map(float, shares), strict=True) if share > SLIGHT}

    def _measure(self, shares: Mapping[Columns, float], units: int) -> None:
        """Measure columns and residuals of tables for one charge."""
        if not shares:
            return
        questions: list[Contrasts | Marginal] = [
            Marginal(self.schema, s) if len(s) == 1 else self.found.merging.residual(s) for s in shares
        ]
        measured = self.curator.measure_many(questions, units=units, shares=list(shares.values()))
        self._pay(measured)
        for columns, measurement in zip(shares, measured, strict=True):
            if len(columns) == 1:
                self.found.learn(columns[0], measurement)
            else:
                self.found.take(columns, measurement)

    def _note(self, shares: Mapping[Columns, float], errors: Errors) -> None:
        """Keep for the trace how wrong the simpler model was on the tables that were measured."""
        number, rows = self.trace[-1].round + 1 if self.trace else 1, self.found.rows
        doubt = 0.0 if math.isinf(self.doubt) else MEAN * self.doubt / rows
        tables = [s for s in shares if len(s) > 1]
        self.trace += [Step(number, s, errors[s] / rows, doubt) for s in tables]
        self.said.append(f"{len(tables)} of {len(errors)} tables were worth their noise in round {number}")

    def _pay(self, measured: tuple[Measurement, ...]) -> None:
        self.spent += sum(measurement.cost.units for measurement in measured)

    def deviation(self, units: float) -> float:
        """The standard deviation of one cell of a table that costs `units`."""
        accountant, relation = self.curator.budget.accountant, self.curator.relation
        moved = Fraction(relation.l2_squared(Marginal(self.schema, self.names[:1])))
        return math.sqrt(accountant.gaussian_variance(max(1, int(units)), moved))


def _kept(sizes: Sequence[int]) -> float:
    """The length of what one row moves in the residual of a table with these sizes."""
    return math.sqrt(math.prod((size - 1) / size for size in sizes))
