"""A mixture of products fitted to rows by expectation maximisation: no privacy, for measuring what sampling adds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maquette import Schema
from maquette.hypothesis import Mixture


def fitted(schema: Schema, rows: NDArray[np.integer], components: int, steps: int) -> Mixture:
    """A few steps from random tables."""
    rng, sizes = np.random.default_rng(0), schema.shape(schema.names)
    means = [np.bincount(rows[:, i], minlength=size) / len(rows) for i, size in enumerate(sizes)]
    tables = [(rng.dirichlet(np.ones(len(mean)), components) + mean) / 2 for mean in means]
    weights = np.full(components, 1 / components)
    for _ in range(steps):
        logs = np.log(weights) + sum(np.log(table + 1e-12).T[rows[:, i]] for i, table in enumerate(tables))
        parts = np.exp(logs - logs.max(axis=1, keepdims=True))
        parts /= parts.sum(axis=1, keepdims=True)
        weights = parts.mean(axis=0)
        for i, mean in enumerate(means):
            order = np.argsort(rows[:, i], kind="stable")
            starts = np.flatnonzero(np.diff(rows[order, i], prepend=-1))
            sums = np.zeros((len(mean), components))
            sums[rows[order[starts], i]] = np.add.reduceat(parts[order], starts)
            made = sums.T + 1e-3 * mean
            tables[i] = made / made.sum(axis=1, keepdims=True)
    return Mixture(schema, weights, [((name,), table) for name, table in zip(schema.names, tables, strict=True)])
