"""Repeated releases: how often each kind of interval holds, how wide it is, and how many questions have one.

"together" is the share of releases in which all intervals of the kind hold. "says something" is the share of answers
whose interval is narrower than nine tenths of the rows, or of the declared range of an average.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from releases.asked import Asked, questions
from releases.processes import run
from releases.suite import table

TABLES = ("people", "medpar", "rwm")
RUNS = 200
ASKED = 60  # conditions; each is asked in two or three forms
AT_ONCE = 10  # releases in one process
TRIVIAL = 0.45  # half-width, in fractions of rows or of the range, from which an interval says nothing
ALL = ("all", "1-3")  # every form and number of columns

Judged = list[list[Any]]  # of one release: question, kind, covered, half-width


def repeated(name: str, epsilon: float, method: str, given: argparse.Namespace) -> tuple[list[Judged], str]:
    """Every release of a table, a few in each process."""
    found: list[Judged] = []
    wanted, note = given.runs or RUNS, ""
    case = {"table": name, "method": method, "epsilon": epsilon, "ways": given.ways, "limit": given.seconds}
    while len(found) < wanted:
        got = run("interval_case", {**case, "releases": min(AT_ONCE, wanted - len(found)), "questions": ASKED})
        note = got["note"]
        if "releases" not in got:
            break
        found += got["releases"]
    return found, note


def summary(releases: list[Judged], asked: list[Asked]) -> list[dict[str, Any]]:
    """For every form, number of columns and kind of interval, and for all questions: how the intervals hold."""
    groups: dict[tuple[str, str, str], list[tuple[int, bool, float]]] = {}
    totals: dict[tuple[str, str], int] = {}
    for at, release in enumerate(releases):
        for number, kind, covered, half in release:
            for group in ((asked[number].form, str(asked[number].ways)), ALL):
                groups.setdefault((*group, kind), []).append((at, covered, half))
                totals[group] = totals.get(group, 0) + 1
    return [
        {"form": form, "ways": ways, "kind": kind, "share": len(answers) / totals[form, ways], **held(answers)}
        for (form, ways, kind), answers in sorted(groups.items())
    ]


def held(answers: list[tuple[int, bool, float]]) -> dict[str, float]:
    """Of answers (release, covered, half-width): how often they hold, singly and together, and how wide they are."""
    missed = {at for at, covered, _ in answers if not covered}
    return {
        "coverage": float(np.mean([covered for _, covered, _ in answers])),
        "together": 1.0 - len(missed) / len({at for at, _, _ in answers}),
        "half-width": float(np.median([half for *_, half in answers])),
        "says something": float(np.mean([half < TRIVIAL for *_, half in answers])),
    }


def main(console: Console, given: argparse.Namespace) -> None:
    """The three tables, or those asked for, at each epsilon (default 1)."""
    done: list[dict[str, Any]] = []
    for name in given.tables or TABLES:
        for epsilon in given.epsilons or (1.0,):
            for method in given.methods or ("auto",):
                releases, note = repeated(name, epsilon, method, given)
                rows = summary(releases, questions(table(name), ASKED))
                case = {"table": name, "epsilon": epsilon, "method": method, "releases": len(releases), "note": note}
                done.append({**case, "rows": rows})
                show(console, done[-1])
                if given.json:
                    given.json.write_text(json.dumps({"cases": done}, indent=1) + "\n", encoding="utf-8")


def show(console: Console, case: dict[str, Any]) -> None:
    """The table of a case."""
    named = (
        f"{case['table']}, epsilon {case['epsilon']:g}, {case['method']} ({case['note']}), {case['releases']} releases"
    )
    names = ("share", "coverage", "together", "half-width", "says something")
    shown = Table("question", "columns", "interval", *names, title=named)
    for row in case["rows"]:
        shown.add_row(row["form"], row["ways"], row["kind"], *(f"{row[name]:.4f}" for name in names))
    console.print(shown)
