"""The head file: the last event of the ledger's chain, kept beside the database and written with every commit.

A database can be set back without a trace: its log (`-wal`) is lost, the main file is restored alone, or an older copy
replaces it. The head file then remembers an event that the database does not hold. It is written after the commit and
before any outcome is returned. So it can be behind the chain, never ahead of it, and every returned outcome is covered
by it. An older database together with its own older head file verifies; the anchor protects against that.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.files import beside, partial, put_in_place, sync_data, write_new, write_partial
from maquette.privacy.ledger.store import Mark, holds

SLOT = 512
_SLOTS = 2


class Head:
    """Two records, each in its own disk sector and with a MAC under the ledger's key, written alternately.

    The older record is overwritten. So if a power cut tears a write, the other record still covers every outcome that
    was returned. The torn write's commit is in the chain, which then reaches beyond the intact record.
    """

    def __init__(self, ledger: Path, chain: Chain) -> None:
        self._ledger = ledger
        self._path = beside(ledger, ".head")
        self._chain = chain
        self._last: Mark | None = None

    def prepare(self, mark: Mark) -> None:
        """Write the head file of a new ledger under its partial name, until the ledger has its final name."""
        write_partial(self._path, self._file(mark))

    def replace(self, mark: Mark) -> None:
        """Start again from this mark: the first head file of a version 0.1 ledger, or a new one after recovery."""
        write_new(partial(self._path), self._file(mark))  # complete before `settle` can use it as the head file
        put_in_place(self._path)

    def read(self) -> bytes | None:
        """The content of the file, for `newest` once the key has been verified; None if the file is missing."""
        for path in (self._path, partial(self._path)):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                pass
        return None

    def newest(self, content: bytes) -> Mark | None:
        """The newest intact record; None if neither is intact."""
        return max((mark for mark in self._marks(content) if mark is not None), default=None)

    def torn(self, content: bytes) -> bool:
        """Whether one of the records is neither intact nor still blank."""
        slots = [content[place : place + SLOT] for place in range(0, _SLOTS * SLOT, SLOT)]
        return any(self._mark(slot) is None and slot != b" " * SLOT for slot in slots)

    def advance(self, mark: Mark, connection: sqlite3.Connection) -> None:
        """Remember a new mark, durably. Another process may have written the last mark and died before its sync."""
        if mark == self._last:
            return
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            marks = self._marks(os.pread(descriptor, _SLOTS * SLOT, 0))
            known = max((each for each in marks if each is not None), default=None)
            if known is None:
                raise self._damaged()
            if known.seq > mark.seq:
                raise self._behind(mark.seq, known)
            if known != self._last and not holds(connection, known.seq, known.head):
                raise self._separate(known)
            if known != mark:
                place = (marks.index(known) + 1) % _SLOTS * SLOT
                if os.pwrite(descriptor, self._record(mark), place) != SLOT:
                    raise OSError(28, "the head file could not be written whole", str(self._path))
            sync_data(descriptor)
        finally:
            os.close(descriptor)
        self._last = mark

    def check(self, connection: sqlite3.Connection, last: int, content: bytes | None, *, required: bool) -> None:
        """Refuse a verified chain that ends at event `last` if it lacks the event that the head file remembers."""
        if content is None:
            if required:
                raise self._missing()
            return
        known = self.newest(content)
        if known is None or (known.seq == last and self.torn(content)):
            raise self._damaged()
        if known.seq > last:
            raise self._behind(last, known)
        if not holds(connection, known.seq, known.head):
            raise self._separate(known)

    @property
    def _name(self) -> str:
        return self._ledger.name

    def _advice(self) -> str:
        return (
            f"Put the newest {self._name} back in place, with its {self._name}-wal and {self._path.name} of the same "
            f"time; if they are lost for good, run `maquette verify {self._name} --recover`, which charges what may "
            "have been spent (docs/how-to/ledger-recovery.md)."
        )

    def _behind(self, last: int, known: Mark) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"the ledger {self._name} ends at event {last}, but {self._path.name} remembers event {known.seq}: the log "
            f"{self._name}-wal was lost, or the database is an older copy",
            advice=f"going on would spend the same budget twice. {self._advice()}",
        )

    def _separate(self, known: Mark) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"event {known.seq} of the ledger {self._name} is another one than {self._path.name} remembers: "
            "the database and its head file come from two copies that went on separately",
            advice=f"{self._advice()}",
        )

    def _missing(self) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"the head file {self._path.name} is missing, so a ledger that was set back would not be noticed",
            advice=f"{self._advice()}",
        )

    def _damaged(self) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"the head file {self._path.name} is empty, cut or changed: its last record is not whole",
            advice=f"{self._advice()}",
        )

    def _file(self, mark: Mark) -> bytes:
        return self._record(mark).ljust(_SLOTS * SLOT)

    def _record(self, mark: Mark) -> bytes:
        text = f"maquette head {mark.seq:020d} {mark.head} {mark.spent:020d}"
        return f"{text} {self._chain.seal(text)}\n".encode().ljust(SLOT)

    def _marks(self, content: bytes) -> list[Mark | None]:
        return [self._mark(content[place : place + SLOT]) for place in range(0, _SLOTS * SLOT, SLOT)]

    def _mark(self, record: bytes) -> Mark | None:
        try:
            _, _, seq, head, spent, _ = record.decode("ascii").split()
            mark = Mark(int(seq), head, int(spent))
        except ValueError:
            return None
        return mark if self._record(mark) == record else None
