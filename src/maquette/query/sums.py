"""Sum: the canonical form of an additive query, a sum of one function per column.

    q(x) = constant + sum over columns j of part_j[level of x in column j]

A decision diagram of such a query has a node for every sum that a prefix of columns can reach: far too many for many
columns with many levels. But the sum identifies itself: if the minimum of every part is zero, the function determines
the constant and the parts. So two sums are the same question exactly when these agree.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.diagram import RESOLUTION
from maquette.schema import Schema

if TYPE_CHECKING:
    from maquette.query.linear import Term

DRAWN = 2**12  # up to this many combinations of levels a diagram is used, so that equal questions share a digest

_MOST = 2.0**20  # the largest part: times RESOLUTION it is 2^60, so parts and their differences are exact in 64 bits

Weights = NDArray[np.float64]
Whole = tuple[int, dict[str, NDArray[np.int64]]]


class Sum:
    """An additive query: its parts by column position, each with minimum zero.

    It replaces a `Diagram`: `digest`, `columns`, and `values`, here of several columns the smallest and the largest
    weight and one between. Weights are equal if they agree to 2^-40, as in a diagram.
    """

    def __init__(self, schema: Schema, constant: float, parts: Mapping[int, Weights]) -> None:
        positions = sorted(parts)
        joined = np.concatenate([parts[position] for position in positions]) if parts else np.zeros(0)
        starts = list(accumulate([len(parts[position]) for position in positions], initial=0))
        ends = _ends(joined, starts)
        if not all(-_MOST < low <= high < _MOST for low, high in ((constant, constant), *ends)):
            raise QueryError(
                f"a sum over columns has a part beyond {_MOST:g}", advice="a linear query weighs rows in [0, 1]"
            )
        scaled = joined * RESOLUTION
        rounded = np.rint(scaled)
        fixed = rounded.astype(np.int64)
        spans = [(round(low * RESOLUTION), round(high * RESOLUTION)) for low, high in ends]
        self._schema = schema
        self._known: dict[int, Whole | None] = {}
        self._parts = {
            position: fixed[starts[i] : starts[i + 1]] - low
            for i, (position, (low, high)) in enumerate(zip(positions, spans, strict=True))
            if high > low
        }
        self._constant = round(constant * RESOLUTION) + sum(low for low, _ in spans)
        self._exact = constant * RESOLUTION == round(constant * RESOLUTION) and bool((scaled == rounded).all())
        self._first = next((high - low for low, high in spans if high > low), 0)
        self._reach = sum(high - low for low, high in spans)
        low, high = self._constant, self._highest
        slack = 0 if self._exact else len(spans) + 1  # maximum total error of rounding each part
        if low < -slack or high > RESOLUTION + slack:
            weight = low if low < 0 else high
            raise QueryError(
                f"a weight of {weight / RESOLUTION} is outside [0, 1]", advice="a linear query weighs rows in [0, 1]"
            )

    @classmethod
    def of(cls, schema: Schema, terms: Sequence[Term]) -> Sum | None:
        """The sum of terms with at most one column each; None if a term has more."""
        if any(len(term.factors) > 1 for term in terms):
            return None
        constant, parts = 0.0, dict[int, Weights]()
        for term in terms:
            if not term.factors:
                constant += term.coefficient
            for position, factor in term.factors.items():
                parts[position] = parts.get(position, 0.0) + term.coefficient * factor
        return cls(schema, constant, parts)

    @property
    def constant(self) -> float:
        """The smallest weight."""
        return self._constant / RESOLUTION

    @cached_property
    def parts(self) -> dict[int, Weights]:
        """What each column adds to the constant, by position."""
        return {position: part / RESOLUTION for position, part in self._parts.items()}

    @property
    def cells(self) -> int:
        """The number of combinations of the levels of its columns, exactly."""
        return math.prod(len(part) for part in self._parts.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that matter, in schema order."""
        return tuple(self._schema.columns[position].name for position in self._parts)

    @property
    def listed(self) -> bool:
        """Whether `values` are all weights that occur."""
        return len(self._parts) < 2

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight."""
        low, high = (min(1.0, max(0.0, weight / RESOLUTION)) for weight in (self._constant, self._highest))
        return low, high

    @property
    def is_predicate(self) -> bool:
        """Whether every weight is 0 or 1; without a list of all weights."""
        if not self.listed:
            return self.values <= {0.0, 1.0}
        parts = (np.clip(self._constant + part, 0, RESOLUTION) for part in self._parts.values())
        outer = {0.0, 1.0}.issuperset(self.bounds)
        return outer and all(bool(((part == 0) | (part == RESOLUTION)).all()) for part in parts)

    @property
    def _highest(self) -> int:
        return self._constant + self._reach

    @cached_property
    def values(self) -> frozenset[float]:
        """All weights of one column; of several the least, the largest and one between: then it is no predicate."""
        weights = [self._constant, self._constant + self._first, self._constant + self._reach]
        if self.listed:
            weights += [self._constant + one for part in self._parts.values() for one in np.unique(part).tolist()]
        return frozenset(min(1.0, max(0.0, weight / RESOLUTION)) for weight in weights)

    @cached_property
    def digest(self) -> str:
        """The digest of the question.

        A column name that begins with a digit could be read as part of the constant, so a mark separates them then. All
        other digests equal those of version 0.1, which its ledgers hold. A column name ends with a NUL, which no name
        contains, and the column determines the length of its part.
        """
        first = next(iter(self.columns), "")
        state = hashlib.sha256(f"sum {self._constant}".encode())
        if first[:1] in set("0123456789"):
            state = hashlib.sha256(f"sum\0{self._constant}\0".encode())
        for position, part in self._parts.items():
            state.update(self._schema.columns[position].name.encode() + b"\0" + part.tobytes())
        return state.hexdigest()

    def whole(self, grid: int) -> Whole | None:
        """Constant and parts (by column name) as whole numbers of 1/grid; None unless they are exact multiples.

        Then the whole-number weight of a record is the sum of constant and parts, without rounding.
        """
        if grid not in self._known:
            self._known[grid] = self._whole(grid)
        return self._known[grid]

    def _whole(self, grid: int) -> Whole | None:
        unit = RESOLUTION // grid
        if not self._exact or RESOLUTION % grid:  # both are powers of two, hence so is the unit
            return None
        digits = self._constant
        if self._parts:
            digits |= int(np.bitwise_or.reduce(np.concatenate(list(self._parts.values()))))
        if digits & (unit - 1):
            return None
        parts = {self._schema.columns[position].name: part // unit for position, part in self._parts.items()}
        return self._constant // unit, parts


def _ends(joined: Weights, starts: Sequence[int]) -> list[tuple[float, float]]:
    """The least and the largest number of each part; a part has at least one."""
    if len(starts) < 2:
        return []
    least, most = (end.reduceat(joined, starts[:-1]).tolist() for end in (np.minimum, np.maximum))
    return list(zip(least, most, strict=True))
