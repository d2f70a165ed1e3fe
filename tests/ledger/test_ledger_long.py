"""Long ledgers: verifying keeps what is open, not all of it, and still compares every row of the books."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_ledgers import TERMS

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger import Request, SqliteLedger, Ticket
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.replay import Replay, compare
from maquette.privacy.ledger.verification import verify

KEY = bytes(range(32))


def reserved(ledger: SqliteLedger, name: str) -> Ticket:
    ticket = ledger.reserve(Request(id=name, analyst="ada", digest="", units=1, description="{}"))
    assert isinstance(ticket, Ticket)
    return ticket


def test_a_charge_with_its_answer_is_not_kept(tmp_path: Path) -> None:
    """Also where an answer is withheld later: the charge is then read again."""
    path = tmp_path / "ledger"
    ledger = SqliteLedger(path, TERMS, key=KEY)
    tickets = [reserved(ledger, f"answered {i}") for i in range(10)]
    for ticket in tickets:
        ledger.commit(ticket, b"kept")
    waiting = reserved(ledger, "waiting")
    ledger.withhold(tickets[3])
    ledger.verify()
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        replay = verify(connection, Chain(KEY), None)
    assert set(replay.charges) == {waiting.seq}
    assert replay.requests["answered 3"] == (tickets[3].seq, 0)
    assert len(replay.requests) == 11


CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "the last row is missing": lambda rows: rows[:-1],
    "the first row is missing": lambda rows: rows[1:],
    "a row more": lambda rows: [*rows, ("z", 9, None)],
    "a row twice": lambda rows: [rows[0], *rows],
    "another answer": lambda rows: [(*rows[0][:2], 7), *rows[1:]],
    "another order": lambda rows: rows[::-1],
    "no rows": lambda rows: [],
}


@pytest.mark.parametrize("change", CHANGES)
def test_books_that_differ_in_a_row_are_refused(change: str) -> None:
    rows: list[Any] = [("a", 1, 2), ("b", 3, None), ("c", 4, 5)]
    replay = Replay(requests={name: (charged, answered) for name, charged, answered in rows[::-1]})
    compare(replay, {"request": iter(rows)})
    with pytest.raises(LedgerCorrupted, match="request table"):
        compare(replay, {"request": iter(CHANGES[change](rows))})


def test_an_answer_to_no_charge_is_refused() -> None:
    for event in (None, (3, "boot", "[]", b"", b"")):
        replay = Replay(again=lambda _, event=event: event)  # type: ignore[misc]
        with pytest.raises(LedgerCorrupted, match="no charge"):
            replay.follow(4, "answer", [3, True])
