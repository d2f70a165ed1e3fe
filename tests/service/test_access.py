"""Who may do what: every route, every role, every wrong token; and what an analyst never sees."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rooms import CANARY, ROWS, House, house, settings

from maquette.service import AnalystConfig, Unauthenticated
from maquette.service.telemetry import LOGGER, JsonLines
from maquette.service.tokens import new_token

OK, NO, GONE = "ok", 403, 404
ROLES = ("custodian", "ada", "ann")  # a custodian, an analyst, an auditor

MATRIX: dict[tuple[str, str], tuple[Any, Any, Any]] = {
    ("GET", "/v1/me"): (OK, OK, OK),
    ("GET", "/v1/tables"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/schema"): (OK, OK, OK),
    ("POST", "/v1/tables/{table}/ask"): (OK, OK, NO),
    ("POST", "/v1/tables/{table}/ask-many"): (OK, OK, NO),
    ("POST", "/v1/tables/{table}/explain"): (OK, OK, NO),
    ("GET", "/v1/tables/{table}/outlook"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/budget"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/charges"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/transcript"): (OK, OK, OK),
    ("POST", "/v1/tables/{table}/transcript/{question}/share"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/releases"): (OK, OK, OK),
    ("POST", "/v1/tables/{table}/releases"): (422, NO, NO),  # the body of the test names no method
    ("GET", "/v1/tables/{table}/releases/{name}"): (GONE, GONE, GONE),
    ("GET", "/v1/tables/{table}/releases/{name}/download"): (GONE, GONE, GONE),
    ("GET", "/v1/tables/{table}/releases/{name}/sample"): (GONE, GONE, GONE),
    ("POST", "/v1/tables/{table}/releases/{name}/ask"): (GONE, GONE, GONE),
    ("GET", "/v1/tables/{table}/releases/{name}/report"): (GONE, GONE, GONE),
    ("GET", "/v1/tables/{table}/report"): (OK, NO, OK),
    ("GET", "/v1/tables/{table}/jobs"): (OK, NO, NO),
    ("GET", "/v1/jobs/{id}"): (GONE, GONE, GONE),
    ("GET", "/v1/jobs/{id}/events"): (GONE, GONE, GONE),
    ("POST", "/v1/session"): (OK, OK, OK),
    ("DELETE", "/v1/session"): (OK, OK, OK),
    ("GET", "/v1/tokens"): (OK, NO, NO),
    ("POST", "/v1/tokens"): (OK, NO, NO),
    ("DELETE", "/v1/tokens/{id}"): (GONE, NO, NO),
    ("PUT", "/v1/tables/{table}/limits/{account}"): (OK, NO, NO),
    ("GET", "/v1/tables/{table}/accounts"): (OK, NO, OK),
    ("GET", "/v1/tables/{table}/verify"): (OK, NO, OK),
    ("GET", "/v1/audit"): (OK, NO, OK),
    ("GET", "/v1/metrics"): (OK, NO, OK),
    ("GET", "/v1/holdouts"): (OK, OK, OK),
    ("POST", "/v1/holdouts"): (GONE, NO, NO),
    ("GET", "/v1/holdouts/{name}"): (GONE, GONE, GONE),
    ("POST", "/v1/holdouts/{name}/ask"): (GONE, GONE, NO),
    ("POST", "/v1/holdouts/{name}/entries"): (GONE, GONE, NO),
    ("GET", "/v1/holdouts/{name}/leaderboard"): (GONE, GONE, GONE),
    ("GET", "/v1/tables/{table}/model"): (OK, OK, OK),
    ("GET", "/v1/tables/{table}/doubts"): (OK, OK, OK),
    ("POST", "/v1/drafts/upload"): (422, NO, NO),  # the file of the test has a strange name
    ("GET", "/v1/drafts/{id}"): (GONE, NO, NO),
    ("PUT", "/v1/drafts/{id}"): (GONE, NO, NO),
    ("DELETE", "/v1/drafts/{id}"): (GONE, NO, NO),
    ("POST", "/v1/drafts/{id}/plan"): (GONE, NO, NO),
    ("POST", "/v1/drafts/{id}/publish"): (GONE, NO, NO),
}
OPEN = {"/v1/health", "/v1/ready", "/v1/version"}
BODIES: dict[str, Any] = {
    "/ask": {"where": "smoker"},
    "/ask-many": {"questions": ["smoker"]},
    "/explain": {"where": "smoker"},
    "/releases": {"name": "new", "ways": 2, "method": "none such"},
    "/holdouts": {"name": "new", "draft": "0" * 16, "target": "a"},
    "/tokens": {"name": "eve"},
    "/limits/{account}": {"epsilon": 0.25},
    "/drafts/{id}": {"columns": [{"name": "a", "kind": "boolean", "settings": {}}]},
    "/plan": {"epsilon": 1.0},
    "/publish": {"epsilon": 1.0, "name": "new"},
    "/entries": {"entry": "mine", "statistic": "accuracy", "predictions": [1.0]},
}
WRONG = [None, "Bearer", "Bearer ", "Bearer x", "Basic YTpi", f"Bearer {new_token()}", "Bearer mqt_" + "A" * 43]


@pytest.fixture(autouse=True)
def _short_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may read a report is tested here; the report itself takes seconds and has its own tests."""
    monkeypatch.setattr("maquette.service.http.releasing.report", lambda _: "<p>report</p>")


