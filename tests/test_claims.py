"""Every file, function, test and mutant that the page of claims and the proof pages name exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
THEORY = ROOT / "docs" / "theory"
PAGES = (
    "claims.md",
    "attacks.md",
    "concurrent-composition.md",
    "gaussian-accounting.md",
    "lottery-cap.md",
    "certified-check.md",
    "combined.md",
    "drawn-bins.md",
    "lazy-rounds.md",
    "survivors.md",
)
FILE = r"(?:src|tests|benchmarks|docs)/[\w./-]+\.(?:py|md|txt|c)"
REFERENCE = re.compile(rf"`({FILE})(?:::([\w.]+)|\[([^\]`]+)\])?`")


def references(page: str) -> list[tuple[str, str, str]]:
    return REFERENCE.findall((THEORY / page).read_text(encoding="utf-8"))


@functools.cache
def names(path: str) -> frozenset[str]:
    """Everything a file defines: functions, classes and their methods as Class.method, and assigned names."""
    found: set[str] = set()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + t.id for t in targets if isinstance(t, ast.Name))

    visit(tree.body, "")
    return frozenset(found)


@functools.cache
def mutants(path: str) -> frozenset[str]:
    """The keys of a file's table of mutants."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and target.id == "MUTANTS"
            and isinstance(getattr(node, "value", None), ast.Dict)
        ):
            keys = node.value.keys  # type: ignore[attr-defined]
            return frozenset(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    return frozenset()


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("page", PAGES)
def test_every_reference_of_a_page_resolves(page: str) -> None:
    missing = []
    for path, name, mutant in references(page):
        if not (ROOT / path).is_file():
            missing.append(path)
        elif name and name not in names(path):
            missing.append(f"{path}::{name}")
        elif mutant and mutant not in mutants(path):
            missing.append(f"{path}[{mutant}]")
    assert not missing, f"{page} names what is not there: {', '.join(dict.fromkeys(missing))}"


def test_every_door_has_its_row_its_gate_and_its_mutants() -> None:
    text = (THEORY / "claims.md").read_text(encoding="utf-8")
    for door in (
        "measure",
        "measure_error",
        "select_worst",
        "select_best",
        "guard",
        "lazy_guard",
        "lottery",
        "count_rows",
    ):
        assert re.search(rf"^\| [^|]*`{door}`", text, re.MULTILINE), f"no row for the door {door}"
    assert len(references("claims.md")) > 120
    named = {mutant for path, _, mutant in references("claims.md") if path == "tests/doors/test_mutants.py" and mutant}
    assert named >= mutants("tests/doors/test_mutants.py"), "a mutant of the doors is not on the page"


def test_a_wrong_reference_is_seen() -> None:
    assert "Curator.measure_many" in names("src/maquette/curator/curator.py")
    assert "Curator.measure_few" not in names("src/maquette/curator/curator.py")
    assert "half the noise" in mutants("tests/doors/test_mutants.py")
    assert "half the truth" not in mutants("tests/doors/test_mutants.py")


def test_every_public_door_of_the_curator_is_on_the_page() -> None:
    text = (THEORY / "claims.md").read_text(encoding="utf-8")
    harmless = {
        "ledger",
        "spent",
        "remaining",
        "cost_of",
        "recall",
        "account",
        "close",
    }  # read nothing but the ledger
    defined = {name.removeprefix("Curator.") for name in names("src/maquette/curator/curator.py")}
    doors = {name for name in defined if name.isidentifier() and name[0].islower()} - harmless
    absent = sorted(door for door in doors if f"`{door}`" not in text)
    assert not absent, f"doors without a claim: {', '.join(absent)}"
