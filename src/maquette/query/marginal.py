"""Marginal: the question that the doors answer: a table of disjoint cells, each the total weight of the rows in it.

A marginal has axes (columns, or buckets of a CASE) and a weight (a linear query; default: every row counts 1). With
no axes it is a single number. A row falls into one cell only, so under add-remove a whole marginal costs as much as one
of its cells: this is why GROUP BY is one question.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maquette.errors import QueryError
from maquette.query.forms import Cells, Form
from maquette.query.linear import LinearQuery
from maquette.query.moves import Moves
from maquette.schema import Schema

MAX_OUTPUT = 2**26


@dataclass(frozen=True)
class Buckets:
    """An axis whose levels are disjoint predicates; a row that fits none is not counted.

    `values` are the labels as values, where they are numbers, truth values, dates or NULL (None).
    """

    name: str
    labels: tuple[str, ...]
    parts: tuple[LinearQuery, ...]
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.parts) or not self.parts:
            raise QueryError(f"buckets {self.name!r}: need one label per predicate, at least one")
        if self._is_either_or:
            return
        if not all(part.is_predicate for part in self.parts):
            raise QueryError(f"buckets {self.name!r}: every bucket must be a predicate")
        schema, share = self.parts[0].schema, 1.0 / len(self.parts)
        if any(part.schema != schema for part in self.parts):
            raise QueryError(f"buckets {self.name!r} are over different schemas", advice="build all from one schema")
        # The sum of all parts, scaled into [0, 1]: a row in two buckets would count twice.
        total = LinearQuery(schema, [term.scaled(share) for part in self.parts for term in part.terms])
        if total.bounds[1] > 1.5 * share:
            raise QueryError(f"buckets {self.name!r} overlap", advice="a row may fall into one bucket only")

    @property
    def _is_either_or(self) -> bool:
        """Whether the parts are a predicate and what it leaves out, so that nothing is left to check."""
        if len(self.parts) != 2:
            return False
        out, held = self.parts
        return out.schema == held.schema and held.is_predicate and out.negates(held)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column a bucket depends on."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))


Axis = str | Buckets


class Marginal:
    """For every cell of `axes`, the total weight of the rows in it.

    >>> from maquette import Boolean, Integer, Schema, where
    >>> schema = Schema([Integer("age", 0, 99, width=50), Boolean("smoker")])
    >>> Marginal(schema, ["age"], where(schema, "smoker"))
    Marginal(age where smoker: 2 cells)
    """

    def __init__(self, schema: Schema, axes: Iterable[Axis] = (), weight: LinearQuery | None = None) -> None:
        self.schema = schema
        self.axes: tuple[Axis, ...] = tuple(axes)
        self.weight = LinearQuery.constant(schema) if weight is None else weight
        if self.weight.schema != schema:
            raise QueryError("the weight of a marginal must be over the marginal's schema")
        names = [axis if isinstance(axis, str) else axis.name for axis in self.axes]
        if len(set(names)) < len(names):
            raise QueryError(f"an axis is named twice: {', '.join(names)}")
        if self.cells > MAX_OUTPUT:
            raise QueryError(
                f"the table would have {self.cells:,} cells, more than {MAX_OUTPUT:,}", advice="use fewer columns"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return tuple(self.schema[a].size if isinstance(a, str) else len(a.parts) for a in self.axes)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The names of the cells along each axis."""
        return tuple(self.schema[a].labels if isinstance(a, str) else a.labels for a in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each axis."""
        return tuple(a if isinstance(a, str) else a.name for a in self.axes)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column that axes or weight depend on, in schema order."""
        touched = set(self.weight.columns)
        for axis in self.axes:
            touched.update([axis] if isinstance(axis, str) else axis.columns)
        return tuple(sorted(touched, key=self.schema.position))

    @property
    def grid(self) -> int:
        """Values are whole multiples of 1/grid at the wall."""
        return self.weight.grid

    @property
    def form(self) -> Form:
        """The question as data, for the wall."""
        axes = [axis if isinstance(axis, str) else [part.form for part in axis.parts] for axis in self.axes]
        return Cells(axes, self.weight.form)

    @property
    def moves(self) -> Moves:
        """What one row adds to the cells, in whole numbers of 1/grid."""
        plain = all(isinstance(axis, str) for axis in self.axes)
        return Moves(*self.weight.whole_bounds, self.cells, everywhere=plain)

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        return key_of(self.axes, self.weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marginal) and self.schema == other.schema and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def query(self, cell: Sequence[int]) -> LinearQuery:
        """The linear query whose total is one cell."""
        query = self.weight
        for axis, level in zip(self.axes, cell, strict=True):
            query = query & _level(self.schema, axis, level)
        return query

    def queries(self) -> Iterator[tuple[tuple[int, ...], LinearQuery]]:
        """Every cell with the linear query whose total is the cell."""
        return ((cell, self.query(cell)) for cell in np.ndindex(self.shape))

    def __repr__(self) -> str:
        where = "" if self.weight == LinearQuery.constant(self.schema) else f" where {', '.join(self.weight.columns)}"
        return f"Marginal({' x '.join(self.names) or 'total'}{where}: {self.cells} cells)"


def key_of(axes: Sequence[Axis], weight: LinearQuery) -> str:
    """The canonical digest of the marginal with these axes and this weight."""
    parts = [f"column {a}" if isinstance(a, str) else " ".join(["buckets", *(p.key for p in a.parts)]) for a in axes]
    return hashlib.sha256("\0".join([*parts, weight.key]).encode()).hexdigest()


def _level(schema: Schema, axis: Axis, level: int) -> LinearQuery:
    if isinstance(axis, Buckets):
        return axis.parts[level]
    return LinearQuery.product(schema, {axis: np.arange(schema[axis].size) == level})


def marginal_of(schema: Schema, question: Sequence[str] | LinearQuery | Marginal) -> Marginal:
    """A marginal from column names, a linear query, or itself."""
    if isinstance(question, Marginal):
        return question
    if isinstance(question, LinearQuery):
        return Marginal(schema, (), question)
    if isinstance(question, str):
        raise QueryError(
            f"got the text {question!r}", expected="columns, a query or a marginal", advice="parse it with `where`"
        )
    for name in question:
        schema.position(name)
    return Marginal(schema, question)
