"""Column kinds whose levels are consecutive intervals of a line: whole numbers and real numbers."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError, SchemaError
from maquette.schema.columns import Column, Comparison, LevelMask, shown

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 2**53  # integers beyond this are not exact in double precision, in which numbers are binned
MAX_LEVELS = 2**31 - 2  # codes are 32-bit, and the null level needs one more
MAX_BINS = 2**20  # maximum bins of a `Number`: its edges are held in memory
_INFINITY = "'infinity'::DOUBLE"  # DuckDB sorts NaN above it: `number <= infinity` is false for NaN, null for NULL


class Ordered(Column):
    """Levels are consecutive intervals of a line; a comparison must fall on a boundary between two of them."""

    _step: ClassVar[float] = 1.0  # distance between neighbouring values; 0 for real numbers

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """Order comparisons at a boundary between levels, and equality with the only value of a level."""
        point = self._point(literal)
        if comparison in ("=", "<>"):
            level = self._only(comparison, literal, point)
            equal = self._select(level, level + 1)
            return equal if comparison == "=" else self._select(0, self.known) & ~equal
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
        if not edges[0] <= point <= edges[-1]:
            raise self._outside(literal)
        cut = int(np.searchsorted(edges, point))
        if edges[cut] != point:
            below, above = (self._at(comparison, float(edge)) for edge in edges[cut - 1 : cut + 1])
            raise self._through(comparison, literal, cut - 1, f"use {below} or {above}")
        return cut

    def _only(self, comparison: Comparison, literal: object, point: float) -> int:
        """The level that holds a single value, which must be its only one."""
        if not self._boundaries[0] <= point <= self._largest:
            raise self._outside(literal)
        level = int(np.searchsorted(self._boundaries, point, side="right")) - 1
        first, last = self._boundaries[level], self._boundaries[level + 1] - self._step
        if first != last:
            within = f"{self._written} BETWEEN {self._show(first)} AND {self._show(last)}"
            raise self._through(comparison, literal, level, f"use {'NOT ' * (comparison == '<>')}{within}")
        return level

    def _at(self, comparison: Comparison, edge: float) -> str:
        """A comparison that cuts at a boundary, with the user's operator if a declared value allows it."""
        lower = comparison in ("<", "<=")
        inclusive = comparison in ("<=", ">") and self._step > 0 and edge > self._boundaries[0]
        if inclusive or edge == self._boundaries[-1]:
            return f"{'<=' if lower else '>'} {self._show(edge - self._step)}"
        return f"{'<' if lower else '>='} {self._show(edge)}"

    def _outside(self, literal: object) -> QueryError:
        low, high = self._show(self._boundaries[0]), self._show(self._largest)
        return self._refuse(f"{literal} is out of range", f"declared values run from {low} to {high}")

    def _through(self, comparison: Comparison, literal: object, level: int, instead: str) -> QueryError:
        return self._refuse(f"{comparison} {literal} cuts through the bin {self.labels[level]}", instead)

    @property
    @abstractmethod
    def _largest(self) -> float:
        """The largest declared value."""


class Numeric(Ordered):
    """Levels are intervals of numbers; NaN counts as missing, as in data frames."""

    @property
    def _accepted(self) -> str:
        return "values must be numbers"

    def _missing_sql(self, identifier: str) -> str:
        return f"{super()._missing_sql(identifier)} OR isnan({self._number_sql(identifier)})"

    def _number_sql(self, identifier: str) -> str:
        return f"TRY_CAST({identifier} AS DOUBLE)"


