"""Random questions of one to three columns about a table of the suite, and their exact answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.query import LinearQuery, question
from maquette.schema import Column
from releases.averages import numeric
from releases.suite import SuiteTable

Form = Literal["predicate", "count", "average"]


@dataclass(frozen=True)
class Asked:
    """A question: `scale` turns its numbers into fractions of rows, or of the declared range of an average."""

    text: str
    form: Form
    ways: int
    exact: float
    scale: float


def condition(column: Column, rng: np.random.Generator) -> str:
    """A random condition on one column that no bin is cut by."""
    if isinstance(column, mq.Boolean):
        return column.name if rng.random() < 0.5 else f"NOT {column.name}"
    if isinstance(column, mq.Category):
        kept = rng.choice(column.levels, int(rng.integers(1, max(2, len(column.levels) // 2))), replace=False)
        return f"{column.name} IN ({', '.join(quoted(str(level)) for level in kept)})"
    starts = edges(column)
    if len(starts) == 1:
        return f"{column.name} >= {starts[0]!r}"
    low, high = sorted(rng.choice(len(starts), 2, replace=False))
    return f"{column.name} >= {starts[low]!r} AND {column.name} < {starts[high]!r}"


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def edges(column: Column) -> list[float]:
    """The lower ends of the bins."""
    if isinstance(column, mq.Integer):
        return list(range(column.low, column.high + 1, column.width))
    assert isinstance(column, mq.Number)
    if column.edges is not None:
        return list(column.edges[:-1])
    return [float(edge) for edge in np.linspace(column.low or 0.0, column.high or 0.0, column.known + 1)[:-1]]


def row_weights(found: SuiteTable, text: str) -> NDArray[np.float64]:
    """The weight of every row in a predicate."""
    parsed = question(found.schema, text)
    assert isinstance(parsed, LinearQuery)
    codes = tuple(found.codes[:, found.schema.position(name)] for name in parsed.columns)
    weights: NDArray[np.float64] = np.broadcast_to(parsed.weights(), found.schema.shape(parsed.columns))[codes]
    return np.broadcast_to(weights, len(found.codes))


def average(found: SuiteTable, where: str, weights: NDArray[np.float64], at: int, ways: int) -> Asked | None:
    """The average of a numeric column where a condition holds, if it holds for thirty rows."""
    column = found.schema[found.schema.names[at]]
    middles = np.append(np.asarray(column.midpoints, dtype=float), 0.0)
    known = weights * (found.codes[:, at] < column.known)
    if known.sum() < 30:
        return None
    exact = float((known * middles[found.codes[:, at]]).sum() / known.sum())
    text = f"SELECT avg({column.name}) FROM t WHERE {where}"
    return Asked(text, "average", ways, exact, float(np.ptp(middles[:-1])) or 1.0)


def questions(found: SuiteTable, count: int, seed: int = 11) -> list[Asked]:
    """So many conditions, each asked as a predicate, as SQL's count and as SQL's average of another column."""
    rng, schema, rows = np.random.default_rng(seed), found.schema, len(found.codes)
    made: list[Asked] = []
    for i in range(count):
        ways = 1 + i % 3
        columns = rng.choice(len(schema), ways, replace=False)
        where = " AND ".join(condition(schema[schema.names[j]], rng) for j in columns)
        weights = row_weights(found, where)
        made.append(Asked(where, "predicate", ways, float(weights.mean()), 1.0))
        made.append(Asked(f"SELECT count(*) FROM t WHERE {where}", "count", ways, float(weights.sum()), float(rows)))
        others = [j for j in numeric(schema) if j not in columns]
        if ways < 3 and others:
            asked = average(found, where, weights, int(rng.choice(others)), ways + 1)
            made += [] if asked is None else [asked]
    return made
