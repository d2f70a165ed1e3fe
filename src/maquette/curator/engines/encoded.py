"""Code that engines over encoded records share: one kernel for counts, one clamp for sums, whatever holds the codes."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.api import Amount
from maquette.curator.engines.counting import CountingEngine, Positions
from maquette.curator.engines.encoding import layout_of, records_of
from maquette.curator.engines.kernels import Chunk, Planes, histograms
from maquette.curator.engines.values import Values, added, checked, clamped, valued
from maquette.schema import Schema

RECORDS = 2**16  # records per block, so that values computed from them stay in cache


class EncodedEngine(CountingEngine):
    """Counts and sums over chunks of codes and values; an engine says where its chunks come from.

    `left_out` says how many units had 0, 1, 2, ... rows left out by the contribution bound, where that was noted.
    """

    left_out: NDArray[np.int64] | None = None

    @abstractmethod
    def _chunks(self) -> Iterator[tuple[Planes, Values]]:
        """All records once: the planes of a chunk, and its values, one row per column of `valued`."""

    def in_levels_of(self, schema: Schema) -> EncodedEngine:
        """The same records in wider levels."""
        from maquette.curator.engines.recoded import recoded

        return recoded(self, schema)

    def _to_count(self) -> Sequence[Chunk]:
        """The chunks to count, which may read only the planes that are needed."""
        return [planes for planes, _ in self._chunks()]

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks."""
        for planes, _ in self._chunks():
            yield from (records for records, _ in _parts(self.schema, planes))

    def sums(self, columns: Sequence[str], amount: Amount) -> NDArray[np.int64]:
        """The sum of the records' amounts in every cell of `columns`."""
        return added(self.schema, columns, ((records, one) for records, (one,) in self.amounts(amount)))

    def amounts(self, *amounts: Amount) -> Iterator[tuple[NDArray[np.int32], tuple[NDArray[np.int64], ...]]]:
        """The encoded records in chunks, each with the amounts of every record."""
        kept = valued(self.schema)
        places = [(kept.index(checked(self.schema, amount)), amount) for amount in amounts]
        for planes, values in self._chunks():
            for records, part in _parts(self.schema, planes):
                yield records, tuple(clamped(values[place, part], amount) for place, amount in places)

    @property
    def keeps_units(self) -> bool:
        """Whether the number of a record's unit is kept beside its values."""
        return any(len(values) > len(valued(self.schema)) for _, values in itertools.islice(self._chunks(), 1))

    def units(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """The encoded records in chunks, each with the number of every record's unit."""
        place = len(valued(self.schema))
        for planes, values in self._chunks():
            for records, part in _parts(self.schema, planes):
                yield records, values[place, part].astype(np.int64)

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        return histograms(self._to_count(), [layout_of(self.schema, positions) for positions in sets])


def _parts(schema: Schema, planes: Planes) -> Iterator[tuple[NDArray[np.int32], slice]]:
    for start in range(0, planes.shape[1], RECORDS):
        part = slice(start, start + RECORDS)
        yield records_of(schema, planes[:, part]), part
