"""Every section and erratum that code, tests, benchmarks and pages cite is a heading of the theory."""

from __future__ import annotations

import importlib.util
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
THEORY = ROOT / "docs" / "theory"
FOLDERS = ("src", "tests", "benchmarks", "docs")
OLD = "mechanisms".upper()
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("citations", ROOT / "docs" / "citations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


citations = _load()


def pages() -> list[Path]:
    return [*sorted((THEORY / "mechanisms").glob("*.md")), THEORY / "errata.md"]


def headings() -> list[str]:
    return [anchor for page in pages() for anchor in citations.anchors(FENCE.sub("", page.read_text(encoding="utf-8")))]


def files() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".md") and "__pycache__" not in path.parts and path != Path(__file__)
    ]


def words(path: Path) -> str:
    """What a file says: all of a page, the strings and comments of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    kinds = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    said = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in said if token.type in kinds)


def unresolved(text: str, known: set[str]) -> Iterator[str]:
    """Citations of what is not there, and codes and numbers that are not written as citations."""
    yield from (f"{written} is not in the theory" for written, anchor in citations.cited(text) if anchor not in known)
    rest = citations.ERRATA.sub("", citations.SECTIONS.sub("", text))
    yield from (f"cite {bare} as Mechanisms {bare}" for bare in re.findall(citations.SECTION, rest))
    codes = re.findall(rf"\(({citations.CODE})\)", rest)
    yield from (f"cite ({code}) as erratum {code}" for code in codes if code.lower() in known)
    yield from (f"{OLD} is now written Mechanisms" for _ in re.findall(rf"\b{OLD}\b", rest))


def is_of_the_theory(path: Path) -> bool:
    """Whether a page is one of those cited, which may say §6.4 for short."""
    return path in pages()


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_citation_resolves(folder: str) -> None:
    known = set(headings())
    lost = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in files()
        if path.is_relative_to(ROOT / folder) and not is_of_the_theory(path)
        for problem in unresolved(words(path), known)
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_theory_cites_what_it_has(page: Path) -> None:
    known = set(headings())
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    numbers = re.findall(citations.NUMBER, " ".join(re.findall(citations.SECTION, text)))
    assert [number for number in numbers if citations.section_anchor(number) not in known] == []
    assert [written for written, anchor in citations.cited(text) if anchor not in known] == []
    assert OLD not in text


def test_anchors_are_unique_and_in_the_page_of_their_chapter() -> None:
    assert [anchor for anchor, times in Counter(headings()).items() if times > 1] == []
    for page in sorted((THEORY / "mechanisms").glob("[0-9]*.md")):
        chapter = f"m{int(page.name[:2])}"
        found = citations.anchors(FENCE.sub("", page.read_text(encoding="utf-8")))
        assert found[0] == chapter
        assert all(anchor.startswith(f"{chapter}-") for anchor in found[1:])


def test_headings_bear_the_numbers_of_their_anchors() -> None:
    wrong = []
    for page in pages():
        for line in FENCE.sub("", page.read_text(encoding="utf-8")).splitlines():
            anchor = citations.anchors(line)
            number = re.match(r"#+ ([A-E]?\d+(?:\.\d+)*)", line)
            if anchor and number:
                plain = number[1].lower()
                wrong += [] if anchor[0] in (plain, citations.section_anchor(plain)) else [f"{page.name}: {line}"]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mechanisms §6.4", ["m6-4"]),
        ("Mechanisms §6.2 and §10.3; Jung 2020", ["m6-2", "m10-3"]),
        ("Mechanisms §4.1-4.3, §9", ["m4-1", "m4-3", "m9"]),
        ("Mechanisms\n    §3.4.3.", ["m3-4-3"]),
        ("erratum A6, errata A10 and A11", ["a6", "a10", "a11"]),
        ("D2 / (2 v)", []),
    ],
)
def test_citations_are_read(text: str, found: list[str]) -> None:
    assert [anchor for _, anchor in citations.cited(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "Mechanisms §99.9",
        "Mechanisms §6.4, §99",
        "Mechanisms §6.4-6.99",
        "as §6.4 says",
        "erratum A99",
        "corrected (A6)",
        f"{OLD} §6.4",
    ],
)
def test_a_bad_citation_is_found(text: str) -> None:
    assert list(unresolved(text, {"m6-4", "a6"}))
    assert not list(unresolved("Mechanisms §6.4 and erratum A6", {"m6-4", "a6"}))


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("Mechanisms §6.4 says", '<autoref identifier="m6-4">Mechanisms §6.4</autoref> says'),
        (
            "§4.1-4.3",
            '<autoref identifier="m4-1">§4.1</autoref>-<autoref identifier="m4-3">4.3</autoref>',
        ),
        (
            "errata A10 and A11",
            '<autoref identifier="a10">errata A10</autoref> and <autoref identifier="a11">A11</autoref>',
        ),
        ("`Mechanisms §6.4`", "`Mechanisms §6.4`"),
        ("[erratum A6](../errata.md#a6)", "[erratum A6](../errata.md#a6)"),
    ],
)
def test_citations_become_references(text: str, links: str) -> None:
    assert citations.linked(text) == links
