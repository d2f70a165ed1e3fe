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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from maquette.bounded import Bounded
from maquette.errors import LedgerError, LedgerLocked
from maquette.privacy.ledger.api import Receipt, Recorded, Request, Terms, Ticket
from maquette.privacy.ledger.book import Book, BookLedger
from maquette.privacy.ledger.chain import KEY_BYTES, Chain, ChainEvent
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.postgres_storage import (
    EVENTS,
    Connection,
    Facts,
    PostgresBroken,
    PostgresStorage,
    Statement,
)
from maquette.privacy.ledger.replay import Replay, Row, compare, replayed
from maquette.privacy.ledger.terms import admit, founding, keyed
from maquette.privacy.ledger.writer import Writer

T = TypeVar("T")

VERSION = 2
BATCH = 2_000
FACTS = 10_000  # of charges whose answers may come
EXPECTED = 1_000
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
        self._facts: Facts = Bounded(FACTS)
        self._expected: deque[tuple[str, str]] = deque(maxlen=EXPECTED)  # requests and analysts of what waits
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

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request durably, or return its recorded answer."""
        self._expect(request)
        return super().reserve(request)

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool = True) -> Receipt:
        """Record the answer durably; only then may it be released."""
        self._expect(ticket.request)
        return super().commit(ticket, answer, hit=hit)

    def _expect(self, request: Request) -> None:
        """Let the next transaction read what is known of a request; it reads one by one what it was not told of."""
        if (request.id + request.analyst).isprintable():
            self._expected.append((request.id, request.analyst))

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""

        def verified(storage: PostgresStorage) -> Receipt:
            storage.send()
            return self._verified().receipt

        return self._writer.run(verified)

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
        return self._writer.run(lambda storage: operation(self._book(storage)))

    def _book(self, storage: PostgresStorage) -> Book:
        return Book(storage, self._chain, self.terms.currency)

    def _storage(self, connection: Connection, **given: Any) -> PostgresStorage:
        return PostgresStorage(connection, limit=self.terms.limit, boot=self._boot_seq, **given)

    def _upcoming(self) -> list[tuple[str, str]]:
        """What `_expect` was told since the last look."""
        return [self._expected.popleft() for _ in range(len(self._expected))]

    def _own(self) -> bool:
        return _owned(self._connection, self._schema)

    def _open(self, *, fresh: bool) -> None:
        """Create or verify the ledger, then boot it: the epoch of every earlier owner ends here."""
        if fresh and self._anchor:
            self._anchor.begin()
        with self._transaction(booting=True) as storage:
            if fresh:
                self._book(storage).add(founding(self.terms))
            else:
                admit(self._verified(), self.terms)
            self._boot_seq = self._book(storage).add(Entry("boot", [])).seq
            storage.execute("UPDATE epoch SET boot = %s", (self._boot_seq,))

    @contextmanager
    def _transaction(self, *, booting: bool = False) -> Iterator[PostgresStorage]:
        """Everything inside becomes durable, or it raises; an owner whose epoch has ended is refused."""
        storage = self._storage(self._connection, facts=self._facts, expected=self._upcoming)
        try:
            _, ((boot,),), *fence = self._connection.together(
                [("BEGIN", ()), ("SELECT boot FROM epoch FOR UPDATE", ()), *self._fence]
            )
            if not booting and not self._may_write(boot, fence):
                raise PostgresBroken(
                    "another process has taken over this ledger since",
                    advice="Nothing was charged. Restart this process if it should own the ledger again.",
                )
            yield storage
            storage.send(("COMMIT", ()))
        except BaseException:
            with suppress(LedgerError):
                self._connection.execute("ROLLBACK")
            raise
        if self._anchor:
            seq, mac = storage.head()
            self._anchor.advance(Receipt(seq, mac.hex()))

    @property
    def _fence(self) -> list[Statement]:
        """What else is asked inside every transaction, each in a statement of its own once it has locked the ledger.

        One that also waited for the row would see the ledger as of before it waited.
        """
        return []

    def _may_write(self, boot: int, fence: Sequence[list[Any]]) -> bool:
        """Whether the epoch of this process goes on, by the last boot and what `_fence` asked."""
        return boot == self._boot_seq

    def _verified(self) -> Replay:
        """Replay all events and compare the books, inside a transaction."""
        return _verified(self._connection, self._chain, self._anchor.read() if self._anchor else None)


def _verified(connection: Connection, chain: Chain, anchored: Receipt | None) -> Replay:
    """Replay all events and compare the books, inside a transaction."""
    again = partial(_event, connection)
    replay = replayed(_batches(connection, "event", f"{EVENTS} ORDER BY seq"), chain, anchored, again)
    books = (("request", 'id COLLATE "C"'), ("budget", 'scope COLLATE "C"'), ("guard", 'id COLLATE "C"'))
    for name, key in (*books, ("member", "epoch")):
        batches = _batches(connection, name, f"SELECT * FROM {name} ORDER BY {key}")
        compare(replay, {name: itertools.chain.from_iterable(batches)})
    return replay


def _event(connection: Connection, seq: int) -> Row | None:
    found: Row | None = connection.execute(f"{EVENTS} WHERE seq = %s", (seq,)).fetchone()
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
        storage = PostgresStorage(connection, limit=0, boot=0)
        for number, row in enumerate(rows, 1):
            storage.append(ChainEvent(*row))
            if number % BATCH == 0:
                storage.send()
        books: tuple[tuple[Any, Mapping[Any, tuple[Any, ...]]], ...] = (
            (storage.requests, replay.requests),
            (storage.budgets, replay.budgets),
            (storage.guards, replay.guards),
            (storage.members, replay.members),
        )
        for table, book in books:
            for number, (key, kept) in enumerate(book.items(), 1):
                table[key] = kept
                if number % BATCH == 0:
                    storage.send()
        storage.send(("UPDATE epoch SET boot = %s", (replay.boot,)), ("COMMIT", ()))
    finally:
        connection.close()


def read_all(address: str, name: str, chain: Chain, anchored: Receipt | None = None) -> tuple[Replay, list[Row]]:
    """Verify a ledger, which may be open meanwhile, and return all its events."""
    with _inside(address, name, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
        replay = _verified(connection, chain, anchored)
        return replay, connection.execute(f"{EVENTS} ORDER BY seq").fetchall()


def relink(address: str, name: str, old: Chain, new: Chain, *, begun: bool) -> Receipt:
    """Link all events anew under another key, in one transaction; `begun`: an earlier attempt may have done it."""
    from maquette.privacy.ledger.places import linked

    with _inside(address, name, "BEGIN", alone=True) as connection:
        rows = connection.execute(f"{EVENTS} ORDER BY seq").fetchall()
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
    connection.execute("SET default_transaction_isolation TO 'read committed'")  # who waited sees what was written
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
