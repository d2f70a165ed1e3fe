"""Dates: consecutive days, weeks, months, quarters or years."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import SchemaError
from maquette.schema.columns import Comparison, shown
from maquette.schema.ordered import Ordered
from maquette.schema.raw_values import number_type_sql, quoted, text_sql

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.date(1970, 1, 1)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_WRITTEN = {"ymd": "YYYY-MM-DD", "dmy": "DD/MM/YYYY or YYYY-MM-DD", "mdy": "MM/DD/YYYY or YYYY-MM-DD"}
YEAR_LAST = r"^(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})([ T]+\d.*)?$"
_ISO = {"dmy": r"\3-\2-\1", "mdy": r"\3-\1-\2"}
SHORT = r"^(\d{1,2})[/.-](\d{1,2})[/.-](\d{1,2})([ T]+\d.*)?$"  # three numbers of two digits; the order says the year
_SHORT = {  # the year is written as %s
    "ymd": (r"^(%s)[/.-](\d{1,2})[/.-](\d{1,2})([ T]+\d.*)?$", r"\1-\2-\3"),
    "dmy": (r"^(\d{1,2})[/.-](\d{1,2})[/.-](%s)([ T]+\d.*)?$", r"\3-\2-\1"),
    "mdy": (r"^(\d{1,2})[/.-](\d{1,2})[/.-](%s)([ T]+\d.*)?$", r"\3-\1-\2"),
}


@dataclass(frozen=True)
class Date(Ordered):
    """Dates from low to high, clamped, in units of a day, week (from `low`), month, quarter or year.

    Text is read as year-month-day; a time of day after the date is ignored. `order="dmy"` also reads 31/01/2024 (or
    31.1.2024, 31-01-2024), and `order="mdy"` also reads 01/31/2024. The order must be declared, because 03/04/2024 is
    ambiguous. A year has four digits, unless `pivot` says which century two digits mean: with `pivot=30`, 00 to 30 are
    2000 to 2030, and 31 to 99 are 1931 to 1999. An instant of a typed column counts on its day in UTC; a text on the
    day that it names. Dates without end, which databases call infinity and -infinity, are clamped; a number is no date.

    >>> Date("seen", "2024-01-01", "2024-12-31", unit="month").encode(["2024-03-05", "2030-01-01"])
    array([ 2, 11], dtype=int32)
    >>> Date("born", "1900-01-01", "2039-12-31", unit="year", order="dmy", pivot=30).encode(["1.2.31", "28.02.30"])
    array([ 31, 130], dtype=int32)
    """

    kind: ClassVar[str] = "date"
    low: dt.date | str
    high: dt.date | str
    _: KW_ONLY
    unit: Literal["day", "week", "month", "quarter", "year"] = "day"
    order: Literal["ymd", "dmy", "mdy"] = "ymd"
    pivot: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("low", "high"):
            try:
                object.__setattr__(self, what, _date(getattr(self, what)))
            except (TypeError, ValueError):
                raise SchemaError(
                    f"column {self.name!r}: {what} is {shown(getattr(self, what))}", expected="a date, YYYY-MM-DD"
                ) from None
        if self.unit not in {**_DAYS, **_MONTHS}:
            raise SchemaError(
                f"column {self.name!r}: unit is {shown(self.unit)}",
                expected=f"one of {', '.join({**_DAYS, **_MONTHS})}",
            )
        if self.order not in _WRITTEN:
            raise SchemaError(
                f"column {self.name!r}: order is {shown(self.order)}", expected=f"one of {', '.join(_WRITTEN)}"
            )
        if self.pivot is not None and (type(self.pivot) is not int or not 0 <= self.pivot <= 99):
            raise SchemaError(
                f"column {self.name!r}: pivot is {shown(self.pivot)}",
                expected="a whole number from 0 to 99: the last two-digit year that means 20xx",
            )
        if _date(self.high) < _date(self.low):
            raise SchemaError(
                f"column {self.name!r}: low is {self.low} and high is {self.high}", expected="low <= high"
            )

    @property
    def known(self) -> int:
        """The number of units from low to high."""
        low, high = _date(self.low), _date(self.high)
        if self.unit in _DAYS:
            return (high - low).days // _DAYS[self.unit] + 1
        first, last = self._months
        return last - first + 1

    @property
    def _months(self) -> tuple[int, int]:
        """The first and the last unit of one or more months, counted from year 0."""
        first, last = ((d.year * 12 + d.month - 1) // _MONTHS[self.unit] for d in map(_date, (self.low, self.high)))
        return first, last

    @cached_property
    def _starts(self) -> tuple[dt.date, ...]:
        low, high = _date(self.low), _date(self.high)
        if self.unit in _DAYS:
            step = _DAYS[self.unit]
            return tuple(low + dt.timedelta(days=i) for i in range(0, (high - low).days + 1, step))
        step = _MONTHS[self.unit]
        first, last = self._months
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
    def remark(self) -> str:
        """Says if two digits of a year cannot name a year of the declared range: such dates are read as others."""
        if self.pivot is None:
            return ""
        first, last = 1901 + self.pivot, 2000 + self.pivot
        declared = range(_date(self.low).year, _date(self.high).year + 1)
        lost = [year for year in declared if not first <= year <= last]
        if not lost:
            return ""
        example = lost[-1]
        misread = first + (example - first) % 100
        return (
            f"pivot = {self.pivot} reads two-digit years as {first} to {last}; the declared range also has "
            f"{'others' if len(lost) > 1 else lost[0]}: a {example % 100:02d} that means {example} is read as {misread}"
        )

    @property
    def values(self) -> Sequence[dt.date]:
        """The first day of each unit."""
        return self._starts

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.date32()

    def _known_sql(self, identifier: str) -> str:
        day = f"TRY_CAST(TRY_CAST({self.iso_sql(identifier)} AS TIMESTAMP) AS DATE)"
        low, high = (f"DATE '{_date(d).isoformat()}'" for d in (self.low, self.high))
        clamped = f"greatest(least({day}, {high}), {low})"
        if self.unit in _DAYS:
            code = f"datediff('day', {low}, {clamped}) // {_DAYS[self.unit]}"
        else:
            code = f"datediff('{self.unit}', {low}, {clamped})"
        # DuckDB reads 3/4/24 as a day of the year 3, and the word epoch as a date.
        early = f"regexp_matches({text_sql(identifier)}, '^([0-9]{{4}}|-)')"
        fits = f"{day} IS NOT NULL AND ({day} >= DATE '1000-01-01' OR {early})"
        word = f"typeof({identifier}) = 'VARCHAR' AND lower(CAST({identifier} AS VARCHAR)) = 'epoch'"
        level = f"CASE WHEN {word} THEN NULL WHEN {fits} THEN CAST({code} AS INTEGER) END"
        return f"CASE WHEN {number_type_sql(identifier)} THEN NULL ELSE {level} END"

    def iso_sql(self, identifier: str) -> str:
        """SQL that moves the year to the front if the declared order puts it last, and writes it in four digits."""
        turned = identifier
        if self.order != "ymd":
            turned = f"regexp_replace({text_sql(identifier)}, {quoted(YEAR_LAST)}, {quoted(_ISO[self.order])})"
        if self.pivot is None:
            return turned
        tens, ones = divmod(self.pivot, 10)
        recent = f"{tens}[0-{ones}]" + (rf"|[0-{tens - 1}]\d" if tens else "")
        pattern, iso = _SHORT[self.order]
        text = turned if self.order != "ymd" else text_sql(identifier)
        for years, century in (
            (recent, "20"),
            (r"\d\d", "19"),
        ):  # the second leaves full years alone
            text = f"regexp_replace({text}, {quoted(pattern % years)}, {quoted(century + iso)})"
        return text

    @property
    def _accepted(self) -> str:
        also = ', or declare order = "dmy" or "mdy" if the year comes last' if self.order == "ymd" else ""
        short = ", or with two-digit years" if self.pivot is not None else ""
        return f"values must be dates written {_WRITTEN[self.order]}{short}{also}"

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        if self.unit in _DAYS:
            first = (_date(self.low) - _EPOCH).days
            starts = first + np.arange(self.known, dtype=np.float64) * _DAYS[self.unit]
        else:
            starts = np.array([(start - _EPOCH).days for start in self._starts], dtype=np.float64)
        return np.append(starts, self._largest + 1)

    def _point(self, literal: object) -> float:
        try:
            day = _date(literal)
        except (TypeError, ValueError):
            moment = re.match(r"(\d{4}-\d\d-\d\d)[ T]\d", literal) if isinstance(literal, str) else None
            if moment is not None:
                told = f"compare with {quoted(moment[1])} alone; the day after it ends a day"
                raise self._refuse(f"{literal!r} has a time, and dates have none", advice=told) from None
            raise self._refuse(f"{literal!r} is not a date", expected="a date, 'YYYY-MM-DD'") from None
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
