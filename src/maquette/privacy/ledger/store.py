"""The ledger's SQLite database: an append-only chain of events, and three tables that index it.

`event` is the truth. `request`, `budget` and `guard` follow from the events: they make a check O(1), and
`verification.py` recomputes them. The rules for writing are in `machine.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger.chain import GENESIS, ChainEvent
from maquette.privacy.ledger.machine import TABLE_SCOPE, Hits, Membership, Place, Spending, Table

Row = TypeVar("Row")

BUSY_SECONDS = 60.0

_ENVIRONMENT = (
    "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_LOCKED", "SQLITE_NOMEM", "SQLITE_PERM",
    "SQLITE_PROTOCOL", "SQLITE_READONLY",
)  # fmt: skip

BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises on a failing database; even SQLite's own message can contain damaged text."""

SCHEMA = (
    "CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, facts TEXT NOT NULL, content BLOB NOT NULL, "
    "mac BLOB NOT NULL) STRICT",
    "CREATE TABLE request (id TEXT PRIMARY KEY, charged INTEGER NOT NULL, answered INTEGER) STRICT, WITHOUT ROWID",
    'CREATE TABLE budget (scope TEXT PRIMARY KEY, "limit" INTEGER NOT NULL, spent INTEGER NOT NULL, '
    'CHECK (0 <= spent AND spent <= "limit")) STRICT, WITHOUT ROWID',
    "CREATE TABLE guard (id TEXT PRIMARY KEY, opened INTEGER NOT NULL, hits INTEGER NOT NULL, used INTEGER NOT NULL, "
    "CHECK (0 <= used AND used <= hits)) STRICT, WITHOUT ROWID",
)

_REQUESTS = (
    "SELECT charged, answered FROM request WHERE id = ?",
    "INSERT INTO request VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET answered = excluded.answered",
)
_BUDGETS = (
    'SELECT "limit", spent FROM budget WHERE scope = ?',
    'INSERT INTO budget VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "limit" = excluded."limit", spent = excluded.spent',
)
_GUARDS = (
    "SELECT opened, hits, used FROM guard WHERE id = ?",
    "INSERT INTO guard VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used",
)


def connect(path: Path | None) -> sqlite3.Connection:
    """Open an existing database so that a returned COMMIT survives a power cut; None opens one in memory."""
    connection = sqlite3.connect(
        ":memory:" if path is None else f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    except BaseException:
        connection.close()
        raise
    if mode != ("memory" if path is None else "wal") or synchronous != 2:
        connection.close()
        raise LedgerError(
            f"SQLite opened the ledger with journal_mode {mode} and synchronous {synchronous}",
            expected="wal and 2, without which a power cut can undo a charge",
            advice="Put the ledger on a local file system",
        )
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database."""
    for statement in SCHEMA:
        connection.execute(statement)


def head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """The last event's number and MAC."""
    row = connection.execute("SELECT seq, mac FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return row or (0, GENESIS)


class Mark(NamedTuple):
    """A place in the chain, and the units the table had spent by then; the head file remembers it."""

    seq: int
    head: str
    spent: int


def holds(connection: sqlite3.Connection, seq: int, head: str) -> bool:
    """Whether the chain holds this event."""
    row = connection.execute("SELECT mac FROM event WHERE seq = ?", (seq,)).fetchone()
    return row is not None and row[0].hex() == head


def standing(connection: sqlite3.Connection) -> Mark:
    """The present head of the chain and the units spent."""
    query = "SELECT seq, mac, (SELECT spent FROM budget WHERE scope = ?) FROM event ORDER BY seq DESC LIMIT 1"
    seq, mac, spent = connection.execute(query, (TABLE_SCOPE,)).fetchone()
    return Mark(seq, mac.hex(), spent)


class Rows(Generic[Row]):
    """One of the tables that index the events, during one operation: each row is read once and cached."""

    __slots__ = ("_connection", "_read", "_seen", "_write")

    def __init__(self, connection: sqlite3.Connection, read: str, write: str) -> None:
        self._connection = connection
        self._read = read
        self._write = write
        self._seen: dict[Any, Row | None] = {}

    def get(self, key: Any, /) -> Row | None:
        """The row of this key, without the key."""
        if key not in self._seen:
            self._seen[key] = self._connection.execute(self._read, (key,)).fetchone()
        return self._seen[key]

    def __setitem__(self, key: Any, row: Row, /) -> None:
        """Write the row of this key, new or not; the table's own CHECK refuses a row beyond its limit."""
        self._connection.execute(self._write, (key, *row))  # type: ignore[misc]
        self._seen[key] = row


class SqliteStorage:
    """The chain and its books in one database, for one operation inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, *, limit: int, boot: int) -> None:
        self.limit = limit
        self.boot = boot
        self._connection = connection
        self.requests: Rows[Place] = Rows(connection, *_REQUESTS)
        self.budgets: Rows[Spending] = Rows(connection, *_BUDGETS)
        self.guards: Rows[Hits] = Rows(connection, *_GUARDS)
        self.members: Table[int, Membership] = {}  # a file has none; those of a chain from PostgreSQL ended with a boot

    def head(self) -> tuple[int, bytes]:
        """The last event's number and MAC, read inside the transaction: another process may have changed it."""
        return head(self._connection)

    def append(self, event: ChainEvent) -> None:
        """Add one event to the chain."""
        self._connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", event)

    def event(self, seq: int) -> ChainEvent:
        """The event with this number; the index says that it exists."""
        query = "SELECT seq, kind, facts, content, mac FROM event WHERE seq = ?"
        row = self._connection.execute(query, (seq,)).fetchone()
        if row is None:
            raise LedgerCorrupted(f"event {seq} is missing", advice="Restore the ledger from a backup that verifies")
        return ChainEvent(*row)

    def facts(self, seq: int) -> Sequence[Any]:
        """The facts of the charge or answer with this event number."""
        facts: list[Any] = json.loads(self.event(seq).facts)
        return facts

    def charges_after(self, seq: int, count: int) -> list[ChainEvent]:
        """The next `count` charges after this number, oldest first."""
        query = (
            "SELECT seq, kind, facts, content, mac FROM event WHERE seq > ? AND kind = 'charge' ORDER BY seq LIMIT ?"
        )
        return [ChainEvent(*row) for row in self._connection.execute(query, (seq, count)).fetchall()]


def explain(failure: BaseException) -> LedgerError:
    """A database or file failure as a ledger error, with a text that cannot contain a value from the table."""
    if isinstance(failure, LedgerError):
        return failure
    if isinstance(failure, OSError):
        where = "" if failure.filename is None else f": {failure.filename}"
        return LedgerError(f"a file could not be used ({failure.strerror}{where}).")
    name = getattr(failure, "sqlite_errorname", type(failure).__name__)
    if name.startswith(_ENVIRONMENT):
        return LedgerError(
            f"SQLite could not read or write ({name})", advice="look for a full, read-only or failing disk"
        )
    return LedgerCorrupted(f"the database is damaged ({name})", advice="Restore it from a backup that verifies")
