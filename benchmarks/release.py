"""Releases of universes too large to enumerate: error, time and memory of the graphical method, and how they grow.

python benchmarks/release.py [--quick] [--data PATH] [--peers [--venvs PATH] [--limit SECONDS]]

Quality: all three-way marginals of adult (15 columns, 4e16 cells) and nltcs at three prices, delta 1e-9, add-remove,
GDP accounting. "tvd" is the mean over tables of half the L1 distance to the exact one, as a fraction of rows, with the
least and the largest of the runs; "cell" the largest error of a cell, the mean of the runs; "pairs tvd" the distance of
two-way marginals of the same release; "rows tvd" and "rows cell" the errors of as many synthetic rows as there are real
ones. "independent" is the same method asked for one-way marginals
only; "product" and "noisy tables" are the baselines of releases/baselines.py. With --peers, once at each price, also
OpenDP's AIM and MST (releases/opendp_peer.py), in an environment made in --venvs (default: a temporary folder) and
within --limit seconds each. The exact tables are counted here by numpy, outside the wall: this is test data. Growth:
generated rows, pairs of columns. PATH of --data (default $MAQUETTE_DATA) holds adult/adult.csv and nltcs/nltcs.csv with
their domain files; without it only growth is measured. Every case runs in a process of its own; "memory" is its peak,
with imports and rows.

python benchmarks/release.py --suite [--half development|held|both] [--epsilons ...] [--methods ...] [--tables ...]
    [--runs N] [--json FILE] [--baseline FILE] [--chart FILE] [--record] [--peers]

The same on the tables of releases/suite.py, under the default accounting: each of our methods, independent columns and
noisy tables at the same epsilon and delta, and resampled rows. At most 300 tables of each number of columns are
compared. Numeric libraries get one thread. "average" and "sum by group" are explained in releases/averages.py.

python benchmarks/release.py --train [--half ...] [--epsilons ...] [--methods ...] [--runs N] [--peers]
python benchmarks/release.py --intervals [--tables ...] [--epsilons E] [--methods ...] [--runs N]

--train: what a model learns from synthetic rows (releases/train_case.py), on the real tables that have a target; with
--peers also from MST's. --intervals: how often intervals hold over repeated releases (releases/interval_run.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import maquette as mq
from releases import baselines, interval_run, peers, suite_run, train_run
from releases.distance import distance, every, read, sampled

DELTA = 1e-9
TABLES = 300  # of the generated rows, that are compared
SHAPES = {
    "100 yes/no columns": {"rows": 100_000, "sizes": [2] * 100},
    "50 columns": {"rows": 1_000_000, "sizes": [2, 3, 5, 8, 12, 20, 4, 2, 6, 10] * 5},
    "50 columns, fewer rows": {"rows": 10_000, "sizes": [2, 3, 5, 8, 12, 20, 4, 2, 6, 10] * 5},
}
QUICK = {"30 yes/no columns": {"rows": 20_000, "sizes": [2] * 30}}


def generated(rows: int, sizes: list[int]) -> np.ndarray:
    """Every column leans on one before it."""
    rng = np.random.default_rng(0)
    made = np.zeros((rows, len(sizes)), dtype=np.int32)
    for i, size in enumerate(sizes):
        made[:, i] = size * rng.random(rows) ** 2
        if i:
            copied = rng.random(rows) < 0.6
            made[copied, i] = made[copied, rng.integers(max(0, i - 5), i)] % size
    return made


def load(case: dict[str, Any]) -> tuple[mq.Schema, np.ndarray]:
    """The rows of a case, as codes, and their schema."""
    if "sizes" in case:
        sizes = {f"c{i}": size for i, size in enumerate(case["sizes"])}
        rows = generated(case["rows"], case["sizes"])
    else:
        sizes, rows = read(case["data"], case["table"])
    return mq.Schema([mq.Integer(name, 0, size - 1) for name, size in sizes.items()]), rows


def tables(case: dict[str, Any], sizes: list[int]) -> list[tuple[int, ...]]:
    """The marginals compared."""
    sets = every(sizes, case["k"])
    if "sizes" in case:
        sets = [sets[i] for i in np.random.default_rng(0).choice(len(sets), min(TABLES, len(sets)), replace=False)]
    return sets


def made_by(
    case: dict[str, Any], schema: mq.Schema, rows: np.ndarray
) -> tuple[baselines.Answers, Callable[[], np.ndarray] | None, str]:
    """A release: its marginals, its synthetic rows if it has any, and a note."""
    sizes, price = list(schema.shape(schema.names)), (case["epsilon"], DELTA)
    if case["method"] == "noisy tables":
        return baselines.noisy(rows, sizes, every(sizes, case["k"]), *price).__getitem__, None, "baseline"
    if case["method"] == "product":
        marginal, synthetic = baselines.product(rows, sizes, *price)
        return marginal, lambda: synthetic, "baseline"
    table = mq.open_table({name: rows[:, i] for i, name in enumerate(schema.names)}, schema)
    asked = mq.marginals(schema, k=1 if case["method"] == "independent" else case["k"])
    method = "graphical" if case["method"] == "independent" else case["method"]
    budget = mq.Budget(epsilon=case["epsilon"], delta=DELTA, accounting="gdp")
    made = mq.release(mq.Curator(table, budget), asked, method=method)

    def answers(columns: tuple[int, ...]) -> np.ndarray:
        return made.marginal(*(schema.names[i] for i in columns))

    def drawn() -> np.ndarray:
        synthetic = made.sample(len(rows))
        return np.stack([synthetic[name].to_numpy() for name in schema.names], axis=1)

    return answers, drawn, made.certificate.method


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One case, in this process: the release, its cost, and its distance from the exact tables."""
    schema, rows = load(case)
    sizes = list(schema.shape(schema.names))
    wall, cpu = time.perf_counter(), time.process_time()
    answers, drawn, note = made_by(case, schema, rows)
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sets = tables(case, sizes)
    found = distance(rows, sizes, sets, answers)
    if case["k"] == 3 and case["method"] != "noisy tables":
        found["pairs tvd"] = distance(rows, sizes, every(sizes, 2), answers)["tvd"]
    if drawn:
        found |= sampled(rows, sizes, sets, drawn())
    return {**spent, "memory": memory, **found, "note": note}


