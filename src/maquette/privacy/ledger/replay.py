"""Replay: apply the chain from its first event to fresh books, and compare them with the books that a ledger keeps.

A changed byte in an event breaks its MAC; a changed sum, state or hit count differs from what the events imply. A
person who holds the key could forge a chain. The head file and the anchor check that the chain is the newest one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger import machine
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import GENESIS, Chain
from maquette.privacy.ledger.machine import Hits, Membership, Place, Spending

FORMAT = 2
"""A ledger of this format has a head file. The format is in the first event, so the main file alone shows it."""
HEADLESS = 1
"""The format of version 0.1; the first opening by a later version appends the same terms in the new format."""
ADVICE = "Restore the ledger from a backup that verifies."

Row = tuple[int, str, str, bytes, bytes]
"""An event as it is stored: number, kind, facts, content, MAC."""


@dataclass
class Replay:
    """The state after the events: the books in plain dicts, the terms, the last boot and the head."""

    terms: dict[str, Any] = field(default_factory=dict)
    limit: int = 0
    boot: int = 0
    seq: int = 0
    head: bytes = GENESIS
    requests: dict[str, Place] = field(default_factory=dict)
    budgets: dict[str, Spending] = field(default_factory=dict)
    guards: dict[str, Hits] = field(default_factory=dict)
    members: dict[int, Membership] = field(default_factory=dict)
    charges: dict[int, Sequence[Any]] = field(default_factory=dict)
    again: Callable[[int], Row | None] | None = (
        None  # reads a verified event; then only charges without an answer are kept
    )

    @property
    def receipt(self) -> Receipt:
        """The head of the chain."""
        return Receipt(self.seq, self.head.hex())

    @property
    def headed(self) -> bool:
        """Whether this ledger has a head file."""
        return self.terms.get("format") != HEADLESS

    def facts(self, seq: int) -> Sequence[Any]:
        """The facts of the charge with this event number."""
        if seq in self.charges or self.again is None:
            return self.charges[seq]
        event = self.again(seq)
        if event is None or event[1] != "charge":
            raise LedgerCorrupted(f"event {seq} is answered and is no charge", advice=ADVICE)
        facts: Sequence[Any] = json.loads(event[2])
        return facts

    def follow(self, seq: int, kind: str, facts: Any) -> None:
        """Apply one verified event."""
        if kind == "charge":
            self.charges[seq] = facts
        elif kind == "terms":
            self._bind(facts)
        machine.follow(self, seq, kind, facts)
        if kind == "answer" and self.again is not None:
            self.charges.pop(facts[0], None)

    def _bind(self, terms: dict[str, Any]) -> None:
        """Set the terms: at the first event, and again if a ledger was upgraded to a new format."""
        if self.terms and {**self.terms, "format": 0} != {**terms, "format": 0}:
            raise LedgerCorrupted("the terms of the ledger changed on the way", advice=ADVICE)
        self.terms = terms
        self.limit = terms["limit"]


def replayed(
    batches: Iterable[Sequence[Row]],
    chain: Chain,
    anchored: Receipt | None = None,
    again: Callable[[int], Row | None] | None = None,
) -> Replay:
    """Check and apply the chain of events in one pass; it must hold the event that the anchor remembers.

    `again` reads an event of this pass once more, inside the same transaction: answers are withheld rarely, and without
    it the facts of every charge are kept for that.
    """
    replay = Replay(again=again)
    anchor_seen = anchored is None
    for batch in batches:
        last, head = replay.seq, replay.head
        for seq, kind, facts, content, mac in batch:
            if seq != last + 1 or chain.link(head, seq, kind, facts, content) != mac:
                raise _broken(last + 1)
            last, head = seq, mac
            if anchored is not None and anchored.seq == seq:
                anchor_seen = anchored.head == mac.hex()
        # One call parses the facts of a whole batch, several times faster than one call per event.
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
    return replay


def compare(replay: Replay, kept: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
    """Compare the kept books by name and in key order, so that a look-up of any key finds the compared row."""
    tables: tuple[tuple[str, Mapping[Any, tuple[Any, ...]]], ...] = (
        ("request", replay.requests),
        ("budget", replay.budgets),
        ("guard", replay.guards),
        ("member", replay.members),
    )
    for name, expected in tables:
        for row, key in zip_longest(kept[name], sorted(expected)) if name in kept else ():
            if row is None or key is None or row != (key, *expected[key]):
                raise LedgerCorrupted(f"the {name} table differs from what the chain of events says", advice=ADVICE)


def _broken(seq: int) -> LedgerCorrupted:
    hint = "this is not the ledger's key, or " if seq == 1 else ""
    return LedgerCorrupted(f"the chain does not verify at event {seq}: {hint}the event was changed", advice=ADVICE)
