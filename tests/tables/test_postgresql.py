"""PostgreSQL as a source: one snapshot, no credential and no row in a message, nothing opened from half a stream."""

from __future__ import annotations

import os
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from servers import postgresql

import maquette as mq
from maquette.curator.postgresql import _parts
from maquette.curator.table import engine_of
from maquette.errors import MaquetteError, UnreadableSource

SCHEMA = mq.Schema([mq.Integer("age", 0, 99), mq.Category("sex", ["f", "m"])])
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as address:
        import psycopg

        with psycopg.connect(address) as connection:
            connection.execute(
                "CREATE TABLE people AS SELECT i AS id, i % 90 AS age, CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex"
                " FROM generate_series(1, 30000) AS i"
            )
            connection.execute("CREATE ROLE nobody_here LOGIN")
        yield address


def refused(*arguments: Any, **options: Any) -> str:
    """The message of a refusal, with everything in its chain."""
    with pytest.raises(MaquetteError) as caught:
        mq.open_table(*arguments, **options)
    assert isinstance(caught.value, UnreadableSource)
    return "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__cause__)


def test_a_query_or_a_table_is_read_in_one_pass(server: str, tmp_path: Path) -> None:
    rows = {"age": [i % 90 for i in range(1, 30001)], "sex": ["m" if i % 3 else "f" for i in range(1, 30001)]}
    held = mq.open_table(rows | {"id": range(1, 30001)}, SCHEMA, privacy_unit="id")
    plain = mq.open_table(rows, SCHEMA)
    planes = {"planes": tmp_path / "p", "memory_limit": 0}
    for source, options in (
        (f"{server}&table=people", {}),
        (f"{server}&table=public.people", planes),
        (server, {"query": "SELECT sex, age FROM people;"}),
    ):
        assert engine_of(mq.open_table(source, SCHEMA, **options)).fingerprint == engine_of(plain).fingerprint
    bounded = mq.open_table(f"{server}&table=people", SCHEMA, privacy_unit="id")
    assert engine_of(bounded).fingerprint == engine_of(held).fingerprint


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM nothing", "a table that does not exist"),
        ("SELECT SECRET FROM people", "a column that does not exist"),
        ("SELEC", "not one SELECT statement"),
        ("SELECT age FROM people", "lacks 'sex'"),
        ("SELECT 1 AS age, 'SECRET'::int::text AS sex", "the server refuses the query"),
        ("SELECT 1 / (i - 5) AS age, 'SECRET' AS sex FROM generate_series(1, 9) AS i", "was lost before all rows"),
        ("SELECT age, sex FROM people WHERE nextval('s') > 0", "does not exist|refuses"),
    ],
)
def test_a_bad_query_is_refused_without_the_words_of_the_server(server: str, query: str, why: str) -> None:
    message = refused(server, SCHEMA, query=query)
    assert re.search(why, message), message
    assert "SECRET" not in message.replace(query, "")


def test_nan_in_an_exact_number_is_missing(server: str) -> None:
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE TABLE exact (v numeric(10, 2))")
        connection.execute("INSERT INTO exact VALUES (1.5), (2.5), ('NaN')")
    table = mq.open_table(f"{server}&table=exact", mq.Schema([mq.Number("v", 0, 4, bins=4, nullable=True)]))
    assert engine_of(table).counts(["v"]).tolist() == [0, 1, 1, 0, 1]


def test_a_query_cannot_write(server: str) -> None:
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE SEQUENCE counter")
    query = "SELECT nextval('counter')::int AS age, 'f' AS sex"
    assert "read-only" in refused(server, SCHEMA, query=query)


def test_credentials_are_in_no_message(server: str) -> None:
    wrong = "postgresql://someone:HUNTER2@127.0.0.1:9/base?connect_timeout=2&password=HUNTER2"
    for address in (wrong, server.replace("maquette@", "absent:HUNTER2@"), "postgresql://a:HUNTER2@[::"):
        with pytest.raises(MaquetteError) as caught:
            mq.open_table(address, SCHEMA, query="SELECT 1")
        error = caught.value
        assert "HUNTER2" not in str(error) + repr(error.__cause__) + repr(error.__context__)


def test_tls_is_verified_unless_the_address_says_otherwise() -> None:
    assert "sslmode=verify-full" in _parts("postgresql://h/d?table=t", None)[0]
    assert "sslmode=disable" in _parts("postgresql://h/d?table=t&sslmode=disable", None)[0]
    with pytest.raises(UnreadableSource, match="name one thing"):
        _parts("postgresql://h/d", None)


SLOW = """SELECT i % 90 AS age, 'f' || left(pg_sleep(CASE WHEN i > 50000 THEN 0.001 ELSE 0 END)::text, 0) AS sex
FROM generate_series(1, 100000) AS i"""
COPYING = (
    "FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state = 'active' AND now() - query_start > interval '1 second'"
)


@contextmanager
def meanwhile(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` again and again beside the block."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.2):
            end()

    ender = threading.Thread(target=work)
    ender.start()
    try:
        yield
    finally:
        stop.set()
        ender.join()


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_stream_that_breaks_off_opens_nothing(server: str, how: str, tmp_path: Path) -> None:
    import psycopg

    with (
        psycopg.connect(server, autocommit=True) as connection,
        meanwhile(lambda: connection.execute(f"SELECT {how}(pid) {COPYING}")),
    ):
        message = refused(server, SCHEMA, query=SLOW, planes=tmp_path / "p", keep_planes=True)
    assert ("was cancelled" if "cancel" in how else "connection to the server was lost") in message
    assert list((tmp_path / "p").iterdir()) == []


def test_a_server_that_is_killed_opens_nothing_and_what_was_opened_goes_on(tmp_path: Path) -> None:
    import psycopg

    with postgresql() as address:
        home = Path(address.partition("host=")[2])
        opened = mq.open_table(address, SCHEMA, query="SELECT i AS age, 'f' AS sex FROM generate_series(1, 80) AS i")
        with psycopg.connect(address, autocommit=True) as connection:

            def kill() -> None:
                with suppress(psycopg.Error, OSError):
                    if connection.execute(f"SELECT pid {COPYING}").fetchall():
                        number = (home / "data" / "postmaster.pid").read_text().split()[0]
                        os.kill(int(number), signal.SIGQUIT)  # all processes of the server, at once

            with meanwhile(kill):
                message = refused(address, SCHEMA, query=SLOW, planes=tmp_path / "p", keep_planes=True)
        assert "connection to the server was lost" in message
        assert list((tmp_path / "p").iterdir()) == []
        refused(address, SCHEMA, query=SLOW)  # nobody answers
        with mq.Curator(opened, mq.Budget(epsilon=1.0)) as curator:
            mq.answer(curator, "SELECT count(*) FROM t WHERE age > 40", epsilon=0.5)
            assert curator.spent.epsilon == pytest.approx(0.5)
