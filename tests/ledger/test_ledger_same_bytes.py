"""One history, recorded: the events, their chain and the tables that the ledger writes stay what they were."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from ledger_checks import ask, opened, request

from maquette.errors import MaquetteError
from maquette.privacy.ledger import SqliteLedger, Ticket, recover

KEY = bytes(range(32))
HEAD = "2bf992c8cf309cfa743f7d480496acd472ea7edd25b72c42868804e027247bc8"
ROWS = "614f70c2fb1e3008a3b5706f34963c9cd2bd870f8b17e7c191eab24492e7d04d"
RECOVERED = "bd97c633f991403c8eed19ede9fa42c7b4b02d5f2f67c8aa2bc1232f3b142ad8"


def reserved(ledger: SqliteLedger, name: str, **more: object) -> Ticket:
    ticket = ledger.reserve(request(name, **more))  # type: ignore[arg-type]
    assert isinstance(ticket, Ticket)
    return ticket


def first_life(ledger: SqliteLedger) -> None:
    """Every operation, in its accepted and its refused forms."""
    ask(ledger, "a", b"\x00first")
    ledger.limit_analyst("bob", 300)
    ledger.limit_analyst("bob", 300)
    ledger.open_guard("g", hits=2)
    ledger.commit(reserved(ledger, "easy", units=0, guard="g"), b"", hit=False)
    late = reserved(ledger, "late", units=5, guard="g", analyst="bob")
    ledger.commit(late, b"late", hit=False)
    ledger.withhold(late)
    ledger.commit(reserved(ledger, "hard", units=0, guard="g"), b"7")
    ledger.withhold(reserved(ledger, "given up", analyst="bob"))
    for refused in (
        request("a", digest="other"),
        request("late", analyst="bob"),
        request("sealed", guard="g"),
        request("too much", units=2_000),
        request("bob's", units=299, analyst="bob"),
    ):
        with suppress(MaquetteError):
            ledger.reserve(refused)
    reserved(ledger, "left open", units=40)


def second_life(ledger: SqliteLedger) -> None:
    with suppress(MaquetteError):
        ledger.reserve(request("left open"))
    ledger.reserve(request("a"))
    ledger.open_guard("h", hits=1)
    ask(ledger, "b", "second, with an é".encode(), guard="h", analyst="ann ü", units=1)


def rows(path: Path) -> str:
    """A digest of everything in the four tables."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in _TABLES]
    return hashlib.sha256(repr(tables).encode()).hexdigest()


_TABLES = ("event", "request", "budget", "guard")


def test_the_same_history_writes_the_same_chain_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "5e" * size)
    path = tmp_path / "ledger"
    with opened(path, key=KEY) as ledger:
        first_life(ledger)
    kept = path.read_bytes()
    with opened(path, key=KEY) as ledger:
        second_life(ledger)
        assert ledger.verify().head == HEAD
    assert rows(path) == ROWS
    path.write_bytes(kept)  # the second life is lost, and its head file remembers it
    assert recover(path, key=KEY).receipt.head == RECOVERED
