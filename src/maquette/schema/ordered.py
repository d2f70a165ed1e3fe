"""Column kinds whose levels are consecutive intervals of a line: whole numbers, real numbers and dates."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import SchemaError
from maquette.schema.columns import INVALID, Column, Comparison, Selection

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 2**53  # integers beyond this are not exact in double precision, in which numbers are binned


class Ordered(Column):
    """Levels are consecutive intervals of a line; a comparison must fall on a boundary between two of them."""

    def compare(self, comparison: Comparison, literal: object) -> Selection:
        """Order comparisons that cut between levels."""
        if comparison == "=":
            return self.compare(">=", literal) & self.compare("<=", literal)
        if comparison == "<>":
            return self._select(0, self.known) & ~self.compare("=", literal)
        point = self._point(literal)
        if not self._boundaries[0] <= point <= self._largest:
            raise self._refuse(
                f"{literal} is out of range",
                f"declared values run from {self._show(self._boundaries[0])} to {self._show(self._largest)}",
            )
        if comparison in ("<=", ">"):
            point = self._after(comparison, literal, point)
        cut = self._cut(comparison, literal, point)
        return self._select(0, cut) if comparison in ("<", "<=") else self._select(cut, self.known)

    @property
    @abstractmethod
    def _boundaries(self) -> NDArray[np.float64]:
        """known + 1 points: level i holds boundaries[i] <= value < boundaries[i + 1]."""

    @abstractmethod
    def _point(self, literal: object) -> float:
        """Where a literal lies on the line."""

    @abstractmethod
    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        """The next point after a literal, so that `<= v` is `< after(v)`."""

    @abstractmethod
    def _show(self, point: float) -> str:
        """A point as the user would write it."""

    def _cut(self, comparison: Comparison, literal: object, point: float) -> int:
        """The number of levels below a point, which must be a boundary."""
        edges = self._boundaries
        cut = int(np.searchsorted(edges, point))
        if edges[cut] != point:
            raise self._refuse(
                f"{comparison} {literal} cuts through the bin {self.labels[cut - 1]}",
                f"the nearest exact cuts are >= {self._show(edges[cut - 1])} and >= {self._show(edges[cut])}",
            )
        return cut

    @property
    @abstractmethod
    def _largest(self) -> float:
        """The largest declared value."""


@dataclass(frozen=True)
class Integer(Ordered):
    """Whole numbers from low to high, clamped, in bins of `width`.

    >>> Integer("age", 0, 99, width=10).encode([3, 25, 140])
    array([0, 2, 9], dtype=int32)
    """

    kind: ClassVar[str] = "integer"
    low: int
    high: int
    _: KW_ONLY
    width: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("low", "high", "width"):
            value = getattr(self, what)
            if not isinstance(value, int) or isinstance(value, bool) or abs(value) > EXACT:
                raise SchemaError(f"column {self.name!r}: {what} must be a whole number, got {value!r}")
        if self.high < self.low or self.width < 1:
            raise SchemaError(
                f"column {self.name!r}: need low <= high and width >= 1, got {self.low}..{self.high} by {self.width}"
            )

    @property
    def known(self) -> int:
        """The number of bins."""
        return (self.high - self.low) // self.width + 1

    def _labels(self) -> Iterable[str]:
        if self.width == 1:
            return map(str, range(self.low, self.high + 1))
        starts = range(self.low, self.high + 1, self.width)
        return (f"{start}-{min(start + self.width - 1, self.high)}" for start in starts)

    @property
    def values(self) -> Sequence[int]:
        """The middle whole number of each bin."""
        return [math.floor(middle) for middle in self.midpoints]

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The middle of each bin; the value itself when width is 1."""
        edges = self._boundaries
        return (edges[:-1] + edges[1:] - 1) / 2

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64()

    def _known_sql(self, identifier: str) -> str:
        number = f"TRY_CAST({identifier} AS DOUBLE)"
        clamped = f"CAST(greatest(least(floor({number}), {self.high}), {self.low}) AS BIGINT)"
        code = f"CAST(({clamped} - ({self.low})) // {self.width} AS INTEGER)"
        return f"CASE WHEN {number} IS NULL OR isnan({number}) THEN {INVALID} ELSE {code} END"

    @property
    def _boundaries(self) -> NDArray[np.float64]:
        return np.append(np.arange(self.low, self.high + 1, self.width, dtype=np.float64), self.high + 1)

    def _point(self, literal: object) -> float:
        if isinstance(literal, bool) or not isinstance(literal, int | float) or literal != literal:  # noqa: PLR0124
            raise self._refuse(f"{literal!r} is not a number", f"expected {self.low} to {self.high}")
        return math.ceil(literal) if math.isfinite(literal) else literal

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        return point + 1 if point == literal else point

    def compare(self, comparison: Comparison, literal: object) -> Selection:
        """Order comparisons that cut between bins; a fraction equals no whole number."""
        if comparison in ("=", "<>") and isinstance(literal, float) and not literal.is_integer():
            raise self._refuse(f"{literal} is not a whole number", "compare with a whole number")
        return super().compare(comparison, literal)

    def _show(self, point: float) -> str:
        return str(int(point))

    @property
    def _largest(self) -> float:
        return self.high


