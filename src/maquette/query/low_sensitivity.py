"""LowSensitivityQuery: any function of the table's histogram with a declared sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError


@dataclass(frozen=True)
class LowSensitivityQuery:
    """A number computed from a normalised histogram (an array with one axis per column, in schema order).

    `sensitivity` is the most that replacing one row can change it, declared by whoever writes it: 1/n for a linear
    query over n rows. Nothing checks it, so it is a promise the privacy of the answer rests on. Queries are equal when
    their names are: a name stands for one function.

    >>> largest = LowSensitivityQuery("largest cell", np.max, sensitivity=1 / 1000)
    >>> largest(np.array([[0.5, 0.2], [0.2, 0.1]]))
    0.5
    """

    name: str
    function: Callable[[NDArray[np.float64]], Any] = field(compare=False)
    sensitivity: float = field(compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name:
            raise QueryError("a low-sensitivity query needs a name; it is how the query is told from others")
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0.0):
            raise QueryError(f"query {self.name!r}: sensitivity must be positive and finite, got {self.sensitivity}")

    def __call__(self, histogram: NDArray[np.float64]) -> float:
        """The answer on one histogram."""
        value = float(self.function(histogram))
        if not math.isfinite(value):
            raise QueryError(f"query {self.name!r} gave {value}; expected a finite number for every histogram")
        return value

    def __repr__(self) -> str:
        return f"LowSensitivityQuery({self.name}, sensitivity {self.sensitivity:g})"
