"""A grammar of linear queries with their meaning in exact fractions, independent of how queries are evaluated.

Each node builds the public query it represents, and weighs a record by the documented meaning: products of the given
weights, 1 - w for "not", sums of columns rounded to 2^-20, listed keys, conditions in three-valued logic. Combining
queries multiplies and adds their floats, so the query that was built may differ from the exact weight by `error`; it is
zero where those floats have room for all digits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from maquette.audit.reference.universes import Record
from maquette.query import LinearQuery
from maquette.schema import Schema

RESOLVED = 40  # binary digits to which weights are compared
_ROOM = 52  # digits of a float
_LOOSE = Fraction(1, 2**48)  # what a combination may lose, relative to the sizes of its terms

Levels = dict[int, list[int]]  # interesting levels, by position


class Weight(ABC):
    """A weight for every record, as a tree."""

    schema: Schema
    error: Fraction = Fraction(0)

    @abstractmethod
    def build(self) -> LinearQuery:
        """The public query, built anew; an invalid one is refused here or at a door."""

    @abstractmethod
    def units(self, record: Record) -> int:
        """The exact weight of a record, in whole numbers of 2^-digits: every weight is a binary fraction."""

    def weigh(self, record: Record) -> Fraction:
        """The exact weight of a record."""
        return Fraction(self.units(record), 1 << self.digits)

    @property
    @abstractmethod
    def size(self) -> Fraction:
        """A bound on the sum of the absolute terms of the expanded tree."""

    @property
    @abstractmethod
    def digits(self) -> int:
        """Number of binary digits after the point in all its numbers."""

    @abstractmethod
    def levels(self) -> Levels:
        """For each column that matters, one level of each class of weights, a few at most."""

    def range(self, record: Record, grid: int) -> tuple[int, int]:
        """The least and the largest weight of the record, in whole numbers of 1/grid: half to even, within [0, 1].

        Weights that agree to 2^-40 are one question, as documented; if no number has more digits, they are exact.
        """
        digits, room = self._room
        exact = self.units(record) << (digits - self.digits)
        return _whole(exact - room, digits, grid), _whole(exact + room, digits, grid)

    @cached_property
    def _room(self) -> tuple[int, int]:
        """How far the query that was built may be from the exact weight: binary digits, and units of the last."""
        room = self.error
        if self.digits > RESOLVED:
            room += Fraction(len(self.levels()) + 1, 1 << RESOLVED)
        digits = max(self.digits, digits_of([room]))
        return digits, in_units([room], digits)[0]

    def _lost(self) -> Fraction:
        room = self.digits + max(0, math.ceil(self.size).bit_length())
        return Fraction(0) if room <= _ROOM else self.size * _LOOSE


def _whole(units: int, digits: int, grid: int) -> int:
    """Units of 2^-digits, within [0, 1], in whole numbers of 1/grid."""
    one = 1 << digits
    return half_to_even(min(one, max(0, units)) * grid, one)


def half_to_even(number: int, by: int) -> int:
    """The nearest whole number to number / by."""
    low, rest = divmod(number, by)
    return low + (2 * rest > by or (2 * rest == by and low & 1))


def exact_units(numbers: Sequence[float]) -> tuple[list[int], int]:
    """Floats in whole numbers of 2^-digits, and the digits, exactly; what is not finite counts as 0."""
    ratios = [number.as_integer_ratio() if math.isfinite(number) else (0, 1) for number in map(float, numbers)]
    digits = max([below.bit_length() for _, below in ratios], default=1) - 1
    return [above << (digits + 1 - below.bit_length()) for above, below in ratios], digits


def in_units(numbers: Sequence[Fraction], digits: int) -> list[int]:
    """Binary fractions in whole numbers of 2^-digits."""
    return [number.numerator * ((1 << digits) // number.denominator) for number in numbers]


def digits_of(numbers: Sequence[Fraction]) -> int:
    """Number of binary digits after the point in all these numbers."""
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

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return Fraction(self.value).numerator

    @property
    def size(self) -> Fraction:
        """See `Weight`."""
        return abs(Fraction(self.value))

    @cached_property
    def digits(self) -> int:
        """See `Weight`."""
        return digits_of([Fraction(self.value)])

    def levels(self) -> Levels:
        """None."""
        return {}


@dataclass(frozen=True, eq=False)
class Product(Weight):
    """The product of one weight vector for each of some columns."""

    schema: Schema = field(repr=False)
    factors: Mapping[str, tuple[float, ...]]

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return LinearQuery.product(self.schema, {name: list(factor) for name, factor in self.factors.items()})

    @cached_property
    def _exact(self) -> list[tuple[int, list[int], int]]:
        return [(self.schema.position(name), *exact_units(factor)) for name, factor in self.factors.items()]

    @cached_property
    def _units(self) -> list[tuple[int, list[int]]]:
        return [(position, units) for position, units, _ in self._exact]

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return math.prod([factor[record[position]] for position, factor in self._units])

    @cached_property
    def size(self) -> Fraction:
        """See `Weight`."""
        return Fraction(math.prod([max(map(abs, units)) for _, units in self._units]), 1 << self.digits)

    @cached_property
    def digits(self) -> int:
        """See `Weight`."""
        return sum(digits for _, _, digits in self._exact)

    def levels(self) -> Levels:
        """See `Weight`."""
        return {position: classes(factor) for position, factor in self._units}


@dataclass(frozen=True, eq=False)
class Not(Weight):
    """One minus a weight."""

    part: Weight

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """The schema of the part."""
        return self.part.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return ~self.part.build()

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return (1 << self.digits) - self.part.units(record)

    @cached_property
    def size(self) -> Fraction:
        """See `Weight`."""
        return 1 + self.part.size

    @cached_property
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
        """The schema of the parts."""
        return self.one.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return self.one.build() & self.two.build()

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return self.one.units(record) * self.two.units(record)

    @cached_property
    def size(self) -> Fraction:
        """See `Weight`."""
        return self.one.size * self.two.size

    @cached_property
    def digits(self) -> int:
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
    """One minus the product of the complements."""

    one: Weight
    two: Weight

    @cached_property
    def _meaning(self) -> Weight:
        return Not(And(Not(self.one), Not(self.two)))

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """The schema of the parts."""
        return self.one.schema

    def build(self) -> LinearQuery:
        """See `Weight`."""
        return self.one.build() | self.two.build()

    def units(self, record: Record) -> int:
        """See `Weight`."""
        return self._meaning.units(record)

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
