"""What the tests of distances share: tables of points, brute force, and adversaries for separable weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import Curator
from maquette.curator.table import engine_of
from maquette.hypothesis import Separable
from maquette.query import Box, LinearQuery, additive
from maquette.schema import Integer, Number, Schema

Vector = NDArray[np.float64]
Adversary = Literal["min-gap", "max-gap", "random"]
ADVERSARIES: tuple[Adversary, ...] = ("min-gap", "max-gap", "random")


def cube(columns: int, levels: int) -> Schema:
    return Schema([Number(f"x{i}", 0.0, 1.0, bins=levels) for i in range(columns)])


def points(rows: int, columns: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).random((rows, columns)) ** 2


def opened(schema: Schema, rows: Vector) -> mq.PrivateTable:
    return mq.open_table({name: rows[:, i] for i, name in enumerate(schema.names)}, schema)


def curator_of(
    schema: Schema, rows: Vector, *, epsilon: float = 1.0, delta: float = 1e-9, relation: str = "add-remove"
) -> Curator:
    return Curator(opened(schema, rows), mq.Budget(epsilon=epsilon, delta=delta), relation=relation)  # type: ignore[arg-type]


def brute_force(box: Box, rows: Vector, point: Vector) -> float:
    """The average distance in units, from the raw points, clamped to the box."""
    low, high = (np.array([getattr(span, side) for span in box.spans.values()]) for side in ("low", "high"))
    scale = np.array(list(box.scales.values()))
    return float((scale * np.abs(np.clip(rows, low, high) - point)).sum(axis=1).mean())


def exact(table: mq.PrivateTable, query: LinearQuery) -> float:
    """The value behind the wall, record by record."""
    engine = engine_of(table)
    return float(sum(query.evaluate(block).sum() for block in engine.blocks())) / engine.rows


def random_sums(schema: Schema, count: int, rng: np.random.Generator) -> list[LinearQuery]:
    """Half of them sets of levels in every column, half distances to points."""
    sizes = [column.size for column in schema]
    sets = [
        additive(
            schema, {name: rng.integers(0, 2, s).astype(float) for name, s in zip(schema.names, sizes, strict=True)}
        )
        for _ in range(count // 2)
    ]
    numeric = all(isinstance(column, Integer | Number) for column in schema)
    return [*sets, *(Box(schema).distance(rng.random(len(sizes))) for _ in range(count // 2) if numeric)]


def update_sequence(  # noqa: PLR0917 -- the parts of an update sequence
    model: Separable,
    truth: Vector,
    queries: list[LinearQuery],
    alpha: float,
    adversary: Adversary,
    rng: np.random.Generator,
) -> Iterator[int]:
    """The queries of a worst sequence, until none is off by alpha; values as wrong as a valid step allows."""
    for _ in range(int(model.update_bound) + 2):
        answers = np.array([model.answer(query) for query in queries])
        gaps = np.abs(truth - answers)
        off = np.flatnonzero(gaps >= alpha)
        if not len(off):
            return
        place = {"min-gap": gaps[off].argmin(), "max-gap": gaps[off].argmax(), "random": rng.integers(len(off))}
        chosen = int(off[place[adversary]])
        model.update(queries[chosen], truth[chosen] + np.sign(answers[chosen] - truth[chosen]) * alpha * (1 - 1e-9))
        yield chosen
