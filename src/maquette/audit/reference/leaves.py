"""Elementary weights: sums over columns, distances, listed keys, cuts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from maquette.audit.reference.edges import FINE
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, Weight, classes, digits_of, exact_units, half_to_even, in_units
from maquette.query import LinearQuery, additive, average_distance, cut, lookup
from maquette.schema import Column, Integer, Schema


@dataclass(frozen=True, eq=False)
class Additive(Weight):
    """A sum over columns: a share times a weight, rounded to 2^-20 and at most the share."""

    schema: Schema = field(repr=False)
    weights: Mapping[str, tuple[float, ...]]
    shares: Mapping[str, float] | None = None
    loose: bool = False  # weights computed in floats, so that those of the query may differ

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return additive(self.schema, {n: list(w) for n, w in self.weights.items()}, shares=self.shares)

    @cached_property
    def _parts(self) -> dict[int, list[tuple[int, int]]]:
        parts, slack = {}, 40 if self.loose else 50  # binary digits to which a product is known
        for name, weights in self.weights.items():
            share = Fraction(1.0 / len(self.weights) if self.shares is None else self.shares[name])
            most = math.floor(share * FINE)
            exact, digits = exact_units(weights)
            scale, one = share.numerator * FINE, share.denominator << (digits + slack)
            parts[self.schema.position(name)] = [
                (
                    min(half_to_even(units * scale * ((1 << slack) - 1), one), most),
                    min(half_to_even(units * scale * ((1 << slack) + 1), one), most + self.loose),
                )
                for units in exact
            ]
        return parts

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return sum(part[record[position]][0] for position, part in self._parts.items())

    @cached_property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(sum(max(abs(high) for _, high in part) for part in self._parts.values()), FINE)

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return FINE.bit_length() - 1

    @cached_property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return Fraction(sum(max(high - low for low, high in part) for part in self._parts.values()), FINE)

    def levels(self) -> Levels:
        """See `Weight`."""
        return {position: classes(part) for position, part in self._parts.items()}


@dataclass(frozen=True, eq=False)
class Distance(Additive):
    """The average distance to a public point, as a fraction of the box's diameter."""

    point: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return average_distance(self.schema, self.point, self.columns)


def distance(schema: Schema, columns: Sequence[str], rng: np.random.Generator) -> Distance:
    """The distance to a random point of the box of some integer columns."""
    ends = {}
    for name in columns:
        column = schema[name]
        assert isinstance(column, Integer)
        ends[name] = (column.low, column.high, column.midpoints)
    point = tuple(float(rng.integers(low, high + 1)) for low, high, _ in ends.values())
    diameter = sum(high - low for low, high, _ in ends.values())
    weights = {
        name: tuple(float(abs(m - p)) / (high - low) for m in middles)
        for (name, (low, high, middles)), p in zip(ends.items(), point, strict=True)
    }
    shares = {name: (high - low) / diameter for name, (low, high, _) in ends.items()}
    return Distance(schema, weights, shares, loose=True, point=point, columns=tuple(columns))


@dataclass(frozen=True, eq=False)
class Listed(Weight):
    """A look-up: listed keys, each with a weight, and nothing else."""

    schema: Schema = field(repr=False)
    columns: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...] | None

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return lookup(self.schema, keys_of(self.schema, self.columns, self.points), weights=self.weights)

    @cached_property
    def _known(self) -> dict[tuple[int, ...], float]:
        weights = self.weights or (1.0,) * len(self.points)
        return dict(zip(self.points, weights, strict=True))

    @cached_property
    def _positions(self) -> list[int]:
        return [self.schema.position(name) for name in self.columns]

    @cached_property
    def _exact(self) -> tuple[list[int], int]:
        return exact_units(list(self._known.values()))

    @cached_property
    def _units(self) -> dict[tuple[int, ...], int]:
        return dict(zip(self._known, self._exact[0], strict=True))

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return self._units.get(tuple(record[position] for position in self._positions), 0)

    @cached_property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(sum(map(abs, self._exact[0])), 1 << self.digits)

    @cached_property
    def digits(self) -> int:
        """See `Weight`."""
        return self._exact[1]

    def levels(self) -> Levels:
        """See `Weight`."""
        return {p: [point[i] for point in self.points[:4]] for i, p in enumerate(self._positions)}


def keys_of(schema: Schema, columns: Sequence[str], points: Sequence[Sequence[int]]) -> list[dict[str, object]]:
    """Keys as a user lists them, from codes."""
    return [{name: _value(schema[name], code) for name, code in zip(columns, point, strict=True)} for point in points]


def _value(column: Column, code: int) -> object:
    if code >= column.known:
        return None
    return column.low + code if isinstance(column, Integer) and column.width == 1 else column.labels[code]


@dataclass(frozen=True, eq=False)
class Cut(Weight):
    """The edges from one set of vertices to another, or their weight."""

    schema: Schema = field(repr=False)
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    undirected: bool

    def build(self) -> LinearQuery:
        """See `Weight`."""
        one, two = (np.isin(np.arange(self.schema["from"].size), side) for side in (self.sources, self.targets))
        return cut(self.schema, one, two, undirected=self.undirected)

    @cached_property
    def _steps(self) -> list[Fraction] | None:
        if "weight" not in self.schema:
            return None
        steps = self.schema["weight"].size - 1
        return [Fraction(round(i / steps, 12)) for i in range(steps + 1)]

    def units(self, record: Record) -> int:
        """See `Weight`."""
        start, end = record[self.schema.position("from")], record[self.schema.position("to")]
        crosses = start in self.sources and end in self.targets
        crosses |= self.undirected and end in self.sources and start in self.targets
        if not crosses:
            return 0
        return 1 if self._steps is None else self._units[record[self.schema.position("weight")]]

    @cached_property
    def _units(self) -> list[int]:
        return in_units(self._steps or [], self.digits)

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(3)

    @cached_property
    def digits(self) -> int:
        """See `Weight`."""
        return 0 if self._steps is None else digits_of(self._steps)

    @property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return self._lost()

    def levels(self) -> Levels:
        """See `Weight`."""
        return {position: list(range(column.size)) for position, column in enumerate(self.schema)}
