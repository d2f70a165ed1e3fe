"""MemoryLedger: the account of one process, lost when the process ends."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from maquette.errors import LedgerError
from maquette.privacy.ledger import machine
from maquette.privacy.ledger.api import Receipt, Terms
from maquette.privacy.ledger.book import Book, BookLedger, open_book
from maquette.privacy.ledger.chain import GENESIS, KEY_BYTES, Chain, ChainEvent
from maquette.privacy.ledger.machine import Hits, Membership, Place, Spending
from maquette.privacy.ledger.replay import compare, replayed

T = TypeVar("T")


class MemoryStorage:
    """Events in a list, and the books that follow from them in dicts."""

    def __init__(self, limit: int, events: Sequence[ChainEvent] = ()) -> None:
        self.limit = limit
        self.boot = 0
        self.requests: dict[str, Place] = {}
        self.budgets: dict[str, Spending] = {}
        self.guards: dict[str, Hits] = {}
        self.members: dict[int, Membership] = {}
        self.events = list(events)
        for event in self.events:
            machine.follow(self, event.seq, event.kind, json.loads(event.facts))

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC."""
        return (self.events[-1].seq, self.events[-1].mac) if self.events else (0, GENESIS)

    def append(self, event: ChainEvent) -> None:
        """Keep the next event of the chain."""
        self.events.append(event)

    def event(self, seq: int) -> ChainEvent:
        """The event of this number."""
        return self.events[seq - 1]

    def facts(self, seq: int) -> Sequence[Any]:
        """The facts of the charge or answer with this event number."""
        facts: list[Any] = json.loads(self.event(seq).facts)
        return facts

    def charges_after(self, seq: int, count: int) -> list[ChainEvent]:
        """The next `count` charges after this number, oldest first."""
        later = (self.events[place] for place in range(seq, len(self.events)))
        return list(islice((event for event in later if event.kind == "charge"), count))


class MemoryLedger(BookLedger):
    """A ledger that lives as long as it is referenced: no file, no durability, the same rules, chain and checks.

    Privacy: it enforces `terms.limit` as a filter, in integers: a charge that would exceed the limit is refused before
    any row is read. It cannot be copied or pickled, and a forked process cannot use it: a copy would spend the same
    budget again. If a write is interrupted, the charge is kept and the books are rebuilt from the events.
    """

    def __init__(self, terms: Terms, *, key: bytes | None = None) -> None:
        self._chain = Chain(secrets.token_bytes(KEY_BYTES) if key is None else key)
        self._storage = MemoryStorage(terms.limit)
        self.terms = open_book(self._storage, self._chain, terms)
        self._book = Book(self._storage, self._chain, self.terms.currency)
        self._followed = len(self._storage.events)  # number of events fully applied to the books
        self._closed = False
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        """Where the account is kept."""
        return "memory"

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""
        return self._run(lambda _: self._verified())

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _run(self, operation: Callable[[Book], T]) -> T:
        if os.getpid() != self._pid:
            raise LedgerError(
                f"the ledger was opened by process {self._pid} and is used by its fork {os.getpid()}",
                advice="Both would spend the same budget. Open the ledger after forking.",
            )
        with self._lock:
            if self._closed:
                raise LedgerError("the ledger is closed", advice="Open it again")
            if self._followed != len(self._storage.events):  # a write was interrupted
                self._storage = MemoryStorage(self.terms.limit, self._storage.events)
                self._book = Book(self._storage, self._chain, self.terms.currency)
            result = operation(self._book)
            self._followed = len(self._storage.events)
            return result

    def _verified(self) -> Receipt:
        replay = replayed([self._storage.events], self._chain)
        books: tuple[tuple[str, Mapping[str, tuple[Any, ...]]], ...] = (
            ("request", self._storage.requests),
            ("budget", self._storage.budgets),
            ("guard", self._storage.guards),
        )
        compare(replay, {name: [(key, *rows[key]) for key in sorted(rows)] for name, rows in books})
        return replay.receipt
