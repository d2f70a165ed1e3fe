"""Random universes: schemas of all kinds with odd names, and records that are interesting to questions."""

from __future__ import annotations

import datetime as dt

import numpy as np

from maquette.audit.reference.edges import LEVELS, NAMES
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema

Record = tuple[int, ...]  # the code of each column

SHAPES = ("tiny", "small", "two long", "many", "hundreds", "wide", "yes or no", "graph")
_CHANCES = (0.2, 0.31, 0.17, 0.09, 0.01, 0.08, 0.09, 0.05)


def universe(rng: np.random.Generator) -> Schema:
    """A schema: from one column with one level to hundreds of columns, or columns too wide to count together."""
    shape = SHAPES[rng.choice(len(SHAPES), p=_CHANCES)]
    names = iter(_names(rng))
    if shape == "tiny":
        return Schema([_column(rng, next(names), 4) for _ in range(rng.integers(1, 3))])
    if shape == "small":
        return Schema([_column(rng, next(names), 9) for _ in range(rng.integers(2, 6))])
    if shape == "two long":
        sizes = [int(rng.integers(60, 130)) for _ in range(2)]
        return Schema([Integer(next(names), 0, size - 1, nullable=_rarely(rng)) for size in sizes])
    if shape == "many":
        return Schema([_column(rng, next(names), 4) for _ in range(rng.integers(7, 20))])
    if shape == "hundreds":
        return Schema([Boolean(f"c{i}") for i in range(rng.integers(100, 201))])
    if shape == "wide":  # more than 2^22 cells together, so that rows are read, not counted
        return Schema([Integer(next(names), -5, int(rng.integers(160, 200))) for _ in range(rng.integers(3, 5))])
    if shape == "graph":
        from maquette.query import edge_schema

        return edge_schema(int(rng.integers(2, 6)), weighted=int(rng.integers(0, 4)))
    return Schema([Boolean(next(names)) for _ in range(rng.integers(2, 8))])


def record(rng: np.random.Generator, schema: Schema) -> Record:
    """A random point of the universe; ends and null levels are more frequent than others."""
    return tuple(
        int(rng.choice([0, size - 1])) if rng.random() < 0.4 else int(rng.integers(size))
        for size in (column.size for column in schema)
    )


def _names(rng: np.random.Generator) -> list[str]:
    odd = [NAMES[i] for i in rng.permutation(len(NAMES))]
    plain = [f"c{i}" for i in range(24)]
    chosen = odd if rng.random() < 0.5 else plain
    seen, kept = set[str](), []
    for name in [*chosen, *plain]:
        if name.casefold() not in seen:  # engines ignore the case of column names
            seen.add(name.casefold())
            kept.append(name)
    return kept


def _column(rng: np.random.Generator, name: str, most: int) -> Column:
    kind, size, nullable = rng.integers(5), int(rng.integers(1, most + 1)), _rarely(rng)
    if kind == 0:
        return Boolean(name, nullable=nullable)
    if kind == 1:
        levels = [LEVELS[i] for i in rng.choice(len(LEVELS), size=size, replace=False)]
        return Category(name, levels, nullable=nullable, other="other" if rng.random() < 0.3 else None)
    if kind == 2:
        low, width = int(rng.integers(-5, 5)), int(rng.integers(1, 4))
        return Integer(name, low, low + size * width - 1, width=width, nullable=nullable)
    if kind == 3:
        return Number(name, edges=[0.5 * i - 1 for i in range(size + 1)], nullable=nullable)
    start = dt.date(2024, 2, 27)
    return Date(name, start, start + dt.timedelta(days=size - 1), nullable=nullable)


def _rarely(rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.3)