@dataclass(frozen=True)
class Number(Ordered):
    """Real numbers, clamped, in bins: give `edges`, or `low`, `high` and `bins`.

    Each bin holds its lower edge, the last bin both; sums use bin midpoints.

    >>> Number("bmi", edges=[10, 18.5, 25, 60]).encode([18.5, 3.0, 60.0])
    array([1, 0, 2], dtype=int32)
    """

    kind: ClassVar[str] = "number"
    _: KW_ONLY
    edges: Sequence[float] | None = None
    low: float | None = None
    high: float | None = None
    bins: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        spaced = (self.low, self.high, self.bins)
        if (self.edges is None) == (None in spaced) or (self.edges is not None and any(s is not None for s in spaced)):
            raise SchemaError(f"column {self.name!r}: give either edges, or low, high and bins")
        if self.edges is not None:
            object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        elif not isinstance(self.bins, int) or self.bins < 1:
            raise SchemaError(f"column {self.name!r}: bins must be a positive whole number, got {self.bins!r}")
        edges = self._boundaries
        if len(edges) < 2 or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
            raise SchemaError(f"column {self.name!r}: edges must be finite and increase, at least two of them")

    @property
    def known(self) -> int:
        """The number of bins."""
        return len(self._boundaries) - 1

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        if self.edges is not None:
            return np.array(self.edges, dtype=np.float64)
        assert self.low is not None
        assert self.high is not None
        assert self.bins is not None
        return np.linspace(float(self.low), float(self.high), self.bins + 1)

    def _labels(self) -> Iterable[str]:
        shown = [self._show(edge) for edge in self._boundaries]
        bodies = [f"[{a}, {b}" for a, b in itertools.pairwise(shown)]
        return [body + (")" if i + 1 < self.known else "]") for i, body in enumerate(bodies)]

    @property
    def values(self) -> Sequence[float]:
        """The midpoint of each bin."""
        return [float(middle) for middle in self.midpoints]

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The midpoint of each bin."""
        edges = self._boundaries
        return (edges[:-1] + edges[1:]) / 2

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float64()

    def _known_sql(self, identifier: str) -> str:
        number = f"TRY_CAST({identifier} AS DOUBLE)"
        code = self._search_sql(number, 0, self.known - 1)
        return f"CASE WHEN {number} IS NULL OR isnan({number}) THEN {INVALID} ELSE {code} END"

    def _search_sql(self, number: str, first: int, last: int) -> str:
        """Binary search for the bin, so that many bins stay cheap."""
        if first == last:
            return str(first)
        middle = (first + last + 1) // 2
        below, above = self._search_sql(number, first, middle - 1), self._search_sql(number, middle, last)
        return f"CASE WHEN {number} < {float(self._boundaries[middle])!r}::DOUBLE THEN {below} ELSE {above} END"

    def _point(self, literal: object) -> float:
        if isinstance(literal, bool) or not isinstance(literal, int | float) or literal != literal:  # noqa: PLR0124
            raise self._refuse(f"{literal!r} is not a number", f"expected {self._show(self._boundaries[0])} or more")
        return float(literal)

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        if point == self._boundaries[-1]:
            return point
        exact = "<" if comparison == "<=" else ">="
        raise self._refuse(
            f"{comparison} {literal} splits off a single point of a bin",
            f"use {exact} {literal}: bins hold their lower edge",
        )

    def compare(self, comparison: Comparison, literal: object) -> Selection:
        """Order comparisons at declared edges."""
        if comparison in ("=", "<>"):
            raise self._refuse(
                f"{comparison} {literal} asks for a single point of a bin", "use >= and < with declared edges"
            )
        return super().compare(comparison, literal)

    def _show(self, point: float) -> str:
        return f"{float(point):.12g}"

    @property
    def _largest(self) -> float:
        return float(self._boundaries[-1])


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
        return f"CASE WHEN {day} IS NULL THEN {INVALID} ELSE CAST({code} AS INTEGER) END"

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        ends = [*self._starts, _date(self.high) + dt.timedelta(days=1)]
        return np.array([(end - _EPOCH).days for end in ends], dtype=np.float64)

    def _point(self, literal: object) -> float:
        try:
            day = _date(literal)
        except (TypeError, ValueError):
            raise self._refuse(f"{literal!r} is not a date", "expected a date as 'YYYY-MM-DD'") from None
        return float((day - _EPOCH).days)

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        return point + 1

    def _show(self, point: float) -> str:
        return (_EPOCH + dt.timedelta(days=int(point))).isoformat()

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
