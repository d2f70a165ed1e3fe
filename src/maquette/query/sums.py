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

    It replaces a `Diagram`: `digest`, `columns`, and `values`, here the smallest and the largest weight and one
    between. Weights are equal if they agree to 2^-40, as in a diagram.
    """

    def __init__(self, schema: Schema, constant: float, parts: Mapping[int, Weights]) -> None:
        ends = {position: (float(part.min()), float(part.max())) for position, part in sorted(parts.items())}
        if not all(-_MOST < low <= high < _MOST for low, high in ((constant, constant), *ends.values())):
            raise QueryError(
                f"a sum over columns has a part beyond {_MOST:g}", advice="a linear query weighs rows in [0, 1]"
            )
        scaled = {position: parts[position] * RESOLUTION for position in ends}
        fixed = {position: np.rint(part).astype(np.int64) for position, part in scaled.items()}
        spans = {p: (round(low * RESOLUTION), round(high * RESOLUTION)) for p, (low, high) in ends.items()}
        self._schema = schema
        self._known: dict[int, Whole | None] = {}
        self._parts = {p: fixed[p] - low for p, (low, high) in spans.items() if high > low}
        self._constant = round(constant * RESOLUTION) + sum(low for low, _ in spans.values())
        self._exact = constant * RESOLUTION == round(constant * RESOLUTION) and all(
            bool((part == fixed[position]).all()) for position, part in scaled.items()
        )
        self._reach = sum(high - low for low, high in spans.values())
        low, high = self._constant, self._constant + self._reach
        slack = 0 if self._exact else len(fixed) + 1  # maximum total error of rounding each part
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
    def values(self) -> set[float]:
        """The smallest and the largest weight, and one between if two columns matter: then it is no predicate."""
        first = next((int(part.max()) for part in self._parts.values()), 0)
        weights = (self._constant, self._constant + first, self._constant + self._reach)
        return {min(1.0, max(0.0, weight / RESOLUTION)) for weight in weights}

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
        for part in self._parts.values():
            digits |= int(np.bitwise_or.reduce(part))
        if digits & (unit - 1):
            return None
        parts = {self._schema.columns[position].name: part // unit for position, part in self._parts.items()}
        return self._constant // unit, parts
