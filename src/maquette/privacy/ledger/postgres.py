"""The ledger in PostgreSQL: the same state machine, chain and checks; another store.

One process at a time owns a ledger (for several see `postgres_shared.py`): it holds an advisory lock of the database
for as long as its connection lives. A successor can take over as soon as that connection is gone, and boots the ledger:
what was reserved before is lost. A process that lost its lock without noticing is fenced by epoch, not by clock: every
transaction locks the ledger's one row and compares the boot written there with its own, so an old owner can neither
charge nor commit.

A transaction is durable when PostgreSQL says so: `synchronous_commit` is set for the connection, and refused if the
server runs without `fsync`. If the connection breaks, the outcome of what was being written is unknown; the ledger
stops, and is verified when it is opened again.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked
from maquette.privacy.ledger.api import Receipt, Terms
from maquette.privacy.ledger.book import Book, BookLedger
from maquette.privacy.ledger.chain import KEY_BYTES, Chain, ChainEvent
from maquette.privacy.ledger.machine import Entry, Hits, Membership, Place, Spending
from maquette.privacy.ledger.replay import Replay, Row, compare, replayed
from maquette.privacy.ledger.store import Rows, SqliteStorage
from maquette.privacy.ledger.terms import admit, founding, keyed
from maquette.privacy.ledger.writer import Writer

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

VERSION = 2
BATCH = 2_000
NETWORK = {  # unless the address says otherwise: a server that no longer answers is noticed within half a minute
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
REASONS = {  # what the driver says, and how it is told
    "authentication failed": "user or password is wrong",
    "no password supplied": "it wants a password",
    "pg_hba.conf": "its pg_hba.conf does not admit this user from here",
    "does not exist": "there is no such database or user",
    "Connection refused": "nothing listens there",
    "resolve": "the host has no address",
    "Name or service not known": "the host has no address",
    "timeout": "it does not answer",
    "certificate": "its certificate is not trusted",
}

MIGRATIONS = {
    1: (
        "CREATE TABLE event (seq BIGINT PRIMARY KEY, kind TEXT NOT NULL, facts TEXT NOT NULL, content BYTEA NOT NULL, "
        "mac BYTEA NOT NULL)",
        "CREATE TABLE request (id TEXT PRIMARY KEY, charged BIGINT NOT NULL, answered BIGINT)",
        'CREATE TABLE budget (scope TEXT PRIMARY KEY, "limit" BIGINT NOT NULL, spent BIGINT NOT NULL, '
        'CHECK (0 <= spent AND spent <= "limit"))',
        "CREATE TABLE guard (id TEXT PRIMARY KEY, opened BIGINT NOT NULL, hits BIGINT NOT NULL, used BIGINT NOT NULL, "
        "CHECK (0 <= used AND used <= hits))",
        "CREATE TABLE epoch (one BOOLEAN PRIMARY KEY CHECK (one), boot BIGINT NOT NULL)",
        "INSERT INTO epoch VALUES (TRUE, 0)",
        "CREATE INDEX event_charge ON event (seq) WHERE kind = 'charge'",
    ),
    2: ('CREATE TABLE member (epoch BIGINT PRIMARY KEY, "left" BIGINT)',),
}
_EVENTS = "SELECT seq, kind, facts, content, mac FROM event"
_REQUESTS = (
    "SELECT charged, answered FROM request WHERE id = %s",
    "INSERT INTO request VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET answered = excluded.answered",
)
_BUDGETS = (
    'SELECT "limit", spent FROM budget WHERE scope = %s',
    "INSERT INTO budget VALUES (%s, %s, %s) ON CONFLICT (scope) DO UPDATE SET "
    '"limit" = excluded."limit", spent = excluded.spent',
)
_GUARDS = (
    "SELECT opened, hits, used FROM guard WHERE id = %s",
    "INSERT INTO guard VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET used = excluded.used",
)
_MEMBERS = (
    'SELECT "left" FROM member WHERE epoch = %s',
    'INSERT INTO member VALUES (%s, %s) ON CONFLICT (epoch) DO UPDATE SET "left" = excluded."left"',
)


class PostgresBroken(LedgerError):
    """The database failed, or the connection to it."""


class Connection:
    """A connection whose failures are ledger errors, with a text that cannot hold a value."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.turns = 0  # of transactions and undone operations: what was read in one need not hold in the next

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement."""
        import psycopg

        if statement.startswith(("BEGIN", "ROLLBACK", "COMMIT")):
            self.turns += 1
        try:
            return self._connection.execute(statement, values or None, prepare=True)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise _broken(error) from None

    def close(self) -> None:
        """Close it, whatever its state; its locks are free when this returns, and not a moment later."""
        with suppress(Exception):
            self._connection.rollback()
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        with suppress(Exception):
            self._connection.close()


class PostgresStorage(SqliteStorage):
    """The chain and its books in one schema of a database, for a transaction that has locked the ledger's row.

    What was read or written once is remembered, so it serves one transaction, until an operation in it is undone.
    """

    def __init__(self, connection: Any, *, limit: int, boot: int) -> None:
        super().__init__(connection, limit=limit, boot=boot)
        self._last: tuple[int, bytes] | None = None
        self.requests: Rows[Place] = Rows(connection, *_REQUESTS)
        self.budgets: Rows[Spending] = Rows(connection, *_BUDGETS)
        self.guards: Rows[Hits] = Rows(connection, *_GUARDS)
        self.members: Rows[Membership] = Rows(connection, *_MEMBERS)

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC."""
        if self._last is None:
            self._last = super().head()
        return self._last

    def append(self, event: ChainEvent) -> None:
        """Add one event to the chain."""
        self._connection.execute("INSERT INTO event VALUES (%s, %s, %s, %s, %s)", event)
        self._last = event.seq, event.mac

    def event(self, seq: int) -> ChainEvent:
        """The event with this number; the index says that it exists."""
        row = self._connection.execute(f"{_EVENTS} WHERE seq = %s", (seq,)).fetchone()
        if row is None:
            raise LedgerCorrupted(f"event {seq} is missing", advice="Restore the ledger from a backup that verifies")
        return ChainEvent(*row)

    def charges_after(self, seq: int, count: int) -> list[ChainEvent]:
        """The next `count` charges after this number, oldest first."""
        query = (
            "SELECT seq, kind, facts, content, mac FROM event WHERE seq > %s AND kind = 'charge' ORDER BY seq LIMIT %s"
        )
        return [ChainEvent(*row) for row in self._connection.execute(query, (seq, count)).fetchall()]


