"""Hostile requests: malformed and oversized ones, too many of them; the whole API under schemathesis."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from rooms import House, house, settings

from maquette.service import Limits


@pytest.mark.thorough
def test_malformed_bodies_are_refused_with_a_problem(shared: House) -> None:
    rng, paths = random.Random(7), ("ask", "ask-many", "explain")
    pieces = ["{", "}", "[", "]", '"sql"', ":", ",", '"where"', "null", "1e999", '"\\ud800"', "\x00", '"smoker"', "NaN"]

    async def send() -> None:
        async with shared.client("ada") as client:
            for _ in range(400):
                body = "".join(rng.choice(pieces) for _ in range(rng.randrange(12)))
                got = await client.post(
                    f"/v1/tables/people/{rng.choice(paths)}",
                    content=body.encode("utf-8", "surrogatepass"),
                    headers={"Content-Type": rng.choice(["application/json", "text/plain", "application/xml"])},
                )
                assert 400 <= got.status_code < 500, (body, got.text)
                assert got.headers["content-type"] == "application/problem+json"

    asyncio.run(send())


@pytest.mark.parametrize(
    "body",
    [
        {"sql": "(" * 5_000},
        {"where": "a" * 20_000},
        {"where": "smoker", "alpha": "0.1"},
        {"where": "smoker", "more": 1},
        {"where": "smoker", "sql": "SELECT count(*) FROM people"},
        {"where": "SELECT count(*) FROM people"},
        {},
        {"sql": "SELECT 1; DROP TABLE people"},
        {"sql": "SELECT * FROM people"},
        {"where": "smoker\x00"},
        {"where": "\ud800"},
    ],
)
def test_bad_questions_are_refused_and_free(shared: House, body: dict[str, Any]) -> None:
    ledger = shared.service.tables["people"].curator.ledger
    before = ledger.spent()
    content = json.dumps(body).encode()
    got = shared.call(
        "ada", "POST", "/v1/tables/people/ask", content=content, headers={"Content-Type": "application/json"}
    )
    assert 400 <= got.status_code < 500, got.text
    assert ledger.spent() == before


@pytest.mark.thorough
def test_sizes(tmp_path: Path) -> None:
    with house(
        settings(tmp_path, limits=Limits(body_bytes=2_000, upload_bytes=9_000, header_bytes=2_000, questions=3))
    ) as made:
        ask = "/v1/tables/people/ask"
        assert made.call("ada", "POST", ask, json={"where": "a" * 3_000}).status_code == 413
        assert made.call("ada", "GET", "/v1/me", headers={"X-Long": "a" * 3_000}).status_code == 431
        upload = "/v1/drafts/upload?filename=x.csv"
        assert made.call("custodian", "POST", upload, content=b"a\n" + b"1\n" * 2_000).status_code != 413
        assert made.call("custodian", "POST", upload, content=b"a\n" + b"1\n" * 5_000).status_code == 413
        many = made.call("ada", "POST", "/v1/tables/people/ask-many", json={"questions": ["a"] * 4})
        assert (many.status_code, many.json()["code"]) == (413, "service.too-large")

        async def without_length() -> int:
            async def parts() -> Any:
                for _ in range(10):
                    yield b"a" * 1_000

            async with made.client("ada") as client:
                return (await client.post(ask, content=parts())).status_code

        assert asyncio.run(without_length()) == 413


def test_rates(tmp_path: Path) -> None:
    with house(settings(tmp_path, limits=Limits(asks_per_minute=3))) as made:
        got = [made.ask("ada", "smoker").status_code for _ in range(5)]
        assert got == [200, 200, 200, 429, 429]
        assert made.ask("bob", "smoker").status_code == 200


@pytest.mark.thorough
def test_the_whole_api_under_schemathesis(tmp_path: Path) -> None:
    """Whatever fits, or misses, the documented forms: never a server error, and problems are problems."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings as fuzzing
    from hypothesis.strategies import data

    with house(settings(tmp_path)) as made:
        schema = schemathesis.openapi.from_dict(made.call(None, "GET", "/v1/openapi.json").json())

        def try_out(operation: Any, who: str) -> None:
            @fuzzing(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
            @given(data())
            def fuzz(draw: Any) -> None:
                sent = draw.draw(operation.as_strategy()).as_transport_kwargs(base_url="http://127.0.0.1")
                wanted = {word: sent[word] for word in ("params", "json", "content") if sent.get(word) is not None}
                if isinstance(sent.get("data"), bytes):
                    wanted["content"] = sent["data"]
                got = made.call(who, sent["method"], sent["url"], **wanted)
                assert got.status_code < 500, got.text
                if got.status_code >= 400:
                    assert got.headers["content-type"] == "application/problem+json"
                    assert got.json()["code"]

            fuzz()

        for found in schema.get_all_operations():
            operation = found.ok()
            if not operation.path.endswith(("/events", "/report", "/tokens")):
                for who in ("ada", "custodian"):
                    try_out(operation, who)
