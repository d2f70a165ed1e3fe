"""The home of a ledger: opening, verifying and booting it, and the durable transaction that all its writes share."""

from __future__ import annotations

import secrets
import sqlite3
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked, PrivacyWarning
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt, Terms
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.chain import KEY_BYTES, Chain
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.replay import FORMAT, Replay
from maquette.privacy.ledger.terms import admit, founding, keyed
from maquette.privacy.ledger.witnesses import Witnesses

if TYPE_CHECKING:
    from maquette.privacy.ledger.files import Anchor, Lock
    from maquette.privacy.ledger.head import Head

T = TypeVar("T")


class Home:
    """An open database with its chain; on disk also its lock, head file and anchor."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        chain: Chain,
        terms: Terms,
        *,
        lock: Lock | None = None,
        head: Head | None = None,
        anchor: Anchor | None = None,
    ) -> None:
        self.connection = connection
        self.chain = chain
        self.terms = keyed(terms, chain)
        self.boot_seq = 0
        self._lock = lock
        self._head = head
        self._anchor = anchor
        self._version: int | None = None
        self._told: int | None = None

    def book(self, connection: sqlite3.Connection) -> Book:
        """The book for one operation, inside a transaction of this connection."""
        storage = store.SqliteStorage(connection, limit=self.terms.limit, boot=self.boot_seq)
        return Book(storage, self.chain, self.terms.currency)

    def witnesses(self) -> Witnesses:
        """What the head file and the anchor remember now."""
        return Witnesses.read(self._head, self._anchor)

    def admit(self, witnesses: Witnesses) -> Replay:
        """Verify the stored ledger and compare its terms with ours; an error gives the reason."""
        self.connection.execute("BEGIN")
        try:
            replay = witnesses.verify(self.connection, self.chain)
        finally:
            self.connection.execute("ROLLBACK")
        admit(replay, self.terms)
        self.boot_seq = replay.boot
        return replay

    def renew(self, replay: Replay) -> None:
        """Give a ledger of version 0.1 its head file, once.

        The head file comes first: after a crash in between, the ledger is checked against it. The checkpoint comes
        last: the new format, which requires a head file, must be in the main file, where losing the log cannot remove
        it.
        """
        assert self._head is not None
        if replay.boot == 0:
            raise LedgerCorrupted(
                "this ledger of version 0.1 holds no event but its creation: either it was interrupted there, or its "
                "log (the -wal file) is lost and with it what was spent",
                advice="Put the newest files back in place. If "
                "nothing was ever asked through it, delete it with its key and start anew; else `maquette verify "
                "--recover` charges the whole budget as lost (docs/how-to/ledger-recovery.md).",
            )
        if self._head.read() is None:
            self._head.replace(store.standing(self.connection))
        with self._durably() as connection:
            self.book(connection).add(Entry("terms", {**replay.terms, "format": FORMAT}))
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        warnings.warn(
            "this ledger of version 0.1 now keeps a .head file beside it, which betrays a lost log or an older copy: "
            "back it up with the ledger. Version 0.1 cannot open the ledger any more.",
            PrivacyWarning,
            stacklevel=2,
        )

    def boot(self, *, sole: bool) -> None:
        """Append a boot event: requests reserved before it are lost, and guards opened before it are closed."""
        with self._durably() as connection:
            self.boot_seq = self.book(connection).add(Entry("boot", [])).seq
        self._version = self._data_version() if sole else None

    def verify(self, connection: sqlite3.Connection) -> Receipt:
        """Check everything again, inside a transaction."""
        return self.witnesses().verify(connection, self.chain).receipt

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside becomes durable and is remembered by head file and anchor; otherwise it raises."""
        with self._lock.turn() if self._lock else nullcontext(), self._durably() as connection:
            yield connection

    def reading(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation of one SELECT outside a transaction: it sees the last commit of any process."""
        result = operation(self.connection)
        self._check_sole()
        return result

    @property
    def spent(self) -> int | None:
        """Units spent as of the last durable commit; None where another process may have spent more."""
        return None if self._version is None else self._told

    def close(self) -> None:
        """Close the database, then let others in."""
        with suppress(sqlite3.Error):
            self.connection.close()
        if self._lock:
            self._lock.close()

    def leave(self) -> None:
        """In a forked child: drop the inherited lock without touching the parent's database."""
        if self._lock:
            self._lock.close()

    @contextmanager
    def _durably(self) -> Iterator[sqlite3.Connection]:
        self._begin()
        try:
            self._check_sole()
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise
        if self._head:
            mark = store.standing(self.connection)
            self._head.advance(mark, self.connection)
            if self._anchor:
                self._anchor.advance(Receipt(mark.seq, mark.head))
            self._told = mark.spent

    def _check_sole(self) -> None:
        if self._version not in (None, self._data_version()):
            raise LedgerError("another process wrote to the ledger although this one holds its lock.")

    def _begin(self) -> None:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY":
                raise
            raise LedgerLocked(
                f"another program kept the ledger locked for {store.BUSY_SECONDS:.0f} s",
                advice="nothing was charged. Close whatever else has the file open, then ask again.",
            ) from None

    def _data_version(self) -> int:
        """A number that changes only when another connection commits."""
        version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return version


def in_memory(terms: Terms, key: bytes | None) -> Home:
    """A ledger that lives as long as it is referenced; it need not be closed."""
    home = Home(store.connect(None), Chain(secrets.token_bytes(KEY_BYTES) if key is None else key), terms)
    weakref.finalize(home, home.connection.close)
    _found(home)
    home.boot(sole=True)
    return home


def on_disk(
    path: Path, terms: Terms, *, key: bytes | None, key_path: Path | None, anchor: Path | None, shared: bool
) -> Home:
    """Open or create the ledger at `path`; the first process to open it boots it."""
    from maquette.privacy.ledger.files import Anchor, Lock, beside, check_place, load_key, new_key, settle
    from maquette.privacy.ledger.head import Head

    path = path.resolve()
    check_place(path)
    key_path = key_path or beside(path, ".key")
    with ExitStack() as undo:
        lock = Lock(path, shared=shared)
        undo.callback(lock.close)
        anchoring = Anchor(anchor) if anchor else None
        with lock.arrival() as alone:
            if alone and not path.exists():
                if anchoring:
                    anchoring.begin()
                _create(path, Chain(new_key(key_path) if key is None else key), terms)
            if alone:
                settle(beside(path, ".head"))
            chain = Chain(load_key(key_path) if key is None else key)
            head = Head(path, chain)
            home = Home(store.connect(path), chain, terms, lock=lock, head=head, anchor=anchoring)
            undo.callback(home.close)
            witnesses = home.witnesses()
            if alone:
                replay = home.admit(witnesses)
                if not replay.headed:
                    home.renew(replay)
                home.boot(sole=not shared)
        if not alone:  # outside the turn, so that processes that already have it open need not wait
            home.admit(witnesses)
        undo.pop_all()
    return home


def _create(path: Path, chain: Chain, terms: Terms) -> None:
    """Build the first database in memory and move it into place complete: a file at `path` is always a ledger."""
    from maquette.privacy.ledger.files import write_new
    from maquette.privacy.ledger.head import Head

    home = Home(store.connect(None), chain, terms)
    _found(home)
    Head(path, chain).prepare(store.standing(home.connection))
    write_new(path, home.connection.serialize())
    home.connection.close()


def _found(home: Home) -> None:
    store.create(home.connection)
    home.book(home.connection).add(founding(home.terms))
