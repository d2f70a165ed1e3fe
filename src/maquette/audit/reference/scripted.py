"""A noise source that replays a script and records every request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Call(NamedTuple):
    """One request for noise: its kind, its scale (the variance if Gaussian) and the number of values or candidates."""

    kind: str
    scale: Fraction
    size: int


class ScriptExhausted(AssertionError):
    """More noise was requested than the script holds."""


class ScriptedNoise:
    """Returns scripted values in order, for any kind of noise; `calls` records every request. Not private."""

    def __init__(self, values: Sequence[int]) -> None:
        self._values = list(values)
        self.calls: list[Call] = []
        self.used = 0

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """The next `size` scripted values."""
        return self._next("laplace", scale, size, size)

    def gaussian(self, variance: Fraction, size: int) -> NDArray[np.int64]:
        """The next `size` scripted values."""
        return self._next("gaussian", variance, size, size)

    def exponential(self, scores: NDArray[np.int64], scale: Fraction) -> int:
        """The next scripted value, as an index."""
        return int(self._next("exponential", scale, len(scores), 1)[0])

    def permute_and_flip(self, scores: NDArray[np.int64], scale: Fraction) -> int:
        """The next scripted value, as an index."""
        return int(self._next("permute_and_flip", scale, len(scores), 1)[0])

    def _next(self, kind: str, scale: Fraction, size: int, count: int) -> NDArray[np.int64]:
        self.calls.append(Call(kind, scale, size))
        if self.used + count > len(self._values):
            raise ScriptExhausted(
                f"call {len(self.calls)} asked for {count} {kind} values; "
                f"{len(self._values) - self.used} of {len(self._values)} were left in the script"
            )
        self.used += count
        return np.array(self._values[self.used - count : self.used], dtype=np.int64)


def grid(support: Sequence[int], draws: int) -> Iterator[tuple[int, ...]]:
    """Every script of `draws` values from the support."""
    return product(support, repeat=draws)
