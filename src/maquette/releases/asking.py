"""Asking a release: questions and statements as totals and ratios over cells, with the model's value of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.answers import OutputColumn
from maquette.query import LinearQuery, Measure, Output
from maquette.releases.bounds import Asked, Bound

if TYPE_CHECKING:
    from maquette.estimates import Columns
    from maquette.releases.artifact import Release

LARGEST = 2**24  # cells of a question whose weights are listed

Values = NDArray[np.float64]


def fraction_of(release: Release, query: LinearQuery, value: float, confidence: float) -> Bound:
    """The interval of a fraction of rows."""
    summed = release.bounds.of_sum(query, confidence, value)
    if summed is not None and not release.evidence.covers(query.columns):
        return summed
    columns = query.columns
    if release.schema.cells(columns) > LARGEST:
        return summed or Bound(0.0, 1.0, "logical")
    weights = query.weights(columns)
    between = float(weights.min()), float(weights.max())
    return release.bounds.of(Asked(columns, weights, np.ones(weights.shape), between), confidence, value)


def column_of(release: Release, output: Output, confidence: float) -> OutputColumn:
    """An output of a statement: the value of each group, its interval and the kind of it."""
    assert output.measure is not None
    measure, shape = output.measure, output.measure.marginal.shape
    shape = shape[:-1] if measure.signed else shape
    value, low, high = (np.zeros(shape) for _ in range(3))
    kinds = np.empty(shape, dtype=np.object_)
    for cell in np.ndindex(shape):
        parts = _parts(measure, cell)
        if output.per is None:
            value[cell], bound = _total(release, measure, parts, confidence)
        else:
            value[cell], bound = _average(release, measure, parts, output.per.query(cell), confidence)
        low[cell], high[cell], kinds[cell] = bound.low, bound.high, bound.kind
    return OutputColumn(value, low, high, kinds=kinds)


def _parts(measure: Measure, cell: tuple[int, ...]) -> list[tuple[int, LinearQuery]]:
    """The signed questions whose sum, times the scale, is the measure of a group."""
    if not measure.signed:
        return [(1, measure.marginal.query(cell))]
    return [(sign, measure.marginal.query((*cell, place))) for place, sign in ((0, -1), (1, 1))]


def _total(
    release: Release, measure: Measure, parts: list[tuple[int, LinearQuery]], confidence: float
) -> tuple[float, Bound]:
    raw = sum(sign * release.model.answer(part) for sign, part in parts) * release.rows
    columns, weights = _weights(release, parts)
    if weights is None:
        bound = Bound(-release.rows if measure.signed else 0.0, release.rows, "logical")
    else:
        bound = release.bounds.of(Asked(columns, weights), confidence, raw)
    return measure.scale * raw, Bound(measure.scale * bound.low, measure.scale * bound.high, bound.kind)


def _average(
    release: Release, measure: Measure, parts: list[tuple[int, LinearQuery]], per: LinearQuery, confidence: float
) -> tuple[float, Bound]:
    lowest = -1.0 if measure.signed else 0.0
    rows = release.model.answer(per) * release.rows
    raw = sum(sign * release.model.answer(part) for sign, part in parts) * release.rows / max(rows, 1.0)
    value = min(max(raw, lowest), 1.0)
    columns, weights, counted = _weighed(release, parts, per)
    if weights is None or counted is None:
        bound = Bound(lowest, 1.0, "logical")
    else:
        bound = release.bounds.of(Asked(columns, weights, counted, (lowest, 1.0)), confidence, value)
    low, high = (measure.centre + measure.scale * end for end in (bound.low, bound.high))
    return measure.centre + measure.scale * value, Bound(low, high, bound.kind)


def _weights(release: Release, parts: list[tuple[int, LinearQuery]]) -> tuple[Columns, Values | None]:
    """The weight of each cell of the columns that matter; None if there are too many."""
    columns = _columns(release, [part for _, part in parts])
    if release.schema.cells(columns) > LARGEST:
        return columns, None
    return columns, np.asarray(sum(sign * part.weights(columns) for sign, part in parts), dtype=np.float64)


def _weighed(
    release: Release, parts: list[tuple[int, LinearQuery]], per: LinearQuery
) -> tuple[Columns, Values | None, Values | None]:
    columns = _columns(release, [per, *(part for _, part in parts)])
    if release.schema.cells(columns) > LARGEST:
        return columns, None, None
    weights = sum(sign * part.weights(columns) for sign, part in parts)
    return columns, np.asarray(weights, dtype=np.float64), per.weights(columns)


def _columns(release: Release, queries: list[LinearQuery]) -> Columns:
    touched = {name for query in queries for name in query.columns}
    return tuple(name for name in release.schema.names if name in touched)
