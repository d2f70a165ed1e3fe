"""Ahead: what a record will hold once the charges in flight are measured. Plans are made on it.

A plan depends on how precisely something is known, never on the numbers; and the precision of a measurement is fixed
before any noise is drawn. So a question that comes while others are being measured is planned exactly as if it had come
after them: their charges are added here with zeros in place of numbers. No answer is ever taken from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from maquette.session.order import Flight
    from maquette.session.own import Own
    from maquette.session.record import Record

LONG = 256  # charges after which it begins anew, so that it does not grow with the session

Key = TypeVar("Key")
Item = TypeVar("Item")


class Layered(Mapping[Key, list[Item]], Generic[Key, Item]):
    """Lists by key over others that it reads and never changes: a list is copied before anything is added to it."""

    def __init__(self, below: Mapping[Key, list[Item]]) -> None:
        self._below = below
        self._own: dict[Key, list[Item]] = {}

    def __getitem__(self, key: Key) -> list[Item]:
        return self._own[key] if key in self._own else self._below[key]

    def get(self, key: Key, default: Any = None) -> Any:
        """The list of a key; that of a mapping would raise, and catch, an error for every key that is not there."""
        found = self._own.get(key)
        return self._below.get(key, default) if found is None else found

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self._below

    def __iter__(self) -> Iterator[Key]:
        return iter({**self._below, **self._own})

    def __len__(self) -> int:
        return len(self._below) + sum(key not in self._below for key in self._own)

    @property
    def layers(self) -> tuple[Mapping[Key, list[Item]], Mapping[Key, list[Item]]]:
        """What is below, and what was added or copied to be added to."""
        return self._below, self._own

    def setdefault(self, key: Key, default: list[Item]) -> list[Item]:
        """The list of a key, to be added to."""
        if key not in self._own:
            self._own[key] = list(self._below.get(key, default))
        return self._own[key]


class Ahead:
    """A record as it will be; made and used with the record's lock."""

    def __init__(self, record: Record) -> None:
        self.curator = record.curator
        self.transcript = record.transcript.fork()
        self.own: Layered[str, Own] = Layered(record.own)
        self.wholes = dict(record.wholes)
        self.directs = record.directs
        self.cells = record.cells
        self.begun = record.begun
        self.before = record.before
        self._record = record
        self._included: set[int] = set()

    @property
    def long(self) -> bool:
        """Whether it has grown enough to begin anew."""
        return len(self._included) >= LONG

    def __contains__(self, flight: Flight) -> bool:
        return flight.number in self._included

    def include(self, flight: Flight) -> None:
        """Add a charge in flight, with zeros for its numbers."""
        from maquette.session.taking import take

        if flight.number not in self._included:
            self._included.add(flight.number)
            take(self, self._record.expected(flight), flight.note, flight.owned)
