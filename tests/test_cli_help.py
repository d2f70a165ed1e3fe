"""Help texts of all commands: plain words for what an option takes, an example, a help text for everything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from maquette.cli import app

WIDE = {"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"}
WORDS = {"NUMBER", "FILE", "FOLDER", "TEXT", "COLUMN", "NAME", "CHARACTER", "SECONDS", "ADDRESS", "NAME=FILE:KEY"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_names_no_python_type(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env=WIDE)
    assert shown.exit_code == 0, shown.output
    assert not re.search(r"<(\w| )+(\[\w+\])?>|x>=|x<=|list\[", shown.output), shown.output
    assert not re.search(r"\b(vacuous|so many|of nobody)\b", shown.output), shown.output


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_everything_in_a_help_text_is_explained(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert command.help, path
    if not hasattr(command, "commands"):
        assert "Example: maquette " in command.help, path
    for option in command.get_params(command.context_class(command)):
        assert option.help, (path, option.name)
        assert option.help.rstrip().endswith("."), (path, option.name, option.help)
        if option.param_type_name == "option":
            assert option.metavar == "" or option.metavar in WORDS or "|" in option.metavar, (path, option.name)


def test_ranges_are_told_in_words() -> None:
    shown = CliRunner().invoke(app, ["preview", "--help"], env=WIDE).output
    assert "NUMBER [1 to 1,000,000]" in shown
    assert "NUMBER [at least 1]" in CliRunner().invoke(app, ["sample", "--help"], env=WIDE).output


def test_a_pattern_without_quotes_is_told_to_need_them() -> None:
    """The shell writes it out as several files; other commands take no pattern."""
    said = CliRunner().invoke(app, ["schema", "guess", "a.csv", "b.csv"]).output
    assert "one pattern in quotes" in " ".join(said.replace("│", " ").split())
    assert "pattern" not in CliRunner().invoke(app, ["ask", "a.maq", "smoker", "c"]).output
