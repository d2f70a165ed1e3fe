"""A PostgreSQL ledger that several processes use at once: one chain, one budget, one order of events.

Every process is a member. Its epoch is the number of the event by which it joined, and its charges carry the epoch as
their owner. While it lives it holds an advisory lock with its epoch's name on its connection; who can take that lock
knows that the connection is gone, and writes into the chain that the member has left. From then on its reservations are
lost, and it is fenced: every transaction locks the ledger's one row first and then looks whether its own epoch goes on.
No clock decides anything, and a process that wakes up late can neither charge nor commit.

The first member to come finds nobody else, boots the ledger (whatever was reserved before is lost) and joins; others
join only. A process that wants the ledger for itself (`PostgresLedger`) and members exclude each other.

All writes take the ledger's row one after the other, so events become visible in the order of their numbers: who has
read up to a number has read everything below it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from maquette.errors import LedgerError, RequestBusy
from maquette.privacy.ledger.api import Charge, Overtaken, Recorded, Request, Terms, Ticket
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.postgres import PostgresLedger, connect, lock_number, locked, prepared
from maquette.privacy.ledger.postgres_storage import Connection, PostgresBroken, PostgresStorage, Statement
from maquette.privacy.ledger.terms import admit

T = TypeVar("T")
Clash = Callable[[Sequence[Charge]], bool]

PAUSE = 0.05  # seconds between two looks at a lock


class SharedPostgresLedger(PostgresLedger):
    """A ledger in the schema `maquette_NAME` of a PostgreSQL database, for several processes.

    Privacy: as for every ledger. All members spend from one limit, which each charge is compared with inside the one
    transaction that also writes it. A member that another has declared dead can neither charge nor commit, so what it
    had reserved is never released. Connect to the database itself: a pool that lends one connection to several programs
    would lend its locks too. `wait` is for a process that is opening the ledger, or owns it alone.
    """

    def __init__(
        self,
        address: str,
        terms: Terms,
        *,
        name: str = "ledger",
        key: bytes | None = None,
        key_path: str | Path | None = None,
        anchor: str | Path | None = None,
        wait: float = 60.0,
    ) -> None:
        self.epoch = 0
        self._first = False
        self._wait = wait
        self._reader: Connection | None = None
        self._blind = False
        self._reading = threading.Lock()
        self._plans = threading.local()
        super().__init__(address, terms, name=name, key=key, key_path=key_path, anchor=anchor)
        try:
            self._reader = connect(address)
            self._reader.execute(f"SET search_path TO {self._schema}")
            if self._first:  # others may come: the ledger is booted and its key is in place
                everyone = (lock_number(self._schema),)
                self._connection.execute("SELECT pg_advisory_lock_shared(%s)", everyone)
                self._connection.execute("SELECT pg_advisory_unlock(%s)", everyone)
            self.settle()
        except BaseException:
            self.close()
            raise

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request durably, or return its recorded answer."""
        plan = getattr(self._plans, "plan", None)
        self._expect(request)
        try:
            return self._run(lambda book: self._reserved(book, request, plan))
        except Overtaken:
            raise
        except RequestBusy:  # perhaps its owner is dead
            self.settle()
            return self._run(lambda book: self._reserved(book, request, plan))

    def charges_since(self, seq: int) -> list[Charge]:
        """The next charges after this event, of all processes, oldest first; a page of them."""
        return self._look(lambda book: book.charges(seq))

    @contextmanager
    def unless(self, clash: Clash, *, after: int) -> Iterator[None]:
        """Within the block a new charge of this thread is refused (Overtaken) if those of others since then clash."""
        self._plans.plan = clash, after
        try:
            yield
        finally:
            self._plans.plan = None

    def settle(self) -> None:
        """End the membership of processes that have died: what they had reserved is lost."""
        query = 'SELECT epoch FROM member WHERE "left" IS NULL AND epoch > %s AND epoch <> %s'
        for (epoch,) in self._read(lambda reader: reader.execute(query, (self._boot_seq, self.epoch)).fetchall()):
            if self._read(lambda reader: _is_dead(reader, self._member(epoch))):  # noqa: B023 -- called at once
                self._writer.run(lambda storage: self._bury(storage, epoch))  # noqa: B023

    @property
    def stopped(self) -> bool:
        """Whether it was closed, a write failed, or it cannot read any longer."""
        return self._blind or super().stopped

    def close(self) -> None:
        """Leave the ledger; pending requests are finished first."""
        if self._writer.running:
            with suppress(LedgerError):
                self._run(lambda book: book.leave(self.epoch))
        super().close()
        if self._reader is not None and not self._writer.inherited:
            with self._reading:
                self._reader.close()

    def _reserved(self, book: Book, request: Request, plan: tuple[Clash, int] | None) -> Ticket | Recorded:
        if plan is not None:
            clash, after = plan
            if clash(book.all_charges(after)):
                raise Overtaken(
                    "another process has just charged for the same",
                    advice="nothing was charged. Ask again.",
                )
        return book.reserve(request)

    def _bury(self, storage: PostgresStorage, epoch: int) -> None:
        """Write that a member has left, if its connection is gone: inside the transaction its lock can be taken."""
        if storage.execute("SELECT pg_try_advisory_xact_lock(%s)", (self._member(epoch),)).fetchone()[0]:
            self._book(storage).leave(epoch)

    def _look(self, operation: Callable[[Book], T]) -> T:
        """Run an operation that only reads, on a connection of its own: it waits for no transaction."""
        if not self._writer.running:
            return self._run(operation)  # says why not
        return self._read(lambda reader: operation(self._book(self._storage(reader))))

    def _read(self, operation: Callable[[Connection], T]) -> T:
        assert self._reader is not None, "reading begins when the ledger is open"
        with self._reading:
            try:
                return operation(self._reader)
            except PostgresBroken:
                self._blind = True
                raise

    def _book(self, storage: PostgresStorage) -> Book:
        return Book(storage, self._chain, self.terms.currency, self.epoch or None)

    def _own(self) -> bool:
        """Take the ledger's lock: alone if nobody has it, else with the other members."""
        number = (lock_number(self._schema),)
        for left in reversed(range(math.ceil(self._wait / PAUSE) + 1)):
            if self._connection.execute("SELECT pg_try_advisory_lock(%s)", number).fetchone()[0]:
                self._first = True
                break
            if self._connection.execute("SELECT pg_try_advisory_lock_shared(%s)", number).fetchone()[0]:
                break
            if not left:
                raise locked(self._schema)
            threading.Event().wait(PAUSE)
        return prepared(self._connection, self._schema)

    def _open(self, *, fresh: bool) -> None:
        """Create or verify the ledger; boot it if nobody else is here; then join."""
        if self._first:
            super()._open(fresh=fresh)
        else:
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")  # others need not wait
            try:
                admit(self._verified(), self.terms)
            finally:
                with suppress(PostgresBroken):
                    self._connection.execute("ROLLBACK")
        with self._transaction(booting=True) as storage:
            (self._boot_seq,) = storage.execute("SELECT boot FROM epoch").fetchone()
            self.epoch = self._book(storage).add(Entry("join", [])).seq
            storage.execute("SELECT pg_advisory_lock(%s)", (self._member(self.epoch),))

    @property
    def _fence(self) -> list[Statement]:
        return [('SELECT "left" FROM member WHERE epoch = %s', (self.epoch,))]

    def _may_write(self, boot: int, fence: Sequence[list[Any]]) -> bool:
        return boot == self._boot_seq and fence == [[(None,)]]

    def _member(self, epoch: int) -> int:
        return lock_number(f"{self._schema} member {epoch}")


def _is_dead(reader: Connection, number: int) -> bool:
    """Whether nobody holds this lock now; asked before a transaction is begun for it."""
    if not reader.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()[0]:
        return False
    reader.execute("SELECT pg_advisory_unlock(%s)", (number,))
    return True
