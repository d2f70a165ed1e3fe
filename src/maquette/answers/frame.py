"""Frame: answered groups as columns of values with intervals, and the box of measured numbers behind them.

Every noisy number is a linear form in the variables of a *box*: the measured numbers, each within its interval, and the
results of operations that are not linear. If all variables lie within their intervals, so does every result. So results
hold at the confidence at which the measured numbers hold together. Linear forms keep what numbers share: x - x is 0, and
a share of a total never exceeds 1.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Objects = NDArray[np.object_]
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Form = dict[int, float]  # coefficients by variable; -1 is the constant


class Box:
    """Variables and their intervals."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, low: float, high: float) -> Form:
        """A new variable."""
        self.low.append(low)
        self.high.append(high)
        return {len(self.low) - 1: 1.0}

    def bounds(self, form: Form) -> tuple[float, float]:
        """The range of a linear form over the box."""
        low = high = form.get(-1, 0.0)
        for variable, coefficient in form.items():
            if variable >= 0 and coefficient:
                ends = coefficient * self.low[variable], coefficient * self.high[variable]
                low, high = low + min(ends), high + max(ends)
        return low, high

    def ratio(self, above: Form, below: Form) -> tuple[float, float]:
        """The range of a ratio of linear forms; the denominator must not be negative. Dinkelbach's method, both ways.

        The largest ratio is the least r with above - r below <= 0 everywhere on the box. Each step takes the ratio at
        the vertex where above - r below is largest; it stops when that is not positive, and then r is a bound even if
        the denominator can be 0.
        """
        top = self._largest(above, below)
        bottom = -self._largest({v: -c for v, c in above.items()}, below)
        return bottom, top

    def _largest(self, above: Form, below: Form) -> float:
        shares = [above.get(v, 0.0) / c for v, c in below.items() if c > 0]
        start = max(shares, default=0.0)
        if all(below.get(v, 0.0) >= 0 for v in below) and self._worst(above, below, start)[0] <= 1e-9:
            limit = start
        else:
            limit = np.inf
        if self.bounds(below)[0] <= 0:
            return limit
        ratio = -np.inf
        for _ in range(60):
            guess = ratio if np.isfinite(ratio) else self.bounds(above)[0] / self.bounds(below)[1] - 1.0
            excess, top, bottom = self._worst(above, below, guess)
            following = top / bottom
            if np.isfinite(ratio) and (excess <= 0 or following <= ratio):
                break
            ratio = following
        slack = 1e-12 * max(1.0, abs(ratio))
        return float(min(ratio + slack, limit))

    def _worst(self, above: Form, below: Form, ratio: float) -> tuple[float, float, float]:
        """The vertex where above - ratio * below is largest: that difference, and both forms there."""
        top, bottom = above.get(-1, 0.0), below.get(-1, 0.0)
        for variable in {*above, *below} - {-1}:
            a, b = above.get(variable, 0.0), below.get(variable, 0.0)
            end = self.high[variable] if a - ratio * b > 0 else self.low[variable]
            top, bottom = top + a * end, bottom + b * end
        return top - ratio * bottom, top, bottom


@dataclass(frozen=True)
class Vector:
    """One column: values (None is NULL) and, if noisy, a linear form and an interval of each.

    `weakest` is the kind of the weakest interval behind each value (0 logical, 1 measured, 2 certified), and `promised`
    whether all of them are promised. `rank` orders labels that do not order themselves. A noisy value without a form is
    a text or a NULL.
    """

    values: Objects
    forms: list[Form | None] | None = None
    low: Numbers | None = None
    high: Numbers | None = None
    weakest: NDArray[np.int8] | None = None
    promised: Flags | None = None
    rank: NDArray[np.int64] | None = None

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
            some(self.rank),
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
    forms: list[Form | None] = [None if np.isnan(x) else {-1: float(x)} for x in numbers]
    size = len(numbers)
    return Vector(vector.values, forms, numbers, numbers, np.full(size, 2, np.int8), np.ones(size, bool))
