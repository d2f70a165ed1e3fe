"""A grammar of linear queries with their meaning in exact fractions, written apart from how queries are evaluated.

Each node builds the public query it stands for, and weighs a record by the documented meaning: products of the given
weights, 1 - w for "not", sums of columns rounded to 2^-20, listed keys, conditions in three-valued logic. Combining
queries multiplies and adds their floats, so the query that was built may differ from the exact weight by `error`; it is
zero where those floats have room for all digits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np

from maquette.audit.edges import FINE
from maquette.audit.universes import Record
from maquette.query import Expression, LinearQuery, additive, average_distance, col, cut, lookup, where
from maquette.schema import Column, Integer, Schema

RESOLVED = 40  # binary digits by which weights are told apart
_ROOM = 52  # digits of a float
_LOOSE = Fraction(1, 2**48)  # what a combination may lose, relative to the sizes of its terms

Levels = dict[int, list[int]]  # interesting levels, by position


class Weight(ABC):
    """A weight for every record, as a tree."""

    schema: Schema
    error: Fraction = Fraction(0)

    @abstractmethod
    def build(self) -> LinearQuery:
        """The public query, built afresh; what may not be asked is refused here or at a door."""

    @abstractmethod
    def weigh(self, record: Record) -> Fraction:
        """The exact weight of a record."""

    @property
    @abstractmethod
    def size(self) -> Fraction:
        """A bound on the sum of the sizes of the terms that the tree expands to."""

    @property
    @abstractmethod
    def digits(self) -> int:
        """Binary digits behind the point of all its numbers."""

    @abstractmethod
    def levels(self) -> Levels:
        """For each column that matters, a level of each class of weights, a few at most."""

    def range(self, record: Record, grid: int) -> tuple[int, int]:
        """The least and the largest whole number of 1/grid that the record may weigh: half to even, within [0, 1].

        Weights that agree to 2^-40 are one question, as its documents say; those with no more digits are exact.
        """
        exact, room = self.weigh(record), self.error
        if (1 << RESOLVED) % exact.denominator:
            room += self._same
        return _whole(exact - room, grid), _whole(exact + room, grid)

    @cached_property
    def _same(self) -> Fraction:
        return Fraction(len(self.levels()) + 1, 1 << RESOLVED)

    def _lost(self) -> Fraction:
        room = self.digits + max(0, math.ceil(self.size).bit_length())
        return Fraction(0) if room <= _ROOM else self.size * _LOOSE


def _whole(weight: Fraction, grid: int) -> int:
    return round(min(Fraction(1), max(Fraction(0), weight)) * grid)


def _digits(numbers: Sequence[Fraction]) -> int:
    return max((number.denominator.bit_length() - 1 for number in numbers), default=0)


def classes(values: Sequence[object], most: int = 4) -> list[int]:
    """The first level of each class of equal values, and the last of all."""
    first: dict[object, int] = {}
    for level, value in enumerate(values):
        first.setdefault(value, level)
    return list(dict.fromkeys([*list(first.values())[:most], len(values) - 1]))


def merged(*parts: Levels) -> Levels:
    """The interesting levels of several parts together."""
    together: Levels = {}
    for part in parts:
        for position, levels in part.items():
            together[position] = list(dict.fromkeys([*together.get(position, []), *levels]))
    return together


@dataclass(frozen=True)
class Constant(Weight):
    """The same weight for every record."""

    schema: Schema = field(repr=False)
    value: float

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return LinearQuery.constant(self.schema, self.value)

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return Fraction(self.value)

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return abs(Fraction(self.value))

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return _digits([Fraction(self.value)])

    def levels(self) -> Levels:
        """None."""
        return {}


@dataclass(frozen=True, eq=False)
class Product(Weight):
    """A weight vector for each of some columns, multiplied."""

    schema: Schema = field(repr=False)
    factors: Mapping[str, tuple[float, ...]]

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return LinearQuery.product(self.schema, {name: list(factor) for name, factor in self.factors.items()})

    @cached_property
    def _exact(self) -> dict[int, list[Fraction]]:
        return {
            self.schema.position(name): [Fraction(w) if math.isfinite(w) else Fraction(0) for w in factor]
            for name, factor in self.factors.items()
        }

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return math.prod((factor[record[position]] for position, factor in self._exact.items()), start=Fraction(1))

    @cached_property
    def size(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return math.prod((max(map(abs, factor)) for factor in self._exact.values()), start=Fraction(1))

    @cached_property
    def digits(self) -> int:  # type: ignore[override]
        """See `Weight`."""
        return sum(_digits(factor) for factor in self._exact.values())

    def levels(self) -> Levels:
        """See `Weight`."""
        return {position: classes(factor) for position, factor in self._exact.items()}


@dataclass(frozen=True, eq=False)
class Not(Weight):
    """One minus a weight."""

    part: Weight

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """That of the part."""
        return self.part.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return ~self.part.build()

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return 1 - self.part.weigh(record)

    @cached_property
    def size(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return 1 + self.part.size

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return self.part.digits

    @cached_property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return self.part.error + self._lost()

    def levels(self) -> Levels:
        """See `Weight`."""
        return self.part.levels()


@dataclass(frozen=True, eq=False)
class And(Weight):
    """The product of two weights."""

    one: Weight
    two: Weight

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """That of the parts."""
        return self.one.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return self.one.build() & self.two.build()

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return self.one.weigh(record) * self.two.weigh(record)

    @cached_property
    def size(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return self.one.size * self.two.size

    @cached_property
    def digits(self) -> int:  # type: ignore[override]
        """See `Weight`."""
        return self.one.digits + self.two.digits

    @cached_property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        one, two = self.one, self.two
        return one.size * two.error + two.size * one.error + one.error * two.error + self._lost()

    def levels(self) -> Levels:
        """See `Weight`."""
        return merged(self.one.levels(), self.two.levels())


@dataclass(frozen=True, eq=False)
class Or(Weight):
    """One minus the product of what is missing to one."""

    one: Weight
    two: Weight

    @cached_property
    def _meaning(self) -> Weight:
        return Not(And(Not(self.one), Not(self.two)))

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """That of the parts."""
        return self.one.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return self.one.build() | self.two.build()

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return self._meaning.weigh(record)

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return self._meaning.size

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return self._meaning.digits

    @property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return self._meaning.error

    def levels(self) -> Levels:
        """See `Weight`."""
        return merged(self.one.levels(), self.two.levels())


@dataclass(frozen=True, eq=False)
class Additive(Weight):
    """A sum over columns: a share times a weight, rounded to 2^-20 and no higher than the share."""

    schema: Schema = field(repr=False)
    weights: Mapping[str, tuple[float, ...]]
    shares: Mapping[str, float] | None = None
    loose: bool = False  # weights that were computed in floats, so that those of the query may differ

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return additive(self.schema, {n: list(w) for n, w in self.weights.items()}, shares=self.shares)

    @cached_property
    def _parts(self) -> dict[int, list[tuple[int, int]]]:
        parts = {}
        for name, weights in self.weights.items():
            share = Fraction(1.0 / len(self.weights) if self.shares is None else self.shares[name])
            slack = Fraction(1, 2**40) if self.loose else Fraction(1, 2**50)
            most = math.floor(share * FINE)
            parts[self.schema.position(name)] = [
                (
                    min(round(share * w * FINE * (1 - slack)), most),
                    min(round(share * w * FINE * (1 + slack)), most + self.loose),
                )
                for w in (Fraction(x) if math.isfinite(x) else Fraction(0) for x in weights)
            ]
        return parts

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return Fraction(sum(part[record[position]][0] for position, part in self._parts.items()), FINE)

    @cached_property
    def size(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return Fraction(sum(max(abs(high) for _, high in part) for part in self._parts.values()), FINE)

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return 20

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
    def _known(self) -> dict[tuple[int, ...], Fraction]:
        weights = self.weights or (1.0,) * len(self.points)
        return {p: Fraction(w) if math.isfinite(w) else Fraction(0) for p, w in zip(self.points, weights, strict=True)}

    @cached_property
    def _positions(self) -> list[int]:
        return [self.schema.position(name) for name in self.columns]

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return self._known.get(tuple(record[position] for position in self._positions), Fraction(0))

    @cached_property
    def size(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return sum(map(abs, self._known.values()), Fraction(0))

    @cached_property
    def digits(self) -> int:  # type: ignore[override]
        """See `Weight`."""
        return _digits(list(self._known.values()))

    def levels(self) -> Levels:
        """See `Weight`."""
        return {p: [point[i] for point in self.points[:4]] for i, p in enumerate(self._positions)}


def keys_of(
    schema: Schema, columns: Sequence[str], points: Sequence[Sequence[int]]
) -> list[dict[str, object]]:
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

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        start, end = record[self.schema.position("from")], record[self.schema.position("to")]
        crosses = start in self.sources and end in self.targets
        crosses |= self.undirected and end in self.sources and start in self.targets
        if not crosses:
            return Fraction(0)
        return Fraction(1) if self._steps is None else self._steps[record[self.schema.position("weight")]]

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(3)

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return 0 if self._steps is None else _digits(self._steps)

    @property
    def error(self) -> Fraction:  # type: ignore[override]
        """See `Weight`."""
        return self._lost()

    def levels(self) -> Levels:
        """See `Weight`."""
        return {position: list(range(column.size)) for position, column in enumerate(self.schema)}


Truth = bool | None


@dataclass(frozen=True, eq=False)
class Condition(Weight):
    """A condition in text or as an expression: comparisons joined by and, or, not, in three-valued logic.

    `tree` is a comparison (column, comparison, literal, truth of every level), or ("and" | "or", trees), or
    ("not", tree).
    """

    schema: Schema = field(repr=False)
    tree: tuple[object, ...]
    as_text: bool

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return where(self.schema, self.text(self.tree) if self.as_text else self._expression(self.tree))

    def weigh(self, record: Record) -> Fraction:
        """See `Weight`."""
        return Fraction(self._truth(self.tree, record) is True)

    def _truth(self, tree: tuple[object, ...], record: Record) -> Truth:
        match tree:
            case ("not", tuple(part)):
                inner = self._truth(part, record)
                return None if inner is None else not inner
            case ("and" | "or" as join, tuple(parts)):
                found = [self._truth(part, record) for part in parts]
                decides = join == "or"
                if decides in found:
                    return decides
                return None if None in found else not decides
            case (str(name), _, _, tuple(truths)):
                truth: Truth = truths[record[self.schema.position(name)]]
                return truth
        raise TypeError(f"{tree!r} is no condition")

    def text(self, tree: tuple[object, ...]) -> str:
        """The condition in SQL."""
        match tree:
            case ("not", tuple(part)):
                return f"NOT ({self.text(part)})"
            case ("and" | "or" as join, tuple(parts)):
                return f" {join.upper()} ".join(f"({self.text(part)})" for part in parts)
            case (str(name), "null", _, _):
                return f"{_quoted(name)} IS NULL"
            case (str(name), str(comparison), literal, _):
                return f"{_quoted(name)} {comparison} {_literal(literal)}"
        raise TypeError(f"{tree!r} is no condition")

    def _expression(self, tree: tuple[object, ...]) -> Expression:
        match tree:
            case ("not", tuple(part)):
                return ~self._expression(part)
            case ("and" | "or" as join, tuple(parts)):
                join_two: Callable[[Expression, Expression], Expression] = (
                    (lambda a, b: a & b) if join == "and" else (lambda a, b: a | b)
                )
                return reduce(join_two, [self._expression(part) for part in parts])
            case (str(name), "null", _, _):
                return col(name).is_null()
            case (str(name), str(comparison), literal, _):
                column = col(name)
                by = {"=": column.__eq__, "<>": column.__ne__, "<": column.__lt__, ">=": column.__ge__}
                return by[comparison](literal)  # type: ignore[no-any-return, operator]
        raise TypeError(f"{tree!r} is no condition")

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(1)

    @property
    def digits(self) -> int:
        """See `Weight`."""
        return 0

    def levels(self) -> Levels:
        """See `Weight`."""
        return self._levels(self.tree)

    def _levels(self, tree: tuple[object, ...]) -> Levels:
        match tree:
            case ("not", tuple(part)):
                return self._levels(part)
            case ("and" | "or", tuple(parts)):
                return merged(*(self._levels(part) for part in parts))
            case (str(name), _, _, tuple(truths)):
                return {self.schema.position(name): classes(truths)}
        raise TypeError(f"{tree!r} is no condition")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'" if not isinstance(value, int | float) else repr(value)
