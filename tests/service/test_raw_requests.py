"""Hostile bytes over a real socket, read by either parser: ambiguous, endless, slow, and hidden behind the body."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from rooms import House, house, settings

from maquette.service import Limits
from maquette.service.running import http_config, http_parser

ASK = b"POST /v1/tables/people/ask HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Listener:
    """A served house, its port, and the headers of somebody who may ask."""

    made: House
    port: int
    bearer: bytes

    def send(self, *parts: bytes) -> bytes:
        """Everything that comes back; the server may close before all is sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            received = b""
            try:
                for part in parts:
                    connection.sendall(part)
                while part := connection.recv(65_536):
                    received += part
            except ConnectionError:
                pass
            return received

    def status(self, *parts: bytes) -> bytes:
        """The status of the first reply; empty if the connection ended without one."""
        return self.send(*parts).partition(b"\r\n")[0].removeprefix(b"HTTP/1.1 ")[:3]


@pytest.fixture(scope="module", params=["h11", "httptools"])
def listener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    pytest.importorskip(request.param)
    limits = Limits(request_seconds=0.5, idle_seconds=1.0)
    with listening(tmp_path_factory.mktemp("raw"), request.param, limits) as made:
        yield made


@contextmanager
def listening(folder: Path, parser: str, limits: Limits) -> Iterator[Listener]:
    """A served house on a socket of its own, its requests read by h11 or by httptools."""
    import uvicorn

    with house(settings(folder, limits=limits)) as made:
        port = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(http_config(made.service, "h11" if parser == "h11" else http_parser()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        bearer = f"Authorization: Bearer {made.tokens['ada']}\r\nContent-Type: application/json\r\n".encode()
        yield Listener(made, port.getsockname()[1], bearer)
        server.should_exit = True
        thread.join(60)


def test_ambiguous_requests(listener: Listener) -> None:
    """Two lengths, two hosts, and garbage."""
    assert listener.status(ASK, b"Content-Length: 5\r\n", CHUNKED, b"0\r\n\r\n") == b"400"
    assert (
        listener.status(b"GET /v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\nConnection: close\r\n\r\n") == b"400"
    )
    assert listener.status(b"GET /v1/me HTTP/1.1\r\nConnection: close\r\n\r\n") == b"400"
    assert listener.status(b"\x16\x03\x01 garbage\r\n\r\n") == b"400"
    assert listener.status(b"GET /v1/me HTTP/1.1\r\nHost : 127.0.0.1\r\nConnection: close\r\n\r\n") == b"400"
    assert listener.status(b"GET /v1/health HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n") == b"421"


def test_a_slow_body(listener: Listener) -> None:
    assert listener.status(ASK, listener.bearer, b"Content-Length: 20\r\n\r\n{") == b"408"


@pytest.mark.parametrize("begun", [b"", b"G", ASK, ASK[:30]], ids=["nothing", "one byte", "no end", "half"])
@pytest.mark.parametrize(
    "before", [b"", b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], ids=["first", "second"]
)
def test_a_head_that_does_not_come(listener: Listener, before: bytes, begun: bytes) -> None:
    """The connection is closed, although it was never idle after a reply; so is one that was."""
    start = time.perf_counter()
    assert listener.send(before + begun).count(b"HTTP/1.1 200 ") == bool(before)
    assert 0.4 < time.perf_counter() - start < 20


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_no_more_connections_than_allowed(tmp_path: Path, parser: str) -> None:
    """The newest is told so; when others have left, there is room again."""
    pytest.importorskip(parser)
    with listening(tmp_path, parser, Limits(connections=3, request_seconds=60)) as made:
        alive = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        waiting = [socket.create_connection(("127.0.0.1", made.port), timeout=60) for _ in range(3)]
        assert made.status() == b"503"
        for connection in waiting:
            connection.close()
        until = time.monotonic() + 60
        while made.status(alive) != b"200":
            assert time.monotonic() < until


def test_a_head_in_pieces_is_read_and_the_next_one_is_awaited_anew(listener: Listener) -> None:
    with socket.create_connection(("127.0.0.1", listener.port), timeout=60) as connection:
        for _ in range(3):
            for piece in (b"GET /v1/health HTT", b"P/1.1\r\nHost: 127.0.", b"0.1\r\n\r\n"):
                connection.sendall(piece)
                time.sleep(0.08)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_is_read(listener: Listener) -> None:
    pieces = (b"1\r\n%c\r\n" % byte for byte in b'{"where": "smoker"}')
    assert listener.status(ASK, listener.bearer, CHUNKED, *pieces, b"0\r\n\r\n") == b"200"


def test_two_requests_on_one_connection(listener: Listener) -> None:
    body = b'{"where": "smoker"}'
    one = ASK + listener.bearer + b"Content-Length: %d\r\n" % len(body)
    got = listener.send(one + b"\r\n" + body + one + b"Connection: close\r\n\r\n" + body)
    assert got.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize("offered", [b"h2c", b"websocket"])
def test_an_offer_of_another_protocol_is_ignored(listener: Listener, offered: bytes) -> None:
    """Java's client offers h2c with every request in plain text; what follows is read as before."""
    body = b'{"where": "smoker"}'
    one = ASK + listener.bearer + b"Content-Length: %d\r\n" % len(body)
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nHTTP2-Settings: AAMAAABk\r\n\r\n" % offered
    got = listener.send(one + offer[:40], offer[40:] + body[:5], body[5:] + one + b"Connection: close\r\n\r\n" + body)
    assert got.count(b"HTTP/1.1 200 ") == 2
    assert got.count(b'"kind":"number"') == 2


def test_many_offers_on_one_connection_are_read_one_by_one(listener: Listener) -> None:
    offer = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    last = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert listener.send(offer * 300 + last).count(b"HTTP/1.1 200 ") == 301


def test_a_tunnel_is_refused(listener: Listener) -> None:
    assert (
        listener.status(b"CONNECT example.org:443 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")[:1] == b"4"
    )


ENDLESS = [b"x" * 65_536] * 1_000


@pytest.mark.parametrize(
    "before",
    [b"GET /", ASK + b"X-Long: ", ASK + b"X-", ASK + CHUNKED + b"1;", ASK + CHUNKED + b"1\r\n{\r\n0\r\nX-Trailer: "],
    ids=["address", "value", "name", "extension", "trailer"],
)
def test_what_has_no_end_is_not_kept(listener: Listener, before: bytes) -> None:
    """The server hangs up while more comes, whether it still says why or not."""
    head = before.replace(ASK, ASK + listener.bearer)
    connection = socket.create_connection(("127.0.0.1", listener.port), timeout=60)
    with connection, pytest.raises(ConnectionError):  # noqa: PT012
        connection.sendall(head)
        for part in ENDLESS:
            connection.sendall(part)


def test_many_headers_are_refused(listener: Listener) -> None:
    many = b"".join(b"X-%d: %d\r\n" % (i, i) for i in range(2_000))
    assert listener.status(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n", many, b"\r\n") in (b"431", b"400", b"")


def test_trailers_are_no_headers(listener: Listener) -> None:
    """A trailer comes after the gate has looked: it can neither name somebody nor a request."""
    body = b'13\r\n{"where": "smoker"}\r\n0\r\n'
    content = b"Content-Type: application/json\r\n"
    assert listener.status(ASK, content, CHUNKED, body, listener.bearer, b"\r\n") == b"401"
    assert listener.status(ASK, listener.bearer, CHUNKED, body, b"Idempotency-Key: \r\n\r\n") == b"200"


def test_the_parser_is_the_compiled_one_where_it_is_installed() -> None:
    compiled = importlib.util.find_spec("httptools") is not None
    assert (http_parser() == "h11") is not compiled