class PostgresLedger(BookLedger):
    """A ledger in the schema `maquette_NAME` of a PostgreSQL database.

    Privacy: as for every ledger, `terms.limit` is enforced as a filter in integers, a charge is durable before its
    ticket is returned, and an answer before its receipt is. Keep the key file away from the database: who has both can
    forge a chain. `anchor`, a file on another disk, reveals a database that was set back to an older copy.
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
    ) -> None:
        from maquette.privacy.ledger.files import Anchor, load_key

        if not NAME.fullmatch(name):
            raise LedgerError(f"the ledger's name is {name!r}", expected="small letters, digits and _, at most 41")
        self._address, self._schema = address, f"maquette_{name}"
        self._anchor = Anchor(Path(anchor)) if anchor else None
        self._connection = connect(address)
        self._held: tuple[int, PostgresStorage] | None = None
        try:
            fresh = self._own()
            self._chain = _chain(key, None if key_path is None else Path(key_path), fresh=fresh)
            self.terms = keyed(terms, self._chain)
            self._boot_seq = 0
            self._open(fresh=fresh)
            if key is None and key_path is not None:
                load_key(Path(key_path))  # a new key gets its final name now
        except BaseException:
            self._connection.close()
            raise
        self._writer = Writer(self._transaction, threaded=True, broken=(PostgresBroken,))

    @property
    def where(self) -> str:
        """Where the account is kept, without the password."""
        return f"{shown(self._address)} {self._schema}"

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""
        return self._writer.run(lambda _: self._verified().receipt)

    @property
    def stopped(self) -> bool:
        """Whether it was closed or a write failed."""
        return not self._writer.running

    def close(self) -> None:
        """Release the ledger; pending requests are finished first."""
        self._writer.close()
        if not self._writer.inherited:
            self._connection.close()

    def _run(self, operation: Callable[[Book], T]) -> T:
        return self._writer.run(lambda connection: operation(self._book(connection)))

    def _book(self, connection: Any) -> Book:
        return Book(self._storage(connection), self._chain, self.terms.currency)

    def _storage(self, connection: Any) -> PostgresStorage:
        """The storage of an operation: the same for all of one transaction, in which nobody else can write."""
        if connection is not self._connection:
            return PostgresStorage(connection, limit=self.terms.limit, boot=self._boot_seq)
        if self._held is None or self._held[0] != self._connection.turns:
            self._held = connection.turns, PostgresStorage(connection, limit=self.terms.limit, boot=self._boot_seq)
        return self._held[1]

    def _own(self) -> bool:
        return _owned(self._connection, self._schema)

    def _open(self, *, fresh: bool) -> None:
        """Create or verify the ledger, then boot it: the epoch of every earlier owner ends here."""
        if fresh and self._anchor:
            self._anchor.begin()
        with self._transaction(booting=True) as connection:
            if fresh:
                self._book(connection).add(founding(self.terms))
            else:
                admit(self._verified(), self.terms)
            self._boot_seq = self._book(connection).add(Entry("boot", [])).seq
            connection.execute("UPDATE epoch SET boot = %s", (self._boot_seq,))

    @contextmanager
    def _transaction(self, *, booting: bool = False) -> Iterator[Connection]:
        """Everything inside becomes durable, or it raises; an owner whose epoch has ended is refused."""
        connection = self._connection
        connection.execute("BEGIN")
        try:
            (boot,) = connection.execute("SELECT boot FROM epoch FOR UPDATE").fetchone()
            if not booting and not self._may_write(connection, boot):
                raise PostgresBroken(
                    "another process has taken over this ledger since",
                    advice="Nothing was charged. Restart this process if it should own the ledger again.",
                )
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(LedgerError):
                connection.execute("ROLLBACK")
            raise
        if self._anchor:
            seq, mac = connection.execute("SELECT seq, mac FROM event ORDER BY seq DESC LIMIT 1").fetchone()
            self._anchor.advance(Receipt(seq, mac.hex()))

    def _may_write(self, _: Connection, boot: int) -> bool:
        """Whether the epoch of this process goes on; asked inside every transaction, when it has locked the ledger."""
        return boot == self._boot_seq

    def _verified(self) -> Replay:
        """Replay all events and compare the books, inside a transaction."""
        return _verified(self._connection, self._chain, self._anchor.read() if self._anchor else None)


def _verified(connection: Connection, chain: Chain, anchored: Receipt | None) -> Replay:
    """Replay all events and compare the books, inside a transaction."""
    again = partial(_event, connection)
    replay = replayed(_batches(connection, "event", f"{_EVENTS} ORDER BY seq"), chain, anchored, again)
    books = (("request", 'id COLLATE "C"'), ("budget", 'scope COLLATE "C"'), ("guard", 'id COLLATE "C"'))
    for name, key in (*books, ("member", "epoch")):
        batches = _batches(connection, name, f"SELECT * FROM {name} ORDER BY {key}")
        compare(replay, {name: itertools.chain.from_iterable(batches)})
    return replay


def _event(connection: Connection, seq: int) -> Row | None:
    found: Row | None = connection.execute(f"{_EVENTS} WHERE seq = %s", (seq,)).fetchone()
    return found


def _batches(connection: Connection, name: str, query: str) -> Iterator[Sequence[Any]]:
    """The rows of a query, some at a time."""
    connection.execute(f"DECLARE {name}_rows CURSOR FOR {query}")
    while batch := connection.execute(f"FETCH {BATCH} FROM {name}_rows").fetchall():
        yield batch
    connection.execute(f"CLOSE {name}_rows")


def lock_number(text: str) -> int:
    """The number of the advisory lock with this name."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def locked(schema: str) -> LedgerLocked:
    """The refusal of a ledger that another process owns alone."""
    return LedgerLocked(
        f"another process owns the ledger {schema}",
        advice="nothing was charged. It can be opened when that process ends.",
    )


