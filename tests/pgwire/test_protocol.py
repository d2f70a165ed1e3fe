"""The protocol, byte by byte: order, limits, portals, errors, cancel; and a fuzz of frames before and after login."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from pg_client import SYNC, Closed, RawClient, bind, describe, execute, fields, parse, problem, rows, text
from pg_door import Door
from pg_noise import storm

from maquette.service.pgwire import Limits
from maquette.service.pgwire.codec import frame

FRAMES = 10_000


@pytest.fixture
def client(door: Door) -> RawClient:
    return RawClient(door.port).login("alice", door.tokens["alice"])


def test_an_error_skips_to_the_next_sync(client: RawClient) -> None:
    client.send(parse("SELECT nonsense FROM nowhere"), bind(), describe(), execute(), parse("SELECT 1"), SYNC)
    assert client.kinds() == "EZ"
    client.send(parse("SELECT 1"), bind(), execute(), SYNC)
    assert client.kinds() == "12DCZ"


def test_portals_go_on_where_they_stopped(client: RawClient) -> None:
    client.query("BEGIN")
    client.send(parse("SELECT age FROM people LIMIT 10"), bind(portal="p"), execute(4, "p"), SYNC)
    assert client.kinds() == "12DDDDsZ"
    client.send(execute(4, "p"), SYNC)
    assert client.kinds() == "DDDDsZ"
    client.send(execute(4, "p"), SYNC)
    assert client.kinds() == "DDCZ"
    client.query("COMMIT")
    client.send(execute(4, "p"), SYNC)
    assert problem(client.until())["C"] == "34000"


def test_names_that_do_not_exist_or_exist_twice(client: RawClient) -> None:
    for frames, code in [
        ((bind(name="nobody"),), "26000"),
        ((describe("S", "nobody"),), "26000"),
        ((describe("P", "nobody"),), "34000"),
        ((execute(0, "nobody"),), "34000"),
        ((parse("SELECT 1", "twice"), parse("SELECT 2", "twice")), "42P05"),
        ((parse("SELECT 1; SELECT 2"),), "42601"),
        ((parse("SELECT $1::int"), bind([])), "08P01"),
        ((parse("SELECT $1::int"), bind([b"x"])), "22P02"),
    ]:
        client.send(*frames, SYNC)
        assert problem(client.until()).get("C") == code, frames


def test_an_empty_query(client: RawClient) -> None:
    assert [kind for kind, _ in client.query("  ; -- nothing\n")] == ["I", "Z"]
    client.send(parse(""), bind(), describe(), execute(), SYNC)
    assert client.kinds() == "12nIZ"


def test_several_statements_stop_at_the_first_error(client: RawClient) -> None:
    said = client.query("SELECT 1; SELECT 2; SELECT wrong FROM nowhere; SELECT 3")
    assert list(rows(said)) == [["1"], ["2"]]
    assert problem(said)["C"] == "42P01"


def test_a_failed_transaction_waits_for_its_end(client: RawClient) -> None:
    client.query("BEGIN")
    assert client.query("SELECT * FROM nowhere")[-1] == ("Z", b"E")
    assert problem(client.query("SELECT 1"))["C"] == "25P02"
    said = client.query("COMMIT")
    assert ("C", b"ROLLBACK\0") in said
    assert said[-1] == ("Z", b"I")


def test_text_and_binary_agree(client: RawClient) -> None:
    sql = "SELECT 7::int4, 7::int8, true, 1.5::float8, 'x'::text, DATE '2001-02-03', ARRAY['a','b c']"
    client.send(parse(sql), bind(results=[1]), execute(), SYNC)
    (body,) = [body for kind, body in client.until() if kind == "D"]
    assert struct.pack("!i", 4) + struct.pack("!i", 7) in body
    assert struct.pack("!i", 8) + struct.pack("!d", 1.5) in body
    assert struct.pack("!i", 4) + struct.pack("!i", 399) in body
    (row,) = rows(client.query(sql))
    assert row == ["7", "7", "t", "1.5", "x", "2001-02-03", '{a,"b c"}']


@pytest.mark.thorough
def test_deep_and_long_texts_are_refused(client: RawClient) -> None:
    for sql, code in [
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "54001"),
        ("SELECT " + "- " * 3000 + "1", "54001"),
        ("SELECT " + "NOT " * 3000 + "true", "54001"),
        ("SELECT " + "1 + " * 20_000 + "1", "54000"),
        ("SELECT '" + "x" * 200_000 + "'", "54000"),
        ("SELECT 'not closed", "42601"),
        ("SELECT * FROM generate_series(1, 100000000) a, generate_series(1, 100000) b", "54000"),
    ]:
        assert problem(client.query(sql))["C"] == code, sql[:40]
    assert list(rows(client.query("SELECT 1"))) == [["1"]]


@pytest.mark.thorough
def test_long_chains_do_not_end_the_server(client: RawClient) -> None:
    for sql in (
        "SELECT " + " + ".join(["1"] * 2000),
        "SELECT 1 WHERE " + " AND ".join(["1 = 1"] * 1000),
        "SELECT " + "1::int" + "::int" * 50,
        "SELECT " + "||".join(["'a'"] * 2500),
        " UNION ALL ".join(["SELECT 1"] * 200),
    ):
        client.query(sql)
    assert list(rows(client.query("SELECT 1"))) == [["1"]]


def test_nothing_outside_can_be_reached(client: RawClient) -> None:
    """The engine behind the catalogue knows files, settings and functions that a statement must not reach."""
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('*')",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM pragma_version()",
        "SELECT getvariable('me')",
        "SELECT * FROM pgc.pg_class",
        "SELECT * FROM rows.people",
        'SELECT * FROM "people 1000"',
        "SELECT current_setting('memory_limit')",
        "SELECT lo_import('/etc/passwd')",
        "ATTACH 'x.db'",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "CREATE TABLE x (y int)",
        "COPY people TO '/tmp/x'",
        "COPY people TO PROGRAM 'id'",
        "SELECT 1 INTO x",
        "EXPLAIN ANALYZE SELECT count(*) FROM people",
        "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x",
    ):
        assert problem(client.query(sql)), sql


def test_cancel_ends_the_wait(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    table = door.service.tables["people"]
    begun, go = threading.Event(), threading.Event()
    ask = table.ask

    def slow(*given: object, **named: object) -> object:
        begun.set()
        go.wait(10)
        return ask(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "ask", slow)
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        client.send(frame(b"Q", text("SELECT count(*) FROM people WHERE age >= 91")))
        assert begun.wait(10)
        for secret in (client.key[1] ^ 1, client.key[1]):
            with RawClient(door.port) as other:
                other.send(struct.pack("!iiiI", 16, 80877102, client.key[0], secret))
                with pytest.raises(Closed):
                    other.read(1)
        said = client.until()
        assert problem(said)["C"] == "57014"
        go.set()
        monkeypatch.undo()
        assert list(rows(client.query("SELECT 1"))) == [["1"]]


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"?", b""),
        b"Q\xff\xff\xff\xff",
        b"Q\0\0\0\2",
        struct.pack("!ci", b"Q", 1 << 30),
        frame(b"Q", b"no end"),
        frame(b"Q", b"\xff\xfe\0"),
        frame(b"P", b"\0\0\x7f\xff"),
        frame(b"B", b"\0\0\0\1\0\7\0\0\0\0"),
        frame(b"D", b"Xname\0"),
        frame(b"E", b"\0"),
    ],
)
def test_a_broken_frame_ends_the_connection(door: Door, sent: bytes) -> None:
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        client.send(sent)
        kind, body = client.message()
        assert (kind, fields(body)["C"]) == ("E", "08P01")
        with pytest.raises(Closed):
            client.message()


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack("!ii", 1 << 30, 196_608),
        struct.pack("!ii", 20_000, 196_608) + bytes(19_992),
        struct.pack("!ii", 4, 196_608),
        frame(b"Q", text("SELECT 1")),
        frame(b"p", bytes(40)),
        struct.pack("!ii", 12, 196_608) + b"user",
    ],
)
def test_a_broken_beginning_ends_the_connection(door: Door, sent: bytes) -> None:
    """Before login: oversized, too short, in the wrong order, without an end."""
    with RawClient(door.port) as client:
        client.send(sent)
        client.socket.shutdown(socket.SHUT_WR)
        rest = b""
        with contextlib.suppress(ConnectionError):
            while piece := client.socket.recv(4096):
                rest += piece
        assert rest[:1] in (b"", b"E")


@pytest.mark.parametrize("sent", [struct.pack("!ci", b"p", 1 << 29), frame(b"Q", text("SELECT 1")), SYNC])
def test_only_a_password_follows_the_startup(door: Door, sent: bytes) -> None:
    with RawClient(door.port) as client:
        client.startup(user="alice", database="maquette")
        client.message()
        client.send(sent)
        kind, body = client.message()
        assert (kind, fields(body)["S"]) == ("E", "FATAL")
        with pytest.raises(Closed):
            client.message()


def test_slow_and_half_open_clients_are_left(tmp_path: Path) -> None:
    limits = Limits(login_seconds=0.5, message_seconds=0.5, idle_seconds=0.8, wrong_seconds=0.0)
    door = Door(tmp_path, limits=limits)
    try:
        silent, halfway = RawClient(door.port), RawClient(door.port)
        halfway.send(b"\0\0")
        slow = RawClient(door.port).login("alice", door.tokens["alice"])
        slow.send(b"Q\0\0\0\x20SELE")
        idle = RawClient(door.port).login("alice", door.tokens["alice"])
        for one in (silent, halfway, slow, idle):
            with pytest.raises(Closed):
                one.message()
    finally:
        door.close()


@pytest.mark.thorough
def test_a_client_that_does_not_read_is_left(tmp_path: Path) -> None:
    door = Door(tmp_path, limits=Limits(write_seconds=0.5))
    try:
        client = RawClient(door.port).login("alice", door.tokens["alice"])
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.query("SET maquette.sample_rows = 30000")
        client.send(*[frame(b"Q", text("SELECT * FROM people")) for _ in range(4)])
        end = time.monotonic() + 60
        while door.server.connections and time.monotonic() < end:
            time.sleep(0.1)
        assert not door.server.connections
        with RawClient(door.port).login("alice", door.tokens["alice"]) as other:
            assert list(rows(other.query("SELECT 1"))) == [["1"]]
    finally:
        door.close()


@pytest.mark.thorough
def test_fuzz(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """Ten thousand frames are read: the server answers or closes, without an error of its own, and serves the next."""
    before = door.units()
    assert storm(door, FRAMES, seed=22) > 10
    assert door.units() == before
    assert [record.getMessage() for record in caplog.records if record.name == "maquette.service.pgwire"] == []
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        assert list(rows(client.query("SELECT 1"))) == [["1"]]
        assert problem(client.query("SELECT $1"))["C"] == "42P02"


@pytest.mark.thorough
def test_five_hundred_connections(door: Door) -> None:
    clients = [RawClient(door.port, timeout=60) for _ in range(500)]
    try:
        for client in clients:
            client.startup(user="alice", database="maquette")
        for client in clients:
            client.authenticate(door.tokens["alice"])
            client.until()
        for client in clients:
            client.send(frame(b"Q", text("SELECT 1")))
        assert all(list(rows(client.until())) == [["1"]] for client in clients)
    finally:
        for client in clients:
            client.close()


def test_too_many_connections(tmp_path: Path) -> None:
    door = Door(tmp_path, limits=Limits(connections=2))
    try:
        held = [RawClient(door.port).login("alice", door.tokens["alice"]) for _ in range(2)]
        with RawClient(door.port) as third:
            third.startup(user="alice")
            kind, body = third.message()
            assert (kind, fields(body)["C"]) == ("E", "53300")
        assert len(held) == 2
    finally:
        door.close()
