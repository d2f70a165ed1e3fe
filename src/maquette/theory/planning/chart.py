"""A small bar chart of errors as SVG text: no dependency, readable on light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

_LABELS, _BARS, _NOTES, _LINE, _TOP = 300, 300, 190, 22, 24
_COLOURS = {"best": "#2a7f62", "plain": "#7fa8c9", "pale": "#c9c9c9"}


class Bar(NamedTuple):
    """One line: its label, a positive value (infinite: no bar), the text beside the bar, and how it stands out."""

    label: str
    value: float
    note: str
    tone: Literal["best", "plain", "pale"]


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars on a logarithmic axis that ends at 1; what exceeds 1 is drawn at full length."""
    least = min((bar.value for bar in bars if bar.value > 0), default=1.0)
    decades = max(1, math.ceil(-math.log10(min(least, 0.5)) + 0.1))
    width, height = _LABELS + _BARS + _NOTES, _TOP + _LINE * len(bars) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>{html.escape(title)}</title>",
    ]
    for power in range(decades + 1):
        x = _LABELS + _BARS * power / decades
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height}" stroke="#8884"/>')
        parts.append(f'<text x="{x:.1f}" y="12" text-anchor="middle" fill="#888">{10.0 ** (power - decades):g}</text>')
    for i, bar in enumerate(bars):
        parts += _lines(bar, _TOP + _LINE * i, decades)
    return "".join([*parts, "</svg>"])


def _lines(bar: Bar, y: int, decades: int) -> list[str]:
    position = 1 + math.log10(min(bar.value, 1.0)) / decades if bar.value > 0 else 0.0
    length = 0.0 if math.isinf(bar.value) else max(1.0, _BARS * position)
    colour, weight = _COLOURS[bar.tone], ' font-weight="bold"' if bar.tone == "best" else ""
    text = f'y="{y + 13}" fill="currentColor"{weight}'
    return [
        f'<text x="{_LABELS - 8}" text-anchor="end" {text}>{html.escape(bar.label)}</text>',
        f'<rect x="{_LABELS}" y="{y + 2}" width="{length:.1f}" height="{_LINE - 8}" rx="2" fill="{colour}"/>',
        f'<text x="{_LABELS + length + 6:.1f}" {text}>{html.escape(bar.note)}</text>',
    ]
