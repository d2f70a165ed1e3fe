"""Repeated releases: how often each kind of interval holds, how wide it is, and how many questions have one.

"together" is the share of releases in which all intervals of the kind hold. "says something" is the share of answers
whose interval is narrower than nine tenths of the rows, or of the declared range of an average.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from releases import repeated_page, suite_page
from releases.asked import Asked, questions
from releases.processes import run
from releases.suite import table

TABLES = ("medpar", "chile", "classes")
RUNS = 200
ASKED = 60  # conditions; each is asked in two or three forms
AT_ONCE = 10  # releases in one process
TRIVIAL = 0.45  # half-width, in fractions of rows or of the range, from which an interval says nothing
ALL = ("all", "1-3")  # every form and number of columns

Judged = list[list[Any]]  # of one release: question, kind, covered, half-width, what the interval touches
Told = tuple[int, bool, float, str]  # of an answer: its release, covered, half-width, what the interval touches
Checked = tuple[int, int, float]  # of one release: tables, how many are off by more than certified, median bound


def repeated(name: str, epsilon: float, method: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All releases of a table that are made, again after every few, which share a process."""
    releases: list[Judged] = []
    checks: list[Checked | None] = []
    wanted = given.runs or RUNS
    case = {"table": name, "method": method, "epsilon": epsilon, "ways": given.ways, "limit": given.seconds}
    while len(releases) < wanted:
        got = run("interval_case", {**case, "releases": min(AT_ONCE, wanted - len(releases)), "questions": ASKED})
        releases += got.get("releases", ())
        checks += got.get("checks", ())
        yield {
            **{name: case[name] for name in ("table", "method", "epsilon")},
            "releases": len(releases),
            "note": got["note"],
            "rows": summary(releases, questions(table(name), ASKED)),
            "check": check_held([each for each in checks if each]),
        }
        if "releases" not in got:
            return


def check_held(checks: list[Checked]) -> dict[str, float] | None:
    """How often certified bounds hold for all tables of a check together; None if no release had a check."""
    if not checks:
        return None
    return {
        "releases": len(checks),
        "tables": float(np.median([tables for tables, _, _ in checks])),
        "together": float(np.mean([missed == 0 for _, missed, _ in checks])),
        "half-width": float(np.median([bound for *_, bound in checks])),
    }


def summary(releases: list[Judged], asked: list[Asked]) -> list[dict[str, Any]]:
    """For every form, number of columns and kind of interval, and for all questions: how the intervals hold."""
    groups: dict[tuple[str, str, str], list[Told]] = {}
    totals: dict[tuple[str, str], int] = {}
    for at, release in enumerate(releases):
        for number, kind, covered, half, touched in release:
            for group in ((asked[number].form, str(asked[number].ways)), ALL):
                groups.setdefault((*group, kind), []).append((at, covered, half, touched))
                totals[group] = totals.get(group, 0) + 1
    return [
        {"form": form, "ways": ways, "kind": kind, "share": len(answers) / totals[form, ways], **held(answers)}
        for (form, ways, kind), answers in sorted(groups.items())
    ]


def held(answers: list[Told]) -> dict[str, float]:
    """How often answers hold, singly and together, how wide they are, and what of that could not be otherwise.

    "inner" is the coverage of those above 0 rows: one that begins there misses on one side only. "few" is the share of
    those that say nothing, of averages of groups that may be empty.
    """
    missed = {at for at, covered, *_ in answers if not covered}
    inner = [covered for _, covered, _, touched in answers if touched != "zero"]
    return {
        "coverage": float(np.mean([covered for _, covered, *_ in answers])),
        "together": 1.0 - len(missed) / len({at for at, *_ in answers}),
        "half-width": float(np.median([half for _, _, half, _ in answers])),
        "says something": float(np.mean([half < TRIVIAL for _, _, half, _ in answers])),
        "inner": float(np.mean(inner)) if inner else 1.0,
        "inner share": len(inner) / len(answers),
        "few": float(np.mean([half >= TRIVIAL and touched == "empty" for _, _, half, touched in answers])),
    }


def main(console: Console, given: argparse.Namespace) -> None:
    """The three tables, or those asked for, at each epsilon (default 1)."""
    done: list[dict[str, Any]] = []
    asked = itertools.product(given.tables or TABLES, given.epsilons or (1.0,), given.methods or ("auto",))
    for name, epsilon, method in asked:
        for case in repeated(name, epsilon, method, given):
            if given.json:
                given.json.write_text(json.dumps({"cases": [*done, case]}, indent=1) + "\n", encoding="utf-8")
        done.append(case)
        show(console, case)
        if given.record:
            repeated_page.record(repeated_page.INTERVALS, [case])
            suite_page.rewrite()


def show(console: Console, case: dict[str, Any]) -> None:
    """The table of a case."""
    named = (
        f"{case['table']}, epsilon {case['epsilon']:g}, {case['method']} ({case['note']}), {case['releases']} releases"
    )
    names = ("share", "coverage", "together", "half-width", "says something", "inner", "inner share", "few")
    shown = Table("question", "columns", "interval", *names, title=named)
    for row in case["rows"]:
        shown.add_row(row["form"], row["ways"], row["kind"], *(f"{row[name]:.4f}" for name in names))
    console.print(shown)
    if case["check"]:
        told = ", ".join(f"{name} {value:.4g}" for name, value in case["check"].items())
        console.print(f"certified bounds of all tables of the check: {told}")
