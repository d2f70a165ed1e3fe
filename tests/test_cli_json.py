"""The command line as programs use it: one document on standard output or none, and one object for every trouble."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from cli_checks import BUDGET, people
from maquette.cli import main
from maquette.demo import story
from maquette.errors import PrivacyWarning

TABLE = ("people.csv", "--schema", "people.toml")


class Program:
    """Runs commands with --json in a folder with a table and its schema."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch = monkeypatch
        self._capture = capsys

    def run(self, *arguments: str, typed: str = "") -> tuple[int, str, list[dict[str, Any]]]:
        """The exit code, what was printed, and what was told on standard error."""
        self._patch.setattr(sys, "argv", ["maquette", *arguments, "--json"])
        self._patch.setattr(sys, "stdin", io.StringIO(typed))
        with warnings.catch_warnings():
            warnings.simplefilter("default", PrivacyWarning)
            with pytest.raises(SystemExit) as ended:
                main()
        printed = self._capture.readouterr()
        return int(ended.value.code or 0), printed.out, [json.loads(line) for line in printed.err.splitlines()]

    def ok(self, *arguments: str, typed: str = "") -> Any:
        code, out, told = self.run(*arguments, typed=typed)
        assert code == 0, told
        return json.loads(out)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    return Program(monkeypatch, capsys)


TROUBLE: dict[str, tuple[tuple[str, ...], int, str, dict[str, str]]] = {
    "no such table": (
        ("release", "nothing.csv", "--schema", "people.toml", *BUDGET, "--out", "people.maq"),
        1,
        "data.unreadable",
        {"happened": "there is no file 'nothing.csv'", "expected": "a CSV"},
    ),
    "no such release": (("ask", "nothing.maq", "smoker"), 1, "data.unreadable", {"happened": "there is no file"}),
    "no such schema": (("schema", "show", "nothing.toml"), 1, "schema", {"happened": "there is no schema file"}),
    "no such ledger": (("budget", "nothing.ledger"), 1, "ledger", {"happened": "nothing.ledger"}),
    "a wrong method": (
        ("release", *TABLE, *BUDGET, "--out", "people.maq", "--method", "grafical"),
        1,
        "query",
        {"happened": "there is no method 'grafical'", "expected": "auto, combined, everything"},
    ),
    "an epsilon of nothing": (
        ("release", *TABLE, "--epsilon", "0", "--out", "people.maq"),
        1,
        "budget",
        {"expected": "a finite number above 0"},
    ),
    "more than there is": (
        ("release", *TABLE, *BUDGET, "--spend", "2", "--out", "people.maq"),
        3,
        "budget.exceeded",
        {"message": "Nothing was charged"},
    ),
    "no folder to write to": (
        ("release", *TABLE, *BUDGET, "--out", "nowhere/people.maq"),
        1,
        "data",
        {"happened": "there is no folder 'nowhere'", "advice": "create it"},
    ),
    "an option left out": (("release", "people.csv"), 2, "usage", {"happened": "Missing option '--schema'"}),
    "an option that is none": (("plan", "--row", "3"), 2, "usage", {"message": "--row"}),
    "a command that is none": (("relese",), 2, "usage", {"message": "relese"}),
    "a sample in another format": (
        ("sample", "people.maq", "--out", "rows.xlsx"),
        2,
        "usage",
        {"message": "expected .parquet or .csv"},
    ),
    "a draft of nothing": (("schema", "guess", "nothing.csv"), 1, "data.unreadable", {"happened": "there is no file"}),
    "a holdout of nothing": (
        ("holdout", "ask", "nothing.csv", "smoker", "--schema", "people.toml"),
        1,
        "data.unreadable",
        {"happened": "there is no file", "expected": "a CSV or Parquet file"},
    ),
}


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("mistake", TROUBLE)
def test_trouble_is_one_object_with_its_exit_code(mistake: str, program: Program) -> None:
    arguments, code, name, parts = TROUBLE[mistake]
    ended, out, (told,) = program.run(*arguments)
    assert (ended, out) == (code, "")
    assert set(told) >= {"error", "message", "happened", "expected", "advice", "exit_code"}
    assert told["exit_code"] == code
    assert told["error"].startswith(name)
    for part, helpful in parts.items():
        assert helpful in told[part], told
    assert not Path("people.ledger").exists() or program.ok("budget", "people.ledger")["spent"]["rho"] == 0


def test_numbers_of_a_refusal_need_not_be_read_from_words(program: Program) -> None:
    _, _, (told,) = program.run("release", *TABLE, *BUDGET, "--spend", "2", "--out", "people.maq")
    assert told["requested"] > told["remaining"] > 0
    Path("bad.csv").write_text("age,smoker,city\n1,true,Paris\n2,maybe,Rome\n")
    _, _, (told,) = program.run("schema", "check", "bad.csv", "--schema", "people.toml")
    assert told["counts"] == {"city": 1, "smoker": 1}
    program.ok("release", *TABLE, *BUDGET, "--out", "people.maq")
    _, _, (told,) = program.run("ask", "people.maq", "SELECT count(*) FROM people WHERE agee > 3")
    assert (told["line"], told["advice"]) == (1, "did you mean age?")


