"""The commands as a custodian and an analyst type them: what they print, what they write, how they end."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import pytest

from cli_checks import BUDGET, people
from maquette.cli import main
from maquette.errors import PrivacyWarning
from maquette.releases import writing


class Shell:
    """Runs commands in a folder with a table and its schema."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch = monkeypatch
        self._capture = capsys

    def run(self, *arguments: str, typed: str | None = None) -> tuple[int, str, str]:
        self._patch.setattr(sys, "argv", ["maquette", *arguments])
        if typed is not None:
            self._patch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capture.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    def ok(self, *arguments: str, typed: str | None = None) -> str:
        code, out, err = self.run(*arguments, typed=typed)
        assert code == 0, err
        return out


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    return Shell(monkeypatch, capsys)


def release(shell: Shell, *more: str) -> str:
    return shell.ok("release", "people.csv", "--schema", "people.toml", *BUDGET, "--out", "people.maq", *more)


@pytest.mark.thorough
def test_publish_then_ask_and_sample_for_free(shell: Shell) -> None:
    told = release(shell, "--spend", "0.5")
    assert "cost epsilon 0.5 at delta 1e-09" in told
    assert "add-remove of one row" in told
    spent = shell.ok("budget", "people.ledger")
    table = shell.ok("ask", "people.maq", "SELECT city, count(*) FROM people GROUP BY city")
    assert table.splitlines()[1].startswith("Oslo")
    answer = json.loads(shell.ok("ask", "people.maq", "age >= 40 AND smoker", "--json"))
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert answer["cost"]["epsilon"] == 0
    assert abs(answer["value"] - 1 / 3) < 0.1
    shell.ok("sample", "people.maq", "--rows", "100", "--out", "rows.csv")
    Path("cities.csv").write_text("town,country\nOslo,NO\nRome,IT\n")
    joined = "SELECT c.country, count(*) FROM t JOIN c ON t.city = c.town WHERE age < 45 GROUP BY 1"
    asked = ("ask", "people.maq", joined, "--public", "c=cities.csv:town", "--cuts", "between")
    assert {line[:2] for line in shell.ok(*asked).splitlines()[1:3]} == {"NO", "IT"}
    lines = Path("rows.csv").read_text().splitlines()
    assert lines[0] == '"age","smoker","city"'
    assert len(lines) == 101
    assert shell.ok("budget", "people.ledger") == spent


def test_json_of_a_release_and_its_ledger_agree(shell: Shell) -> None:
    made = json.loads(release(shell, "--json"))
    account = json.loads(shell.ok("budget", "people.ledger", "--json"))
    assert account["spent"]["rho"] == pytest.approx(made["cost"]["rho"])
    assert sum(charge["rho"] for charge in account["charges"]) == pytest.approx(made["cost"]["rho"])
    assert {charge["state"] for charge in account["charges"]} == {"answered"}


@pytest.mark.thorough
def test_verify_a_release_and_the_ledger_that_paid(shell: Shell) -> None:
    digest = json.loads(release(shell, "--json"))["digest"]
    told = shell.ok("verify", "people.maq", "--ledger", "people.ledger", "--digest", digest)
    assert "seal, published digest, every charge is in the ledger" in told
    assert "the chain, every sum and every state" in shell.ok("verify", "people.ledger")
    code, _, err = shell.run("verify", "people.maq", "--digest", "00" * 32)
    assert (code, "not the release published under this digest" in err) == (1, True)
    Path("other.csv").write_text(Path("people.csv").read_text())
    shell.ok("release", "other.csv", "--schema", "people.toml", "--epsilon", "1", "--out", "other.maq")
    code, _, err = shell.run("verify", "people.maq", "--ledger", "other.ledger")
    assert (code, "was paid from another ledger" in err) == (1, True)


def test_a_changed_ledger_does_not_verify(shell: Shell) -> None:
    release(shell)
    content = bytearray(Path("people.ledger").read_bytes())
    place = content.find(b"discrete-gaussian")
    content[place] ^= 1
    Path("people.ledger").write_bytes(content)
    for command in ("verify", "budget"):
        code, out, err = shell.run(command, "people.ledger")
        assert (code, out) == (1, "")
        assert "error (ledger.corrupted)" in err


