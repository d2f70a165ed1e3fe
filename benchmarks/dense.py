"""Speed of dense multiplicative weights, beside a memory copy and plain numpy log-weights in the same run.

python benchmarks/dense.py            up to 5e7 cells
python benchmarks/dense.py --large    also 2e8 cells (needs 5 GB of memory)

A pair is one update and one answer to another question: at best every cell is read once and written once, as a copy
does. "share" is the copy's time over the pair's. Turns alternate and the best of each is taken, so that what else the
machine does weighs on all alike; the copy is the faster of one thread and two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from maquette.hypothesis import MultiplicativeWeights
from maquette.query import LinearQuery
from maquette.schema import Integer, Schema

SIZES = {
    "5.2e5": (8, 8, 8, 8, 8, 4, 4),
    "4.2e6": (8, 8, 8, 8, 8, 8, 4, 4),
    "5.0e7": (12, 8, 8, 8, 8, 8, 4, 4, 8),
    "2.0e8": (12, 8, 8, 8, 8, 8, 8, 4, 4, 4),
}
ROUNDS = 7


def timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def universe(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])


def questions(schema: Schema) -> dict[str, tuple[LinearQuery, LinearQuery]]:
    """Pairs that change and weigh every cell, a part of them, or leading columns only."""
    first, middle, last = schema.names[0], schema.names[len(schema) // 2], schema.names[-1]

    def ramp(name: str) -> np.ndarray:
        return np.linspace(0.1, 0.9, schema[name].size)

    def half(name: str) -> np.ndarray:
        return np.arange(schema[name].size) < schema[name].size // 2

    def product(**factors: np.ndarray) -> LinearQuery:
        return LinearQuery.product(schema, factors)

    second = schema.names[-2]
    return {
        "weights, every cell": (product(**{last: ramp(last), first: ramp(first)}), product(**{second: ramp(second)})),
        "predicate, trailing columns": (product(**{last: half(last)}), product(**{second: half(second)})),
        "3-way predicate": (
            product(**{first: half(first), middle: half(middle), last: half(last)}),
            product(**{first: half(first), second: half(second), last: half(last)}),
        ),
        "leading columns": (product(**{first: half(first)}), product(**{schema.names[1]: ramp(schema.names[1])})),
    }


def copies(cells: int) -> list[Callable[[], object]]:
    source, target = np.ones(cells), np.ones(cells)
    pool = ThreadPoolExecutor(2)

    def split() -> None:
        halves = (slice(0, cells // 2), slice(cells // 2, cells))
        list(pool.map(lambda part: np.copyto(target[part], source[part]), halves))

    return [lambda: np.copyto(target, source), split]


class PlainNumpy:
    """Log-weights, exp, normalise, one broadcast product per question."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.logs = np.zeros(schema.shape(schema.names))

    def pair(self, updated: LinearQuery, asked: LinearQuery) -> float:
        self.logs += 0.04 * self._broadcast(updated)
        weights = np.exp(self.logs - self.logs.max())
        weights /= weights.sum()
        return float((weights * self._broadcast(asked)).sum())

    def _broadcast(self, query: LinearQuery) -> np.ndarray:
        touched = query.columns
        return query.weights().reshape([self.schema[n].size if n in touched else 1 for n in self.schema.names])


def measure(label: str, sizes: tuple[int, ...], table: Table) -> None:
    schema = universe(sizes)
    model = MultiplicativeWeights(schema, alpha=0.01)
    copiers, asked = copies(schema.size), questions(schema)
    times: dict[str, list[float]] = {name: [] for name in ("copy", *asked)}
    for updated, other in asked.values():
        model.update(updated, 1.0)
        model.answer(other)
    for _ in range(ROUNDS):
        times["copy"].append(min(timed(work) for work in copiers))
        for name, (updated, other) in asked.items():
            model.answer(updated)
            times[name].append(timed(lambda u=updated, o=other: (model.update(u, 1.0), model.answer(o))))
    copy = min(times["copy"])
    plain = PlainNumpy(schema)
    slow = {name: min(timed(lambda p=pair: plain.pair(*p)) for _ in range(2)) for name, pair in asked.items()}
    for name in asked:
        best = min(times[name])
        table.add_row(
            label,
            name,
            f"{1000 * best:.2f}",
            f"{1000 * copy:.2f}",
            f"{16 * schema.size / copy / 1e9:.1f}",
            f"{100 * copy / best:.0f}%",
            f"{100 * np.median(times['copy']) / np.median(times[name]):.0f}%",
            f"{slow[name] / best:.0f}x",
            f"{1e9 * best / schema.size:.2f}",
        )


def marginals_and_samples(sizes: tuple[int, ...], table: Table) -> None:
    schema = universe(sizes)
    model, rng = MultiplicativeWeights(schema, step="exact"), np.random.default_rng(0)
    names = schema.names
    for columns in (names[:3], (names[0], names[len(names) // 2], names[-1]), names[-3:]):
        model.marginal(columns)
        seconds = min(timed(lambda c=columns: model.marginal(c)) for _ in range(3))
        factors = rng.random(schema.shape(columns))
        step = min(
            timed(lambda c=columns, f=factors: (model.scale_marginal(c, f), model.marginal(c))) for _ in range(3)
        )
        table.add_row(f"{schema.size:.1e}", " x ".join(columns), f"{1000 * seconds:.1f}", f"{1000 * step:.1f}", "")
    rows = timed(lambda: model.sample(1_000_000, rng))
    table.add_row(f"{schema.size:.1e}", "a million rows", "", "", f"{rows:.2f}")


def main() -> None:
    console = Console(width=150)
    labels = [label for label in SIZES if label != "2.0e8" or "--large" in sys.argv]
    head = ("cells", "pair", "ms", "copy ms", "copy GB/s", "share", "share of medians", "numpy / ours", "ns per cell")
    table = Table(*head, title="one update and one answer")
    for label in labels:
        measure(label, SIZES[label], table)
    console.print(table)
    table = Table("cells", "", "marginal ms", "scale and marginal ms", "sample s", title="whole marginals, sampling")
    marginals_and_samples((8,) * 8, table)
    console.print(table)


if __name__ == "__main__":
    main()
