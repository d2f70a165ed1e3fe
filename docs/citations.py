"""Citations of our own theory: `Mechanisms §6.4`, `Mechanisms §6.2 and §10.3`, `Mechanisms §4.1-4.3`, `erratum A6`.

A section number n.m is the anchor `mn-m` of a page in docs/theory/mechanisms/, an erratum the anchor of its code in
docs/theory/errata.md. The site links both, in pages and in docstrings; tests/theory/test_citations.py checks them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NUMBER = r"\d+(?:\.\d+)*"
SECTION = rf"§{NUMBER}(?:-{NUMBER})?"
JOINT = r"(?:,|;|,?\s+and|\s+or)\s+"
SECTIONS = re.compile(rf"\bMechanisms\s+{SECTION}(?:{JOINT}{SECTION})*")
CODE = r"[A-E]\d{1,2}"
ERRATA = re.compile(rf"\b(?:[Ee]rratum\s+{CODE}|[Ee]rrata\s+{CODE}(?:{JOINT}{CODE})*)\b")
ANCHOR = re.compile(r"^#+ .*\{#([a-z][\w-]*)\}\s*$", re.MULTILINE)

# In a page: what is not read for citations (code spans, links, tags), or one citation.
_SKIPPED = r"(?P<skipped>`[^`\n]*`|!?\[[^\]\n]*\]\([^)\n]*\)|<(?:a|autoref)\b.*?</(?:a|autoref)>)"
_CITED = rf"(?P<section>(?:\bMechanisms\s+)?{SECTION})|(?P<errata>{ERRATA.pattern})"
_INLINE = re.compile(f"{_SKIPPED}|{_CITED}", re.DOTALL)
_ONE = re.compile(rf"(?P<word>\b(?:[Ee]rratum|[Ee]rrata)\s+)?(?P<code>{CODE})\b")


def anchors(text: str) -> list[str]:
    """The anchors that a page gives its headings."""
    return ANCHOR.findall(text)


def section_anchor(number: str) -> str:
    """The anchor of a section: m6-4 for 6.4."""
    return "m" + number.replace(".", "-")


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Every section and erratum that a text cites, as written and as an anchor."""
    for match in SECTIONS.finditer(text):
        for number in re.findall(NUMBER, match[0]):
            yield f"§{number}", section_anchor(number)
    for match in ERRATA.finditer(text):
        for code in re.findall(CODE, match[0]):
            yield f"erratum {code}", code.lower()


def linked(text: str) -> str:
    """Make the citations of running text, as Markdown, references; the build refuses one that leads nowhere."""
    return _INLINE.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    if match["skipped"]:
        return match[0]
    if match["section"]:
        first, dash, last = match["section"].partition("-")
        end = dash + _reference(section_anchor(last), last) if dash else ""
        return _reference(section_anchor(first.partition("§")[2]), first) + end
    return _ONE.sub(lambda one: _reference(one["code"].lower(), one[0]), match["errata"])


def _reference(anchor: str, text: str) -> str:
    return f'<autoref identifier="{anchor}">{text}</autoref>'
