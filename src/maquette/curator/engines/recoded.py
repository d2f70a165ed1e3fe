"""Rows in other levels: every record's code is replaced by another, by a table that follows from the two schemas.

A schema whose bins were still to be drawn is encoded in the cells of its wide grid. Once the bins are drawn, each cell
lies in exactly one bin, so the code of a bin follows from the code of a cell. The source is not read or encoded again,
and the kept rows of every privacy unit stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.encoded import EncodedEngine
from maquette.curator.engines.encoding import planes_of, records_of
from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.engines.values import Values
from maquette.errors import DataError
from maquette.schema import Column, Ordered, Schema

Lookup = NDArray[np.int32]


def lookup_of(old: Column, new: Column) -> Lookup | None:
    """The new code of each old one; None if the column did not change. Every old level must lie in one new level."""
    if old == new:
        return None
    assert isinstance(old, Ordered)
    assert isinstance(new, Ordered)
    places = np.searchsorted(new.boundaries, old.boundaries[:-1], side="right") - 1
    ends = np.searchsorted(new.boundaries, old.boundaries[1:], side="left") - 1
    if (places != ends).any() or old.boundaries[0] != new.boundaries[0] or old.nullable != new.nullable:
        raise DataError(
            f"the levels of {old.name!r} do not match the grid of its cells", advice="draw bins from the same grid"
        )
    missing = [new.known] if old.nullable else []
    return np.concatenate([places, missing]).astype(np.int32)


class RecodedEngine(EncodedEngine):
    """Another engine's records in the levels of another schema; every pass looks the codes up again."""

    def __init__(self, engine: EncodedEngine, schema: Schema) -> None:
        super().__init__(schema, engine.rows, engine.fingerprint)
        self._engine = engine
        self._lookups = [lookup_of(old, new) for old, new in zip(engine.schema, schema, strict=True)]

    def _chunks(self) -> Iterator[tuple[Planes, Values]]:
        for planes, values in self._engine._chunks():
            yield self._recoded(planes), values

    def _recoded(self, planes: Planes) -> Planes:
        records = records_of(self._engine.schema, planes)
        codes: Sequence[NDArray[np.int32]] = [
            records[:, i] if lookup is None else lookup[records[:, i]] for i, lookup in enumerate(self._lookups)
        ]
        return planes_of(self.schema, codes)


def recoded(engine: EncodedEngine, schema: Schema) -> EncodedEngine:
    """The engine of the same records in the levels of `schema`; records in memory are looked up once."""
    other = RecodedEngine(engine, schema)
    if not isinstance(engine, MemoryEngine):
        return other
    held = list(other._chunks())
    return MemoryEngine(
        schema, engine.rows, engine.fingerprint, [codes for codes, _ in held], [values for _, values in held]
    )
