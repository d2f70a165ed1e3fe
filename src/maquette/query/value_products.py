"""ValueProducts: sums of squares and of products of the rows' own values, for variances and correlations."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product

from maquette.errors import QueryError
from maquette.query import forms
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.moves import LARGEST, Moves
from maquette.query.of_values import OfValues
from maquette.query.value_sums import check_ends
from maquette.schema import Schema


class ValueProducts(OfValues):
    """For every cell of `axes`, the sum of the product of two factors over the rows for which `where` holds.

    A factor is a column's value less a centre, in whole numbers of a step (`forms.ValueSteps`), or a whole number for
    each level (`forms.LevelNumbers`); at least one is of values, and the same factor twice is a square. A missing value
    adds nothing. `worth` is what a product of 1 stands for.

    Privacy: a row adds a whole number to one cell, or nothing: a product of one number from each factor's range, from
    0 on for a square. The sensitivity is the largest absolute value of such a number; under "replace" it is the largest
    difference between two of them, 0 included. Mechanisms §1.1.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("income", 0, 9_999, width=1_000), Boolean("smoker")])
    >>> thousands = forms.ValueSteps("income", 0, 9_999, 5_000, 101)
    >>> ValueProducts(schema, [thousands, thousands], axes=["smoker"]).moves.high
    2500
    """

    def __init__(
        self,
        schema: Schema,
        factors: Sequence[forms.Factor],
        *,
        axes: Iterable[Axis] = (),
        where: LinearQuery | None = None,
        worth: Fraction = Fraction(1),
    ) -> None:
        super().__init__(schema, axes, where)
        self.factors, self.step, self.centre = tuple(factors), worth, 0
        if len(self.factors) != 2 or not any(isinstance(factor, forms.ValueSteps) for factor in self.factors):
            raise QueryError("a product of values has two factors, and one of them at least is of values")
        self.low, self.high = _product_of([ends_of(schema, factor) for factor in self.factors], square=self.is_square)
        if max(-self.low, self.high) > LARGEST:
            raise QueryError(f"products of these factors exceed {LARGEST:,}", advice="use larger steps")
        if not self.weight.is_predicate:
            raise QueryError(
                "values are multiplied where a predicate holds", advice="`where` weighs rows between 0 and 1"
            )

    @property
    def is_square(self) -> bool:
        """Whether both factors are one."""
        return self.factors[0] == self.factors[1]

    @property
    def form(self) -> forms.Form:
        """The question as data, for the wall."""
        axes = [axis if isinstance(axis, str) else [part.form for part in axis.parts] for axis in self.axes]
        return forms.ValueProducts(self.factors, axes, self.weight.form)

    @property
    def moves(self) -> Moves:
        """What one row adds to the cells; 0 is always included."""
        return self._moves(missing=True)

    @property
    def summand(self) -> Hashable:
        """See `OfValues`."""
        return self.factors

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question; the factors, in either order, are part of it."""
        table = Marginal(self.schema, self.axes, self.weight)
        facts = [f"products {table.key}", *sorted(map(repr, self.factors))]
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()

    def __repr__(self) -> str:
        names = " * ".join(factor.column for factor in self.factors)
        return f"ValueProducts({names} by {' x '.join(self.names) or 'total'}: {self.cells} cells)"


def ends_of(schema: Schema, factor: forms.Factor) -> tuple[int, int]:
    """The least and the largest number of a factor; refused if it does not fit the column."""
    column = schema[factor.column]
    match factor:
        case forms.LevelNumbers(name, numbers):
            if len(numbers) != column.size or not all(type(number) is int for number in numbers):
                raise QueryError(
                    f"column {name!r}: {len(numbers)} numbers",
                    expected=f"a whole number for each of {column.size} levels",
                )
            return min(numbers), max(numbers)
        case forms.ValueSteps(name, low, high, centre, step):
            if column.value_grid is None:
                raise QueryError(
                    f"column {name!r} ({column.kind}) has no values beside its levels", advice="number its levels"
                )
            check_ends(low, high, centre)
            if type(step) is not int or step < 1 or step % 2 == 0:
                raise QueryError(
                    f"the step of a factor is {step!r}", expected="an odd whole number, so that none is halfway"
                )
            return nearest(low - centre, step), nearest(high - centre, step)
    raise QueryError(f"a factor is {factor!r}", expected="ValueSteps or LevelNumbers of maquette.query.forms")


def nearest(number: int, step: int) -> int:
    """The number in whole steps, to the nearest; a step is odd, so none is halfway."""
    return (number + step // 2) // step


def _product_of(ends: Sequence[tuple[int, int]], *, square: bool) -> tuple[int, int]:
    """The least and the largest product."""
    corners = [one * other for one, other in product(*ends)]
    if square:
        low, high = ends[0]
        return 0 if low <= 0 <= high else min(low**2, high**2), max(low**2, high**2)
    return min(corners), max(corners)
