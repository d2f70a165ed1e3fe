"""Write docs/theory/statements.md: every numbered statement of the sources, with code, test, page and picture.

`python docs/statements.py` writes it; `tests/theory/test_statement_table.py` fails if it is out of date, if a statement
of a source is not on the map, has no example or no picture, or if the map names a test that does not exist.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
PAGE = DOCS / "theory" / "statements.md"

# Every numbered definition, theorem, algorithm, remark and exercise of a source, as its text numbers them.
NUMBERED: dict[str, dict[str, list[str]]] = {
    "Book, chapter 5": {
        "definition": [f"5.{i}" for i in range(1, 8)],
        "proposition": ["5.1", "5.2", "5.16"],
        "theorem": [*(f"5.{i}" for i in range(3, 16)), "3.20", "3.28"],
        "algorithm": [str(i) for i in range(7, 12)],
        "remark": ["5.1", "5.2"],
        "section": ["5.1", "5.2", "5.3.1", "5.3.2"],
    },
    "Lecture on adaptivity": {
        "definition": ["1", "3", "4"],
        "claim": ["1", "3", "6"],
        "observation": ["2"],
        "theorem": ["2", "4", "5", "7", "8"],
        "exercise": ["1", "2", "3"],
    },
    "Lecture on many queries": {
        "definition": ["1"],
        "lemma": ["3", "6"],
        "corollary": ["7"],
        "theorem": ["2", "4", "5", "8", "9"],
        "algorithm": ["1", "2"],
    },
    "Lecture 8": {
        "definition": ["1", "2", "3", "8"],
        "theorem": ["4", "5", "6", "7", "9", "10", "11"],
        "algorithm": ["1", "2"],
    },
}
# The picture of an example page that has none of its own.
PICTURES = {
    "concurrent-composition": "composition.svg",
    "exercises": "selection.svg",
    "online-textbook": "sparse-vector.svg",
    "small-nets": "small-db.svg",
    "gaussian-accounting": "composition.svg",
}
KINDS = "definition|proposition|theorem|algorithm|remark|section|claim|observation|exercise|lemma|corollary"


class Line(NamedTuple):
    """One line of the map: what it covers, and the code and tests it names."""

    covers: frozenset[tuple[str, str]]
    words: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


def covered(text: str) -> frozenset[tuple[str, str]]:
    """The statements that a cell such as "definitions 1 to 3, algorithm 1" names."""
    found: set[tuple[str, str]] = set()
    for kind, numbers in re.findall(rf"({KINDS})s? ((?:[\d.]+(?: to |, | and )?)+)", text):
        for first, last in re.findall(r"([\d.]*\d)(?: to ([\d.]*\d))?", numbers):
            head, _, start = first.rpartition(".")
            end = (last or first).rpartition(".")[2]
            prefix = f"{head}." if head else ""
            found |= {(kind, f"{prefix}{i}") for i in range(int(start), int(end) + 1)}
    return frozenset(found)


def lines() -> dict[str, list[Line]]:
    """The lines of the map by source."""
    text = (DOCS / "theory" / "map.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    found: dict[str, list[Line]] = {}
    for title, body in sections:
        rows = [row.strip().strip("|").split(" | ") for row in body.splitlines() if row.startswith("| ")]
        found[title] = [
            Line(covered(row[0]), row[0].strip(), *(tuple(re.findall(r"`([^`]+)`", cell)) for cell in row[-2:]))
            for row in rows
            if len(row) >= 3 and row[0].strip() not in ("statement", "what", "topic")
        ]
    return found


def example_of(line: Line) -> str:
    """The page that the line links to; else the first, explaining pages first, whose snippets call its code."""
    linked = re.search(r"\]\(([\w-]+\.md)\)", line.words)
    if linked:
        return f"theory/{linked[1]}"
    code = line.code

    def order(page: Path) -> tuple[bool, bool, Path]:
        parts = page.relative_to(DOCS).parts
        return "mechanisms" in parts, "theory" not in parts, page

    pages = sorted(DOCS.rglob("*.md"), key=order)
    for name in (each.rpartition(".")[2] for each in code):
        for page in pages:
            if page.name in ("map.md", "statements.md", "errata.md", "claims.md", "index.md"):
                continue
            snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
            if any(re.search(rf"\b{re.escape(name)}\b", snippet) for snippet in snippets):
                return str(page.relative_to(DOCS))
    return ""


def picture_of(example: str) -> str:
    """The first picture of a page, or the one that stands for it; empty if there is none."""
    if not example:
        return ""
    found = re.search(r"!\[[^]]*\]\((?:\.\./)*images/([\w.-]+)\)", (DOCS / example).read_text(encoding="utf-8"))
    return found[1] if found else PICTURES.get(Path(example).stem, "")


def bare() -> list[str]:
    """Lines of statements without an example, or without a picture."""
    known = lines()
    used = [line for source in NUMBERED for line in known[source] if line.covers] + known[
        "Slides: learning and privacy"
    ]
    return [line.words for line in used if not picture_of(example_of(line))]


def missing() -> list[str]:
    """Statements of the sources that no line of the map covers."""
    known = lines()
    return [
        f"{source}, {kind} {number}"
        for source, kinds in NUMBERED.items()
        for kind, numbers in kinds.items()
        for number in numbers
        if not any((kind, number) in line.covers for line in known[source])
    ]


def page() -> str:
    """The table as a page."""
    parts = [
        "# Table of all statements",
        "",
        "Every numbered statement of the sources, with the code that holds it, the test that holds the code to it, the",
        "first page whose snippets call it, and a picture. Written by `docs/statements.py` from [the map](map.md); a",
        "test fails if it is out of date, or if a statement has no example or no picture.",
    ]
    known = lines()
    for source, kinds in NUMBERED.items():
        parts += ["", f"## {source}", "", "| statement | code | test | example | picture |", "|---|---|---|---|---|"]
        for kind, numbers in kinds.items():
            for number in numbers:
                line = next(each for each in known[source] if (kind, number) in each.covers)
                parts.append(_row(f"{kind} {number}", line))
    parts += ["", "## Slides", "", "| topic | code | test | example | picture |", "|---|---|---|---|---|"]
    parts += [_row(line.words, line) for line in known["Slides: learning and privacy"]]
    return "\n".join(parts) + "\n"


def _row(name: str, line: Line) -> str:
    code = ", ".join(f"`{each}`" for each in line.code) or "a page"
    tests = ", ".join(f"`{each}`" for each in line.tests)
    shown = example_of(line)
    link = f"[{Path(shown).stem}]({_relative(shown)})" if shown else "-"
    picture = picture_of(shown)
    seen = f"[{Path(picture).stem}](../images/{picture})" if picture else "-"
    words = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", name)
    return f"| {words} | {code} | {tests} | {link} | {seen} |"


def _relative(shown: str) -> str:
    return shown.removeprefix("theory/") if shown.startswith("theory/") else f"../{shown}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
