"""Weights: the number that a row adds to a sum, as a measure whose weights lie in [0, 1].

A number is a few *pieces*: where a predicate holds, a function of the levels of one or a few columns. A column is one
piece, `CASE WHEN smoker THEN age ELSE 0 END` two. Measured from a centre and divided by the largest absolute value, the
weights lie in [-1, 1]; negative and positive are kept apart on an axis of their own, so that the wall counts weights in
[0, 1]. Privacy: as any marginal, a row adds at most 1 to one cell (the wall prices and clamps it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Buckets, Marginal
from maquette.query.sql.statement import Measure
from maquette.query.value_sums import ValueSums
from maquette.schema import Column, Integer, Numeric, Schema

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Hidden:
    """What bins hide: the least and the largest value of each level, and its variance where values are even."""

    least: Values
    largest: Values
    variances: Values

    @property
    def reach(self) -> float:
        """How far a value may lie from the number of its level, which is the middle."""
        return float(np.nanmax((self.largest - self.least) / 2, initial=0.0))

    @staticmethod
    def by(column: Column) -> Hidden | None:
        """What a column's levels hide; None where each holds one value."""
        if not isinstance(column, Numeric) or column.midpoints is None:
            return None
        firsts, lasts = column.ends
        if (firsts == lasts).all():
            return None
        missing = [np.nan] * column.nullable
        return Hidden.between(np.append(firsts, missing), np.append(lasts, missing), float(isinstance(column, Integer)))

    @staticmethod
    def between(least: Values, largest: Values, step: float = 0.0) -> Hidden:
        """What levels hide that hold numbers between two ends, in whole multiples of `step` if it is not 0."""
        with np.errstate(over="ignore"):  # infinite where no square is asked for
            half = (largest - least) / 2
            return Hidden(least, largest, np.nan_to_num(half * (half + step) / 3, posinf=np.inf))


@dataclass(frozen=True)
class Piece:
    """Where `keep` holds (None: everywhere), a number for every combination of levels of `columns`; NaN is NULL."""

    keep: LinearQuery | None
    columns: tuple[str, ...]
    values: Values
    hidden: Hidden | None = None
    """What the levels do not tell."""
    plain: bool = False
    """Whether it is a column as it is, and no expression that has its middles."""

    def weigh(self, schema: Schema, weights: NDArray[np.generic]) -> LinearQuery:
        """Weights over the same levels, where the piece holds."""
        weight = LinearQuery.table(schema, self.columns, np.asarray(weights, dtype=np.float64))
        return weight if self.keep is None else self.keep & weight

    @property
    def known(self) -> NDArray[np.bool_]:
        """The levels on which it is not NULL."""
        return ~np.isnan(self.values)


Pieces = Sequence[Piece]


def extent(pieces: Pieces) -> tuple[float, float]:
    """The smallest and the largest number."""
    found = [values for piece in pieces if len(values := piece.values[piece.known])]
    every = np.concatenate(found) if found else np.zeros(1)
    return float(every.min()), float(every.max())


def hidden(pieces: Pieces) -> tuple[float, float]:
    """How far a value may lie from the number of its level, and the largest variance inside a level."""
    found = [(piece.hidden.reach, piece.hidden.variances.max()) for piece in pieces if piece.hidden is not None]
    return max((far for far, _ in found), default=0.0), float(max((even for _, even in found), default=0.0))


def hides(pieces: Pieces) -> bool:
    """Whether a level of some piece holds several numbers."""
    return any(piece.hidden is not None and piece.hidden.reach > 0 for piece in pieces)


def ends(pieces: Pieces) -> tuple[list[Piece], list[Piece]]:
    """The least and the largest number that every row may have."""
    return (
        [p if p.hidden is None else replace(p, values=p.hidden.least, hidden=None, plain=False) for p in pieces],
        [p if p.hidden is None else replace(p, values=p.hidden.largest, hidden=None, plain=False) for p in pieces],
    )


def reach(pieces: Pieces) -> float:
    """How far a value may lie from the middle of its range."""
    low, high = extent(pieces)
    return (high - low) / 2 + hidden(pieces)[0]


def added(queries: Sequence[LinearQuery]) -> LinearQuery:
    """The sum of questions about disjoint rows."""
    return reduce(lambda a, b: LinearQuery(a.schema, [*a.terms, *b.terms]), queries)


