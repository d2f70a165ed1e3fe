"""The story and the self-benchmark run to their end, and what they leave behind can be used."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import maquette as mq
from maquette.demo import PARTS, SCHEMA, measure, story, survey, tell
from maquette.demo.questions import QUESTIONS, stream
from maquette.errors import MaquetteError
from maquette.privacy.ledger import inspect


@pytest.mark.thorough
def test_the_story_is_told_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "ASKED", 100)
    told = StringIO()
    home = tell(30_000, Console(file=told, width=160), tmp_path / "demo")
    text = told.getvalue()
    for step in ("1. plan", "2. release", "3. ask", "4. sample", "5. online", "6. report", "Next, on the survey"):
        assert step in text
    assert "Its people are invented" in text  # exact answers are shown, so it must say that nobody is behind them
    assert "\x1b" not in text
    paid = re.search(r"Of 100 answers (\d+) were paid for", text)
    assert paid is not None
    assert int(paid[1]) <= 100
    account = inspect(home / "survey.ledger")
    assert 0 < account.spent <= account.limit
    assert "<html" in (home / "report.html").read_text(encoding="utf-8")
    answer = mq.Release.load(home / "survey.maq").answer(QUESTIONS[0])
    assert isinstance(answer, mq.Answer)
    # The files fit together, so that the commands it prints work.
    table = mq.open_table(home / "survey.parquet", mq.Schema.load(home / "survey.schema.toml"))
    with mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9), ledger=home / "survey.ledger") as curator:
        assert curator.ledger.spent() == account.spent
    with pytest.raises(MaquetteError, match="holds a demo already"):
        tell(30_000, Console(file=StringIO()), home)


def test_without_the_chart_library_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    schema = mq.Schema([mq.Boolean("smoker")])
    curator = mq.Curator(mq.open_table({"smoker": [True, False] * 500}, schema), mq.Budget(epsilon=1.0))
    told = StringIO()
    story._report(mq.release(curator, mq.marginals(schema, k=1)), tmp_path, Console(file=told, width=160))
    assert "pip install 'maquette[charts]'" in told.getvalue()


def test_what_to_type_next_works_where_the_command_is_not_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/maquette", "demo"])
    monkeypatch.setenv("PATH", "")
    assert story._command() == ".venv/bin/maquette"
    monkeypatch.setattr(sys, "argv", ["python -m pytest"])
    assert story._command() == "maquette"


def test_exact_answers_are_those_of_the_rows() -> None:
    people = survey(1_000)
    truth, records = story._Truth(people), SCHEMA.encode(people)
    for condition in stream(50, np.random.default_rng(0)):
        assert truth.of(condition) == pytest.approx(mq.where(SCHEMA, condition).evaluate(records).mean())


def test_a_file_is_no_folder_for_a_demo(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    with pytest.raises(MaquetteError, match="is a file; give a new folder"):
        tell(30_000, Console(file=StringIO()), tmp_path / "demo")


def test_random_questions_can_all_be_asked() -> None:
    records = SCHEMA.encode(survey(1_000))
    for condition in stream(300, np.random.default_rng(0)):
        assert 0 <= mq.where(SCHEMA, condition).evaluate(records).mean() <= 1


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_benchmark_measures_something(part: str) -> None:
    figures = measure(part, 20_000)  # type: ignore[arg-type]
    assert len({figure.name for figure in figures}) == len(figures) > 1
    assert all(figure.part == part and figure.value > 0 and figure.unit for figure in figures)
    json.dumps([figure.value for figure in figures])
