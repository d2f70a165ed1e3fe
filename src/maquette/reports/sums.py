"""Averages and sums of values that a release bought, under the picture of their column."""

from __future__ import annotations

from maquette.reports.subject import Subject
from maquette.schema import identifier


def bought_sums(subject: Subject, name: str) -> str:
    """The average and the sum of a column with their intervals; nothing if they were not bought."""
    release = subject.release
    if release is None or not any(table.column == name and table.by is None for table in release.sums):
        return ""
    said = []
    for word, function in (("Average", "avg"), ("sum", "sum")):
        asked = f"SELECT {function}({identifier(name)}) FROM t"
        answer = release.answer(asked, confidence=subject.confidence)
        said.append(f"{word} {_round(answer.value)} ({_round(answer.low)} to {_round(answer.high)})")
    return f'<p class="soft">{"; ".join(said)}. Measured from the values themselves.</p>'


def _round(number: float) -> str:
    """Four digits that say something, and separators."""
    return f"{float(f'{number:.4g}'):,.15g}"
