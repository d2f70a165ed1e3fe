"""Releases over HTTP: one name is paid for once, and the default suits tables of one column."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from rooms import House, house, settings

import maquette as mq
from maquette.curator import Curator
from maquette.service.jobs import Jobs

NEW = "/v1/tables/people/releases"


def ended(made: House, job: dict[str, Any]) -> dict[str, Any]:
    while not made.service.jobs.get(job["id"]).over:
        time.sleep(0.01)
    return made.service.jobs.get(job["id"]).as_dict()


def test_one_name_is_paid_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second click while the first release is being made, and one that slipped past the look at the jobs."""
    going, paid = threading.Event(), []

    def slow(curator: Curator, *_: Any, **named: Any) -> Any:
        paid.append(named)
        going.wait(60)
        return SimpleNamespace(save=lambda path: path.write_bytes(b"made") and "digest", cost=curator.cost_of([]))

    monkeypatch.setattr("maquette.service.publishing.release", slow)
    body = {"name": "first", "ways": 1, "epsilon": 0.2, "check": False}
    with house(settings(tmp_path)) as made:
        first = made.call("custodian", "POST", NEW, json=body)
        second = made.call("custodian", "POST", NEW, json=body)
        assert (first.status_code, second.status_code) == (202, 422)
        assert "is being made" in second.json()["detail"]
        with mock.patch.object(Jobs, "of", return_value=[]):
            third = made.call("custodian", "POST", NEW, json=body)
        going.set()
        assert ended(made, first.json())["state"] == "done"
        late = ended(made, third.json())
        assert (late["state"], late["error"]["code"]) == ("failed", "query")
        assert "nothing was charged" in late["error"]["detail"]
        assert len(paid) == 1


def test_a_table_of_one_column_has_a_default_too(tmp_path: Path) -> None:
    config = settings(tmp_path)
    schema = mq.Schema([mq.Boolean("smoker")])
    (tmp_path / "one.schema.toml").write_text(schema.dumps())
    (tmp_path / "one.csv").write_text("smoker\n" + "yes\nno\n" * 400)
    one = replace(
        config.tables[0], source=str(tmp_path / "one.csv"), schema=str(tmp_path / "one.schema.toml"), epsilon=40.0
    )
    with house(replace(config, tables=(one, config.tables[1]))) as made:
        got = made.call("custodian", "POST", NEW, json={"name": "first", "epsilon": 0.5, "check": False})
        assert got.status_code == 202, got.text
        assert ended(made, got.json())["state"] == "done"


def test_a_release_knows_its_table_by_the_name_it_is_served_under(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        job = made.call("custodian", "POST", NEW, json={"name": "first", "ways": 1, "epsilon": 0.2, "check": False})
        assert ended(made, job.json())["state"] == "done"
        told = [
            made.call("custodian", "POST", f"{NEW}/first/ask", json={"sql": f"SELECT count(*) FROM {name}"})
            for name in ("people", "peple")
        ]
        assert [one.status_code for one in told] == [200, 422]
        assert "did you mean people?" in told[1].text
        assert made.service.tables["people"].releases["first"].certificate.table == "people"
