"""Rows as compact codes in memory: the engine for every table that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.counting import CountingEngine, Positions
from maquette.curator.engines.encoding import layout_of, records_of
from maquette.curator.engines.kernels import Planes, histograms
from maquette.schema import Schema

_RECORDS = 2**16  # records per block, so that values computed from them stay in cache


class MemoryEngine(CountingEngine):
    """About one byte per record and column."""

    def __init__(self, schema: Schema, rows: int, fingerprint: str, chunks: Sequence[Planes]) -> None:
        super().__init__(schema, rows, fingerprint)
        self._chunks = tuple(chunks)

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks."""
        for chunk in self._chunks:
            for start in range(0, chunk.shape[1], _RECORDS):
                yield records_of(self.schema, chunk[:, start : start + _RECORDS])

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        return histograms(self._chunks, [layout_of(self.schema, positions) for positions in sets])
