"""Documents run: README and the documentation pages, snippet after snippet, and every docstring example."""

from __future__ import annotations

import doctest
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import maquette
from maquette.schema import kinds

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def _one_audit() -> Iterator[None]:
    """A page and a docstring show the same audit: it runs for the first of them."""
    from maquette import audit as room
    from maquette.audit import run

    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(run.audit)
        patch.setattr(room, "audit", once)  # first: a room takes a name from its module when it is first used
        patch.setattr(run, "audit", once)
        yield


@pytest.mark.thorough(fast=9)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kinds, "_KINDS", {kind.kind: kind for kind in kinds.BUILT_IN})  # a page registers its own
    names: dict[str, object] = {"__name__": "__page__"}
    for snippet in SNIPPET.findall(page.read_text(encoding="utf-8")):
        exec(compile(snippet, str(page), "exec", dont_inherit=True), names)


def _modules() -> list[str]:
    found = [m.name for m in pkgutil.walk_packages(maquette.__path__, "maquette.")]
    return ["maquette", *found]


def _cases() -> list[Any]:
    """The example of the audit runs one: it takes long."""
    slow = "maquette.audit.run"
    return [pytest.param(name, marks=pytest.mark.thorough) if name == slow else name for name in _modules()]


@pytest.mark.thorough(fast=7)
@pytest.mark.parametrize("name", _cases())
def test_docstring_examples_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_readme_says_how_to_test() -> None:
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
