"""Rows as compact codes in memory: the engine for every table that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from maquette.curator.engines.encoded import EncodedEngine
from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.values import Values
from maquette.schema import Schema


class MemoryEngine(EncodedEngine):
    """About one byte per record and column, and four for every column whose values are kept.

    `values` holds for each chunk one row per column of `valued`.
    """

    def __init__(
        self, schema: Schema, rows: int, fingerprint: str, chunks: Sequence[Planes], values: Sequence[Values] = ()
    ) -> None:
        super().__init__(schema, rows, fingerprint)
        self._held = tuple(zip(chunks, values or [np.zeros((0, 0), dtype=np.int32)] * len(chunks), strict=True))

    def _chunks(self) -> Iterator[tuple[Planes, Values]]:
        return iter(self._held)
