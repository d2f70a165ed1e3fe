"""Plain values: what a caller hands a door, as numbers, texts and arrays that are the wall's own.

A subclass of int, float or str may lie in every comparison and every sum, and is called back wherever it is used: where
prices are worked out, and where exact counts are at hand. So every parameter of a door becomes a value of an exact type
once, before anything else is done with it. What it then says is what it is.
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
    """A whole number of Python's own."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise QueryError(f"{what} is {value!r}", expected="a whole number")
    return int(value)


def number(value: Any, what: str) -> float:
    """A number of Python's own: a whole one stays whole, and a fraction exact."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise QueryError(f"{what} is {value!r}", expected="a number")
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # type: ignore[return-value]
    return int(value) if isinstance(value, int) else float(value)


def text(value: Any, what: str) -> str:
    """A text of Python's own."""
    if not isinstance(value, str):
        raise QueryError(f"{what} is {value!r}", expected="a text")
    return str.__str__(value)


def one_of(value: Text, allowed: Sequence[Text], what: str) -> Text:
    """One of some words, as it is written in our own list."""
    known = {word: word for word in allowed}
    plain = str.__str__(value) if isinstance(value, str) else None
    if plain not in known:
        words = [f'"{word}"' for word in allowed]
        raise QueryError(f"{what} is {value!r}", expected=f"{', '.join(words[:-1])} or {words[-1]}")
    return known[plain]


def array(values: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """A copy of the caller's numbers that nobody else holds.

    An object with an `__array__` of its own is asked for a copy and may give what it keeps, so what numpy made of
    anything but an array or a list is copied again.
    """
    made = np.array(values, dtype=dtype, copy=True, subok=False)
    return made if type(values) in {np.ndarray, list, tuple} else made.copy()
