"""Numbers of a question: copied from the caller, checked to be finite or whole, and to add up without loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import plain
from maquette.curator.compiled import Integers
from maquette.errors import QueryError
from maquette.query import Term

WHOLE = 2.0**53  # doubles represent whole numbers up to here exactly
LOST = 2.0**22  # bound on steps * size: rounding errors of 2^-53 each then add up to less than 2^-31
FEW = 2**7  # up to this many numbers Python is quicker than numpy

Floats = NDArray[np.float64]


def refuse_inexact(terms: Sequence[Term]) -> None:
    """Refuse sums of products with large cancellation: the error of adding them in doubles must be negligible.

    Whole numbers are exact below 2^53. Otherwise the error of a sum of t products of k factors is at most (k + t) 2^-53
    of the sum of absolute values: less than 2^-31 here, while the grid is 2^-20. Only a weight that is closer than that
    to the midpoint between two numbers of the grid may be rounded either way.
    """
    total, steps = math.fsum(map(_size, terms)), len(terms) + max((len(t.factors) for t in terms), default=0) + 2
    if total < LOST / steps:
        return
    whole = all(t.coefficient.is_integer() and all((f == np.rint(f)).all() for f in t.factors.values()) for t in terms)
    if not (whole and total < WHOLE):
        raise QueryError(
            f"the products of this question reach {total:.3g} before they cancel, too large to add exactly",
            advice="write it with weights in [0, 1]",
        )


def _size(term: Term) -> float:
    """A bound on a product: its coefficient times the largest number of each factor."""
    return math.prod([abs(term.coefficient), *map(_largest, term.factors.values())])


def _largest(factor: Floats) -> float:
    """The largest absolute number."""
    if factor.size <= FEW:
        return float(max(map(abs, factor.tolist())))
    return float(np.abs(factor).max())


def floats(values: Any) -> Floats:
    """A copy; refused unless all numbers are finite."""
    own = _array(values, np.float64)
    few = own.ndim == 1 and own.size <= FEW
    if not (all(map(math.isfinite, own.tolist())) if few else np.isfinite(own).all()):
        raise QueryError("weights must be finite numbers")
    return own


def integers(values: Any, what: str, shape: tuple[int | None, ...]) -> Integers:
    """A copy; refused unless it holds whole numbers and has this shape (None: any length)."""
    read = _array(values, None)
    with np.errstate(invalid="ignore"):
        own = read if read.dtype == np.int64 else _array(read, np.int64)
    if read.dtype.kind not in "biuf" or read.ndim != len(shape) or not np.array_equal(own, read):
        raise QueryError(f"{what}: got {read.dtype} with {read.ndim}", expected=f"whole numbers with {len(shape)} axes")
    if any(wanted not in (None, got) for wanted, got in zip(shape, own.shape, strict=True)):
        raise QueryError(f"{what}: got shape {own.shape}", expected=f"shape {shape}")
    return own


def _array(values: Any, dtype: Any) -> NDArray[Any]:
    """A copy of the caller's numbers as a plain array; anything else is refused."""
    try:
        return plain.array(values, dtype)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"got {type(values).__name__}", expected="an array of numbers") from None