def test_a_warning_is_an_object_too(program: Program) -> None:
    Path("draft.toml").write_text("guessed = true\n" + Path("people.toml").read_text())
    code, out, (told,) = program.run("schema", "check", "people.csv", "--schema", "draft.toml")
    assert (code, json.loads(out)["fits"]) == (0, True)
    assert told["warning"] == "PrivacyWarning"
    assert "drafted by reading data" in told["message"]


@pytest.mark.thorough
def test_a_draft_for_programs(program: Program) -> None:
    Path("ward.csv").write_text(
        "patient;seen;weight\n" + "".join(f"p{i};{i % 28 + 1}/1/2024;6{i % 9},5\n" for i in range(99))
    )
    code, out, (told,) = program.run("schema", "guess", "ward.csv")
    draft = json.loads(out)
    assert (code, told["warning"], draft["guessed"], draft["delimiter"]) == (0, "PrivacyWarning", True, ";")
    seen, weight = draft["columns"]
    assert (seen["name"], seen["order"], seen["low"]) == ("seen", "dmy", "2024-01-01")
    assert (weight["kind"], weight["decimal"]) == ("number", ",")
    assert [line.split()[0] for line in draft["skipped"]] == ["patient"]


def test_a_session_speaks_one_line_for_one_line(program: Program) -> None:
    typed = ".columns\n.budget\n.outlook\n.explain smoker\nsmoker\nnonsense = 1\n.help\n"
    session = ("online", *TABLE, *BUDGET, "--alpha", "0.05")
    code, out, (told,) = program.run(*session, typed=typed)
    columns, budget, outlook, explained, answer, words = map(json.loads, out.splitlines())
    assert code == 1
    assert (told["error"], told["advice"]) == ("query", "columns are age, smoker, city")
    assert columns["columns"][0] == {"name": "age", "kind": "integer", "levels": 8}
    assert budget["remaining"]["epsilon"] > 0
    assert outlook["outlook"]
    assert explained["question"] == "smoker"
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert ".explain QUESTION" in words["help"]


def test_a_scale_that_is_public_makes_a_hopeless_session_free(program: Program) -> None:
    code, out, (told,) = program.run("online", *TABLE, "--epsilon", "0.01", "--alpha", "0.001", "--rows", "4000")
    assert (code, out) == (1, "") or (code, out) == (3, "")
    assert told["advice"]
    assert program.ok("budget", "people.ledger")["spent"]["epsilon"] == 0


@pytest.mark.thorough
def test_another_delimiter_is_an_option(program: Program) -> None:
    Path("semi.csv").write_text(Path("people.csv").read_text().replace(",", ";"))
    _, _, (told,) = program.run("schema", "check", "semi.csv", "--schema", "people.toml")
    assert "is the delimiter ';'?" in told["message"]
    semi = ("semi.csv", "--schema", "people.toml", "--delimiter", ";")
    assert program.ok("schema", "check", *semi)["fits"]
    assert program.ok("release", *semi, *BUDGET, "--spend", "0.5", "--out", "semi.maq")["interrupted"] is False
    assert program.ok("online", *semi, *BUDGET, "--alpha", "0.1", typed="smoker\n")["value"] > 0


@pytest.mark.thorough
def test_the_demo_says_where_everything_is(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    for chapter in ("_session", "_report"):  # the longest, told to their end in another test
        monkeypatch.setattr(story, chapter, lambda *_: None)
    made = program.ok("demo", "--rows", "20000", "--out", "story")
    for word in ("folder", "table", "schema", "ledger", "release"):
        assert Path(made[word]).exists(), word
    assert (made["rows"], "report" in made) == (20_000, False)
    assert program.ok("verify", made["release"], "--ledger", made["ledger"])["charges"] > 0
    code, _, (told,) = program.run("demo", "--rows", "20000", "--out", "story")
    assert (code, told["advice"]) == (1, "give a new folder, or delete that one")


@pytest.mark.thorough
def test_a_release_states_its_check_and_every_answer_its_kind(program: Program) -> None:
    made = program.ok("release", *TABLE, *BUDGET, "--ways", "2", "--out", "people.maq")
    assert "certified at 95%" in made["checked"]
    one = program.ok("ask", "people.maq", "smoker AND city = 'Oslo'")
    assert (one["bound"], one["confidence"]) == ("measured", 0.95)
    table = program.ok("ask", "people.maq", "SELECT city, count(*) AS n FROM t GROUP BY city")
    assert [row["n"]["bound"] for row in table["rows"]] == ["measured"] * 2
    plain = program.ok("release", *TABLE, *BUDGET, "--no-check", "--ledger", "other.ledger", "--out", "plain.maq")
    assert plain["checked"] is None
