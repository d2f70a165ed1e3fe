"""SQL to questions: SELECT count, sum, avg ... FROM t WHERE ... GROUP BY ... as a few marginals.

Every declared group is always returned. A count is one marginal. A sum weighs each row by the absolute midpoint of its
bin divided by the largest absolute midpoint, with negative and positive kept apart so that weights stay in [0, 1]. An
average is a sum divided by the count of rows where the column is known. Under add-remove each marginal has sensitivity
1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.expression import Expression, located, where
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Buckets, Marginal
from maquette.query.sql.tree import Aggregate, Case, Item
from maquette.schema import NULL_LABEL, Schema


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


@dataclass(frozen=True)
class Output:
    """One column of the result: the labels of a group axis, or a measure of each group.

    An average is its measure's centre plus the measure divided by `per`, the count of rows where the averaged column
    is known. Measured from the middle of its range, a column has half the sensitivity.
    """

    title: str
    kind: Literal["group", "count", "sum", "avg"]
    axis: int | None = None
    measure: Measure | None = None
    per: Marginal | None = None


@dataclass(frozen=True, repr=False)
class Statement:
    """A SELECT as questions: group axes in GROUP BY order, and outputs in the order of the select list."""

    schema: Schema
    text: str
    table: str
    axes: tuple[Axis, ...]
    outputs: tuple[Output, ...]

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The different marginals to ask; outputs that need the same one share it."""
        needed = [output.measure.marginal for output in self.outputs if output.measure]
        return tuple(dict.fromkeys([*needed, *(output.per for output in self.outputs if output.per)]))

    def __repr__(self) -> str:
        return f"Statement({', '.join(output.title for output in self.outputs)}: {len(self.marginals)} marginals)"


def parse(schema: Schema, text: str, table: str | None = None) -> Statement:
    """Read one SELECT against a schema; anything outside the grammar is refused with its place in the text.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("age", 0, 99), Boolean("smoker")])
    >>> parse(schema, "SELECT smoker, count(*), avg(age) FROM people WHERE age >= 18 GROUP BY smoker")
    Statement(smoker, count(*), avg(age): 2 marginals)
    """
    from maquette.query.sql.parser import select

    tree = select(schema, text)
    if table is not None and tree.table.casefold() != table.casefold():
        raise QueryError(f"there is no table {tree.table!r}", advice=f"this is about {table!r}")
    axes = tuple(_axis(schema, tree.items[key] if isinstance(key, int) else key) for key in tree.group)
    keep = where(schema, tree.where)
    outputs = tuple(_output(schema, item, axes, keep) for item in tree.items)
    titles = [output.title for output in outputs]
    repeated = sorted({title for title in titles if titles.count(title) > 1})
    if repeated:
        raise QueryError(
            f"two columns of the answer would be called {', '.join(repeated)}", advice="name them apart with AS"
        )
    if all(output.kind == "group" for output in outputs):
        raise QueryError(
            "nothing is asked of the rows", advice="select at least one of count(*), count(x), sum(x), avg(x)"
        )
    return Statement(schema, text, tree.table, axes, outputs)


def question(schema: Schema, asked: str | Expression | LinearQuery) -> Statement | LinearQuery:
    """The question: text that begins with SELECT is a statement, anything else is a condition."""
    if isinstance(asked, str):
        from maquette.query.sql.parser import is_select

        if is_select(asked):
            return parse(schema, asked)
    return where(schema, asked)


def _axis(schema: Schema, item: Item) -> Axis:
    match item.body:
        case str(name):
            return name
        case Case() as case:
            with located(item.at):
                return _buckets(schema, item.title, case)
    with located(item.at):
        raise QueryError(f"GROUP BY points at {item.title}", advice="group by columns or a CASE, not by an aggregate")


def _buckets(schema: Schema, title: str, case: Case) -> Buckets:
    """Disjoint buckets: a row goes to the first condition that holds; equal labels share a bucket."""
    parts: dict[str, LinearQuery] = {}
    left = LinearQuery.constant(schema)
    for condition, label in case.branches:
        holds = where(schema, condition)
        _add(parts, label, left & holds)
        left = left & ~holds
    if case.otherwise is not None:
        _add(parts, case.otherwise, left)
    elif left.bounds[1] > 0:
        if NULL_LABEL in parts:
            raise QueryError(
                f"the label {NULL_LABEL!r} means rows that fit no WHEN", advice="add an ELSE or rename the label"
            )
        _add(parts, NULL_LABEL, left)
    return Buckets(title, tuple(parts), tuple(parts.values()))


def _add(parts: dict[str, LinearQuery], label: str, part: LinearQuery) -> None:
    known = parts.get(label)
    parts[label] = part if known is None else LinearQuery(part.schema, [*known.terms, *part.terms])


def _output(schema: Schema, item: Item, axes: tuple[Axis, ...], keep: LinearQuery) -> Output:
    with located(item.at):
        if not isinstance(item.body, Aggregate):
            return Output(item.title, "group", axis=_position(_axis(schema, item), axes))
        function, column = item.body.function, item.body.column
        keep = keep & where(schema, item.body.keep)
        known = keep if column is None else keep & _known(schema, column)
        counted = Marginal(schema, axes, known)
        if function == "count" or column is None:
            return Output(item.title, "count", measure=Measure(counted, 1.0, False))
        if function == "sum":
            return Output(item.title, "sum", measure=_total(schema, column, axes, keep))
        values = _midpoints(schema, column)
        centre = float(values.min() + values.max()) / 2
        return Output(item.title, "avg", measure=_total(schema, column, axes, keep, centre), per=counted)


def _position(axis: Axis, axes: Sequence[Axis]) -> int:
    """The index of the group axis that a select item shows; CASEs are compared by their meaning."""
    for i, other in enumerate(axes):
        if axis == other if isinstance(axis, str) or isinstance(other, str) else _same(axis, other):
            return i
    name = axis if isinstance(axis, str) else axis.name
    raise QueryError(
        f"{name} is selected but not grouped by", advice="add it to GROUP BY, or take count, sum or avg of it"
    )


def _same(one: Buckets, other: Buckets) -> bool:
    return one.labels == other.labels and one.parts == other.parts


def _known(schema: Schema, column: str) -> LinearQuery:
    return LinearQuery.product(schema, {column: ~schema[column].is_null()})


def _midpoints(schema: Schema, column: str) -> NDArray[np.float64]:
    values = schema[column].midpoints
    if values is None:
        raise QueryError(
            f"column {column!r} ({schema[column].kind}) has no numbers to add",
            advice=f"use count(*) and GROUP BY {column}",
        )
    return values


def _total(schema: Schema, column: str, axes: tuple[Axis, ...], keep: LinearQuery, centre: float = 0.0) -> Measure:
    """The sum of a column's midpoints measured from `centre`: weights in [0, 1] times the largest absolute midpoint."""
    values = _midpoints(schema, column) - centre
    if schema[column].nullable:
        values = np.append(values, 0.0)
    scale = float(np.abs(values).max())
    weights = np.abs(values) / (scale or 1.0)
    signed = bool((values < 0).any())
    if signed:
        title = "sign"
        while title in Marginal(schema, axes).names:
            title += "'"
        sides = (LinearQuery.product(schema, {column: values < 0}), LinearQuery.product(schema, {column: values > 0}))
        axes = (*axes, Buckets(title, ("negative", "positive"), sides))
    weighed = Marginal(schema, axes, keep & LinearQuery.product(schema, {column: weights}))
    return Measure(weighed, scale, signed, centre)