@pytest.mark.thorough
def test_verify_recovers_a_ledger_whose_log_or_newest_copy_is_lost(shell: Shell) -> None:
    release(shell, "--spend", "0.5")
    old = Path("people.ledger").read_bytes()
    before = json.loads(shell.ok("budget", "people.ledger", "--json"))["spent"]["rho"]
    shell.ok("release", "people.csv", "--schema", "people.toml", *BUDGET, "--spend", "0.2", "--out", "more.maq")
    after = json.loads(shell.ok("budget", "people.ledger", "--json"))["spent"]["rho"]
    Path("people.ledger").write_bytes(old)
    for command in ("verify", "budget"):
        code, _, err = shell.run(command, "people.ledger")
        assert (code, "maquette verify people.ledger --recover" in err) == (1, True)
    told = shell.ok("verify", "people.ledger", "--recover")
    assert "was charged as lost" in told
    assert "every sum and every state" in told
    account = json.loads(shell.ok("budget", "people.ledger", "--json"))
    assert before < account["spent"]["rho"] == pytest.approx(after)
    assert account["charges"][-1]["analyst"] == "lost before a recovery"
    assert "nothing more was charged" in shell.ok("verify", "people.ledger", "--recover")
    assert shell.run("verify", "people.maq", "--recover")[0] == 2


def test_a_session_in_a_pipe_goes_on_where_it_was_left(shell: Shell) -> None:
    command = ("online", "people.csv", "--schema", "people.toml", *BUDGET, "--alpha", "0.05", "--json")
    first = json.loads(shell.ok(*command, typed="age >= 40\n.quit\n"))
    again = json.loads(shell.ok(*command, typed="NOT age < 40\n"))
    assert first["source"] == "measured"
    assert (again["value"], again["cost"]["epsilon"]) == (first["value"], 0)
    assert again["remaining"] == first["remaining"]


def test_a_bad_question_does_not_end_a_session(shell: Shell) -> None:
    typed = ".explain smoker\nnonsense = 1\n.budget\n.columns\nsmoker\n.what\n"
    code, out, err = shell.run(
        "online", "people.csv", "--schema", "people.toml", *BUDGET, "--alpha", "0.05", typed=typed
    )
    assert code == 1
    assert "there is no column 'nonsense'" in err
    assert "there is no .what" in err
    assert "age (integer, 8 levels)" in out
    assert "measured cost" in out


def test_a_budget_that_does_not_suffice_has_its_own_exit_code(shell: Shell) -> None:
    release(shell, "--spend", "0.9")
    code, _, err = shell.run(
        "release", "people.csv", "--schema", "people.toml", *BUDGET, "--spend", "0.9", "--out", "more.maq"
    )
    assert code == 3
    assert "Nothing was charged" in err
    assert not Path("more.maq").exists()


