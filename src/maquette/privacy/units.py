"""Integer units of privacy, and rounding that never favours the spender.

One unit is 1e-15 of epsilon (pure), rho (zCDP) or mu squared (Gaussian). Charges are rounded up and limits down, so the
budget check compares a sum of integers with an integer.
"""

from __future__ import annotations

import math
from fractions import Fraction

UNITS_PER_ONE = 10**15
MAX_UNITS = 2**63 - 1  # the largest number in a 64-bit ledger column: 9,223 of epsilon, rho or mu squared

_SIGNIFICANT_BITS = 40


def exact(number: float | Fraction) -> Fraction:
    """Return the decimal number as written: 0.3 is three tenths, not the nearest binary fraction.

    Ten requests of 0.1 then fill a budget of 1.0 exactly.
    """
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def units_up(amount: Fraction) -> int:
    """Units of a charge."""
    return math.ceil(amount * UNITS_PER_ONE)


def units_down(amount: Fraction) -> int:
    """Units of a limit."""
    return math.floor(amount * UNITS_PER_ONE)


def sqrt_down(number: Fraction) -> Fraction:
    """Largest convenient rational below the square root: exact for squares, else within 2**-64 of it, relative."""
    return Fraction(math.isqrt(number.numerator * number.denominator << 128), number.denominator << 64)


def float_down(number: Fraction) -> float:
    """Largest float that does not exceed `number`."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def float_up(number: Fraction) -> float:
    """Smallest float that is not below `number`."""
    return -float_down(-number)


def coarse_up(number: Fraction) -> Fraction:
    """Round a noise scale up to 40 significant bits: at most 2e-12 more noise, and small integers for the sampler."""
    above, below = number.numerator, number.denominator
    shift = _SIGNIFICANT_BITS - (above.bit_length() - below.bit_length())
    if shift < 0:
        return Fraction(-(-above // (below << -shift)) << -shift)
    return Fraction(-(-(above << shift) // below), 1 << shift)
