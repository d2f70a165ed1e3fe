"""A transaction in PostgreSQL: few exchanges for many requests, and a refused operation is undone alone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from postgres_ledgers import KEY, TERMS, asked

from maquette.errors import BudgetExceeded
from maquette.privacy.ledger import PostgresLedger, SharedPostgresLedger, Ticket
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.postgres_storage import Connection
from postgres_server import Server

pytest.importorskip("psycopg")
KINDS = pytest.mark.parametrize("kind", [PostgresLedger, SharedPostgresLedger])


def opened(kind: Any, postgres: Server, name: str) -> closing[Any]:
    return closing(kind(postgres.address, TERMS, name=name, key=KEY))


def queued(ledger: PostgresLedger, count: int) -> None:
    """Wait until so many operations wait for the writer."""
    while ledger._writer._queue.qsize() < count:
        time.sleep(0.001)


class Held:
    """Keeps a ledger's writer busy until the block ends, so that what is asked meanwhile makes one group."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self._ledger, self._begun, self._go = ledger, threading.Event(), threading.Event()

    def __enter__(self) -> None:
        def hold(_: Book) -> None:
            self._begun.set()
            self._go.wait(10)

        self._thread = threading.Thread(target=self._ledger._run, args=(hold,))
        self._thread.start()
        self._begun.wait(10)

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join()


@KINDS
def test_a_group_of_requests_takes_few_exchanges(
    postgres: Server, name: str, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = list[str]()
    execute, together = Connection.execute, Connection.together

    def executed(self: Connection, statement: str, values: Any = ()) -> Any:
        exchanges.append(statement)
        return execute(self, statement, values)

    def all_together(self: Connection, statements: Any) -> Any:
        exchanges.append("together")
        return together(self, statements)

    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(20) as pool:
        with Held(ledger):
            waiting = [pool.submit(ledger.reserve, asked(f"r{i}", 1, f"team/{i % 3}")) for i in range(20)]
            queued(ledger, 20)
            monkeypatch.setattr(Connection, "execute", executed)
            monkeypatch.setattr(Connection, "together", all_together)
        tickets = [one.result() for one in waiting]
        monkeypatch.undo()
        assert all(isinstance(ticket, Ticket) for ticket in tickets)
        assert exchanges.count("together") <= 4, "the held one's COMMIT, then lock, rows and COMMIT of the group"
        assert len(exchanges) <= 5
        assert ledger.spent() == 20
        ledger.verify()


@KINDS
def test_an_operation_that_wrote_and_was_refused_is_undone_alone(postgres: Server, name: str, kind: Any) -> None:
    def writes_and_refuses(book: Book) -> None:
        book.reserve(asked("undone", 7))
        book.add(Entry("guard", ["undone", 3]))
        raise BudgetExceeded("refused", requested=1.0, remaining=0.0)

    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(3) as pool:
        with Held(ledger):
            before = pool.submit(ledger.reserve, asked("before", 5))
            queued(ledger, 1)
            undone = pool.submit(ledger._run, writes_and_refuses)
            queued(ledger, 2)
            after = pool.submit(ledger.reserve, asked("after", 5))
            queued(ledger, 3)
        with pytest.raises(BudgetExceeded):
            undone.result()
        ledger.commit(before.result(), b"one")
        ledger.commit(after.result(), b"two")
        assert after.result().seq == before.result().seq + 1
        assert ledger.spent() == 10
        assert [charge.id for charge in ledger.charges()] == ["before", "after"]
        assert ledger.lookup("undone") is None
        ledger.open_guard("undone", hits=1)
        assert ledger.hits_left("undone") == 1
        assert isinstance(ledger.reserve(asked("undone", 7)), Ticket)
        ledger.verify()


@KINDS
def test_operations_see_what_those_before_them_in_the_group_wrote(postgres: Server, name: str, kind: Any) -> None:
    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(8) as pool:
        with Held(ledger):
            waiting = [pool.submit(ledger.reserve, asked(f"r{i}", 300)) for i in range(8)]
            queued(ledger, 8)
        granted = [one for one in waiting if one.exception() is None]
        assert len(granted) == 3, "of a limit of 1,000"
        assert all(isinstance(one.exception(), BudgetExceeded) for one in waiting if one not in granted)
        assert ledger.spent() == 900
        ledger.verify()
