"""open_ledger: the ledger that a curator was given, in any accepted form, bound to the curator's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from maquette.errors import LedgerError, LedgerMismatch
from maquette.privacy.ledger.api import Ledger, Terms

LedgerSource = str | Path | Ledger | Callable[[Terms], Ledger] | None
"""A file, nothing (in memory), a ledger that is open, or a function from `Terms` to one."""


def open_ledger(source: LedgerSource, terms: Terms, *, anchor: Path | None = None) -> Ledger:
    """Open the given ledger for exactly these terms; LedgerMismatch if it was made for others.

    Privacy: a ledger decides what is charged, so a third-party ledger is trusted code inside the wall. The terms are
    checked twice: by the ledger itself (`Ledger.check`), since only it can recognise the data's digest, and here, by
    the terms that it shows.
    """
    if source is None and anchor is None:
        from maquette.privacy.ledger.memory import MemoryLedger

        return MemoryLedger(terms)
    if source is None or isinstance(source, str | Path):
        from maquette.privacy.ledger.sqlite import SqliteLedger

        return SqliteLedger(source, terms, anchor=anchor)
    if anchor is not None:
        raise LedgerError(
            "an anchor is for a ledger file, and another ledger was given",
            advice="Leave the anchor out, or give it to that ledger",
        )
    return _bound(source, terms)


def _bound(source: Ledger | Callable[[Terms], Ledger], terms: Terms) -> Ledger:
    opened = isinstance(source, Ledger) and not isinstance(source, type)
    given = source(terms) if callable(source) and not opened else source
    if isinstance(given, type) or not isinstance(given, Ledger):
        raise LedgerError(
            f"the ledger is {type(given).__name__}, which lacks methods of the Ledger protocol",
            expected="a file, a Ledger, or a function that takes Terms and returns a Ledger",
        )
    given.check(terms)
    if replace(given.terms, table=terms.table) != terms:
        raise LedgerMismatch(
            f"the ledger shows the terms {given.terms}, and the curator's are {terms}",
            advice="Open it for the terms that the curator hands over",
        )
    return given
