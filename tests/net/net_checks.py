"""A universe of three points, every small table over it, and what a mechanism did on one of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import maquette as mq
from maquette.audit.reference import Call, ScriptedNoise, exponential_law, permute_and_flip_law
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LinearQuery
from maquette.schema import Category, Schema

SCHEMA = Schema([Category("x", ["p", "q", "r"])])
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)
QUERIES = [LinearQuery.product(SCHEMA, {"x": w}) for w in ([1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0.5, 1])]

Counts = tuple[int, int, int]


def tables(rows: int) -> list[Counts]:
    """Every table of so many rows, as counts."""
    chosen = itertools.combinations_with_replacement(range(3), rows)
    return [(c.count(0), c.count(1), c.count(2)) for c in chosen]


def replaced(counts: Counts) -> Iterator[Counts]:
    """Every table with one row replaced."""
    for i, j in itertools.permutations(range(3), 2):
        if counts[i]:
            moved = list(counts)
            moved[i], moved[j] = moved[i] - 1, moved[j] + 1
            yield (moved[0], moved[1], moved[2])


@functools.cache
def open_counts(counts: Counts) -> mq.PrivateTable:
    return mq.open_table({"x": [level for level, n in zip("pqr", counts, strict=True) for _ in range(n)]}, SCHEMA)


class Recording(ScriptedNoise):
    """Scripted noise that also keeps the law of every selection."""

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(values)
        self.scores: list[np.ndarray] = []
        self.laws: list[np.ndarray] = []

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        self._keep(scores, exponential_law(scores, float(scale)))
        return super().exponential(scores, scale)

    def permute_and_flip(self, scores: np.ndarray, scale: Fraction) -> int:
        self._keep(scores, permute_and_flip_law(scores, float(scale)))
        return super().permute_and_flip(scores, scale)

    def _keep(self, scores: np.ndarray, law: np.ndarray) -> None:
        self.scores.append(scores.copy())
        self.laws.append(law)


class Seen(NamedTuple):
    """What a mechanism returned, the noise it asked for, its scores and exact laws, and what it charged."""

    result: Any
    calls: list[Call]
    scores: list[np.ndarray]
    laws: list[np.ndarray]
    charged: list[float]
    described: list[str]


def observe(
    counts: Counts,
    ask: Callable[[mq.Curator], Any],
    *,
    relation: Any = "replace",
    budget: mq.Budget = PURE,
    script: Sequence[int] = (0,) * 64,
) -> Seen:
    """Run a mechanism on one table with scripted noise and scripted choices."""
    noise = Recording(script)
    with mq.Curator(open_counts(counts), budget, relation=relation, noise=noise) as curator:
        result = ask(curator)
        charges = list(curator.ledger.charges())
    amounts = [charge.units / UNITS_PER_ONE for charge in charges]
    return Seen(result, noise.calls, noise.scores, noise.laws, amounts, [charge.description for charge in charges])


def fractions(counts: Counts) -> np.ndarray:
    """The exact answers of a table to QUERIES."""
    points = np.arange(3)[:, None]
    return np.array([q.evaluate(points) @ np.array(counts) / sum(counts) for q in QUERIES])
