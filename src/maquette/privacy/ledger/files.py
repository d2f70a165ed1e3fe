"""The files around the database: its key, lock and anchor, and writing a file so that it is complete or absent."""

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

MAGIC = b"SQLite format 3\x00"


def beside(path: Path, suffix: str) -> Path:
    """The companion of a ledger file: the same name with a suffix."""
    return path.with_name(path.name + suffix)


def check_place(path: Path) -> None:
    """Refuse, before any file is created, a path whose ledger is missing or that holds something else.

    The key and head files get their final names after the ledger does. So if they exist without a ledger, the ledger
    was lost; an interrupted creation cannot look like this.
    """
    for what, companion in (("key", beside(path, ".key")), ("head", beside(path, ".head"))):
        if companion.exists() and not path.exists():
            raise LedgerCorrupted(
                f"{companion.name} exists but {path.name} does not: restore the ledger, or delete the {what} too if "
                "you mean to start anew",
                advice="a new ledger forgets what was spent",
            )
    if path.exists() and not _begins_as_a_ledger(path):
        what = "a directory" if path.is_dir() else "another kind of file, or damaged"
        raise LedgerCorrupted(
            f"{path} is not a ledger: it is {what}",
            advice="Name the ledger's file, or one that does not exist to start a new "
            "ledger; if it was one, restore it from a backup",
        )


def _begins_as_a_ledger(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write_new(path: Path, data: bytes) -> None:
    """Create a private file durably: after a crash it is either complete or absent."""
    write_partial(path, data)
    put_in_place(path)


def partial(path: Path) -> Path:
    """The temporary name under which a file is written before it gets its final name."""
    return beside(path, ".new")


def write_partial(path: Path, data: bytes) -> None:
    """Write a private file durably under its partial name."""
    partial(path).unlink(missing_ok=True)
    descriptor = os.open(partial(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    _sync_directory(path)


def put_in_place(path: Path) -> None:
    """Give a file its final name, durably."""
    partial(path).rename(path)
    _sync_directory(path)


def settle(path: Path) -> None:
    """Give a file its final name if the creation of the ledger stopped before that; remove what it left behind."""
    if path.exists():
        partial(path).unlink(missing_ok=True)
    elif partial(path).exists():
        put_in_place(path)


def sync_data(descriptor: int) -> None:
    """Make the content of a file durable; its length did not change."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def _sync_directory(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def new_key(path: Path) -> bytes:
    """The key for a new ledger: the one at `path`, or a fresh one, written there under its partial name."""
    if path.exists():
        return path.read_bytes()
    key = secrets.token_bytes(KEY_BYTES)
    write_partial(path, key)
    return key


def load_key(path: Path) -> bytes:
    """The key of an existing ledger; its file gets its final name now if the creation stopped before that."""
    if not path.exists() and partial(path).exists():
        put_in_place(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LedgerCorrupted(
            f"the key file {path} is missing, so the ledger cannot be checked",
            advice="Restore the key file beside the ledger, or wherever you keep it; a new key cannot take its place",
        ) from None


class Lock:
    """Decides which process may write: one only, or several with `shared`.

    The owner holds `.lock` (flock: the kernel releases it when the process dies). With `shared`, all processes hold it
    together and take `.turn` for each transaction: it queues them fairly, while SQLite's own lock could starve some.
    """

    def __init__(self, path: Path, *, shared: bool) -> None:
        self._path = path
        self._descriptors: list[int] = []
        self._lock = self._open(".lock")
        self._turn = self._open(".turn") if shared else None

    def _open(self, suffix: str) -> int:
        descriptor = os.open(beside(self._path, suffix), os.O_RDWR | os.O_CREAT, 0o600)
        self._descriptors.append(descriptor)
        return descriptor

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _locked(self) -> LedgerLocked:
        if any(holder == (os.getpid(), self._path) for holder in list(_holders.values())):
            return LedgerLocked(
                f"the ledger {self._path} is open in this process already",
                advice="Close the first Curator, with .close() or "
                "by opening it in a `with` block, then open the ledger again",
            )
        return LedgerLocked(
            f"the ledger {self._path} is open in another process",
            advice="Stop that process, or wait until it closes the ledger",
        )

    @contextmanager
    def arrival(self) -> Iterator[bool]:
        """Take the lock until `close`. Yields True if nobody else holds it; this process then boots the ledger."""
        with self.turn():
            alone = self._take(fcntl.LOCK_EX)
            if not alone and (self._turn is None or not self._take(fcntl.LOCK_SH)):
                raise self._locked()
            _holders[self] = (os.getpid(), self._path)
            yield alone
            if alone and self._turn is not None and not self._take(fcntl.LOCK_SH):
                raise self._locked()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this process's turn to write; no wait if it is the only one."""
        if self._turn is None:
            yield
            return
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock. In a forked child, closing the file (unlike unlocking it) leaves the lock to the parent."""
        _holders.pop(self, None)
        while self._descriptors:  # close each once: its number may belong to another file afterwards
            with suppress(OSError):
                os.close(self._descriptors.pop())


_holders: dict[Lock, tuple[int, Path]] = {}  # with the process id, because a fork inherits them


class Anchor:
    """A small file, best on another file system, that remembers the head; an old copy of the ledger does not hold it.

    One record of fixed width, rewritten in place: it fits in a disk sector, so a crash cannot tear it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # the process may change its directory
        self._last: Receipt | None = None

    def last(self) -> Receipt | None:
        """The remembered head; None if the file is missing or holds none."""
        with suppress(LedgerCorrupted):
            return self.read()
        return None

    def replace(self, receipt: Receipt) -> None:
        """Start again from this head."""
        write_new(self._path, b"")
        self.advance(receipt)

    def read(self) -> Receipt | None:
        """The remembered head; None in an empty file, which is how anchoring begins."""
        try:
            text = self._path.read_text("ascii")
            seq, head = text.split() if text else ("0", "")
            return Receipt(int(seq), head) if text else None
        except FileNotFoundError:
            raise LedgerCorrupted(
                f"the anchor {self._path} is missing, so a ledger restored from an old copy would not be noticed",
                advice="Restore the anchor; if you trust this ledger as it is, create an empty file there",
            ) from None
        except ValueError:
            raise LedgerCorrupted(
                f"the anchor {self._path} does not hold an event number and a head",
                advice="Restore it; if you trust this ledger as it is, empty the file",
            ) from None

    def begin(self) -> None:
        """Prepare for a new ledger. If the anchor remembers a ledger, that ledger is missing: refuse."""
        if not self._path.exists():
            write_new(self._path, b"")
        elif (known := self.read()) is not None:
            raise LedgerCorrupted(
                f"the anchor {self._path} remembers event {known.seq}, but the ledger is not there",
                advice="Restore the ledger; a new one would forget what was spent",
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
