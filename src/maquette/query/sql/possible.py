"""Possible: the groups of a table into which a row can fall at all, by the condition and the groups alone.

WHERE region IN ('north', 'south') GROUP BY region has two groups; the others hold no row, whatever the table, and what
was measured of them is noise. So have the months of another year. Nothing here depends on rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Buckets, Marginal
from maquette.schema import Schema

MOST = 2**22  # combinations of levels that are looked at; beyond, every group is taken to be possible

Flags = NDArray[np.bool_]


def possible(schema: Schema, axes: Sequence[Axis], keep: LinearQuery) -> Flags:
    """For every cell of `axes`, whether a row that `keep` keeps can fall into it."""
    shape = Marginal(schema, axes).shape
    if not shape:  # a total is told also of no rows
        return np.ones((), dtype=bool)
    touched = [_columns(axis) for axis in axes]
    asked = _conditions(keep, {name for names in touched for name in names})
    bound = [i for i, names in enumerate(touched) if _shared(names, [asked.columns, *touched[:i], *touched[i + 1 :]])]
    columns = [name for name in schema.names if name in {*asked.columns, *(n for i in bound for n in touched[i])}]
    if schema.cells(columns) > MOST:
        return np.ones(shape, dtype=bool)
    held = asked.weights(columns) > 0
    places = [_places(schema, axes[i], columns) for i in bound]
    for place in places:
        held = held & (place >= 0)
    found = np.zeros([shape[i] for i in bound], dtype=bool)
    found[tuple(np.broadcast_to(place, held.shape)[held] for place in places)] = held.any()
    flags = found.reshape([n if i in bound else 1 for i, n in enumerate(shape)])
    for i, axis in enumerate(axes):
        if i not in bound and isinstance(axis, Buckets):  # by itself, a bucket can be empty too
            own = np.array([part.bounds[1] > 0 for part in axis.parts])
            flags = flags & own.reshape([-1 if j == i else 1 for j in range(len(shape))])
    return np.broadcast_to(flags, shape)


def _columns(axis: Axis) -> tuple[str, ...]:
    return (axis,) if isinstance(axis, str) else axis.columns


def _shared(names: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    return any(name in other for name in names for other in others)


def _conditions(keep: LinearQuery, wanted: set[str]) -> LinearQuery:
    """A condition on the wanted columns that some row can meet where `keep` can: of a product, its other factors."""
    if len(keep.terms) != 1:
        return keep
    factors = {keep.schema.names[position]: factor for position, factor in keep.terms[0].factors.items()}
    if not all(factor.any() for factor in factors.values()):
        return keep
    return LinearQuery.product(keep.schema, {name: factor for name, factor in factors.items() if name in wanted})


def _places(schema: Schema, axis: Axis, columns: Sequence[str]) -> NDArray[np.int64]:
    """The level of an axis for every combination of levels, one dimension for each column; -1 where there is none."""
    if isinstance(axis, str):
        return np.arange(schema[axis].size).reshape([-1 if name == axis else 1 for name in columns])
    ours = [name for name in columns if name in axis.columns]
    places = np.full(schema.shape(ours), -1)
    for i, part in enumerate(axis.parts):
        places[part.weights(ours) > 0] = i
    return places.reshape([schema[name].size if name in ours else 1 for name in columns])
