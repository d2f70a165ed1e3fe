"""WholeMarginals and OneHistogram: measure whole tables, and answer every question that sums their cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.query import LinearQuery, Marginal
from maquette.release.answer import Answer
from maquette.release.evidence import spread
from maquette.session.baseline import MARGIN, Baseline, Noise

Values = NDArray[np.float64]
Columns = tuple[str, ...]

MOST = 8  # tables merged for one answer: the ninth best hardly adds precision


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


class WholeMarginals(TableBaseline):
    """For a new question, the whole marginal over its columns, so precise that this question meets `alpha`.

    Later questions on these columns or some of them are free where what is there is precise enough for them: all
    tables that hold the columns are merged by inverse variance. Where it is not, only the missing precision is bought.

    Privacy: one `Curator.measure` of a marginal for each purchase; under add-remove it costs what one of its cells
    costs, under replace twice as much rho. Accuracy: see `Baseline`.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 99, width=20), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [30, 70] * 5000, "smoker": [True, False] * 5000}, schema)
    >>> session = WholeMarginals(mq.Curator(table, mq.Budget(epsilon=1.0)), alpha=0.05, beta=0.001)
    >>> [session.ask(text).source for text in ("age < 20 AND smoker", "age >= 80 AND NOT smoker", "age < 20")]
    ['measured', 'derived', 'measured']
    """

    def __init__(
        self, curator: Curator, *, alpha: float, beta: float, noise: Noise = "auto", rows: int | None = None
    ) -> None:
        super().__init__(curator, alpha=alpha, beta=beta, noise=noise, rows=rows)
        self._tables: dict[int, Table] = {}  # by the set of columns, as bits

    def _fresh(self, query: LinearQuery) -> Answer:
        weights = query.weights()
        tables = self._holding(query)
        reading = self._read(weights, tables[:1])
        if not self._enough(reading.width):
            reading = self._read(weights, tables)
        if self._enough(reading.width):
            return self._answered(query, weights, reading, cost=self._free, fresh=False)
        bought = self._buy(
            Marginal(query.schema, query.columns),
            lambda deviation: (
                self._read(weights, [*tables, _imagined(query, deviation)]).width <= self.bound * (1 - MARGIN)
            ),
        )
        self._keep(query, bought)
        reading = self._read(weights, self._holding(query))
        return self._answered(query, weights, reading, cost=bought.cost, fresh=True)

    def _enough(self, width: float) -> bool:
        return width <= self.bound

    def _holding(self, query: LinearQuery) -> list[Table]:
        """Tables over these columns and others, the most precise for them first."""
        bits = self._bits(query)
        found = [table for held, table in self._tables.items() if held & bits == bits]
        return sorted(found, key=lambda table: table.deviation**2 * table.values.size)[:MOST]

    def _keep(self, query: LinearQuery, bought: Measurement) -> None:
        deviation, bits = spread(bought), self._bits(query)
        table = Table(query.columns, bought.values, deviation, deviation)
        self._tables[bits] = self._tables[bits].merged(table) if bits in self._tables else table

    def _bits(self, query: LinearQuery) -> int:
        return sum(1 << query.schema.position(name) for name in query.columns)


class OneHistogram(TableBaseline):
    """One noisy histogram of all columns, measured at the start; every question sums its cells, free.

    It is precise enough for every question that sums at most `cells` cells of the universe, or all but so many
    (default: half of them, the most there can be); what needs more is answered without a guarantee.

    Privacy: one `Curator.measure` of the whole universe. Accuracy: see `Baseline`.
    """

    def __init__(
        self,
        curator: Curator,
        *,
        alpha: float,
        beta: float,
        cells: int | None = None,
        noise: Noise = "auto",
        rows: int | None = None,
    ) -> None:
        most = max(1, curator.schema.size // 2)
        if cells is not None and not 1 <= cells <= most:
            raise QueryError(f"cells is {cells}; expected between 1 and half the universe, {most:,}")
        wanted = Marginal(curator.schema, curator.schema.names)
        super().__init__(curator, alpha=alpha, beta=beta, noise=noise, rows=rows)
        summed = np.zeros(wanted.cells)
        summed[: most if cells is None else cells] = 1.0
        bought = self._buy(
            wanted,
            lambda deviation: (
                self._read(summed, [Table((), summed, deviation, deviation)]).width <= self.bound * (1 - MARGIN)
            ),
        )
        self.cost = bought.cost
        self._table = Table(wanted.columns, bought.values, spread(bought), spread(bought))
        self._sums: dict[Columns, Values] = {}

    def _fresh(self, query: LinearQuery) -> Answer:
        weights = query.weights()
        reading = self._read(weights, [self._table])
        return self._answered(query, weights, reading, cost=self._free, fresh=False)

    def _onto(self, table: Table, columns: Columns) -> Values:
        if columns not in self._sums:
            self._sums[columns] = table.onto(columns)
        return self._sums[columns]


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


def _imagined(query: LinearQuery, deviation: float) -> Table:
    """A table over the columns of a question before it is measured."""
    return Table(query.columns, np.zeros(query.schema.shape(query.columns)), deviation, deviation)
