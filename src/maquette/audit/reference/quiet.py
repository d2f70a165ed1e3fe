"""A noise source that adds nothing and records every request: with it a door shows its exact statistic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.audit.reference.scripted import Call

Integers = NDArray[np.int64]


class QuietNoise:
    """Zero noise, and the best candidate of every selection; `calls` and `scores` record every request. Not private.

    `steps` is a list that others may write to as well; it records the order of events.
    """

    def __init__(self, steps: list[str] | None = None) -> None:
        self.calls: list[Call] = []
        self.scores: list[Integers] = []
        self.steps = [] if steps is None else steps

    def laplace(self, scale: Fraction, size: int) -> Integers:
        """Zeros."""
        return self._zeros("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        """Zeros."""
        return self._zeros("gaussian", variance, size)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        """The first of the best."""
        return self._best("exponential", scores, scale)

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        """The first of the best."""
        return self._best("permute_and_flip", scores, scale)

    def _zeros(self, kind: str, scale: Fraction, size: int) -> Integers:
        self._asked(kind, scale, size)
        return np.zeros(size, dtype=np.int64)

    def _best(self, kind: str, scores: Integers, scale: Fraction) -> int:
        self._asked(kind, scale, len(scores))
        self.scores.append(np.array(scores))
        return int(np.argmax(scores))

    def _asked(self, kind: str, scale: Fraction, size: int) -> None:
        self.steps.append("draw")
        self.calls.append(Call(kind, scale, size))
