"""ValueSums: the sum of a column's own values in each cell of a table, not of the middles of its bins."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from functools import cached_property

from maquette.errors import QueryError
from maquette.query import forms
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.moves import LARGEST, Moves
from maquette.query.of_values import OfValues
from maquette.schema import Schema


class ValueSums(OfValues):
    """For every cell of `axes`, the sum of a column's values over the rows for which `where` holds.

    Values are whole steps of the column's `value_grid`; each is clamped to [`low`, `high`] (default: the declared
    range) and measured from `centre`. A missing value adds nothing. The table must keep values: `Curator.keeps_values`.

    Privacy: a row adds a whole number from low - centre to high - centre to one cell, or nothing. The sensitivity is
    the largest absolute value of such a number; under "replace" it is the largest difference between two of them, 0
    included. Mechanisms §1.1.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("income", 0, 9_999, width=1_000), Boolean("smoker")])
    >>> ValueSums(schema, "income", axes=["smoker"]).moves.high
    9999
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        *,
        low: int | None = None,
        high: int | None = None,
        centre: int = 0,
        axes: Iterable[Axis] = (),
        where: LinearQuery | None = None,
    ) -> None:
        super().__init__(schema, axes, where)
        grid = schema[column].value_grid
        if grid is None:
            raise QueryError(
                f"column {column!r} ({schema[column].kind}) has no values beside its levels", advice="use Amounts"
            )
        self.column = schema[column].name
        self.step = grid.step
        self.low = grid.low if low is None else low
        self.high = grid.high if high is None else high
        self.centre = centre
        check_ends(self.low, self.high, centre)
        if not self.weight.is_predicate:
            raise QueryError(
                "values are added up where a predicate holds", advice="`where` weighs rows between 0 and 1"
            )

    @property
    def form(self) -> forms.Form:
        """The question as data, for the wall."""
        axes = [axis if isinstance(axis, str) else [part.form for part in axis.parts] for axis in self.axes]
        return forms.ValueSums(self.column, self.low, self.high, self.centre, axes, self.weight.form)

    @property
    def moves(self) -> Moves:
        """What one row adds to the cells."""
        return self._moves(missing=self.schema[self.column].nullable)

    @property
    def summand(self) -> Hashable:
        """See `OfValues`."""
        return self.column, self.low, self.high, self.centre

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        table = Marginal(self.schema, self.axes, self.weight)
        facts = f"values {table.key} {self.low} {self.high} {self.centre} {self.step} {len(self.column)} {self.column}"
        return hashlib.sha256(facts.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"ValueSums({self.column} by {' x '.join(self.names) or 'total'}: {self.cells} cells)"


def check_ends(low: int, high: int, centre: int) -> None:
    """Refuse values between ends that are not whole numbers, not in order, or beyond what a sum can hold."""
    if not all(type(number) is int for number in (low, high, centre)) or not low <= high:
        raise QueryError(f"values run from {low} to {high} around {centre}", expected="whole numbers")
    ends = low, high, low - centre, high - centre  # all within 64 bits where rows are read
    if max(map(abs, ends)) > LARGEST:
        raise QueryError(
            f"values from {low} to {high} less {centre} exceed {LARGEST:,} steps",
            advice="declare a smaller range or precision",
        )
