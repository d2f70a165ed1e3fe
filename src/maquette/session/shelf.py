"""Shelf: what a session knew at its last checkpoint, read from the file piece by piece as it is needed.

The index is in memory; numbers and measurements stay on disk until somebody asks. Every piece is compared with its hash
in the index when it is read, and the index was verified when the file was opened (`maquette.session.checkpoint`). A
piece that is not what was written is never used: the session is replayed from the ledger and answers from that.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.bounded import Bounded
from maquette.estimates import Columns
from maquette.session.transcript import State, Values

if TYPE_CHECKING:
    from maquette.session.own import Own
    from maquette.session.record import Record

Known = tuple[list[int], list[float], list[int]]  # of each state: its moment, weight and number of pieces

KEPT = 512  # pieces kept in memory after they were read
HASH = 32  # bytes


class Damaged(Exception):
    """A piece of the file is not what was written."""


@dataclass(frozen=True)
class Places:
    """Where pieces are in the file, how long they are, and their hashes."""

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    hashes: bytes

    def __len__(self) -> int:
        return len(self.offsets)


class Shelf:
    """One open checkpoint file; `again` replays the whole session from the ledger, should a piece be damaged."""

    def __init__(self, descriptor: int, again: Callable[[], Record]) -> None:
        self._descriptor = descriptor
        self._again = again
        self._replayed: Record | None = None
        self._lock = threading.Lock()
        self._read: Bounded[int, Any] = Bounded(KEPT)
        weakref.finalize(self, os.close, descriptor)

    def piece(self, places: Places, i: int) -> bytes:
        """The bytes of one piece; raises Damaged if they are not those that were written."""
        offset, length = int(places.offsets[i]), int(places.lengths[i])
        data = os.pread(self._descriptor, length, offset)
        if hashlib.sha256(data).digest() != places.hashes[HASH * i : HASH * (i + 1)]:
            raise Damaged
        return data

    def kept(self, places: Places, i: int, read: Callable[[bytes], Any], rebuilt: Callable[[Record], Any]) -> Any:
        """One piece as `read` makes of it; from the ledger if the piece is damaged."""
        offset = int(places.offsets[i])
        found = self._read.get(offset)
        if found is None:
            try:
                found = read(self.piece(places, i))
            except (Damaged, OSError):
                found = rebuilt(self.replayed)
            self._read[offset] = found
        return found

    @property
    def replayed(self) -> Record:
        """The session as the ledger alone tells it."""
        with self._lock:
            if self._replayed is None:
                self._replayed = self._again()
            return self._replayed


class Shelved(State):
    """What was known of a part after a charge; its numbers are on a shelf."""

    def __init__(self, stack: Stack, place: int, moment: int, weight: float, pieces: int) -> None:
        facts = {"moment": moment, "weight": weight, "pieces": pieces}
        self.__dict__.update(facts, _stack=stack, _place=place)

    @property
    def _numbers(self) -> tuple[Values, Values]:
        stack: Stack = self.__dict__["_stack"]
        return stack.numbers(self.__dict__["_place"])

    @property
    def sums(self) -> Values:
        """Coefficients times their weight."""
        return self._numbers[0]

    @property
    def spreads(self) -> Values:
        """Their variances, times the square of the weight."""
        return self._numbers[1]

    @property
    def part(self) -> tuple[Values, Values]:
        """Coefficients, and their variances."""
        sums, spreads = self._numbers
        return sums / self.weight, spreads / self.weight**2


class Stack(list[State]):
    """The states of one part, oldest first: those on the shelf, and those that came since, which are in memory."""

    def __init__(self, shelf: Shelf, part: Columns, shape: tuple[int, ...], places: Places, known: Known) -> None:
        self.shelf, self.key, self.shape, self.places = shelf, part, shape, places
        super().__init__(Shelved(self, i, *facts) for i, facts in enumerate(zip(*known, strict=True)))

    def numbers(self, place: int) -> tuple[Values, Values]:
        """Sums and spreads of one state."""

        def read(data: bytes) -> tuple[Values, Values]:
            both = np.frombuffer(data, dtype="<f8").reshape(2, *self.shape)
            return both[0], both[1]

        def rebuilt(record: Record) -> tuple[Values, Values]:
            state = record.transcript.states(self.key)[place]
            return state.sums, state.spreads

        found: tuple[Values, Values] = self.shelf.kept(self.places, place, read, rebuilt)
        return found


class ShelvedOwn(Mapping[str, "list[Own]"]):
    """What was measured for single goals until the checkpoint, by the key of the goal."""

    def __init__(
        self, shelf: Shelf, names: list[bytes], places: Places, read: Callable[[bytes], tuple[str, list[Own]]]
    ) -> None:
        self.shelf, self._names, self.places, self._parse = shelf, names, places, read

    def place(self, key: object) -> int | None:
        """Where the goal of this key is in the index."""
        if not isinstance(key, str):
            return None
        wanted = name_of(key)
        i = bisect_left(self._names, wanted)
        return i if i < len(self._names) and self._names[i] == wanted else None

    def raw(self, without: Container[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The names and bytes of all goals but some, to be written again as they are; raises Damaged."""
        for i, name in enumerate(self._names):
            if name not in without:
                yield name, self.shelf.piece(self.places, i)

    def __getitem__(self, key: str) -> list[Own]:
        i = self.place(key)
        if i is None:
            raise KeyError(key)
        found: list[Own] = self.shelf.kept(
            self.places, i, lambda data: self._parse(data)[1], lambda record: list(record.own[key])
        )
        return found

    def __contains__(self, key: object) -> bool:
        return self.place(key) is not None

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self._names)):
            try:
                yield self._parse(self.shelf.piece(self.places, i))[0]
            except (Damaged, OSError):
                yield next(key for key in self.shelf.replayed.own if name_of(key) == self._names[i])


def name_of(key: str) -> bytes:
    """A short name of a goal, for the index."""
    return hashlib.sha256(key.encode()).digest()[:16]
