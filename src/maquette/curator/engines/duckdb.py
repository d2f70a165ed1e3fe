"""Rows stay in their source and are encoded again for every count: the engine for tables that may be kept nowhere else.

It is for tables that exceed the memory limit where no directory for code planes is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.counting import Positions
from maquette.curator.engines.encoded import EncodedEngine
from maquette.curator.engines.encoding import layout_of
from maquette.curator.engines.kernels import Planes, histograms
from maquette.curator.engines.reading import Pass
from maquette.curator.engines.values import Values
from maquette.curator.sources import reading
from maquette.errors import DataError, UnreadableSource
from maquette.schema import Schema


class DuckDBEngine(EncodedEngine):
    """Every count reads the whole source again, with the same expressions that encoded it when it was opened.

    `again` begins a pass over the source. A source whose content is no longer the fingerprinted one is refused: noise
    would be added to counts of another table. `blocks` and `amounts` occupy the connection until they are exhausted.
    """

    def __init__(self, schema: Schema, rows: int, fingerprint: str, again: Callable[[], Pass]) -> None:
        super().__init__(schema, rows, fingerprint)
        self._again = again
        self._turn = threading.Lock()  # a DuckDB connection serves one thread at a time

    def _chunks(self) -> Iterator[tuple[Planes, Values]]:
        with self._turn:
            read = self._again()
            chunks, ended = iter(read), False
            with suppress(DataError):  # its numbers, even that of a line, are of rows that no one paid for
                while (chunk := reading("the rows again", lambda: next(chunks, None))) is not None:
                    yield chunk
                ended = True
        if not ended or read.digest != self.fingerprint:
            raise _changed()

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        layouts = [layout_of(self.schema, positions) for positions in sets]
        totals = [np.zeros(layout.cells, dtype=np.int64) for layout in layouts]
        for planes, _ in self._chunks():
            for total, counted in zip(totals, histograms([planes], layouts), strict=True):
                np.add(total, counted, out=total)
        return totals


def _changed() -> UnreadableSource:
    """One constant text: it is raised while a question is answered, so an analyst may read it."""
    return UnreadableSource(
        "the source no longer holds the rows it was opened with, or cannot be read to its end",
        advice="restore it and open it again",
    )
