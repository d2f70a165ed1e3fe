"""Looking at an account: at once while nothing is written, and never behind what any process has committed."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

import pytest

from maquette.errors import LedgerError
from maquette.privacy.ledger import Request, SqliteLedger, Terms, Ticket
from maquette.privacy.ledger.writer import Writer

TERMS = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=10**9)


def request(name: str, units: int = 7, analyst: str = "ann") -> Request:
    return Request(id=name, analyst=analyst, digest="00" * 32, units=units, description="{}")


def charge(ledger: SqliteLedger, name: str, units: int = 7, analyst: str = "ann") -> None:
    ticket = ledger.reserve(request(name, units, analyst))
    assert isinstance(ticket, Ticket)
    ledger.commit(ticket, b"answer")


def test_a_look_sees_every_charge_at_once(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger", TERMS)
    for number in range(50):
        ledger.reserve(request(f"r{number}"))
        assert (ledger.spent(), ledger.spent("ann"), ledger.spent("bob")) == (7 * (number + 1), 7 * (number + 1), 0)
    ledger.close()


def test_a_look_needs_no_transaction_while_nothing_is_written(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger", TERMS)
    charge(ledger, "one")
    with mock.patch.object(Writer, "run", side_effect=AssertionError("in its turn")):
        assert ledger.spent() == 7
    in_turn = mock.patch.object(Writer, "run", side_effect=AssertionError("in its turn"))
    with ledger._writer._writing, in_turn, pytest.raises(AssertionError, match="in its turn"):
        ledger.spent()
    ledger.close()


def test_a_look_never_shows_a_charge_that_is_not_durable(tmp_path: Path) -> None:
    """While the writer is inside a transaction, a look waits for its outcome."""
    ledger = SqliteLedger(tmp_path / "ledger", TERMS)
    charge(ledger, "before")
    inside, go_on, seen = threading.Event(), threading.Event(), list[int]()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE budget SET spent = spent + 100")
        inside.set()
        assert go_on.wait(60)
        raise LedgerError("refused: nothing of it stays")

    def refused() -> None:
        with pytest.raises(LedgerError, match="refused"):
            ledger._writer.run(slow)

    threads = [threading.Thread(target=refused), threading.Thread(target=lambda: seen.append(ledger.spent()))]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    threads[1].join(0.2)
    assert not seen
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert seen == [7]
    ledger.close()


def _clerk(path: Path, pipe: Connection) -> None:
    """Charges when told to, and says what it has seen."""
    ledger = SqliteLedger(path, TERMS, shared=True)
    pipe.send(ledger.spent())
    while (name := pipe.recv()) is not None:
        charge(ledger, name, analyst="bob")
        pipe.send(ledger.spent())
    ledger.close()
    pipe.send("closed")


@pytest.mark.thorough
def test_every_process_sees_what_another_has_committed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = SqliteLedger(path, TERMS, shared=True)
    ours, theirs = multiprocessing.Pipe()
    clerk = multiprocessing.get_context("spawn").Process(target=_clerk, args=(path, theirs))
    clerk.start()
    assert ours.recv() == 0
    for number in range(20):
        charge(ledger, f"ours{number}", units=1)
        ours.send(f"theirs{number}")
        assert ours.recv() == 8 * (number + 1)
        with mock.patch.object(Writer, "run", side_effect=AssertionError("in its turn")):
            assert (ledger.spent(), ledger.spent("bob")) == (8 * (number + 1), 7 * (number + 1))
    ours.send(None)
    assert ours.recv() == "closed"
    clerk.join(60)
    assert ledger.verify().seq > 80
    ledger.close()


def test_a_stranger_who_writes_past_the_lock_is_noticed_by_a_look(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger", TERMS)
    charge(ledger, "one")
    assert ledger.spent() == 7
    stranger = sqlite3.connect(tmp_path / "ledger")
    stranger.execute("UPDATE budget SET spent = 0")
    stranger.commit()
    stranger.close()
    for _ in range(2):
        with pytest.raises(LedgerError, match="another process wrote"):
            ledger.spent()
    with pytest.raises(LedgerError):
        ledger.reserve(request("two"))
    ledger.close()


def test_nobody_looks_into_a_closed_ledger(tmp_path: Path) -> None:
    for path in (None, tmp_path / "ledger"):
        ledger = SqliteLedger(path, TERMS)
        charge(ledger, "one")
        assert ledger.spent() == 7
        ledger.close()
        with pytest.raises(LedgerError, match="closed"):
            ledger.spent()


def test_many_look_while_many_charge(tmp_path: Path) -> None:
    """What is seen only grows, is never more than was asked for, and ends as the sum."""
    ledger, seen = SqliteLedger(tmp_path / "ledger", TERMS), list[list[int]]()
    done = threading.Event()

    def look() -> None:
        mine = list[int]()
        while not done.is_set():
            mine.append(ledger.spent())
        seen.append(mine)

    def pay(client: int) -> None:
        for number in range(25):
            charge(ledger, f"{client}.{number}", units=3)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    payers = [threading.Thread(target=pay, args=(client,)) for client in range(4)]
    for thread in (*lookers, *payers):
        thread.start()
    for thread in payers:
        thread.join()
    done.set()
    for thread in lookers:
        thread.join()
    assert all(mine == sorted(mine) and set(mine) <= set(range(0, 301, 3)) for mine in seen)
    assert ledger.spent() == 300
    ledger.close()
