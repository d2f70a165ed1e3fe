"""What compiling and clamping cost: CPU time of this checkout, and of another beside it in the same run.

`python benchmarks/wall.py --against ../other/src` holds one process of each and lets them take short turns, so that
both see the same machine. It prints medians of the turns, and the median ratio of turns that follow each other;
`--record` keeps the ratios for the reliability page.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
TURNS = 20

T = TypeVar("T")


def tasks(size: int) -> Iterator[tuple[str, float]]:
    """Turns: a task, and the milliseconds of CPU of one question of it."""
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
        yield "first answer", 1e3 * (time.process_time() - began)
        texts = [f"age >= {20 + i % 60} AND x{i % 7} < {1 + i % 8} OR city = 'c{i % 12}'" for i in range(2 * size)]
        weights = [{f"x{j}": rng.random(10) for j in range(7)} for _ in range(2 * size)]
        pairs = list(mq.marginals(schema, k=2).marginals)
        yield from _turns(
            "condition written and measured", texts, lambda text: curator.measure(mq.where(schema, text), epsilon=0.01)
        )
        yield from _turns(
            "sum over columns", weights, lambda weight: curator.measure(additive(schema, weight), epsilon=0.01)
        )
        yield from _turns("all tables of two columns", [1.0] * TURNS, lambda rho: curator.measure_many(pairs, rho=rho))
    with mq.Curator(table, budget) as curator:
        session = mq.online(curator, alpha=0.02)
        fresh = [f"SELECT count(*) FROM t WHERE age < {i} GROUP BY x{i % 7}, city" for i in range(1, size // 4)]
        yield from _turns("fresh ask of a session", fresh, session.ask)


def _turns(task: str, questions: Sequence[T], ask: Callable[[T], object]) -> Iterator[tuple[str, float]]:
    """Every turn asks the next few questions."""
    step = max(1, len(questions) // TURNS)
    for start in range(0, len(questions) - step + 1, step):
        began = time.process_time()
        for question in questions[start : start + step]:
            ask(question)
        yield task, 1e3 * (time.process_time() - began) / step


class Process:
    """The same tasks in a process that imports from this source; it takes a turn when it is told to."""

    def __init__(self, source: Path, size: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--tasks", "--size", str(size)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def turn(self) -> tuple[str, float] | None:
        """The next turn, or None after the last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        told = json.loads(self._process.stdout.readline())
        if told is None:
            self._process.wait()
            return None
        return told[0], told[1]


def serve(size: int) -> None:
    """One turn for every line that comes in."""
    turns = tasks(size)
    for _ in sys.stdin:
        told = next(turns, None)
        print(json.dumps(told), flush=True)
        if told is None:
            return


def compared(sources: Sequence[Path], size: int, runs: int) -> dict[str, list[tuple[float, ...]]]:
    """For every task its turns, each with the time of every source; first turns warm up and are left out."""
    seen: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(runs):
        processes = [Process(source, size) for source in sources]
        begun: set[str] = set()
        while all(turns := [process.turn() for process in processes]):
            told = [turn for turn in turns if turn is not None]
            task = told[0][0]
            if task in begun or task == "first answer":
                seen.setdefault(task, []).append(tuple(took for _, took in told))
            begun.add(task)
    return seen


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
        serve(options.size)
        return
    runs, size = (1, 40) if options.quick else (options.runs, options.size)
    sources = [SOURCE] if options.against is None else [SOURCE, options.against.resolve()]
    figures = {}
    for task, turns in compared(sources, size, runs).items():
        medians = [statistics.median(times) for times in zip(*turns, strict=True)]
        line = f"{task:30} {medians[0]:9.3f} ms"
        if len(medians) > 1:
            figures[task] = round(statistics.median(here / there for here, there in turns if there > 0), 3)
            line += f"   there {medians[1]:9.3f} ms   ratio {figures[task]:.3f}"
        print(line, flush=True)
    if options.record and figures:
        from recording import record

        record("wall", {f"{task}, CPU time against before": ratio for task, ratio in figures.items()})


if __name__ == "__main__":
    main()
