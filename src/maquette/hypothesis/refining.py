"""Refined records: values moved, one at a time, to where the tables of the records fall short of the model's.

Low-variance draws keep the tables that a model holds together. Tables across its parts still have some of the noise of
independent draws, which no budget was spent on. Here every value of every record is offered its column's other levels,
and takes the level that most reduces the sum of squared errors of all tables of two and three columns that contain it.
No move increases that sum. Three sweeps over the records leave about half of the distance between the three-way tables
of the records and the model's, and a quarter of that of the two-way tables. The idea is that of the gradual updates of
PrivSyn (Zhang et al. 2021), with single values instead of whole records, and tables of a model instead of noisy ones.

Privacy: post-processing; only the model is read. What the model calls impossible stays so: columns of impossible
combinations keep what was drawn, and no value moves into a cell of probability zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis.kernels import compiled_kernel
from maquette.schema import Schema

SWEEPS = 3
_FEW = 100  # rows below which tables are mostly empty, and loading the compiled kernel takes longer than it is worth
_WORK = 2**29  # looks at tables, of all sweeps: a few seconds
_AT_ONCE = 32  # levels read in the time of a look
_TABLES = 2000  # tables that a model is asked for
_CELLS = 2**24  # numbers of all tables
_LARGE = 2**18  # a table with more cells is left out
_NEVER = 1e6  # the error of a cell of probability zero, so that nothing moves there

Codes = NDArray[np.int32]
Sets = list[tuple[int, ...]]


class Tabulated(Protocol):
    """A distribution that can be asked for its tables."""

    @property
    def schema(self) -> Schema:
        """The universe."""

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities over the cells of these columns."""


def refined(model: Tabulated, records: Codes) -> Codes:
    """The records with tables closer to the model's; as they are if that would take long.

    With many records it would, and there is little to gain: the error of rounding falls faster than that of the model.
    """
    schema = model.schema
    sets = _chosen(schema.shape(schema.names), len(records))
    if not sets:
        return records
    fixed = {name for columns, _ in (*schema.zeros, *getattr(model, "zeros", ())) for name in columns}
    free = [position for position, name in enumerate(schema.names) if name not in fixed]
    wanted = {each: _wanted(model, each, len(records)) for each in sets}
    columns = np.ascontiguousarray(records.T)
    for _ in range(SWEEPS):
        for position in free:
            about = {each: table for each, table in wanted.items() if position in each}
            if about:
                _refine(columns, position, about)
    return np.ascontiguousarray(columns.T)


def _chosen(sizes: Sequence[int], rows: int) -> Sets:
    """All pairs and triples that are not too large; only pairs, or none, where that would take long.

    Up to three columns none: those are drawn close together. For a handful of rows none.
    """
    columns = range(len(sizes))
    for most in (3, 2) if len(sizes) > 3 and rows >= _FEW else ():
        if sum(math.comb(len(sizes), k) for k in range(2, most + 1)) > _TABLES:
            continue
        every = [each for k in range(2, most + 1) for each in combinations(columns, k)]
        sets = [each for each in every if _cells(sizes, each) <= _LARGE]
        looks = sum(1 + sizes[position] / _AT_ONCE for each in sets for position in each)
        if SWEEPS * rows * looks <= _WORK and sum(_cells(sizes, each) for each in sets) <= _CELLS:
            return sets
    return []


def _cells(sizes: Sequence[int], columns: Sequence[int]) -> int:
    return math.prod(sizes[position] for position in columns)


def _wanted(model: Tabulated, columns: Sequence[int], rows: int) -> NDArray[np.float32]:
    """The expected counts; far below zero errors cannot be, so a cell of probability zero is marked as never wanted."""
    shares = model.marginal([model.schema.names[position] for position in columns])
    return np.where(shares > 0.0, rows * shares, -_NEVER).astype(np.float32)


def _refine(columns: Codes, position: int, wanted: dict[tuple[int, ...], NDArray[np.float32]]) -> None:
    """One sweep over the values of one column."""
    levels = next(t.shape[each.index(position)] for each, t in wanted.items())
    tables = [-np.moveaxis(table, each.index(position), -1).reshape(-1) for each, table in wanted.items()]
    others = [[p for p in each if p != position] for each in wanted]
    spans = [table.shape[each.index(rest[-1])] for (each, table), rest in zip(wanted.items(), others, strict=True)]
    starts = np.cumsum([0, *map(len, tables[:-1])])
    first = np.array([rest[0] if len(rest) == 2 else -1 for rest in others])
    last = np.array([rest[-1] for rest in others])
    compiled_kernel(_moved)(
        columns, position, levels, np.concatenate(tables), starts.astype(np.int64), first, last, np.array(spans)
    )


def _moved(  # noqa: PLR0917 -- numba takes positional arguments only
    columns: Any, position: Any, levels: Any, errors: Any, starts: Any, first: Any, last: Any, spans: Any
) -> None:
    """Move values of a column. `errors` holds minus the expected counts, table after table, the column's axis last.

    Table t has the axes first[t] (none if negative), last[t], of spans[t] levels, and the column.
    """
    rows, count = columns.shape[1], len(starts)
    for t in range(count):
        for r in range(rows):
            outer = columns[first[t], r] * spans[t] if first[t] >= 0 else 0
            errors[starts[t] + (outer + columns[last[t], r]) * levels + columns[position, r]] += 1.0
    place = np.empty(count, dtype=np.int64)
    sums = np.empty(levels, dtype=np.float32)
    for r in range(rows):
        sums[:] = 0.0
        for t in range(count):
            outer = columns[first[t], r] * spans[t] if first[t] >= 0 else 0
            place[t] = starts[t] + (outer + columns[last[t], r]) * levels
            run = errors[place[t] : place[t] + levels]
            for level in range(levels):
                sums[level] += run[level]
        held = columns[position, r]
        best, least = held, sums[held] - 1.001 * count
        for level in range(levels):
            if level != held and sums[level] < least:
                best, least = level, sums[level]
        if best != held:
            columns[position, r] = best
            for t in range(count):
                errors[place[t] + held] -= 1.0
                errors[place[t] + best] += 1.0
