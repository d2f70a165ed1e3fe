"""Distances: the average distance from the private points to a public one, and other sums over columns.

Points live in a declared box: some numeric columns of a schema, each with its range and its grid of cells. The l1
distance to a point is a sum over columns, so one histogram per column answers the whole family of questions, for any
number of columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.errors import QueryError
from maquette.query.linear import FINE, LinearQuery, Term
from maquette.query.marginal import Marginal
from maquette.query.workload import Workload
from maquette.schema import Integer, Number, Schema

Point = Mapping[str, float] | Sequence[float] | NDArray[Any]
Values = NDArray[np.float64]


def additive(
    schema: Schema, weights: Mapping[str, ArrayLike], *, shares: Mapping[str, float] | None = None
) -> LinearQuery:
    """The sum over columns j of share_j * weights_j[level in column j]. For d columns the default share is 1/d.

    Weights lie in [0, 1], one for each level of the column; shares are positive and sum to at most 1. Each product of
    share and weight is rounded to a multiple of 2^-20, never above the share, so that a row's weight is exactly a sum
    over its columns. Rounding changes it by at most d * 2^-20. Privacy: as any linear query, a row weighs at most 1.

    >>> from maquette import Integer, Schema
    >>> schema = Schema([Integer("x", 0, 2), Integer("y", 0, 2)])
    >>> query = additive(schema, {"x": [0, 0.5, 1], "y": [1, 0.5, 0]})
    >>> query.weights(["x", "y"])[2].tolist()
    [1.0, 0.75, 0.5]
    """
    if not weights:
        raise QueryError("a sum over columns needs at least one column, with a weight for each of its levels")
    share = dict.fromkeys(weights, 1.0 / len(weights)) if shares is None else dict(shares)
    _check_shares(share, weights)
    terms = []
    for name, given in weights.items():
        column = schema[name]
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (column.size,):
            raise QueryError(
                f"column {name!r}: got weights of shape {values.shape}",
                expected=f"one for each of its {column.size} levels",
            )
        if not ((values >= 0) & (values <= 1)).all():
            raise QueryError(f"column {name!r}: weights must lie in [0, 1]")
        # No column weighs more than its share, rounded down, so no row weighs more than 1.
        whole = np.minimum(np.rint(share[name] * values * FINE), math.floor(share[name] * FINE))
        terms.append(Term(1.0, {schema.position(name): whole / FINE}))
    return LinearQuery(schema, terms)


def average_distance(
    schema: Schema,
    point: Point,
    columns: Sequence[str] | None = None,
    *,
    scales: Mapping[str, float] | None = None,
) -> LinearQuery:
    """The average l1 distance from the private points to a public one, as a fraction of the box's diameter.

    See `Box`, which also turns answers into the box's own units.
    """
    return Box(schema, columns, scales=scales).distance(point)


class Box:
    """Points in numeric columns of a schema (all of them unless named), and l1 distances between them.

    distance(x, y) = sum_j scale_j |x_j - y_j|, where the public `scales` (default 1) convert the columns to common
    units. A question is this distance divided by the box's `diameter`, a weight in [0, 1]; `in_units` converts an
    answer back. A private point is replaced by the midpoint of its cell, which changes the answer by at most
    `grid_error`. Private points outside the declared range are clamped to it when the table is opened; a public point
    outside it is refused.

    Privacy: a linear query; one row changes the sum of distances by at most the diameter.

    >>> from maquette import Number, Schema
    >>> box = Box(Schema([Number("east", 0, 10, bins=100), Number("north", 0, 20, bins=200)]))
    >>> box.diameter, box.shares["north"], round(box.grid_error, 3)
    (30.0, 0.6666666666666666, 0.1)
    >>> box.distance({"east": 5, "north": 5}).columns
    ('east', 'north')
    """

    def __init__(
        self, schema: Schema, columns: Sequence[str] | None = None, *, scales: Mapping[str, float] | None = None
    ) -> None:
        if isinstance(columns, str):
            raise QueryError(
                f"got the text {columns!r}", expected="a list of column names", advice=f"write [{columns!r}]"
            )
        self.schema = schema
        self.columns = schema.names if columns is None else tuple(columns)
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise QueryError(
                f"the columns are {', '.join(self.columns) or 'none'}", expected="different columns, at least one"
            )
        self.spans = {name: _span(schema, name) for name in self.columns}
        scales = {} if scales is None else scales
        unknown = [name for name in scales if name not in self.spans]
        if unknown or not all(math.isfinite(scale) and scale > 0 for scale in scales.values()):
            raise QueryError(
                f"scales are {dict(scales)!r}", expected=f"positive numbers for some of {', '.join(self.columns)}"
            )
        self.scales = {name: float(scales.get(name, 1.0)) for name in self.columns}

    @cached_property
    def diameter(self) -> float:
        """The largest distance between two points of the box, in units."""
        return math.fsum(self._lengths.values())

    @cached_property
    def shares(self) -> dict[str, float]:
        """Each column's fraction of the diameter; a `Separable` model of distances needs it."""
        return {name: length / self.diameter for name, length in self._lengths.items()}

    @property
    def grid_error(self) -> float:
        """Maximum error of a distance due to cells, in units: the sum over columns of half the widest cell."""
        return math.fsum(self.scales[name] * span.radius for name, span in self.spans.items())

    @cached_property
    def _lengths(self) -> dict[str, float]:
        return {name: self.scales[name] * (span.high - span.low) for name, span in self.spans.items()}

    def distance(self, point: Point) -> LinearQuery:
        """The distance to a public point, divided by the diameter."""
        place = self.place(point)
        weights = {
            name: np.abs(span.middles - place[name]) / (span.high - span.low) for name, span in self.spans.items()
        }
        return additive(self.schema, weights, shares=self.shares)

    def distances(self, points: Iterable[Point]) -> Distances:
        """The workload of distances to the given public points, such as candidate sites."""
        return Distances(self, points)

    def lattice(self, steps: int) -> Values:
        """Public points at the centres of a grid with `steps` cells per column: one row per point."""
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1 or steps ** len(self.spans) > 10**6:
            raise QueryError(f"steps is {steps!r}", expected="a whole number, with at most 1,000,000 points in all")
        middles = (np.arange(steps) + 0.5) / steps
        lines = [span.low + middles * (span.high - span.low) for span in self.spans.values()]
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lines))

    def in_units(self, fraction: float) -> float:
        """A fraction of the diameter (the value or a bound of an answer) in units."""
        return fraction * self.diameter

    def place(self, point: Point) -> dict[str, float]:
        """A public point as a value per column name; refused if it is outside the box."""
        named = isinstance(point, Mapping)
        try:
            if isinstance(point, Mapping):
                place = {name: float(point[name]) for name in point}
            else:
                place = {name: float(value) for name, value in zip(self.columns, point, strict=True)}
        except (TypeError, ValueError):
            place = {}
        if set(place) != set(self.columns):
            raise QueryError(
                f"the point is {point!r}",
                expected=f"one number for each of {', '.join(self.columns)}{', by name' * named}",
            )
        for name, span in self.spans.items():
            if not span.low <= place[name] <= span.high:
                raise QueryError(
                    f"{name} = {place[name]:g} is outside the box, where it runs from {span.low:g} to {span.high:g}",
                    advice="take a point inside, or declare a wider range",
                )
        return place

    def __repr__(self) -> str:
        return f"Box({', '.join(self.columns)}; diameter {self.diameter:g})"