def documented(shared: House) -> dict[tuple[str, str], Any]:
    api = shared.call(None, "GET", "/v1/openapi.json").json()
    return {(method.upper(), path): spec for path, ways in api["paths"].items() for method, spec in ways.items()}


def filled(path: str, table: str = "people") -> str:
    made = path.replace("{table}", table).replace("{account}", "someone").replace("{question}", "999999")
    query = {"/model": "?column=a", "/upload": "?filename=absent"}
    asked = next((text for end, text in query.items() if path.endswith(end)), "")
    return re.sub(r"\{\w+\}", "absent", made) + asked


def body(method: str, path: str) -> dict[str, Any]:
    found = next((sent for end, sent in BODIES.items() if path.endswith(end)), None)
    return {} if method not in ("POST", "PUT") or found is None else {"json": found}


def test_the_matrix_knows_every_route(shared: House) -> None:
    assert {key for key in documented(shared) if key[1] not in OPEN} == set(MATRIX)


@pytest.mark.thorough(fast=35)
@pytest.mark.parametrize("key", MATRIX, ids=" ".join)
def test_every_route_with_every_role(shared: House, key: tuple[str, str]) -> None:
    method, path = key
    for who, expected in zip(ROLES, MATRIX[key], strict=True):
        got = shared.call(who, method, filled(path), **body(method, path))
        if expected == OK:
            assert got.status_code < 300, (who, got.text)
        else:
            assert got.status_code == expected, (who, got.text)
            assert got.headers["content-type"] == "application/problem+json"


def test_every_route_with_every_wrong_token(shared: House) -> None:
    async def all_of_them() -> None:
        async with shared.client() as client:
            for method, path in MATRIX:
                for header in WRONG:
                    headers = {} if header is None else {"Authorization": header}
                    got = await client.request(method, filled(path), headers=headers, **body(method, path))
                    assert got.status_code == 401, (method, path, header, got.text)
                    assert got.json()["code"] == "service.unauthenticated"
                    assert "bearer" in got.headers["www-authenticate"].lower()

    asyncio.run(all_of_them())


def test_a_table_out_of_scope_looks_like_one_that_does_not_exist(shared: House) -> None:
    for method, path in MATRIX:
        if "{table}" in path and "{name}" not in path:
            hidden = shared.call("ada", method, filled(path, "other"), **body(method, path))
            absent = shared.call("ada", method, filled(path, "nosuch"), **body(method, path))
            assert hidden.status_code == absent.status_code == 404, (method, path, hidden.text)
            assert hidden.text.replace("other", "nosuch") == absent.text
    listed = shared.call("ada", "GET", "/v1/tables").json()["tables"]
    assert [table["name"] for table in listed] == ["people"]


def test_open_routes_say_nothing_about_tables(shared: House) -> None:
    for path in OPEN:
        got = shared.call(None, "GET", path)
        assert got.status_code == 200
        assert "people" not in got.text


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[House]:
    with house(settings(tmp_path)) as made:
        yield made


