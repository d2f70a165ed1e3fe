"""Code planes in a file: the engine for tables larger than memory.

A file holds chunk after chunk; a chunk holds its planes one after the other (one byte per record, see `kernels`), then
its values (four bytes per record, see `values`). A count reads only the planes of the columns asked about. Planes are
read, not mapped: a truncated file is then an error instead of a killed process, and pages of the file are not counted
as memory of the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.counting import Positions
from maquette.curator.engines.encoded import EncodedEngine
from maquette.curator.engines.encoding import plane_count
from maquette.curator.engines.kernels import Chunk, Planes
from maquette.curator.engines.values import Values, valued
from maquette.errors import UnreadableSource
from maquette.schema import Schema

_READ = 2**18  # records read together when records are visited


class PlaneFile:
    """An open file of planes: `sizes` has the number of records of every chunk.

    The file is refused once it is not the file that was opened: its length, or the times at which its content or its
    name last changed. The time is compared before and after every reading, so no count of altered planes is returned.
    """

    def __init__(self, descriptor: int, sizes: Sequence[int], planes: int, values: int) -> None:
        self._file = descriptor
        self._state = _state(descriptor)
        self.planes, self.values, self.sizes = planes, values, tuple(sizes)
        width = planes + 4 * values
        self._starts = [width * start for start in accumulate(sizes, initial=0)]
        if self._state[0] != self._starts[-1]:
            raise altered()

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)

    def check(self) -> None:
        """Refuse a file that changed since it was opened."""
        if _state(self._file) != self._state:
            raise altered()

    def codes(self, chunk: int, planes: Sequence[int], first: int, last: int) -> Planes:
        """Records first <= i < last of some planes of a chunk."""
        read = np.empty((len(planes), last - first), dtype=np.uint8)
        for row, plane in zip(read, planes, strict=True):
            self._read(row, self._starts[chunk] + plane * self.sizes[chunk] + first)
        return read

    def amounts(self, chunk: int, first: int, last: int) -> Values:
        """The values of records first <= i < last of a chunk, one row per column whose values are kept."""
        read = np.empty((self.values, last - first), dtype=np.int32)
        for i, row in enumerate(read):
            self._read(row, self._starts[chunk] + (self.planes + 4 * i) * self.sizes[chunk] + 4 * first)
        return read

    def _read(self, row: NDArray[Any], offset: int) -> None:
        view = memoryview(row.view(np.uint8).data)
        while view:
            done = os.preadv(self._file, [view], offset)
            if done <= 0:
                raise altered()
            view, offset = view[done:], offset + done


@dataclass(frozen=True)
class StoredChunk:
    """A chunk of a file, as the kernel reads it."""

    file: PlaneFile
    index: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of planes, and of records."""
        return self.file.planes, self.file.sizes[self.index]

    def load(self, planes: Sequence[int], first: int, last: int) -> Planes:
        """Records first <= i < last of some planes."""
        return self.file.codes(self.index, planes, first, last)


class PlanesEngine(EncodedEngine):
    """Codes and values in a file; memory holds the planes of 2^18 records of the columns being counted."""

    def __init__(self, schema: Schema, rows: int, fingerprint: str, descriptor: int, sizes: Sequence[int]) -> None:
        super().__init__(schema, rows, fingerprint)
        self._file = PlaneFile(descriptor, sizes, plane_count(schema), len(valued(schema)))

    def _chunks(self) -> Iterator[tuple[Planes, Values]]:
        self._file.check()
        everything = range(self._file.planes)
        for chunk, size in enumerate(self._file.sizes):
            for first in range(0, size, _READ):
                last = min(first + _READ, size)
                yield self._file.codes(chunk, everything, first, last), self._file.amounts(chunk, first, last)
        self._file.check()

    def _to_count(self) -> Sequence[Chunk]:
        return [StoredChunk(self._file, i) for i in range(len(self._file.sizes))]

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        self._file.check()
        counted = super()._count(sets)
        self._file.check()
        return counted


def altered() -> UnreadableSource:
    """The refusal of planes that are not those that were written."""
    return UnreadableSource(
        "the code planes on disk were altered or cut off",
        expected="the files as they were written",
        advice="Delete their directory and open the source again",
    )


def _state(descriptor: int) -> tuple[int, int, int]:
    state = os.fstat(descriptor)
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns
