"""One suite for a local session and a remote one: the same methods, answers and errors."""

from __future__ import annotations

import asyncio
import http.server
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rooms import House, house, settings

import maquette as mq
from maquette.errors import BudgetExceeded, MaquetteError, QueryError, RequestConflict
from maquette.service import Unauthenticated, Unavailable
from maquette.service.client import AsyncRemoteSession, RemoteSession, connect_async, dbapi, protocol
from maquette.service.http.models import Ask


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str]]:
    import uvicorn

    from maquette.service.http import make_app

    with house(settings(tmp_path_factory.mktemp("remote"))) as made:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(made.service), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield made, f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)


@pytest.fixture(params=["local", "remote"])
def session(served: tuple[House, str], request: pytest.FixtureRequest) -> Iterator[Any]:
    made, url = served
    if request.param == "local":
        yield made.service.tables["people"].session
        return
    with mq.connect(url, token=made.tokens["ada"]) as remote:
        yield remote


@pytest.mark.thorough(fast=1)
def test_a_number_and_a_table(session: Any) -> None:
    number = session.ask("smoker")
    assert isinstance(number, mq.Answer)
    assert number.low <= number.value <= number.high
    table = session.ask("SELECT count(*) FROM people GROUP BY city")
    assert isinstance(table, mq.AnswerTable)
    assert len(table.rows) == 3
    assert list(table.to_pandas().columns)[:2] == ["city", "count(*)"]
    again = session.ask("SELECT count(*) FROM people GROUP BY city")
    assert again.row("Paris")["count(*)"].value == table.row("Paris")["count(*)"].value
    assert again.cost.units == 0


def test_several_at_once_and_their_price(session: Any) -> None:
    first, second = session.ask_many(["a", "a AND b"])
    assert first.guarantee is not None
    assert second.value <= 1
    assert session.explain("a").route in ("cache", "derived")
    assert isinstance(session.outlook(), str)
    assert session.spent.units > 0
    assert session.remaining.units > 0


@pytest.mark.parametrize("asked", ["agee > 3", "SELECT FROM", "age = 34", "smoker &&"])
def test_the_same_errors(served: tuple[House, str], asked: str) -> None:
    made, url = served
    errors: list[MaquetteError] = []
    with mq.connect(url, token=made.tokens["ada"]) as remote:
        for session in (made.service.tables["people"].session, remote):
            with pytest.raises(QueryError) as caught:
                session.ask(asked)
            errors.append(caught.value)
    local, remote_error = errors
    assert type(local) is type(remote_error)
    assert str(local) == str(remote_error)
    assert (local.happened, local.expected, local.advice) == (
        remote_error.happened,
        remote_error.expected,
        remote_error.advice,
    )


def test_answers_are_equal_field_by_field(served: tuple[House, str]) -> None:
    made, url = served
    asked = "SELECT count(*), avg(age) FROM people GROUP BY city"
    with mq.connect(url, token=made.tokens["ada"]) as remote:
        remote.ask(asked)
        given = remote.ask(asked, request="twice")
        assert remote.ask(asked, request="twice") == given
        with pytest.raises(RequestConflict):
            remote.ask("smoker", request="twice")
    assert given.rows == made.service.tables["people"].session.ask(asked).rows


def test_errors_of_the_service(served: tuple[House, str]) -> None:
    made, url = served
    with pytest.raises(Unauthenticated):
        mq.connect(url, token="mqt_" + "x" * 43)
    with pytest.raises(QueryError, match="sees 2 tables"):
        mq.connect(url, token=made.tokens["custodian"])
    with pytest.raises(QueryError, match="https"):
        mq.connect("http://example.org", token="x")
    with mq.connect(url, token=made.tokens["custodian"], table="other") as other:
        assert other.name == "other"
        assert other.schema == made.service.tables["other"].schema


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost.example.org",
        "http://127.0.0.1.example.org:8765",
        "http://localhost@example.org",
        "http://127.0.0.1:8765@example.org",
        "https://maquette@example.org",
        "https://",
        "ftp://localhost",
        "http://localhost:99999",
        "http://[::1",
        5,
    ],
)
def test_no_token_goes_in_plain_text_to_an_address_that_only_looks_near(url: Any) -> None:
    with (
        mock.patch("httpx.Client.request", side_effect=AssertionError("it was sent")),
        pytest.raises(QueryError, match="the address is"),
    ):
        mq.connect(url, token="x")


