"""Claims: which table an uploaded file was opened as, so that its rows have one ledger and one budget."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from maquette.errors import QueryError


class Claims:
    """One small file for each uploaded file that was opened, called by the digest of its bytes; it holds a name.

    Privacy: a claim is on disk before any row is counted, and stays while there is a ledger, also when opening the
    table fails after rows were counted. Under another name the same file would begin a second budget.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, source: Path, name: str, *, fresh: bool) -> None:
        """Claim a file for the table of this name; `fresh` says that the name has no ledger yet."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        claim = self._place(source)
        if not claim.exists() and not fresh:
            raise QueryError(
                f"there is a ledger of the name {name!r} already, of other rows",
                advice="nothing was charged. Choose another name.",
            )
        written = self._folder / f"{secrets.token_hex(8)}.new"
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(written, claim)  # whole, or not at all; refused if another claim is there
            _sync(self._folder)
        except FileExistsError:
            self._check(claim, name)
        finally:
            written.unlink()

    def drop(self, source: Path) -> None:
        """Give up a claim: no ledger was made, so nothing was charged."""
        self._place(source).unlink(missing_ok=True)

    def _place(self, source: Path) -> Path:
        with source.open("rb") as file:
            return self._folder / hashlib.file_digest(file, "sha256").hexdigest()

    def _check(self, claim: Path, name: str) -> None:
        known = claim.read_text(encoding="ascii")
        if known != name:
            raise QueryError(
                f"this file was opened before as table {known!r}, and its ledger holds what was spent on these rows",
                expected="one budget for the same rows",
                advice="nothing was charged. Open it under the same name and budget, or ask that table.",
            )


def _sync(folder: Path) -> None:
    """Make a new name in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
