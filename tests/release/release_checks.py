"""Small generated tables, their exact answers, and a seeded source of noise for tests of the releases."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

import maquette as mq
from maquette.audit.reference import Call, discrete_gaussian
from maquette.query import LinearQuery
from maquette.schema import Schema

Integers = NDArray[np.int64]

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Category("region", ["n", "e", "s"]), mq.Integer("age", 0, 39, width=10)])
BINARY = mq.Schema([mq.Boolean(f"b{i}") for i in range(5)])

BUDGETS = {
    "pure": mq.Budget(epsilon=1.0),
    "zcdp": mq.Budget(epsilon=1.0, delta=1e-6),
    "gdp": mq.Budget(epsilon=1.0, delta=1e-6, accounting="gdp"),
}


class Seeded:
    """Exact discrete laws from a numpy generator; `calls` records every request. Not private."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.calls: list[Call] = []

    def laplace(self, scale: Fraction, size: int) -> Integers:
        self.calls.append(Call("laplace", scale, size))
        stop = -math.expm1(-1 / float(scale))
        return np.asarray(self.rng.geometric(stop, size) - self.rng.geometric(stop, size), dtype=np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        self.calls.append(Call("gaussian", variance, size))
        if variance > 10**6:  # the discrete law is within 1e-6 of the rounded one
            return np.rint(self.rng.normal(0, math.sqrt(variance), size)).astype(np.int64)
        reach, ends = _gaussian_ends(float(variance))
        return np.asarray(np.searchsorted(ends, self.rng.random(size) * ends[-1], side="right") - reach, dtype=np.int64)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        self.calls.append(Call("exponential", scale, len(scores)))
        return int(np.argmax(scores / float(scale) + self.rng.gumbel(size=len(scores))))

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        self.calls.append(Call("permute_and_flip", scale, len(scores)))
        return int(np.argmax(scores / float(scale) + self.rng.exponential(size=len(scores))))


@functools.lru_cache(maxsize=64)
def _gaussian_ends(variance: float) -> tuple[int, NDArray[np.float64]]:
    reach = int(12 * math.sqrt(variance)) + 2
    return reach, np.cumsum(discrete_gaussian(np.arange(-reach, reach + 1), variance))


def records(schema: Schema, rows: int, seed: int = 0) -> NDArray[np.int64]:
    """Encoded rows with strong two-way dependence: each column leans on the one before."""
    rng = np.random.default_rng(seed)
    made = np.zeros((rows, len(schema)), dtype=np.int64)
    for i, size in enumerate(schema.shape(schema.names)):
        fresh = (size * rng.random(rows) ** 2).astype(np.int64)
        copied = made[:, i - 1] % size if i else fresh
        made[:, i] = np.where(rng.random(rows) < 0.5, fresh, copied)
    return made


@functools.lru_cache(maxsize=32)
def table_of(schema: Schema, rows: int, seed: int = 0) -> mq.PrivateTable:
    return open_records(schema, records(schema, rows, seed))


def open_records(schema: Schema, rows: NDArray[np.int64], **settings: Any) -> mq.PrivateTable:
    return mq.open_table(schema.decode(rows), schema, **settings)


def counts(schema: Schema, rows: NDArray[np.int64], columns: Sequence[str]) -> NDArray[np.int64]:
    """The exact table over `columns`, in the order given."""
    found = np.zeros(schema.shape(columns), dtype=np.int64)
    np.add.at(found, tuple(rows[:, schema.position(name)] for name in columns), 1)
    return found


def exact(query: LinearQuery, rows: NDArray[np.int64]) -> float:
    """The exact total of a query, in counts."""
    return float(query.evaluate(rows).sum())


def released(method: str, table: mq.PrivateTable, budget: mq.Budget, noise: Any, **settings: Any) -> mq.Release:
    """A release of all two-way marginals with injected noise; without a check of its model, unless asked for."""
    relation = settings.pop("relation", "add-remove")
    settings = {"check": False, **settings}
    workload = settings.pop("workload", None) or mq.marginals(table.schema, k=2)
    with mq.Curator(table, budget, relation=relation, noise=noise) as curator:
        return mq.release(curator, workload, method=method, **settings)


def rarely_missed(trials: int, chance: float, tests: int = 1) -> int:
    """How many successes of probability at least `chance` happen at least, except with probability 1e-6 in all."""
    return int(scipy.stats.binom.ppf(1e-6 / tests, trials, chance))


def covered(trials: int, confidence: float, intervals: Callable[[int], Sequence[tuple[float, float, float]]]) -> None:
    """Assert that (low, truth, high) are in order often enough, for each interval over all seeds."""
    hits = np.array([[low <= truth <= high for low, truth, high in intervals(seed)] for seed in range(trials)])
    least = rarely_missed(trials, confidence, hits.shape[1])
    assert hits.sum(axis=0).min() >= least, (hits.mean(axis=0), least / trials)
