"""Code that all engines share: a bounded cache of counted tables, and a plan to count many in few passes."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.schema import Schema

MAX_CELLS = 2**26
_MEMORY = 2**28  # maximum bytes of cached tables
_PASS = 2**23  # maximum cells counted in one pass
_SUMMED = 2**20  # a cached table of up to this many cells (or the number of records) is summed, not counted again
_MANY = 2**18  # number of records from which joint tables are worth planning
_CACHE = 2**16  # maximum cells of a joint table: it then stays in the second-level cache while it is counted
_JOINT = 2**10  # a joint table of up to this many cells costs no more to count than one of its parts
_LOOKED = 2**12  # number of latest counted tables that are searched for a table to sum from

Positions = tuple[int, ...]


class CountingEngine(ABC):
    """Exact counts over column sets, cached by column set, which is public; smaller tables are summed from larger ones.

    An engine defines how a few tables are counted (`_count`) and how records are read (`blocks`). Several threads may
    use it. Memory: `memory` bytes of cached tables, and the tables of one pass (2^23 cells or one set) while counting.
    """

    def __init__(self, schema: Schema, rows: int, fingerprint: str, memory: int = _MEMORY) -> None:
        self.schema = schema
        self.rows = rows
        self.fingerprint = fingerprint
        self._sizes = tuple(column.size for column in schema)
        self._places = {name: place for place, name in enumerate(schema.names)}
        self._memory = memory
        self._used = 0
        self._tables: dict[int, NDArray[np.int64]] = {}  # by column set, as a bit mask; least recently used first
        self._counted: dict[int, None] = {}  # tables that are not sums of others
        self._holding: dict[int, dict[int, None]] = {}  # the same by each of their columns
        self._lock = threading.Lock()

    @abstractmethod
    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks."""

    @abstractmethod
    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        """The flat histogram of every set of columns, in one pass."""

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """The number of records in every cell of `columns`: axes in the order asked, read-only."""
        asked = [self._place(name) for name in columns]
        positions = tuple(sorted(set(asked)))
        if len(positions) < len(asked):
            raise QueryError(f"a column is named twice in {', '.join(columns)}", advice="name each once")
        if self._cells(positions) > MAX_CELLS:
            raise QueryError(
                f"{self._cells(positions):,} cells over {len(asked)} columns are more than {MAX_CELLS:,}",
                advice="ask for fewer columns",
            )
        table = self._known(positions)
        if table is None:
            table = self._counted_now([positions])[0]
        return table.transpose([positions.index(position) for position in asked])

    def prefetch(self, column_sets: Iterable[Sequence[str]]) -> None:
        """Count many column sets in few passes, using joint tables of several sets if that is faster.

        Sets that are too large to count, or that no longer fit in the cache, are left out.
        """
        wanted = {tuple(sorted({self._place(name) for name in names})) for names in column_sets}
        with self._lock:
            new = [s for s in sorted(wanted) if _mask(s) not in self._tables and self._cells(s) <= MAX_CELLS]
        together = tuple(sorted({position for positions in new for position in positions}))
        if len(new) > 1 and self._cells(together) <= _JOINT:
            table = self._known(together)
            table = self._counted_now([together])[0] if table is None else table
            for positions in new:
                self._remember(positions, _summed(table, together, positions))
            return
        new = [positions for positions in new if self._known(positions) is None]
        tables = joint_tables(new, self._sizes, _CACHE) if self.rows >= _MANY else new
        batch: list[Positions] = []
        room, cells = self._memory // 8, 0
        for positions in tables:
            size = self._cells(positions)
            if size > room:
                continue
            if batch and cells + size > _PASS:
                self._counted_now(batch)
                batch, cells = [], 0
            batch.append(positions)
            room, cells = room - size, cells + size
        if batch:
            self._counted_now(batch)

    def _place(self, name: str) -> int:
        place = self._places.get(name) if isinstance(name, str) else None
        return self.schema.position(name) if place is None else place  # it says what is wrong with the name

    def _counted_now(self, batch: Sequence[Positions]) -> list[NDArray[np.int64]]:
        return [self._remember(*counted, new=True) for counted in zip(batch, self._count(batch), strict=True)]

    def _cells(self, positions: Positions) -> int:
        return math.prod(self._sizes[position] for position in positions)

    def _known(self, positions: Positions) -> NDArray[np.int64] | None:
        """A cached table, or the sum of the smallest cached table that contains it, if that is faster than counting."""
        mask = _mask(positions)
        with self._lock:
            exact = self._tables.pop(mask, None)
            if exact is not None:
                self._tables[mask] = exact
                return exact
            each: list[dict[int, None]] = [self._holding.get(position, {}) for position in positions]
            fewest = min(each, key=len) if each else self._counted
            limit, latest = max(self.rows, _SUMMED), islice(reversed(fewest), _LOOKED)
            sources = [m for m in latest if m & mask == mask and m in self._tables]
            holding = [(self._tables[m].size, m) for m in sources if self._tables[m].size <= limit]
            if not holding:
                return None
            source = min(holding)[1]
            table = self._tables[source]
        return self._remember(positions, _summed(table, _positions(source), positions))

    def _remember(self, positions: Positions, counts: NDArray[np.int64], *, new: bool = False) -> NDArray[np.int64]:
        mask = _mask(positions)
        table = np.asarray(counts).reshape([self._sizes[position] for position in positions])
        table.flags.writeable = False
        with self._lock:
            if mask not in self._tables:
                self._tables[mask] = table
                self._used += table.nbytes
            if new:
                for holding in (self._counted, *(self._holding.setdefault(one, {}) for one in positions)):
                    holding[mask] = None
            while self._used > self._memory:
                oldest = next(iter(self._tables))
                self._used -= self._tables.pop(oldest).nbytes
                self._forget(oldest)
        return table

    def _forget(self, mask: int) -> None:
        if mask in self._counted:
            del self._counted[mask]
            for position in _positions(mask):
                del self._holding[position][mask]


def _mask(positions: Positions) -> int:
    return sum(1 << position for position in positions)


def _positions(mask: int) -> Positions:
    return tuple(position for position in range(mask.bit_length()) if mask >> position & 1)


def _summed(table: NDArray[np.int64], axes: Positions, positions: Positions) -> NDArray[np.int64]:
    """The counts over a subset of the columns."""
    gone = tuple(axis for axis, position in enumerate(axes) if position not in positions)
    return table.sum(axis=gone, dtype=np.int64) if gone else table


def joint_tables(sets: Sequence[Positions], sizes: Sequence[int], limit: int) -> Iterator[Positions]:
    """Few tables that together contain every set: each is a set, enlarged up to `limit` cells to cover more sets."""
    if not sets:
        return
    levels = np.array(sizes, dtype=np.float64)
    largest_first = sorted(sets, key=lambda s: (-math.prod(sizes[i] for i in s), s))
    wanted = np.zeros((len(sets), len(sizes)), dtype=bool)
    for row, positions in zip(wanted, largest_first, strict=True):
        row[list(positions)] = True
    while len(wanted):
        chosen = wanted[0].copy()
        while True:
            missing = wanted & ~chosen
            gain = missing[missing.sum(axis=1) == 1].sum(axis=0) * (levels * levels[chosen].prod() <= limit)
            if not gain.any():
                break
            chosen[int(np.argmax(gain / np.log2(levels + 1)))] = True
        yield tuple(np.flatnonzero(chosen).tolist())
        wanted = wanted[(wanted & ~chosen).any(axis=1)]