@dataclass(frozen=True)
class Integer(Numeric):
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
                raise SchemaError(f"column {self.name!r}: {what} is {shown(value)}", expected="a whole number")
        if self.high < self.low or self.width < 1:
            raise SchemaError(
                f"column {self.name!r}: low is {self.low}, high is {self.high} and width is {self.width}",
                expected="low <= high and width >= 1",
            )
        if self.known > MAX_LEVELS:
            raise SchemaError(
                f"column {self.name!r}: {self.known} bins, at most {MAX_LEVELS}", advice="use a larger width"
            )

    @property
    def known(self) -> int:
        """The number of bins."""
        return (self.high - self.low) // self.width + 1

    def _labels(self) -> Iterable[str]:
        return map(self._label, range(self.known))

    @property
    def values(self) -> Sequence[int]:
        """The middle whole number of each bin."""
        return [math.floor(middle) for middle in self.midpoints]

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The middle of each bin; the value itself when width is 1."""
        edges = self._boundaries
        return (edges[:-1] + edges[1:] - 1) / 2

    @property
    def remark(self) -> str:
        """Says if the last bin is narrower than the others."""
        left = (self.high - self.low + 1) % self.width
        return f"the last bin holds {left}, not {self.width}: width does not divide the range" if left else ""

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64()

    def _known_sql(self, identifier: str) -> str:
        number = self._number_sql(identifier)
        code = f"(CAST(floor({number}) AS BIGINT) - ({self.low}))" + (f" // {self.width}" if self.width > 1 else "")
        return (
            f"CASE WHEN {number} BETWEEN {self.low} AND {self.high} THEN CAST({code} AS INTEGER) "
            f"WHEN {number} < {self.low} THEN 0 WHEN {number} <= {_INFINITY} THEN {self.known - 1} END"
        )

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        return np.append(np.arange(self.low, self.high + 1, self.width, dtype=np.float64), self.high + 1)

    def _point(self, literal: object) -> float:
        if isinstance(literal, bool) or not isinstance(literal, int | float) or literal != literal:  # noqa: PLR0124
            raise self._refuse(f"{literal!r} is not a number", expected=f"{self.low} to {self.high}")
        return math.ceil(literal) if math.isfinite(literal) else literal

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        return point + 1 if point == literal else point

    def _cut(self, comparison: Comparison, literal: object, point: float) -> int:
        """The number of levels below a point, in integer arithmetic: near 2^53 doubles cannot represent a boundary."""
        if not self.low <= point <= self.high + 1:
            raise self._outside(literal)
        level, inside = divmod(int(point) - self.low, self.width)
        if point == self.high + 1:
            return self.known
        if inside:
            edges = (self.low + level * self.width, min(self.low + (level + 1) * self.width, self.high + 1))
            below, above = (self._at(comparison, edge) for edge in edges)
            raise self._through(comparison, literal, level, f"use {below} or {above}")
        return level

    def _only(self, comparison: Comparison, literal: object, point: float) -> int:
        if not self.low <= point <= self.high:
            raise self._outside(literal)
        level = (int(point) - self.low) // self.width
        first = self.low + level * self.width
        last = min(first + self.width - 1, self.high)
        if first != last:
            within = f"{self._written} BETWEEN {first} AND {last}"
            raise self._through(comparison, literal, level, f"use {'NOT ' * (comparison == '<>')}{within}")
        return level

    def _at(self, comparison: Comparison, edge: float) -> str:
        lower = comparison in ("<", "<=")
        if (comparison in ("<=", ">") and edge > self.low) or edge == self.high + 1:
            return f"{'<=' if lower else '>'} {int(edge) - 1}"
        return f"{'<' if lower else '>='} {int(edge)}"

    def _outside(self, literal: object) -> QueryError:
        return self._refuse(f"{literal} is out of range", f"declared values run from {self.low} to {self.high}")

    def _through(self, comparison: Comparison, literal: object, level: int, instead: str) -> QueryError:
        return self._refuse(f"{comparison} {literal} cuts through the bin {self._label(level)}", instead)

    def _label(self, level: int) -> str:
        start = self.low + level * self.width
        return f"{start}-{min(start + self.width - 1, self.high)}" if self.width > 1 else str(start)

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
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
class Number(Numeric):
    """Real numbers, clamped, in bins: give `edges`, or `low`, `high` and `bins`.

    Each bin includes its lower edge, the last bin both edges; sums use bin midpoints. `decimal=","` reads texts such as
    61,5; a text with a point is then refused as ambiguous.

    >>> Number("bmi", edges=[10, 18.5, 25, 60]).encode([18.5, 3.0, 60.0])
    array([1, 0, 2], dtype=int32)
    """

    kind: ClassVar[str] = "number"
    _step: ClassVar[float] = 0.0
    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    bins: int | None = None
    edges: Sequence[float] | None = None
    decimal: Literal[".", ","] = "."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decimal not in (".", ","):
            raise SchemaError(f"column {self.name!r}: decimal is {shown(self.decimal)}", expected='"." or ","')
        spaced = (self.low, self.high, self.bins)
        if (self.edges is None) == (None in spaced) or (self.edges is not None and any(s is not None for s in spaced)):
            raise SchemaError(f"column {self.name!r}: give either edges, or low, high and bins")
        if self.edges is None and (type(self.bins) is not int or not 1 <= self.bins <= MAX_BINS):
            raise SchemaError(
                f"column {self.name!r}: bins is {shown(self.bins)}", expected=f"a whole number from 1 to {MAX_BINS:,}"
            )
        try:
            if self.edges is None:
                object.__setattr__(self, "low", _float(self.low))
                object.__setattr__(self, "high", _float(self.high))
            else:
                object.__setattr__(self, "edges", tuple(_float(edge) for edge in self.edges))
        except (TypeError, ValueError, OverflowError):
            raise SchemaError(f"column {self.name!r}: edges, low and high must be numbers") from None
        edges = self._boundaries
        if len(edges) < 2 or not np.isfinite(edges).all() or not (edges[:-1] < edges[1:]).all():
            raise SchemaError(f"column {self.name!r}: edges must be finite and increase, at least two of them")

    @property
    def known(self) -> int:
        """The number of bins."""
        return self.bins if self.bins is not None else len(self._boundaries) - 1

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        if self.edges is not None:
            return np.array(self.edges, dtype=np.float64)
        assert self.low is not None
        assert self.high is not None
        assert self.bins is not None
        with np.errstate(over="ignore", invalid="ignore"):  # edges that are not finite are refused
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
        """The midpoint of each bin, or its lower edge when no number lies between the two."""
        low, high = self._boundaries[:-1], self._boundaries[1:]
        middle = low / 2 + high / 2
        return np.where((low <= middle) & (middle < high), middle, low)

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float64()

    def _known_sql(self, identifier: str) -> str:
        number = self._number_sql(identifier)
        return f"CASE WHEN {number} <= {_INFINITY} THEN {self._search_sql(number, 0, self.known - 1)} END"

    @property
    def _accepted(self) -> str:
        return super()._accepted + ", with a comma and no point, as in 61,5" * (self.decimal == ",")

    def _number_sql(self, identifier: str) -> str:
        if self.decimal == ".":
            return super()._number_sql(identifier)
        text = f"CAST({identifier} AS VARCHAR)"  # a numeric value always has a point here
        read = f"CASE WHEN typeof({identifier}) = 'VARCHAR' THEN translate({text}, ',.', '.?') ELSE {text} END"
        return super()._number_sql(f"({read})")

    def _search_sql(self, number: str, first: int, last: int) -> str:
        """Binary search for the bin, so that many bins stay fast."""
        if first == last:
            return str(first)
        middle = (first + last + 1) // 2
        below, above = self._search_sql(number, first, middle - 1), self._search_sql(number, middle, last)
        return f"CASE WHEN {number} < '{float(self._boundaries[middle])!r}'::DOUBLE THEN {below} ELSE {above} END"

    def _point(self, literal: object) -> float:
        if isinstance(literal, bool) or not isinstance(literal, int | float) or literal != literal:  # noqa: PLR0124
            raise self._refuse(f"{literal!r} is not a number", expected=f"{self._show(self._boundaries[0])} or more")
        return float(literal)

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        if point == self._boundaries[-1] or point not in self._boundaries:
            return point
        exact = "<" if comparison == "<=" else ">="
        raise self._refuse(
            f"{comparison} {literal} splits off a single point of a bin",
            f"use {exact} {literal}: bins hold their lower edge",
        )

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """Order comparisons at declared edges."""
        if comparison in ("=", "<>"):
            raise self._refuse(
                f"{comparison} {literal} asks for a single point of a bin", "use >= and < with declared edges"
            )
        if comparison in ("<", ">=") and literal == self._largest:
            raise self._refuse(
                f"{comparison} {literal} splits the upper edge off the last bin, which holds it", "use <= or >"
            )
        return super().compare(comparison, literal)

    def _show(self, point: float) -> str:
        return f"{float(point):.12g}"

    @property
    def _largest(self) -> float:
        return float(self._boundaries[-1])


def _float(number: float | None) -> float:
    if number is None:
        raise TypeError
    return float(number) + 0.0  # -0.0 becomes 0.0: equal columns must have equal descriptions
