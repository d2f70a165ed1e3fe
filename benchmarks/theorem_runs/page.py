"""The page docs/theory/promises.md, from the recorded figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theorem_runs.comparisons import COMPARISONS, DEFAULT, winners
from theorem_runs.judge import DOUBT, SURE, judged, power
from theorem_runs.toys import BETA, TOYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory" / "promises.md"

MISSING = "not recorded yet"

HEAD = """# Promises, run a thousand times

A theorem says that an error is at most alpha, but for a probability beta. Here whole mechanisms run again and again on
small public tables, through the same doors, charges and secret noise as ever, and failures are counted. Every figure is
read from `benchmarks/results/theorems.json`; `python benchmarks/theorems.py` makes them and writes this page, and a
test refuses a page that is out of date. `tests/theory/test_promises_run.py` runs a small part of it in the suite.

## How often they fail
"""

FAILURES = """
*At most* is the upper end of the exact interval (Clopper and Pearson) for the probability of a failure, at one in
{doubt:,.0f}. *Median* and *largest* are the error divided by what was promised. *Noticed* is the sabotage that the same
test, with 50 runs, finds: noise so many times as large as the doors believe, or a broken part. With {runs:,} runs at
beta {beta:g}, a mechanism that fails with probability {power:g} would be refused with probability {sure:g}; one that
keeps its promise is refused once in {doubt:,.0f}.

| mechanism | statement | table | runs | failures | at most | median | largest | noticed |
|---|---|---|---|---|---|---|---|---|
"""

READING = """
Promises are kept, most with room to spare: union bounds and worst cases leave errors at a fraction of what they allow,
so that noise must be many times too large before a promise breaks. That is why audits of privacy and of noise look at
laws and not at promises ([every claim of privacy](claims.md)). In the toy of boosting any promise would be false, and
none was ever made.

## Beside the default release {#beside-the-default}

The same table and the same price for each method, and the mean over runs with its standard error. A method *beats* the
default where its mean is smaller by more than two standard errors of the difference.
"""


def page(figures: Mapping[str, Any]) -> str:
    """The page as text."""
    toys, compared = figures.get("toys", {}), figures.get("comparisons", {})
    runs = min((each["runs"] for each in toys.values()), default=1)
    facts = {"doubt": 1 / DOUBT, "runs": runs, "beta": BETA, "power": power(runs, BETA), "sure": SURE}
    lines = [HEAD, FAILURES.strip("\n").format(**facts)]
    lines += [_line(name, toys.get(name)) for name in TOYS]
    lines.append(READING.rstrip("\n"))
    for name, each in COMPARISONS.items():
        told = (
            _compared(each.title, each.error, compared[name])
            if name in compared
            else [f"### {each.title}", "", MISSING]
        )
        lines += ["", *told]
    return "\n".join(lines) + "\n"


def _line(name: str, found: Mapping[str, Any] | None) -> str:
    toy = TOYS[name]
    if found is None:
        return f"| {toy.title} | {toy.statement} | {toy.table} | {MISSING} | | | | | |"
    high = judged(found["failures"], found["runs"], BETA).high
    cells = [
        toy.title, toy.statement, toy.table, f"{found['runs']:,}", str(found["failures"]), f"{high:.3f}",
        f"{found['median']:.2f}", f"{found['largest']:.2f}", found["noticed"],
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _compared(title: str, error: str, found: Mapping[str, Any]) -> list[str]:
    figures = {setting: found["figures"][setting] for setting in sorted(found["figures"], key=_natural)}
    runs = found["runs"]
    methods = sorted(next(iter(figures.values())), key=lambda name: (name == DEFAULT, name))
    rows = [
        f"| {setting} | "
        + " | ".join(f"{each[name]['mean']:.3g} ± {each[name]['doubt']:.1g}" for name in methods)
        + " |"
        for setting, each in figures.items()
    ]
    return [
        f"### {title}",
        "",
        f"Mean {error} over {runs} runs.",
        "",
        f"| | {' | '.join(methods)} |",
        "|---" * (len(methods) + 1) + "|",
        *rows,
        "",
        verdict(figures),
    ]


def _natural(text: str) -> list[tuple[int, str]]:
    """The order in which people list settings: numbers by size."""
    parts = re.findall(r"\d[\d,.]*|\D+", text)
    return [(round(1000 * float(part.replace(",", ""))), "") if part[0].isdigit() else (-1, part) for part in parts]


def verdict(figures: Mapping[str, Any]) -> str:
    """What the comparison shows, in a sentence."""
    won = {setting: names for setting, names in winners(dict(figures)).items() if names}
    if not won:
        return f"**Nothing here beats the {DEFAULT}.**"
    told = "; ".join(f"{setting}: {', '.join(names)}" for setting, names in won.items())
    return f"**Beats the {DEFAULT}** at {told}. Nowhere else."
