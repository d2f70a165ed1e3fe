"""How long until a first private answer, and how many lines of code: Maquette beside three other libraries.

    python benchmarks/ergonomics.py [--quick] [--folder FOLDER] [--json]

Everyone counts the smokers of 65 and over in the same generated CSV of 10,000 people, in the words of their own quick
start (`ergonomics_peers/first_*.py`; lines are those that are not blank, imports among them). Each library is installed
from the package registry into an environment of its own, kept in FOLDER; what cannot be installed or run is said to be
so. Time is that of a fresh process: the first of all, which may compile, and the best of five. --quick measures
Maquette alone. What is counted is not the same everywhere: mbi is a model for noisy tables, its noise here is numpy's,
and neither it nor SmartNoise keeps a ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
LIBRARIES: dict[str, tuple[str, ...]] = {
    "maquette": (str(HERE.parent),),
    "opendp": ("opendp[polars]",),
    "smartnoise": ("smartnoise-sql", "setuptools<80"),
    "mbi": ("mbi>=2.0", "pandas"),
}
LIMIT = 300.0  # seconds for one process
GOAL_SECONDS, GOAL_LINES = 3.0, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Maquette alone, in the environment that runs this")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "maquette-peers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = ["maquette"] if options.quick else list(LIBRARIES)
    found = {name: measure(name, options.folder, here=options.quick) for name in names}
    if options.json:
        print(json.dumps(found, indent=2))
        return
    table = Table("library", "install s", "first run s", "best of five s", "its CPU s", "lines", "note")
    for name, facts in found.items():
        seconds = [f"{facts[key]:.1f}" if key in facts else "" for key in ("install", "first", "best", "cpu")]
        table.add_row(name, *seconds, str(facts["lines"]), facts.get("note", ""))
    Console().print(table)


def measure(name: str, folder: Path, *, here: bool) -> dict[str, Any]:
    """Seconds and lines, or why there are none."""
    code = HERE / "ergonomics_peers" / f"first_{name}.py"
    facts: dict[str, Any] = {"lines": lines_of(code.read_text(encoding="utf-8"))}
    try:
        python = sys.executable if here else installed(name, folder, facts)
    except (subprocess.SubprocessError, OSError) as error:
        return facts | {"note": f"skipped: cannot be installed ({type(error).__name__})"}
    with tempfile.TemporaryDirectory() as place:
        write_people(Path(place) / "people.csv")
        times, loads = [], []
        for _ in range(5):
            start, before = time.perf_counter(), cpu_of_children()
            try:
                run = subprocess.run(
                    [python, str(code)], cwd=place, capture_output=True, text=True, timeout=LIMIT, check=False
                )
            except subprocess.TimeoutExpired:
                return facts | {"note": f"skipped: no answer in {LIMIT:.0f} s"}
            if run.returncode:
                return facts | {"note": f"skipped: {(run.stderr.strip().splitlines() or ['failed'])[-1][:100]}"}
            times.append(time.perf_counter() - start)
            loads.append(cpu_of_children() - before)
    facts |= {"first": times[0], "best": min(times), "cpu": min(loads)}
    if name == "maquette":
        met = facts["best"] < GOAL_SECONDS and facts["lines"] <= GOAL_LINES
        facts["note"] = f"goal, under {GOAL_SECONDS:g} s and at most {GOAL_LINES} lines: {'met' if met else 'not met'}"
    return facts


def installed(name: str, folder: Path, facts: dict[str, Any]) -> str:
    """The interpreter of an environment that holds this library, made if it is not there."""
    home = folder / f"first-{name}"
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = home / "installed.json"
    if not done.exists() or json.loads(done.read_text(encoding="utf-8"))["needs"] != list(LIBRARIES[name]):
        venv.create(home, with_pip=True, clear=True)
        start = time.perf_counter()
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *LIBRARIES[name]]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        done.write_text(
            json.dumps({"needs": LIBRARIES[name], "seconds": time.perf_counter() - start}), encoding="utf-8"
        )
    facts["install"] = json.loads(done.read_text(encoding="utf-8"))["seconds"]
    return str(python)


def cpu_of_children() -> float:
    """Seconds of processor time; unlike the clock, it hardly depends on what else the machine does."""
    spent = os.times()
    return spent.children_user + spent.children_system


def lines_of(code: str) -> int:
    """Lines that are not blank, as laid out by a formatter."""
    return sum(1 for line in code.splitlines() if line.strip())


def write_people(path: Path, rows: int = 10_000) -> None:
    rng = np.random.default_rng(0)
    ages, smokers = rng.integers(0, 100, rows), rng.random(rows) < 0.2
    lines = [f"{age},{'true' if smokes else 'false'}" for age, smokes in zip(ages, smokers, strict=True)]
    path.write_text("\n".join(["age,smoker", *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
