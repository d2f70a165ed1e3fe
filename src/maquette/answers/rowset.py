"""Rowset: any answer as ordered, named, typed columns, which is what a door to other programs renders."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ColumnType = Literal["text", "boolean", "integer", "number", "date"]
Standing = Literal["exact", "promised", "guessed", "cached", "wider"]
Cell = str | bool | int | float | dt.date | None


@dataclass(frozen=True)
class RowsetColumn:
    """One column: its name and type, and for each row a value, the ends of its interval and its standing.

    `low` and `high` are None for a column of labels, which is public. A value is None where SQL says NULL.
    `standing` says of each value whether it is "exact" (public), "promised" (its interval is), "cached" (promised and
    answered before), "wider" (its interval holds, and is wider than the session promises: the budget bought no better)
    or "guessed" (by the public model, without a promise; or a label, as of CASE, that the noise leaves open).
    """

    name: str
    type: ColumnType
    values: tuple[Cell, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    standing: tuple[Standing, ...] = ()

    @property
    def noisy(self) -> bool:
        """Whether its values have intervals."""
        return self.low is not None


@dataclass(frozen=True)
class Rowset:
    """The columns of an answer, in the order of the select list.

    >>> set_ = Rowset((RowsetColumn("sex", "text", ("f", "m")), RowsetColumn("n", "number", (3.0, 4.0), (2.0, 3.0),
    ...     (4.0, 5.0), ("promised", "promised"))))
    >>> set_.names, list(set_)
    (('sex', 'n'), [('f', 3.0), ('m', 4.0)])
    """

    columns: tuple[RowsetColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """The values, row by row."""
        return zip(*(column.values for column in self.columns), strict=True)

    def __getitem__(self, name: str) -> RowsetColumn:
        """A column by its name."""
        return next(column for column in self.columns if column.name == name)


def type_of(values: Sequence[Any]) -> ColumnType:
    """The narrowest type that holds all these values; None fits each."""
    found = {type(value) for value in values if value is not None}
    if found <= {bool}:
        return "boolean" if found else "text"
    if found <= {int}:
        return "integer"
    if found <= {int, float}:
        return "number"
    return "date" if found <= {dt.date} else "text"


def labels_column(name: str, values: Sequence[Any], standing: tuple[Standing, ...] | None = None) -> RowsetColumn:
    """A column of labels, public ones without `standing`; values of mixed types become text."""
    kind = type_of(values)
    cells = tuple(values) if kind != "text" else tuple(None if v is None else str(v) for v in values)
    exact: tuple[Standing, ...] = tuple("exact" for _ in cells)
    return RowsetColumn(name, kind, cells, standing=exact if standing is None else standing)


def finite(number: float) -> float | None:
    """A number that JSON and SQL can hold, else None."""
    return number if math.isfinite(number) else None
