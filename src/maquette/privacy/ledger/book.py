"""A ledger over any storage: the state machine decides, the chain links events, the storage keeps them.

A new backend implements `Storage` (rows by key, events by number, the head) and a way to run an operation in a durable
transaction (`BookLedger._run`). Rules, prices, refusals and MACs are the same for all.
"""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from maquette.privacy.ledger import machine
from maquette.privacy.ledger.api import Charge, Receipt, Recorded, Request, Terms, Ticket, check_units
from maquette.privacy.ledger.chain import Chain, ChainEvent
from maquette.privacy.ledger.machine import Books, Entry
from maquette.privacy.ledger.replay import replayed
from maquette.privacy.ledger.terms import admit, compare_terms, founding, keyed
from maquette.privacy.units import UNITS_PER_ONE

PAGE = 1_000

_as_text = json.JSONEncoder(separators=(",", ":")).encode

T = TypeVar("T")


class Storage(Books, Protocol):
    """Events and books inside one transaction: either everything written in it is kept, or nothing."""

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC; another process may have changed it."""

    def append(self, event: ChainEvent) -> None:
        """Keep the next event of the chain."""

    def event(self, seq: int) -> ChainEvent:
        """The event with this number; the books say that it exists."""

    def charges_after(self, seq: int, count: int) -> Sequence[ChainEvent]:
        """The next `count` events of kind "charge" after this number, oldest first."""


class Book:
    """The operations of a ledger on a storage, each inside the caller's transaction.

    A refusal is raised before anything is written.
    """

    def __init__(self, storage: Storage, chain: Chain, currency: str, owner: int | None = None) -> None:
        self._storage = storage
        self._chain = chain
        self._currency = currency
        self._owner = owner  # the epoch of the member that writes; None where one process owns the ledger

    def add(self, entry: Entry) -> Receipt:
        """Append an entry to the chain and apply it to the books."""
        last, previous = self._storage.head()
        seq, text = last + 1, _as_text(entry.facts)
        mac = self._chain.link(previous, seq, entry.kind, text, entry.content)
        self._storage.append(ChainEvent(seq, entry.kind, text, entry.content, mac))
        machine.follow(self._storage, seq, entry.kind, entry.facts)
        return Receipt(seq, mac.hex())

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request, or find its recorded answer."""
        decided = machine.reserve(self._storage, request, self._currency, self._owner)
        return self._recorded(decided) if isinstance(decided, int) else Ticket(request, self.add(decided).seq)

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool) -> Receipt:
        """Record the answer."""
        return self.add(machine.commit(self._storage, ticket, answer, hit=hit))

    def withhold(self, ticket: Ticket) -> Receipt:
        """Give up the request, answered or not."""
        return self.add(machine.withhold(self._storage, ticket))

    def open_guard(self, id: str, hits: int) -> None:  # noqa: A002
        """Open a guard with this number of hits."""
        self.add(machine.open_guard(self._storage, id, hits, self._owner))

    def leave(self, epoch: int) -> None:
        """End a membership, unless it has ended."""
        entry = machine.leave(self._storage, epoch)
        if entry is not None:
            self.add(entry)

    def hits_left(self, guard: str) -> int:
        """Hits this guard can still take."""
        return machine.hits_left(self._storage, guard, self._owner)

    def limit_analyst(self, analyst: str, units: int) -> None:
        """Give one analyst a separate limit."""
        entry = machine.limit_analyst(self._storage, analyst, units)
        if entry is not None:
            self.add(entry)

    def spent(self, scope: str) -> int:
        """Units charged to the table or to an analyst."""
        return machine.spending(self._storage, scope)[1]

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC."""
        return self._storage.head()

    def holds(self, seq: int, mac: bytes) -> bool:
        """Whether the chain holds this event."""
        return 0 < seq <= self._storage.head()[0] and self._storage.event(seq).mac == mac

    def left(self, analyst: str) -> int:
        """The most that one charge of this analyst may take."""
        spendings = (machine.spending(self._storage, scope) for scope in machine.scopes(self._storage, analyst))
        return max(0, min(limit - spent for limit, spent in spendings))

    def charges(self, after: int) -> list[Charge]:
        """The next page of charges after this number."""
        return [self._charge(event) for event in self._storage.charges_after(after, PAGE)]

    def all_charges(self, after: int) -> list[Charge]:
        """Every charge after this number."""
        found = page = self.charges(after)
        while len(page) == PAGE:
            page = self.charges(page[-1].seq)
            found = found + page
        return found

    def lookup(self, id: str) -> Recorded | None:  # noqa: A002
        """The recorded answer of a request, if it has one."""
        _, answered = self._storage.requests.get(id) or (None, None)
        return self._recorded(answered) if answered else None

    def _charge(self, event: ChainEvent) -> Charge:
        id, analyst, digest, units, *_ = facts = json.loads(event.facts)  # noqa: A001
        charged, answered = self._storage.requests.get(id) or (event.seq, None)
        left = answered is None and machine.left(self._storage, facts)
        state = machine.state(charged, answered, self._storage.boot, left=left)
        return Charge(event.seq, id, analyst, digest, units, state, event.content.decode())

    def _recorded(self, answered: int) -> Recorded:
        event = self._storage.event(answered)
        return Recorded(event.content, Receipt(event.seq, event.mac.hex()))


def open_book(storage: Storage, chain: Chain, terms: Terms, events: Sequence[ChainEvent] = ()) -> Terms:
    """Create a ledger in an empty storage, or verify the existing one and compare its terms with these; then boot it.

    Returns the terms with the data's digest under the key. `events` are all events in the storage.
    """
    bound, book = keyed(terms, chain), Book(storage, chain, terms.currency)
    if storage.head()[0]:
        admit(replayed([events], chain), bound)
    else:
        book.add(founding(bound))
    book.add(Entry("boot", []))
    return bound


class BookLedger(ABC):
    """The `Ledger` protocol on top of `_run`, which runs an operation on the book in its own transaction.

    `_run` returns, or raises, only when the outcome is as durable as the storage can make it.
    """

    terms: Terms
    _chain: Chain

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, {self.terms.currency}, limit {_one(self.terms.limit):g})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger cannot be pickled or copied: both copies would spend the same budget")

    def _repr_html_(self) -> str:
        facts = {
            "kept in": self.where,
            "protects": self.terms.protects,
            "accounting": self.terms.currency,
            "spent": f"{_one(self.spent()):.4g} of {_one(self.terms.limit):.4g}",
            "charges": f"{sum(1 for _ in self.charges()):,}",
        }
        rows = "".join(f"<tr><th>{word}</th><td>{html.escape(fact)}</td></tr>" for word, fact in facts.items())
        return f"<table><caption>Ledger</caption>{rows}</table>"

    @property
    @abstractmethod
    def where(self) -> str:
        """Where the account is kept, as text for people."""

    @abstractmethod
    def _run(self, operation: Callable[[Book], T]) -> T:
        """Run an operation in a transaction."""

    def _look(self, operation: Callable[[Book], T]) -> T:
        """Run an operation that reads one row."""
        return self._run(operation)

    @abstractmethod
    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""

    @abstractmethod
    def close(self) -> None:
        """Release the ledger; pending requests are finished first."""

    @property
    def stopped(self) -> bool:
        """Whether it refuses everything from now on, because it was closed or a write failed; open it again then."""
        return False

    def check(self, terms: Terms) -> None:
        """Raise LedgerMismatch unless this ledger was made for exactly these terms."""
        compare_terms(self.terms, keyed(terms, self._chain))

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request durably, or return its recorded answer."""
        return self._run(lambda book: book.reserve(request))

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool = True) -> Receipt:
        """Record the answer durably; only then may it be released."""
        return self._run(lambda book: book.commit(ticket, answer, hit=hit))

    def withhold(self, ticket: Ticket) -> Receipt:
        """Give up the request durably, answered or not: no answer is ever released."""
        return self._run(lambda book: book.withhold(ticket))

    def open_guard(self, id: str, *, hits: int) -> None:  # noqa: A002
        """Open a guard with this number of hits; it closes forever when the ledger next boots."""
        check_units("number of hits", hits)
        self._run(lambda book: book.open_guard(id, hits))

    def hits_left(self, guard: str) -> int:
        """Hits this guard can still take; 0 once it is closed."""
        return self._run(lambda book: book.hits_left(guard))

    def limit_analyst(self, analyst: str, units: int) -> None:
        """Give one analyst a separate limit, in addition to the table's."""
        check_units(f"limit of analyst {analyst!r}", units)
        self._run(lambda book: book.limit_analyst(analyst, units))

    def spent(self, analyst: str | None = None) -> int:
        """Units charged to the table, or to one analyst; reserved and lost requests count."""
        scope = machine.TABLE_SCOPE if analyst is None else machine.analyst_scope(analyst)
        return self._look(lambda book: book.spent(scope))

    def left(self, analyst: str) -> int:
        """The most that one charge of this analyst may take: from the table, a limited group and a limit of its own."""
        return self._look(lambda book: book.left(analyst))

    @property
    def beside(self) -> Path | None:
        """The file beside which things that follow from this ledger may be kept; None if there is no such file."""
        return None

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC."""
        return self._run(lambda book: book.head())

    def holds(self, seq: int, mac: bytes) -> bool:
        """Whether the chain holds an event with this number and MAC, and so everything before it."""
        return self._run(lambda book: book.holds(seq, mac))

    def stamp(self, data: bytes) -> bytes:
        """The MAC, under this ledger's key, of something kept beside it."""
        return self._chain.stamp(data)

    def told(self) -> int:
        """Units charged to the table, as of the last commit or later; waits for nobody where that is possible."""
        return self.spent()

    def charges(self, after: int = 0) -> Iterator[Charge]:
        """Every charge after this event number, oldest first, read page by page so that others are not blocked."""
        last = after
        while page := self._run(lambda book: book.charges(last)):  # noqa: B023 -- run before `last` moves
            yield from page
            last = page[-1].seq

    def lookup(self, id: str) -> Recorded | None:  # noqa: A002
        """The recorded answer of a request, if it has one."""
        return self._run(lambda book: book.lookup(id))


def _one(units: int) -> float:
    return units / UNITS_PER_ONE
