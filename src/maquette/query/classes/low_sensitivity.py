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

MAX_UNIVERSE = 2**12  # points of a universe whose histogram a function is given
MAX_PAIRS = 10**6  # pairs of neighbours that are checked one by one
_FINEST = 2**40  # whole numbers of 1/FINE of a sensitivity: below this, doubles are far finer than one of them
_ROOM = 1 + 2.0**-18  # a function's own floating-point error may exceed its sensitivity by less
_WITHIN = 1e-9  # of the range: what rounding may put outside of it

Histogram = NDArray[np.float64]


@dataclass(frozen=True)
class LowSensitivityQuery:
    """A number in [low, high], computed from a histogram: an array with one axis per column, in schema order.

    The histogram is of counts divided by a public number of rows. `sensitivity` is the most that one row can change the
    number under the relation of the curator who is asked: one row replaced by another, or one row (of mass 1 / rows)
    added or removed; under "replace" of units with several rows, whichever of these changes it more. It is 1/n for the
    share of rows on which a predicate holds. It is declared by whoever writes the function and the privacy of the
    answer rests on it: `check_sensitivity` tries it out on small tables, nothing proves it.

    The function runs behind the wall, on exact counts. It must be deterministic and keep nothing: it could print or
    store what it sees, so run only functions that you have read. There it is made total: where it raises anything, or
    gives no finite number, it counts as `low`, and numbers outside the range as the nearest end. The declared
    sensitivity is that of the function so completed. On public histograms the same things are errors, so they show
    before any charge. Queries are equal when their names are: a name stands for one function.

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
            raise QueryError("a low-sensitivity query needs a name", advice="it is how the query is told from others")
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0.0):
            raise QueryError(f"query {self.name!r}: sensitivity must be positive and finite, got {self.sensitivity}")
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
        """The answer of the function made total: whatever happens inside, a number of the range and no other sign.

        Every exception counts, SystemExit and KeyboardInterrupt included: passed on, it would be a sign that the
        function can give where it likes. So Ctrl-C while a function runs makes it count as `low`; press it again after.
        """
        try:
            # A warning that only some tables cause would say something about them.
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
    """A low-sensitivity query as a question for the doors: one number that a row moves by at most one.

    Its value is f / `unit`, where f is the completed function of counts / `rows` and `unit` a hair more than the
    sensitivity; "one row" of it is one sensitivity of f. So it is to the doors what a count is, and measure, selections
    and guards take it as they are.

    Privacy: let D = FINE. The tally is the whole number nearest to D * f / unit, with unit = sensitivity * D / (D - 1),
    and a little more for floating point. One row moves f by at most the declared sensitivity (clipping moves it no
    further), D * f / unit by at most D - 1, and its rounding by at most one more: D in all, the grid of a weight in
    [0, 1] (Mechanisms §0.4). `max_contributions` rows are as many steps of one row, and `Relation` multiplies by them.
    Small universes only: the function sees the whole histogram.
    """

    def __init__(
        self, schema: Schema, query: LowSensitivityQuery, *, rows: float, sensitivity: float | None = None
    ) -> None:
        """`rows` must be public. `sensitivity` may be coarser than the query's own, so that several share a unit."""
        if schema.size > MAX_UNIVERSE:
            raise QueryError(
                f"{schema!r} has more points than the {MAX_UNIVERSE:,} whose histogram a function is given",
                advice="use fewer columns or wider bins",
            )
        if not (math.isfinite(rows) and rows > 0):
            raise QueryError(f"rows is {rows}", expected="the public number of rows, more than 0")
        declared = query.sensitivity if sensitivity is None else sensitivity
        if declared < query.sensitivity:
            raise QueryError(f"query {query.name!r} moves by {query.sensitivity:g}, more than the {declared:g} given")
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
        """A row moves the value by at most one sensitivity either way, hence by a weight from 0 to 1."""
        return Moves(0, FINE, 1)

    @cached_property
    def key(self) -> str:
        """The digest of the question, in which a name stands for the function."""
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
    """The most that one row changes a query on any table of `rows` rows; refused if that is more than it declares.

    Under "add-remove", as with `Curator` the default, on any two tables of at most `rows` rows of which one has a row
    more, scaled by 1 / rows. All pairs of neighbours are tried, so both must be tiny. It is a check and no proof: other
    numbers of rows may be worse.

    >>> from maquette import Integer
    >>> spread = LowSensitivityQuery("spread", np.ptp, sensitivity=2 / 5)
    >>> round(check_sensitivity(spread, Schema([Integer("x", 0, 2)]), rows=5, relation="replace"), 6)
    0.4
    """
    if relation not in ("replace", "add-remove"):
        raise QueryError(f'the relation must be "add-remove" or "replace", got {relation!r}')
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
