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
    """Noisy counts over columns: the deviation of every cell, and of the largest independent part of its noise."""

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
    """What a table gives a question: the table, and deviation and largest part of the noise of the sum."""

    table: Table
    deviation: float
    largest: float


class Reading(NamedTuple):
    """A way to answer: the shift t, the width it has, and the tables with their weights."""

    shift: float
    width: float
    parts: tuple[tuple[Table, float], ...]


class TableBaseline(Baseline):
    """What a question is worth to a table: a sum over its cells, whose variances add.

    The cells of a marginal sum to the number of rows. So instead of the weights w one may sum w - t, and add t: for q
    of m cells the variance is q sigma^2 with t = 0, (m - q) sigma^2 through the complement, t = 1, and
    q (1 - q / m) sigma^2 with t their mean. The one with the least width is taken.
    """

    def _read(self, weights: Values, tables: Sequence[Table]) -> Reading:
        """The best answer to a question with these weights from tables that hold its columns."""
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
    """The noise of a sum over a table: each weight is that of several of its cells, where it has more columns."""
    cells = table.values.size / max(1, weights.size)
    norm = math.sqrt(float((weights * weights).sum()) * cells)
    return Noisy(table, norm * table.deviation, float(np.abs(weights).max()) * table.largest)


def _merged(parts: Sequence[tuple[float, float]]) -> tuple[float, float, list[float]]:
    """Deviation, largest part and shares of the mean of independent estimates, weighted by inverse variance."""
    precisions = [1.0 / deviation**2 for deviation, _ in parts]
    total = sum(precisions)
    shares = [precision / total for precision in precisions]
    return 1.0 / math.sqrt(total), max(s * largest for s, (_, largest) in zip(shares, parts, strict=True)), shares
