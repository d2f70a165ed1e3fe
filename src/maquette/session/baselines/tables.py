"""Answers from measured tables: what the sessions that keep whole tables share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.answers import Answer
from maquette.privacy import Loss
from maquette.query import LinearQuery
from maquette.session.baselines.baseline import Baseline

Values = NDArray[np.float64]
Columns = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Noisy counts over columns; standard deviation of a cell's noise, and of its largest independent component."""

    columns: Columns
    values: Values
    deviation: float
    largest: float

    def merged(self, other: Table) -> Table:
        """The mean of two tables over the same columns, weighted by inverse variance."""
        deviation, largest, (mine, its) = _merged([(t.deviation, t.largest) for t in (self, other)])
        return Table(self.columns, mine * self.values + its * other.values, deviation, largest)

    def onto(self, columns: Columns) -> Values:
        """Its sums over all other columns."""
        gone = tuple(axis for axis, name in enumerate(self.columns) if name not in columns)
        return np.asarray(self.values.sum(axis=gone))


class Noisy(NamedTuple):
    """What a table offers a question: the table, and the standard deviation and largest component of its noise."""

    table: Table
    deviation: float
    largest: float


class Reading(NamedTuple):
    """A way to answer: the shift t, its half-width, and the tables with their weights."""

    shift: float
    width: float
    parts: tuple[tuple[Table, float], ...]


class TableBaseline(Baseline):
    """How precisely a table answers a question: a sum over its cells, whose variances add.

    The cells of a marginal sum to the number of rows. So instead of the weights w one may sum w - t, and add t. For a
    question about q of m cells, the variance is q sigma^2 with t = 0, (m - q) sigma^2 with t = 1 (the complement), and
    q (1 - q / m) sigma^2 with t = q / m, the mean weight. The t with the smallest half-width is taken.
    """

    def _read(self, weights: Values, tables: Sequence[Table]) -> Reading:
        """The best answer to a question with these weights from tables that contain its columns."""
        best = Reading(0.0, math.inf, ())
        for shift in dict.fromkeys((0.0, 1.0, float(weights.mean()))):
            centred = weights - shift
            noisy = [_noise(t, centred) for t in tables]
            if noisy:
                deviation, largest, shares = _merged([(n.deviation, n.largest) for n in noisy])
                width = self.width(deviation, largest)
                if width < best.width:
                    best = Reading(shift, width, tuple(zip(tables, shares, strict=True)))
        return best

    def _answered(self, query: LinearQuery, weights: Values, reading: Reading, *, cost: Loss, fresh: bool) -> Answer:
        centred = weights - reading.shift
        total = sum(share * float((centred * self._onto(t, query.columns)).sum()) for t, share in reading.parts)
        value = reading.shift + total / self.rows.size
        return self._answer(value, reading.width, "measured" if fresh else "derived", cost)

    def _onto(self, table: Table, columns: Columns) -> Values:
        return table.onto(columns)


def _noise(table: Table, weights: Values) -> Noisy:
    """The noise of a sum over a table; if the table has more columns, each weight applies to several cells."""
    cells = table.values.size / max(1, weights.size)
    norm = math.sqrt(float((weights * weights).sum()) * cells)
    return Noisy(table, norm * table.deviation, float(np.abs(weights).max()) * table.largest)


def _merged(parts: Sequence[tuple[float, float]]) -> tuple[float, float, list[float]]:
    """Standard deviation, largest component and weights of the inverse-variance mean of independent estimates."""
    precisions = [1.0 / deviation**2 for deviation, _ in parts]
    total = sum(precisions)
    shares = [precision / total for precision in precisions]
    return 1.0 / math.sqrt(total), max(s * largest for s, (_, largest) in zip(shares, parts, strict=True)), shares
