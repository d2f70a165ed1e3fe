"""What repeated releases show, for docs/suite.md: how often intervals hold, and what a model learns from rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
INTERVALS, TRAINING = RESULTS / "intervals.json", RESULTS / "training.json"
KEY = ("table", "epsilon", "method")

HOLD = """## Intervals

`python benchmarks/release.py --intervals --record`: repeated releases by `auto`, and to each the same random questions
of one to three columns: as a predicate, as SQL's count, as SQL's average. Half-widths are medians, as fractions of rows
or of the declared range of an average. An interval says something if it is narrower than nine tenths of that. A
certified interval is one of a question; "all tables" is how often the distances of all tables of the check hold
together, as it promises at 95%. medpar and chile are in development, classes is in neither half.

Nearly all answers that say nothing are averages. "May be empty" are those of groups of which the release cannot tell,
within its noise, that they have a row with a value: no honest interval of them is narrower. They are counted among the
answers all the same. An interval that begins at 0 rows can miss on one side only, and one of an average of bins reaches from the
lower ends of the bins to the upper ones, with the exact average of their middles inside; so "hold above 0" is the share
that holds of the others: counts and fractions whose interval begins above 0 rows, and averages. A dash was not recorded.
"""
LEARNED = """## Training on synthetic rows

`python benchmarks/release.py --train --record`: the area under the curve of gradient boosting on real rows that were
held out, trained on as many synthetic rows as there were others, with `target`. "Above a coin" is the worst area minus
0.5, over that of real rows minus 0.5. Nothing was chosen by these figures.
"""


def record(path: Path, cases: list[dict[str, Any]]) -> None:
    """Keep the cases, four digits each, and those recorded earlier of what was not run again."""
    fresh = {tuple(case[name] for name in KEY) for case in cases}
    kept = [case for case in recorded(path) if tuple(case[name] for name in KEY) not in fresh]
    lines = ",\n".join(json.dumps(_shortened(case)) for case in [*kept, *cases])
    path.write_text(f'{{"cases": [\n{lines}\n]}}\n', encoding="utf-8")


def recorded(path: Path) -> list[dict[str, Any]]:
    """The recorded cases; none before the first run."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []
    return found


def parts() -> list[str]:
    """The parts of the page of which something is recorded."""
    made = ((HOLD, intervals(recorded(INTERVALS))), (LEARNED, training(recorded(TRAINING))))
    return [f"{told}\n{lines}\n" for told, lines in made if lines]


def intervals(cases: list[dict[str, Any]]) -> str:
    """Every kind of interval of every table in a line; and its check."""
    if not cases:
        return ""
    lines = [
        "| table | epsilon | releases | interval | share of answers | hold | hold above 0 (share) | half-width "
        "| say something | may be empty |",
        "|---" * 10 + "|",
    ]
    for case in cases:
        start = f"| {case['table']} | {case['epsilon']:g} | {case['releases']}"
        for row in case["rows"]:
            if row["form"] == "all":
                inner = f"{row['inner']:.2%} ({row['inner share']:.1%})" if "inner" in row else "-"
                numbers = f"{row['share']:.1%} | {row['coverage']:.2%} | {inner} | {row['half-width']:.4f}"
                few = f"{row['few']:.1%}" if "few" in row else "-"
                lines.append(f"{start} | {row['kind']} | {numbers} | {row['says something']:.1%} | {few} |")
        if check := case["check"]:
            held = f"{check['together']:.2%} | | {check['half-width']:.4f} | | |"
            lines.append(f"{start} | certified, all tables ({check['tables']:.0f}) | | {held}")
    return "\n".join(lines)


def training(cases: list[dict[str, Any]]) -> str:
    """Every method on every table in a line."""
    if not cases:
        return ""
    names = ("table", "epsilon", "rows of", "releases", "median", "worst", "worst / real", "above a coin")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for case in cases:
        price = "-" if case["method"] == "real" else f"{case['epsilon']:g}"
        numbers = " | ".join(f"{case[name]:.3f}" for name in ("median", "worst", "ratio", "above"))
        lines.append(f"| {case['table']} | {price} | {case['method']} | {case['runs']} | {numbers} |")
    return "\n".join(lines)


def _shortened(value: Any) -> Any:
    """Four significant digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items()}
    return [_shortened(each) for each in value] if isinstance(value, list) else value
