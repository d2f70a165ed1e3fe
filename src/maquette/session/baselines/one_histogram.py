"""OneHistogram: everything is measured once, at the start."""

from __future__ import annotations

import numpy as np

from maquette.answers import Answer
from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import spread
from maquette.query import LinearQuery, Marginal
from maquette.session.baselines.baseline import MARGIN, Noise
from maquette.session.baselines.tables import Columns, Table, TableBaseline, Values


class OneHistogram(TableBaseline):
    """One noisy histogram of all columns, measured at the start; every question sums its cells, free.

    It is precise enough for every question that sums at most `cells` cells of the universe, or all but at most `cells`
    (default: half of the cells, the most there can be). Other questions are answered without a guarantee.

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
            raise QueryError(f"cells is {cells}", expected=f"between 1 and half the universe, {most:,}")
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
