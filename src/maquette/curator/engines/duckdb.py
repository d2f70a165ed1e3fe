"""Rows stay in their source and are counted by DuckDB: the engine for tables whose codes do not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.counting import CountingEngine, Positions
from maquette.curator.engines.encoding import Codes, as_numpy, code_batches
from maquette.curator.sources import reading
from maquette.errors import UnreadableSource
from maquette.schema import Schema

if TYPE_CHECKING:
    import duckdb


class DuckDBEngine(CountingEngine):
    """Every count reads the source again, with the same expressions that encoded it when it was opened.

    `codes` is a relation of code columns k0, k1, ..., with contributions already bounded. A source that no longer holds
    the fingerprinted rows is refused: noise would be added to counts of another table. `blocks` occupies the connection
    until it is exhausted.
    """

    def __init__(self, schema: Schema, rows: int, fingerprint: str, codes: duckdb.DuckDBPyRelation) -> None:
        super().__init__(schema, rows, fingerprint)
        self._codes = codes
        self._turn = threading.Lock()  # a DuckDB connection serves one thread at a time

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks."""
        seen = 0
        with self._turn:
            batches = code_batches(self._codes)
            while codes := reading("the rows again", lambda: next(batches, None)):
                seen += len(codes[0])
                yield np.stack(codes, axis=1).astype(np.int32)
        if seen != self.rows:
            raise _changed()

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        with self._turn:
            totals = reading("the rows again", lambda: self._grouped(sets))
        if any(total.sum() != self.rows for total in totals):
            raise _changed()
        return totals

    def _grouped(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        """One pass: a flat cell per set and record, grouped by each set (GROUPING SETS)."""
        cells = [_cell_sql(self.schema, positions) for positions in sets]
        keys = ", ".join(f"g{i}" for i in range(len(sets)))
        grouping = ", ".join(f"(g{i})" for i in range(len(sets)))
        totals = [np.zeros(self._cells(positions), dtype=np.int64) for positions in sets]
        flat = self._codes.project(", ".join(f"{cell} AS g{i}" for i, cell in enumerate(cells)))
        counted = flat.aggregate(f"{keys}, count(*) AS n", f"GROUPING SETS ({grouping})")
        for batch in counted.to_arrow_reader():
            *groups, n = batch.columns
            for total, group in zip(totals, groups, strict=True):
                here = group.is_valid()
                _fill(total, as_numpy(group.filter(here)), as_numpy(n.filter(here)))
        return totals


def _cell_sql(schema: Schema, positions: Positions) -> str:
    cell = "0::BIGINT"
    for position in positions:
        cell = f"({cell}) * {schema.columns[position].size} + k{position}"
    return cell


def _fill(total: NDArray[np.int64], cells: Codes, counts: Codes) -> None:
    if cells.size and not (cells.min() >= 0 and cells.max() < total.size):
        raise _changed()
    total[cells] += counts


def _changed() -> UnreadableSource:
    return UnreadableSource(
        "the source no longer holds the rows it was opened with", advice="restore it and open it again"
    )
