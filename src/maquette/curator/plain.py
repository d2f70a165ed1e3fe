"""Plain values: the parameters of a door, copied into numbers, texts and arrays of exact types.

An object of a subclass of int, float or str may give false results in comparisons and sums, and its code runs wherever
it is used: where prices are computed, and where exact counts are in reach. So every parameter of a door is converted
once to a value of an exact type, before anything else is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

Text = TypeVar("Text", bound=str)


def whole(value: Any, what: str) -> int:
    """The value as a plain int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise QueryError(f"{what} is {value!r}", expected="a whole number")
    return int(value)


def number(value: Any, what: str) -> float:
    """The value as a plain int, float or Fraction: whole numbers stay whole, and fractions exact."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise QueryError(f"{what} is {value!r}", expected="a number")
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # type: ignore[return-value]
    return int(value) if isinstance(value, int) else float(value)


def text(value: Any, what: str) -> str:
    """The value as a plain str."""
    if not isinstance(value, str):
        raise QueryError(f"{what} is {value!r}", expected="a text")
    return str.__str__(value)


def one_of(value: Text, allowed: Sequence[Text], what: str) -> Text:
    """The value as the equal item of `allowed`; refused if there is none."""
    known = {word: word for word in allowed}
    plain = str.__str__(value) if isinstance(value, str) else None
    if plain not in known:
        words = [f'"{word}"' for word in allowed]
        raise QueryError(f"{what} is {value!r}", expected=f"{', '.join(words[:-1])} or {words[-1]}")
    return known[plain]


def array(values: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """A copy of the caller's numbers that no other code holds.

    An object with its own `__array__` may return memory that it keeps, although a copy is requested. So anything but an
    array or a list is copied again.
    """
    made = np.array(values, dtype=dtype, copy=True, subok=False)
    return made if type(values) in {np.ndarray, list, tuple} else made.copy()
