"""Number: real numbers in bins, and single values apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import SchemaError
from maquette.schema.auto_bins import AUTO, wide_edges
from maquette.schema.columns import Comparison, LevelMask, shown
from maquette.schema.ordered import INFINITY, MAX_BINS, Numeric
from maquette.schema.values import ValueGrid, grid_of

if TYPE_CHECKING:
    import pyarrow as pa


_WIDEST = 1e15  # the end of the range of a column whose bins are drawn


@dataclass(frozen=True)
class Number(Numeric):
    """Real numbers, clamped, in bins: give `edges`, or `low`, `high` and `bins`; `atoms` have a level of their own.

    Each bin includes its lower edge, the last bin both edges. `precision` is the number of digits after the decimal
    mark: synthetic values have no more, and sums add values rounded to it. `decimal=","` reads texts such as 61,5; a
    text with a point is then refused as ambiguous. `bins="auto"` is for a column whose distribution is unknown: `low`
    and `high` surely hold all values, and `Curator.draw_bins` cuts bins of about equal counts, once and for a price.

    >>> Number("bmi", edges=[10, 18.5, 25, 60]).encode([18.5, 3.0, 60.0])
    array([1, 0, 2], dtype=int32)
    >>> Number("gain", edges=[0, 100, 500], atoms=[0]).labels
    ('0', '(0, 100)', '[100, 500]')
    """

    kind: ClassVar[str] = "number"
    _step: ClassVar[float] = 0.0
    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    bins: int | Literal["auto"] | None = None
    edges: Sequence[float] | None = None
    precision: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision is not None and (type(self.precision) is not int or not 0 <= self.precision <= 12):
            raise SchemaError(
                f"column {self.name!r}: precision is {shown(self.precision)}",
                expected="the number of digits after the decimal mark, from 0 to 12",
            )
        spaced = (self.low, self.high, self.bins)
        if (self.edges is None) == (None in spaced) or (self.edges is not None and any(s is not None for s in spaced)):
            raise SchemaError(f"column {self.name!r}: give either edges, or low, high and bins")
        counted = type(self.bins) is int and 1 <= self.bins <= MAX_BINS
        if self.edges is None and not counted and self.bins != AUTO:
            raise SchemaError(
                f"column {self.name!r}: bins is {shown(self.bins)}",
                expected=f'a whole number from 1 to {MAX_BINS:,}, or "{AUTO}"',
            )
        try:
            if self.edges is None:
                object.__setattr__(self, "low", _float(self.low))
                object.__setattr__(self, "high", _float(self.high))
            else:
                object.__setattr__(self, "edges", tuple(_float(edge) for edge in self.edges))
        except (TypeError, ValueError, OverflowError):
            raise SchemaError(f"column {self.name!r}: edges, low and high must be numbers") from None
        if self.bins == AUTO:
            self._check_range()
        edges = self._edges
        if len(edges) < 2 or not np.isfinite(edges).all() or not (edges[:-1] < edges[1:]).all():
            raise SchemaError(f"column {self.name!r}: edges must be at least two finite numbers that increase")
        self._check_atoms(float(edges[0]), float(edges[-1]))
        object.__setattr__(self, "atoms", tuple(sorted({_float(atom) for atom in self.atoms})))

    def _check_range(self) -> None:
        """Refuse a range that no wide grid can cover."""
        low, high = float(self.low or 0), float(self.high or 0)
        if not (np.isfinite([low, high]).all() and low < high and max(abs(low), abs(high)) < _WIDEST):
            raise SchemaError(
                f"column {self.name!r}: low is {shown(self.low)} and high is {shown(self.high)}",
                expected="low below high, both with fewer than 16 digits before the decimal mark",
            )

    @property
    def undrawn(self) -> bool:
        """Whether bins are still to be drawn: the levels are then the cells of the wide grid."""
        return self.bins == AUTO

    def with_cuts(self, cuts: Iterable[int]) -> Number:
        """The same column with bins: `cuts` are the levels of this column, but the first, that begin a bin."""
        begins = {float(self._boundaries[cut]) for cut in cuts} - {float(np.nextafter(a, np.inf)) for a in self.atoms}
        ends = {float(self._edges[0]), float(self._edges[-1])}
        return replace(self, low=None, high=None, bins=None, edges=tuple(sorted(begins | ends)))

    @property
    def known(self) -> int:
        """The number of bins."""
        return self.bins if isinstance(self.bins, int) and not self.atoms else len(self._boundaries) - 1

    @cached_property
    def _boundaries(self) -> NDArray[np.float64]:
        """The edges, and before and after every atom; the number after an atom is the next in double precision."""
        if not self.atoms:
            return self._edges
        atoms = np.array(self.atoms, dtype=np.float64)
        points = np.unique(np.concatenate([self._edges, atoms, np.nextafter(atoms, np.inf)]))
        return points if self.atoms[-1] == self._edges[-1] else points[points <= self._edges[-1]]

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        if self.edges is not None:
            return np.array(self.edges, dtype=np.float64)
        assert self.low is not None
        assert self.high is not None
        if self.bins == AUTO:
            return np.array(wide_edges(self.low, self.high, self.precision), dtype=np.float64)
        assert isinstance(self.bins, int)
        with np.errstate(over="ignore", invalid="ignore"):  # edges that are not finite are refused
            return np.linspace(float(self.low), float(self.high), self.bins + 1)

    def _labels(self) -> Iterable[str]:
        atoms, after = set(self.atoms), {float(np.nextafter(atom, np.inf)): atom for atom in self.atoms}
        labels = []
        for low, high in itertools.pairwise(map(float, self._boundaries)):
            if low in atoms:
                labels.append(self._show(low))
                continue
            begin = f"({self._show(after[low])}" if low in after else f"[{self._show(low)}"
            close = "]" if high == self._largest and high not in atoms else ")"
            labels.append(f"{begin}, {self._show(high)}{close}")
        return labels

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The edges of each bin; an atom has both at its value."""
        low, high = self._boundaries[:-1], np.minimum(self._boundaries[1:], self._largest)
        return low, np.where(np.isin(low, np.array(self.atoms)), low, high) if self.atoms else high

    @cached_property
    def value_grid(self) -> ValueGrid:
        """Steps of the declared precision; without one, about a ten-millionth of the range."""
        step = None if self.precision is None else Fraction(1, 10**self.precision)
        return grid_of(float(self._edges[0]), float(self._edges[-1]), step)

    def _drawn(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        low, high = (ends[codes] for ends in self.ends)
        drawn = np.clip(rng.uniform(low, high), low, np.where(low < high, np.nextafter(high, -np.inf), high))
        if self.precision is None:
            return np.asarray(drawn)
        scale = 10.0**self.precision
        first = np.ceil(np.round(low * scale, 6))
        first = np.where(first / scale < low, first + 1, first)  # the bin begins after an atom
        last = np.maximum(np.ceil(np.round(high * scale, 6)) - 1, first)
        rounded = (first + np.floor(rng.random(len(codes)) * (last - first + 1))) / scale
        inside = (rounded >= low) & ((rounded < high) | (low == high))
        return np.asarray(np.where(inside & (low < high), rounded, np.where(low == high, low, drawn)))

    @property
    def values(self) -> Sequence[float]:
        """The midpoint of each bin."""
        return [float(middle) for middle in self.midpoints]

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The midpoint of each bin, or its lower edge when no number lies between the two."""
        low, high = self._boundaries[:-1], self._boundaries[1:]
        middle = low / 2 + high / 2
        middle = np.where((low <= middle) & (middle < high), middle, low)
        return np.where(np.isin(low, np.array(self.atoms)), low, middle) if self.atoms else middle

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float64()

    def _level_sql(self, number: str) -> str:
        return f"CASE WHEN {number} <= {INFINITY} THEN {self._search_sql(number, 0, self.known - 1)} END"

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
        if point in self.atoms:
            return float(np.nextafter(point, np.inf))
        if point == self._boundaries[-1] or point not in self._boundaries:
            return point
        exact = "<" if comparison == "<=" else ">="
        raise self._refuse(
            f"{comparison} {literal} separates a single point from its bin",
            f"use {exact} {literal}: bins include their lower edge",
        )

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """Order comparisons at declared edges, and equality with an atom."""
        if comparison in ("=", "<>") and literal not in self.atoms:
            raise self._refuse(
                f"{comparison} {literal} asks for a single point of a bin", "use >= and < with declared edges"
            )
        if comparison in ("<", ">=") and literal == self._largest and literal not in self.atoms:
            raise self._refuse(
                f"{comparison} {literal} separates the upper edge from the last bin, which includes it", "use <= or >"
            )
        return super().compare(comparison, literal)

    def _at(self, comparison: Comparison, edge: float) -> str:
        """As for any column; the number after an atom is written as what lies above the atom."""
        atom = next((atom for atom in self.atoms if float(np.nextafter(atom, np.inf)) == edge), None)
        if atom is None:
            return super()._at(comparison, edge)
        return f"{'<=' if comparison in ('<', '<=') else '>'} {self._show(atom)}"

    def _show(self, point: float) -> str:
        return f"{float(point):.12g}"

    @property
    def _largest(self) -> float:
        return float(self._edges[-1])

    def _only(self, comparison: Comparison, literal: object, point: float) -> int:
        """The level of an atom."""
        return int(np.searchsorted(self._boundaries, point))


def _float(number: float | None) -> float:
    if number is None:
        raise TypeError
    return float(number) + 0.0  # -0.0 becomes 0.0: equal columns must have equal descriptions
