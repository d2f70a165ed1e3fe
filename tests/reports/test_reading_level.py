"""The running text of a report is read by an educated layperson: measured by the grade of Flesch and Kincaid."""

from __future__ import annotations

import html
import re
from pathlib import Path

from report_checks import page, released

from maquette.reports import compare

GRADE = 10.0  # years of school; newspapers have about 11, scientific papers 15 and more


def sentences_of(page: str) -> list[str]:
    """Paragraphs and points of lists, sentence by sentence; tables, charts and hidden parts are left out."""
    shown = re.sub(r"(?s)<(script|style|table|pre|details)\b.*?</\1>", " ", page)
    blocks = re.findall(r"(?s)<(?:p|li)\b[^>]*>(.*?)</(?:p|li)>", shown)
    texts = [html.unescape(re.sub(r"<[^>]+>", " ", block)) for block in blocks]
    found = [sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)]
    return [sentence for sentence in found if re.search("[a-z]", sentence)]


def syllables(word: str) -> int:
    """Groups of vowels; an e at the end is silent."""
    silent = word.endswith("e") and not word.endswith("le")
    return max(1, len(re.findall(r"[aeiouy]+", word)) - silent)


def grade_of(page: str) -> float:
    """Flesch and Kincaid 1975: 0.39 words per sentence + 11.8 syllables per word - 15.59."""
    sentences = sentences_of(page)
    words = [word.lower() for sentence in sentences for word in re.findall(r"[A-Za-z']+", sentence)]
    return 0.39 * len(words) / len(sentences) + 11.8 * sum(map(syllables, words)) / len(words) - 15.59


def test_the_measure_tells_plain_words_from_learned_ones() -> None:
    plain = "<p>The cat sat on the mat. The dog ran home.</p>"
    learned = (
        "<p>Notwithstanding considerable methodological heterogeneity, multiplicative reweighting generalises.</p>"
    )
    assert grade_of(plain) < 2
    assert grade_of(learned) > 15


def test_a_report_and_a_comparison_read_at_a_laypersons_level(tmp_path: Path) -> None:
    both = compare(released(), released(), tmp_path / "both.html").read_text(encoding="utf-8")
    for text in (page(), both):
        assert grade_of(text) < GRADE
