"""Sums and averages of a binned column: a model knows the bin of a value, and not where in it the value lies.

The interval therefore reaches from the sum in which every value is the least of its bin to the one in which every value
is the largest: at half the failure probability each, as the two ends of one interval. Bins are public, so this costs
nothing. The value in between takes the middle of each bin; where the release bought the sum over all rows, it takes the
place in the bin that this sum tells, the same for every bin. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.answers import OutputColumn
from maquette.query import LinearQuery, Marginal, Output, ValueSums
from maquette.releases.bounds import Asked, Bound, joined_kind, logical
from maquette.schema import Numeric

if TYPE_CHECKING:
    from maquette.releases.artifact import Release

Values = NDArray[np.float64]

MIDDLE, SPREAD = 0.5, 1 / 12  # mean and variance of a place in a bin of which nothing is known


@dataclass(frozen=True)
class Levels:
    """Of each level, the least value, the one that stands for it, and the largest; 0 where a value is missing."""

    low: Values
    value: Values
    high: Values
    known: Values
    """1 where there is a value, 0 where it is missing."""

    @classmethod
    def of(cls, release: Release, name: str) -> Levels:
        """The levels of a column, at the place that a bought sum tells."""
        column = release.schema[name]
        assert isinstance(column, Numeric), "values beside levels are numbers"
        known = np.arange(column.size) < column.known
        low, high = (np.pad(ends, (0, column.size - column.known)) for ends in column.ends)
        whole = next((table for table in release.sums if (table.column, table.by) == (name, None)), None)
        place = MIDDLE
        if whole is not None:
            counts = release.model.marginal([name]) * release.rows
            open_ = float(counts @ (high - low))
            if open_ > 0:
                told, doubt = (float(whole.values) - float(counts @ low)) / open_, (whole.deviation / open_) ** 2
                place = (told * SPREAD + MIDDLE * doubt) / (SPREAD + doubt)  # the best guess from both
        return cls(low, low + min(max(place, 0.0), 1.0) * (high - low), high, known.astype(np.float64))


def of_bins(release: Release, output: Output, question: ValueSums, confidence: float, largest: int) -> OutputColumn:
    """A sum or an average of a column whose sums by these groups were not bought."""
    levels = Levels.of(release, question.column)
    plain = Marginal(release.schema, question.axes, question.weight)
    value, low, high = (np.zeros(question.shape) for _ in range(3))
    kinds = np.empty(question.shape, dtype=np.object_)
    for cell in np.ndindex(question.shape):
        asked = _Group(release, question.column, levels, plain.query(cell), largest, average=output.per is not None)
        value[cell] = asked.value(levels.value)
        below, above = (asked.bound(ends, confidence) for ends in (levels.low, levels.high))
        low[cell], high[cell] = below.low, above.high
        kinds[cell] = joined_kind(below.of_low, above.of_high)
    return OutputColumn(value, low, high, kinds=kinds)


@dataclass(frozen=True)
class _Group:
    """The sum or the average of numbers that levels stand for, over the rows of a group."""

    release: Release
    column: str
    levels: Levels
    rows: LinearQuery
    largest: int
    average: bool

    @property
    def _scale(self) -> tuple[float, float]:
        """Where numbers are measured from, and in which unit: averages from the least one, sums from zero."""
        known = self.levels.known > 0
        least, most = float(self.levels.low[known].min()), float(self.levels.high[known].max())
        return (least, most - least or 1.0) if self.average else (0.0, max(abs(least), abs(most)) or 1.0)

    def value(self, numbers: Values) -> float:
        """What the model says, drawn to the evidence and moved into its interval."""
        start, unit = self._scale
        scaled = (numbers - start) / unit
        return start + unit * self._value(scaled, self._asked(scaled))

    def _value(self, scaled: Values, asked: Asked | None) -> float:
        total = self._model(scaled) * self.release.rows
        departures, bounds = self.release.departures, self.release.bounds
        rows = self._model(self.levels.known) * self.release.rows if self.average else 1.0
        if asked is None or departures.closed(asked.columns):
            return min(max(total / max(rows, 1.0), 0.0), 1.0) if self.average else total
        if asked.per is None:
            return bounds.nearest(asked, total + departures.total(asked.weights, asked.columns))
        drawn = departures.ratio(asked.weights, asked.per, asked.columns, (total, rows), asked.between)
        return bounds.nearest(asked, drawn)

    def _model(self, weights: Values) -> float:
        """The model's mean of weights from -1 to 1, where there is a value."""
        weights = weights * self.levels.known
        sides = [(sign, np.maximum(sign * weights, 0.0)) for sign in (1.0, -1.0)]
        return sum(
            sign * self.release.model.answer(self.rows & self._table(side)) for sign, side in sides if side.any()
        )

    def _table(self, weights: Values) -> LinearQuery:
        return LinearQuery.table(self.release.schema, (self.column,), weights)

    def _asked(self, scaled: Values) -> Asked | None:
        """The question over cells, for numbers from -1 to 1; None if there are too many."""
        touched = {self.column, *self.rows.columns}
        columns = tuple(name for name in self.release.schema.names if name in touched)
        if self.release.schema.cells(columns) > self.largest:
            return None
        counted = (self.rows & self._table(self.levels.known)).weights(columns)
        weights = counted * scaled.reshape([-1 if name == self.column else 1 for name in columns])
        return Asked(columns, weights, counted if self.average else None)

    def bound(self, numbers: Values, confidence: float) -> Bound:
        """The interval of the same sum or average, if these were the values."""
        start, unit = self._scale
        scaled = (numbers - start) / unit
        asked = self._asked(scaled)
        if asked is None:
            most = 1.0 if self.average else self.release.rows
            found = logical(0.0 if self.average or float(self.levels.low.min()) >= 0 else -most, most)
        else:
            found = self.release.bounds.of(asked, confidence, self._value(scaled, asked))
        return Bound(start + unit * found.low, start + unit * found.high, found.of_low, found.of_high)
