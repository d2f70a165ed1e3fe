"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import maquette
from maquette.cli import main
from maquette.schema import Boolean, Category, Date, Integer, Number, Schema


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["maquette", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_show_lists_bounds_levels_and_what_is_odd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.toml"
    columns = [
        Integer("age", 0, 94, width=10),
        Integer("height", 100, 199, width=10),
        Number("bmi", edges=[10, 18.5, 25, 60]),
        Category("city", ["Paris", "Rome"], other="elsewhere", nullable=True),
        Date("seen", "2024-01-01", "2024-12-31", unit="month"),
        Boolean("smoker"),
    ]
    Schema(columns).save(path)
    assert run(monkeypatch, "schema", "show", str(path)) == 0
    shown = capsys.readouterr().out
    lines = {line.split()[0]: " ".join(line.split()) for line in shown.splitlines()}
    assert lines["age"].startswith(
        "age integer 10 levels 0-9, 10-19, 20-29, ..., 90-94 (the last bin has width 5, not 10"
    )
    assert lines["height"] == "height integer 10 levels 100-109, 110-119, 120-129, ..., 190-199"
    assert lines["bmi"] == "bmi number 3 levels [10, 18.5), [18.5, 25), [25, 60]"
    assert lines["city"] == "city category 4 levels Paris, Rome, elsewhere, NULL"
    assert lines["seen"] == "seen date 12 levels 2024-01, 2024-02, 2024-03, ..., 2024-12"
    assert lines["smoker"] == "smoker boolean 2 levels false, true"
    assert "DRAFT" not in shown


@pytest.mark.thorough
def test_a_draft_is_printed_to_be_saved_and_shown_as_a_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, draft = tmp_path / "people.csv", tmp_path / "people.toml"
    source.write_text("id,age,city\n" + "".join(f"p{i},{i % 80},{'ab'[i % 2]}\n" for i in range(100)))
    assert run(monkeypatch, "schema", "guess", str(source)) == 0
    printed = capsys.readouterr()
    assert "warning: Schema.guess read the data" in printed.err
    assert "# skipped: id (every value occurs once: it looks like a key" in printed.out
    draft.write_text(printed.out)
    assert run(monkeypatch, "schema", "show", str(draft)) == 0
    assert capsys.readouterr().out.startswith("DRAFT, made by reading the data: review every bound and level")


@pytest.mark.parametrize("command", ["guess", "show"])
def test_a_refusal_is_one_line_and_exit_code_1(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "schema", command, str(tmp_path)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("error (")
    assert "folder" in line or "directory" in line


def test_the_version_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"maquette {maquette.__version__}\n"
    assert maquette.__version__ == version("maquette")
