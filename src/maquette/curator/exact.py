"""Exact decisions about a uniform real number; only the bits that matter are drawn.

A uniform number U is known to lie in a cell [low, low + 1) / 2^bits. Each question below is decided from certified
enclosures of exp and ln (the decimal module rounds both correctly at any precision). While the cell contains the
boundary, 64 more bits are drawn. exp of a non-zero rational is irrational (Lindemann), so no boundary is hit exactly
and every loop ends with probability one: the results have exactly the stated distribution.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from math import floor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Word = TypeVar("Word", np.uint32, np.uint64)


def words(count: int, dtype: type[Word]) -> NDArray[Word]:
    """Fresh uniform words from the operating system's generator; no state is kept, so a fork shares nothing."""
    return np.frombuffer(os.urandom(count * np.dtype(dtype).itemsize), dtype=dtype)


class Uniform:
    """A uniform real number in [0, 1), known to lie in [low, low + 1) / 2^bits."""

    __slots__ = ("bits", "low")

    def __init__(self, low: int, bits: int) -> None:
        self.low = low
        self.bits = bits

    @classmethod
    def draw(cls) -> Uniform:
        """A fresh number, known to 64 bits."""
        return cls(int(words(1, np.uint64)[0]), 64)

    def reveal(self) -> None:
        """Draw 64 more bits."""
        self.low = self.low << 64 | int(words(1, np.uint64)[0])
        self.bits += 64


def below(uniform: Uniform, weight: Fraction, exponent: Fraction) -> bool:
    """Whether U < weight * exp(-exponent), for exponent >= 0; true with exactly that probability, capped at one."""
    while True:
        least, most = _exp_bounds(exponent, _digits(uniform))
        if uniform.low + 1 <= weight * least * 2**uniform.bits:
            return True
        if uniform.low >= weight * most * 2**uniform.bits:
            return False
        uniform.reveal()


def floor_log(uniform: Uniform, scale: Fraction) -> int:
    """floor(-scale * ln U): a geometric number G with P(G >= m) = exp(-m / scale)."""
    while True:
        if uniform.low > 0:
            digits = _digits(uniform)
            least = floor(scale * max(Fraction(0), _log_bounds(uniform.low + 1, uniform.bits, digits)[0]))
            if least == floor(scale * _log_bounds(uniform.low, uniform.bits, digits)[1]):
                return least
        uniform.reveal()


def sum_reaches(exponents: Sequence[Fraction], times: Sequence[int], target: int) -> bool:
    """Whether the sum of times * exp(-exponent) is at least `target`, for different exponents >= 0.

    Exponentials of different rationals are linearly independent over the rationals (Lindemann and Weierstrass). So the
    sum equals the target only if every exponent is zero, where the enclosure is exact: the loop ends.
    """
    digits = 30
    while True:
        bounds = [_exp_bounds(exponent, digits) for exponent in exponents]
        if sum(count * least for count, (least, _) in zip(times, bounds, strict=True)) >= target:
            return True
        if sum(count * most for count, (_, most) in zip(times, bounds, strict=True)) < target:
            return False
        digits *= 2


def _digits(uniform: Uniform) -> int:
    # A bit is 0.30 digits: the precision is 20 digits beyond that of the cell, so it never limits progress.
    return 20 + uniform.bits // 3


def _exp_bounds(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """An enclosure of exp(-exponent)."""
    if exponent == 0:
        return Fraction(1), Fraction(1)
    if exponent > 64 * digits:
        return Fraction(0), Fraction(1, 2 ** (64 * digits))
    context = _context(digits)
    numerator, denominator = Decimal(-exponent.numerator), Decimal(exponent.denominator)
    quotient = context.divide(numerator, denominator)
    return (
        Fraction(context.next_minus(context.exp(context.next_minus(quotient)))),
        Fraction(context.next_plus(context.exp(context.next_plus(quotient)))),
    )


def _log_bounds(numerator: int, bits: int, digits: int) -> tuple[Fraction, Fraction]:
    """An enclosure of -ln(numerator / 2^bits)."""
    context = _context(digits)
    value = bits * Fraction(context.ln(Decimal(2))) - Fraction(context.ln(Decimal(numerator)))
    # Both logarithms are within half a unit in their last digit, and the second is less than the number of bits.
    error = Fraction(bits, 10 ** (digits - 2))
    return value - error, value + error


def _context(digits: int) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
