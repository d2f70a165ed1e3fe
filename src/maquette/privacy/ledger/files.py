"""The files around the database: its key, its lock and its anchor."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maquette.errors import LedgerCorrupted, LedgerLocked
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import KEY_BYTES


def beside(path: Path, suffix: str) -> Path:
    """The companion of a ledger file: the same name with a suffix."""
    return path.with_name(path.name + suffix)


def write_new(path: Path, data: bytes) -> None:
    """Create a private file durably: after a crash it is either whole or not there."""
    partial = beside(path, ".new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    partial.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def load_key(path: Path, *, may_create: bool) -> bytes:
    """Read the key file; a new ledger may create it, an old one cannot be checked without its own."""
    if may_create and not path.exists():
        write_new(path, secrets.token_bytes(KEY_BYTES))
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LedgerCorrupted(
            f"the key file {path} is missing, so the ledger cannot be checked. Restore the key from where you keep "
            "it, or pass it as key= or key_path=; a new key cannot take its place."
        ) from None


class Lock:
    """Who may write: one process, or with `shared` several at once.

    The owner holds `.lock` (flock: the kernel drops it when the process dies). Sharing processes hold it together and
    take `.turn` for each transaction: it queues them fairly, where SQLite's own lock would starve some.
    """

    def __init__(self, path: Path, *, shared: bool) -> None:
        self._path = path
        self._descriptor = self._open(".lock")
        self._turn = self._open(".turn") if shared else None

    def _open(self, suffix: str) -> int:
        return os.open(beside(self._path, suffix), os.O_RDWR | os.O_CREAT, 0o600)

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _locked(self) -> LedgerLocked:
        wanted = "for itself alone" if self._turn is None else "without sharing it"
        return LedgerLocked(
            f"the ledger {self._path} is open in another process; this one wanted it {wanted}. Stop the other "
            "process, or open the ledger with shared=True in both."
        )

    @contextmanager
    def arrival(self) -> Iterator[bool]:
        """Take the lock, for good; inside, True means that nobody else holds it, so this process boots the ledger."""
        with self.turn():
            alone = self._take(fcntl.LOCK_EX)
            if not alone and (self._turn is None or not self._take(fcntl.LOCK_SH)):
                raise self._locked()
            yield alone
            if alone and self._turn is not None and not self._take(fcntl.LOCK_SH):
                raise self._locked()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this process's turn to write; at once when it is the only one."""
        if self._turn is None:
            yield
            return
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go. Closing, unlike unlocking, leaves the lock to the parent when called in a forked child."""
        for descriptor in (self._descriptor, self._turn):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)


class Anchor:
    """A small file, best on another file system, that remembers the head: an old copy of the ledger lacks it.

    One record of fixed width, rewritten in place: it fits in a disk sector, so it is not torn.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: Receipt | None = None

    def read(self) -> Receipt | None:
        """The remembered head; None in an empty file, which is how anchoring begins."""
        try:
            text = self._path.read_text("ascii")
            seq, head = text.split() if text else ("0", "")
            return Receipt(int(seq), head) if text else None
        except FileNotFoundError:
            raise LedgerCorrupted(
                f"the anchor {self._path} is missing, so a ledger restored from an old copy would not be noticed. "
                "Restore the anchor; if you trust this ledger as it is, create an empty file there."
            ) from None
        except ValueError:
            raise LedgerCorrupted(
                f"the anchor {self._path} does not hold an event number and a head. Restore it; if you trust this "
                "ledger as it is, empty the file."
            ) from None

    def begin(self) -> None:
        """Prepare for a new ledger: an anchor that remembers one means that the ledger is what is missing."""
        if not self._path.exists():
            write_new(self._path, b"")
        elif (known := self.read()) is not None:
            raise LedgerCorrupted(
                f"the anchor {self._path} remembers event {known.seq}, but the ledger is not there. Restore the "
                "ledger; a new one would forget what was spent."
            )

    def advance(self, receipt: Receipt) -> None:
        """Remember a new head, durably."""
        if receipt == self._last:
            return
        descriptor = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, f"{receipt.seq:020d} {receipt.head}\n".encode("ascii"), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._last = receipt
