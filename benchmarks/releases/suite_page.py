"""The page of the suite, docs/suite.md, from the recorded cases, benchmarks/results/suite.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from releases import repeated_page, scores
from releases.suite import HALVES, SUITE
from releases.suite_case import BASELINES

ROOT = Path(__file__).parents[2]
PAGE, RECORD, CHART = ROOT / "docs/suite.md", ROOT / "benchmarks/results/suite.json", ROOT / "docs/images/suite.svg"
ERRORS = ("1-way", "2-way", "3-way", "3-way cell", "rows 3-way", "average by group", "sum by group")
KEPT = ("table", "epsilon", "method", "run", *ERRORS, "cpu", "memory", "accounting", "note")
COLUMNS = ("auto", "best other of ours", *BASELINES)

INTRODUCTION = """# The suite of tables

How far releases are from the rows, on tables for which no method was tuned: real ones from Python packages, and
generated families. Every figure is read from `benchmarks/results/suite.json`; `python benchmarks/release.py --suite
--record` writes that file and this page, and a test refuses a page that is out of date.

```bash
pip install 'maquette[benchmarks]'
python benchmarks/release.py --suite                               # the development half
python benchmarks/release.py --suite --half both --record          # both halves, and this page
python benchmarks/release.py --suite --json now.json --baseline before.json
python benchmarks/release.py --train                               # what a model learns from synthetic rows
python benchmarks/release.py --intervals                           # how often intervals hold
```

Methods may be worked on with the development half in sight. The held half is run once when the work is done, and once
before it, unseen, so that there is something to compare with. The halves follow from the number of rows alone, and were
fixed before the first run; two generated tables whose failure was known are in development.

All three-way tables are asked for, at delta 1e-9, add-remove. Figures of `auto` describe the present default, accounted
as `maquette release` does, by Gaussian accounting; those of our methods by name were recorded before, most of them
under zCDP, with about 5% more noise. The error is the mean total variation of at most 300 tables, always the same.
*Independent columns* and *noisy tables* have the same epsilon and delta, under Gaussian accounting, and are told the
number of rows; *resampled rows* are drawn from the real ones with replacement, so they show what sampling alone does.
"Best other of ours" is the smallest error of our methods by name, where one other than `auto`'s own choice ran within
its limit of CPU time. A dash is a release that could not be made, or not within the limit, or was not run. Each
figure is the mean of the runs recorded, mostly one, so small differences mean little. Five runs are recorded of `auto`
and independent columns on bfi at 0.1 and 1 and on fair at 0.1: they were run again because single runs of two of these
had `auto` 3% and 5% worse.

Ranges and bins of the schemas are round numbers, chosen with the columns' extremes in sight: fair between methods, but
not how a custodian may choose them.
"""


def kept(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is recorded of each case: four digits, short notes."""
    short = [{name: case[name] for name in KEPT if name in case} for case in cases]
    return [{name: shortened(value) for name, value in case.items()} for case in short]


def shortened(value: Any) -> Any:
    """Four significant digits of a number, eighty characters of a text."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value[:80] if isinstance(value, str) else value


def recorded(path: Path = RECORD) -> list[dict[str, Any]]:
    """The recorded cases."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def with_earlier(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases, and those recorded earlier of what was not run again; each where it was in the record."""
    earlier = recorded()
    again = {_key(case) for case in cases}
    place = {key: i for i, key in enumerate(dict.fromkeys(map(_key, earlier)))}
    found = [*cases, *(one for one in earlier if _key(one) not in again)]
    return sorted(found, key=lambda case: place.get(_key(case), len(place)))


def _key(case: dict[str, Any]) -> tuple[str, float, str]:
    return case["table"], case["epsilon"], case["method"]


def write(cases: list[dict[str, Any]]) -> None:
    """Record the cases, and write the page."""
    lines = ",\n".join(json.dumps(case) for case in kept(cases))
    RECORD.write_text(f'{{"cases": [\n{lines}\n]}}\n', encoding="utf-8")
    rewrite()


def rewrite() -> None:
    """Write the page from what is recorded."""
    PAGE.write_text(page(recorded()), encoding="utf-8")


def page(cases: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, described(), "![Errors of every method on every table](images/suite.svg)\n"]
    for half in ("development", "held"):
        own = [case for case in cases if HALVES[case["table"]] == half]
        parts.append(results(half, own) if own else f"## The {half} half\n\nNot run yet.\n")
    return "\n".join([*parts, *repeated_page.parts()])


def described() -> str:
    """Every table in a line."""
    lines = []
    for source in sorted(SUITE.values(), key=lambda source: (HALVES[source.name], source.rows, source.name)):
        what = (source.read.__doc__ or "").splitlines()[0].rstrip(".")
        lines.append(f"| {source.name} | {HALVES[source.name]} | {source.rows:,} | {what} | {source.target or ''} |")
    return "\n".join(["## Tables\n", "| table | half | rows | what | target |", "|---|---|---|---|---|", *lines, ""])


def results(half: str, cases: list[dict[str, Any]]) -> str:
    """The errors of a half, and their geometric means."""
    found = scores.errors(cases)
    means = {key: scores.means(runs) for key, runs in scores.grouped(cases).items()}
    lines = [
        f"## The {half} half\n",
        f"| table | epsilon | {' | '.join(COLUMNS)} | CPU s of `auto` |",
        "|---" * 8 + "|",
    ]
    for name, epsilon in dict.fromkeys((key.table, key.epsilon) for key in means):
        values = [chosen(found, means, name, epsilon, column) for column in COLUMNS]
        cpu = means.get(scores.Key(name, epsilon, "auto"), {}).get("cpu")
        shown = ["-" if value is None else f"{value:.4f}" for value in values]
        lines.append(f"| {name} | {epsilon:g} | {' | '.join(shown)} | {'-' if cpu is None else f'{cpu:.1f}'} |")
    return "\n".join([*lines, "", summary(cases), ""])


def chosen(
    found: dict[scores.Key, float], means: dict[scores.Key, Any], name: str, epsilon: float, column: str
) -> float | None:
    """The error of a column of the table."""
    if column != "best other of ours":
        return found.get(scores.Key(name, epsilon, column))
    own = (
        key for key in found if (key.table, key.epsilon) == (name, epsilon) and key.method not in ("auto", *BASELINES)
    )
    return min((found[key] for key in own if means[key]["note"] != scores.SAME), default=None)


def summary(cases: list[dict[str, Any]]) -> str:
    """Geometric means over tables, and the ratio to `auto` on the tables where both ran."""
    lines = ["| epsilon | method | tables | geometric mean | ratio to `auto` | least ratio |", "|---" * 6 + "|"]
    for (epsilon, method), row in sorted(scores.against(cases).items()):
        numbers = " | ".join(f"{row[name]:.3f}" for name in ("mean", "ratio", "least"))
        lines.append(f"| {epsilon:g} | {method} | {row['tables']} | {numbers} |")
    return "\n".join(lines)
