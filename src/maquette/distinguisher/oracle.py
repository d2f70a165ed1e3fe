"""The distinguisher as an optimisation oracle: the conjunction that tells two *public* weighted lists apart best.

Telling a table from a model is agnostic learning: rows are examples with one label, the model's records with the other,
and the query with the largest gap is the classifier with the least error. So any learner for a class can be the query
player of a game whose table is public, such as an earlier release. The argmax is not private: it must never see rows.
Mechanisms §5.5.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.distinguisher.solver import Conjunction, widest_conjunction
from maquette.errors import QueryError
from maquette.query import LinearQuery
from maquette.schema import Schema

Weighted = tuple[NDArray[np.integer[Any]], NDArray[np.float64]]

MAX_CELLS = 2**22


def best_query(
    schema: Schema,
    table: Weighted,
    model: Weighted,
    *,
    literals: int,
    how: Literal["solver", "enumerate"] = "solver",
    seconds: float = 10.0,
) -> Conjunction:
    """The conjunction of `literals` literals on which a public table and a model differ most; gap = table minus model.

    Both are encoded records with their weights. "solver" is an exact integer program, for about a thousand different
    records over a hundred columns; "enumerate" tries every conjunction, for few columns and any number of records.
    """
    if how not in ("solver", "enumerate"):
        raise QueryError(f"how is {how!r}", expected='"solver" or "enumerate"')
    for records, weights in (table, model):
        if records.shape != (len(weights), len(schema)):
            raise QueryError(
                f"got records of shape {records.shape}",
                expected=f"{len(weights)} encoded records of {len(schema)} columns",
            )
    listed = np.concatenate([table[0], model[0]])
    different, place = np.unique(listed, axis=0, return_inverse=True)
    net = np.zeros(len(different))
    np.add.at(net, place.reshape(-1), np.concatenate([table[1], -model[1]]))
    if how == "enumerate":
        return _enumerated(schema, different, net, literals)
    return widest_conjunction(schema, different, net, literals=literals, seconds=seconds)


def _enumerated(schema: Schema, records: NDArray[Any], weights: NDArray[np.float64], literals: int) -> Conjunction:
    if not 1 <= literals <= len(schema):
        raise QueryError(f"literals is {literals}", expected=f"1 to {len(schema)}, one for each column at most")
    best: tuple[float, tuple[str, ...], tuple[int, ...]] | None = None
    cells = 0
    for names in itertools.combinations(schema.names, literals):
        cells += schema.cells(names)
        if cells > MAX_CELLS:
            raise QueryError(
                f"there are more than {MAX_CELLS:,} conjunctions of {literals} literals", advice="use the solver"
            )
        shape = schema.shape(names)
        flat = np.ravel_multi_index(tuple(records[:, schema.position(name)] for name in names), shape)
        gaps = np.bincount(flat, weights=weights, minlength=schema.cells(names))
        widest = int(np.argmax(np.abs(gaps)))
        if best is None or abs(gaps[widest]) > abs(best[0]):
            best = float(gaps[widest]), names, tuple(int(i) for i in np.unravel_index(widest, shape))
    assert best is not None
    gap, names, levels = best
    query = LinearQuery.product(
        schema, {name: np.arange(schema[name].size) == level for name, level in zip(names, levels, strict=True)}
    )
    labels = tuple((name, schema[name].labels[level]) for name, level in zip(names, levels, strict=True))
    return Conjunction(query, labels, gap, True)