def _owned(connection: Connection, schema: str) -> bool:
    """Take the advisory lock, and create or migrate the tables; whether the ledger is new."""
    if not connection.execute("SELECT pg_try_advisory_lock(%s)", (lock_number(schema),)).fetchone()[0]:
        raise locked(schema)
    return prepared(connection, schema)


def prepared(connection: Connection, schema: str) -> bool:
    """Create or migrate the tables, with the lock; whether the ledger is new."""
    connection.execute("BEGIN")
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        connection.execute(f"SET LOCAL search_path TO {schema}")
        connection.execute("CREATE TABLE IF NOT EXISTS migration (version INTEGER PRIMARY KEY)")
        known = connection.execute("SELECT max(version) FROM migration").fetchone()[0] or 0
        if known > VERSION:
            raise LedgerError(f"the ledger has version {known}", expected=f"{VERSION}; use a newer program")
        for version in range(known + 1, VERSION + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.execute("INSERT INTO migration VALUES (%s)", (version,))
        fresh = connection.execute("SELECT NOT EXISTS (SELECT FROM event)").fetchone()[0]
        connection.execute("COMMIT")
    except BaseException:
        with suppress(LedgerError):
            connection.execute("ROLLBACK")
        raise
    connection.execute(f"SET search_path TO {schema}")
    return bool(fresh)


def adopt(address: str, name: str, replay: Replay, rows: Sequence[Row]) -> None:
    """Write the verified events of another ledger, and the books that follow from them, into a new ledger."""
    connection, schema = connect(address), f"maquette_{name}"
    try:
        if not NAME.fullmatch(name) or not _owned(connection, schema):
            raise LedgerError(
                f"there is a ledger {name!r} in this database already, or the name is not valid",
                advice=f"If it must not be used again, move it away: ALTER SCHEMA {schema} RENAME TO old_{schema}",
            )
        connection.execute("BEGIN")
        for row in rows:
            connection.execute("INSERT INTO event VALUES (%s, %s, %s, %s, %s)", row)
        books: tuple[tuple[tuple[str, str], Mapping[Any, tuple[Any, ...]]], ...] = (
            (_REQUESTS, replay.requests),
            (_BUDGETS, replay.budgets),
            (_GUARDS, replay.guards),
            (_MEMBERS, replay.members),
        )
        for (_, write), book in books:
            for key, kept in book.items():
                connection.execute(write, (key, *kept))
        connection.execute("UPDATE epoch SET boot = %s", (replay.boot,))
        connection.execute("COMMIT")
    finally:
        connection.close()


def read_all(address: str, name: str, chain: Chain, anchored: Receipt | None = None) -> tuple[Replay, list[Row]]:
    """Verify a ledger, which may be open meanwhile, and return all its events."""
    with _inside(address, name, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
        replay = _verified(connection, chain, anchored)
        return replay, connection.execute(f"{_EVENTS} ORDER BY seq").fetchall()


def relink(address: str, name: str, old: Chain, new: Chain, *, begun: bool) -> Receipt:
    """Link all events anew under another key, in one transaction; `begun`: an earlier attempt may have done it."""
    from maquette.privacy.ledger.places import linked

    with _inside(address, name, "BEGIN", alone=True) as connection:
        rows = connection.execute(f"{_EVENTS} ORDER BY seq").fetchall()
        again = linked(rows, new)
        if not begun or rows != again:
            _verified(connection, old, None)
            for seq, *_, mac in again:
                connection.execute("UPDATE event SET mac = %s WHERE seq = %s", (mac, seq))
        return _verified(connection, new, None).receipt


@contextmanager
def retired(address: str, name: str) -> Iterator[None]:
    """Own a ledger alone during the block; at its end the ledger is renamed, so that no program finds it."""
    with _inside(address, name, "BEGIN", alone=True) as connection:
        taken = {schema for (schema,) in connection.execute("SELECT nspname FROM pg_namespace").fetchall()}
        names = (f"moved_maquette_{name}{number or ''}" for number in itertools.count())
        away = next(each for each in names if each not in taken)
        yield
        connection.execute(f"ALTER SCHEMA maquette_{name} RENAME TO {away}")


@contextmanager
def _inside(address: str, name: str, begin: str, *, alone: bool = False) -> Iterator[Connection]:
    """A transaction on an existing ledger."""
    schema, connection = f"maquette_{name}", connect(address)
    try:
        exists = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        if not NAME.fullmatch(name) or connection.execute(exists, (schema,)).fetchone() is None:
            raise LedgerError(f"there is no ledger {name!r} in this database")
        if alone:
            _owned(connection, schema)
        connection.execute(f"SET search_path TO {schema}")
        connection.execute(begin)
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


def network_settings(address: str) -> dict[str, Any]:
    """The parts of a PostgreSQL address, which may name several hosts, with the patience that it does not mention."""
    from psycopg.conninfo import conninfo_to_dict

    return {**NETWORK, **conninfo_to_dict(address)}


def connect(address: str) -> Connection:
    """Connect to a database that keeps what it says it has kept."""
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a PostgreSQL ledger needs the package psycopg", advice='install it with: pip install "maquette[postgres]"'
        ) from None
    try:
        raw = psycopg.connect(**network_settings(address), autocommit=True, application_name="maquette ledger")
    except psycopg.Error as error:
        raise PostgresBroken(
            f"PostgreSQL cannot be reached at {shown(address)} ({_reason(error)})",
            advice="look at the server, and at host, port, database, user and password of the address",
        ) from None
    connection = Connection(raw)
    connection.execute("SET synchronous_commit TO on")
    connection.execute("SET idle_in_transaction_session_timeout TO '60s'")
    if connection.execute("SHOW fsync").fetchone()[0] != "on":
        connection.close()
        raise LedgerError(
            "this PostgreSQL runs without fsync: a power cut could undo a charge", expected="fsync = on in its settings"
        )
    return connection


def shown(address: str) -> str:
    """An address as it may be told: without user, password and settings."""
    return re.sub(r"//[^/]*@", "//", address).partition("?")[0]


def _reason(error: Exception) -> str:
    """Why a connection was refused, in words of our own: the driver's text could hold anything."""
    text = str(error)
    found = [words for sign, words in REASONS.items() if sign in text]
    return found[0] if found else type(error).__name__


def _chain(key: bytes | None, path: Path | None, *, fresh: bool) -> Chain:
    from maquette.privacy.ledger.files import load_key, new_key

    if key is not None:
        return Chain(key)
    if path is None:
        if fresh:
            return Chain(secrets.token_bytes(KEY_BYTES))
        raise LedgerError("the ledger's key is not given", expected="key= or key_path=")
    return Chain(new_key(path) if fresh else load_key(path))


def _broken(error: Exception) -> PostgresBroken:
    """A failure of the database as a ledger error: its class and SQLSTATE only, for its text could hold anything."""
    state = getattr(error, "sqlstate", None)
    return PostgresBroken(
        f"PostgreSQL could not read or write ({type(error).__name__}{'' if state is None else f', {state}'})",
        advice="look at the server; the ledger is verified when it is opened again",
    )
