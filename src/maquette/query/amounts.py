"""Amounts: the sum of one numeric column in each cell of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.errors import QueryError
from maquette.query import forms
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.moves import LARGEST, Moves
from maquette.schema import Integer, Number, Schema


class Amounts(Marginal):
    """For every cell of `axes`, the sum of a column's `numbers` over the rows for which `where` holds.

    `numbers` holds one whole number per level. Default: the rounded midpoints of the bins, and 0 for a missing value.
    Numbers may be negative; they are clamped to [`low`, `high`] (default: their own range).

    Privacy: a row adds a whole number from `low` to `high` to one cell. The sensitivity is the largest absolute value
    of such a number; under "replace" it is the largest difference between two of them. Mechanisms §1.1.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("age", 0, 99), Boolean("smoker")])
    >>> Amounts(schema, "age", axes=["smoker"]).moves.high
    99
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        numbers: ArrayLike | None = None,
        *,
        low: int | None = None,
        high: int | None = None,
        axes: Iterable[Axis] = (),
        where: LinearQuery | None = None,
    ) -> None:
        super().__init__(schema, axes, where)
        self.column = schema[column].name
        self.numbers = _numbers(schema, column, numbers)
        self.low = int(self.numbers.min()) if low is None else low
        self.high = int(self.numbers.max()) if high is None else high
        if not -LARGEST <= self.low <= self.high <= LARGEST:
            raise QueryError(
                f"amounts run from {self.low} to {self.high}", expected=f"low to high, from {-LARGEST:,} to {LARGEST:,}"
            )
        if not self.weight.is_predicate:
            raise QueryError(
                "amounts are added up where a predicate holds", advice="`where` weighs rows between 0 and 1"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column it depends on, in schema order."""
        return tuple(
            sorted({*Marginal(self.schema, self.axes, self.weight).columns, self.column}, key=self.schema.position)
        )

    @property
    def grid(self) -> int:
        """Amounts are whole numbers."""
        return 1

    @property
    def form(self) -> forms.Form:
        """The question as data, for the wall."""
        axes = [axis if isinstance(axis, str) else [part.form for part in axis.parts] for axis in self.axes]
        return forms.Amounts(self.column, self.numbers, self.low, self.high, axes, self.weight.form)

    @property
    def moves(self) -> Moves:
        """What one row adds to the cells; 0 is included if a row may be in no cell or `where` may not hold."""
        everywhere = super().moves.everywhere and self.weight.whole_bounds == (1, 1)
        low, high = (self.low, self.high) if everywhere else (min(self.low, 0), max(self.high, 0))
        return Moves(low, high, self.cells, everywhere=everywhere)

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        table = Marginal(self.schema, self.axes, self.weight)
        facts = f"amounts {table.key} {self.low} {self.high} {len(self.column)} {self.column}"
        return hashlib.sha256(facts.encode() + np.clip(self.numbers, self.low, self.high).tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"Amounts({self.column} by {' x '.join(self.names) or 'total'}: {self.cells} cells)"


def _numbers(schema: Schema, name: str, given: ArrayLike | None) -> NDArray[np.int64]:
    column = schema[name]
    if given is None:
        if not isinstance(column, Integer | Number):
            raise QueryError(
                f"column {name!r} ({column.kind}) has no amounts of its own",
                advice=f"give a whole number for each of its {column.size} levels",
            )
        middles = np.rint(np.clip(column.midpoints, -LARGEST, LARGEST)).astype(np.int64)
        return np.concatenate([middles, np.zeros(column.size - len(middles), dtype=np.int64)])
    numbers = np.array(given)
    own = numbers.astype(np.int64) if numbers.dtype.kind in "biu" else None
    if own is None or numbers.shape != (column.size,) or not np.array_equal(own, numbers):
        raise QueryError(
            f"amounts of column {name!r} are {numbers.dtype} of shape {numbers.shape}",
            expected=f"one whole number for each of its {column.size} levels",
        )
    return own
