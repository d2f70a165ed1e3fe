"""The contract of a ledger: limits, replays, conflicts, guards, crashes, tampering, ownership."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from maquette.errors import (
    BudgetExceeded,
    GuardSealed,
    LedgerCorrupted,
    LedgerError,
    LedgerLocked,
    LedgerMismatch,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import Ledger, MemoryLedger, Recorded, Request, SqliteLedger, Terms, Ticket

Open = Callable[[Terms], Ledger]

TERMS = Terms(table="aa", schema="bb", relation="add-remove", currency="pure", limit=100)


def _asked(name: str, units: int, **other: Any) -> Request:
    facts: dict[str, Any] = {"id": name, "analyst": "a", "digest": f"digest {name}", "units": units}
    return Request(**{**facts, "description": "{}", **other})


def _charged(ledger: Ledger, request: Request, answer: bytes = b"answer", *, hit: bool = True) -> None:
    ticket = ledger.reserve(request)
    assert isinstance(ticket, Ticket), "a new request was answered from the record"
    ledger.commit(ticket, answer, hit=hit)


def _refused(error: type[Exception], call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except error:
        return
    except LedgerError as other:
        raise AssertionError(f"{what}: refused as {type(other).__name__}, expected {error.__name__}") from None
    raise AssertionError(f"{what}: not refused")


def _sqlite(terms: Terms) -> Ledger:
    return SqliteLedger(None, terms)


def check_limit(opened: Open) -> None:
    """Exactly the limit can be spent, for the table and for an analyst; a refused charge leaves no trace."""
    with closing(opened(TERMS)) as ledger:
        ledger.limit_analyst("b", 30)
        _charged(ledger, _asked("one", 60))
        _refused(BudgetExceeded, lambda: ledger.reserve(_asked("two", 41)), "a charge past the limit")
        assert ledger.spent() == 60, "a refused charge was kept"
        _refused(BudgetExceeded, lambda: ledger.reserve(_asked("three", 31, analyst="b")), "past an analyst's limit")
        assert (ledger.spent(), ledger.spent("b")) == (60, 0), "a charge refused to an analyst was kept"
        _charged(ledger, _asked("four", 30, analyst="b"))
        _charged(ledger, _asked("five", 10))
        assert (ledger.spent(), ledger.spent("b")) == (100, 30), "what was spent is not the sum of the charges"
        _refused(BudgetExceeded, lambda: ledger.reserve(_asked("six", 1)), "a charge to a budget that is spent")
        ledger.verify()


def check_replays(opened: Open) -> None:
    """An answered request gets the same bytes, free; no other analyst and no other question can use its name."""
    with closing(opened(TERMS)) as ledger:
        _charged(ledger, _asked("one", 10), b"first")
        again = ledger.reserve(_asked("one", 10))
        assert isinstance(again, Recorded), "an answered request was evaluated again"
        assert again.answer == b"first", "a replay gives other bytes"
        assert ledger.spent() == 10, "a replay was charged"
        for other in ({"digest": "another"}, {"analyst": "b"}):
            clash = partial(ledger.reserve, _asked("one", 10, **other))
            _refused(RequestConflict, clash, f"a name and {other}")
        ticket = ledger.reserve(_asked("two", 10))
        _refused(RequestBusy, lambda: ledger.reserve(_asked("two", 10)), "a request that is being evaluated")
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, b"second")
        with suppress(LedgerError):
            ledger.commit(ticket, b"third")
        found = ledger.lookup("two")
        assert found is not None, "a recorded answer is not found"
        assert found.answer == b"second", "an answer was recorded over another"
        assert len(list(ledger.charges())) == 2, "the list of charges is not that of the charges"


def check_guards(opened: Open) -> None:
    """A guard's hits are counted; tests without a hit give their reservation back; a sealed guard stays sealed."""
    with closing(opened(TERMS)) as ledger:
        ledger.open_guard("g", hits=2)
        _charged(ledger, _asked("easy", 0, guard="g"), hit=False)
        assert ledger.hits_left("g") == 2, "an easy test took a hit"
        _charged(ledger, _asked("one", 0, guard="g"))
        assert ledger.hits_left("g") == 1, "a hit was not counted"
        pending = ledger.reserve(_asked("two", 0, guard="g"))
        _refused(
            GuardSealed, lambda: ledger.reserve(_asked("three", 0, guard="g")), "a test while the last hit is held"
        )
        assert isinstance(pending, Ticket)
        ledger.commit(pending, b"answer", hit=True)
        _refused(GuardSealed, lambda: ledger.reserve(_asked("four", 0, guard="g")), "a test of a sealed guard")


def _opened(path: Path, terms: Terms) -> None:
    SqliteLedger(path, terms).close()


def check_restart() -> None:
    """Requests pending in a crash are lost and stay charged; guards are closed; terms and owners are checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        ledger = SqliteLedger(path, TERMS)
        ledger.open_guard("g", hits=2)
        _charged(ledger, _asked("one", 10), b"first")
        ledger.reserve(_asked("pending", 20))
        _refused(LedgerLocked, lambda: SqliteLedger(path, TERMS), "a second owner")
        ledger.close()
        for changed in (
            {"table": "ab"},
            {"schema": "bc"},
            {"limit": 101},
            {"relation": "replace"},
            {"currency": "zcdp"},
        ):
            other = replace(TERMS, **changed)
            _refused(LedgerMismatch, partial(_opened, path, other), f"other terms: {changed}")
        ledger = SqliteLedger(path, TERMS)
        try:
            assert ledger.spent() == 30, "a charge was lost with its process"
            assert ledger.hits_left("g") == 0, "a guard outlived its process"
            _refused(RequestLost, lambda: ledger.reserve(_asked("pending", 20)), "a lost request")
            found = ledger.lookup("one")
            assert found is not None, "an answer was lost with its process"
            assert found.answer == b"first", "an answer changed with its process"
        finally:
            ledger.close()


TAMPERING = (
    "UPDATE budget SET spent = 0",
    'UPDATE budget SET "limit" = 1000',
    "UPDATE event SET facts = replace(facts, '10', '11')",
    "UPDATE event SET content = x'00' WHERE length(content) > 0",
    "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
)


def check_tampering() -> None:
    """A ledger with edited sums, events or answers is refused."""
    with tempfile.TemporaryDirectory() as folder:
        tried = 0
        for number, statement in enumerate(TAMPERING):
            path = Path(folder) / f"ledger{number}"
            ledger = SqliteLedger(path, TERMS)
            _charged(ledger, _asked("one", 10), b"first")
            _charged(ledger, _asked("two", 20), b"second")
            ledger.close()
            with sqlite3.connect(path) as direct:
                try:
                    tried += direct.execute(statement).rowcount > 0
                except sqlite3.Error:
                    continue
            direct.close()
            _refused(LedgerCorrupted, partial(_opened, path, TERMS), f"after {statement}")
        assert tried >= 2, "nothing could be tampered with"


def check_ledger() -> None:
    """All checks of this file."""
    for opened in (MemoryLedger, _sqlite):
        for check in (check_limit, check_replays, check_guards):
            check(opened)
    check_restart()
    check_tampering()
