"""Low-variance records from a mixture of products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis.sampling import Indices, decode, located, snake, systematic

if TYPE_CHECKING:
    from maquette.hypothesis.mixture import Mixture

JOINT = 2**20  # universes up to this many cells are sampled as a whole


def sample_mixture(model: Mixture, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Encoded records, in random order."""
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows", expected="a whole number, 0 or more")
    schema = model.schema
    sizes = schema.shape(schema.names)
    if schema.size <= JOINT:
        records = decode(np.arange(schema.size), sizes)
        order = snake(records, sizes)
        return records[order[systematic(model.marginal(schema.names).reshape(-1)[order], rows, rng)]]
    component = np.sort(systematic(model.weights, rows, rng))
    counts = np.bincount(component, minlength=model.components)
    starts = np.cumsum(counts) - counts
    levels = np.empty((len(sizes), rows), dtype=np.int32)
    for block, table in zip(model.blocks, model.tables.values(), strict=True):
        rank = _shuffled(component, rng) - starts[component]
        steps = (rank + rng.random(len(counts))[component]) / counts[component]
        levels[list(block.positions)] = decode(located(table, component, steps), block.shape).T
    return np.ascontiguousarray(levels[:, rng.permutation(rows)].T)


def _shuffled(group: Indices, rng: np.random.Generator) -> Indices:
    """A permutation that keeps every place in its group; groups are stretches."""
    return np.argsort(group + rng.random(len(group)))
