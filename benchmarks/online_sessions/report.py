"""Tables and a chart of what the runs showed."""

from __future__ import annotations

import html
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from online_sessions.strategies import POINTS, Outcome

SHOWN = (1_000, 10_000, 100_000)
OURS = ("ours unguarded", "ours", "ours together")
COLOURS = ("#2a7f62", "#7fc9a8", "#c0504d", "#e0a030", "#4f81bd", "#8064a2", "#777777", "#b0b0b0")

Runs = dict[str, list[Outcome]]  # by strategy, one for each seed


def grouped(outcomes: Iterable[Outcome]) -> dict[tuple[str, float, float], Runs]:
    """By workload, Zipf exponent and alpha, then by strategy."""
    groups: dict[tuple[str, float, float], Runs] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        case = outcome.case
        groups[case.workload, case.zipf, case.alpha][case.strategy].append(outcome)
    return {key: dict(runs) for key, runs in groups.items()}


def costs(console: Console, key: tuple[str, float, float], runs: Runs) -> None:
    """What each strategy had cost after so many asks: medians over seeds."""
    workload, zipf, alpha = key
    some = next(iter(runs.values()))
    shown = [point for point in SHOWN if point <= max(o.case.asks for seeds in runs.values() for o in seeds)]
    unit = some[0].unit
    title = (
        f"{workload}, Zipf({zipf:g}), alpha {alpha:g}: {len(some)} seeds, "
        f"{np.median([o.distinct for o in some]):,.0f} distinct questions in {some[0].case.asks:,} asks"
    )
    headings = [f"{unit} at {point:,}" for point in shown]
    table = Table("strategy", *headings, "epsilon", "missed", "outside", "routes", title=title)
    for name, seeds in _ordered(runs):
        if not len(seeds[0].units):
            table.add_row(name, *["" for _ in shown], "", "", "", seeds[0].note)
            continue
        cells = [f"{_median(seeds, point):,.4g}" if point <= seeds[0].case.asks else "" for point in shown]
        epsilon = np.median([o.epsilon[-1] for o in seeds])
        table.add_row(name, *cells, f"{epsilon:.3g}", _rate(seeds, "missed"), _rate(seeds, "outside"), _routes(seeds))
    console.print(table)
    for ours in OURS:
        if ours in runs:
            reached = [point for point in shown if point <= runs[ours][0].case.asks]
            console.print(f"  {ours} / best other, by seed: " + _ratios(runs, ours, reached))


def _ordered(runs: Runs) -> list[tuple[str, list[Outcome]]]:
    """Strategies as they come, the peer's settings reduced to their best and worst."""
    peers = [name for name in runs if name.startswith("peer")]
    ranked = sorted(peers, key=lambda name: _median(runs[name], runs[name][0].case.asks))
    kept = {name: name for name in runs if name not in peers}
    if ranked:
        kept[ranked[0]] = f"{ranked[0]} (best of {len(ranked)})"
        kept[ranked[-1]] = f"{ranked[-1]} (worst)" if len(ranked) > 1 else kept[ranked[0]]
    order = [name for name in runs if name in kept and name not in OURS] + [name for name in OURS if name in kept]
    return [(kept[name], runs[name]) for name in order]


def _ratios(runs: Runs, ours: str, shown: Sequence[int]) -> str:
    parts = []
    for point in shown:
        place = POINTS.index(point)
        ratios, winners = [], Counter[str]()
        for outcome in runs[ours]:
            others = {
                name: o.units[place]
                for name, seeds in runs.items()
                for o in seeds
                if name not in OURS and o.case.seed == outcome.case.seed and len(o.units)
            }
            best = min(others, key=lambda name: others[name])
            winners[best] += 1
            ratios.append(outcome.units[place] / others[best])
        named = ", ".join(winners)
        parts.append(f"{point:,}: median {np.median(ratios):.2f}, most {max(ratios):.2f} (of {named})")
    return "; ".join(parts)


def _median(seeds: list[Outcome], point: int) -> float:
    place = max(i for i, p in enumerate(POINTS) if p <= point)
    return float(np.median([o.units[min(place, len(o.units) - 1)] for o in seeds])) if len(seeds[0].units) else math.inf


def _rate(seeds: list[Outcome], what: str) -> str:
    """A share of answers, and the largest over seeds."""
    total = sum(o.answered if what == "missed" else o.intervals for o in seeds)
    if not total:
        return "priced" if seeds[0].note == "priced" else ""
    share = sum(getattr(o, what) for o in seeds) / total
    worst = max(getattr(o, what) / max(1, o.answered) for o in seeds)
    return f"{share:.1e} (most {worst:.1e})" if share else f"0 of {total:,}"