MEASURED = ("tvd", "between", "cell", "pairs tvd", "rows tvd", "rows cell", "wall s", "CPU s", "memory MB", "method")


def shown(results: list[dict[str, Any]]) -> list[str]:
    """A row of a table: means over runs."""
    means = {name: float(np.mean([each[name] for each in results])) for name in results[0] if name != "note"}
    between = f"{min(each['tvd'] for each in results):.4f} to {max(each['tvd'] for each in results):.4f}"
    others = [f"{means[name]:.4f}" if name in means else "-" for name in ("pairs tvd", "rows tvd", "rows cell")]
    costs = [f"{means['wall']:.1f}", f"{means['cpu']:.1f}", f"{means['memory']:.0f}"]
    return [f"{means['tvd']:.4f}", between, f"{means['cell']:.4f}", *others, *costs, results[0]["note"]]


def run(case: dict[str, Any], runs: int) -> list[str]:
    """Each run in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    ended = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(runs)]
    return shown([json.loads(each.stdout) for each in ended])


def quality(console: Console, name: str, given: argparse.Namespace, venvs: Path) -> None:
    table = Table("epsilon", "asked for", *MEASURED, title=f"three-way marginals of {name}")
    methods = ("graphical", "independent") if name == "adult" else ("auto", "graphical", "independent")
    prices = (1.0,) if given.quick else (0.1, 1.0, 10.0)
    for epsilon, method in itertools.product(prices, (*methods, "product", "noisy tables")):
        case = {"table": name, "data": given.data, "epsilon": epsilon, "method": method, "k": 3}
        table.add_row(f"{epsilon:g}", method, *run(case, 1 if given.quick else 3))
    for epsilon, peer in itertools.product(prices, peers.PEERS if given.peers else ()):
        asked = {"table": name, "data": given.data, "epsilon": epsilon, "delta": DELTA, "k": 3}
        result = peers.run(peer, venvs, asked, given.limit)
        row = [*["-"] * (len(MEASURED) - 1), result] if isinstance(result, str) else shown([result])
        table.add_row(f"{epsilon:g}", peer, *row)
    console.print(table)


def growth(console: Console, quick: bool) -> None:
    table = Table("rows", "generated", "asked for", *MEASURED, title="two-way marginals, epsilon 1")
    shapes: dict[str, dict[str, Any]] = QUICK if quick else SHAPES
    for (name, shape), method in itertools.product(shapes.items(), ("graphical", "independent")):
        case = {**shape, "epsilon": 1.0, "method": method, "k": 2}
        table.add_row(f"{shape['rows']:,}", name, method, *run(case, 1))
    console.print(table)


def tuned_for_none(console: Console, given: argparse.Namespace, venvs: Path) -> None:
    """What is measured on the tables of the suite."""
    if given.suite:
        suite_run.main(console, given, venvs)
    if given.train:
        train_run.main(console, given, venvs)
    if given.intervals:
        interval_run.main(console, given)


def main() -> None:
    parser = argparse.ArgumentParser(description="Error, time and memory of releases of large universes.")
    parser.add_argument("--quick", action="store_true", help="one price, small sizes")
    parser.add_argument("--data", default=os.environ.get("MAQUETTE_DATA", ""), help="folder with adult and nltcs")
    parser.add_argument("--peers", action="store_true", help="also run peers from PyPI")
    parser.add_argument("--venvs", help="folder that keeps the peers' environments")
    parser.add_argument("--limit", type=float, default=peers.LIMIT, help="seconds that a peer may take")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    suite_run.arguments(parser)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(json.loads(given.case))))
        return
    console = Console(width=180)
    with tempfile.TemporaryDirectory() as temporary:
        if given.suite or given.train or given.intervals:
            tuned_for_none(console, given, Path(given.venvs or temporary))
            return
        for name in ("adult", "nltcs"):
            if given.data and (Path(given.data) / name / f"{name}.csv").exists():
                quality(console, name, given, Path(given.venvs or temporary))
    growth(console, given.quick)


if __name__ == "__main__":
    main()
