"""Offline releases: error, time and memory of every method, and how they grow.

python benchmarks/offline.py [--quick] [--data PATH]

Quality: all three-way marginals of nltcs (and of seven columns of adult) at three prices, delta 1e-9, add-remove, under
two ways of accounting. "tvd" is the mean over tables of the total variation distance to the exact table, "worst" the
largest error of a cell, both as fractions of rows; means over the runs. The exact tables are counted here by numpy,
outside the wall: this is test data. Growth: generated rows of yes/no columns, one thing varied at a time. PATH (default
$MAQUETTE_DATA) holds nltcs/nltcs.csv and adult/adult.csv; without it rows are generated to resemble nltcs. Every case
runs in a process of its own, so that its peak memory is its own; "memory" is what it added to the imports and rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.errors import MaquetteError

DELTA = 1e-9
ADULT = {"workclass": 9, "education": 16, "marital-status": 7, "relationship": 6, "race": 5, "sex": 2, "income>50K": 2}
METHODS = ("auto", "everything", "adaptive", "gaussian", "laplace", "averaged-construction", "iterative-construction")
PRACTICAL = METHODS[:4]
SETTINGS = {"averaged-construction": {"rounds": 100}}  # its best number of rounds takes minutes


def generated(rows: int, columns: int) -> np.ndarray:
    """Yes/no answers that follow one hidden severity, as those of nltcs do."""
    rng = np.random.default_rng(0)
    severity = rng.gamma(0.6, 1.2, rows)[:, None]
    return (rng.random((rows, columns)) < 1 - np.exp(-severity * np.linspace(0.2, 1.2, columns))).astype(np.int64)


def load(case: dict[str, Any]) -> tuple[mq.Schema, np.ndarray]:
    """The rows of a case, as codes, and their schema."""
    sizes = {f"c{i}": 2 for i in range(case.get("columns", 16))}
    path = Path(case["data"]) / case["table"] / f"{case['table']}.csv" if case["data"] else None
    if path is None or not path.exists():
        rows = generated(case.get("rows", 21_574), len(sizes))
    else:
        names = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
        rows = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1)
        sizes = ADULT if case["table"] == "adult" else dict.fromkeys(names, 2)
        rows = rows[:, [names.index(name) for name in sizes]]
    return mq.Schema([mq.Integer(name, 0, size - 1) for name, size in sizes.items()]), rows


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One case, in this process: the release, its cost, and its distance from the exact tables."""
    schema, rows = load(case)
    table = mq.open_table({name: rows[:, i] for i, name in enumerate(schema.names)}, schema)
    budget = mq.Budget(epsilon=case["epsilon"], delta=DELTA, accounting=case["accounting"])
    workload = mq.marginals(schema, k=case.get("k", 3))
    mq.release(mq.Curator(table, budget), mq.marginals(schema, k=1), method="gaussian")  # imports and first calls
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    try:
        made = mq.release(
            mq.Curator(table, budget), workload, method=case["method"], **SETTINGS.get(case["method"], {})
        )
    except MaquetteError as refusal:
        return {"note": str(refusal).split(";")[0]}
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "memory": peak() - before}
    far, worst = [], 0.0
    for columns in itertools.combinations(range(len(schema)), case.get("k", 3)):
        shape = schema.shape([schema.names[i] for i in columns])
        cells = np.ravel_multi_index([rows[:, i] for i in columns], shape)
        exact = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / len(rows)
        error = np.abs(made.marginal(*(schema.names[i] for i in columns)) - exact)
        far.append(error.sum() / 2)
        worst = max(worst, float(error.max()))
    return {**spent, "tvd": float(np.mean(far)), "worst": worst, "note": made.certificate.method}


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One case, in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def averaged(case: dict[str, Any], runs: int) -> list[str]:
    """The row of a table: means over runs of everything measured."""
    results = [run(case) for _ in range(runs)]
    if "tvd" not in results[0]:
        return ["", "", "", "", "", results[0]["note"]]
    tvd, worst, wall, cpu, memory = (
        float(np.mean([result[name] for result in results])) for name in ("tvd", "worst", "wall", "cpu", "memory")
    )
    return [f"{tvd:.4f}", f"{worst:.4f}", f"{wall:.1f}", f"{cpu:.1f}", f"{memory:.0f}", results[0]["note"]]


MEASURED = ("tvd", "worst", "wall s", "CPU s", "memory MB", "method or refusal")


def quality(console: Console, name: str, data: str, quick: bool) -> None:
    prices = (1.0,) if quick else (0.1, 1.0, 10.0)
    currencies = ("zcdp",) if quick else ("zcdp", "gdp")
    table = Table("epsilon", "accounting", "asked for", *MEASURED, title=f"three-way marginals of {name}")
    for epsilon, accounting in itertools.product(prices, currencies):
        everyone = (name, epsilon, accounting, quick) == ("nltcs", 1.0, "zcdp", False)
        for method in METHODS if everyone else PRACTICAL:
            case = {"table": name, "data": data, "epsilon": epsilon, "accounting": accounting, "method": method}
            table.add_row(f"{epsilon:g}", accounting, method, *averaged(case, 1 if quick else 2))
        table.add_section()
    console.print(table)


def growth(console: Console, quick: bool) -> None:
    base = {
        "table": "generated",
        "data": "",
        "epsilon": 1.0,
        "accounting": "zcdp",
        "rows": 20_000,
        "columns": 12,
        "k": 2,
    }
    varied = {
        "rows": (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000),
        "columns": (8, 12) if quick else (8, 12, 16, 20),
        "k": (1, 2) if quick else (1, 2, 3, 4),
    }
    table = Table(
        "varied", "rows", "cells", "queries", "asked for", *MEASURED, title="growth, generated yes/no columns"
    )
    for name, sizes in varied.items():
        for size, method in itertools.product(sizes, ("everything", "adaptive", "gaussian")):
            case = {**base, name: size, "method": method}
            columns, k = int(str(case["columns"])), int(str(case["k"]))
            queries = 2**k * len(list(itertools.combinations(range(columns), k)))
            table.add_row(name, f"{case['rows']:,}", f"{2**columns:,}", f"{queries:,}", method, *averaged(case, 1))
        table.add_section()
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Error, time and memory of the offline releases.")
    parser.add_argument("--quick", action="store_true", help="one price, small sizes")
    parser.add_argument("--data", default=os.environ.get("MAQUETTE_DATA", ""), help="folder with nltcs and adult")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(json.loads(given.case))))
        return
    console = Console(width=150)
    quality(console, "nltcs", given.data, given.quick)
    if given.data and (Path(given.data) / "adult" / "adult.csv").exists() and not given.quick:
        quality(console, "adult", given.data, given.quick)
    growth(console, given.quick)


if __name__ == "__main__":
    main()
