"""Sums of a column over the cells of a table: of numbers given for its levels, and of its own values."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from maquette.audit.reference.conditions import Condition
from maquette.audit.reference.forms import Contribution, Form, Parts, Table
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, merged
from maquette.query import Amounts, ValueSums
from maquette.schema import Schema


@dataclass(frozen=True, eq=False)
class _Sums(Form):
    """In each cell of a table, the sum of one number per row, clamped to `low` to `high`, where a condition holds."""

    schema: Schema = field(repr=False)
    column: str
    low: int
    high: int
    axes: tuple[str | Parts, ...]
    condition: Condition | None

    @property
    @abstractmethod
    def numbers(self) -> list[int | None]:
        """What a row of each level adds before it is clamped; None adds nothing."""

    def moved(self, number: int) -> int:
        """What a row with this number adds."""
        return min(max(number, self.low), self.high)

    @cached_property
    def _table(self) -> Table:
        return Table(self.schema, self.axes, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return self._table.shape

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        number = self.numbers[record[self.schema.position(self.column)]]
        if number is None or (self.condition is not None and not self.condition.units(record)):
            return []
        moved = self.moved(number) * grid
        return [(cell, moved, moved) for cell, _, _ in self._table.contribution(record, 1)]

    def levels(self) -> Levels:
        """The least, the largest and the missing number, and what the table distinguishes."""
        known = [level for level, number in enumerate(self.numbers) if number is not None]
        by_number = sorted(known, key=lambda level: self.numbers[level] or 0)
        ends = list(dict.fromkeys([*by_number[:1], *by_number[-1:], len(self.numbers) - 1]))
        own = {self.schema.position(self.column): ends}
        return merged(own, self._table.levels(), {} if self.condition is None else self.condition.levels())

    def _settings(self) -> dict[str, Any]:
        axes = [axis if isinstance(axis, str) else axis.build() for axis in self.axes]
        where = None if self.condition is None else self.condition.build()
        return {"low": self.low, "high": self.high, "axes": axes, "where": where}


@dataclass(frozen=True, eq=False)
class AmountTable(_Sums):
    """Sums of whole numbers, one for each level."""

    given: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "amounts"

    @property
    def numbers(self) -> list[int | None]:
        """See `_Sums`."""
        return list(self.given)

    def build(self) -> Amounts:
        """See `Form`."""
        return Amounts(self.schema, self.column, np.array(self.given, dtype=np.int64), **self._settings())


@dataclass(frozen=True, eq=False)
class ValueTable(_Sums):
    """Sums of a column's own values, in steps of its grid, less a centre."""

    centre: int = 0

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "sums of values"

    @cached_property
    def numbers(self) -> list[int | None]:
        """The value of the row that stands for each level, in steps."""
        column = self.schema[self.column]
        grid = column.value_grid
        assert grid is not None
        values = column.decode(np.arange(column.size)).to_pylist()
        return [None if value is None else round(Fraction(value) / grid.step) for value in values]

    def moved(self, number: int) -> int:
        """See `_Sums`."""
        return super().moved(number) - self.centre

    def build(self) -> ValueSums:
        """See `Form`."""
        return ValueSums(self.schema, self.column, centre=self.centre, **self._settings())
