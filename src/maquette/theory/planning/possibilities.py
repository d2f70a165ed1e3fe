"""The map of what is possible: running time against the rows that a target error needs, as SVG text.

Every mechanism is a point: to the left it needs fewer rows, below it takes less time. Lower bounds are regions where
there can be none: left of a line for every mechanism, left and below for fast ones. After the chart of Ullman's slides.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from maquette.theory.planning.times import in_words

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _RIGHT = 820, 460, 90, 30, 44, 24
_DAY = 86_400.0


class Point(NamedTuple):
    """A mechanism: the rows it needs, how long it runs, and whether it can run on one machine."""

    label: str
    rows: float
    seconds: float
    runs: bool


class Region(NamedTuple):
    """Where no mechanism can be: fewer rows than this; `fast`: only below a day of running time."""

    label: str
    rows: float
    fast: bool


def possibilities_chart(points: Sequence[Point], regions: Sequence[Region], title: str) -> str:
    """The chart; times above 10^12 s are drawn at its upper edge."""
    shown = [point for point in points if math.isfinite(point.rows) and point.rows > 0]
    rows = [point.rows for point in shown] + [region.rows for region in regions if region.rows > 0]
    low, high = _decades(rows or [1.0])
    times = [min(max(point.seconds, 1e-3), 1e12) for point in shown]
    early, late = _decades([*times, 1e-3, _DAY])

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(seconds: float) -> float:
        share = (math.log10(min(max(seconds, 10.0**early), 10.0**late)) - early) / (late - early)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="11">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="{_LEFT}" y="14" fill="currentColor">{html.escape(title.partition(",")[0])}</text>',
    ]
    for region in regions:
        top = y(_DAY) if region.fast else _TOP
        parts.append(
            f'<rect class="limit" x="{_LEFT}" y="{top:.1f}" width="{max(0.0, x(region.rows) - _LEFT):.1f}" '
            f'height="{_HEIGHT - _BOTTOM - top:.1f}" fill="#b5533c" fill-opacity="0.18">'
            f"<title>{html.escape(region.label)}</title></rect>"
        )
    for power in range(low, high + 1):
        place = x(10.0**power)
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#8883"/>')
        label = f"10^{power}"
        parts.append(f'<text x="{place:.1f}" y="{_HEIGHT - 28}" text-anchor="middle" fill="#888">{label}</text>')
    for power in range(early, late + 1, 3):
        place = y(10.0**power)
        parts.append(
            f'<text x="{_LEFT - 6}" y="{place:.1f}" text-anchor="end" fill="#888">{in_words(10.0**power)}</text>'
        )
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle" fill="#888">rows needed</text>')
    lowest = 0.0  # labels follow each other downwards, so that none covers another
    for point in sorted(shown, key=lambda each: (-each.seconds, each.rows)):
        across, up = x(point.rows), y(point.seconds)
        lowest = max(up + 4, lowest + 12)
        colour = "#2a7f62" if point.runs else "#999999"
        end = ' text-anchor="end"' if across > _WIDTH * 0.7 else ""
        shift = -7 if end else 7
        parts.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="4" fill="{colour}"/>')
        spot = f'x="{across + shift:.1f}" y="{lowest:.1f}"'
        parts.append(f'<text {spot} fill="currentColor"{end}>{html.escape(point.label)}</text>')
    return "".join([*parts, "</svg>"])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
