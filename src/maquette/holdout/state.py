"""State: what a holdout was asked and answered, one line each, on disk before the answer is returned.

Every line holds the digest of the line before it, so a changed or missing line is detected. A crash can tear only the
last line, whose answer was never returned: it is cut off. One process at a time owns the file (flock, which the
kernel drops when the process dies). A file restored from an old copy is not detected: it forgets later questions.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked, LedgerMismatch

_MAGIC = b"mqh1 "
_START = hashlib.sha256(b"maquette holdout").hexdigest()


class State:
    """The records of a holdout at `path`, or in memory if `path` is None; `terms` must equal those it was made with.

    `coins` are public random choices of a new state, kept for its life; the attribute holds those in force.
    """

    def __init__(self, path: str | Path | None, terms: Mapping[str, Any], coins: Mapping[str, Any]) -> None:
        self.records: list[dict[str, Any]] = []
        self.coins = dict(coins)
        self._path = None if path is None else Path(path)
        self._owner = os.getpid()
        self._file: int | None = None
        self._broken = False
        self._head = _START
        if self._path is not None:
            self._open(self._path, terms)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record durably; only then may its content be released."""
        self.check()
        if self._path is None:
            return
        try:
            self._write(record)
        except OSError as error:
            self._broken = True
            reason = os.strerror(error.errno) if error.errno else "it cannot be written"
            raise LedgerError(
                f"the state {self._path} could not be written ({reason}), so nothing was answered",
                advice="Repair the disk, then open the holdout again; a question with a name gets its recorded "
                "answer, if there is one",
            ) from None

    def check(self) -> None:
        """Refuse to continue where the next line could contradict an earlier one."""
        if self._broken:
            raise LedgerError(
                "an earlier question was interrupted while it was recorded",
                advice="Open the holdout again from its state file; "
                "without one (state=) it cannot continue, because it is unknown what was released",
            )
        if self._owner != os.getpid():
            raise LedgerError(
                "the holdout belongs to the process that opened it, not to a fork, which would not know "
                "the questions of the other",
                advice="ask in the first process",
            )
        if self._path is not None and self._file is None:
            raise LedgerError(f"the state {self._path} is closed", advice="open the holdout again")

    def give_up(self) -> None:
        """Refuse all questions until the state is read again: it is unknown whether the last question was recorded."""
        self._broken = True

    def close(self) -> None:
        """Release the file for another process."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, path: Path, terms: Mapping[str, Any]) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(
                f"the state {path} cannot be opened ({os.strerror(error.errno or 0)})",
                advice="name a file that can be written, in a folder that exists",
            ) from None
        try:
            self._lock(path)
            content = _read(self._file)
            whole = self._replay(path, content)
            if not whole:
                self._begin(path, terms)
            else:
                self._resume(path, terms, whole, len(content))
        except BaseException:
            self.close()
            raise

    def _lock(self, path: Path) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerLocked(
                f"the state {path} is open already, in this process or another",
                advice="Close the other Holdout, with .close() "
                "or by opening it in a `with` block; one sample must have one state",
            ) from None

    def _replay(self, path: Path, content: bytes) -> int:
        """Check every complete line; return their length in bytes. Anything after the last of them was torn."""
        whole = content.rfind(b"\n") + 1
        if not (content.startswith(_MAGIC) or _MAGIC.startswith(content)):
            raise LedgerCorrupted(
                f"{path} is not the state of a holdout", advice="name another file, or one that does not exist"
            )
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                digest, body = line.removeprefix(_MAGIC).split(b" ", 1)
                record = json.loads(body)
            except ValueError:
                digest, body, record = b"", b"", {}
            self._head = _chain(self._head, body)
            if not line.startswith(_MAGIC) or digest.decode("ascii", "replace") != self._head:
                raise LedgerCorrupted(
                    f"line {number} of the state {path} was changed, or a line before it is missing",
                    advice="Restore the file as it was; going on without it would forget what was asked",
                )
            self.records.append(record)
        return whole

    def _begin(self, path: Path, terms: Mapping[str, Any]) -> None:
        assert self._file is not None
        os.ftruncate(self._file, 0)
        self._write({"terms": dict(terms), "coins": self.coins})
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _resume(self, path: Path, terms: Mapping[str, Any], whole: int, length: int) -> None:
        assert self._file is not None
        header = self.records.pop(0)
        known = header["terms"]
        if known.get("rows") != terms["rows"] or known.get("fingerprint") != terms["fingerprint"]:
            raise LedgerMismatch(
                f"the state {path} belongs to another sample: the rows have changed since it was made",
                advice="Open it with "
                "the same rows in the same order, or name a new file for rows that were never asked about",
            )
        plain = json.loads(json.dumps(dict(terms)))
        changed = sorted(name for name in {*known, *plain} if known.get(name) != plain.get(name))
        if changed:
            raise LedgerMismatch(
                f"the state {path} was made with other settings: {', '.join(changed)}",
                advice="Open it with the same; a holdout cannot change its terms after it has answered",
            )
        self.coins = header["coins"]
        if whole < length:
            os.ftruncate(self._file, whole)
            os.fsync(self._file)
        os.lseek(self._file, 0, os.SEEK_END)

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None
        body = json.dumps(record, separators=(",", ":")).encode()
        head = _chain(self._head, body)
        line = _MAGIC + head.encode() + b" " + body + b"\n"
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)
        self._head = head


def _chain(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()


def _read(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as opened:
        opened.seek(0)
        return opened.read()
