"""Exponentials of many numbers in place, about four times as fast as numpy where it has no vector code for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from maquette.hypothesis.factors import Values

_BLOCK = 1024  # numbers per block: a block fits in the L1 cache
_LEAST = -708.0  # exp of anything below is subnormal or zero: zero is as good
_SHIFTER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer and leaves that in the lowest bits


def exponentials(values: Values, *, compiled: bool) -> None:
    """exp in place, for a contiguous table of numbers up to 700.

    The compiled version is accurate to two units in the last place. Loading it takes longer than numpy needs for small
    tables.
    """
    if not compiled:
        np.exp(values, out=values)
        return
    flat, scratch = values.reshape(-1), np.empty(_BLOCK)
    _kernel()(flat, flat.view(np.int64), scratch, scratch.view(np.int64))


@cache
def _kernel() -> Callable[..., None]:
    import numba

    options = {"nogil": True, "fastmath": {"contract", "nsz"}}  # infinities must stay infinite
    try:
        compiled = numba.njit(cache=True, **options)(_exponentials)
    except RuntimeError:  # no writable place for the cache
        compiled = numba.njit(**options)(_exponentials)
    return compiled  # type: ignore[no-any-return]


def _exponentials(values: Any, value_bits: Any, powers: Any, power_bits: Any) -> None:
    """exp(v) = 2^k exp(r), k whole and |r| <= ln(2)/2: a Taylor polynomial for exp(r), and k added to its exponent.

    `value_bits` and `power_bits` are the same memory as `values` and `powers`, viewed as integers.
    """
    for start in range(0, values.size, _BLOCK):
        block, bits = values[start : start + _BLOCK], value_bits[start : start + _BLOCK]
        for i in range(block.size):
            v = block[i]
            kept = v if v > _LEAST else _LEAST
            shifted = kept * 1.4426950408889634 + _SHIFTER
            k = shifted - _SHIFTER
            r = (kept - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10  # ln 2 in two parts
            p = 1.0 / 6227020800.0
            p = p * r + 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            p = p * r + 1.0
            block[i] = p if v > _LEAST else 0.0
            powers[i] = shifted if v > _LEAST else _SHIFTER
        for i in range(block.size):
            bits[i] += power_bits[i] << 52
