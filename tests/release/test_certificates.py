"""A certificate lists the charges of its own release, and of all others on the ledger their sum alone."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from release_checks import SCHEMA, table_of
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.releases import archive
from maquette.releases.methods.registry import METHODS
from maquette.reports import report
from maquette.reports.subject import subject_of

BUDGET = mq.Budget(epsilon=8.0, delta=1e-9)
CANARY = "canary-4711"
SETTINGS: dict[str, dict[str, Any]] = {
    "averaged-construction": {"rounds": 5},
    "dual-query": {"rounds": 4, "draws": 5},
    "both-learn": {"rounds": 5},
    "small-db": {"rows": 2},
}


def _curator(tmp_path: Path | None = None) -> mq.Curator:
    """Someone else was here before: an analyst, a session and a measurement of the custodian's."""
    ledger = None if tmp_path is None else tmp_path / "people.ledger"
    curator = mq.Curator(table_of(SCHEMA, 3_000), BUDGET, ledger=ledger)
    curator.measure(["region"], epsilon=0.1, analyst=CANARY, request=f"{CANARY} 1")
    mq.online(curator, alpha=0.3, name="other").ask("smoker AND region = 's'", analyst=CANARY)
    curator.measure(["age"], epsilon=0.1)
    return curator


@pytest.mark.thorough(fast=6)
@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_a_certificate_lists_its_own_charges_only(method: str) -> None:
    with _curator() as curator:
        before = [charge.seq for charge in curator.ledger.charges()]
        made = mq.release(curator, mq.marginals(SCHEMA, k=1), method=method, epsilon=2.0, **SETTINGS.get(method, {}))
        later = [charge for charge in curator.ledger.charges() if charge.seq not in before]
        assert made.certificate.charges == tuple(charge.description for charge in later)
        assert made.certificate.units == sum(charge.units for charge in later)
        assert made.certificate.ledger_units == curator.ledger.spent()
        assert made.certificate.total == curator.spent
        curator.measure(["smoker"], epsilon=0.1)
        assert made.certificate.ledger_units < curator.ledger.spent()


@pytest.mark.thorough
def test_a_published_file_and_page_say_nothing_of_the_questions_of_others(tmp_path: Path) -> None:
    with _curator() as curator:
        told = [charge.description for charge in curator.ledger.charges()]
        made = mq.release(
            curator, mq.marginals(SCHEMA, columns=[("smoker",)]), method="gaussian", epsilon=2.0, check=False
        )
    made.save(tmp_path / "people.maq")
    again = mq.Release.load(tmp_path / "people.maq")
    assert again.certificate == made.certificate
    manifest = json.dumps(again.certificate.charges)
    page = report(again)
    keys = [key for text in told for key in json.loads(text).get("questions", [])]
    assert keys
    for text in (manifest, page):
        assert CANARY not in text
        assert not any(key in text for key in keys)
    subject = subject_of(again)
    assert [line.own for line in subject.lines] == [False, *[True] * len(made.certificate.charges)]
    assert sum(line.units for line in subject.lines) == made.certificate.ledger_units == subject.total.units


@pytest.mark.thorough
def test_charges_of_an_analyst_who_asks_meanwhile_are_not_listed() -> None:
    with _curator() as curator:
        stop, asked = threading.Event(), 0

        def ask() -> None:
            nonlocal asked
            while not stop.is_set() and asked < 40:
                curator.measure(["region"], epsilon=0.01, analyst=CANARY, request=f"{CANARY} meanwhile {asked}")
                asked += 1

        other = threading.Thread(target=ask)
        other.start()
        made = [mq.release(curator, mq.marginals(SCHEMA, k=1), method="mwem", epsilon=0.5) for _ in range(3)]
        stop.set()
        other.join()
        theirs = {c.description for c in curator.ledger.charges() if c.analyst == CANARY}
        assert asked
        assert not any(theirs & set(release.certificate.charges) for release in made)


def test_a_session_s_page_lists_its_own_charges_and_the_sum_of_others() -> None:
    with _curator() as curator:
        session = mq.online(curator, alpha=0.3, name="mine")
        session.ask("smoker")
        subject = subject_of(session)
        ids = [charge.id for charge in curator.ledger.charges() if charge.id.startswith("session:mine:")]
        assert len(subject.charges) == len(ids)
        assert sum(line.units for line in subject.lines) == curator.ledger.spent()
        assert not subject.lines[0].own


def test_the_charges_of_a_release_are_verified_in_its_ledger(tmp_path: Path) -> None:
    with _curator(tmp_path) as curator:
        mq.release(curator, mq.marginals(SCHEMA, k=1), method="gaussian", epsilon=1.0).save(tmp_path / "people.maq")
        curator.measure(["smoker"], epsilon=0.1)
    verify = ["verify", str(tmp_path / "people.maq"), "--ledger"]
    assert "every charge is in the ledger" in CliRunner().invoke(app, [*verify, str(tmp_path / "people.ledger")]).output
    with mq.Curator(table_of(SCHEMA, 3_000), BUDGET, ledger=tmp_path / "other.ledger") as curator:
        curator.measure(["smoker"], epsilon=2.0)
    assert CliRunner().invoke(app, [*verify, str(tmp_path / "other.ledger")]).exit_code != 0


def test_files_from_before_certificates_knew_the_ledger_s_total_still_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _curator() as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=1), method="gaussian", epsilon=1.0)
        everyone = tuple(charge.description for charge in curator.ledger.charges())

    class Older:
        """JSON as it was written when certificates listed every charge."""

        loads = staticmethod(json.loads)

        @staticmethod
        def dumps(value: dict[str, Any], **how: Any) -> str:
            kept = {name: fact for name, fact in value["certificate"].items() if name != "ledger_units"}
            return json.dumps({**value, "certificate": {**kept, "charges": everyone}}, **how)

    monkeypatch.setattr(archive, "json", Older)
    made.save(tmp_path / "old.maq")
    older = mq.Release.load(tmp_path / "old.maq")
    assert older.certificate == replace(made.certificate, charges=everyone, ledger_units=None)
    assert older.certificate.total is None
    subject = subject_of(older)
    assert subject.total.units == made.certificate.ledger_units
    assert sum(line.units for line in subject.lines if line.own) == made.certificate.units
