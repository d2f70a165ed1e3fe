"""From estimated marginals to the answer to a statement: sums, averages, groups and their intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress, product, repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.answers.api import Answered
from maquette.answers.result import NOISE_ONLY, Answer, AnswerTable, BoundKind, Row, Source, promise_of
from maquette.privacy import Loss
from maquette.query import Axis, Marginal, Measure, Output, Statement
from maquette.schema import Boolean, Date, Integer, Schema

Values = NDArray[np.float64]


class Estimated(Protocol):
    """An estimate of every cell of a marginal, in counts."""

    @property
    def values(self) -> Values:
        """The estimates."""

    def half_width(self, confidence: float) -> Values | float:
        """How far each estimate can be off at this confidence, cell by cell."""


def assemble(
    statement: Statement,
    estimates: Mapping[str, Estimated],
    confidence: float,
    cost: Loss,
    source: Source,
    *,
    unknown: Collection[str] = (),
    most: float | None = None,
) -> Answered:
    """The answer to a statement from an estimate of each of its marginals (by key).

    Numbers that need one of the `unknown` marginals (by key) carry no guarantee. `most` is as in `columns_of`.
    """
    columns = columns_of(statement, estimates, confidence, unknown, most)
    return tabulate(statement, columns, confidence, cost, source)


def columns_of(
    statement: Statement,
    estimates: Mapping[str, Estimated],
    confidence: float,
    unknown: Collection[str] = (),
    most: float | None = None,
) -> dict[str, OutputColumn]:
    """Every measured output of a statement, by title.

    At the wall weights are whole multiples of a grid, which moves a sum by a little for each row. Intervals of sums
    allow for it where a bound on the number of rows is public (`most`); those of averages always, by their count.
    """
    return {
        output.title: _column(output, estimates, confidence, unknown, most)
        for output in statement.outputs
        if output.kind != "group"
    }


def tabulate(
    statement: Statement, columns: Mapping[str, OutputColumn], confidence: float, cost: Loss, source: Source
) -> Answered:
    """The answer to a statement from the values of its outputs, by title."""
    every = _labels(statement)
    shape = tuple(len(labels) for labels in every)
    if not shape and len(columns) == 1:
        ((kind, title),) = ((o.kind, o.title) for o in statement.outputs if o.kind != "group")
        (only,) = columns[title].answers(kind, confidence, cost, source)
        return replace(only, title=title)
    kinds = {output.title: output.kind for output in statement.outputs}
    found = [column.answers(kinds[title], confidence, cost, source) for title, column in columns.items()]
    numbers = zip(*found, strict=True) if found else repeat((), math.prod(shape))
    labels, values = product(*every), product(*(values_of(statement.schema, axis) for axis in statement.axes))
    shown = compress(zip(labels, values, numbers, strict=True), statement.shown.reshape(-1).tolist())
    rows = tuple(Row(named, dict(zip(columns, ones, strict=True)), group) for named, group, ones in shown)
    order = tuple(output.title for output in statement.outputs)
    return AnswerTable(_group_titles(statement), tuple(columns), rows, cost, order)


def _labels(statement: Statement) -> tuple[tuple[str, ...], ...]:
    return Marginal(statement.schema, statement.axes).labels


def values_of(schema: Schema, axis: Axis) -> tuple[Any, ...]:
    """The groups of an axis as values: numbers, truth values and dates where a level is a single one, else labels."""
    if not isinstance(axis, str):
        return axis.values or axis.labels
    column = schema[axis]
    single = (
        isinstance(column, Boolean)
        or (isinstance(column, Integer) and column.width == 1)
        or (isinstance(column, Date) and column.unit == "day")
    )
    known = tuple(column.values) if single else column.labels[: column.known]
    return (*known, *([None] if column.nullable else []))


def _group_titles(statement: Statement) -> tuple[str, ...]:
    named = {output.axis: output.title for output in statement.outputs if output.kind == "group"}
    names = Marginal(statement.schema, statement.axes).names
    return tuple(named.get(axis, name) for axis, name in enumerate(names))


@dataclass(frozen=True)
class OutputColumn:
    """One output of a statement: a value and an interval for every group."""

    value: Values
    low: Values
    high: Values
    guarantee: str | None = NOISE_ONLY
    kinds: NDArray[np.object_] | None = None
    """The kind of each interval; without them all are measured, and promise `guarantee`."""

    def answers(self, kind: str, confidence: float, cost: Loss, source: Source) -> list[Answer]:
        """The answers for all groups, in order."""
        raws, lows, highs = (
            np.asarray(part, dtype=np.float64).reshape(-1).tolist() for part in (self.value, self.low, self.high)
        )
        bounds: Iterable[BoundKind] = repeat("measured", len(raws)) if self.kinds is None else self.kinds.reshape(-1)
        return [
            Answer(
                value=(value := min(max(raw, low), high)),
                low=low,
                high=high,
                unbiased=raw if source == "measured" else None,
                confidence=confidence,
                count=value if kind == "count" else None,
                source=source,
                cost=cost,
                guarantee=self.guarantee if self.kinds is None else promise_of(bound),
                bound=bound,
            )
            for raw, low, high, bound in zip(raws, lows, highs, bounds, strict=True)
        ]


def _column(
    output: Output,
    estimates: Mapping[str, Estimated],
    confidence: float,
    unknown: Collection[str],
    most: float | None,
) -> OutputColumn:
    assert output.measure is not None
    needed = {marginal.key for marginal in (output.measure.marginal, output.per) if marginal is not None}
    guarantee = NOISE_ONLY if needed.isdisjoint(unknown) else None
    if output.per is not None:
        return replace(_average(output.measure, output.per, estimates, confidence), guarantee=guarantee)
    total, width = _total(output.measure, estimates, confidence)
    width = width + _rounding(output.measure, most or 0.0)
    sides = output.measure.sides(most)
    return OutputColumn(total, np.clip(total - width, *sides), np.clip(total + width, *sides), guarantee)


def _total(measure: Measure, estimates: Mapping[str, Estimated], confidence: float) -> tuple[Values, Values | float]:
    """Scaled values of every group, and how far noise can have moved them."""
    estimate = estimates[measure.marginal.key]
    if not measure.signed:
        return measure.scale * estimate.values, measure.scale * estimate.half_width(confidence)
    difference = estimate.values[..., 1] - estimate.values[..., 0]
    each = np.broadcast_to(estimate.half_width((1 + confidence) / 2), estimate.values.shape)
    return measure.scale * difference, measure.scale * each.sum(axis=-1)


def _rounding(measure: Measure, rows: Values | float) -> Values | float:
    """How far the grid of the weights moves a sum over `rows` rows."""
    return measure.scale * measure.marginal.weight.rounding * rows


def _average(measure: Measure, per: Marginal, estimates: Mapping[str, Estimated], confidence: float) -> OutputColumn:
    """Centre plus sum / count. Its interval is the range of that while sum and count stay within their own intervals.

    Each of the two has half the failure probability, so both hold together at `confidence`. Where the count may be zero
    nothing is known, and the interval is the declared range.
    """
    each = (1 + confidence) / 2
    total, total_width = _total(measure, estimates, each)
    rows = estimates[per.key].values
    rows_width = estimates[per.key].half_width(each)
    total_width = total_width + _rounding(measure, np.maximum(rows + rows_width, 0.0))
    centre, (lowest, highest) = measure.centre, measure.range
    known = rows - rows_width > 0
    fewest = np.where(known, rows - rows_width, 1.0)
    corners = [centre + (total + s * total_width) / n for s in (-1, 1) for n in (fewest, fewest + 2 * rows_width)]
    low = np.where(known, np.min(corners, axis=0), lowest)
    high = np.where(known, np.max(corners, axis=0), highest)
    value = np.clip(centre + total / np.maximum(rows, 1.0), lowest, highest)
    return OutputColumn(value, np.clip(low, lowest, highest), np.clip(high, lowest, highest))
