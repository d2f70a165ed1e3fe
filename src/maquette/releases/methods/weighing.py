"""Weighing: what a run of measurements may spend, what it knows, and what it predicts of the tables it may measure.

The error that is left of every column and pair follows from what is believed of it, from the noise that a share of the
charge would buy, and from its weight in the workload. Everything here is a function of released and public numbers;
`_look` alone asks the curator, for noisy errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.estimates import (
    COLUMN_ERROR,
    Columns,
    Merging,
    Step,
    Wanted,
    believed,
    noise_of,
    usual_errors,
    wanted,
    weights_of,
)
from maquette.query import Contrasts, Marginal, Workload
from maquette.releases.methods.gathered import WIDE, Gathered
from maquette.releases.starting import Start

LOOK = 0.03  # maximum share of the budget for a look at errors
SHARP = 0.015  # standard deviation of an error, as a fraction of rows, that is enough
BLURRED = 0.1  # standard deviation above which a look says nothing
MANY = 20_000  # maximum number of candidates of a look
TRIPLES = 200_000  # maximum number of triples from which those to look at are chosen
CLEAR = 0.03  # standard deviation up to which a look tells finer groups from coarse ones, and what is usual
ENOUGH = 30  # pairs from which their errors themselves say what is usual
NEAR = 8  # places between two columns up to which they are neighbours
LARGEST = 2**22  # maximum cells of a candidate, before merging: the curator counts those at once
SLIGHT = 1e-6  # share below which a table is left out

Values = NDArray[np.float64]
Errors = dict[Columns, float]


class Weighing:
    """The state of a run within `units`, and what is predicted from it."""

    def __init__(
        self,
        curator: Curator,
        workload: Workload,
        units: int,
        target: str | None,
        *,
        spare: int = 0,
        start: Start | None = None,
    ) -> None:
        self.curator, self.workload, self.units, self.target, self.spare = curator, workload, units, target, spare
        self.start = start
        self.alone: Errors | None = None  # errors of independent columns on pairs, where a look saw them
        self.schema = curator.schema
        self.tables = list(workload.tables)
        used = {name for table in self.tables for name in table if self.schema[name].size > 1}
        self.names = [name for name in self.schema.names if name in used]
        self.weights = {size: self._weights(size) for size in (1, 2, 3)}
        self.found = Gathered(self.schema, self.names)
        self.trace: list[Step] = []
        self.said: list[str] = []
        self.noisy: Values | None = None  # the same as they were seen
        self.finer: dict[str, Merging] = {}
        self.trusted = False  # whether a start was found closer to the rows than independent columns
        self.spent = self.reserve = 0

    def _weights(self, size: int) -> dict[Columns, float]:
        """The sets of columns of the workload of this size; those with the target column count more."""
        known = set(self.names)
        sets = {s: weight for s, weight in weights_of(self.tables, size).items() if set(s) <= known}
        kept = self._listed(sets, MANY if size < 3 else TRIPLES)
        if self.target is None or size == 1:
            return kept
        return {s: weight * len(self.names) if self.target in s else weight for s, weight in kept.items()}

    def _listed(self, sets: dict[Columns, float], most: int) -> dict[Columns, float]:
        """At most `most` sets: those of neighbouring columns and with the target first, then any, by a fixed seed.

        Columns that belong together often stand together. The others must all have the same chance: the first ones
        would be pairs of the first columns only.
        """
        if len(sets) <= most:
            return sets
        place = {name: i for i, name in enumerate(self.names)}
        places = np.array([[place[name] for name in s] for s in sets])
        far = places.max(axis=1) - places.min(axis=1) > NEAR
        if self.target is not None:
            far &= (places != place[self.target]).all(axis=1)
        ranked = np.lexsort((np.random.default_rng(0).random(len(sets)), far))[:most]
        listed = list(sets)
        return {listed[i]: sets[listed[i]] for i in sorted(ranked)}

    @property
    def left(self) -> int:
        """The units that remain for measurements."""
        return self.units - self.spent - self.reserve

    @property
    def _small(self) -> list[Columns]:
        """The pairs that the curator can count at once."""
        return [s for s in self.weights[2] if self.schema.cells(s) <= LARGEST]

    def _columns(self) -> dict[str, Values]:
        return {name: self.found.probabilities(name) for name in self.names}

    def _blur(self, tables: int, most: float) -> tuple[float, float]:
        """The share of the budget for a look at `tables` tables, and the standard deviation of an error in it."""
        rows, scale = self.found.rows, math.sqrt(tables) / 2
        share = min(most, (scale * self.deviation(self.units) / (SHARP * rows)) ** 2)
        return share, scale * self.deviation(self.units * share)

    def _look(self, asked: Sequence[Contrasts | Marginal], cells: Sequence[Values], most: float) -> Values | None:
        """Half the noisy L1 errors of tables, in rows; None if a look would say nothing."""
        rows, (share, blur) = self.found.rows, self._blur(len(asked), most)
        if not asked or blur > BLURRED * rows:
            self.doubt = math.inf
            self.said.append("a look at the errors of tables would say nothing and was not bought")
            return None
        seen = self.curator.measure_error(asked, [each * rows for each in cells], units=int(self.units * share))
        self.spent += seen.cost.units
        self.doubt = seen.deviation / 2
        return np.asarray(seen.values) / 2

    def _believed(self, errors: Values, pairs: int) -> Values:
        """What to think of noisy errors, of which the first are those of all pairs.

        Many of them say themselves what is usual, if they are clear: else the noise of the columns is in them too.
        """
        rows = self.found.rows
        tell = len(self.names) >= WIDE or (pairs >= ENOUGH and self.doubt <= CLEAR * rows)
        usual = usual_errors(errors[:pairs], self.doubt, rows) if tell else None
        if usual is None:
            return believed(errors, self.doubt, rows, 2)
        median, spread = usual
        self.said.append(f"half of the pairs err by less than {median:.2%} of the rows; spread of logs {spread:.2f}")
        return believed(errors, self.doubt, rows, 2, median, spread=spread)

    def _usual(self, sets: Sequence[Columns]) -> list[float]:
        """What tables err by that nobody looked at."""
        found = believed(np.zeros(len(sets)), math.inf, self.found.rows, len(sets[0]) if sets else 2)
        return [float(error) for error in found]

    @staticmethod
    def _noise(merging: Merging, columns: Columns, deviation: float) -> float:
        merged = merging.merged
        return noise_of(merged.cells(columns) * _kept(merged.shape(columns)), deviation)

    def _wanted(self, errors: Mapping[Columns, float], units: int, *, columns: bool) -> tuple[list[Columns], Wanted]:
        """The tables and columns that `units` may be spent on, with what each is expected to err by."""
        deviation = self.deviation(units)
        singles: list[Columns] = [(name,) for name in self.names] if columns else []
        noises = [noise_of(self.schema.cells(s), deviation, column=True) for s in singles]
        noises += [self._noise(self.found.merging, s, deviation) for s in errors]
        # Where a start is right about a column, what is known of it is in the error that is expected.
        given = [self.found.error(s[0]) for s in singles]
        spent = [deviation**2 / self.found.levels[s[0]][1] for s in singles]
        before = [0.0 if error is not None else part for error, part in zip(given, spent, strict=True)]
        before += [0.0] * len(errors)
        usual = COLUMN_ERROR * self.found.rows
        expected = [usual if error is None else min(usual, error) for error in given]
        expected += errors.values()
        weights = [self.weights[len(s)][s] for s in (*singles, *errors)]
        return [*singles, *errors], wanted(expected, noises, weights, before)

    def _shares(
        self, errors: Mapping[Columns, float], units: int, *, columns: bool
    ) -> tuple[dict[Columns, float], float]:
        """The tables worth measuring, and columns again, with the best split of `units`; and the predicted error."""
        sets, asked = self._wanted(errors, units, columns=columns)
        shares = asked.shares()
        left = dict(zip(sets, map(float, asked.after(shares)), strict=True))
        return {s: share for s, share in zip(sets, map(float, shares), strict=True) if share > SLIGHT}, self._mean(left)

    def _mean(self, errors: Mapping[Columns, float]) -> float:
        """The mean over the tables of the workload of the errors of their parts, as a fraction of rows."""
        total = sum(self.weights[len(s)][s] * error for s, error in errors.items())
        return total / sum(self.weights[1].values()) * max(map(len, self.tables)) / self.found.rows

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