class Distances(Workload):
    """Average distances to public points; the histogram of each column answers all of them."""

    def __init__(self, box: Box, points: Iterable[Point]) -> None:
        self.schema = box.schema
        self.box = box
        self.points = list(points)
        if not self.points:
            raise QueryError("the list of points is empty", expected="at least one")
        self._queries = [box.distance(point) for point in self.points]

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self._queries)

    @property
    def marginals(self) -> Iterator[Marginal]:
        """The histogram of each column."""
        return (Marginal(self.schema, [name]) for name in self.box.columns)

    def _query(self, index: int) -> LinearQuery:
        return self._queries[index]

    def _title(self) -> str:
        return f"distances over {', '.join(self.box.columns)}"


class Span:
    """One column of a box: its range, the midpoints of its cells and the largest distance of a value to a midpoint."""

    def __init__(self, low: float, high: float, middles: Values, radius: float) -> None:
        self.low = low
        self.high = high
        self.middles = middles
        self.radius = radius


def _span(schema: Schema, name: str) -> Span:
    column = schema[name]
    if not isinstance(column, Integer | Number):
        raise QueryError(
            f"column {name!r} ({column.kind}) has no distances",
            expected="a number or integer column",
            advice="Name those that have with columns=[...]",
        )
    if column.nullable:
        raise QueryError(
            f"column {name!r} may be missing, and a missing value lies nowhere", advice="declare it not nullable"
        )
    starts, ends = _cells(column)
    if starts[0] == ends[-1]:
        raise QueryError(f"column {name!r} has a single value, so that all distances are zero", advice="leave it out")
    radius = np.maximum(ends - column.midpoints, column.midpoints - starts)
    return Span(float(starts[0]), float(ends[-1]), column.midpoints, float(radius.max()))


def _cells(column: Integer | Number) -> tuple[Values, Values]:
    """The least and the largest value of each cell."""
    return column.ends


def _check_shares(shares: Mapping[str, float], weights: Mapping[str, object]) -> None:
    if set(shares) != set(weights):
        raise QueryError(
            f"got shares for {', '.join(shares) or 'no column'}", expected=f"a share for each of {', '.join(weights)}"
        )
    if not all(math.isfinite(share) and share > 0 for share in shares.values()):
        raise QueryError(f"shares are {dict(shares)!r}", expected="positive numbers")
    if math.fsum(shares.values()) > 1 + 1e-9:
        raise QueryError(
            f"shares sum to {math.fsum(shares.values()):g}", expected="at most 1", advice="a row weighs at most 1"
        )
