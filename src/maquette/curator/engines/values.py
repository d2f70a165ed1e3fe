"""Values beside codes: one whole number per record for every column whose bins hold several values.

A missing value is the mark `MISSING`, which lies outside every grid. `clamped` is the only way from values to what is
added up, for every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.api import Amount
from maquette.errors import QueryError
from maquette.schema import Schema

MISSING = -(2**31)
MAX_CELLS = 2**26  # of a table of sums

Values = NDArray[np.int32]


def valued(schema: Schema) -> tuple[int, ...]:
    """The positions of the columns whose values are kept: those with a grid."""
    return tuple(i for i, column in enumerate(schema) if column.value_grid is not None)


def values_sql(schema: Schema, identifiers: Mapping[str, str]) -> list[str]:
    """The select items v0, v1, ..., named by position, from the SQL identifier of every column."""
    return [
        f"CAST(coalesce({schema.columns[i].value_sql(identifiers[schema.names[i]])}, {MISSING}) AS INTEGER) AS v{i}"
        for i in valued(schema)
    ]


def checked(schema: Schema, amount: Amount) -> int:
    """The position of the column that an amount adds up; refused if its values are not kept."""
    position = schema.position(amount.column)
    if position not in valued(schema):
        raise QueryError(f"column {amount.column!r} has no values beside its levels", advice="add up its levels")
    return position


def clamped(values: NDArray[Any], amount: Amount) -> NDArray[np.int64]:
    """What each record adds: its value, clamped, less the centre; 0 if it is missing."""
    known = np.clip(values.astype(np.int64), amount.low, amount.high) - amount.centre
    return np.where(values == MISSING, 0, known)


def added(
    schema: Schema, columns: Sequence[str], blocks: Iterable[tuple[NDArray[np.int32], NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """The sum of amounts in every cell of `columns`, over records and their amounts; exact."""
    cells = schema.cells(columns)
    if cells > MAX_CELLS:
        raise QueryError(f"{cells:,} cells of sums are more than {MAX_CELLS:,}", advice="ask for fewer columns")
    shape, positions = schema.shape(columns), [schema.position(name) for name in columns]
    total = np.zeros(cells, dtype=np.int64)
    for records, amounts in blocks:
        flat = np.zeros(len(records), dtype=np.int64)
        for position, size in zip(positions, shape, strict=True):
            flat = flat * size + records[:, position]
        np.add.at(total, flat, amounts)
    table = total.reshape(shape)
    table.flags.writeable = False
    return table
