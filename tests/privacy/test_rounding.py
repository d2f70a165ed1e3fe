"""Scales of noise are rounded up to short binary numbers: by the definition, in exact integers."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from maquette.curator.noise import round_scale_up
from maquette.privacy.units import coarse_up


def _up(number: Fraction, bits: int) -> Fraction:
    step = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length() - bits)
    return math.ceil(number / step) * step


@pytest.mark.parametrize("seed", range(20))
def test_rounding_up_is_what_its_definition_says(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        number = Fraction(rng.randrange(1, 2 ** rng.randrange(1, 300)), rng.randrange(1, 2 ** rng.randrange(1, 300)))
        assert coarse_up(number) == _up(number, 40) >= number
        assert round_scale_up(number) == _up(number, 21) >= number
        assert coarse_up(number) <= number * (1 + Fraction(1, 2**38))
