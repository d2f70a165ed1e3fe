"""What people meet who have never seen the service: wrong methods, a forgotten header, the document of the API."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from fastapi import FastAPI
from rooms import House

from maquette.service.http.describing import EXAMPLE, OPEN

ASK = "/v1/tables/people/ask"
STRICT = "strict_content_type" in inspect.signature(FastAPI).parameters  # older ones take a body without a type as JSON


@pytest.mark.parametrize("path", OPEN)
def test_balancers_may_look_with_head(shared: House, path: str) -> None:
    got = shared.call(None, "HEAD", path)
    assert (got.status_code, got.content) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", ASK, "POST"),
        ("PUT", ASK, "POST"),
        ("DELETE", "/v1/tokens", "GET, POST"),
        ("OPTIONS", "/v1/tables", "GET"),
        ("POST", "/v1/health", "GET, HEAD"),
        ("POST", "/app.js", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(shared: House, method: str, path: str, allowed: str) -> None:
    got = shared.call("ada", method, path)
    assert (got.status_code, got.headers["allow"]) == (405, allowed)
    assert got.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_that_nothing_has_is_not_found_by_any_method(shared: House, method: str) -> None:
    assert shared.call("ada", method, "/v1/tables/people/asks").status_code == 404


def test_no_path_is_redirected(shared: House) -> None:
    assert [shared.call("ada", "GET", path).status_code for path in ("/v1/tables/", "/v1/", "//v1/tables")] == [404] * 3


@pytest.mark.parametrize(
    "given",
    [
        {"content": '{"where": "smoker"}'},
        {"content": '{"where": "smoker"}', "headers": {"Content-Type": "text/plain"}},
        {"data": {"where": "smoker"}},
        {"files": {"where": b"smoker"}},
    ],
    ids=["none", "text", "form", "parts"],
)
def test_a_body_that_is_not_sent_as_json_is_told_which_header_it_needs(shared: House, given: dict[str, Any]) -> None:
    got = shared.call("ada", "POST", ASK, **given)
    if given.keys() == {"content"} and not STRICT:
        assert got.status_code == 200
        return
    assert got.status_code == 415
    assert "Content-Type: application/json" in got.json()["detail"]


def test_the_detail_says_what_is_wrong_with_a_body(shared: House) -> None:
    got = shared.call("ada", "POST", ASK, json={"where": "smoker", "alfa": 0.1})
    assert (got.status_code, got.json()["errors"][0]["where"]) == (422, ["body", "alfa"])
    assert "body.alfa" in got.json()["detail"]


def test_the_document_says_which_routes_need_a_token(shared: House) -> None:
    api = shared.call(None, "GET", "/v1/openapi.json").json()
    assert api["openapi"].startswith("3.1")
    assert api["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert api["security"] == [{"bearer": []}]
    free = {path for path, ways in api["paths"].items() for way in ways.values() if way.get("security") == []}
    assert free == set(OPEN)
    assert shared.call(None, "GET", "/v1/openapi.json").json() == api


def test_the_example_of_an_answer_has_the_form_of_answers(shared: House) -> None:
    shared.ask("ada", "smoker")
    real = shared.ask("ada", "smoker").json()
    assert real.keys() == EXAMPLE.keys()
    assert real["cost"].keys() == EXAMPLE["cost"].keys()
    assert real["columns"][0].keys() == EXAMPLE["columns"][0].keys()
    api = shared.call(None, "GET", "/v1/openapi.json").json()
    told = api["paths"]["/v1/tables/{table}/ask"]["post"]["responses"]["200"]["content"]
    assert told["application/json"]["example"] == EXAMPLE
    assert real["source"] in api["components"]["schemas"]["Answer"]["properties"]["source"]["enum"]
