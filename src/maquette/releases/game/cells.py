"""The moves of the players of a query-release game: the cells of a workload's tables, numbered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.distinguisher import Clause
from maquette.errors import QueryError
from maquette.estimates import tables_of
from maquette.query import LinearQuery, Marginal, Workload
from maquette.schema import Schema

MAX_CELLS = 2**25

Values = NDArray[np.float64]
Records = NDArray[np.integer[Any]]


class CellIndex:
    """All cells of some tables in one list: cell i is a conjunction; (i, +1) and (i, -1) are the query player's moves.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    >>> index = CellIndex.of(mq.marginals(schema, k=2))
    >>> index.cells, index.clause(1, -1)
    (4, Clause(literals=((0, 0), (1, 1)), sign=-1))
    """

    def __init__(self, schema: Schema, tables: Sequence[Marginal]) -> None:
        self.schema = schema
        self.tables = list(tables)
        self.offsets = np.concatenate([[0], np.cumsum([table.cells for table in self.tables])]).astype(np.int64)
        if self.cells > MAX_CELLS:
            raise QueryError(
                f"the workload has {self.cells:,} cells, more than {MAX_CELLS:,}", advice="ask for fewer tables"
            )
        width = max(1, *(len(table.names) for table in self.tables))
        # Short rows are padded with a column of stride zero.
        self._columns = np.zeros((len(self.tables), width), dtype=np.int64)
        self._strides = np.zeros((len(self.tables), width), dtype=np.int64)
        for i, table in enumerate(self.tables):
            stride = 1
            for axis in reversed(range(len(table.shape))):
                self._columns[i, axis], self._strides[i, axis] = schema.position(table.names[axis]), stride
                stride *= table.shape[axis]

    @classmethod
    def of(cls, workload: Workload) -> CellIndex:
        """The cells of a workload's tables."""
        schema, one = workload.schema, LinearQuery.constant(workload.schema)  # one weight for all, looked at once
        listed = [
            m if m.weight.terms[0].factors or len(m.weight.terms) > 1 else Marginal(schema, m.axes, one)
            for m in workload.marginals
        ]
        return cls(schema, [Marginal(schema, columns, one) for columns in tables_of(schema, listed)])

    @property
    def cells(self) -> int:
        """How many queries there are; with their negations, twice as many moves."""
        return int(self.offsets[-1])

    @property
    def log_universe(self) -> float:
        """The logarithm of the number of cells of the universe, of two at least."""
        return math.log(max(self.schema.size, 2))

    def clause(self, cell: int, sign: int) -> Clause:
        """A move as a conjunction with a sign."""
        table = int(np.searchsorted(self.offsets, cell, side="right")) - 1
        inside = np.unravel_index(int(cell - self.offsets[table]), self.tables[table].shape)
        names = self.tables[table].names
        return Clause(
            tuple((self.schema.position(n), int(level)) for n, level in zip(names, inside, strict=True)), sign
        )

    def find(self, record: Records) -> NDArray[np.int64]:
        """The cell of every table that a record falls into."""
        return np.asarray(self.offsets[:-1] + (self._strides * record[self._columns]).sum(axis=1))

    def fractions(self, records: Records) -> Values:
        """What fraction of the records falls into each cell."""
        totals = np.zeros(self.cells)
        for record in records:
            totals[self.find(record)] += 1.0
        return totals / len(records)

    def project(self, probabilities: Values) -> Values:
        """The mass of each cell under a distribution over the whole universe.

        Columns are summed out one after another, and what tables have in common is summed once.
        """
        wanted: dict[tuple[int, ...], list[int]] = {}
        for i, table in enumerate(self.tables):
            wanted.setdefault(tuple(sorted(self.schema.position(name) for name in table.names)), []).append(i)
        found = np.empty(self.cells)

        def descend(mass: Values, column: int, axis: int, sets: list[tuple[int, ...]]) -> None:
            if not sets:
                return
            if column == len(self.schema):
                for i in wanted[sets[0]]:
                    order = [sets[0].index(self.schema.position(name)) for name in self.tables[i].names]
                    found[self.offsets[i] : self.offsets[i + 1]] = mass.transpose(order).reshape(-1)
                return
            descend(mass, column + 1, axis + 1, [s for s in sets if column in s])
            without = [s for s in sets if column not in s]
            if without:
                descend(mass.sum(axis=axis), column + 1, axis, without)

        descend(probabilities, 0, 0, list(wanted))
        return found


def index_for(curator: Curator, workload: Workload) -> CellIndex:
    """The cells of a workload for this curator's table."""
    if workload.schema != curator.schema:
        raise QueryError("the workload was built for another schema", advice="build it from curator.schema")
    return CellIndex.of(workload)
