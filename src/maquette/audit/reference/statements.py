"""Sums in SQL, and functions of the whole histogram: questions whose weights the library computes itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.audit.reference.conditions import Condition, quoted
from maquette.audit.reference.forms import Contribution, Form, Unchecked
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels, merged
from maquette.query import LowSensitivityQuery, Statement, Statistic, parse
from maquette.schema import Integer, Schema

ROWS = 100.0  # the public number of rows passed to functions
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "largest": np.max,
    "total": np.sum,
    "first": lambda shares: shares.ravel()[0],
}


@dataclass(frozen=True, eq=False)
class SumInSql(Form):
    """SELECT sum(x) WHERE ...: a row has weight |x| / max |x|; negative and positive values are summed separately."""

    schema: Schema = field(repr=False)
    column: str
    condition: Condition

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "sum in SQL"

    def build(self) -> Any:
        """See `Form`."""
        text = f"SELECT sum({quoted(self.column)}) FROM t WHERE {self.condition.text(self.condition.tree)}"
        parsed = parse(self.schema, text)
        assert isinstance(parsed, Statement)
        (output,) = parsed.outputs
        assert output.measure is not None
        return output.measure.marginal

    def _values(self) -> list[int]:
        column = self.schema[self.column]
        assert isinstance(column, Integer)
        return [*range(column.low, column.high + 1), *([0] if column.nullable else [])]

    @property
    def shape(self) -> tuple[int, ...]:
        """Two values if some x are negative."""
        return (2,) if min(self._values()) < 0 else ()

    def contribution(self, record: Record, grid: int) -> Contribution:
        """See `Form`."""
        values = self._values()
        value, scale = values[record[self.schema.position(self.column)]], max(map(abs, values)) or 1
        weight = Fraction(abs(value) / scale)
        if not self.condition.weigh(record) or not value:
            return []
        least, most = (round(weight * grid * (1 + side * Fraction(1, 2**40))) for side in (-1, 1))
        return [(int(value > 0) if self.shape else 0, least, most)]

    def levels(self) -> Levels:
        """See `Form`."""
        position = self.schema.position(self.column)
        return merged({position: [0, self.schema[self.column].size - 1]}, self.condition.levels())


@dataclass(frozen=True, eq=False)
class Function(Unchecked):
    """A function of the histogram with a correct declared sensitivity; its value is not checked."""

    schema: Schema = field(repr=False)
    name: str

    @property
    def kind(self) -> str:
        """See `Form`."""
        return "function of the histogram"

    def build(self) -> Any:
        """See `Form`."""
        query = LowSensitivityQuery(self.name, FUNCTIONS[self.name], sensitivity=1 / ROWS)
        return Statistic(self.schema, query, rows=ROWS)

    def levels(self) -> Levels:
        """See `Form`."""
        return {position: [0, column.size - 1] for position, column in enumerate(self.schema)}
