"""Verification: follow the chain from its first event, recompute every table from it, and compare.

A changed byte in an event breaks its MAC; a changed sum, state, hit count or table definition differs from what the
events say; a damaged page fails SQLite's own check. Whoever holds the key could forge a chain. That the
chain is the newest one is for the head file and the anchor to say.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import GENESIS, Chain
from maquette.privacy.ledger.store import SCHEMA, TABLE_SCOPE, WITHHELD, analyst_scope

FORMAT = 2
"""A ledger of this format has a head file. The format is in the first event, so the main file alone knows it too."""
HEADLESS = 1
"""The format of version 0.1; the first opening by a later version appends the same terms in the new format."""
BATCH = 1_000
_ADVICE = "Restore the ledger from a backup that verifies."


@dataclass
class Replay:
    """What the events say: the three tables, the terms and the last boot."""

    terms: dict[str, Any] = field(default_factory=dict)
    boot: int = 0
    seq: int = 0
    head: bytes = GENESIS
    requests: dict[str, list[int | None]] = field(default_factory=dict)
    budgets: dict[str, list[int]] = field(default_factory=dict)
    guards: dict[str, list[int]] = field(default_factory=dict)
    charges: dict[int, tuple[str, str | None]] = field(default_factory=dict)

    @property
    def receipt(self) -> Receipt:
        """The head of the chain."""
        return Receipt(self.seq, self.head.hex())

    @property
    def headed(self) -> bool:
        """Whether this ledger has a head file."""
        return self.terms.get("format") != HEADLESS

    def follow(self, seq: int, kind: str, facts: Any) -> None:
        """Take in one verified event."""
        if kind == "charge":
            self._charge(seq, *facts)
        elif kind == "answer":
            self._answer(seq, *facts)
        elif kind == "withheld":
            self._withheld(*facts)
        elif kind == "boot":
            self.boot = seq
        elif kind == "guard":
            self.guards[facts[0]] = [seq, facts[1], 0]
        elif kind == "limit":
            self._analyst(facts[0])[0] = facts[1]
        elif kind == "terms":
            self._bind(facts)

    def _bind(self, terms: dict[str, Any]) -> None:
        """The terms, at the first event, and again in a new format when a ledger was brought up to date."""
        if self.terms and {**self.terms, "format": 0} != {**terms, "format": 0}:
            raise LedgerCorrupted("the terms of the ledger changed on the way", advice=_ADVICE)
        self.terms = terms
        self.budgets.setdefault(TABLE_SCOPE, [terms["limit"], 0])

    def _analyst(self, analyst: str) -> list[int]:
        return self.budgets.setdefault(analyst_scope(analyst), [self.terms["limit"], 0])

    def _charge(self, seq: int, id: str, analyst: str, _digest: str, units: int, guard: str | None) -> None:  # noqa: A002
        self.requests[id] = [seq, None]
        self.charges[seq] = (id, guard)
        self.budgets[TABLE_SCOPE][1] += units
        self._analyst(analyst)[1] += units
        if guard is not None:
            self.guards[guard][2] += 1

    def _answer(self, seq: int, charged: int, hit: bool) -> None:
        id, guard = self.charges[charged]  # noqa: A001
        self.requests[id][1] = seq
        if guard is not None and not hit:
            self.guards[guard][2] -= 1

    def _withheld(self, charged: int, hit_again: bool) -> None:
        id, guard = self.charges[charged]  # noqa: A001
        self.requests[id][1] = WITHHELD
        if guard is not None and hit_again:
            self.guards[guard][2] += 1


def verify(connection: sqlite3.Connection, chain: Chain, anchored: Receipt | None) -> Replay:
    """Check everything in one pass over the events; LedgerCorrupted says what does not hold."""
    _check_pages(connection)
    replay = Replay()
    anchor_seen = anchored is None
    events = connection.execute("SELECT seq, kind, facts, content, mac FROM event ORDER BY seq")
    while batch := events.fetchmany(BATCH):
        last, head = replay.seq, replay.head
        for seq, kind, facts, content, mac in batch:
            if seq != last + 1 or chain.link(head, seq, kind, facts, content) != mac:
                raise _broken(last + 1)
            last, head = seq, mac
            if anchored is not None and anchored.seq == seq:
                anchor_seen = anchored.head == mac.hex()
        # One call parses the facts of a whole batch, several times faster than one call each.
        parsed = json.loads(f"[{','.join(row[2] for row in batch)}]")
        for row, facts in zip(batch, parsed, strict=True):
            replay.follow(row[0], row[1], facts)
        replay.seq, replay.head = last, head
    if not replay.terms:
        raise _broken(1)
    if not anchor_seen:
        raise LedgerCorrupted(
            f"the ledger ends at event {replay.seq} and does not hold the head that the anchor remembers: it is an old "
            "or a different copy",
            advice="Restore the newest copy; going on would spend the same budget twice",
        )
    _check_tables(connection, replay)
    return replay


def _broken(seq: int) -> LedgerCorrupted:
    hint = "this is not the ledger's key, or " if seq == 1 else ""
    return LedgerCorrupted(f"the chain does not verify at event {seq}: {hint}the event was changed", advice=_ADVICE)


def _check_pages(connection: sqlite3.Connection) -> None:
    statements = connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid").fetchall()
    if tuple(sql for (sql,) in statements) != SCHEMA:
        raise LedgerCorrupted(
            "the database does not have exactly the ledger's tables: it is not a ledger of this version, or it was "
            "changed",
            advice=f"Check the path. {_ADVICE}",
        )
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise LedgerCorrupted("the database file is damaged: SQLite's check of its pages fails", advice=_ADVICE)


def _check_tables(connection: sqlite3.Connection, replay: Replay) -> None:
    """Compare in key order, so that a search for any key finds what the comparison saw."""
    tables: tuple[tuple[str, dict[str, list[Any]]], ...] = (
        ("request", replay.requests),
        ("budget", replay.budgets),
        ("guard", replay.guards),
    )
    for name, expected in tables:
        rows = connection.execute(f"SELECT * FROM {name}").fetchall()
        if rows != [(key, *expected[key]) for key in sorted(expected)]:
            raise LedgerCorrupted(f"the {name} table differs from what the chain of events says", advice=_ADVICE)
