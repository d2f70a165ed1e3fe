"""Rows in memory are read by one DuckDB of the process: uses see nothing of each other, failures and forks end none."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

import maquette as mq
from maquette.schema import connection, instance

SCHEMA = mq.Schema([mq.Integer("age", 0, 9), mq.Category("city", ["Oslo", "Rome"])])
ROWS = {"age": [1, 2, 3], "city": ["Oslo", "Rome", "Rome"]}
NAMED = "SELECT table_name FROM information_schema.tables"


def test_what_is_opened_leaves_no_name_behind() -> None:
    mq.open_table(ROWS, SCHEMA)
    SCHEMA["age"].encode([1, 2])
    with connection() as one, connection() as other:
        assert one.execute(NAMED).fetchall() == []
        one.execute("CREATE TEMP VIEW mine AS SELECT 1")
        assert other.execute(NAMED).fetchall() == []


def test_settings_are_those_of_our_own_instances() -> None:
    with connection() as engine:
        found = engine.execute("SELECT current_setting('TimeZone'), current_setting('temp_directory')").fetchall()
    assert found == [("UTC", "")]


def test_an_instance_that_fails_is_replaced() -> None:
    connection().close()
    (failed,) = instance._instances
    failed.close()
    with pytest.raises(duckdb.Error):
        failed.cursor().execute("SELECT 1")
    assert SCHEMA["age"].encode([3]).tolist() == [3]
    assert instance._instances != [failed]


def test_many_threads_read_at_once() -> None:
    def encoded(place: int) -> list[int]:
        return [int(code) for code in SCHEMA["age"].encode([(place + i) % 10 for i in range(500)])]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(encoded, range(40)))
    assert found == [[(place + i) % 10 for i in range(500)] for place in range(40)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_reads_with_an_instance_of_its_own_and_ends() -> None:
    """As servers end that fork their workers: the interpreter finishes, and closes what it still holds."""
    program = """
import os, sys, maquette as mq
column = mq.Integer("age", 0, 9)
column.encode([1] * 100_000)
child = os.fork()
found = column.encode([4]).tolist()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or found != [4])
sys.exit(0 if found == [4] else 3)
"""
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], dict(os.environ), setpgroup=0)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    pytest.fail("the fork did not end")
