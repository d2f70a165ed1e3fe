"""The shortcut for questions: the same replies as by the framework, and the framework for all that is odd."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from rooms import House, house, settings

from maquette.service.http.shortcut import Shortcut
from maquette.service.state import now

ASK, MANY = "/v1/tables/people/ask", "/v1/tables/people/ask-many"
JSON = {"Content-Type": "application/json"}
VOLATILE = ("x-request-id",)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(settings(tmp_path_factory.mktemp("two"))) as made:
        made.ask("ada", "smoker")
        made.ask("ada", "a")
        made.ask("ann", "a")  # remembered, and refused
        yield made


def _sent(made: House, path: str, body: bytes, headers: list[tuple[str, str]], *, framework: bool) -> httpx.Response:
    """A reply by the shortcut if it takes the request, or by the framework."""

    async def send() -> httpx.Response:
        async with made.client() as client:
            return await client.post(path, content=body, headers=headers)

    if not framework:
        return asyncio.run(send())
    with mock.patch.object(Shortcut, "_asked", return_value=None):
        return asyncio.run(send())


def _seen(got: httpx.Response) -> tuple[Any, ...]:
    headers = sorted((name, value) for name, value in got.headers.items() if name not in VOLATILE)
    return got.status_code, headers, got.content


def _bodies() -> Iterator[tuple[str, bytes]]:
    bodies: tuple[Any, ...] = (
        {"where": "smoker"},
        {"sql": "SELECT count(*) FROM people WHERE smoker"},
        {"where": "smoker", "alpha": 0.1, "confidence": 0.9, "max_cost": 0},
        {"where": "smoker", "alpha": 1},
        {"where": "smoker", "sql": "a"},
        {"where": "nothing"},
        {"where": " "},
        {"where": "SELECT 1"},
        {"where": "smoker", "more": 1},
        {"where": 5},
        [],
        None,
        {},
    )
    several: tuple[Any, ...] = (["smoker", "a"], ["smoker", {"where": "a"}], [], "smoker", [1], [{}])
    yield from ((ASK, json.dumps(one).encode()) for one in bodies)
    yield from ((MANY, json.dumps({"questions": many}).encode()) for many in several)
    for raw in (b"", b"{", b"nan", b'{"where": "\\ud800"}', b"\xff", b"[" * 100_000, b'{"where":"a","where":"smoker"}'):
        yield ASK, raw
    yield ASK, '{"where": "smoker"}'.encode("utf-16")
    for path in ("/v1/tables/other/ask", "/v1/tables/none/ask", "/v1/tables/pe%2Fople/ask", ASK + "/", ASK + "%0a"):
        yield path, b'{"where": "smoker"}'


def test_both_ways_reply_alike(two: House) -> None:
    taken = 0
    for who in ("ada", "ann"):
        token = f"Bearer {two.tokens[who]}"
        for path, body in _bodies():
            headers = [("Authorization", token), *JSON.items()]
            _sent(two, path, body, headers, framework=False)  # the second time it is known
            short, long = (_sent(two, path, body, headers, framework=way) for way in (False, True))
            assert _seen(short) == _seen(long), (who, path, body[:80])
            taken += short.status_code == 200
    assert taken >= 7


ODD: list[list[tuple[str, str]]] = [
    [],
    [("Content-Type", "application/json; charset=utf-8")],
    [("Content-Type", "application/vnd.acme+json")],
    [("Content-Type", "text/plain")],
    [*JSON.items(), ("Idempotency-Key", "")],
    [*JSON.items(), ("Idempotency-Key", "k" * 201)],
    [*JSON.items(), ("Idempotency-Key", "one"), ("Idempotency-Key", "two")],
    [*JSON.items(), ("Accept", "application/json"), ("Accept", "application/vnd.apache.arrow.stream")],
    [*JSON.items(), ("Accept", "application/vnd.apache.arrow.stream")],
    [*JSON.items(), ("Authorization", "Basic abc")],
    [*JSON.items(), ("Authorization", "Bearer mqt_" + "x" * 43)],
    [*JSON.items(), ("Cookie", "maquette_session=x.y")],
]


@pytest.mark.parametrize("headers", ODD, ids=str)
def test_odd_headers_have_the_same_reply(two: House, headers: list[tuple[str, str]]) -> None:
    if not any(name in ("Authorization", "Cookie") for name, _ in headers):
        headers = [*headers, ("Authorization", f"bearer  {two.tokens['ada']} ")]
    short, long = (_sent(two, ASK, b'{"where": "smoker"}', headers, framework=way) for way in (False, True))
    assert _seen(short) == _seen(long)


def test_the_shortcut_is_taken_and_leaves_the_same_traces(two: House) -> None:
    """Questions with a known token do not reach the framework; the metrics and the transcript have them."""
    app = two.app._app

    def count() -> float:
        value = two.service.telemetry.registry.get_sample_value(
            "maquette_requests_total",
            {"door": "http", "route": "/v1/tables/{table}/ask", "method": "POST", "status": "200"},
        )
        return value or 0.0

    before = count()
    assert _sent(two, ASK, b'{"where": "smoker"}', _as(two, "ada"), framework=True).status_code == 200
    assert count() == before + 1
    with mock.patch.object(app, "_app", side_effect=AssertionError("the framework was asked")):
        assert two.ask("ada", "smoker").json()["source"] == "cache"
        assert two.ask("ada", "b AND age >= 50", Idempotency_Key="b").json()["cost"]["units"] > 0
        assert two.ask("ada", "b AND age >= 50", Idempotency_Key="b").status_code == 200
        assert two.ask("ada", "a", Idempotency_Key="b").status_code == 409
        assert two.ask("ann", "a").status_code == 403
    assert count() == before + 4
    asked = two.call("ada", "GET", "/v1/tables/people/transcript?count=10000").json()["questions"]
    assert [one["question"] for one in asked].count("b AND age >= 50") >= 1


def test_a_token_that_is_revoked_or_expired_is_refused_at_once(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        token, facts = made.service.people.mint("eve")
        made.tokens["eve"] = token
        assert [made.ask("eve", "smoker").status_code for _ in range(2)] == [200, 200]
        made.service.people.revoke(facts.id)
        assert made.ask("eve", "smoker").status_code == 401
        made.tokens["zoe"] = made.service.people.mint("zoe", days=1)[0]
        assert [made.ask("zoe", "smoker").status_code for _ in range(2)] == [200, 200]
        with mock.patch.object(made.service.people, "_clock", return_value=now() + 2 * 86_400):
            assert made.ask("zoe", "smoker").status_code == 401


def test_a_body_in_pieces_is_read_whole_and_bounded(two: House) -> None:
    async def pieces(count: int) -> Any:
        yield b'{"where": "smoker'
        for _ in range(count):
            yield b" " * 65_536
        yield b'"}'

    async def send(count: int) -> httpx.Response:
        async with two.client() as client:
            return await client.post(ASK, content=pieces(count), headers=_as(two, "ada"))

    assert asyncio.run(send(0)).json()["source"] == "cache"
    most = two.service.config.limits.body_bytes
    assert asyncio.run(send(most // 65_536 + 1)).status_code == 413


def _as(made: House, who: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {made.tokens[who]}"), *JSON.items()]


def test_a_body_that_was_broken_off_asks_nothing(two: House) -> None:
    """Its first piece is a whole question; what should have followed never came."""
    body = b'{"where": "a AND NOT b AND age >= 50"}'
    pieces: list[Any] = [{"type": "http.request", "body": body, "more_body": True}, {"type": "http.disconnect"}]
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"900")]
    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": ASK,
        "raw_path": ASK.encode(),
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 5),
        "headers": [*headers, (b"authorization", f"Bearer {two.tokens['ada']}".encode())],
    }

    async def receive() -> Any:
        return pieces.pop(0) if pieces else {"type": "http.disconnect"}

    async def send(_: Any) -> None: ...

    two.ask("ada", "smoker")  # the token is remembered
    before = two.service.tables["people"].curator.ledger.spent()
    asyncio.run(two.app(scope, receive, send))
    assert len(pieces) == 0
    assert two.service.tables["people"].curator.ledger.spent() == before
    assert two.ask("ada", "a AND NOT b AND age >= 50").json()["cost"]["units"] > 0
