"""Low-variance records from a mixture of products.

Every component gets its share of the records, rounded, and within it every cell of every block its share of those,
rounded; blocks are then shuffled independently within the component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis.kernels import Values
from maquette.hypothesis.sampling import Indices, decode, snake, systematic

if TYPE_CHECKING:
    from maquette.hypothesis.mixture import Mixture

JOINT = 2**16  # universes up to this many cells are sampled as a whole


def sample_mixture(
    model: Mixture, rows: int, rng: np.random.Generator, start: float | None = None
) -> NDArray[np.int32]:
    """Encoded records, in random order; `start` is that of the components, as in `systematic`."""
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows", expected="a whole number, 0 or more")
    schema = model.schema
    sizes = schema.shape(schema.names)
    if schema.size <= JOINT:
        records = decode(np.arange(schema.size), sizes)
        order = snake(records, sizes)
        return records[order[systematic(model.marginal(schema.names).reshape(-1)[order], rows, rng, start)]]
    counts = np.bincount(systematic(model.weights, rows, rng, start), minlength=model.components)
    # 16-bit numbers are radix sorted, which is far faster.
    component = np.repeat(np.arange(len(counts)), counts).astype(np.uint16 if len(counts) <= 2**16 else np.int64)
    levels = np.empty((len(sizes), rows), dtype=np.int32)
    component = rng.permutation(component)
    for block, table in zip(model.blocks, model.tables.values(), strict=True):
        order = rng.permutation(rows)
        order = order[np.argsort(component[order], kind="stable")]  # by component, in random order within each
        drawn = np.repeat(np.tile(np.arange(block.cells), len(counts)), _shares(table, counts, rng).reshape(-1))
        levels[np.array(block.positions)[:, None], order] = decode(drawn, block.shape).T
    return np.ascontiguousarray(levels.T)


def _shares(table: Values, counts: Indices, rng: np.random.Generator) -> Indices:
    """How often each cell appears in each component: its share of the component's count, rounded down or up."""
    ends = np.cumsum(table, axis=1)
    ends *= (counts / ends[:, -1])[:, None]
    reached = np.ceil(ends - rng.random((len(counts), 1))).astype(np.int64)
    reached = np.minimum(np.maximum(reached, 0), counts[:, None])
    reached[ends == ends[:, -1:]] = np.repeat(counts, (ends == ends[:, -1:]).sum(axis=1))
    return np.diff(reached, axis=1, prepend=0)
