"""A running service on a disk that fills up, and with a clock that jumps: nothing unbacked, nothing paid twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kill_servers import under_load
from troubled import Troubled

from needs import needs
from preloaded import FAILING, built

needs("fastapi")

pytestmark = pytest.mark.thorough
DAY = 86_400


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, FAILING)


@pytest.fixture(scope="module")
def server(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    limited = '[[analyst]]\nname = "ada"\nasks_per_minute = 2\n'
    made = Troubled(library, tmp_path_factory.mktemp("server"), more=limited)
    yield made
    made.end()


def call(server: Troubled, method: str, path: str, token: str | None = None, **given: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token or server.token}", **given.pop("headers", {})}
    return httpx.request(method, server.urls[0] + path, headers=headers, timeout=60, **given)


def ask(server: Troubled, text: str, token: str | None = None, key: str = "") -> httpx.Response:
    named = {"Idempotency-Key": key} if key else {}
    return call(server, "POST", "/v1/tables/people/ask", token, json={"where": text}, headers=named)


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)


def ready(server: Troubled) -> bool:
    return call(server, "GET", "/v1/ready").status_code == 200


def test_a_clock_that_jumps(server: Troubled) -> None:
    """Only what is meant to expire follows it: keys, rates, prices and the order of the log do not."""
    body = {"name": "ada", "role": "analyst", "days": 0.5}
    ada = call(server, "POST", "/v1/tokens", json=body).json()["token"]
    signed = httpx.post(f"{server.urls[0]}/v1/session", headers={"Authorization": f"Bearer {server.token}"})
    cookies = dict(signed.cookies)

    def seen() -> tuple[int, int]:
        browser = httpx.get(f"{server.urls[0]}/v1/me", cookies=cookies, timeout=60)
        return call(server, "GET", "/v1/me", ada).status_code, browser.status_code

    first = ask(server, "f0 AND f1", key="k").json()
    assert [ask(server, "f0 AND f1", ada).status_code for _ in range(3)] == [200, 200, 429]
    spent = call(server, "GET", "/v1/tables/people/budget").json()["spent"]
    assert seen() == (200, 200)
    for shift, expected in ((DAY, 401), (-DAY, 200), (0, 200), (50 * DAY, 401), (0, 200)):
        server.jump(shift)
        assert ready(server)
        assert seen() == (expected, expected), "what expires follows the clock, both ways"
        assert ask(server, "f0 AND f1", key="k").json() == first
        refused = ask(server, "f0 AND f1", ada)
        assert refused.status_code == (429 if expected == 200 else 401), "a jump brings no more questions"
        if expected == 200:
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert call(server, "POST", "/v1/session").status_code == 201, "a line of the log"
    assert call(server, "GET", "/v1/tables/people/budget").json()["spent"] == spent
    lines = call(server, "GET", "/v1/audit").json()["log"]
    signed_in = [line["at"] for line in lines if line["what"] == "signed in"]
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    assert len(signed_in) == 6, "in the order in which they happened"
    assert [round((at - signed_in[0]) / DAY) for at in signed_in] == [0, 1, -1, 0, 50, 0]


def test_a_full_disk_and_a_jumping_clock_under_load(server: Troubled) -> None:
    """Wherever it is full, readiness says so, refusals are problems, and everything goes on when there is room."""

    def troubles(more: Callable[[], None]) -> None:
        for place in ("ledger", "state", ""):
            for after in (0, 1, 2, 5):
                server.fill(place, after=after)
                until(lambda: not ready(server))
                server.make_room()
                until(lambda: ready(server))
                more()
        for shift in (DAY, -DAY, 0):
            server.jump(shift)
            more()

    outcome = under_load(server, troubles)
    assert +outcome.faults == {}, outcome
    assert outcome.answered > 60
