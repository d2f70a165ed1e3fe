"""SQL to questions: SELECT count, sum, avg ... FROM t WHERE ... GROUP BY ... as a few marginals.

Every declared group into which a row can fall by the condition alone is returned, whatever the rows. A count is one
marginal. A sum weighs each row by the absolute midpoint of its bin divided by the largest absolute midpoint, with
negative and positive kept apart so that weights stay in [0, 1]. An average is a sum divided by the count of rows where
the column is known. Under add-remove each marginal has sensitivity 1.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.expression import Expression, where
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Buckets, Marginal
from maquette.query.of_values import OfValues
from maquette.query.sql.possible import possible
from maquette.query.sql.settings import split
from maquette.schema import Schema

if TYPE_CHECKING:
    from maquette.query.sql.context import Context
    from maquette.query.sql.program import Program


@dataclass(frozen=True)
class Measure:
    """A marginal and how to read it: the value of a group is scale * cell.

    When signed, the last axis of the marginal is (negative, positive) and the value is
    scale * (cell[..., 1] - cell[..., 0]). Values are measured from `centre`: the sum of the column is this value plus
    centre times the count.
    """

    marginal: Marginal
    scale: float
    signed: bool
    centre: float = 0.0
    values: OfValues | None = None
    """The same sum of the rows' own values, where bins hold several."""
    ends: tuple[float, float] | None = None

    def on_values(self) -> Measure:
        """The measure of the values themselves, where there are any beside the levels."""
        if self.values is None:
            return self
        step, grid = self.values.step, self.values
        ends = (float(grid.low * step), float(grid.high * step))
        return Measure(self.values, float(step), False, float(grid.centre * step), ends=ends)

    @property
    def range(self) -> tuple[float, float]:
        """The declared range of an average of it."""
        if self.ends is not None:
            return self.ends
        return self.centre - (self.scale if self.signed else 0.0), self.centre + self.scale

    @property
    def reading(self) -> tuple[object, ...]:
        """How numbers are read from the marginal, which sum(x) and sum(2 * x) share; nothing for a plain count."""
        facts = (self.scale, self.signed, self.centre, self.values and self.values.key, self.ends)
        return () if facts == (1.0, False, 0.0, None, None) else facts

    def sides(self, most: float | None = None) -> tuple[float, float]:
        """The bounds of a sum, from its centre: zero on a side where no value lies, else what `most` rows can reach."""
        lowest, highest = self.range
        rows = math.inf if most is None else most
        low = 0.0 if lowest >= self.centre else (lowest - self.centre) * rows
        return low, 0.0 if highest <= self.centre else (highest - self.centre) * rows


@dataclass(frozen=True)
class Slice:
    """Levels `start` to `stop` (excluded) of the last axis of a finer table, added up."""

    marginal: Marginal
    start: int
    stop: int


@dataclass(frozen=True)
class Output:
    """One column of the result: the labels of a group axis, or a measure of each group.

    An average is its measure's centre plus the measure divided by `per`, the count of rows where the averaged column
    is known. Measured from the middle of its range, a column has half the sensitivity. `via` names a finer table from
    which a count can be added up: one measurement of that table gives all the counts at once.
    """

    title: str
    kind: Literal["group", "count", "sum", "avg"]
    axis: int | None = None
    measure: Measure | None = None
    per: Marginal | None = None
    via: Slice | None = None


@dataclass(frozen=True, repr=False)
class Statement:
    """A SELECT as questions: group axes in GROUP BY order, and outputs in the order of the select list."""

    schema: Schema
    text: str
    table: str
    axes: tuple[Axis, ...]
    outputs: tuple[Output, ...]
    keep: LinearQuery | None = None
    """The rows that may be counted: all, or those of WHERE."""

    @cached_property
    def shown(self) -> NDArray[np.bool_]:
        """For every cell of the axes, whether it is a group of the answer: whether a row can fall into it at all."""
        return possible(self.schema, self.axes, LinearQuery.constant(self.schema) if self.keep is None else self.keep)

    def on_values(self) -> Statement:
        """The same statement with sums and averages of the values themselves, for tables that keep them."""
        outputs = (o if o.measure is None else replace(o, measure=o.measure.on_values()) for o in self.outputs)
        return replace(self, outputs=tuple(outputs))

    def on_levels(self) -> Statement:
        """The same statement with sums and averages of the middles of bins, for tables that keep no values."""
        outputs = (
            o if o.measure is None else replace(o, measure=replace(o.measure, values=None)) for o in self.outputs
        )
        return replace(self, outputs=tuple(outputs))

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The different marginals to ask; outputs that need the same one share it."""
        needed = [
            output.via.marginal if output.via else output.measure.marginal for output in self.outputs if output.measure
        ]
        return tuple(dict.fromkeys([*needed, *(output.per for output in self.outputs if output.per)]))

    @cached_property
    def key(self) -> str:
        """The canonical question: equal for statements that must get the same answer."""
        outputs = [
            (o.title, o.kind, o.axis, o.measure and o.measure.marginal.key, o.per and o.per.key) for o in self.outputs
        ]
        hidden = [] if self.shown.all() else [np.flatnonzero(~self.shown).tolist()]
        read = [o.measure.reading for o in self.outputs if o.measure]
        told = [axis.values for axis in self.axes if isinstance(axis, Buckets)]
        more = [read, told] if any(read) or any(told) else []
        return repr((outputs, [Marginal(self.schema, self.axes).labels], *hidden, *more))

    def __repr__(self) -> str:
        return f"Statement({', '.join(output.title for output in self.outputs)}: {len(self.marginals)} marginals)"


def parse(schema: Schema, text: str, table: str | None = None, context: Context | None = None) -> Statement | Program:
    """Read one SELECT against a schema; anything outside the grammar is refused with its place in the text.

    The result is a `Statement` where groups and aggregates are all that is asked, else a `Program`.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("age", 0, 99), Boolean("smoker")])
    >>> parse(schema, "SELECT smoker, count(*), avg(age) FROM people WHERE age >= 18 GROUP BY smoker")
    Statement(smoker, count(*), avg(age): 2 marginals)
    """
    from maquette.query.sql.compiler import compiled
    from maquette.query.sql.context import Context

    known = Context() if context is None else context
    return compiled(schema, text, known if table is None else replace(known, table=table))


def question(
    schema: Schema, asked: str | Expression | LinearQuery, context: Context | None = None
) -> Statement | Program | LinearQuery:
    """The question: text that begins with SELECT or WITH is a statement, anything else is a condition.

    SET statements before it are settings (see `settings`), and no part of it.
    """
    if isinstance(asked, str):
        from maquette.query.sql.parser import is_select
        from maquette.query.sql.shapes import shaped

        if (expression := shaped(schema, asked)) is not None:
            with suppress(QueryError):  # the grammar words the error, with its place
                return where(schema, expression)

        asked = split(asked)[1]
        if is_select(asked):
            return parse(schema, asked, context=context)
    if context is not None and context.cuts == "between":
        return _share(schema, asked)
    return where(schema, asked)


def _share(schema: Schema, asked: str | Expression | LinearQuery) -> Program | LinearQuery:
    """The fraction of rows for which a condition holds; one that cuts through a bin is answered between two cuts."""
    from maquette.query.between import bracketed
    from maquette.query.sql.program import share_between

    if isinstance(asked, str):
        from maquette.query.sql.parser import predicate

        asked = predicate(schema, asked, between=True)
    if isinstance(asked, LinearQuery):
        return where(schema, asked)
    inner, outer = bracketed(schema, asked)
    return inner if outer is None else share_between(schema, inner, outer)
