"""Nothing of the sources is unmapped: every numbered statement has code, a test and its line in the table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("statements", ROOT / "docs" / "statements.py")
assert _spec is not None
statements: Any = importlib.util.module_from_spec(_spec)
assert _spec.loader is not None
_spec.loader.exec_module(statements)


def test_every_numbered_statement_is_on_the_map() -> None:
    assert statements.missing() == []


@pytest.mark.thorough
def test_every_statement_has_an_example_and_a_picture() -> None:
    assert statements.bare() == []
    for line in (line for each in statements.lines().values() for line in each):
        picture = statements.picture_of(statements.example_of(line))
        assert not picture or (ROOT / "docs" / "images" / picture).exists(), picture


@pytest.mark.thorough
def test_the_table_is_up_to_date() -> None:
    written = statements.PAGE.read_text(encoding="utf-8")
    assert written == statements.page(), "run python docs/statements.py"


def test_every_line_names_tests_that_exist() -> None:
    for source in (*statements.NUMBERED, "Slides: learning and privacy"):
        for line in statements.lines()[source]:
            assert line.tests, line.words
            for test in line.tests:
                assert (ROOT / test.partition("[")[0]).exists(), test


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("definitions 1 to 2, lemma 1", {("definition", "1"), ("definition", "2"), ("lemma", "1")}),
        ("theorems 5.3, 5.4", {("theorem", "5.3"), ("theorem", "5.4")}),
        ("section 5.3.1", {("section", "5.3.1")}),
        ("theorem 3.28, used there", {("theorem", "3.28")}),
        ("guess and check", set()),
    ],
)  # fmt: skip
def test_numbers_are_read(text: str, expected: set[tuple[str, str]]) -> None:
    assert statements.covered(text) == expected


def test_a_statement_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the map without the line of theorem 5.8."""
    known = statements.lines()
    known["Book, chapter 5"] = [line for line in known["Book, chapter 5"] if ("theorem", "5.8") not in line.covers]
    monkeypatch.setattr(statements, "lines", lambda: known)
    assert "Book, chapter 5, theorem 5.8" in statements.missing()
