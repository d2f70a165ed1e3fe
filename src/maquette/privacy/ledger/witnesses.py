"""Witnesses: what the head file and the anchor remember, and verification against it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.replay import Replay
from maquette.privacy.ledger.verification import verify

if TYPE_CHECKING:
    from maquette.privacy.ledger.files import Anchor
    from maquette.privacy.ledger.head import Head


@dataclass(frozen=True)
class Witnesses:
    """The content of head file and anchor. They are read before the database, which must then be at least as new."""

    head: Head | None
    content: bytes | None
    anchored: Receipt | None

    @classmethod
    def read(cls, head: Head | None, anchor: Anchor | None) -> Witnesses:
        """Read both; a ledger in memory has neither."""
        return cls(head, head.read() if head else None, anchor.read() if anchor else None)

    def verify(self, connection: sqlite3.Connection, chain: Chain) -> Replay:
        """Check the whole chain, and that it holds the remembered events."""
        replay = verify(connection, chain, self.anchored)
        if self.head:
            self.head.check(connection, replay.seq, self.content, required=replay.headed)
        return replay
