"""WholeMarginals: every new question buys the marginal over its columns."""

from __future__ import annotations

import numpy as np

from maquette.answers import Answer
from maquette.curator import Curator, Measurement
from maquette.estimates import spread
from maquette.query import LinearQuery, Marginal
from maquette.session.baselines.baseline import MARGIN, Noise
from maquette.session.baselines.tables import Table, TableBaseline

MOST = 8  # tables merged for one answer: a ninth hardly adds precision


class WholeMarginals(TableBaseline):
    """For a new question, buys the whole marginal over its columns, precise enough that this question meets `alpha`.

    Later questions on these columns, or a subset of them, are free where the measured tables are precise enough: all
    tables that contain the columns are merged by inverse variance. Otherwise only the missing precision is bought.

    Privacy: one `Curator.measure` of a marginal for each purchase; under add-remove it costs the same as one of its
    cells, under replace twice as much rho. Accuracy: see `Baseline`.

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
        self._tables: dict[int, Table] = {}  # by the set of columns, as a bit mask

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
        """Tables that contain these columns, the most precise first."""
        bits = self._bits(query)
        found = [table for held, table in self._tables.items() if held & bits == bits]
        return sorted(found, key=lambda table: table.deviation**2 * table.values.size)[:MOST]

    def _keep(self, query: LinearQuery, bought: Measurement) -> None:
        deviation, bits = spread(bought), self._bits(query)
        table = Table(query.columns, bought.values, deviation, deviation)
        self._tables[bits] = self._tables[bits].merged(table) if bits in self._tables else table

    def _bits(self, query: LinearQuery) -> int:
        return sum(1 << query.schema.position(name) for name in query.columns)


def _imagined(query: LinearQuery, deviation: float) -> Table:
    """A table over the columns of a question before it is measured."""
    return Table(query.columns, np.zeros(query.schema.shape(query.columns)), deviation, deviation)
