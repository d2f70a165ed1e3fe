"""Gathering: which tables of a workload to measure, and how precisely, by what each is worth.

Columns come first. The number of rows and the noise then say how the rest is split between columns, pairs and triples;
where tables could not pay, columns get everything. One look at the errors of all pairs says which are worth measuring,
and how precisely: no model decides. With little noise, a second look compares triples with a first model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import (
    MEAN,
    Columns,
    Merging,
    Step,
    believed,
    mixture_holds,
    split,
    unexplained,
)
from maquette.query import Contrasts, Marginal
from maquette.releases.artifact import Model
from maquette.releases.checking import check_part, tables_to_check
from maquette.releases.methods.gathered import EXACT, mixture_of
from maquette.releases.methods.grouping import PairLook, finer, grouped
from maquette.releases.methods.phases import Told
from maquette.releases.methods.weighing import BLURRED, CLEAR, LARGEST, LOOK, SHARP, Errors, Weighing
from maquette.releases.starting import Start

FIRST = 0.1  # share of the budget for a first measurement of the columns
PAYS = 0.02  # share of tables in the split below which they are not worth choosing
VAGUE = 0.08  # of the difference of two mean errors, above which a look at a start says nothing
NEAR = 0.25  # squared distance of a start's columns, as a part of that of even columns, up to which they are used
USUAL = 1.65  # the mean of errors over their median, as tables usually err
TINY = 1e-3  # fraction of rows: the least median error that a start is credited with
DEEPER = 0.05  # share of triples in the split above which they are looked at
QUICK = 150  # components of the mixture with which triples are compared
TRIPLES, TRIPLE_CELLS = 300, 120_000  # most triples that are looked at, and most cells of them together
BLIND = 0.95  # part of the predicted error that tables must leave, to be measured where no look can be bought
COUNTED, LOOKED = 0.1, 0.7  # parts of the work of asking that are done with the columns, and with the look at pairs
KINDS = ("columns", "pairs", "triples")

Values = NDArray[np.float64]


class Gathering(Weighing):
    """One run of measurements within `units`; what it knows is public, and `said` tells what was decided.

    Privacy: one `measure_many` of the columns; one `measure_error` of pairs against independent columns (in groups and
    in finer groups), one more of pairs against a start if there is one, and one `measure_many` of columns and residuals
    of pairs; with little noise a look at triples, against a mixture, and one `measure_many` of their residuals. Each is
    charged before it is answered. Groups, candidates and shares are functions of released and public numbers.
    """

    @property
    def gains(self) -> Errors:
        """The measured tables and the pairs of a start, and how far a simpler model was from each, times its weight."""
        rows = self.found.rows
        taken = {s: self.alone[s] / rows * self.weights[2][s] for s in self.found.hints} if self.alone else {}
        own = {step.columns: step.distance * self.weights[len(step.columns)][step.columns] for step in self.trace}
        return {**taken, **own}

    def run(self, reserve: float, worth: float, told: Told | None = None) -> None:
        """Measure columns, pairs and triples, as far as each is worth its noise; `told` hears which part is done.

        The share `reserve` of the budget is kept if its noise, in one number, is below `worth` of the rows.
        """
        told = told or (lambda *_: None)
        if not self.weights[2]:
            return self._measure_columns(self.units)
        self._measure_columns(int(FIRST * self.units))
        told(COUNTED, None)
        self._use_spare()
        kept = int(reserve * self.units)
        self.reserve = kept if self.deviation(kept) < worth * self.found.rows else 0
        pays = self._pays()
        if self.start is not None:
            self._expect(self.start)
        if pays or self.start is not None:
            self._merge()
            self._look_at_pairs(LOOK if self.start is None else LOOK / 2)
        if self.start is not None:
            self._look_at_start(self.start)
        told(LOOKED, None)
        if not (pays and self._pairs()):
            self.reserve = self.reserve if self.found.hints else 0
            self._unmerge()
            return self._measure_columns(self.left)
        if self._goes_deeper and self.found.tables:
            self._triples()
        return None

    def _merge(self) -> None:
        """Merge levels as far as the noise of later tables suggests; and, for a look, less far."""
        deviation = self.deviation(self.left / (2 * len(self.names)))
        counts = {name: self.found.probabilities(name) * self.found.rows for name in self.names}
        self.found.merge({name: grouped(self.schema, name, counts[name], deviation) for name in self.names})
        fine = {
            n: grouped(self.schema, n, counts[n], deviation, fine=True)
            for n in self.found.merging.changed
            if n in counts
        }
        self.finer = finer(self.found.merging, fine)

    def _unmerge(self) -> None:
        """Keep all levels, where only columns are measured; what a start says about pairs is then in its rows alone."""
        self.found.merge({})
        self.trusted, self.found.hints = bool(self.found.hints), {}

    def _expect(self, start: Start) -> None:
        """Take the columns of a start as what to expect, if noise alone explains the difference, or most of it.

        Released counts say so for nothing: squared distances in units of the noise, without what noise adds to them,
        are compared with those of even columns.
        """
        expected = {name: np.asarray(start.model.marginal((name,))) for name in self.names}
        theirs = sum(self.found.distance(name, probabilities) for name, probabilities in expected.items())
        even = sum(self.found.distance(name, np.full(len(p), 1 / len(p))) for name, p in expected.items())
        noise = 2 * math.sqrt(2 * sum(len(probabilities) - 1 for probabilities in expected.values()))
        if theirs < max(NEAR * even, noise):
            self.found.expected = expected
        else:
            self.said.append("the columns of the start are not those of the rows: they are not used")

    def _look_at_start(self, start: Start) -> None:
        """Look at the errors of a start and of independent columns on all pairs; keep the pairs where it is closer.

        The mean of all errors has much less noise than each: it says whether to trust the start at all.
        """
        sets, rows, own = self._small, self.found.rows, self.noisy
        times = 1 if own is not None else 2
        share = min(LOOK / 2, (math.sqrt(times * len(sets)) / 2 * self.deviation(self.units) / (SHARP * rows)) ** 2)
        if not sets or self.deviation(self.units * share) > VAGUE * rows:
            self.said.append("a look at the start would say nothing: only its columns are used")
            return
        look = PairLook(sets, self.found.merging, {})
        theirs = [self.cells(start.model, s) for s in sets]
        cells = theirs if own is not None else [*look.products(self._columns()), *theirs]
        asked = [self.found.merging.table(s) for s in sets] * times
        seen = self.curator.measure_error(asked, [each * rows for each in cells], units=int(self.units * share))
        self.spent += seen.cost.units
        values, doubt = np.asarray(seen.values) / 2, seen.deviation / 2
        self.doubt = doubt if own is None else self.doubt
        alone, found = np.split(values, 2) if own is None else (own, values)
        if self.alone is None:
            self.alone = dict(zip(sets, map(float, believed(alone, self.doubt, rows, 2)), strict=True))
        gain, spread = float(np.mean(alone - found)), math.hypot(self.doubt, doubt) / math.sqrt(len(sets))
        means = found.mean() / rows, alone.mean() / rows
        told = "on pairs the start errs by {:.4f} of the rows, independent columns by {:.4f}".format(*means)
        if gain <= spread:
            self.said.append(f"{told}: it is not used for them")
            self.alone = self.alone if self.doubt <= BLURRED * rows else None
            return
        usual = max(float(found.mean()) / rows / USUAL, TINY)
        errors = believed(found, doubt, rows, 2, usual)
        listed = zip(sets, theirs, map(float, errors), strict=True)
        self.found.hints = {s: (table, error) for s, table, error in listed if error < self.alone[s]}
        self.trusted = bool(self.found.hints)
        self.said.append(f"{told}: {len(self.found.hints)} pairs are taken from it")

    def _use_spare(self) -> None:
        """Measure with what was kept for a check, if one of about as many rows as there are would say nothing."""
        if self.spare and not tables_to_check(self.curator, self.workload, check_part(self.spare), self.found.rows):
            self.units += self.spare
            self.said.append("a check of the finished model would say nothing: its share is measured with")

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

    def _look_at_pairs(self, most: float) -> None:
        """Look at the errors of all pairs; columns whose finer groups say more than their noise costs keep them."""
        merging, rows = self.found.merging, self.found.rows
        look = PairLook(self._small, merging, self.finer)
        if self._blur(len(look.entries), most)[1] > CLEAR * rows:
            look = PairLook(look.sets, merging, {})
        values = self._look([m.table(s) for s, m in look.entries], look.products(self._columns()), most)
        if values is None:
            return
        self.noisy = values[: len(look.sets)]
        errors = self._believed(values, len(look.sets))
        units = int(self.left * (self.split[1] + self.split[2]))
        price = self._wanted(dict(zip(look.sets, map(float, errors), strict=False)), units, columns=True)[1].price()

        def noise(merging: Merging, pair: Columns) -> float:
            return self._noise(merging, pair, self.deviation(units))

        pairs = {name: look.compared(name, errors, noise, self.weights[2]) for name in look.finer}
        kept = [name for name, each in pairs.items() if each.sure(price, self.doubt)]
        groups, self.alone = look.refined(kept, errors)
        for name in kept:
            told = f"{merging.merged[name].size} to {groups.merged[name].size}"
            self.said.append(f"{name}: from {told} groups, as that is predicted to err less")
        if kept:
            self.noisy = np.array([self.alone[s] for s in look.sets])
        self.found.merge(groups.groups)

    def _pairs(self) -> bool:
        """Measure columns and the pairs worth their noise; not if columns alone are predicted to do about as well."""
        errors = self.alone or dict(zip(self._small, self._usual(self._small), strict=True))
        self.found.apart = dict(errors)
        part = self.split[1] + self.split[2]
        amount = int(self.left * part / (part + self.split[3])) if self._goes_deeper else self.left
        left = unexplained(errors)
        left.update({s: min(left[s], error) for s, (_, error) in self.found.hints.items()})
        shares, predicted = self._shares(left, amount, columns=True)
        alone = self._shares({}, self.left, columns=True)[1] + self._mean(left)
        tables = sum(len(s) > 1 for s in shares)
        self.said.append(f"predicted error of tables: columns alone {alone:.3f}, with {tables} pairs {predicted:.3f}")
        if self.alone is None and predicted > BLIND * alone and not self.found.hints:
            self.said.append("pairs that nothing is known of gain too little: what is left measures the columns again")
            return False
        self._measure(shares, amount)
        self._note(shares, errors)
        return True

    @property
    def _goes_deeper(self) -> bool:
        """Whether triples are looked at: a mixture must hold what they are compared with."""
        holds = mixture_holds(self.found.merging.merged)
        return bool(self.weights[3]) and self.split[3] >= DEEPER and holds

    def _triples(self) -> None:
        """Look at triples against a first mixture, and measure those worth their noise."""
        first, _ = mixture_of(self.found, count=QUICK)
        sets = self._affordable()
        values = self._look([self.found.merging.table(s) for s in sets], [self.cells(first, s) for s in sets], LOOK)
        found = self._usual(sets) if values is None else map(float, believed(values, self.doubt, self.found.rows, 3))
        errors = dict(zip(sets, found, strict=True))
        shares, _ = self._shares(errors, self.left, columns=False)
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

    def cells(self, model: Model, columns: Columns) -> Values:
        """The model's table of groups."""
        cells = np.asarray(model.marginal(columns))
        merging = self.found.merging
        for axis, name in enumerate(columns):
            if name in merging.changed:
                members = merging.groups[name] == np.arange(merging.merged[name].size)[:, None]
                cells = np.moveaxis(np.tensordot(members.astype(np.float64), cells, axes=(1, axis)), 0, axis)
        return cells

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
