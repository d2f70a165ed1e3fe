"""The exact privacy loss of a sparse vector: probabilities of its patterns of hits, summed over all noise.

Along one transcript, an adaptive adversary is a fixed stream of statistics. So the largest ratio over all patterns,
all streams and all neighbouring perturbations is the largest over all adversaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.audit.reference.laws import discrete_laplace, laplace_tail

Floats = NDArray[np.float64]


class GuardNoise(NamedTuple):
    """The noise of a sparse vector; a scale of None means no noise, for mutants."""

    hits: int
    threshold_scale: float | None
    query_scale: float | None
    refreshed: bool


def patterns(length: int, hits: int) -> list[tuple[bool, ...]]:
    """Every pattern of a stream of this length, cut after its last allowed hit."""
    found = set()
    for full in product((False, True), repeat=length):
        cut = next((i + 1 for i in range(length) if sum(full[: i + 1]) == hits), length)
        found.add(full[:cut])
    return sorted(found)


def pattern_probabilities(guard: GuardNoise, pattern: Sequence[bool], choices: Sequence[Sequence[int]]) -> Floats:
    """P(pattern) for every stream in product(*choices), in that order; statistics are relative to the threshold."""
    if guard.refreshed and True in pattern[:-1]:
        end = list(pattern).index(True) + 1
        first = pattern_probabilities(guard, pattern[:end], choices[:end])
        rest = pattern_probabilities(guard, pattern[end:], choices[end:])
        return np.outer(first, rest).ravel()
    shifts, law = _threshold_law(guard)
    halves = [np.ones((len(shifts), 1)), law[:, None]]
    for i, (above, values) in enumerate(zip(pattern, choices, strict=True)):
        tail = _tail(shifts[:, None] - np.asarray(values)[None, :], guard)
        factor = tail if above else _tail(1 - shifts[:, None] + np.asarray(values)[None, :], guard)
        half = int(2 * i >= len(pattern))
        halves[half] = (halves[half][:, :, None] * factor[:, None, :]).reshape(len(shifts), -1)
    return (halves[0].T @ halves[1]).ravel()


def pattern_loss(guard: GuardNoise, pattern: Sequence[bool], values: Sequence[int], sensitivity: int = 1) -> float:
    """Largest |ln ratio| of P(pattern) over every stream of these values and every neighbouring perturbation."""
    changes = (0, *range(-sensitivity, 0), *range(1, sensitivity + 1))
    choices = [value + change for value in values for change in changes]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(pattern_probabilities(guard, pattern, [choices] * len(pattern)))
    shape = (len(values), len(changes)) * len(pattern)
    logs = logs.reshape(shape)
    unchanged = tuple(slice(None) if axis % 2 == 0 else slice(0, 1) for axis in range(len(shape)))
    base = np.broadcast_to(logs[unchanged], shape)
    possible = np.isfinite(base) | np.isfinite(logs)
    return float(np.abs(logs[possible] - base[possible]).max())


def _threshold_law(guard: GuardNoise) -> tuple[Floats, Floats]:
    if guard.threshold_scale is None:
        return np.zeros(1), np.ones(1)
    # The tail beyond 45 scales has probability e^-45, below the rounding error of the sums.
    reach = int(45 * guard.threshold_scale) + 1
    shifts = np.arange(-reach, reach + 1, dtype=np.float64)
    return shifts, discrete_laplace(shifts, guard.threshold_scale)


def _tail(values: Floats, guard: GuardNoise) -> Floats:
    if guard.query_scale is None:
        return (values <= 0).astype(np.float64)
    return laplace_tail(values, guard.query_scale)
