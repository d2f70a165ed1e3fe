"""Scopes: a token for some tables sees, makes and ends nothing that belongs to others, whatever its role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import House, house, settings


@pytest.fixture
def made(tmp_path: Path) -> Iterator[House]:
    with house(settings(tmp_path)) as opened:
        for role in ("custodian", "auditor"):
            token, _ = opened.service.people.mint(f"some_{role}", role, tables=("people",))
            opened.tokens[f"some_{role}"] = token
        yield opened


def test_a_token_makes_none_that_sees_more(made: House) -> None:
    for tables in (None, ["people", "other"]):
        body = {"name": "eve", "role": "custodian", "tables": tables}
        assert made.call("some_custodian", "POST", "/v1/tokens", json=body).status_code == 403
    body = {"name": "eve", "role": "analyst", "tables": ["people"]}
    assert made.call("some_custodian", "POST", "/v1/tokens", json=body).status_code == 201


def test_a_token_lists_and_ends_those_of_its_tables_alone(made: House) -> None:
    every = made.call("custodian", "GET", "/v1/tokens").json()["tokens"]
    seen = made.call("some_custodian", "GET", "/v1/tokens").json()["tokens"]
    assert seen
    assert all(one["tables"] == ["people"] for one in seen)
    wide = next(one["id"] for one in every if one["tables"] is None)
    assert made.call("some_custodian", "DELETE", f"/v1/tokens/{wide}").status_code == 404
    assert made.call("custodian", "GET", "/v1/tokens").status_code == 200
    narrow = next(one["id"] for one in seen if one["name"] == "some_auditor")
    assert made.call("some_custodian", "DELETE", f"/v1/tokens/{narrow}").status_code == 204


def test_the_log_holds_lines_about_tables_in_sight(made: House) -> None:
    made.service.note(None, "draft trusted", table="other")
    made.service.note(None, "draft trusted", table="people")
    whole = made.call("custodian", "GET", "/v1/audit?count=1000").json()["log"]
    assert {"other", "people"} <= {line["table"] for line in whole}
    for who in ("some_custodian", "some_auditor"):
        lines = made.call(who, "GET", "/v1/audit?count=1000").json()["log"]
        assert {line["table"] for line in lines} == {"people"}


@pytest.mark.parametrize("who", ["some_custodian", "some_auditor"])
def test_what_concerns_all_tables_needs_a_token_for_all(made: House, who: str) -> None:
    assert made.call(who, "GET", "/v1/metrics").status_code == 403
    assert made.call(who, "POST", "/v1/drafts/upload?filename=a.csv", content=b"a\n1\n").status_code == 403
    assert made.call(who, "GET", f"/v1/drafts/{'0' * 16}").status_code == 403
    assert made.call(who, "POST", "/v1/holdouts", json={"draft": "0" * 16, "name": "held"}).status_code == 403
