"""The architecture page says what is: its tree is the tree, its walks are those of the code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "maquette"
sys.path.insert(0, str(ROOT / "docs"))

import walks  # noqa: E402

SLACK = 2  # files: a rare draw of the sampler takes a branch of its own


def test_the_tree_of_the_page_is_the_tree() -> None:
    drawn = re.findall(r"^( +)(\w+)/ ", PAGE[PAGE.index("src/maquette/\n") :].partition("```")[0], re.MULTILINE)
    above, shown = list[str](), set()
    for indent, name in drawn:
        above = [*above[: len(indent) // 2 - 1], name]
        shown.add("/".join(above))
    rooms = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")} - {"."}
    assert shown == rooms


def test_walks_pass_as_many_files_as_the_page_says() -> None:
    known = json.loads((ROOT / "docs" / "walks.json").read_text(encoding="utf-8"))
    for name, figures in walks.figures(walks.walks()).items():
        assert figures["stations"] <= known[name]["stations"] + SLACK, f"{name}: run `python docs/walks.py`"
        assert figures["files"] <= known[name]["files"] + SLACK, f"{name}: run `python docs/walks.py`"
    assert known["ask"]["stations"] <= 25


def test_every_walk_enters_the_wall() -> None:
    for name in ("count", "release", "ask"):
        assert 'class="wall"' in (ROOT / "docs" / "images" / f"walk-{name}.svg").read_text(encoding="utf-8")
