"""Sums of products of two factors over the cells of a table: values in whole steps, and numbers of levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from maquette.audit.reference.conditions import Condition
from maquette.audit.reference.forms import Contribution, Form, Parts, Table
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, merged
from maquette.query import ValueProducts, forms
from maquette.schema import Schema


@dataclass(frozen=True, eq=False)
class ProductTable(Form):
    """In each cell of a table, the sum of the products of two whole numbers per row, where a condition holds."""

    schema: Schema = field(repr=False)
    factors: tuple[forms.Factor, forms.Factor]
    axes: tuple[str | Parts, ...]
    condition: Condition | None

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "products of values"

    @cached_property
    def _table(self) -> Table:
        return Table(self.schema, self.axes, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Form`."""
        return self._table.shape

    def _number(self, factor: forms.Factor, record: Record) -> int:
        """One factor of a record, from the fractions that define it."""
        level = record[self.schema.position(factor.column)]
        if isinstance(factor, forms.LevelNumbers):
            return factor.numbers[level]
        column = self.schema[factor.column]
        grid = column.value_grid
        assert grid is not None
        (value,) = column.decode(np.array([level])).to_pylist()
        if value is None:
            return 0
        steps = min(max(round(Fraction(value) / grid.step), factor.low), factor.high)
        return round(Fraction(steps - factor.centre, factor.step))  # a step is odd: none is halfway

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        if self.condition is not None and not self.condition.units(record):
            return []
        one, other = (self._number(factor, record) for factor in self.factors)
        return [(cell, one * other * grid, one * other * grid) for cell, _, _ in self._table.contribution(record, 1)]

    def levels(self) -> Levels:
        """Every level of the factors' columns, and what the table distinguishes."""
        own = {
            self.schema.position(factor.column): list(range(self.schema[factor.column].size)) for factor in self.factors
        }
        return merged(own, self._table.levels(), {} if self.condition is None else self.condition.levels())

    def build(self) -> ValueProducts:
        """See `Form`."""
        axes: list[Any] = [axis if isinstance(axis, str) else axis.build() for axis in self.axes]
        where = None if self.condition is None else self.condition.build()
        return ValueProducts(self.schema, self.factors, axes=axes, where=where)
