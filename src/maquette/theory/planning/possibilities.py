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

_PLOT, _HEIGHT, _LEFT, _TOP, _BOTTOM, _LEGEND = 560, 520, 96, 34, 50, 420
_WIDTH, _LINE = _PLOT + _LEGEND, 16
_DAY, _LATEST = 86_400.0, 1e12
_RUNS, _CANNOT = "#2a7f62", "#999999"
_KEYS = (
    "green: runs on one machine; grey: does not",
    "hollow: for its own queries, or expected only;",
    "the regions do not bind these",
)


class Point(NamedTuple):
    """A mechanism: the rows it needs, how long it runs, whether one machine can run it, and whether limits bind it."""

    label: str
    rows: float
    seconds: float
    runs: bool
    bound: bool


class Region(NamedTuple):
    """Where no mechanism can be: fewer rows than this; `fast`: only below a day of running time."""

    label: str
    short: str
    rows: float
    fast: bool


class _Axes:
    """Where rows and seconds are on the page; times above 10^12 s are at the upper edge."""

    def __init__(self, points: Sequence[Point], regions: Sequence[Region]) -> None:
        rows = [point.rows for point in points] + [region.rows for region in regions if region.rows > 0]
        self.low, self.high = _decades(rows or [1.0])
        times = [min(max(point.seconds, 1e-3), _LATEST) for point in points]
        self.early, self.late = _decades([*times, 1e-3, _DAY])

    def x(self, rows: float) -> float:
        share = (math.log10(max(rows, 10.0**self.low)) - self.low) / (self.high - self.low)
        return _LEFT + share * (_PLOT - _LEFT)

    def y(self, seconds: float) -> float:
        held = min(max(seconds, 10.0**self.early), 10.0**self.late)
        share = (math.log10(held) - self.early) / (self.late - self.early)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def possibilities_chart(points: Sequence[Point], regions: Sequence[Region], title: str) -> str:
    """The chart: numbered points, and their names beside it, from the slowest to the fastest."""
    shown = [point for point in points if math.isfinite(point.rows) and point.rows > 0]
    axes = _Axes(shown, regions)
    height = max(_HEIGHT, _TOP + _LINE * (len(shown) + len(_KEYS) + 2))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="{_LEFT}" y="14" fill="currentColor">{html.escape(title.partition(",")[0])}</text>',
        *_shaded(axes, regions),
        *_scales(axes),
        *_numbered(axes, sorted(shown, key=lambda each: (-min(each.seconds, _LATEST), each.rows))),
    ]
    return "".join([*parts, "</svg>"])


def _shaded(axes: _Axes, regions: Sequence[Region]) -> list[str]:
    """Every region, with its name at its right edge, read upwards; for fast mechanisms along its upper edge."""
    parts: list[str] = []
    named: list[float] = []  # edges with a name: where they are close, names start below each other
    for region in regions:
        top, edge = axes.y(_DAY) if region.fast else _TOP, axes.x(region.rows)
        parts.append(
            f'<rect class="limit" x="{_LEFT}" y="{top:.1f}" width="{max(0.0, edge - _LEFT):.1f}" '
            f'height="{_HEIGHT - _BOTTOM - top:.1f}" fill="#b5533c" fill-opacity="0.18">'
            f"<title>{html.escape(region.label)}</title></rect>"
        )
        if region.rows <= 10.0**axes.low:
            continue
        start = _TOP + 6 + 90 * sum(abs(edge - other) < 14 for other in named)
        named += [] if region.fast else [edge]
        place = (
            f'x="{edge - 4:.1f}" y="{top + 13:.1f}" text-anchor="end"'
            if region.fast
            else f'transform="translate({edge - 4:.1f} {start}) rotate(-90)" text-anchor="end"'
        )
        parts.append(f'<text {place} fill="#b5533c" font-size="10">{html.escape(region.short)}</text>')
    return parts


def _scales(axes: _Axes) -> list[str]:
    parts, below = [], _HEIGHT - _BOTTOM
    for power in range(axes.low, axes.high + 1):
        place = axes.x(10.0**power)
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{below}" stroke="#8883"/>')
        parts.append(f'<text x="{place:.1f}" y="{below + 16}" text-anchor="middle" fill="#888">10^{power}</text>')
    for power in range(axes.early, axes.late + 1, 3):
        place, words = axes.y(10.0**power), in_words(10.0**power)
        parts.append(f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end" fill="#888">{words}</text>')
    middle = (_LEFT + _PLOT) / 2
    parts.append(f'<text x="{middle}" y="{below + 36}" text-anchor="middle" fill="#888">rows needed</text>')
    return parts


def _numbered(axes: _Axes, points: Sequence[Point]) -> list[str]:
    """Points, their numbers where there is room for them, and the list of names."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = [(axes.x(point.rows), axes.y(point.seconds)) for point in points]
    for number, point in enumerate(points, start=1):
        across, up = axes.x(point.rows), axes.y(point.seconds)
        colour = _RUNS if point.runs else _CANNOT
        fill = colour if point.bound else "none"
        name = html.escape(point.label)
        mark = f'r="4" fill="{fill}" stroke="{colour}" stroke-width="1.5"'
        parts.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" {mark}><title>{name}</title></circle>')
        at = min(_AROUND, key=lambda way: _crowded((across + way[0], up + way[1]), taken))
        spot = (across + at[0], up + at[1])
        taken.append(spot)
        middle = f'x="{spot[0]:.1f}" y="{spot[1] + 4:.1f}" text-anchor="middle"'
        parts.append(f'<text {middle} font-size="10" fill="currentColor">{number}</text>')
        line = _TOP + _LINE * number
        parts.append(f'<circle cx="{_PLOT + 28}" cy="{line - 4}" {mark}/>')
        parts.append(f'<text x="{_PLOT + 40}" y="{line}" fill="currentColor">{number}. {name}</text>')
    for more, key in enumerate(_KEYS, start=2):
        line = _TOP + _LINE * (len(points) + more)
        parts.append(f'<text x="{_PLOT + 24}" y="{line}" fill="#888">{html.escape(key)}</text>')
    return parts


_AROUND = ((11, 0), (-11, 0), (0, -11), (0, 11), (10, -9), (-10, -9), (10, 9), (-10, 9), (20, 0), (-20, 0))


def _crowded(spot: tuple[float, float], taken: Sequence[tuple[float, float]]) -> float:
    """How much a number here would cover: the nearest things count most, and leaving the plot most of all."""
    outside = 1e3 if not (_LEFT < spot[0] < _PLOT + 12 and _TOP - 12 < spot[1] < _HEIGHT - _BOTTOM) else 0.0
    return outside + sum(1e3 / (25 + (spot[0] - x) ** 2 + (spot[1] - y) ** 2) for x, y in taken)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
