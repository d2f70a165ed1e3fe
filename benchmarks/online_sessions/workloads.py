"""Streams of questions: tables, pools of distinct questions with their exact counts, and Zipf asks over them.

Everything here is public but for the exact counts, which are test data: they are counted by numpy outside the wall and
only ever compared with what was released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import PrivateTable
from maquette.query import LinearQuery
from offline import ADULT, generated

Integers = NDArray[np.int64]
Held = tuple[tuple[int, tuple[int, ...]], ...]  # the levels held of each column, by position
Sizes = dict[str, int]

POOL = 25_000
SMALL = {"person": 2, "age": 4, "region": 4, "status": 4}
SMALL_ROWS = 1_000_000
WIDE = {f"c{i}": 4 for i in range(14)}
WIDE_ROWS = 100_000


class Workload:
    """A table and a fixed pool of distinct questions, each a conjunction of "column in levels"."""

    def __init__(self, name: str, sizes: Sizes, rows: Integers, pool: list[Held], *, pure: bool = False) -> None:
        self.name = name
        self.schema = mq.Schema([mq.Integer(column, 0, size - 1) for column, size in sizes.items()])
        self.pool = pool
        self.pure = pure
        self.rows = len(rows)
        self._rows = rows
        self._questions: dict[int, LinearQuery] = {}

    @cached_property
    def table(self) -> PrivateTable:
        return mq.open_table({name: self._rows[:, i] for i, name in enumerate(self.schema.names)}, self.schema)

    def curator(self, ledger: Path | None = None) -> mq.Curator:
        """A curator with more budget than any strategy needs: what is compared is what they spend."""
        budget = mq.Budget(epsilon=5_000.0) if self.pure else mq.Budget(rho=5_000.0, delta=1e-9)
        return mq.Curator(self.table, budget, ledger=ledger)

    def question(self, number: int) -> LinearQuery:
        """A question of the pool, made once: its canonical form takes longer than most answers."""
        if number not in self._questions:
            factors = {}
            for position, levels in self.pool[number]:
                weights = np.zeros(self.schema.columns[position].size)
                weights[list(levels)] = 1.0
                factors[self.schema.names[position]] = weights
            self._questions[number] = LinearQuery.product(self.schema, factors)
            _ = self._questions[number].key
        return self._questions[number]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The exact answers, in rows."""
        tables: dict[tuple[int, ...], Integers] = {}
        exact = np.empty(len(self.pool), dtype=np.int64)
        for number, held in enumerate(self.pool):
            columns = tuple(position for position, _ in held)
            if columns not in tables:
                shape = tuple(self.schema.columns[position].size for position in columns)
                cells = np.ravel_multi_index([self._rows[:, i] for i in columns], shape)
                tables[columns] = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
            exact[number] = tables[columns][np.ix_(*(levels for _, levels in held))].sum()
        return exact

    def stream(self, asks: int, zipf: float, seed: int) -> Stream:
        """Asks drawn with probability proportional to 1 / rank^zipf, ranks dealt at random."""
        rng = np.random.default_rng([seed, asks])
        weights = 1.0 / np.arange(1, len(self.pool) + 1) ** zipf
        ranks = rng.choice(len(self.pool), size=asks, p=weights / weights.sum())
        drawn = rng.permutation(len(self.pool))[ranks]
        numbers, first = np.unique(drawn, return_index=True)
        order = np.argsort(first)
        return Stream(asks, numbers[order], first[order])


@dataclass(frozen=True)
class Stream:
    """The distinct questions of a stream in the order of their first asks, and when those were (from zero).

    Every strategy repeats a recorded answer for nothing, so the repeats in between need not be asked.
    """

    asks: int
    numbers: Integers
    first: Integers


def cells(sizes: Sizes, most: int) -> list[Held]:
    """Every cell of every marginal of at most so many columns."""
    levels = list(sizes.values())
    return [
        tuple(zip(columns, ((level,) for level in cell), strict=True))
        for k in range(1, most + 1)
        for columns in itertools.combinations(range(len(levels)), k)
        for cell in itertools.product(*(range(levels[i]) for i in columns))
    ]


def some_cells(sizes: Sizes, most: int) -> list[Held]:
    """A fixed choice among them."""
    everything = cells(sizes, most)
    chosen = np.random.default_rng(1).choice(len(everything), size=min(POOL, len(everything)), replace=False)
    return [everything[i] for i in np.sort(chosen)]


