"""The PostgreSQL ledger on a real server: the rules of every ledger, one owner, fencing by epoch, restarts."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_ledgers import KEY, TERMS, asked

import maquette as mq
from maquette.errors import (
    BudgetExceeded,
    LedgerCorrupted,
    LedgerError,
    LedgerLocked,
    LedgerMismatch,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import MemoryLedger, PostgresLedger, Recorded, Terms, Ticket
from postgres_server import Server

psycopg = pytest.importorskip("psycopg")


def opened(postgres: Server, name: str, terms: Terms = TERMS, **given: Any) -> closing[PostgresLedger]:
    return closing(PostgresLedger(postgres.address, terms, name=name, **{"key": KEY, **given}))


@pytest.mark.thorough
def test_it_keeps_the_books_of_every_other_ledger(postgres: Server, name: str) -> None:
    memory = MemoryLedger(TERMS, key=KEY)
    with opened(postgres, name) as stored:
        for ledger in (memory, stored):
            ticket = ledger.reserve(asked("one"))
            assert isinstance(ticket, Ticket)
            ledger.commit(ticket, b"answer \x00\xff")
            again = ledger.reserve(asked("one"))
            assert isinstance(again, Recorded)
            assert again.answer == b"answer \x00\xff"
            with pytest.raises(RequestConflict):
                ledger.reserve(asked("one", digest="another"))
            with pytest.raises(BudgetExceeded):
                ledger.reserve(asked("two", 991))
            ledger.limit_analyst("bob", 5)
            with pytest.raises(BudgetExceeded):
                ledger.reserve(asked("three", 6, "bob"))
            ledger.limit_analyst("team/", 20)
            ledger.reserve(asked("four", 15, "team/ada"))
            with pytest.raises(BudgetExceeded):
                ledger.reserve(asked("five", 6, "team/bob"))
            ledger.open_guard("guard", hits=2)
            assert ledger.hits_left("guard") == 2
            late = ledger.reserve(asked("six"))
            assert isinstance(late, Ticket)
            ledger.withhold(late)
            ledger.verify()
        assert list(memory.charges()) == list(stored.charges())
        assert memory.spent() == stored.spent() == 35
        assert stored.spent("team/") == 15


def test_a_restart_keeps_answers_and_loses_reservations(postgres: Server, name: str) -> None:
    with opened(postgres, name) as ledger:
        ticket = ledger.reserve(asked("one"))
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, b"kept")
        ledger.reserve(asked("two"))
    with opened(postgres, name) as ledger:
        recorded = ledger.reserve(asked("one"))
        assert isinstance(recorded, Recorded)
        assert recorded.answer == b"kept"
        with pytest.raises(RequestLost):
            ledger.reserve(asked("two"))
        assert ledger.spent() == 20
    with pytest.raises(LedgerMismatch):
        PostgresLedger(postgres.address, Terms(**{**vars(TERMS), "limit": 2_000}), name=name, key=KEY)
    with pytest.raises(LedgerCorrupted):
        PostgresLedger(postgres.address, TERMS, name=name, key=bytes(32))


def test_one_process_owns_it(postgres: Server, name: str) -> None:
    with opened(postgres, name), pytest.raises(LedgerLocked):
        PostgresLedger(postgres.address, TERMS, name=name, key=KEY)


def _cut(postgres: Server) -> None:
    """End the owner's connection on the server, as a failover does; its process has not noticed yet."""
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'maquette ledger'"
        )


def test_an_old_owner_is_fenced_by_epoch(postgres: Server, name: str) -> None:
    old = PostgresLedger(postgres.address, TERMS, name=name, key=KEY)
    ticket = old.reserve(asked("one"))
    assert isinstance(ticket, Ticket)
    number = old._connection
    _cut(postgres)
    with opened(postgres, name) as new:
        again = psycopg.connect(postgres.address, autocommit=True)  # it is back, without its lock
        old._connection = type(number)(again)
        old._connection.execute(f"SET search_path TO maquette_{name}")
        with pytest.raises(LedgerError, match="taken over"):
            old.commit(ticket, b"too late")
        with pytest.raises(LedgerError):
            old.reserve(asked("two"))
        with pytest.raises(RequestLost):
            new.reserve(asked("one"))
        assert new.lookup("one") is None
        assert new.spent() == 10
        new.verify()
    old.close()


