"""A request by name pays at most once: repeated, after a restart, and when its process was killed in the middle."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from rooms import House, house, settings, write_table

from maquette.errors import RequestLost
from maquette.privacy.ledger import inspect


def charges(made: House) -> int:
    return sum(1 for _ in made.service.tables["people"].curator.ledger.charges())


def test_a_repeated_request_is_answered_and_not_charged(tmp_path: Path) -> None:
    config = settings(tmp_path)
    with house(config) as made:
        first = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        paid = charges(made)
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json() == first.json()
        conflict = made.ask("ada", "age >= 50 AND b", Idempotency_Key="k")
        assert (conflict.status_code, conflict.json()["code"]) == (409, "ledger.request-conflict")
        assert made.ask("bob", "a", Idempotency_Key="k").status_code == 200, "a name is the analyst's own"
        assert charges(made) >= paid
        paid = charges(made)
    with house(config) as made:
        again = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        assert again.json() == first.json()
        assert charges(made) == paid


@pytest.mark.thorough
def test_the_ledger_alone_knows_a_name(tmp_path: Path) -> None:
    """Without the service's state, the name still never pays twice, and still conflicts."""
    config = settings(tmp_path)
    with house(config) as made:
        made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        paid = charges(made)
    for file in (tmp_path / "data").glob("state.db*"):
        file.unlink()
    with house(config) as made:
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json()["cost"]["units"] == 0
        assert made.ask("ada", "age >= 50 AND b", Idempotency_Key="k").status_code == 409
        assert charges(made) == paid


def test_a_charge_that_was_lost_is_not_paid_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path)
    with house(config) as made:
        curator = made.service.tables["people"].curator
        commit = type(curator.ledger).commit

        def crash(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(type(curator.ledger), "commit", crash)
        principal = made.service.authenticate(made.tokens["ada"])
        with pytest.raises(KeyboardInterrupt):
            made.service.tables["people"].ask(principal, "age >= 50 AND a", request="k")
        monkeypatch.setattr(type(curator.ledger), "commit", commit)
    with house(config) as made:
        table, paid = made.service.tables["people"], charges(made)
        with pytest.raises(RequestLost):
            table.ask(made.service.authenticate(made.tokens["ada"]), "age >= 50 AND a", request="k")
        got = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        assert (got.status_code, got.json()["code"]) == (410, "ledger.request-lost")
        assert charges(made) == paid
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="fresh").json()["promised"]


def test_max_cost_is_tested_before_anything_is_charged(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        paid = charges(made)
        body = {"where": "age >= 50 AND a AND b", "max_cost": 1e-6}
        got = made.call("ada", "POST", "/v1/tables/people/ask", json=body)
        assert (got.status_code, got.json()["code"]) == (402, "budget.exceeded")
        assert charges(made) == paid
        got = made.call("ada", "POST", "/v1/tables/people/ask", json={**body, "max_cost": 5.0})
        assert got.status_code == 200


def test_arrow(tmp_path: Path) -> None:
    import pyarrow as pa

    with house(settings(tmp_path)) as made:
        accept = {"Accept": "application/vnd.apache.arrow.stream"}
        body = {"sql": "SELECT count(*) FROM people GROUP BY city"}
        got = made.call("ada", "POST", "/v1/tables/people/ask", json=body, headers=accept)
        table = pa.ipc.open_stream(got.content).read_all()
        assert table.num_rows == 3
        assert json.loads(table.schema.metadata[b"maquette"])["promised"]


class Process:
    """`maquette serve` as somebody would start it."""

    def __init__(self, folder: Path) -> None:
        source, schema = write_table(folder)
        self.token_file = folder / "token"
        given = ["serve", source, "--schema", schema, "--epsilon", "5", "--delta", "1e-9", "--alpha", "0.05", "--json"]
        places = ["--directory", str(folder / "data"), "--token-file", str(self.token_file), "--port", "0"]
        self.command = [
            sys.executable,
            "-c",
            "from maquette.cli import main; main()",
            *given,
            *places,
            "--pg-port",
            "0",
        ]

    def start(self) -> dict[str, Any]:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


def ask(told: dict[str, Any], text: str, key: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{told['url']}/v1/tables/people/ask",
        json.dumps({"where": text}).encode(),
        {"Authorization": f"Bearer {told['token']}", "Content-Type": "application/json", "Idempotency-Key": key},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


@pytest.mark.thorough
def test_serve_from_the_command_line(tmp_path: Path) -> None:
    process = Process(tmp_path)
    told = process.start()
    try:
        assert process.token_file.read_text() == told["token"]
        assert process.token_file.stat().st_mode & 0o777 == 0o600
        with urllib.request.urlopen(f"{told['url']}/v1/health", timeout=60) as answer:
            assert json.loads(answer.read()) == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{told['url']}/v1/tables", timeout=60)
        assert ask(told, "smoker", "one")["promised"]
    finally:
        assert process.end(signal.SIGTERM) == 0
    assert inspect(tmp_path / "data" / "people.ledger").charges


@pytest.mark.thorough
def test_killed_under_load_it_never_pays_twice_or_answers_differently(tmp_path: Path) -> None:
    """kill -9 at moments that differ; after each, every key is answered as before, or was never charged, or is lost."""
    process, answers, lost = Process(tmp_path), dict[str, Any](), set[str]()
    questions = [f"age >= {10 * (i % 9 + 1)} AND {'ab'[i % 2]}" + " AND smoker" * (i % 3 == 0) for i in range(24)]
    for turn in range(5):
        told = process.start()
        pid = os.fork()
        if pid == 0:  # the killer
            time.sleep(0.02 + 0.05 * turn)
            os.kill(process.process.pid, signal.SIGKILL)
            os._exit(0)
        for number, text in enumerate(questions):
            key = f"{turn}:{number}" if f"{turn - 1}:{number}" in answers or turn == 0 else f"{turn - 1}:{number}"
            try:
                found = ask(told, text, key)
            except urllib.error.HTTPError as error:
                if error.code != 410:
                    raise
                lost.add(key)
            except (OSError, http.client.HTTPException):  # killed before, within or after the headers
                break
            else:
                assert answers.setdefault(key, found)["value"] == found["value"]
        os.waitpid(pid, 0)
        process.process.wait(30)
        account = inspect(tmp_path / "data" / "people.ledger")
        assert account.spent == sum(charge.units for charge in account.charges) <= account.limit
        named = [charge.described.note["request"]["name"] for charge in account.charges
                 if isinstance(charge.described.note, dict) and "request" in charge.described.note]  # fmt: skip
        assert len(named) == len(set(named)), "a key was charged twice"
    told = process.start()
    try:
        for key, found in answers.items():
            if key not in lost:
                assert ask(told, questions[int(key.partition(":")[2])], key)["value"] == found["value"]
    finally:
        process.end(signal.SIGTERM)
