"""What ordered columns share: levels are consecutive intervals of a line, of numbers or of dates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError, SchemaError
from maquette.schema.columns import Column, Comparison, LevelMask, shown, writable
from maquette.schema.raw_values import number_type_sql
from maquette.schema.written import number_sql

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 2**53  # integers beyond this are not exact in double precision, in which numbers are binned
MAX_LEVELS = 2**31 - 2  # codes are 32-bit, and the null level needs one more
MAX_BINS = 2**20  # maximum bins of a `Number`: its edges are held in memory
INFINITY = "'infinity'::DOUBLE"  # DuckDB sorts NaN above it: `number <= infinity` is false for NaN, null for NULL


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

    def around(self, comparison: Comparison, literal: object) -> tuple[LevelMask, LevelMask] | None:
        """The levels on which a comparison surely holds, and the one that it cuts through; None if out of range.

        Only the level that holds the literal can have values on both sides.
        """
        point, every = self._point(literal), self._select(0, self.known)
        if not self._boundaries[0] <= point <= self._boundaries[-1]:
            return None
        level = min(int(np.searchsorted(self._boundaries, point, side="right")) - 1, self.known - 1)
        below, through = self._select(0, level), self._select(level, level + 1)
        sure = {"<": below, "<=": below, "=": below & ~below, "<>": every & ~through}
        return sure.get(comparison, every & ~below & ~through), through

    @property
    def boundaries(self) -> NDArray[np.float64]:
        """known + 1 points: level i holds boundaries[i] <= value < boundaries[i + 1]."""
        return self._boundaries

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


@dataclass(frozen=True)
class Numeric(Ordered):
    """Levels are intervals of numbers; NaN counts as missing, as in data frames.

    `atoms` are single values with a level of their own, such as 0 where most values are 0: the bin around an atom is
    split at it. `decimal`, `thousands` and `marks` say how texts write numbers: 1.234,50 EUR needs decimal=",",
    thousands="." and marks=["EUR"]. A text that is written otherwise is refused, never guessed: so are groups of digits
    (1_000, 1 000) where none are declared. White space around a number means nothing.
    """

    _: KW_ONLY
    atoms: Sequence[float] = ()
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    marks: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decimal not in (".", ","):
            raise SchemaError(f"column {self.name!r}: decimal is {shown(self.decimal)}", expected='"." or ","')
        if self.thousands not in ("", ",", ".", " ", "'") or self.thousands == self.decimal:
            raise SchemaError(
                f"column {self.name!r}: thousands is {shown(self.thousands)}, decimal {shown(self.decimal)}",
                expected='thousands "," or "." or " " or "\'", different from decimal',
            )
        listed = isinstance(self.marks, Sequence) and not isinstance(self.marks, str)
        if not listed or not all(isinstance(m, str) and m.strip() and writable(m) for m in self.marks):
            raise SchemaError(
                f"column {self.name!r}: marks is {shown(self.marks)}", expected='a list of texts, such as ["EUR", "%"]'
            )
        object.__setattr__(self, "marks", tuple(sorted({mark.strip() for mark in self.marks})))

    def _check_atoms(self, low: float, high: float) -> None:
        """Put the atoms in order; refuse one outside the declared range."""
        if isinstance(self.atoms, str) or not isinstance(self.atoms, Sequence):
            raise SchemaError(f"column {self.name!r}: atoms is {shown(self.atoms)}", expected="a list, such as [0]")
        if strange := [a for a in self.atoms if isinstance(a, bool) or not isinstance(a, self._atom) or a != a]:  # noqa: PLR0124
            raise SchemaError(f"column {self.name!r}: an atom is {shown(strange[0])}", expected=self._atoms_expected)
        if outside := [a for a in self.atoms if not low <= a <= high]:
            raise SchemaError(
                f"column {self.name!r}: the atom {outside[0]} is outside the declared range",
                expected=f"values from {self._show(low)} to {self._show(high)}",
                advice='declare a code that means "no value" as missing = ["..."] with nullable = true',
            )

    _atom: ClassVar[Any] = (int, float)
    _atoms_expected: ClassVar[str] = "numbers"

    @property
    @abstractmethod
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest value of each known level."""

    @property
    def _accepted(self) -> str:
        between = "spaces" if self.thousands == " " else self.thousands
        written = f" and {between} between thousands" if between else ""
        told = f", with a comma{' and no point' * (self.thousands != '.')}, as in 61,5" if self.decimal == "," else ""
        marked = f", with or without {', '.join(self.marks)}" if self.marks else ""
        return f"values must be numbers{told}{written}{marked}"

    def _missing_sql(self, identifier: str) -> str:
        return f"{super()._missing_sql(identifier)} OR isnan({self._number_sql(identifier)})"

    def _known_sql(self, identifier: str) -> str:
        text = f"contains(CAST({identifier} AS VARCHAR), '_')"
        grouped = f"CASE WHEN {number_type_sql(identifier)} THEN false ELSE {text} END"
        number = self._number_sql(identifier)
        # NaN is tested by itself: where a file states a largest number without it, the engine may skip comparisons.
        return f"CASE WHEN {grouped} THEN NULL WHEN isnan({number}) THEN NULL ELSE {self._level_sql(number)} END"

    @abstractmethod
    def _level_sql(self, number: str) -> str:
        """The level of a number; NULL for NaN and NULL."""

    def _number_sql(self, identifier: str) -> str:
        return number_sql(identifier, self.decimal, self.thousands, self.marks)

    def _value_sql(self, identifier: str) -> str:
        grid = self.value_grid
        if grid is None:
            return "NULL"
        number = self._number_sql(identifier)
        low, high = (f"'{float(end)!r}'::DOUBLE" for end in (grid.low * grid.step, grid.high * grid.step))
        inside = f"least(greatest(CAST({self._steps_sql(number)} AS BIGINT), {grid.low}), {grid.high})"
        return (
            f"CASE WHEN isnan({number}) THEN NULL WHEN {number} BETWEEN {low} AND {high} THEN {inside} "
            f"WHEN {number} < {low} THEN {grid.low} WHEN {number} <= {INFINITY} THEN {grid.high} END"
        )

    def _steps_sql(self, number: str) -> str:
        """A number in the declared range as steps of the grid."""
        grid = self.value_grid
        assert grid is not None
        factor = 1 / grid.step
        return f"round({number} * '{float(factor)!r}'::DOUBLE)"

    def spread(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> pa.Array:
        """One raw value per code, drawn uniformly from the values of the bin; the null level becomes null."""
        import pyarrow as pa

        codes = np.asarray(codes)
        missing = codes >= self.known
        values = self._drawn(np.where(missing, 0, codes), rng)
        return pa.array(values, type=self._arrow_type(), mask=missing)

    @abstractmethod
    def _drawn(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        """A value of the bin of each code."""
