"""Questions as the doors accept them, each with what one record adds to every value, in whole numbers.

A form builds the public question (columns, a linear query, a marginal with buckets, listed keys, contrasts, parities)
and gives, for a record and a grid, the contribution of that record: a list of (flat cell, least, largest). The two ends
differ only where floats make the query's own weights inexact (`Weight.error`).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from maquette.audit.reference.leaves import keys_of
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, Weight, classes, merged
from maquette.query import Buckets, Contrasts, Keys, Lookup, Marginal, Parities, residual
from maquette.schema import Schema

Contribution = list[tuple[int, int, int]]  # flat cell, least, largest


class Form(ABC):
    """One question."""

    schema: Schema
    trusted: bool = True  # whether its meaning is known; a hostile question only has to stay within its price

    @abstractmethod
    def build(self) -> Any:
        """The public question, built anew."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of its values."""

    @abstractmethod
    def contribution(self, record: Record, grid: int) -> Contribution:
        """What one record adds, in whole numbers of 1/grid."""

    @abstractmethod
    def levels(self) -> Levels:
        """Interesting levels of the columns that matter."""

    @property
    def kind(self) -> str:
        """The kind of question."""
        return type(self).__name__.lower()

    @property
    def cells(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    def within(self, record: Record, tolerance: float) -> bool:
        """Whether the record may be asked about like this: its weight is in [0, 1], up to a tolerance."""
        return True


class Unchecked(Form):
    """One number that is not compared with anything: the question only has to stay within its price."""

    trusted: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """One number; of a hostile question it is unknown until it is built."""
        return ()

    def contribution(self, record: Record, grid: int) -> Contribution:
        """Unknown, or not a sum over records."""
        return []


@dataclass(frozen=True, eq=False)
class Columns(Form):
    """A table over columns by their names."""

    schema: Schema = field(repr=False)
    names: tuple[str, ...]

    def build(self) -> list[str]:
        """See `Form`."""
        return list(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return tuple(self.schema[name].size for name in self.names)

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        place = [record[self.schema.position(name)] for name in self.names]
        return [(_flat(place, self.shape), grid, grid)]

    def levels(self) -> Levels:
        """See `Form`."""
        return {self.schema.position(name): [0, self.schema[name].size - 1] for name in self.names}


@dataclass(frozen=True, eq=False)
class Total(Form):
    """One number: the total of a weight, as a linear query or as a marginal without axes."""

    weight: Weight
    as_marginal: bool

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """See `Form`."""
        return self.weight.schema

    @property
    def kind(self) -> str:
        """The kind of weight."""
        return f"total of {type(self.weight).__name__.lower()}"

    def build(self) -> Any:
        """See `Form`."""
        query = self.weight.build()
        return Marginal(self.schema, (), query) if self.as_marginal else query

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return ()

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        return [(0, *self.weight.range(record, grid))]

    def levels(self) -> Levels:
        """See `Form`."""
        return self.weight.levels()

    def within(self, record: Record, tolerance: float) -> bool:
        """See `Form`."""
        return _within(self.weight, record, tolerance)


@dataclass(frozen=True, eq=False)
class Parts:
    """Buckets: disjoint conditions."""

    name: str
    parts: tuple[Weight, ...]

    def build(self) -> Buckets:
        """The public axis."""
        labels = tuple(f"part {i}" for i in range(len(self.parts)))
        return Buckets(self.name, labels, tuple(part.build() for part in self.parts))

    def divides(self, record: Record, tolerance: float) -> bool:
        """Whether every bucket holds the record or does not, up to a tolerance, and one of them does at most."""
        weights = [(part.weigh(record), part.error + Fraction(tolerance)) for part in self.parts]
        certain = all(min(abs(weight), abs(1 - weight)) <= room for weight, room in weights)
        return certain and sum(weight * 2 > 1 for weight, _ in weights) <= 1


@dataclass(frozen=True, eq=False)
class Table(Form):
    """A marginal with axes (columns or buckets), weighted or not."""

    schema: Schema = field(repr=False)
    axes: tuple[str | Parts, ...]
    weight: Weight | None

    @property
    def kind(self) -> str:
        """The kind of table."""
        bucketed = any(isinstance(axis, Parts) for axis in self.axes)
        return f"{'bucketed ' * bucketed}{'weighted ' * (self.weight is not None)}marginal"

    def build(self) -> Marginal:
        """See `Form`."""
        axes = [axis if isinstance(axis, str) else axis.build() for axis in self.axes]
        return Marginal(self.schema, axes, None if self.weight is None else self.weight.build())

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return tuple(self.schema[a].size if isinstance(a, str) else len(a.parts) for a in self.axes)

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        place = []
        for axis in self.axes:
            if isinstance(axis, str):
                place.append(record[self.schema.position(axis)])
                continue
            held = [i for i, part in enumerate(axis.parts) if part.weigh(record) * 2 > 1]
            if not held:
                return []
            place.append(held[0])
        low, high = (grid, grid) if self.weight is None else self.weight.range(record, grid)
        return [(_flat(place, self.shape), low, high)]

    def levels(self) -> Levels:
        """See `Form`."""
        columns = {self.schema.position(a): [0, self.schema[a].size - 1] for a in self.axes if isinstance(a, str)}
        parts = [part.levels() for axis in self.axes if isinstance(axis, Parts) for part in axis.parts]
        return merged(columns, *parts, {} if self.weight is None else self.weight.levels())

    def within(self, record: Record, tolerance: float) -> bool:
        """See `Form`; and whether it lies in one bucket of every axis at most, and there for sure."""
        if not all(axis.divides(record, tolerance) for axis in self.axes if isinstance(axis, Parts)):
            return False
        return self.weight is None or _within(self.weight, record, tolerance)


@dataclass(frozen=True, eq=False)
class KeyTable(Form):
    """Listed keys, each counted: distinct ones in order."""

    schema: Schema = field(repr=False)
    columns: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "keys"

    def build(self) -> Keys:
        """See `Form`."""
        return Keys(self.schema, keys_of(self.schema, self.columns, self.points))

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        order = sorted(range(len(self.columns)), key=lambda i: self.schema.position(self.columns[i]))
        return {p: i for i, p in enumerate(sorted({tuple(point[i] for i in order) for point in self.points}))}

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return (len(self._places),)

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        names = sorted(self.columns, key=self.schema.position)
        found = self._places.get(tuple(record[self.schema.position(name)] for name in names))
        return [] if found is None else [(found, grid, grid)]

    def levels(self) -> Levels:
        """See `Form`."""
        return {
            self.schema.position(name): [point[i] for point in self.points[:4]] for i, name in enumerate(self.columns)
        }


@dataclass(frozen=True, eq=False)
class RawKeys(Form):
    """A look-up or a table of keys from codes as an analyst may pass them: repeated, negative or too large."""

    schema: Schema = field(repr=False)
    columns: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    how: str  # "query" or "table"
    trusted: bool = False

    def build(self) -> Any:
        """See `Form`."""
        found = Lookup(
            self.schema, self.columns, np.array(self.points, dtype=np.int64), np.array(self.weights, dtype=np.float64)
        )
        if self.how == "table":
            return Keys(self.schema, found)
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return (len(set(self.points)),) if self.how == "table" else ()

    def contribution(self, record: Record, grid: int) -> Contribution:
        """Unknown: it only has to stay within its price."""
        return []

    def levels(self) -> Levels:
        """The levels that a negative or too large code would reach if it wrapped."""
        sizes = self.schema.shape(self.columns)
        return {
            self.schema.position(name): [point[i] % sizes[i] for point in self.points[:4]]
            for i, name in enumerate(self.columns)
        }


@dataclass(frozen=True, eq=False)
class Contrasted(Form):
    """Whole-number combinations of the cells of a table."""

    table: Table
    matrices: tuple[np.ndarray, ...]

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """See `Form`."""
        return self.table.schema

    def build(self) -> Contrasts:
        """See `Form`."""
        return Contrasts(self.table.build(), self.matrices)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return tuple(len(matrix) for matrix in self.matrices)

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        return [
            (i, min(entry * low, entry * high), max(entry * low, entry * high))
            for flat, low, high in self.table.contribution(record, grid)
            for i, entry in enumerate(self._column(flat))
        ]

    def _column(self, flat: int) -> list[int]:
        place = np.unravel_index(flat, self.table.shape)
        columns = [[int(x) for x in matrix[:, int(i)]] for matrix, i in zip(self.matrices, place, strict=True)]
        return [math.prod(entries) for entries in itertools.product(*columns)]

    def levels(self) -> Levels:
        """See `Form`."""
        return self.table.levels()

    def within(self, record: Record, tolerance: float) -> bool:
        """See `Form`."""
        return self.table.within(record, tolerance)


@dataclass(frozen=True, eq=False)
class Difference(Contrasted):
    """What is held less what is not, of a table with these two buckets: how sessions count from half of the rows."""

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "held less not held"


@dataclass(frozen=True, eq=False)
class Residual(Contrasted):
    """What a marginal says beyond its subsets; its whole-number matrices are read from the public question."""

    def build(self) -> Contrasts:
        """See `Form`."""
        return residual(self.schema, [axis for axis in self.table.axes if isinstance(axis, str)])


def residual_form(schema: Schema, names: Sequence[str]) -> Residual:
    """The residual of a marginal over columns of two levels or more."""
    matrices = tuple(np.array(matrix) for matrix in residual(schema, names).matrices)
    return Residual(Table(schema, tuple(names), None), matrices)


@dataclass(frozen=True, eq=False)
class ParityTable(Form):
    """For every set of `level` yes/no columns: rows with an even number of them minus rows with an odd number."""

    schema: Schema = field(repr=False)
    names: tuple[str, ...]
    level: int

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "parities"

    def build(self) -> Parities:
        """See `Form`."""
        return Parities(self.schema, list(self.names), self.level)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return (math.comb(len(self.names), self.level),)

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        bits = [record[self.schema.position(name)] for name in self.names]
        signs = [(-1) ** sum(chosen) for chosen in itertools.combinations(bits, self.level)]
        return [(i, sign * grid, sign * grid) for i, sign in enumerate(signs)]

    def levels(self) -> Levels:
        """See `Form`."""
        return {self.schema.position(name): classes((0, 1)) for name in self.names}


def _flat(place: Sequence[int], shape: Sequence[int]) -> int:
    flat = 0
    for index, size in zip(place, shape, strict=True):
        flat = flat * size + index
    return flat


def _within(weight: Weight, record: Record, tolerance: float) -> bool:
    exact, room = weight.weigh(record), weight.error + Fraction(tolerance)
    return -room <= exact <= 1 + room
