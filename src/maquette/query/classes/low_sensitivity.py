"""Low-sensitivity queries: any function of the table's histogram with a declared sensitivity."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.forms import Form, OfHistogram
from maquette.query.linear import FINE
from maquette.query.marginal import Marginal
from maquette.query.moves import Moves
from maquette.schema import Schema

MAX_UNIVERSE = 2**12  # maximum points of the universe: the function receives the whole histogram
MAX_PAIRS = 10**6  # maximum pairs of neighbours that are checked one by one
_FINEST = 2**40  # maximum value in units of sensitivity / FINE: below it, doubles resolve much less than one unit
_ROOM = 1 + 2.0**-18  # room for the function's own floating-point error above its sensitivity
_WITHIN = 1e-9  # fraction of the range by which rounding may leave the range

Histogram = NDArray[np.float64]


@dataclass(frozen=True)
class LowSensitivityQuery:
    """A number in [low, high], computed from a histogram: an array with one axis per column, in schema order.

    The histogram holds counts divided by a public number of rows. `sensitivity` is the largest change of the number
    that one row can cause under the curator's relation: one row replaced by another, or one row (of mass 1 / rows)
    added or removed; under "replace" with units of several rows, the larger of the two. For the fraction of n rows on
    which a predicate holds it is 1/n. The author of the function declares it, and the privacy of the answer depends on
    it: `check_sensitivity` tests it on small tables; nothing proves it.

    The function runs behind the wall, on exact counts. It must be deterministic and have no side effects. It could
    print or store what it sees, so run only functions that you have read. Behind the wall an exception or a number that
    is not finite becomes `low`, and a number outside the range becomes the nearest end. The declared sensitivity is
    that of the function completed in this way. On public histograms these cases are errors, so they appear before any
    charge. Queries with equal names are equal: a name stands for one function.

    >>> largest = LowSensitivityQuery("largest cell", np.max, sensitivity=1 / 1000)
    >>> largest(np.array([[0.5, 0.2], [0.2, 0.1]]))
    0.5
    """

    name: str
    function: Callable[[Histogram], Any] = field(compare=False)
    sensitivity: float = field(compare=False, kw_only=True)
    low: float = field(default=0.0, compare=False, kw_only=True)
    high: float = field(default=1.0, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name:
            raise QueryError("a low-sensitivity query needs a name", advice="the name identifies the query")
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0.0):
            raise QueryError(
                f"query {self.name!r}: sensitivity is {self.sensitivity}", expected="a positive, finite number"
            )
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise QueryError(
                f"query {self.name!r}: the range [{self.low}, {self.high}] must be finite, from a lower to a higher end"
            )

    def __call__(self, histogram: Histogram) -> float:
        """The answer on one public histogram; a number that is not finite or out of range is refused."""
        value = float(self.function(np.array(histogram, dtype=np.float64)))
        if not math.isfinite(value):
            raise QueryError(f"query {self.name!r} gave {value}", expected="a finite number for every histogram")
        slack = _WITHIN * (self.high - self.low)
        if not self.low - slack <= value <= self.high + slack:
            raise QueryError(
                f"query {self.name!r} gave {value:g}, outside its range [{self.low:g}, {self.high:g}]",
                advice="declare low and high so that they hold all its values",
            )
        return self._clipped(value)

    def completed(self, histogram: Histogram) -> float:
        """The answer of the completed function: always a number in the range, and no other effect.

        Every exception becomes `low`, also SystemExit and KeyboardInterrupt: an exception that escaped would let the
        function leak information about rows. So Ctrl-C while the function runs gives `low`; press it again afterwards.
        """
        try:
            # A warning that only some tables cause would reveal something about them.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = float(self.function(np.array(histogram, dtype=np.float64)))
        except BaseException:
            return self.low
        return self._clipped(value) if math.isfinite(value) else self.low

    def _clipped(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def __repr__(self) -> str:
        return f"LowSensitivityQuery({self.name}, sensitivity {self.sensitivity:g})"


class Statistic(Marginal):
    """A low-sensitivity query as a question for the doors: one number that a row changes by at most 1.

    Its value is f / `unit`, where f is the completed function of counts / `rows`, and `unit` is slightly more than the
    sensitivity; a change of 1 is one sensitivity of f. So the doors treat it like a count: measure, selections and
    guards need no special case.

    Privacy: let D = FINE. The tally is the whole number nearest to D * f / unit, with unit = sensitivity * D / (D - 1),
    plus a little for floating point. One row changes f by at most the declared sensitivity (clipping does not increase
    this), D * f / unit by at most D - 1, and rounding by at most one more: D in total, the grid of a weight in [0, 1]
    (Mechanisms §0.4). A unit with `max_contributions` rows changes it by that many steps of one row; `Relation`
    multiplies by their number. Small universes only: the function sees the whole histogram.
    """

    def __init__(
        self, schema: Schema, query: LowSensitivityQuery, *, rows: float, sensitivity: float | None = None
    ) -> None:
        """`rows` must be public. `sensitivity` may exceed the query's own, so that several queries share one unit."""
        if schema.size > MAX_UNIVERSE:
            raise QueryError(
                f"{schema!r} has more points than the {MAX_UNIVERSE:,} whose histogram a function is given",
                advice="use fewer columns or wider bins",
            )
        if not (math.isfinite(rows) and rows > 0):
            raise QueryError(f"rows is {rows}", expected="the public number of rows, more than 0")
        declared = query.sensitivity if sensitivity is None else sensitivity
        if declared < query.sensitivity:
            raise QueryError(
                f"query {query.name!r} has sensitivity {query.sensitivity:g}, more than the {declared:g} given"
            )
        self.statistic, self.rows = query, float(rows)
        self.unit = declared * _ROOM * FINE / (FINE - 1)
        reach = max(abs(query.low), abs(query.high))
        if reach / self.unit * FINE > _FINEST:
            raise QueryError(
                f"query {query.name!r}: values up to {reach:g} are too large for a sensitivity of {declared:g}",
                advice="declare a narrower range or a larger sensitivity",
            )
        super().__init__(schema)
        self.sensitivity = declared

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns: the function sees the whole histogram."""
        return self.schema.names

    @property
    def grid(self) -> int:
        """Values are whole multiples of 1/FINE of a sensitivity."""
        return FINE

    @property
    def form(self) -> Form:
        """The question as data, for the wall: the only form that brings code with it."""
        return OfHistogram(self.statistic, self.rows, self.sensitivity)

    @property
    def moves(self) -> Moves:
        """A row changes the value by at most one sensitivity, up or down: the same as a weight from 0 to 1."""
        return Moves(0, FINE, 1)

    @cached_property
    def key(self) -> str:
        """The digest of the question; the function enters it by its name."""
        facts = (self.statistic.name, self.statistic.low, self.statistic.high, self.unit, self.rows)
        return hashlib.sha256(f"statistic {facts!r}".encode()).hexdigest()

    def tally(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exact value in whole numbers of unit / FINE."""
        value = self.statistic.completed(counts / self.rows)
        return np.array(round(value / self.unit * FINE), dtype=np.int64)

    def public(self, value: float) -> float:
        """A public value of the function in the units of the doors."""
        return value / self.unit

    def __repr__(self) -> str:
        return f"Statistic({self.statistic.name})"


