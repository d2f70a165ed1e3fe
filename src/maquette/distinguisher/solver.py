"""Solver: the conjunction on which two *public* weighted lists of records differ most, by integer programming.

The largest error over a class is weighted classification, so an optimiser can search classes too large to list. Its
argmax is not private, so it must never see rows: use it between released synthetic rows and a model, or on queries that
were sampled privately before. Mechanisms §5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query import LinearQuery
from maquette.schema import Schema


@dataclass(frozen=True)
class Conjunction:
    """A conjunction of (column, level) literals, its gap (first list minus second), and whether that is proven best."""

    query: LinearQuery
    literals: tuple[tuple[str, str], ...]
    gap: float
    optimal: bool


def widest_conjunction(
    schema: Schema,
    records: NDArray[np.integer[Any]],
    weights: NDArray[np.float64],
    *,
    literals: int,
    seconds: float = 10.0,
) -> Conjunction:
    """The conjunction of `literals` literals with the largest |sum of weights of the records that satisfy it|.

    Give the records of both lists, with positive weights for the first and negative ones for the second. Solved once
    for each sign by HiGHS; a time limit costs optimality, never correctness of the gap.
    """
    if not 1 <= literals <= len(schema):
        raise QueryError(f"literals is {literals}", expected=f"1 to {len(schema)}, one for each column at most")
    if records.shape != (len(weights), len(schema)):
        raise QueryError(
            f"got records of shape {records.shape}", expected=f"{len(weights)} encoded records of {len(schema)} columns"
        )
    above = _solve(schema, records, weights, literals, seconds)
    below = _solve(schema, records, -weights, literals, seconds)
    return above if above.gap >= below.gap else replace(below, gap=-below.gap)


def _solve(
    schema: Schema, records: NDArray[np.integer[Any]], weights: NDArray[np.float64], literals: int, seconds: float
) -> Conjunction:
    """Binary variables: one for each literal used, then one for each record satisfied.

    With a positive weight, a record counts as satisfied only if no literal used is false on it; with a negative weight,
    always if none is. At most one level of a column is used.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, hstack, identity

    sizes = schema.shape(schema.names)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    count, total = len(records), int(starts[-1])
    false = np.ones((count, total))
    false[np.arange(count)[:, None], starts[:-1] + records] = 0.0
    positive = weights > 0
    # literals * c + (false literals used) <= literals, and c + (false literals used) >= 1.
    held = hstack([csr_array(false[positive]), literals * identity(count, format="csr")[positive]])
    forced = hstack([csr_array(false[~positive]), identity(count, format="csr")[~positive]])
    one_level = np.zeros((len(sizes), total + count))
    for i, size in enumerate(sizes):
        one_level[i, starts[i] : starts[i] + size] = 1.0
    exactly = np.concatenate([np.ones(total), np.zeros(count)])[None, :]
    constraints = [LinearConstraint(one_level, -np.inf, 1), LinearConstraint(exactly, literals, literals)]
    if positive.any():
        constraints.append(LinearConstraint(held, -np.inf, literals))
    if (~positive).any():
        constraints.append(LinearConstraint(forced, 1, np.inf))
    solved = milp(
        np.concatenate([np.zeros(total), -weights]),
        constraints=constraints,
        bounds=Bounds(0, 1),
        integrality=np.ones(total + count),
        options={"time_limit": seconds},
    )
    if solved.x is None:
        raise QueryError(
            f"the solver found no conjunction within {seconds} s", advice="allow more, or give fewer records"
        )
    used = np.flatnonzero(solved.x[:total] > 0.5)
    columns = np.searchsorted(starts, used, side="right") - 1
    chosen = [
        (schema.names[column], int(literal - starts[column])) for column, literal in zip(columns, used, strict=True)
    ]
    query = LinearQuery.product(schema, {name: np.arange(schema[name].size) == level for name, level in chosen})
    labels = tuple((name, schema[name].labels[level]) for name, level in chosen)
    return Conjunction(query, labels, float((query.evaluate(records) * weights).sum()), bool(solved.status == 0))
