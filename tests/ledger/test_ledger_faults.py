"""Full and failing disks, second openers, forks: nothing is released that is not durable, and the reason is said."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_checks import TERMS, ask, opened, request

from maquette.errors import BudgetExceeded, LedgerError, LedgerLocked, RequestLost
from maquette.privacy.ledger import SqliteLedger, Ticket, store


class FailingConnection:
    """A connection on which one statement fails as on a broken disk."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if statement.startswith(self._statement):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return self._connection.execute(statement, *parameters)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("statement", ["COMMIT", "INSERT INTO event", "BEGIN"])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_after_a_failed_write_nothing_is_released_and_every_call_is_refused(
    tmp_path: Path, statement: str, where: str
) -> None:
    path = None if where == "memory" else tmp_path / "ledger"
    with opened(path) as ledger:
        ticket = ledger.reserve(request("a"))
        assert isinstance(ticket, Ticket)
        healthy = ledger._home.connection
        ledger._home.connection = FailingConnection(healthy, statement)  # type: ignore[assignment]
        with pytest.raises(LedgerError, match=r"stopped: .*SQLITE_IOERR_FSYNC.*Nothing was released"):
            ledger.commit(ticket, b"42")
        ledger._home.connection = healthy
        for call in (ledger.spent, lambda: ledger.reserve(request("b")), lambda: ledger.lookup("a"), ledger.verify):
            with pytest.raises(LedgerError, match="stopped"):
                call()
    if path is not None:
        with opened(path) as ledger:
            assert ledger.spent() == 10
            with pytest.raises(RequestLost):
                ledger.reserve(request("a"))


def test_a_full_disk_stops_the_ledger_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged = []
    with opened(tmp_path / "ledger") as ledger:
        connection = ledger._home.connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 5}")

        def fill() -> None:
            for number in range(1_000):
                ask(ledger, f"r{number}", bytes(400), units=1)
                acknowledged.append(f"r{number}")

        with pytest.raises(LedgerError, match="SQLITE_FULL"):
            fill()
        with pytest.raises(LedgerError, match="stopped"):
            ledger.reserve(request("late"))
    assert acknowledged
    with opened(tmp_path / "ledger") as ledger:
        answered = [charge.id for charge in ledger.charges() if charge.state == "answered"]
        assert answered == acknowledged


def test_a_failed_anchor_stops_the_ledger_before_the_answer_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with opened(tmp_path / "ledger", anchor=tmp_path / "anchor") as ledger:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(LedgerError, match="Input/output error"):
            ledger.reserve(request("a"))
        with pytest.raises(LedgerError, match="stopped"):
            ledger.reserve(request("b"))


def test_one_refusal_in_a_group_does_not_undo_its_neighbours(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        hold, held = threading.Event(), threading.Event()

        def wait(_: sqlite3.Connection) -> None:
            held.set()
            hold.wait()

        outcomes: dict[int, object] = {}

        def client(number: int) -> None:
            try:
                outcomes[number] = ledger.reserve(request(f"r{number}", units=400))
            except BudgetExceeded as refusal:
                outcomes[number] = refusal

        threads = [threading.Thread(target=ledger._writer.run, args=(wait,))]
        threads[0].start()
        held.wait()
        threads += [threading.Thread(target=client, args=(number,)) for number in range(5)]
        for thread in threads[1:]:
            thread.start()
        while ledger._writer._queue.qsize() < 5:
            pass
        before = ledger._home.connection.total_changes
        hold.set()
        for thread in threads:
            thread.join()
        assert ledger._home.connection.total_changes > before
        assert (
            sorted(type(outcome).__name__ for outcome in outcomes.values()) == ["BudgetExceeded"] * 3 + ["Ticket"] * 2
        )
        assert ledger.spent() == 800
        ledger.verify()


def test_every_connection_syncs_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_connections = []
    connect = store.connect

    def spy(path: Path | None) -> sqlite3.Connection:
        connection = connect(path)
        if path is not None:
            opened_connections.append(connection)
        return connection

    monkeypatch.setattr(store, "connect", spy)
    with opened(tmp_path / "ledger"):
        assert len(opened_connections) == 1
        for connection in opened_connections:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_creation_syncs_each_file_before_it_gets_its_name_and_names_the_key_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def traced_fsync(descriptor: int) -> None:
        trace.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def traced_rename(source: Path, target: Path) -> Path:
        trace.append(f"name {target.name}")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(Path, "rename", traced_rename)
    with opened(tmp_path / "ledger"):
        directory = f"sync {tmp_path.name}"
        key = ["sync ledger.key.new", directory]
        head = ["sync ledger.head.new", directory]
        ledger = ["sync ledger.new", directory, "name ledger", directory]
        assert trace == [*key, *head, *ledger, "name ledger.head", directory, "name ledger.key", directory]


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("steps", range(13))
def test_creation_can_stop_anywhere_and_be_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    left = steps

    def failing(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                raise OSError(5, "Input/output error")
            left -= 1
            return step(*arguments)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync))
        patch.setattr(Path, "rename", failing(Path.rename))
        if steps < 12:
            with pytest.raises(LedgerError, match="Input/output error"):
                SqliteLedger(tmp_path / "ledger", TERMS)
        else:
            SqliteLedger(tmp_path / "ledger", TERMS).close()
    for spent in (0, 10):
        with opened(tmp_path / "ledger") as ledger:
            assert ledger.spent() == spent
            ask(ledger, f"r{spent}")
    assert not list(tmp_path.glob("*.new"))


def test_a_second_opener_is_turned_away(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as first:
        ask(first, "a")
        for shared in (False, True):
            with pytest.raises(LedgerLocked, match=r"open in this process already. Close the first Curator"):
                SqliteLedger(tmp_path / "ledger", TERMS, shared=shared)
        (tmp_path / "link").symlink_to(tmp_path / "ledger")
        with pytest.raises(LedgerLocked):
            SqliteLedger(tmp_path / "link", TERMS)
        ask(first, "b")
    with opened(tmp_path / "ledger") as second:
        assert second.spent() == 20


def test_a_second_opener_is_told_that_another_process_has_it(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from ledger_checks import TERMS\n"
        "from maquette.privacy.ledger import SqliteLedger\n"
        "ledger = SqliteLedger(sys.argv[1], TERMS)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "ledger")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        for shared in (False, True):
            with pytest.raises(LedgerLocked, match=r"open in another process\. Stop that process"):
                SqliteLedger(tmp_path / "ledger", TERMS, shared=shared)
        other.communicate()
    with opened(tmp_path / "ledger") as ledger:
        assert ledger.spent() == 0


def test_sharing_processes_keep_one_boot_until_the_last_one_leaves(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, shared=True) as first:
        ticket = first.reserve(request("a"))
        assert isinstance(ticket, Ticket)
        with opened(path, shared=True) as second:
            assert [charge.state for charge in second.charges()] == ["reserved"]
            with pytest.raises(LedgerLocked):
                SqliteLedger(path, TERMS)
            ask(second, "b")
        first.commit(ticket, b"42")
        first.reserve(request("c"))
        first.verify()
    with opened(path, shared=True) as third:
        assert [charge.state for charge in third.charges()] == ["answered", "answered", "lost"]


def test_a_stranger_s_write_stops_the_owner(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as first:
        ask(first, "a")
        (tmp_path / "ledger.lock").unlink()
        with opened(tmp_path / "ledger"), pytest.raises(LedgerError, match="another process wrote"):
            first.reserve(request("b"))


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"cannot be opened: .*No such file"):
        SqliteLedger(tmp_path / "nowhere" / "ledger", TERMS)
