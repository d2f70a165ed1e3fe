"""The ledger's SQLite database: an append-only chain of events, and three tables that index it.

`event` is the truth. `request`, `budget` and `guard` hold nothing that the events do not say: they make a check O(1),
and `replay.py` recomputes them. What a request has become is not stored but follows from the chain: lost if it was
withheld, answered if it has an answer, else reserved if its charge is younger than the last boot, else lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger.api import Receipt, State
from maquette.privacy.ledger.chain import GENESIS, Chain, Event, Kind

TABLE_SCOPE = "table"
WITHHELD = 0  # in the place of an answer's number: there is none, and there will be none
BUSY_SECONDS = 60.0

_ENVIRONMENT = (
    "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_LOCKED", "SQLITE_NOMEM", "SQLITE_PERM",
    "SQLITE_PROTOCOL", "SQLITE_READONLY",
)  # fmt: skip

BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises on a failing database; damaged text can even be in SQLite's own message."""

SCHEMA = (
    "CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, facts TEXT NOT NULL, content BLOB NOT NULL, "
    "mac BLOB NOT NULL) STRICT",
    "CREATE TABLE request (id TEXT PRIMARY KEY, charged INTEGER NOT NULL, answered INTEGER) STRICT, WITHOUT ROWID",
    'CREATE TABLE budget (scope TEXT PRIMARY KEY, "limit" INTEGER NOT NULL, spent INTEGER NOT NULL, '
    'CHECK (0 <= spent AND spent <= "limit")) STRICT, WITHOUT ROWID',
    "CREATE TABLE guard (id TEXT PRIMARY KEY, opened INTEGER NOT NULL, hits INTEGER NOT NULL, used INTEGER NOT NULL, "
    "CHECK (0 <= used AND used <= hits)) STRICT, WITHOUT ROWID",
)


def analyst_scope(analyst: str) -> str:
    """The budget row of one analyst; no analyst's name can reach the table's own row."""
    return f"analyst {analyst}"


def connect(path: Path | None) -> sqlite3.Connection:
    """Open an existing database so that a COMMIT that returned survives a power cut; None opens one in memory."""
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
    """Lay out an empty database."""
    for statement in SCHEMA:
        connection.execute(statement)


def head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """The last event's number and MAC."""
    row = connection.execute("SELECT seq, mac FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return row or (0, GENESIS)


class Mark(NamedTuple):
    """A place in the chain, and what the table had spent by then: what the head file remembers."""

    seq: int
    head: str
    spent: int


def holds(connection: sqlite3.Connection, seq: int, head: str) -> bool:
    """Whether the chain holds this event."""
    row = connection.execute("SELECT mac FROM event WHERE seq = ?", (seq,)).fetchone()
    return row is not None and row[0].hex() == head


def standing(connection: sqlite3.Connection) -> Mark:
    """Where the chain and the account stand."""
    query = "SELECT seq, mac, (SELECT spent FROM budget WHERE scope = ?) FROM event ORDER BY seq DESC LIMIT 1"
    seq, mac, spent = connection.execute(query, (TABLE_SCOPE,)).fetchone()
    return Mark(seq, mac.hex(), spent)


def append(connection: sqlite3.Connection, chain: Chain, kind: Kind, facts: object, content: bytes = b"") -> Receipt:
    """Add one event to the chain. The head is read here, inside the transaction: another process may have moved it."""
    seq, previous = head(connection)
    text = json.dumps(facts, separators=(",", ":"))
    mac = chain.link(previous, seq + 1, kind, text, content)
    connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (seq + 1, kind, text, content, mac))
    return Receipt(seq + 1, mac.hex())


def event(connection: sqlite3.Connection, seq: int) -> Event:
    """The event of this number, which the index says exists."""
    row = connection.execute("SELECT seq, kind, facts, content, mac FROM event WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise LedgerCorrupted(f"event {seq} is missing", advice="Restore the ledger from a backup that verifies")
    return Event(*row)


def state(charged: int, answered: int | None, boot: int) -> State:
    """What became of a request, by the numbers of its charge, of its answer and of the last boot."""
    if answered is not None:
        return "lost" if answered == WITHHELD else "answered"
    return "reserved" if charged > boot else "lost"


def guarded_update(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> bool:
    """Check and change in one statement: whether the row was there and its condition held."""
    return connection.execute(statement, parameters).rowcount == 1


def explain(failure: Exception) -> LedgerError:
    """A failure below the ledger as one of its own errors, in words that cannot hold a value from the table."""
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
