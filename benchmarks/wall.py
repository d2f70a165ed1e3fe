"""What compiling and clamping cost: CPU time of this checkout, and of another beside it in the same run.

`python benchmarks/wall.py --against ../other/src` alternates between the two, each in a process of its own, and prints
medians and their ratio; `--record` keeps them for the reliability page.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"


def tasks(size: int) -> dict[str, float]:
    """Milliseconds of CPU for one of each."""
    began = time.process_time()
    import numpy as np

    import maquette as mq
    from maquette.query import additive

    rng = np.random.default_rng(1)
    columns = [mq.Integer("age", 0, 99), mq.Boolean("smoker"), mq.Category("city", [f"c{i}" for i in range(12)])]
    columns += [mq.Integer(f"x{i}", 0, 9) for i in range(7)]
    schema = mq.Schema(columns)
    rows = {c.name: rng.integers(0, c.size, 1000 * size) for c in schema}
    rows["city"] = np.array([f"c{i}" for i in rows["city"]])
    rows["smoker"] = rows["smoker"] == 1
    table = mq.open_table(rows, schema)
    budget = mq.Budget(epsilon=1e4, delta=1e-9)
    with mq.Curator(table, budget) as curator:
        mq.answer(curator, "SELECT count(*) FROM people WHERE age >= 65 AND smoker", epsilon=0.1)
        taken = {"first answer": 1e3 * (time.process_time() - began)}
        texts = [f"age >= {20 + i % 60} AND x{i % 7} < {1 + i % 8} OR city = 'c{i % 12}'" for i in range(2 * size)]
        weights = [{f"x{j}": rng.random(10) for j in range(7)} for _ in range(2 * size)]
        pairs = list(mq.marginals(schema, k=2).marginals)

        def conditions(part: slice) -> None:
            for text in texts[part]:
                curator.measure(mq.where(schema, text), epsilon=0.01)

        def sums(part: slice) -> None:
            for weight in weights[part]:
                curator.measure(additive(schema, weight), epsilon=0.01)

        for name, ask in {"condition written and measured": conditions, "sum over columns": sums}.items():
            ask(slice(size))
            taken[name] = 1e3 * _each(lambda ask=ask: ask(slice(size, None))) / size  # type: ignore[misc]
        curator.measure_many(pairs, rho=1.0)
        taken["all tables of two columns"] = 1e3 * _each(lambda: curator.measure_many(pairs, rho=1.0))
    with mq.Curator(table, budget) as curator:
        session = mq.online(curator, alpha=0.02)
        fresh = [f"SELECT count(*) FROM t WHERE age < {i} GROUP BY x{i % 7}, city" for i in range(1, size // 4)]
        taken["fresh ask of a session"] = 1e3 * _each(lambda: [session.ask(text) for text in fresh]) / len(fresh)
    return taken


def _each(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def run(source: Path, size: int) -> dict[str, float]:
    """The same tasks in a process that imports from this source."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--tasks", "--size", str(size)]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="one small run")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page")
    parser.add_argument("--tasks", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tasks:
        print(json.dumps(tasks(options.size)))
        return
    runs, size = (1, 40) if options.quick else (options.runs, options.size)
    sources = {"here": SOURCE, **({} if options.against is None else {"there": options.against.resolve()})}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(runs):
        for name, source in sources.items():
            seen[name].append(run(source, size))
    figures = {}
    for task in seen["here"][0]:
        here = statistics.median(one[task] for one in seen["here"])
        line = f"{task:30} {here:9.3f} ms"
        if "there" in seen:
            there = statistics.median(one[task] for one in seen["there"])
            line += f"   there {there:9.3f} ms   ratio {here / there:.3f}"
            figures[task] = round(here / there, 3)
        print(line, flush=True)
    if options.record and figures:
        from recording import record

        record("wall", {f"{task}, CPU time against before": ratio for task, ratio in figures.items()})


if __name__ == "__main__":
    main()