def test_a_token_in_plain_text_goes_to_no_proxy(served: tuple[House, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made, url = served
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with mq.connect(url, token=made.tokens["ada"]) as remote:
        assert remote.name == "people"


@pytest.mark.parametrize("token", ["tok\nen", "t\u00f6ken", "Bearer mqt_x", 7])
def test_what_is_no_token_is_told_before_anything_is_sent(token: Any) -> None:
    with pytest.raises(QueryError, match="the token"):
        mq.connect("http://127.0.0.1:9", token=token)


@pytest.mark.parametrize("request_name", ["", "k\u00e9", "a\nb", "k" * 201])
def test_a_request_name_that_no_header_holds_is_told(served: tuple[House, str], request_name: str) -> None:
    made, url = served
    with mq.connect(url, token=made.tokens["ada"]) as remote, pytest.raises(QueryError, match="the request's name"):
        remote.ask("smoker", request=request_name)


@pytest.mark.parametrize(
    ("asked", "statement"),
    [
        ("SELECT\ncount(*) FROM people", True),
        ("  With\tx AS (SELECT 1) SELECT 1", True),
        ("select(count(*)) from people", True),
        ("selected AND age > 5", False),
        ("withheld", False),
        ("with_x = 1", False),
    ],
)
def test_statements_and_conditions_are_told_apart(asked: str, statement: bool) -> None:
    """A statement may be written over several lines, and a column may have a name that begins like one."""
    assert protocol.question_body(asked) == {"sql" if statement else "where": asked}
    if statement:
        with pytest.raises(QueryError, match="where holds a statement"):
            _ = Ask(where=asked).text
    else:
        assert Ask(where=asked).text == asked


def test_a_service_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "WAITS", (0, 0, 0))
    with pytest.raises(Unavailable, match="never pays twice"):
        mq.connect("http://127.0.0.1:9", token="x")


def test_a_lost_reply_is_fetched_and_paid_once(served: tuple[House, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is cut between commit and reply: the client asks again under the same name."""
    import httpx

    made, url = served
    monkeypatch.setattr(protocol, "WAITS", (0, 0, 0))
    ledger = made.service.tables["people"].curator.ledger
    with mq.connect(url, token=made.tokens["ada"]) as remote:
        send, cut = remote._client.request, [True]

        def cutting(*given: Any, **named: Any) -> httpx.Response:
            answer = send(*given, **named)
            if cut.pop() if cut else False:
                raise httpx.ReadError("cut")
            return answer

        monkeypatch.setattr(remote._client, "request", cutting)
        before = sum(1 for _ in ledger.charges())
        answer = remote.ask("age < 20 AND a AND b")
        charged = sum(1 for _ in ledger.charges()) - before
    assert charged <= 1
    assert answer.guarantee is not None
    assert not cut


def test_both_kinds_of_sessions_have_the_same_methods() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(RemoteSession) == names(AsyncRemoteSession)


def test_an_authority_that_is_not_known_is_told(tmp_path: Path) -> None:
    """Without a word about the certificate people look for a network that is down."""
    key, certificate = tmp_path / "key", tmp_path / "crt"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    name = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *name], check=True, capture_output=True)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"tables": [{"name": "people", "alpha": 0.1}]}')

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://localhost:{server.server_port}"
        with pytest.raises(Unavailable, match=r'certificate of the service is not trusted.*verify="ca.crt"'):
            mq.connect(url, token="x")
        with pytest.raises(QueryError, match="cannot be read as a certificate"):
            mq.connect(url, token="x", verify=str(key))
        with mq.connect(url, token="x", verify=str(certificate)) as session:
            assert session.name == "people"
        server.shutdown()


def test_asyncio(served: tuple[House, str]) -> None:
    made, url = served

    async def ask() -> list[Any]:
        async with await connect_async(url, made.tokens["ada"]) as remote:
            alone, (first, second) = await asyncio.gather(remote.ask("smoker"), remote.ask_many(["a", "b"]))
            assert (await remote.own_spent()).units <= (await remote.spent()).units
            assert (await remote.remaining()).units > 0
            assert await remote.schema() == made.service.tables["people"].schema
            assert "remains" in await remote.outlook()
            assert [one["question"] for one in await remote.transcript()][-3:]
            assert "people" in repr(remote)
            with pytest.raises(BudgetExceeded):
                await remote.ask("age < 30 AND city = 'Rome' AND a", max_cost=0.0)
            return [alone, first, second, await remote.explain("a")]

    answers = asyncio.run(ask())
    assert answers[0].value <= 1
    assert answers[3].cost.units == 0


def test_db_api(served: tuple[House, str]) -> None:
    made, url = served
    with dbapi.connect(url, made.tokens["ada"]) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM people WHERE city = %s GROUP BY smoker", ("Rome",))
        assert [column[0] for column in cursor.description or ()] == ["smoker", "count(*)"]
        rows = cursor.fetchall()
        assert len(rows) == cursor.rowcount == 2
        assert cursor.fetchone() is None
        with pytest.raises(dbapi.ProgrammingError, match="no column"):
            cursor.execute("SELECT count(*) FROM people WHERE nothing")
        with pytest.raises(dbapi.NotSupportedError):
            connection.rollback()


def test_every_error_survives_the_wire() -> None:
    from maquette.service.http.problems import error_facts

    for error in (
        QueryError("x", expected="y", advice="z", line=1, column=2),
        BudgetExceeded("x", requested=2.0, remaining=1.0),
        Unauthenticated(),
    ):
        again = protocol.read_error(400, error_facts(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
