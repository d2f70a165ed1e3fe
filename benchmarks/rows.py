"""Synthetic rows: how close their tables are to the model's, and how fast they are written.

python benchmarks/rows.py [--quick] [--data PATH] [--rows N]

Closeness: a release of every three-way table at three prices (delta 1e-9, add-remove) and as many synthetic rows as
there are real ones. "model", "drawn" and "sample" are the mean distances (half the L1 distance, a fraction of rows) of
three-way tables from those of the real rows: the model's, those of low-variance draws, and those of `Release.sample`,
which refines them. "apart" is the distance between the sample's tables and the model's. CPU is that of the sample.
"mixture" is a mixture of 100 products fitted to the real rows without noise. PATH of --data (default $MAQUETTE_DATA)
holds adult and nltcs, as for release.py; without it, generated rows alone.

Speed: N rows (default 1e7) of ten columns from each kind of model, to Parquet and CSV. "memory" is the peak of the
process, with imports; every case runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.estimates import DenseModel, MergedModel, Merging
from maquette.hypothesis import GraphicalModel, Mixture
from release import DELTA, load
from releases.distance import counted, every
from releases.latent_classes import fitted

GENERATED = {"rows": 50_000, "sizes": [2, 3, 5, 8, 12, 20, 4, 2, 6, 10]}
SIZES = [2, 5, 8, 10, 4, 6, 2, 12, 3, 20]
FINE = [2, 5, 100, 10, 4, 60, 2, 12, 3, 200]
SMALL = [2, 5, 4, 3, 4, 6, 2, 4, 3, 5]


def closeness(case: dict[str, Any]) -> dict[str, float]:
    """One case, in this process."""
    schema, rows = load(case)
    sizes, names = list(schema.shape(schema.names)), schema.names
    if case["epsilon"] is None:
        model: Any = fitted(schema, rows, components=100, steps=6)
    else:
        table = mq.open_table({name: rows[:, i] for i, name in enumerate(names)}, schema)
        curator = mq.Curator(table, mq.Budget(epsilon=case["epsilon"], delta=DELTA))
        model = mq.release(curator, mq.marginals(schema, k=3)).model
    sets = every(sizes, 3)
    exact = [counted(rows, sizes, each) / len(rows) for each in sets]
    expected = [model.marginal([names[i] for i in each]) for each in sets]

    def tables(records: np.ndarray) -> list[np.ndarray]:
        return [counted(records, sizes, each) / len(records) for each in sets]

    drawn = tables(model.draw(len(rows), np.random.default_rng(0)))
    model.sample(10, np.random.default_rng(0))  # compiles
    cpu = time.process_time()
    records = model.sample(len(rows), np.random.default_rng(0))
    cpu = time.process_time() - cpu
    sample = tables(records)
    found = {"model": far(expected, exact), "drawn": far(drawn, exact), "sample": far(sample, exact)}
    return {**found, "apart": far(sample, expected), "cpu": cpu}


def far(first: list[np.ndarray], second: list[np.ndarray]) -> float:
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(first, second, strict=True)]))


def universe(sizes: list[int]) -> mq.Schema:
    """Numbers and texts in turn."""
    return mq.Schema(
        [
            mq.Category(f"c{i}", [f"level {v}" for v in range(size)]) if i % 2 else mq.Integer(f"c{i}", 0, size - 1)
            for i, size in enumerate(sizes)
        ]
    )


def tree(schema: mq.Schema, rng: np.random.Generator) -> GraphicalModel:
    model = GraphicalModel(schema, [schema.names[i : i + 3] for i in range(len(schema) - 2)])
    return model.with_potentials({clique: rng.normal(0.0, 1.0, schema.shape(clique)) for clique in model.cliques})


def merged(rng: np.random.Generator) -> MergedModel:
    schema = universe(FINE)
    groups = {name: np.arange(schema[name].size) * 16 // schema[name].size for name in ("c2", "c5", "c9")}
    merging = Merging(schema, groups)
    masses = {name: rng.random(schema[name].size) for name in groups}
    shares = {name: m / np.bincount(groups[name], m)[groups[name]] for name, m in masses.items()}
    return MergedModel(merging, tree(merging.merged, rng), shares)


def mixture(rng: np.random.Generator) -> Mixture:
    schema = universe(SIZES)
    blocks = [((column.name,), rng.dirichlet(np.full(column.size, 0.7), 200)) for column in schema]
    return Mixture(schema, rng.dirichlet(np.ones(200)), blocks)


def dense(rng: np.random.Generator) -> DenseModel:
    schema = universe(SMALL)
    return DenseModel(schema, rng.dirichlet(np.full(schema.size, 0.05)).reshape(schema.shape(schema.names)))


KINDS = {"dense": dense, "graphical": lambda rng: tree(universe(SIZES), rng), "merged": merged, "mixture": mixture}


def speed(case: dict[str, Any]) -> dict[str, float]:
    """One case, in this process: a release of an empty table, with the model of the case."""
    model: Any = KINDS[case["kind"]](np.random.default_rng(0))
    one = mq.Schema([mq.Boolean("a")])
    with mq.Curator(mq.open_table({"a": [True]}, one), mq.Budget(epsilon=1.0)) as curator:
        release = mq.release(curator, mq.marginals(one, k=1))
    release.schema, release.model = model.schema, model
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{case['suffix']}"
        wall, cpu = time.perf_counter(), time.process_time()
        release.write(path, case["rows"], rng=np.random.default_rng(0))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = path.stat().st_size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": wall, "cpu": cpu, "memory": memory, "size": size / 1e6}


def run(case: dict[str, Any]) -> dict[str, float]:
    """The case in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def show_closeness(console: Console, given: argparse.Namespace) -> None:
    columns = ("table", "epsilon", "model", "drawn", "sample", "drawn / model", "sample / model", "apart", "CPU s")
    table = Table(*columns, title="three-way tables of as many synthetic rows as real ones")
    known: dict[str, dict[str, Any]] = {"generated, 50,000 x 10": GENERATED}
    known |= {name: {"table": name, "data": given.data} for name in ("adult", "nltcs") if given.data}
    for name, shape in known.items():
        for epsilon in (1.0, None) if given.quick else (0.1, 1.0, 10.0, None):
            found = run({**shape, "epsilon": epsilon})
            ratios = [f"{found[each] / found['model']:.3f}" for each in ("drawn", "sample")]
            errors = [f"{found[each]:.4f}" for each in ("model", "drawn", "sample")]
            label = "mixture" if epsilon is None else f"{epsilon:g}"
            table.add_row(name, label, *errors, *ratios, f"{found['apart']:.4f}", f"{found['cpu']:.1f}")
    console.print(table)


def show_speed(console: Console, rows: int) -> None:
    columns = ("model", "file", "million rows per CPU s", "million rows per s", "memory MB", "file MB")
    table = Table(*columns, title=f"{rows:,} rows of ten columns")
    for kind in KINDS:
        for suffix in (".parquet", ".csv"):
            found = run({"kind": kind, "suffix": suffix, "rows": rows})
            rates = [f"{rows / found[each] / 1e6:.2f}" for each in ("cpu", "wall")]
            table.add_row(kind, suffix, *rates, f"{found['memory']:.0f}", f"{found['size']:.0f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Closeness and speed of synthetic rows.")
    parser.add_argument("--quick", action="store_true", help="one price, fewer rows")
    parser.add_argument("--data", default=os.environ.get("MAQUETTE_DATA", ""), help="folder with adult and nltcs")
    parser.add_argument("--rows", type=float, default=1e7, help="rows of the speed test")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        case = json.loads(given.case)
        print(json.dumps(speed(case) if "kind" in case else closeness(case)))
        return
    console = Console(width=140)
    show_closeness(console, given)
    show_speed(console, int(min(given.rows, 1e6) if given.quick else given.rows))


if __name__ == "__main__":
    main()
