"""Integer: whole numbers in bins of equal width, and single values apart."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError, SchemaError
from maquette.schema.columns import Comparison, LevelMask, shown
from maquette.schema.ordered import EXACT, INFINITY, MAX_BINS, MAX_LEVELS, Numeric
from maquette.schema.values import ValueGrid, grid_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Integer(Numeric):
    """Whole numbers from low to high, clamped, in bins of `width`; `atoms` have a level of their own.

    >>> Integer("age", 0, 99, width=10).encode([3, 25, 140])
    array([0, 2, 9], dtype=int32)
    >>> Integer("gain", 0, 99, width=50, atoms=[0]).labels
    ('0', '1-49', '50-99')
    """

    kind: ClassVar[str] = "integer"
    _atom: ClassVar[Any] = int
    _atoms_expected: ClassVar[str] = "whole numbers"
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
        self._check_atoms(self.low, self.high)
        object.__setattr__(self, "atoms", tuple(sorted(set(self.atoms))))
        if self.atoms and self._regular > MAX_BINS:
            raise SchemaError(
                f"column {self.name!r}: there are atoms and {self._regular:,} bins",
                expected=f"at most {MAX_BINS:,} bins beside atoms",
                advice="use a larger width",
            )
        if self.known > MAX_LEVELS:
            raise SchemaError(
                f"column {self.name!r}: there are {self.known:,} bins",
                expected=f"at most {MAX_LEVELS:,}",
                advice="use a larger width",
            )

    @property
    def known(self) -> int:
        """The number of bins, atoms included."""
        return self._regular + len(self._cuts)

    @property
    def _regular(self) -> int:
        """The number of bins before atoms split them."""
        return (self.high - self.low) // self.width + 1

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        """Where atoms split bins."""
        ends = {int(end) for atom in self.atoms for end in (atom, atom + 1)}
        return tuple(sorted(e for e in ends if self.low < e <= self.high and (e - self.low) % self.width))

    @cached_property
    def _starts(self) -> list[int]:
        """The least value of each bin; for a column with atoms, which has few bins."""
        return sorted([*range(self.low, self.high + 1, self.width), *self._cuts])

    def _bin(self, point: int) -> tuple[int, int, int]:
        """The level that holds a whole number of the range, and its least and largest value."""
        if not self._cuts:
            level = (point - self.low) // self.width
            first = self.low + level * self.width
            return level, first, min(first + self.width - 1, self.high)
        level = bisect.bisect_right(self._starts, point) - 1
        return level, *self._bounds(level)

    def _bounds(self, level: int) -> tuple[int, int]:
        """The least and the largest value of a level."""
        if not self._cuts:
            first = self.low + level * self.width
            return first, min(first + self.width - 1, self.high)
        starts = self._starts
        return starts[level], starts[level + 1] - 1 if level + 1 < len(starts) else self.high

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
        return f"the last bin has width {left}, not {self.width}: the range is not a multiple of it" if left else ""

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64()

    def _level_sql(self, number: str) -> str:
        whole = f"CAST(floor({number}) AS BIGINT)"
        code = f"({whole} - ({self.low}))" + (f" // {self.width}" if self.width > 1 else "")
        code += "".join(f" + CAST({whole} >= {cut} AS INTEGER)" for cut in self._cuts)
        return (
            f"CASE WHEN {number} BETWEEN {self.low} AND {self.high} THEN CAST({code} AS INTEGER) "
            f"WHEN {number} < {self.low} THEN 0 WHEN {number} <= {INFINITY} THEN {self.known - 1} END"
        )

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        if self._cuts:
            return np.array([*self._starts, self.high + 1], dtype=np.float64)
        starts = self.low + np.arange(self.known, dtype=np.float64) * self.width
        return np.append(starts, max(self.high + 1, np.nextafter(starts[-1], np.inf)))  # the successor may be no float

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest whole number of each bin."""
        return self._boundaries[:-1], self._boundaries[1:] - 1

    @cached_property
    def value_grid(self) -> ValueGrid | None:
        """Whole numbers; None if every bin holds a single one."""
        return None if self.width == 1 else grid_of(self.low, self.high, Fraction(1))

    def _steps_sql(self, number: str) -> str:
        grid = self.value_grid
        assert grid is not None
        return f"floor(floor({number}) / {grid.step})"

    def _drawn(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        if self._cuts:
            first, last = (ends[codes].astype(np.int64) for ends in self.ends)
        else:
            first = self.low + codes.astype(np.int64) * self.width
            last = np.minimum(first + self.width - 1, self.high)
        return np.asarray(rng.integers(first, last, endpoint=True))

    def _point(self, literal: object) -> float:
        if isinstance(literal, bool) or not isinstance(literal, int | float) or literal != literal:  # noqa: PLR0124
            raise self._refuse(f"{literal!r} is not a number", expected=f"a number from {self.low} to {self.high}")
        return math.ceil(literal) if math.isfinite(literal) else literal

    def _after(self, comparison: Comparison, literal: object, point: float) -> float:
        return point + 1 if point == literal else point

    def _cut(self, comparison: Comparison, literal: object, point: float) -> int:
        """The number of levels below a point, in integer arithmetic: near 2^53 doubles cannot represent a boundary."""
        if not self.low <= point <= self.high + 1:
            raise self._outside(literal)
        if point == self.high + 1:
            return self.known
        level, first, last = self._bin(int(point))
        if point != first:
            below, above = (self._at(comparison, edge) for edge in (first, last + 1))
            raise self._through(comparison, literal, level, f"use {below} or {above}")
        return level

    def _only(self, comparison: Comparison, literal: object, point: float) -> int:
        if not self.low <= point <= self.high:
            raise self._outside(literal)
        level, first, last = self._bin(int(point))
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
        first, last = self._bounds(level)
        single = self.width == 1 or (first == last and first in self.atoms)
        return str(first) if single else f"{first}-{last}"

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