def in_sets(sizes: Sizes) -> list[Held]:
    """For 1 to 3 columns, a non-empty proper subset of the levels of each; column sets are equally likely."""
    rng = np.random.default_rng(2)
    levels = list(sizes.values())
    sets = [c for k in (1, 2, 3) for c in itertools.combinations(range(len(levels)), k)]
    found: dict[Held, None] = {}
    while len(found) < POOL:
        columns = sets[rng.integers(len(sets))]
        found[tuple((i, _subset(rng, levels[i])) for i in columns)] = None
    return list(found)


def _subset(rng: np.random.Generator, levels: int) -> tuple[int, ...]:
    mask = int(rng.integers(1, 2**levels - 1))
    return tuple(i for i in range(levels) if mask >> i & 1)


def halves(sizes: Sizes, fewest: int, most: int) -> list[Held]:
    """For some of the columns, any half of the levels of each."""
    rng = np.random.default_rng(5)
    levels = list(sizes.values())
    found: dict[Held, None] = {}
    while len(found) < POOL:
        columns = np.sort(rng.choice(len(levels), size=rng.integers(fewest, most + 1), replace=False))
        found[tuple((int(i), _half(rng, levels[i])) for i in columns)] = None
    return list(found)


def _half(rng: np.random.Generator, levels: int) -> tuple[int, ...]:
    return tuple(int(level) for level in np.sort(rng.choice(levels, size=levels // 2, replace=False)))


def conjunctions(sizes: Sizes) -> list[Held]:
    """Every choice of a non-empty subset of the levels of each column, but for the one that holds always."""
    choices = []
    for position, size in enumerate(sizes.values()):
        subsets = [tuple(i for i in range(size) if mask >> i & 1) for mask in range(1, 2**size)]
        choices.append([((position, subset),) if len(subset) < size else () for subset in subsets])
    return [held for parts in itertools.product(*choices) if (held := sum(parts, ()))]


def mixture(rows: int, sizes: Sizes, groups: int = 12) -> Integers:
    """Rows of a few hidden groups, each with a skewed law of its own for every column."""
    rng = np.random.default_rng(3)
    group = rng.choice(groups, size=rows, p=rng.dirichlet(np.full(groups, 2.0)))
    columns = []
    for size in sizes.values():
        cumulative = rng.dirichlet(np.full(size, 0.6), groups).cumsum(axis=1)
        columns.append((rng.random(rows)[:, None] > cumulative[group, :-1]).sum(axis=1))
    return np.stack(columns, axis=1).astype(np.int64)


def _rows(data: str, name: str, sizes: Sizes, substitute: Callable[[], Integers]) -> Integers:
    path = Path(data) / name / f"{name}.csv"
    if not data or not path.exists():
        return substitute()
    names = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
    rows = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1)
    return rows[:, [names.index(column) for column in sizes]] if name == "adult" else rows


def census(data: str, sizes: Sizes) -> Integers:
    """Columns of adult; without its file, rows are generated."""
    return _rows(data, "adult", sizes, lambda: mixture(48_842, sizes))


def load(name: str, data: str) -> Workload:
    """A workload by name; without its file, rows are generated."""
    nltcs = {f"c{i}": 2 for i in range(16)}
    match name:
        case "adult cells" | "adult IN-sets":
            rows = _rows(data, "adult", ADULT, lambda: mixture(48_842, ADULT))
            pool = cells(ADULT, 3) if name == "adult cells" else in_sets(ADULT)
            return Workload(name, ADULT, rows, pool)
        case "nltcs 1-3-way" | "nltcs 1-5-way":
            rows = _rows(data, "nltcs", nltcs, lambda: generated(21_574, 16))
            pool = cells(nltcs, 3) if name == "nltcs 1-3-way" else some_cells(nltcs, 5)
            return Workload(name, nltcs, rows, pool)
        case "128 cells":
            return Workload(name, SMALL, mixture(SMALL_ROWS, SMALL), conjunctions(SMALL), pure=True)
        case "wide conjunctions":
            return Workload(name, WIDE, mixture(WIDE_ROWS, WIDE, groups=1), halves(WIDE, 2, 4), pure=True)
    raise ValueError(name)


NAMES = ("adult cells", "adult IN-sets", "nltcs 1-3-way", "nltcs 1-5-way", "128 cells", "wide conjunctions")
