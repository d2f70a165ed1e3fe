"""Scales: how the values of a column are multiplied, for variances, covariances and correlations.

A factor at the wall is a whole number, and the product of two must not exceed what a row may add. So a column is
measured from a centre in units of about a thirty-thousandth of its range; a value lies within `hidden` of its number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from maquette.query import forms
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis
from maquette.query.moves import LARGEST
from maquette.query.sql.weights import Piece
from maquette.query.value_products import ValueProducts
from maquette.schema import Schema

UNITS = math.isqrt(LARGEST)  # the most of a factor


@dataclass(frozen=True)
class Scale:
    """A column as a factor: whole numbers of `unit` from a centre."""

    factor: forms.Factor
    unit: Fraction
    reach: float
    """How far a value may lie from the centre."""
    hidden: float
    """How far a value may lie from its whole number of units."""


def scale_of(schema: Schema, pieces: Sequence[Piece], centre: float) -> Scale | None:
    """The scale of a column, around the number that its sums are measured from; None for what is not one of numbers."""
    (piece, *more) = pieces
    if more or not piece.plain or piece.keep is not None or len(piece.columns) != 1:
        return None
    column = schema[piece.columns[0]]
    if (grid := column.value_grid) is not None:
        middle = grid.centre(centre)
        reach = max(middle - grid.low, grid.high - middle)
        step = -(-reach // UNITS) | 1
        values = forms.ValueSteps(column.name, grid.low, grid.high, middle, step)
        return Scale(values, grid.step * step, _above(grid.step * reach), _above(grid.step * (step // 2)))
    halves = 2 * np.nan_to_num(piece.values - centre)  # the centre of whole numbers is one, or halfway between two
    most = float(np.abs(halves).max(initial=0.0))
    if most > UNITS or (halves != np.rint(halves)).any():
        return None
    return Scale(forms.LevelNumbers(column.name, tuple(map(int, halves))), Fraction(1, 2), most / 2, 0.0)


def multiplied(
    schema: Schema, scales: Sequence[Scale | None], axes: tuple[Axis, ...], keep: LinearQuery
) -> ValueProducts | None:
    """The sum of the products of two columns; None where neither has values beside its levels."""
    known = [scale for scale in scales if scale is not None]
    if not any(isinstance(scale.factor, forms.ValueSteps) for scale in known):
        return None
    worth = math.prod((scale.unit for scale in known), start=Fraction(1))
    return ValueProducts(schema, [scale.factor for scale in known], axes=axes, where=keep, worth=worth)


def _above(number: Fraction) -> float:
    """The number as a float, not rounded down."""
    return math.nextafter(float(number), math.inf) if number else 0.0
