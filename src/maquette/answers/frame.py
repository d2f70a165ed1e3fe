"""Frame: answered groups as columns of values with intervals, and the box of measured numbers behind them.

Every noisy number is a linear form in the variables of a *box*: the measured numbers, each within its interval, and the
results of operations that are not linear. If all variables lie within their intervals, so does every result. So results
hold at the confidence at which the measured numbers hold together. Linear forms keep what numbers share: x - x is 0, and
a share of a total never exceeds 1.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.answers.ratios import Form, Ratio, Sides
from maquette.query import Axis, LinearQuery

Objects = NDArray[np.object_]
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
LONG = 32  # variables of a form whose sums are kept
KEPT = 4_096  # forms whose sums are kept


@dataclass(frozen=True)
class Counted:
    """What some variables count: rows of the cells of some axes, each with the same weight."""

    variables: range
    rows: LinearQuery
    weight: float
    axes: tuple[Axis, ...]
    cells: NDArray[np.int64]

    def cell(self, variable: int) -> int:
        """The cell of a variable."""
        return int(self.cells[variable - self.variables.start])


class Box:
    """Variables and their intervals; forms over it do not change once they are made."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.counted: list[Counted] = []
        self._kept: dict[int, tuple[Form, Sides]] = {}
        self._within: dict[tuple[str, str], bool] = {}

    def add(self, low: float, high: float) -> Form:
        """A new variable."""
        self.low.append(low)
        self.high.append(high)
        return {len(self.low) - 1: 1.0}

    def bounds(self, form: Form) -> tuple[float, float]:
        """The range of a linear form over the box."""
        if len(form) > LONG:
            sides = self._sides(form)
            if sides.finite:
                return math.fsum(sides.least), math.fsum(sides.most)
        low = high = form.get(-1, 0.0)
        for variable, coefficient in form.items():
            if variable >= 0 and coefficient:
                ends = coefficient * self.low[variable], coefficient * self.high[variable]
                low, high = low + min(ends), high + max(ends)
        return low, high

    def ratio(self, above: Form, below: Form) -> tuple[float, float]:
        """The range of a ratio of linear forms; the denominator must not be negative."""
        return Ratio(above, below, (self._sides(above), self._sides(below)), (self.low, self.high)).range()

    def largest_share(self, above: Form, below: Form) -> float:
        """The largest ratio of two counts, where the rows of one are among those of the other; else infinity."""
        if len(above) != 1 or len(below) != 1:
            return math.inf
        ((one, factor),), ((two, divisor),) = above.items(), below.items()
        part, whole = (next((c for c in self.counted if v in c.variables), None) for v in (one, two))
        if part is None or whole is None or factor <= 0 or divisor <= 0:
            return math.inf
        if whole.axes and (part.axes, part.cell(one)) != (whole.axes, whole.cell(two)):
            return math.inf
        known = part.rows.key, whole.rows.key
        if known not in self._within:
            predicates = part.rows.is_predicate and whole.rows.is_predicate
            self._within[known] = predicates and (part.rows & ~whole.rows).bounds[1] <= 0
        return factor * part.weight / (divisor * whole.weight) if self._within[known] else math.inf

    def _sides(self, form: Form) -> Sides:
        """What a form adds up to. A long one is kept: the total of all groups comes again for each of them."""
        if len(form) <= LONG:
            return Sides.of(form, (self.low, self.high))
        known = self._kept.get(id(form))
        if known is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            known = self._kept[id(form)] = form, Sides.of(form, (self.low, self.high))  # keeps the form, so its id
        return known[1]


@dataclass(frozen=True)
class Vector:
    """One column: values (None is NULL) and, if noisy, a linear form and an interval of each.

    `weakest` is the kind of the weakest interval behind each value (0 logical, 1 measured, 2 certified), and `promised`
    whether all of them are promised. `rank` orders labels that do not order themselves. A noisy value without a form is
    a text or a NULL; whether a noisy number is NULL may depend on the noise, unless it is `never_null`, as a count.
    """

    values: Objects
    forms: list[Form | None] | None = None
    low: Numbers | None = None
    high: Numbers | None = None
    weakest: NDArray[np.int8] | None = None
    promised: Flags | None = None
    rank: NDArray[np.int64] | None = None
    never_null: bool = field(default=False, kw_only=True)

    @property
    def noisy(self) -> bool:
        """Whether its values depend on noise."""
        return self.low is not None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[np.int64]) -> Vector:
        """Some rows of it."""

        def some(part: Any) -> Any:
            return None if part is None else part[rows]

        forms = None if self.forms is None else [self.forms[i] for i in rows]
        return Vector(
            self.values[rows], forms, some(self.low), some(self.high), some(self.weakest), some(self.promised),
            some(self.rank), never_null=self.never_null,
        )  # fmt: skip

    @property
    def numbers(self) -> Numbers:
        """The values as numbers, NULL as NaN."""
        return np.array([np.nan if v is None else float(v) for v in self.values], dtype=np.float64)


def exact(values: Sequence[Any], rank: NDArray[np.int64] | None = None) -> Vector:
    """A column of public values."""
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return Vector(column, rank=rank)


@dataclass
class Frame:
    """Columns by name; and which rows are in the result by their values, surely, and possibly."""

    columns: dict[str, Vector]
    size: int
    box: Box
    inside: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    surely: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    maybe: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        if len(self.inside) != self.size:
            self.inside, self.surely, self.maybe = (np.ones(self.size, dtype=bool) for _ in range(3))

    def take(self, rows: NDArray[np.int64]) -> Frame:
        """Some rows, in this order."""
        columns = {name: vector.take(rows) for name, vector in self.columns.items()}
        return Frame(columns, len(rows), self.box, self.inside[rows], self.surely[rows], self.maybe[rows])

    def with_columns(self, columns: dict[str, Vector]) -> Frame:
        """The same rows with other columns."""
        return replace(self, columns=columns)


def stacked(vectors: Sequence[Vector]) -> Vector:
    """Columns one below the other; exact values beside noisy ones become noisy ones without noise."""
    values = np.concatenate([vector.values for vector in vectors])
    if not any(vector.noisy for vector in vectors):
        ranks = [vector.rank for vector in vectors]
        return Vector(values, rank=None if None in [r if r is None else 1 for r in ranks] else np.concatenate(ranks))  # type: ignore[arg-type]
    noisy = [as_noisy(vector) for vector in vectors]
    parts = [np.concatenate([getattr(v, name) for v in noisy]) for name in ("low", "high", "weakest", "promised")]
    return Vector(values, [form for v in noisy for form in v.forms or ()], *parts)


def as_noisy(vector: Vector) -> Vector:
    """A public column of numbers, as constants."""
    if vector.noisy:
        return vector
    numbers = np.array(
        [np.nan if v is None or not isinstance(v, bool | int | float) else float(v) for v in vector.values]
    )
    same: dict[float, Form] = {float(x): {-1: float(x)} for x in numbers}  # equal constants are one form
    forms = [None if np.isnan(x) else same[float(x)] for x in numbers]
    size = len(numbers)
    return Vector(vector.values, forms, numbers, numbers, np.full(size, 2, np.int8), np.ones(size, bool))
