"""The writer of a ledger: what comes while a transaction is awaited joins it, and shares its outcome whatever it is."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from maquette.errors import LedgerError, LedgerLocked
from maquette.privacy.ledger import Request, SqliteLedger, Terms, Ticket
from maquette.privacy.ledger.writer import Writer

TERMS = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=1_000)


def request(name: str, units: int = 7) -> Request:
    return Request(id=name, analyst="ann", digest="00" * 32, units=units, description="{}")


class Kept:
    """A transaction whose beginning and whose end the test decides; it keeps what was done in it."""

    def __init__(self) -> None:
        self.done, self.durable = list[Any](), list[Any]()
        self.entered, self.begin = threading.Event(), threading.Event()
        self.refused: Exception | None = None  # at the beginning
        self.failing: Exception | None = None  # at the end
        self.begun = 0

    def execute(self, statement: str) -> None:
        if statement.startswith("SAVEPOINT"):
            self._mark = len(self.done)
        elif statement.startswith("ROLLBACK"):
            del self.done[self._mark :]

    @contextmanager
    def transaction(self) -> Iterator[Kept]:
        self.entered.set()
        assert self.begin.wait(10)
        if self.refused is not None:
            raise self.refused
        self.begun += 1
        yield self
        if self.failing is not None:
            raise self.failing
        self.durable += self.done
        self.done.clear()


def does(what: Any, kept: Kept, error: BaseException | None = None) -> Callable[[Any], Any]:
    def operation(_: Any) -> Any:
        kept.done.append(what)
        if error is not None:
            raise error
        return what

    return operation


def late(writer: Writer, kept: Kept, pool: ThreadPoolExecutor, *operations: Callable[[Any], Any]) -> list[Any]:
    """The first operation begins a transaction, which waits; the others come meanwhile."""
    waiting = [pool.submit(writer.run, operations[0])]
    assert kept.entered.wait(10)
    for number, operation in enumerate(operations[1:], 1):
        waiting.append(pool.submit(writer.run, operation))
        while writer._queue.qsize() < number:
            time.sleep(0.001)
    return waiting


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def test_latecomers_join_and_a_refused_one_is_undone_alone(kept: Kept, pool: ThreadPoolExecutor) -> None:
    writer = Writer(kept.transaction, threaded=True)
    refused = does("refused", kept, LedgerError("no"))
    waiting = late(writer, kept, pool, refused, does(1, kept), refused, does(2, kept))
    kept.begin.set()
    assert [one.result(10) for one in (waiting[1], waiting[3])] == [1, 2]
    assert all(isinstance(waiting[place].exception(10), LedgerError) for place in (0, 2))
    assert (kept.begun, kept.durable) == (1, [1, 2])
    writer.close()


@pytest.mark.parametrize("failure", [sqlite3.OperationalError("full"), OSError(28, "no space"), MemoryError()])
def test_a_failed_commit_is_told_to_latecomers_and_to_all_who_come_after(
    kept: Kept, pool: ThreadPoolExecutor, failure: Exception
) -> None:
    writer = Writer(kept.transaction, threaded=True)
    kept.failing = failure
    waiting = late(writer, kept, pool, *(does(number, kept) for number in range(5)))
    kept.begin.set()
    for one in waiting:
        assert isinstance(one.exception(10), LedgerError)
    assert kept.durable == []
    assert not writer.running
    kept.failing = None
    with pytest.raises(LedgerError, match="stopped"):
        writer.run(does("after", kept))
    assert kept.begun == 1
    writer.close()


def test_latecomers_of_a_group_that_could_not_begin_are_tried_after_it(kept: Kept, pool: ThreadPoolExecutor) -> None:
    writer = Writer(kept.transaction, threaded=True)
    kept.refused = LedgerLocked("another has it")
    waiting = late(writer, kept, pool, does(0, kept), does(1, kept), does(2, kept))
    kept.begin.set()
    for one in waiting:
        assert isinstance(one.exception(10), LedgerLocked)
    kept.refused = None
    assert writer.running
    assert writer.run(does("after", kept)) == "after"
    writer.close()


def test_closing_finishes_latecomers(kept: Kept, pool: ThreadPoolExecutor) -> None:
    writer = Writer(kept.transaction, threaded=True)
    waiting = late(writer, kept, pool, *(does(number, kept) for number in range(4)))
    closing = pool.submit(writer.close)
    while not writer._closed:
        time.sleep(0.001)
    with pytest.raises(LedgerError, match="closed"):
        writer.run(does("after", kept))
    kept.begin.set()
    closing.result(10)
    assert [one.result(10) for one in waiting] == [0, 1, 2, 3]
    assert writer._thread is not None
    assert not writer._thread.is_alive()


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_an_operation_raises_nobody_waits_for_ever(
    kept: Kept, pool: ThreadPoolExecutor, error: BaseException
) -> None:
    """The thread of the writer ended, and everyone who waited for it did so for ever."""
    writer = Writer(kept.transaction, threaded=True)
    waiting = late(writer, kept, pool, does(0, kept), does(1, kept, error), does(2, kept))
    kept.begin.set()
    for one in waiting:
        assert isinstance(one.exception(10), LedgerError)
    assert kept.durable == []
    with pytest.raises(LedgerError, match="stopped"):
        writer.run(does("after", kept))
    writer.close()


def test_without_a_thread_an_interrupt_is_the_caller_s_and_undoes_its_operation(kept: Kept) -> None:
    kept.begin.set()
    writer = Writer(kept.transaction, threaded=False)
    with pytest.raises(KeyboardInterrupt):
        writer.run(does(0, kept, KeyboardInterrupt()))
    assert writer.running
    assert kept.durable == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt, whatever earlier tests of this process have left it to be."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_who_waits_leaves_the_group_alone(kept: Kept, pool: ThreadPoolExecutor) -> None:
    """Ctrl-C in the main thread: its operation is done all the same, once, and the others hear of theirs."""
    writer = Writer(kept.transaction, threaded=True)
    other = pool.submit(writer.run, does("other", kept))
    assert kept.entered.wait(10)

    def interrupts() -> None:
        while writer._queue.qsize() < 1:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pool.submit(interrupts)
    with pytest.raises(KeyboardInterrupt):
        writer.run(does("mine", kept))
    kept.begin.set()
    assert other.result(10) == "other"
    assert writer.run(does("after", kept)) == "after"
    assert kept.durable == ["other", "mine", "after"]
    writer.close()


def test_a_disk_that_is_full_at_the_commit_keeps_nothing_of_a_group(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    ledger = SqliteLedger(tmp_path / "ledger", TERMS)
    first = ledger.reserve(request("first"))
    assert isinstance(first, Ticket)
    began, go = threading.Event(), threading.Event()
    begin = ledger._home._begin

    def slowly() -> None:
        began.set()
        assert go.wait(10)
        begin()
        pages = ledger._home.connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._home.connection.execute(f"PRAGMA max_page_count = {pages}")

    with mock.patch.object(ledger._home, "_begin", slowly):
        waiting: list[Future[Any]] = [pool.submit(ledger.reserve, request("r0"))]
        assert began.wait(10)
        waiting += [pool.submit(ledger.commit, first, b"x" * 100_000), pool.submit(ledger.reserve, request("r1"))]
        while ledger._writer._queue.qsize() < 2:
            time.sleep(0.001)
        go.set()
        for one in waiting:
            assert isinstance(one.exception(10), LedgerError)
    assert ledger.stopped
    ledger.close()
    with closing(SqliteLedger(tmp_path / "ledger", TERMS)) as again:
        assert [(one.id, one.state) for one in again.charges()] == [("first", "lost")]
        again.verify()
