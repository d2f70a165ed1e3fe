"""Dates: consecutive days, weeks, months, quarters or years."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import SchemaError
from maquette.schema.columns import Comparison, quoted
from maquette.schema.ordered import Ordered

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.date(1970, 1, 1)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}


@dataclass(frozen=True)
class Date(Ordered):
    """Dates from low to high, clamped, in units of a day, week (from `low`), month, quarter or year.

    >>> Date("seen", "2024-01-01", "2024-12-31", unit="month").encode(["2024-03-05", "2030-01-01"])
    array([ 2, 11], dtype=int32)
    """

    kind: ClassVar[str] = "date"
    _accepted: ClassVar[str] = "values must be dates as YYYY-MM-DD"
    low: dt.date | str
    high: dt.date | str
    _: KW_ONLY
    unit: Literal["day", "week", "month", "quarter", "year"] = "day"

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("low", "high"):
            try:
                object.__setattr__(self, what, _date(getattr(self, what)))
            except (TypeError, ValueError):
                raise SchemaError(
                    f"column {self.name!r}: {what} must be a date as YYYY-MM-DD, got {getattr(self, what)!r}"
                ) from None
        if self.unit not in {**_DAYS, **_MONTHS}:
            raise SchemaError(
                f"column {self.name!r}: unit must be one of {', '.join({**_DAYS, **_MONTHS})}; got {self.unit!r}"
            )
        if _date(self.high) < _date(self.low):
            raise SchemaError(f"column {self.name!r}: need low <= high, got {self.low} to {self.high}")

    @property
    def known(self) -> int:
        """The number of units from low to high."""
        return len(self._starts)

    @cached_property
    def _starts(self) -> tuple[dt.date, ...]:
        low, high = _date(self.low), _date(self.high)
        if self.unit in _DAYS:
            step = _DAYS[self.unit]
            return tuple(low + dt.timedelta(days=i) for i in range(0, (high - low).days + 1, step))
        step = _MONTHS[self.unit]
        first, last = ((d.year * 12 + d.month - 1) // step for d in (low, high))
        months = (m * step for m in range(first, last + 1))
        return tuple(max(low, dt.date(m // 12, m % 12 + 1, 1)) for m in months)

    def _labels(self) -> Iterable[str]:
        if self.unit == "year":
            return (str(start.year) for start in self._starts)
        if self.unit == "quarter":
            return (f"{start.year}-Q{(start.month + 2) // 3}" for start in self._starts)
        if self.unit == "month":
            return (f"{start:%Y-%m}" for start in self._starts)
        return (start.isoformat() for start in self._starts)

    @property
    def values(self) -> Sequence[dt.date]:
        """The first day of each unit."""
        return self._starts

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.date32()

    def _known_sql(self, identifier: str) -> str:
        day = f"TRY_CAST(TRY_CAST({identifier} AS TIMESTAMP) AS DATE)"
        low, high = (f"DATE '{_date(d).isoformat()}'" for d in (self.low, self.high))
        clamped = f"greatest(least({day}, {high}), {low})"
        if self.unit in _DAYS:
            code = f"datediff('day', {low}, {clamped}) // {_DAYS[self.unit]}"
        else:
            code = f"datediff('{self.unit}', {low}, {clamped})"
        return f"CASE WHEN {day} IS NOT NULL THEN CAST({code} AS INTEGER) END"

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        return np.array([*((start - _EPOCH).days for start in self._starts), self._largest + 1], dtype=np.float64)

    def _point(self, literal: object) -> float:
        try:
            day = _date(literal)
        except (TypeError, ValueError):
            raise self._refuse(f"{literal!r} is not a date", "expected a date as 'YYYY-MM-DD'") from None
        return float((day - _EPOCH).days)

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        return point + 1

    def _show(self, point: float) -> str:
        return quoted((_EPOCH + dt.timedelta(days=int(point))).isoformat())

    @property
    def _largest(self) -> float:
        return float((_date(self.high) - _EPOCH).days)


def _date(value: object) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    raise TypeError(value)
