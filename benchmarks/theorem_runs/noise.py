"""Noise for runs on toys: the production source, louder than the doors believe; and one from a seed, for tests.

Neither is for private rows: toys are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import ExactNoise

Integers = NDArray[np.int64]


class Loud(ExactNoise):
    """The production source with every scale multiplied by a factor: a sabotage that a promise must not survive."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def laplaces(self, scales: Sequence[Fraction], sizes: Sequence[int]) -> list[Integers]:
        return super().laplaces([self.factor * scale for scale in scales], sizes)

    def gaussians(self, variances: Sequence[Fraction], sizes: Sequence[int]) -> list[Integers]:
        return super().gaussians([self.factor**2 * variance for variance in variances], sizes)

    def exponentials(self, scores: Integers, scale: Fraction, size: int) -> Integers:
        return super().exponentials(scores, self.factor * scale, size)

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        return super().permute_and_flip(scores, self.factor * scale)


class Seeded:
    """The same laws, up to rounding, from a seed and a factor."""

    def __init__(self, seed: int, factor: int = 1) -> None:
        self.rng, self.factor = np.random.default_rng(seed), factor

    def laplace(self, scale: Fraction, size: int) -> Integers:
        stop = -np.expm1(-1.0 / (self.factor * float(scale)))
        return (self.rng.geometric(stop, size) - self.rng.geometric(stop, size)).astype(np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        return np.rint(self.rng.normal(0.0, self.factor * float(variance) ** 0.5, size)).astype(np.int64)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores / (self.factor * float(scale)) + self.rng.gumbel(size=len(scores))))

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        # Permute-and-flip is report noisy max with exponential noise (Ding et al. 2021).
        return int(np.argmax(scores / (self.factor * float(scale)) + self.rng.exponential(size=len(scores))))