def _routes(seeds: list[Outcome]) -> str:
    if seeds[0].note:
        return seeds[0].note
    routes: Counter[str] = sum((o.routes for o in seeds), Counter())
    return ", ".join(f"{route} {count / routes.total():.1%}" for route, count in routes.most_common())


Ratio = tuple[str, bool, bool, float, str, str]  # stream, together, rows given, price, best that knows, and not
KNOWS = (
    'A "cache" that knows the stream knows how many numbers will be asked (each at 1e-3 it need not); "tables" knows '
    'which tables; "square root" which columns, and that nothing but ranges will come. Those that do not know give '
    "their j-th measurement 6 / (pi j)^2 of the doubt; the square root still knows that nothing but ranges will come."
)


def ratios(console: Console, found: Sequence[Ratio]) -> None:
    """Every price beside the best simple strategy: ratio, name and price of that strategy."""
    table = Table(
        "stream", "promise", "rows", "u", "best that knows", "best that does not", title="ratio to simple strategies"
    )
    for name, together, given, price, known, unaware in found:
        facts = "together" if together else "each", "given" if given else "bought"
        table.add_row(name, *facts, f"{price:,.3g}", known, unaware)
    console.print(table)
    console.print(KNOWS)


def times(console: Console, outcomes: list[Outcome]) -> None:
    """Answers per second of every strategy and route, with as many processes as the runs had."""
    table = Table("strategy", "CPU s", "route", "answers", "per second", title="speed in these runs, ledger in memory")
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_name["peer" if outcome.case.strategy.startswith("peer") else outcome.case.strategy].append(outcome)
    for name, runs in by_name.items():
        routes: Counter[str] = sum((o.routes for o in runs), Counter())
        first = (name, f"{sum(o.cpu for o in runs):,.0f}")
        for i, (route, count) in enumerate(routes.items()):
            seconds = sum(o.seconds.get(route, 0.0) for o in runs)
            table.add_row(*(("", "") if i else first), route, f"{count:,}", f"{count / seconds:,.0f}")
    console.print(table)


def chart(path: Path, groups: dict[tuple[str, float, float], Runs]) -> None:
    """Cumulative cost over asks, both logarithmic, one panel for each group: an SVG file without dependencies."""
    width, height, columns = 430, 330, 2
    panels = [_panel(key, runs, width, height) for key, runs in groups.items()]
    down = math.ceil(len(panels) / columns)
    placed = [
        f'<g transform="translate({i % columns * width},{i // columns * height})">{panel}</g>'
        for i, panel in enumerate(panels)
    ]
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * width}" height="{down * height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(placed)}</svg>",
        encoding="utf-8",
    )


def _panel(key: tuple[str, float, float], runs: Runs, width: int, height: int) -> str:
    left, right, top, bottom = 52, 12, 40, 96
    lines = [(name, seeds) for name, seeds in _ordered(runs) if len(seeds[0].units)]
    lines = [(name, seeds) for name, seeds in lines if _median(seeds, SHOWN[-1]) < 1e6]
    asks = lines[0][1][0].case.asks
    values = [np.median([o.units for o in seeds], axis=0) for _, seeds in lines]
    low = math.floor(math.log10(min(float(v[v > 0].min()) for v in values)))
    high = math.ceil(math.log10(max(float(v.max()) for v in values)))

    def x(ask: float) -> float:
        return left + (width - left - right) * math.log10(ask) / math.log10(asks)

    def y(cost: float) -> float:
        share = (math.log10(max(cost, 10.0**low)) - low) / max(1, high - low)
        return height - bottom - (height - top - bottom) * share

    parts = [f'<text x="{left}" y="18" font-weight="bold">{html.escape(f"{key[0]}, Zipf({key[1]:g})")}</text>']
    parts.append(f'<text x="{left}" y="32" fill="#666">cost in {lines[0][1][0].unit}, alpha {key[2]:g}</text>')
    for power in range(low, high + 1):
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y(10.0**power)}" y2="{y(10.0**power)}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{left - 5}" y="{y(10.0**power) + 4}" text-anchor="end">1e{power}</text>')
    parts += [
        f'<text x="{x(10.0**power)}" y="{height - bottom + 14}" text-anchor="middle">1e{power}</text>'
        for power in range(int(math.log10(asks)) + 1)
    ]
    for i, ((name, _), value) in enumerate(zip(lines, values, strict=True)):
        colour = COLOURS[i % len(COLOURS)] if name not in OURS else ("#aaaaaa", "#000000", "#555555")[OURS.index(name)]
        points = " ".join(f"{x(ask):.1f},{y(float(v)):.1f}" for ask, v in zip(POINTS, value, strict=False))
        thick = 2.5 if name in OURS else 1.5
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
        place = f'x="{left + i % 2 * 190}" y="{height - bottom + 32 + i // 2 * 14}"'
        parts.append(f'<text {place} fill="{colour}">{html.escape(name)}</text>')
    return "".join(parts)
