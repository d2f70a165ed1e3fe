"""Asking a release: questions and statements as totals and ratios over cells, with the model's value of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.answers import OutputColumn
from maquette.query import LinearQuery, Marginal, Measure, Output, ValueSums
from maquette.releases.binned import of_bins
from maquette.releases.bounds import Asked, Bound, logical
from maquette.releases.sums import SumTable, sum_for

if TYPE_CHECKING:
    from maquette.estimates import Columns
    from maquette.releases.artifact import Release

LARGEST = 2**24  # cells of a question whose weights are listed

Values = NDArray[np.float64]


def fraction_of(release: Release, query: LinearQuery, confidence: float) -> tuple[float, Bound]:
    """A fraction of rows, and its interval."""
    columns, value = query.columns, min(1.0, max(0.0, release.model.answer(query)))
    summed = release.bounds.of_sum(query, confidence, value)
    if summed is not None and not release.evidence.covers(columns):
        return value, summed
    if release.schema.cells(columns) > LARGEST:
        return value, summed or logical(0.0, 1.0)
    weights = query.weights(columns)
    if (rows := release.rows) > 0:
        value = _count(release, Asked(columns, weights), value * rows) / rows  # as SQL counts it
    between = float(weights.min()), float(weights.max())
    bound = release.bounds.of(Asked(columns, weights, np.ones(weights.shape), between), confidence, value)
    return min(max(value, bound.low), bound.high), bound


def _count(release: Release, asked: Asked, model: float) -> float:
    """A total, from what the model says of it: drawn to the evidence and moved into its interval at 95%."""
    columns, weights = asked.columns, asked.weights
    if release.departures.closed(columns):
        return model
    drawn = release.bounds.nearest(asked, model + release.departures.total(weights, columns))
    return min(max(drawn, float(weights.min()) * release.rows), float(weights.max()) * release.rows)


def column_of(release: Release, output: Output, confidence: float) -> OutputColumn:
    """An output of a statement: the value of each group, its interval and the kind of it."""
    assert output.measure is not None
    values = output.measure.values
    assert values is None or isinstance(values, ValueSums), "a release multiplies levels"
    table = sum_for(release.sums, values)
    if table is not None:
        return _of_values(release, output, table, confidence)
    if values is not None:
        return of_bins(release, output, values, confidence, LARGEST)
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


def _of_values(release: Release, output: Output, table: SumTable, confidence: float) -> OutputColumn:
    """Sums or averages of the values themselves, from sums that the release bought."""
    assert output.measure is not None
    question = output.measure.values
    assert question is not None
    measure = output.measure.on_values()
    (lowest, highest), sides = measure.range, measure.sides()
    each = confidence if output.per is None else (1 + confidence) / 2
    value, low, high = (np.zeros(question.shape) for _ in range(3))
    plain = Marginal(release.schema, question.axes, question.weight)
    for cell in np.ndindex(question.shape):
        weights = plain.query(cell).weights(question.columns)
        total, width = float((weights * table.values).sum()), table.half_width(each, weights)
        value[cell], low[cell], high[cell] = total, *np.clip([total - width, total + width], *sides)
        if output.per is None:
            continue
        per = output.per.query(cell)
        fraction, counted = fraction_of(release, per, each)
        rows = max(fraction * release.rows, 1.0)
        fewest, most = (end * release.rows for end in (counted.low, counted.high))
        ends = [float((total + side * width) / n) for side in (-1, 1) for n in (max(fewest, 1.0), max(most, 1.0))]
        known = fewest >= 1.0
        low[cell], high[cell] = np.clip((min(ends), max(ends)), lowest, highest) if known else (lowest, highest)
        value[cell] = min(max(total / rows, lowest), highest)
    kinds = np.full(question.shape, "measured", dtype=np.object_)
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
        bound = logical(-release.rows if measure.signed else 0.0, release.rows)
    else:
        asked = Asked(columns, weights)
        raw = _count(release, asked, raw)
        bound = release.bounds.of(asked, confidence, raw)
    return measure.scale * raw, bound.scaled(measure.scale)


def _average(
    release: Release, measure: Measure, parts: list[tuple[int, LinearQuery]], per: LinearQuery, confidence: float
) -> tuple[float, Bound]:
    lowest = -1.0 if measure.signed else 0.0
    rows = release.model.answer(per) * release.rows
    total = sum(sign * release.model.answer(part) for sign, part in parts) * release.rows
    value = min(max(total / max(rows, 1.0), lowest), 1.0)
    columns, weights, counted = _weighed(release, parts, per)
    if weights is None or counted is None:
        bound = logical(lowest, 1.0)
    else:
        asked = Asked(columns, weights, counted, (lowest, 1.0))
        if not release.departures.closed(columns):
            drawn = release.departures.ratio(asked.weights, counted, columns, (total, rows), (lowest, 1.0))
            value = release.bounds.nearest(asked, drawn)
        bound = release.bounds.of(asked, confidence, value)
    return measure.centre + measure.scale * value, bound.scaled(measure.scale, measure.centre)


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