def known_rows(schema: Schema, pieces: Pieces) -> LinearQuery | None:
    """The rows for which the number is not NULL; None if that is every row."""
    if all(piece.known.all() for piece in pieces):
        return None
    return added([piece.weigh(schema, piece.known) for piece in pieces])


def total(  # noqa: PLR0917
    schema: Schema, pieces: Pieces, axes: tuple[Axis, ...], keep: LinearQuery, centre: float = 0.0, power: int = 1
) -> Measure:
    """The sum of the numbers, measured from `centre`, to the first or second power."""
    moved = [replace(piece, values=np.nan_to_num(_power(piece, centre, power))) for piece in pieces]
    scale = max((float(np.abs(piece.values).max(initial=0.0)) for piece in moved), default=0.0)
    weight = added([piece.weigh(schema, np.abs(piece.values) / (scale or 1.0)) for piece in moved])
    signed, plain = any((piece.values < 0).any() for piece in moved), axes
    if signed:
        title = "sign"
        while title in Marginal(schema, axes).names:
            title += "'"
        sides = [added([piece.weigh(schema, side(piece.values)) for piece in moved]) for side in (_negative, _positive)]
        axes = (*axes, Buckets(title, ("negative", "positive"), tuple(sides)))
    own = _own_values(schema, pieces, plain, keep, centre) if power == 1 else None
    ends = extent(pieces) if power == 1 else None
    return Measure(Marginal(schema, axes, keep & weight), scale, signed, centre, own, ends)


def _power(piece: Piece, centre: float, power: int) -> Values:
    """Distances from the centre to a power; a square is its mean where values are even inside a bin (Sheppard)."""
    with np.errstate(over="ignore"):
        found = (piece.values - centre) ** power
    found = found if power == 1 or piece.hidden is None else found + piece.hidden.variances
    if np.isinf(found).any():
        raise QueryError(
            "numbers of this range, or their squares, are beyond those of floating point",
            advice="declare a smaller range, or ask for count, sum or avg",
        )
    return found


def _own_values(
    schema: Schema, pieces: Pieces, axes: tuple[Axis, ...], keep: LinearQuery, centre: float
) -> ValueSums | None:
    """The sum of a column's own values, around the whole step nearest to `centre`; None for other numbers."""
    column = valued(schema, pieces, keep)
    grid = None if column is None else column.value_grid
    if column is None or grid is None:
        return None
    # The middles of bins need not be around that of the range.
    return ValueSums(schema, column.name, centre=grid.centre(centre), axes=axes, where=keep)


def valued(schema: Schema, pieces: Pieces, keep: LinearQuery) -> Column | None:
    """The column whose own values the pieces are, where its levels hold several; else None."""
    if len(pieces) != 1 or pieces[0].keep is not None or len(pieces[0].columns) != 1:
        return None
    column = schema[pieces[0].columns[0]]
    return column if pieces[0].plain and keep.is_predicate and column.value_grid is not None else None


def product(  # noqa: PLR0917
    schema: Schema, first: Piece, second: Piece, axes: tuple[Axis, ...], keep: LinearQuery, centres: tuple[float, float]
) -> Measure:
    """The sum of the products of two columns, each measured from its own centre."""
    one, two = (np.nan_to_num(piece.values - c) for piece, c in zip((first, second), centres, strict=True))
    scales = [float(np.abs(values).max(initial=0.0)) or 1.0 for values in (one, two)]

    def both(a: NDArray[np.generic], b: NDArray[np.generic]) -> LinearQuery:
        return first.weigh(schema, a) & second.weigh(schema, b)

    weight = both(np.abs(one) / scales[0], np.abs(two) / scales[1])
    title = "sign"
    while title in Marginal(schema, axes).names:
        title += "'"
    negative = added([both(one < 0, two > 0), both(one > 0, two < 0)])
    positive = added([both(one < 0, two < 0), both(one > 0, two > 0)])
    sides = Buckets(title, ("negative", "positive"), (negative, positive))
    return Measure(Marginal(schema, (*axes, sides), keep & weight), scales[0] * scales[1], True)


def _negative(values: Values) -> NDArray[np.bool_]:
    return values < 0


def _positive(values: Values) -> NDArray[np.bool_]:
    return values > 0
