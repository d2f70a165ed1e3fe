"""Tools for the holdout's tests: tiny samples by their counts, populations, and an analyst that adapts to answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.holdout import Certified, Holdout


def compositions(points: int, rows: int) -> Iterator[tuple[int, ...]]:
    """Every way to have so many rows over so many points of a universe."""
    if points == 1:
        yield (rows,)
        return
    for first in range(rows + 1):
        for rest in compositions(points - 1, rows - first):
            yield (first, *rest)


def sample_of(counts: Sequence[int]) -> NDArray[np.int64]:
    """The sample with these counts, in order of the points: order does not matter to a statistic."""
    return np.repeat(np.arange(len(counts)), counts)


def chance(counts: Sequence[int], population: Sequence[float]) -> float:
    """The multinomial probability of a sample by its counts."""
    log = math.lgamma(sum(counts) + 1)
    for count, share in zip(counts, population, strict=True):
        log += count * math.log(share) - math.lgamma(count + 1)
    return math.exp(log)


class Subset:
    """The predicate that a row is one of some points."""

    def __init__(self, points: frozenset[int]) -> None:
        self.points = points

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(rows, list(self.points))

    def mean(self, population: Sequence[float]) -> float:
        return float(sum(population[point] for point in self.points))


def greedy_analyst(holdout: Holdout, points: int, questions: int) -> list[tuple[Subset, float | None, Certified]]:
    """Looks for a set of points that the sample has too often, by what it was told so far; all it sees decides.

    Its guesses are public: what an even population would say, which fails wherever the sample is uneven, and none at
    all for every third question.
    """
    told: list[tuple[Subset, float | None, Certified]] = []
    chosen: frozenset[int] = frozenset({0})
    for turn in range(questions):
        statistic = Subset(chosen)
        guess = None if turn % 3 == 2 else len(chosen) / points
        answer = holdout.ask(statistic, guess=guess)
        told.append((statistic, guess, answer))
        # Every field an analyst sees moves the next question.
        bits = (answer.value > len(chosen) / points) + 2 * (answer.source == "holdout") + answer.failures
        chosen = frozenset(p for p in range(points) if (p * 7 + turn * 3 + bits * 5) % 4 < 2) or frozenset(
            {turn % points}
        )
        if len(chosen) == points:
            chosen = chosen - {turn % points}
    return told


def seen(told: Sequence[tuple[Any, float | None, Certified]]) -> tuple[Any, ...]:
    """All that an analyst was told, so that two transcripts compare."""
    return tuple((a.value, a.half_width, a.source, a.failures, a.status) for _, _, a in told)
