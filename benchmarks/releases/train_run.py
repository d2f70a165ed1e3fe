"""Train on synthetic, test on real: the area under the curve by method, its median and its worst over releases.

"worst / real" is the ratio of areas. A coin has 0.5, so where real rows give 0.6 a release that teaches nothing has
0.83: "above a coin" is the same ratio of what is above 0.5. Both kinds of releases are trained on ten times as many
synthetic rows as there are real ones; "equal" is the same of as many.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from releases import peers, repeated_page, suite_page, suite_run
from releases.processes import run
from releases.suite import REAL, SuiteTable
from releases.suite_case import DELTA
from releases.train_case import TIMES, parted

METHODS = ("auto", "graphical")
RUNS = 10


def from_peer(name: str, found: SuiteTable, asked: dict[str, Any], venvs: Path) -> dict[str, Any]:
    """The same of a peer's rows."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        suite_run.written(found, Path(folder), parted(found)[0])
        case = {"table": found.name, "data": folder, "epsilon": asked["epsilon"], "delta": DELTA, "k": asked["ways"]}
        case |= {"rows": str(rows), "times": TIMES}
        got = peers.run(name, venvs, case, 3 * asked["limit"])
        return {"note": got} if isinstance(got, str) else run("train_case", {**asked, "rows": str(rows)})


def cases(given: argparse.Namespace, venvs: Path) -> list[dict[str, Any]]:
    """Every release of every table with a target; those in the file of `--json` are not run again."""
    done = suite_run.read(given.json)
    known = {(each["table"], each["epsilon"], each["method"], each["run"]) for each in done}
    for found in suite_run.chosen(given):
        if found.target is None or (not given.tables and found.source not in REAL):
            continue  # people are generated: little of their target can be learned
        plans = [("real", 0.0, 1)]
        for epsilon in given.epsilons or (1.0,):
            plans += [(method, epsilon, given.runs or RUNS) for method in given.methods or METHODS]
            plans += [("MST", epsilon, given.runs or RUNS)] if given.peers else []
        for method, epsilon, runs in plans:
            asked = {"table": found.name, "method": method, "epsilon": epsilon}
            limits = {"ways": given.ways, "limit": given.seconds}
            for number in (each for each in range(runs) if (found.name, epsilon, method, each) not in known):
                full = {**asked, **limits}
                got = from_peer(method, found, full, venvs) if method in peers.PEERS else run("train_case", full)
                done.append({**asked, "run": number, **got})
                if given.json:
                    given.json.write_text(json.dumps({"cases": done}, indent=1) + "\n", encoding="utf-8")
    return done


@dataclasses.dataclass(frozen=True)
class Area:
    """The areas of the releases of one table by one method."""

    median: float
    worst: float
    runs: int


def areas(done: list[dict[str, Any]], which: str = "auc") -> dict[tuple[str, float, str], Area]:
    """By table, epsilon and method; `which` is "auc", or "equal" for as many rows as there are real ones."""
    found: dict[tuple[str, float, str], list[float]] = {}
    for case in done:
        if which in case:
            found.setdefault((case["table"], case["epsilon"], case["method"]), []).append(case[which])
    return {key: Area(float(np.median(each)), min(each), len(each)) for key, each in found.items()}


def above(area: float, real: float) -> float:
    """What is learned beyond a coin, of what real rows teach."""
    return (area - 0.5) / max(real - 0.5, 1e-9)


def told(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is recorded of the tables whose real rows were learned from."""
    found, equal = areas(done), areas(done, "equal")
    cases = []
    for (name, epsilon, method), area in found.items():
        if real := found.get((name, 0.0, "real")):
            ratios = {"ratio": area.worst / real.median, "above": above(area.worst, real.median)}
            case = {"table": name, "epsilon": epsilon, "method": method, **dataclasses.asdict(area), **ratios}
            if few := equal.get((name, epsilon, method)):
                case["equal"] = {"median": few.median, "worst": few.worst, "ratio": few.worst / real.median}
            cases.append(case)
    return cases


def main(console: Console, given: argparse.Namespace, venvs: Path) -> None:
    """The comparison, as asked for."""
    done = cases(given, venvs)
    found, equal = areas(done), areas(done, "equal")
    shown = Table(
        "table",
        "epsilon",
        "method",
        "runs",
        "median",
        "worst",
        "worst / real",
        "above a coin",
        "equal: median",
        "worst",
        title=f"train on {TIMES} synthetic rows for one real row; equal: on one",
    )
    for (name, epsilon, method), area in found.items():
        real = found.get((name, 0.0, "real"))
        ratios = (
            ("-", "-") if real is None else (f"{area.worst / real.median:.3f}", f"{above(area.worst, real.median):.3f}")
        )
        price = "-" if method == "real" else f"{epsilon:g}"
        few = equal.get((name, epsilon, method))
        last = ("-", "-") if few is None else (f"{few.median:.3f}", f"{few.worst:.3f}")
        shown.add_row(name, price, method, str(area.runs), f"{area.median:.3f}", f"{area.worst:.3f}", *ratios, *last)
    console.print(shown)
    if given.record:
        repeated_page.record(repeated_page.TRAINING, told(done))
        suite_page.rewrite()
    for note in dict.fromkeys(
        f"{case['table']}, {case['method']}: {case['note']}" for case in done if "auc" not in case
    ):
        console.print(note)