@pytest.mark.thorough
def test_plan_in_words_and_in_json(shell: Shell) -> None:
    numbers = ("plan", "--theory", "--rows", "4000", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")
    assert "Gaussian noise on each query" in shell.ok(*numbers, "--chart", "plan.svg")
    assert Path("plan.svg").read_text().startswith("<svg")
    assert len(json.loads(shell.ok(*numbers, "--json"))) > 3


def test_check_says_whether_a_table_fits(shell: Shell) -> None:
    assert "fits" in shell.ok("schema", "check", "people.csv", "--schema", "people.toml")
    Path("bad.csv").write_text("age,smoker,city\n1,true,Paris\n")
    code, _, err = shell.run("schema", "check", "bad.csv", "--schema", "people.toml")
    assert (code, "city" in err) == (1, True)


def test_check_shows_what_the_declared_bound_drops(shell: Shell) -> None:
    unit = '[unit]\ncolumn = "person"\nmax_contributions = 4\n\n'
    Path("visits.toml").write_text(unit + '[[column]]\nname = "smoker"\nkind = "boolean"\n')
    Path("visits.csv").write_text("person,smoker\n" + "".join(f"p{i // 8},true\n" for i in range(80)))
    (chosen,) = (
        line
        for line in shell.ok("schema", "check", "visits.csv", "--schema", "visits.toml").splitlines()
        if "chosen" in line
    )
    assert chosen.split()[:4] == ["4", "40", "(", "50.0%)"]


@pytest.mark.thorough
def test_interrupt_keeps_the_ledger(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    import maquette as mq

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mq.Release, "save", interrupted)
    code, _, _ = shell.run(
        "release", "people.csv", "--schema", "people.toml", *BUDGET, "--spend", "0.5", "--out", "people.maq"
    )
    assert code == 130
    assert "verified" in shell.ok("verify", "people.ledger")


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(
    "command",
    [
        *("release", "ask", "sample", "online", "budget", "verify", "plan", "demo", "bench", "report", "audit"),
        *("schema guess", "schema check", "schema show", "holdout plan", "holdout ask"),
    ],
)
def test_every_command_has_an_example(command: str, shell: Shell) -> None:
    told = shell.ok(*command.split(), "--help")
    assert "Example: maquette " in told
    assert "--json" in told


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--rows", "4000", "--schema", "people.toml", "--epsilon", "1", "--chart", "nowhere/plan.svg"),
        ("holdout", "plan", "--n", "1000", "--k", "5", "--chart", "nowhere/plan.svg"),
        ("report", "people.maq", "--out", "nowhere/report.html"),
        ("sample", "people.maq", "--out", "nowhere/rows.csv"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(command: tuple[str, ...], shell: Shell) -> None:
    code, out, err = shell.run(*command)
    assert (code, out, "there is no folder 'nowhere'" in err) == (1, "", True), err


def test_trouble_with_a_file_is_one_line(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    import maquette as mq

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "people.maq")

    monkeypatch.setattr(mq.Release, "save", full)
    code, _, err = shell.run("release", "people.csv", "--schema", "people.toml", *BUDGET, "--out", "people.maq")
    assert (code, err) == (1, "error (data): 'people.maq': No space left on device; fix this and try again\n")


@pytest.mark.thorough
def test_the_next_step_is_told_and_the_draft_names_the_delimiter(shell: Shell) -> None:
    Path("semi.csv").write_text(Path("people.csv").read_text().replace(",", ";"))
    _, out, err = shell.run("schema", "guess", "semi.csv")
    assert "guessed = true" in out
    assert "maquette schema check semi.csv --schema semi.schema.toml" in err
    assert '[file]\ndelimiter = ";"' in out
    _, out, _ = shell.run("schema", "guess", "people.csv")
    assert "[file]" not in out


def test_a_release_that_could_not_be_written_is_refused_before_it_is_paid_for(shell: Shell) -> None:
    Path("folder").mkdir()
    for out, why in (("nowhere/people.maq", "there is no folder 'nowhere'"), ("folder", "is a folder")):
        code, _, err = shell.run("release", "people.csv", "--schema", "people.toml", *BUDGET, "--out", out)
        assert (code, why in err, "Nothing was charged" in err) == (1, True, True), err
    assert not Path("people.ledger").exists()


def test_a_draft_is_warned_of_in_one_line(shell: Shell) -> None:
    Path("draft.toml").write_text("guessed = true\n" + Path("people.toml").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("default", PrivacyWarning)
        code, _, err = shell.run("schema", "check", "people.csv", "--schema", "draft.toml")
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: this schema was drafted by reading data")


def test_samples_in_json_and_in_words(shell: Shell) -> None:
    release(shell)
    rows = json.loads(shell.ok("sample", "people.maq", "--rows", "3", "--json"))
    assert [set(row) for row in rows] == [{"age", "smoker", "city"}] * 3
    assert shell.ok("sample", "people.maq", "--rows", "30", "--out", "rows.csv") == "rows.csv: 30 synthetic rows\n"
    told = json.loads(shell.ok("sample", "people.maq", "--rows", "30", "--out", "rows.parquet", "--json"))
    assert told == {"file": "rows.parquet", "rows": 30}


def test_many_rows_are_printed_in_batches_under_one_heading(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    release(shell)
    monkeypatch.setattr(writing, "LEAST", 7)
    lines = shell.ok("sample", "people.maq", "--rows", "100").splitlines()
    assert len(lines) == 101
    assert [line for line in lines if "smoker" in line] == lines[:1]


def test_plan_a_holdout(shell: Shell) -> None:
    words = shell.ok("holdout", "plan", "--n", "10000", "--k", "500", "--chart", "plan.svg")
    assert "sample splitting" in words
    assert Path("plan.svg").read_text().startswith("<svg")
    facts = json.loads(shell.ok("holdout", "plan", "--rows", "10000", "--queries", "500", "--json"))
    assert facts["best"] == "description-length"
    assert facts["fixed_beforehand"] < min(method["half_width"] for method in facts["methods"])


@pytest.mark.thorough
def test_a_holdout_remembers_what_it_was_asked(shell: Shell) -> None:
    ask = ("holdout", "ask", "people.csv", "--schema", "people.toml", "--json")
    good = json.loads(shell.ok(*ask, "age >= 40", "--guess", "0.5"))
    assert (good["source"], good["failures"], good["queries"]) == ("guess", 0, 1)
    wrong = json.loads(shell.ok(*ask, "smoker", "--guess", "0.1"))
    assert (wrong["source"], wrong["failures"], wrong["queries"]) == ("holdout", 1, 2)
    assert wrong["low"] <= 2 / 3 <= wrong["high"]
    again = json.loads(shell.ok(*ask, "NOT age < 40", "--guess", "0.4"))
    assert again == good
    assert "from the guess" in shell.ok(*ask[:-1], "city = 'Rome'", "--guess", "0.5")
    code, _, err = shell.run("holdout", "ask", "nothing.csv", "smoker", "--schema", "people.toml")
    assert (code, "there is no file 'nothing.csv'" in err) == (1, True)


def test_bench_in_json(shell: Shell) -> None:
    figures = json.loads(shell.ok("bench", "noise", "--rows", "1000", "--json"))["figures"]
    assert {figure["part"] for figure in figures} == {"noise"}
    assert shell.run("bench", "nonsense")[0] == 2
