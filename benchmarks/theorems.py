"""Whole mechanisms of the theorems, run many times: failures against beta, and errors beside the default release.

    python benchmarks/theorems.py [--runs 1000] [--record] [NAME ...]    # count failures (about seven CPU minutes)
    python benchmarks/theorems.py --compare [--record] [NAME ...]        # compare with the default release
    python benchmarks/theorems.py --page                                 # write docs/theory/promises.md

Names are those of `theorem_runs/toys.py` and `theorem_runs/comparisons.py`. Noise is that of production, without a
seed. `--record` keeps the figures in benchmarks/results/theorems.json and writes the page.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from maquette.curator import ExactNoise
from recording import record, recorded
from theorem_runs.comparisons import COMPARISONS, measured, winners
from theorem_runs.judge import judged, most
from theorem_runs.noise import Loud
from theorem_runs.page import PAGE, page
from theorem_runs.toys import BETA, TOYS, Toy

RESULTS = Path(__file__).resolve().parent / "results" / "theorems.json"
SABOTAGED = 50  # runs of every sabotage
LOUDER = (4, 16, 64, 256, 1024)


def counted(toy: Toy, runs: int) -> dict[str, Any]:
    """Failures of a toy's promise, its errors as shares of the promise, and the sabotage that is noticed."""
    begun = time.process_time()
    ran = [toy.run(ExactNoise()) for _ in range(runs)]
    spent = time.process_time() - begun
    ratios = np.array([each.error / each.promised for each in ran])
    failures = int(sum(each.error > each.promised for each in ran))
    return {
        "runs": runs,
        "failures": failures,
        "refuted": bool(judged(failures, runs, BETA).refuted),
        "median": round(float(np.median(ratios)), 3),
        "largest": round(float(ratios.max()), 3),
        "noticed": noticed(toy),
        "cpu_seconds": round(spent, 1),
    }


def noticed(toy: Toy) -> str:
    """The least sabotage that the test finds."""
    allowed = most(SABOTAGED, BETA)
    if toy.sabotage:
        with toy.patch():
            ran = [toy.run(ExactNoise()) for _ in range(SABOTAGED)]
        return toy.sabotage if sum(each.error > each.promised for each in ran) > allowed else "nothing"
    for factor in LOUDER:
        failures = 0
        for _ in range(SABOTAGED):
            each = toy.run(Loud(factor))
            failures += each.error > each.promised
            if failures > allowed:
                return f"noise × {factor}"
    return "nothing"


def keep(part: str, name: str, found: dict[str, Any]) -> None:
    """Record figures under a part of the file, and write the page."""
    record(f"{part}:{name}", found, RESULTS)
    PAGE.write_text(page(figures()), encoding="utf-8")


def figures() -> dict[str, Any]:
    """The recorded figures by part and name."""
    found: dict[str, Any] = {"toys": {}, "comparisons": {}}
    for key, each in recorded(RESULTS).items():
        part, _, name = key.partition(":")
        found[part][name] = each
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        PAGE.write_text(page(figures()), encoding="utf-8")
        return 0
    known: dict[str, Any] = COMPARISONS if given.compare else TOYS
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; expected some of {', '.join(known)}")
    bad = 0
    for name in given.names or known:
        if given.compare:
            runs = given.runs or COMPARISONS[name].runs
            found: dict[str, Any] = {"runs": runs, "figures": measured(COMPARISONS[name], runs)}
            print(name, winners(found["figures"]), flush=True)
        else:
            found = counted(TOYS[name], given.runs or 1000)
            bad += found["refuted"]
            print(name, found, flush=True)
        if given.record:
            keep("comparisons" if given.compare else "toys", name, found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
