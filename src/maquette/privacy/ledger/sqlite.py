"""The ledger in one SQLite database, on disk or in memory: the same code, the same checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from maquette.errors import LedgerError
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt, Terms
from maquette.privacy.ledger.book import Book, BookLedger
from maquette.privacy.ledger.home import Home, in_memory, on_disk
from maquette.privacy.ledger.writer import Writer

T = TypeVar("T")


class SqliteLedger(BookLedger):
    """A ledger at `path`, or in memory when it is None.

    Privacy: it enforces `terms.limit` as a filter, in integers: a charge that would exceed the limit is refused before
    any row is read. A charge is durable before its ticket is returned, and an answer before its receipt is. Opening
    verifies everything; requests that a crash left reserved become lost charges, which are never evaluated again.

    Keep the key (default: a file created beside the ledger) away from the backups. A head file beside the ledger is
    written with every commit and reveals a lost log or an older copy. `anchor`, a file best kept on another disk, also
    reveals an older copy restored together with its head file. After such a loss, use `recover`. One process owns the
    ledger, or several with `shared=True`; then the ledger boots only when no other process has it open.
    """

    def __init__(
        self,
        path: str | Path | None,
        terms: Terms,
        *,
        key: bytes | None = None,
        key_path: str | Path | None = None,
        anchor: str | Path | None = None,
        shared: bool = False,
    ) -> None:
        self._path = path
        try:
            self._home = self._open(
                terms,
                key=key,
                key_path=Path(key_path) if key_path else None,
                anchor=Path(anchor) if anchor else None,
                shared=shared,
            )
        except (*store.BROKEN, OSError) as failure:
            cause = store.explain(failure)
            raise type(cause)(f"the ledger {path} cannot be opened: {cause}") from failure
        self.terms = self._home.terms
        self._chain = self._home.chain
        self._writer = Writer(self._home.transaction, threaded=path is not None)

    def _open(
        self, terms: Terms, *, key: bytes | None, key_path: Path | None, anchor: Path | None, shared: bool
    ) -> Home:
        if self._path is None:
            if anchor is not None or key_path is not None or shared:
                raise LedgerError(
                    "an anchor, a key file and sharing are for a ledger on disk, and no ledger file was named",
                    advice="nothing "
                    "was opened. Name the ledger's file, or leave these settings out: a ledger in memory is forgotten "
                    "with its process.",
                )
            return in_memory(terms, key)
        return on_disk(Path(self._path), terms, key=key, key_path=key_path, anchor=anchor, shared=shared)

    @property
    def where(self) -> str:
        """Where the account is kept."""
        return "memory" if self._path is None else str(self._path)

    @property
    def beside(self) -> Path | None:
        """The database's file."""
        return None if self._path is None else Path(self._path)

    def _run(self, operation: Callable[[Book], T]) -> T:
        return self._writer.run(lambda connection: operation(self._home.book(connection)))

    def _look(self, operation: Callable[[Book], T]) -> T:
        return self._writer.look(lambda connection: operation(self._home.book(connection)), self._home.reading)

    def told(self) -> int:
        """Units charged to the table as of the last commit: at once, also while another is being written."""
        known = self._home.spent if self._writer.running else None
        return self.spent() if known is None else known

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""
        return self._writer.run(self._home.verify)

    @property
    def stopped(self) -> bool:
        """Whether it was closed or a write failed."""
        return not self._writer.running

    def close(self) -> None:
        """Release the ledger; pending requests are finished first."""
        self._writer.close()
        if self._writer.inherited:
            self._home.leave()
        else:
            self._home.close()