def test_tokens_end(alone: House) -> None:
    made = alone.call("custodian", "POST", "/v1/tokens", json={"name": "eve", "days": 1, "tables": ["people"]}).json()
    alone.tokens["eve"] = made["token"]
    assert alone.call("eve", "GET", "/v1/me").json()["tables"] == ["people"]
    assert alone.call("custodian", "DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert alone.call("eve", "GET", "/v1/me").status_code == 401
    people = alone.service.people
    soon = people.mint("dan", days=1)[0]
    people._clock = lambda: 2_000_000_000.0
    with pytest.raises(Unauthenticated):
        people.authenticate(soon)
    listed = alone.call("custodian", "GET", "/v1/tokens").text
    stored = (alone.service.config.directory / "state.db").read_bytes()
    for token in alone.tokens.values():
        assert token not in listed
        assert token.encode() not in stored


@pytest.mark.thorough
def test_analysts_do_not_see_each_other(alone: House) -> None:
    assert alone.ask("bob", "age >= 50 AND b").status_code == 200
    for path in ("transcript", "charges"):
        for who, seen in (("bob", 1), ("ada", 0), ("custodian", 1), ("ann", 1)):
            got = alone.call(who, "GET", f"/v1/tables/people/{path}").json()
            bobs = [one for one in next(iter(got.values())) if one["analyst"] == "bob"]
            assert bool(bobs) == bool(seen), (path, who)
    (asked,) = alone.call("bob", "GET", "/v1/tables/people/transcript").json()["questions"]
    alone.call("ada", "POST", f"/v1/tables/people/transcript/{asked['id']}/share")
    assert alone.call("ada", "GET", "/v1/tables/people/transcript").json()["questions"] == []
    alone.call("bob", "POST", f"/v1/tables/people/transcript/{asked['id']}/share")
    assert len(alone.call("ada", "GET", "/v1/tables/people/transcript").json()["questions"]) == 1


def test_an_analyst_pays_from_their_own_limit(alone: House) -> None:
    spent = 0
    for question in (
        "age >= 50 AND b",
        "a AND city = 'Rome'",
        "a AND b AND smoker",
        "age < 30 AND a",
        "city = 'Paris'",
    ):
        spent += alone.ask("bob", question).json()["promised"]
    view = alone.call("bob", "GET", "/v1/tables/people/budget").json()
    assert view["own_spent"]["units"] <= view["own_limit"]["units"]
    assert spent < 5, "the limit of epsilon 0.25 is too large for this test"
    assert alone.ask("ada", "age < 20 AND b AND smoker").json()["promised"]


def test_a_group_pays_together(alone: House) -> None:
    """The group's limit is kept by the ledger: members share it."""
    table = alone.service.tables["people"]
    alone.tokens["guy"] = alone.service.people.mint("guy", group="team")[0]
    promised = {who: alone.ask(who, q).json()["promised"] for who, q in (("gus", "a AND b"), ("guy", "a AND smoker"))}
    for who, question in (("gus", "b AND smoker"), ("guy", "age < 30"), ("gus", "age < 40 AND a"), ("guy", "b")):
        promised[question] = alone.ask(who, question).json()["promised"]
    ledger = table.curator.ledger
    together = ledger.spent("team/gus") + ledger.spent("team/guy")
    limit = table.curator.budget.accountant.share(epsilon=0.12, delta=1e-9)
    assert ledger.spent("team/") == together <= limit
    assert not all(promised.values()), "the limit of epsilon 0.12 is too large for this test"
    ledger.verify()
    view = alone.call("guy", "GET", "/v1/tables/people/budget").json()
    assert (view["own_limit"], view["group_limit"]["units"], view["group_spent"]["units"]) == (None, limit, together)
    asked = {"where": "age < 70 AND a AND NOT b"}
    dear = alone.call("guy", "POST", "/v1/tables/people/explain", json=asked).json()
    assert "more than is left of your limit, or your group's" in dear["text"]
    assert alone.call("custodian", "PUT", "/v1/tables/people/limits/team~", json={"epsilon": 2}).status_code == 204
    fine = alone.call("guy", "POST", "/v1/tables/people/explain", json=asked).json()
    assert "more than" not in fine["text"]
    assert alone.ask("guy", asked["where"]).json()["promised"]


def test_the_settings_of_a_person_hold_whatever_the_token_says(tmp_path: Path) -> None:
    config = settings(tmp_path, analysts=(AnalystConfig(name="eve", role="auditor", tables=("people",)),))
    with house(config) as made:
        told = made.call("custodian", "POST", "/v1/tokens", json={"name": "eve", "role": "custodian"}).json()
        assert (told["role"], told["tables"]) == ("auditor", ["people"])
        made.tokens["eve"] = told["token"]
        assert made.call("eve", "GET", "/v1/me").json()["role"] == "auditor"
        assert made.call("eve", "GET", "/v1/audit").status_code == 200
        assert made.call("eve", "GET", "/v1/tokens").status_code == 403
        assert made.ask("eve", "smoker").status_code == 403


def test_a_browser_needs_its_csrf_token(alone: House) -> None:
    opened = alone.call("ada", "POST", "/v1/session")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    jar, csrf = {"Cookie": cookie.partition(";")[0]}, opened.json()["csrf"]
    ask: dict[str, Any] = {"method": "POST", "path": "/v1/tables/people/ask", "json": {"where": "smoker"}}
    assert alone.call(None, "GET", "/v1/me", headers=jar).json()["name"] == "ada"
    assert alone.call(None, **ask, headers=jar).status_code == 403
    assert alone.call(None, **ask, headers={**jar, "X-CSRF-Token": "wrong"}).status_code == 403
    assert alone.call(None, **ask, headers={**jar, "X-CSRF-Token": csrf}).status_code == 200
    forged = {"Cookie": jar["Cookie"][:-4] + "0000"}
    assert alone.call(None, "GET", "/v1/me", headers=forged).status_code == 401
    alone.service.people.revoke(alone.service.authenticate(alone.tokens["ada"]).token or "")
    assert alone.call(None, "GET", "/v1/me", headers=jar).status_code == 401


def test_wrong_tokens_are_slowed_down(tmp_path: Path) -> None:
    from maquette.service import Limits

    with house(settings(tmp_path, limits=Limits(wrong_tokens_per_minute=3))) as made:
        wrong = [made.call(None, "GET", "/v1/me", headers={"Authorization": f"Bearer {new_token()}"}) for _ in range(5)]
        assert [got.status_code for got in wrong] == [401, 401, 401, 429, 429]
        assert int(wrong[-1].headers["retry-after"]) >= 1
        assert made.call("ada", "GET", "/v1/me").status_code == 200


def test_no_route_tells_what_was_not_paid(alone: House, caplog: pytest.LogCaptureFixture) -> None:
    """Canaries at DEBUG: no response to an analyst, and no log line, has the row count, a fingerprint or a token."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines().format(record))

    handler = Keep()
    for name in (LOGGER, None):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        alone.ask("bob", "age >= 50 AND b")
        table = alone.service.tables["people"]
        fingerprint = table.curator.ledger.terms.table
        texts: list[str] = []
        for method, path in MATRIX:
            got = alone.call("ada", method, filled(path), **body(method, path))
            texts += [got.text, str(got.headers)]
        exact = re.compile(rf"(?<![\d.])({ROWS}|{ROWS:,})(?![\d.])")
        for text in texts:
            assert not exact.search(text), text[:300]
            assert fingerprint not in text
        others = [text for text in texts if '"bob"' in text or "age >= 50 AND b" in text]
        assert others == []
        for line in [*lines, *(record.getMessage() for record in caplog.records)]:
            assert fingerprint not in line
            assert "smoker" not in line
            assert not exact.search(line), line
            for token in alone.tokens.values():
                assert token not in line
        kept = {json.loads(line)["event"] for line in lines if line.startswith("{")}
        assert "request" in kept
    finally:
        for name in (LOGGER, None):
            logging.getLogger(name).removeHandler(handler)


def test_an_unexpected_error_tells_nothing(alone: House, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines().format(record))

    handler = Keep()
    logging.getLogger(LOGGER).addHandler(handler)

    def broken(*_: object, **__: object) -> None:
        raise ValueError(f"a row holds {CANARY}")

    monkeypatch.setattr(alone.service.tables["people"].session, "ask_many", broken)
    got = alone.ask("ada", "a AND b")
    logging.getLogger(LOGGER).removeHandler(handler)
    assert got.status_code == 500
    assert CANARY not in got.text
    assert lines
    assert not any(CANARY in line for line in lines)
    assert any("ValueError" in line for line in lines)


def test_other_names_of_this_machine_are_refused(shared: House) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert shared.call("ada", "GET", "/v1/me", headers={"Host": host}).status_code in (400, 421)
    assert shared.call("ada", "GET", "/v1/me", headers={"Host": "localhost:99"}).status_code == 200


def test_headers_of_every_response(shared: House) -> None:
    answers: list[httpx.Response] = [
        shared.call("ada", "GET", "/v1/me"),
        shared.call(None, "GET", "/v1/me"),
        shared.call("ada", "GET", "/none"),
        shared.call("ada", "PATCH", "/v1/me"),
    ]
    assert [got.status_code for got in answers] == [200, 401, 404, 405]
    for got in answers:
        assert "default-src 'none'" in got.headers["content-security-policy"]
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in got.headers
        assert "server" not in got.headers
