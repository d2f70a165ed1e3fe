"""Naming: a shorter prefix code for questions, with which sessions share the doubt among all they may be asked.

The code: how many columns and which; then one cell, or one condition for each column (a level, a range that begins or
ends with the column, any range, a set by its size or bit by bit, or a declared function of the column on all levels or
on some), or any yes/no question bit by bit, or any weights at all. A ratio or a question with numbers of its own is
named as such before the rest. Common questions have short names. Kraft's inequality holds; tests enumerate it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

CELL = PRODUCT = 2.0  # bits: a quarter of the doubt each
TABLE = DIRECTION = 4.0  # any yes/no question, and any weights at all
OTHER = 3.0  # before all else: a share of all rows, an average, or a question with numbers of its own
_SIZES = (4.0, 2.0, 2.0, 4.0 - math.log2(3), 3.0)  # of sets of no column to four; a bit more for each column beyond
_LEVEL = _END = 2.0
_RANGE = 4.0 - math.log2(3)
_BY_SIZE = _BITWISE = _FUNCTION_ON_SOME = 4.0
_FUNCTION = 3.0
EXACTLY = 1e-12  # of weights that are at most 1
_FUNCTIONS = 2.0  # which function: midpoints from zero or from the centre, their size or with sign


def set_bits(columns: int, size: int) -> float:
    """The bits that name a set of `size` of the `columns` columns."""
    of_size = _SIZES[size] if size < len(_SIZES) else _SIZES[-1] + size + 1 - len(_SIZES)
    return of_size + math.log2(math.comb(columns, size))


def condition_bits(row: Values, functions: Sequence[Values]) -> float:
    """The bits of the weights of one column, given those that SUM and AVG have on it."""
    size, held = len(row), np.flatnonzero(row)
    if not np.isin(row, (0.0, 1.0)).all():
        if any(np.allclose(function, row, rtol=0.0, atol=EXACTLY) for function in functions):
            return _FUNCTION + _FUNCTIONS
        some = any(
            np.allclose(np.where(row == 0.0, 0.0, function), row, rtol=0.0, atol=EXACTLY) for function in functions
        )
        return _FUNCTION_ON_SOME + _FUNCTIONS + size if some else math.inf
    return min(_as_set(size, len(held)), *_as_range(size, held))


def _as_set(size: int, held: int) -> float:
    return min(_BITWISE + size, _BY_SIZE + math.log2(size + 1) + math.log2(math.comb(size, held)))


def _as_range(size: int, held: NDArray[np.intp]) -> list[float]:
    if not len(held) or held[-1] - held[0] + 1 != len(held):
        return [math.inf]
    found = [_RANGE + math.log2(size * (size + 1) / 2)]
    if len(held) == 1:
        found.append(_LEVEL + math.log2(size))
    if held[0] == 0 or held[-1] == size - 1:
        found.append(_END + math.log2(2 * size))
    return found
