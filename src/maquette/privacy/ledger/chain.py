"""The MAC chain: each event's MAC covers its content and the MAC before it, under a key kept outside the database.

Keyed BLAKE2b is itself a MAC (RFC 7693); `person` separates its uses, so that no MAC is valid for another use.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Literal, NamedTuple

from maquette.errors import LedgerCorrupted

GENESIS = bytes(32)
KEY_BYTES = 32

Kind = Literal["terms", "boot", "limit", "guard", "charge", "answer", "withheld", "join", "left"]

_HEADER = Struct(">32sQII")


class ChainEvent(NamedTuple):
    """One fact of the ledger's history.

    `facts` is JSON text that the rules use (ids, units); `content` is stored but never interpreted (a request's
    description, an answer's bytes).
    """

    seq: int
    kind: str
    facts: str
    content: bytes
    mac: bytes


class Chain:
    """Computes MACs under one key of 32 bytes; a key that was rotated has 32 more, for the data's digest alone."""

    def __init__(self, key: bytes) -> None:
        if len(key) not in (KEY_BYTES, 2 * KEY_BYTES):
            raise LedgerCorrupted(
                f"the ledger's key has {len(key)} bytes",
                expected=f"{KEY_BYTES}, or {2 * KEY_BYTES} after a rotation",
                advice="Restore the whole key",
            )
        links, hides = key[:KEY_BYTES], key[-KEY_BYTES:]
        self._event = hashlib.blake2b(digest_size=32, key=links, person=b"maquette.event")
        self._table = hashlib.blake2b(digest_size=32, key=hides, person=b"maquette.table")
        self._copy = hashlib.blake2b(digest_size=32, key=links, person=b"maquette.copy")
        self._head = hashlib.blake2b(digest_size=32, key=links, person=b"maquette.head")

    def link(self, previous: bytes, seq: int, kind: str, facts: str, content: bytes) -> bytes:
        """The MAC of an event that follows `previous`; the lengths in front make the encoding unambiguous."""
        kind_bytes, facts_bytes = kind.encode(), facts.encode()
        mac = self._event.copy()
        mac.update(_HEADER.pack(previous, seq, len(kind_bytes), len(facts_bytes)) + kind_bytes + facts_bytes + content)
        return mac.digest()

    def fingerprint(self, table: str) -> str:
        """The data's digest under the key: shows whether the table is the same; without the key it reveals nothing."""
        mac = self._table.copy()
        mac.update(table.encode())
        return mac.hexdigest()

    def stamp(self, data: bytes) -> bytes:
        """The MAC of something that follows from the chain and is kept beside it, such as a checkpoint."""
        mac = self._copy.copy()
        mac.update(data)
        return mac.digest()

    def seal(self, text: str) -> str:
        """The MAC of a record of the head file."""
        mac = self._head.copy()
        mac.update(text.encode())
        return mac.hexdigest()
