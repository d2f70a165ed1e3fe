"""Verification of a SQLite ledger: its pages, its table definitions, its chain, and its books against the chain."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.replay import ADVICE, Replay, Row, compare, replayed
from maquette.privacy.ledger.store import SCHEMA

BATCH = 1_000
_EVENTS = "SELECT seq, kind, facts, content, mac FROM event"


def verify(connection: sqlite3.Connection, chain: Chain, anchored: Receipt | None) -> Replay:
    """Check everything in one pass over the events; LedgerCorrupted says what is wrong."""
    _check_pages(connection)
    replay = replayed(_batches(connection), chain, anchored, lambda seq: _event(connection, seq))
    _check_tables(connection, replay)
    return replay


def _batches(connection: sqlite3.Connection) -> Iterator[Sequence[Row]]:
    events = connection.execute(f"{_EVENTS} ORDER BY seq")
    while batch := events.fetchmany(BATCH):
        yield batch


def _event(connection: sqlite3.Connection, seq: int) -> Row | None:
    found: Row | None = connection.execute(f"{_EVENTS} WHERE seq = ?", (seq,)).fetchone()
    return found


def _check_pages(connection: sqlite3.Connection) -> None:
    """Refuse a database with other table definitions than a ledger's, or with pages that fail SQLite's own check."""
    statements = connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid").fetchall()
    if tuple(sql for (sql,) in statements) != SCHEMA:
        raise LedgerCorrupted(
            "the database does not have exactly the ledger's tables: it is not a ledger of this version, or it was "
            "changed",
            advice=f"Check the path. {ADVICE}",
        )
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise LedgerCorrupted("the database file is damaged: SQLite's check of its pages fails", advice=ADVICE)


def _check_tables(connection: sqlite3.Connection, replay: Replay) -> None:
    names = ("request", "budget", "guard")
    compare(replay, {name: connection.execute(f"SELECT * FROM {name}") for name in names})
