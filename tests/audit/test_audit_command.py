"""`maquette audit`: what it prints, the page it writes, and that it fails when something is wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from maquette.audit import Audit, audit, run
from maquette.audit.exact_losses import Loss
from maquette.audit.findings import Fault
from maquette.audit.mutants import MUTANTS, Mutant
from maquette.audit.sampled import Bound, check_bounds
from maquette.cli import main

FEW = tuple(mutant for mutant in MUTANTS if mutant.killer in ("order of steps", "accounting", "minus zero"))[:4]


pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def found() -> Audit:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "MUTANTS", FEW)
        return audit(questions=160, samples=600)


def test_nothing_is_found(found: Audit) -> None:
    assert found.passed, str(found)


def test_every_door_has_an_exact_loss_and_a_lower_bound_below_its_claim(found: Audit) -> None:
    doors = {loss.door for loss in found.losses}
    assert doors == {
        "measure", "measure_many", "measure_error", "count_rows", "select_worst", "select_best", "lottery", "guard",
    }  # fmt: skip
    assert all(0 < loss.share <= 1 + 1e-9 for loss in found.losses)
    assert {bound.door for bound in found.bounds} == doors - {"measure_many", "count_rows"}
    assert all(bound.holds for bound in found.bounds)


def test_exact_losses_are_nearly_the_charge_where_the_mechanism_is_tight(found: Audit) -> None:
    tight = {loss.door: loss.share for loss in found.losses}
    assert min(tight[door] for door in ("measure", "measure_error", "select_worst", "lottery")) > 0.99


def test_the_facts_are_complete(found: Audit) -> None:
    facts = json.loads(json.dumps(found.as_dict()))
    assert facts["mutants"]["killed"] == facts["mutants"]["of"] == len(FEW)
    assert facts["questions"]["asked"] >= 160
    assert {"python", "maquette", "numpy", "duckdb"} <= facts["versions"].keys()
    assert {result["name"] for result in facts["results"]} >= {"order of steps", "random questions", "mutants"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        assert tag != "script"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_all_of_it_and_fetches_nothing(found: Audit) -> None:
    page = _Page()
    page.feed(found.to_html())
    assert page.fetched == []
    for mutant in FEW:
        assert mutant.name in page.text
    for loss in found.losses:
        assert loss.door in page.text
    assert found.versions["numpy"] in page.text


def test_text_of_questions_cannot_write_into_the_page(found: Audit) -> None:
    bad = replace(found, questions=replace(found.questions, faults=[Fault(1, "measure", "<b>x</b>", "<script>1")]))
    assert "<script>" not in bad.to_html()


@pytest.mark.parametrize("broken", [
    {"losses": [Loss("measure", 1, 2.0)]},
    {"bounds": [Bound("measure", 1.0, 2.0, 10, "output > 1")]},
])  # fmt: skip
def test_a_loss_or_a_bound_above_its_claim_fails(broken: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_PARTS", {})
    monkeypatch.setattr(run.exact_losses, "noisy_losses", lambda: broken.get("losses", []))
    monkeypatch.setattr(run.exact_losses, "selection_losses", list)
    monkeypatch.setattr(run.sampled, "bounds", lambda _: broken.get("bounds", []))
    monkeypatch.setattr(run, "audit_questions", lambda *_, **__: run.Findings())
    failed = audit(mutants=False)
    assert not failed.passed
    assert "FAIL" in str(failed)


def test_a_mutant_that_survives_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_PARTS", {})
    for name in ("_losses", "_bounds", "_questions"):
        monkeypatch.setattr(run, name, lambda *_: None)
    monkeypatch.setattr(run, "MUTANTS", [Mutant("nothing is broken", "doors", "accounting", {})])
    failed = audit()
    assert [mutant.name for mutant in failed.survivors] == ["nothing is broken"]
    assert not failed.passed
    assert "survived: nothing is broken" in str(failed)


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["maquette", "audit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("sound", [True, False])
def test_the_command_writes_the_page_and_its_exit_code_says_how_it_went(
    found: Audit, sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [replace(result, failure=None if sound else "broken") for result in found.results]
    monkeypatch.setattr("maquette.audit.audit", lambda **_: replace(found, results=results))
    page = tmp_path / "audit.html"
    assert _command(monkeypatch, "--out", str(page)) == (0 if sound else 1)
    assert "Privacy audit" in page.read_text(encoding="utf-8")
    assert ("Nothing was found" in capsys.readouterr().out) == sound
    assert _command(monkeypatch, "--json") == (0 if sound else 1)
    assert json.loads(capsys.readouterr().out)["passed"] == sound


def test_a_page_that_cannot_be_written_is_refused_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("maquette.audit.audit", lambda **_: pytest.fail("it ran"))
    assert _command(monkeypatch, "--out", str(tmp_path / "nowhere" / "audit.html")) == 1


@pytest.mark.thorough
def test_samples_refute_a_third_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the sampled layer: noise of a third of its scale is refuted by a few thousand samples."""
    from maquette.curator import ExactNoise

    original = ExactNoise.laplaces
    monkeypatch.setattr(
        ExactNoise, "laplaces", lambda self, scales, sizes: original(self, [scale / 3 for scale in scales], sizes)
    )
    with pytest.raises(AssertionError, match="measure"):
        check_bounds(3_000)
