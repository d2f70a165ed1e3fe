"""Raking: new weights for public records, so that they have given tables and otherwise stay as they were.

Iterative proportional fitting (Deming and Stephan 1940): every record's weight is multiplied by wanted / present
probability of its cell, table after table, until the tables change no more. Among all weights with these tables it
comes to the one nearest to the first in relative entropy, where one exists. Factors are bounded, because a noisy table
and a short list of records may ask for the impossible. Public computation: records are public, tables are released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis import WeightedRecords
from maquette.schema import Schema

SWEEPS = 15
FACTOR = 20.0  # largest change of a weight by one table
SETTLED = 1e-4  # mean change of the tables by a sweep, below which it ends

Values = NDArray[np.float64]
Columns = tuple[str, ...]


def raked(
    schema: Schema,
    records: NDArray[np.int32],
    weights: Values,
    wanted: Mapping[Columns, Values],
    groups: Mapping[str, NDArray[np.int64]],
) -> WeightedRecords:
    """Records with weights that give the `wanted` probabilities; a column's codes are looked up in its `groups`."""
    codes = {columns: _codes(schema, records, columns, table.shape, groups) for columns, table in wanted.items()}
    found = np.asarray(weights, dtype=np.float64).copy()
    for _ in range(SWEEPS):
        moved = 0.0
        for columns, table in wanted.items():
            target = table.reshape(-1)
            present = np.bincount(codes[columns], weights=found, minlength=target.size)
            moved += 0.5 * float(np.abs(present - target).sum())
            factor = np.clip(target / np.maximum(present, 1e-300), 1 / FACTOR, FACTOR)
            found *= factor[codes[columns]]
            found /= found.sum()
        if moved <= SETTLED * max(1, len(wanted)):
            break
    return WeightedRecords(schema, records, weights=found, step="exact")


def _codes(
    schema: Schema,
    records: NDArray[np.int32],
    columns: Columns,
    shape: Sequence[int],
    groups: Mapping[str, NDArray[np.int64]],
) -> NDArray[np.int64]:
    """The cell of every record in a table of groups."""
    made = np.zeros(len(records), dtype=np.int64)
    for name, size in zip(columns, shape, strict=True):
        own = records[:, schema.position(name)]
        made = made * size + (groups[name][own] if size < schema[name].size else own)
    return made
