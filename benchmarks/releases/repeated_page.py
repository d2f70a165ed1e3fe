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

"Measured, one column" are the counts and fractions of one column: noise is all that is unknown of them. Those of more
columns are often bounded by tables of fewer columns or of groups of levels. What these leave open makes an interval
wider than its noise, so that it holds more often than it promises: of three columns nearly always.

Nearly all answers that say nothing are averages, most of them of groups that may be empty as far as the release can
tell: no honest interval of those is narrower than the declared range. They are counted among the answers all the same.
Those of medpar were recorded on the present default; those of classes and chile before the mixture was the average of
three fits, and without bounds on averages from fewer columns (theorem 2a of
[The certified check](theory/certified-check.md)). With these bounds, over two releases of each, 0.3% of the answers of
classes and 13.1% of chile say nothing; in one release each, 4 of 6 of medpar's and 12 of 19 of chile's are of groups
that may be empty.
"""
LEARNED = """## Training on synthetic rows

`python benchmarks/release.py --train --peers --record`: the area under the curve of gradient boosting on real rows that
were held out. A release is made from the others, with `target` where that is a setting, and the boosting is trained on
ten synthetic rows for each of them. "Worst / real" is the ratio of areas; "above a coin" is the worst area minus 0.5,
over that of real rows minus 0.5. "Equal" is the same release with as many synthetic rows as there were real ones: part
of what is missing there is the noise of so few rows, which costs nothing to remove. MST is OpenDP's, of the same rows
at the same epsilon and delta; it has no target. Its releases were made one after the other in one process. OpenDP
0.16.0 refuses to run it on rwm and fair, of 12 and 9 columns: with its default settings the prices of its choices add
up, rounded, to more than what it kept for them. That equal numbers do not reach 0.8 of real on hdma was known before
ten times as many were taken; medpar and rwm were used while working on it, hdma and fair only at the end. rwm was
recorded with one fit of the mixture, the others with three.
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
        "| table | epsilon | releases | interval | share of answers | hold | half-width | say something |",
        "|---" * 8 + "|",
    ]
    for case in cases:
        start = f"| {case['table']} | {case['epsilon']:g} | {case['releases']}"
        for row in case["rows"]:
            if row["form"] == "all":
                numbers = f"{row['share']:.1%} | {row['coverage']:.2%} | {row['half-width']:.4f}"
                lines.append(f"{start} | {row['kind']} | {numbers} | {row['says something']:.1%} |")
        if alone := [row for row in case["rows"] if noise_only(row)]:
            held, half = (sum(row[name] for row in alone) / len(alone) for name in ("coverage", "half-width"))
            lines.append(f"{start} | measured, one column | | {held:.2%} | {half:.4f} | |")
        if check := case["check"]:
            together = f"{check['together']:.2%} | {check['half-width']:.4f} | |"
            lines.append(f"{start} | certified, all tables ({check['tables']:.0f}) | | {together}")
    return "\n".join(lines)


def noise_only(row: dict[str, Any]) -> bool:
    """Whether nothing but noise is unknown of the answers of a row."""
    return row["kind"] == "measured" and row["ways"] == "1" and row["form"] in ("count", "predicate")


def training(cases: list[dict[str, Any]]) -> str:
    """Every method on every table in a line."""
    if not cases:
        return ""
    names = ["table", "epsilon", "rows of", "releases", "median", "worst", "worst / real", "above a coin"]
    names += ["equal: median", "worst", "worst / real"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for case in cases:
        price = "-" if case["method"] == "real" else f"{case['epsilon']:g}"
        numbers = " | ".join(f"{case[name]:.3f}" for name in ("median", "worst", "ratio", "above"))
        few = case.get("equal", {})
        equal = " | ".join(f"{few[name]:.3f}" if name in few else "-" for name in ("median", "worst", "ratio"))
        lines.append(f"| {case['table']} | {price} | {case['method']} | {case['runs']} | {numbers} | {equal} |")
    return "\n".join(lines)


def _shortened(value: Any) -> Any:
    """Four significant digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items()}
    return [_shortened(each) for each in value] if isinstance(value, list) else value