def test_a_broken_connection_stops_the_ledger_and_opening_it_settles(postgres: Server, name: str) -> None:
    ledger = PostgresLedger(postgres.address, TERMS, name=name, key=KEY)
    ticket = ledger.reserve(asked("one"))
    assert isinstance(ticket, Ticket)
    postgres.restart()
    with pytest.raises(LedgerError, match="stopped"):
        ledger.commit(ticket, b"unknown")
    with pytest.raises(LedgerError, match="stopped"):
        ledger.spent()
    ledger.close()
    with opened(postgres, name) as again:
        assert again.spent() == 10
        with pytest.raises(RequestLost):
            again.reserve(asked("one"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET facts = replace(facts, '10', '11') WHERE kind = 'charge'",
        "UPDATE budget SET spent = spent - 1",
        "DELETE FROM request",
        "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event WHERE kind = 'charge')",
        "UPDATE event SET content = '\\x00' WHERE kind = 'charge'",
    ],
)
def test_tampering_is_seen(postgres: Server, name: str, change: str) -> None:
    with opened(postgres, name) as ledger:
        ledger.reserve(asked("one"))
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute(f"SET search_path TO maquette_{name}")
        admin.execute(change)
    with pytest.raises(LedgerCorrupted):
        PostgresLedger(postgres.address, TERMS, name=name, key=KEY)


def test_an_anchor_reveals_an_older_copy(postgres: Server, name: str, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    with opened(postgres, name, anchor=anchor) as ledger:
        ledger.reserve(asked("one"))
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute(f"SET search_path TO maquette_{name}")
        last = "(SELECT max(seq) FROM event WHERE kind = 'charge')"
        admin.execute("DELETE FROM request")
        admin.execute(f"DELETE FROM event WHERE seq >= {last}")
        admin.execute("UPDATE budget SET spent = 0 WHERE scope = 'table'")
        admin.execute("DELETE FROM budget WHERE scope <> 'table'")
    with pytest.raises(LedgerCorrupted, match="anchor"):
        PostgresLedger(postgres.address, TERMS, name=name, key=KEY, anchor=anchor)


def test_threads_share_commits_and_never_overspend(postgres: Server, name: str) -> None:
    refused: list[str] = []
    with opened(postgres, name) as ledger:

        def spend(thread: int) -> None:
            for number in range(20):
                try:
                    ticket = ledger.reserve(asked(f"{thread}:{number}", 20))
                    assert isinstance(ticket, Ticket)
                    ledger.commit(ticket, b"x")
                except BudgetExceeded:
                    refused.append(f"{thread}:{number}")

        threads = [threading.Thread(target=spend, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.spent() == 1_000
        assert len(refused) == 160 - 50
        ledger.verify()


@pytest.mark.thorough
def test_a_session_on_it_goes_on_after_a_restart(postgres: Server, name: str, tmp_path: Path) -> None:
    schema = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
    rows = {"age": [3, 7] * 500, "smoker": [True, False] * 500}
    answers = []
    for _ in range(2):
        table = mq.open_table(rows, schema)
        kept = lambda terms: PostgresLedger(postgres.address, terms, name=name, key_path=tmp_path / "key")  # noqa: E731
        with mq.Curator(table, mq.Budget(epsilon=3.0), ledger=kept) as curator:
            session = mq.online(curator, alpha=0.1)
            answers.append((session.ask("smoker", request="once").value, curator.spent.units))
    assert answers[0] == answers[1]


def test_the_password_is_not_shown(postgres: Server, name: str) -> None:
    address = postgres.address.replace("maquette@", "maquette:geheim@")
    with closing(PostgresLedger(address, TERMS, name=name, key=KEY)) as ledger:
        assert "geheim" not in repr(ledger) + ledger._repr_html_()


def test_a_ledger_file_moves_to_postgresql(postgres: Server, name: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from maquette.cli import app
    from maquette.privacy.ledger import SqliteLedger, export_ledger
    from maquette.privacy.ledger.chain import Chain
    from maquette.privacy.ledger.exchange import read_export

    path = tmp_path / "people.ledger"
    with closing(SqliteLedger(path, TERMS)) as ledger:
        ticket = ledger.reserve(asked("one"))
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, b"kept")
        ledger.limit_analyst("bob", 5)
        ledger.reserve(asked("two"))
    key = tmp_path / "people.ledger.key"
    out = tmp_path / "export"
    export_ledger(path, out)
    lines = out.read_text().splitlines(keepends=True)
    for wrong in (lines[:-1], [*lines[:-2], lines[-1]], [lines[0].replace("0", "1"), *lines[1:]]):
        out.write_text("".join(wrong))
        with pytest.raises(LedgerCorrupted):
            read_export(out, Chain(key.read_bytes()))
    result = CliRunner().invoke(app, ["ledger", "migrate", str(path), postgres.address, "--name", name])
    assert result.exit_code == 0, result.output
    assert not path.exists()
    with opened(postgres, name, key=None, key_path=key) as moved:
        recorded = moved.reserve(asked("one"))
        assert isinstance(recorded, Recorded)
        assert recorded.answer == b"kept"
        assert moved.spent() == 20
        with pytest.raises(RequestLost):
            moved.reserve(asked("two"))
        with pytest.raises(BudgetExceeded):
            moved.reserve(asked("three", 6, "bob"))