def check_sensitivity(query: LowSensitivityQuery, schema: Schema, rows: int, *, relation: str = "add-remove") -> float:
    """The largest change that one row causes on any table of `rows` rows; an error if it exceeds the declared one.

    Under "add-remove" (the default, as in `Curator`) it compares all tables of at most `rows` rows with those that have
    one row more; counts are divided by `rows`. All pairs of neighbours are tried, so `rows` and `schema` must be tiny.
    This is a check, not a proof: other numbers of rows may be worse.

    >>> from maquette import Integer
    >>> spread = LowSensitivityQuery("spread", np.ptp, sensitivity=2 / 5)
    >>> round(check_sensitivity(spread, Schema([Integer("x", 0, 2)]), rows=5, relation="replace"), 6)
    0.4
    """
    if relation not in ("replace", "add-remove"):
        raise QueryError(f"the relation is {relation!r}", expected='"add-remove" or "replace"')
    cells, base = schema.size, rows - 1 if relation == "replace" else range(rows)
    sizes = [base] if isinstance(base, int) else list(base)
    pairs = sum(math.comb(cells + size - 1, size) for size in sizes) * cells * (cells if relation == "replace" else 1)
    if rows < 1 or pairs > MAX_PAIRS:
        raise QueryError(
            f"tables of {rows:,} rows over {cells:,} points have about {pairs:.3g} pairs of neighbours",
            expected=f"at least one row and at most {MAX_PAIRS:,} pairs",
            advice="Check fewer rows or points",
        )
    worst, shape = 0.0, schema.shape(schema.names)
    for size in sizes:
        for common in _tables(cells, size):
            tables = common + np.eye(cells, dtype=np.int64)
            if relation == "add-remove":
                tables = np.concatenate([common[None], tables])
            values = np.array([query.completed((table / rows).reshape(shape)) for table in tables])
            ends = (
                (values.argmin(), values.argmax())
                if relation == "replace"
                else (0, np.abs(values - values[0]).argmax())
            )
            change = float(abs(values[ends[0]] - values[ends[1]]))
            if change > query.sensitivity * (1 + 1e-9):
                one, other = (tables[end].tolist() for end in ends)
                raise QueryError(
                    f"query {query.name!r} changes by {change:g} from counts {one} to {other}, more than the "
                    f"{query.sensitivity:g} it declares",
                    advice="declare a larger sensitivity, or change the function",
                )
            worst = max(worst, change)
    return worst


def _tables(cells: int, rows: int) -> Iterator[NDArray[np.int64]]:
    for chosen in combinations_with_replacement(range(cells), rows):
        yield np.bincount(np.array(chosen, dtype=np.int64), minlength=cells)
