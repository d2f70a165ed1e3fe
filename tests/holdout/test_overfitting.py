"""An analyst who overfits: every method's intervals hold as often as they say, and naive reuse fails the same test.

A repetition is covered if all its intervals hold. A method fails the test if so few of the repetitions are covered as
would happen with probability below 1e-6 at the stated confidence. Seeds are fixed, except that of the private noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.holdout import Holdout
from maquette.theory.holdout import fresh_width

CONFIDENCE, RARE = 0.8, 1e-6
ROWS, FEATURES, REPETITIONS = 300, 60, 40

Bits = NDArray[np.bool_]
Ask = Callable[[Callable[[Bits], Bits]], tuple[float, float, float]]


def overfit(ask: Ask, features: int) -> tuple[bool, float]:
    """Ask how often each feature agrees with the label, then how often a vote of all with their seeming signs does.

    The features have nothing to do with the label, so one half is the truth of every question; an odd number of voters
    has no ties. Every prefix of the vote is asked as well: each question depends on all answers before.
    """
    told = [ask(lambda rows, j=j: rows[:, j]) for j in range(features)]  # type: ignore[misc]
    signs = np.where(np.array(told)[:, 0] > 0.5, 1, -1)
    told += [ask(lambda rows, v=v: (rows[:, :v] * 2 - 1) @ signs[:v] > 0) for v in voters(features)]  # type: ignore[misc]
    held = all(low <= 0.5 <= high for _, low, high in told)
    return held, told[-1][0]


def voters(features: int) -> range:
    return range(1, features, 2 * (features // 20))


QUESTIONS = FEATURES + len(voters(FEATURES))


def naive(rows: Bits, train: Bits) -> Ask:
    """The exact means, with the interval of as many questions fixed beforehand."""
    width = fresh_width(rows=len(rows), queries=QUESTIONS, beta=1 - CONFIDENCE)

    def ask(statistic: Callable[[Bits], Bits]) -> tuple[float, float, float]:
        mean = float(statistic(rows).mean())
        return mean, mean - width, mean + width

    return ask


def through(**settings: Any) -> Callable[[Bits, Bits], Ask]:
    def start(rows: Bits, train: Bits) -> Ask:
        holdout = Holdout(rows, train=train, confidence=CONFIDENCE, **settings)

        def ask(statistic: Callable[[Bits], Bits]) -> tuple[float, float, float]:
            answer = holdout.ask(statistic)
            return answer.value, answer.low, answer.high

        return ask

    return start


def covered(
    start: Callable[[Bits, Bits], Ask], rows: int = ROWS, features: int = FEATURES, repetitions: int = REPETITIONS
) -> tuple[int, float]:
    """How many repetitions hold, and the mean of the last answer, whose truth is one half."""
    runs = []
    for seed in range(repetitions):
        sample, train = np.random.default_rng(seed).random((2, rows, features)) < 0.5
        runs.append(overfit(start(sample, train), features))
    return sum(held for held, _ in runs), float(np.mean([last for _, last in runs]))


def refuted(held: int, repetitions: int = REPETITIONS) -> bool:
    return float(scipy.stats.binom.cdf(held, repetitions, CONFIDENCE)) < RARE


METHODS: dict[str, dict[str, Any]] = {
    "guess-and-check": {},
    "guess-and-check with a tolerance": {"tolerance": 0.2},
    "description length": {"queries": QUESTIONS, "tolerance": 0.15, "failures": 12},
    "thresholdout": {"method": "thresholdout", "queries": QUESTIONS, "hits": 10},
    "gaussian": {"method": "gaussian", "queries": QUESTIONS},
    "splitting": {"method": "splitting", "queries": QUESTIONS},
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_every_method_covers(settings: dict[str, Any]) -> None:
    held, _ = covered(through(**settings))
    assert not refuted(held)


def test_naive_reuse_does_not() -> None:
    held, last = covered(naive)
    assert refuted(held)
    assert last > 0.6  # what is one half looks like a good model


def test_a_reused_holdout_is_not_fooled() -> None:
    """A vote of 600 features fits 1,000 training rows or naively reused ones, and is told to be worth nothing."""
    size = {"rows": 1000, "features": 600, "repetitions": 3}
    _, told = covered(through(), **size)
    _, naively = covered(naive, **size)
    assert naively > 0.7
    assert abs(told - 0.5) < 0.06


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("how", ["nan", "outside", "shape", "error"])
def test_refusals_are_no_oracle(how: str) -> None:
    """An analyst makes statistics fail where a row lies in an interval, finds rows by bisection, and asks about them.

    If refusals were free, two in three would be certified for a set that the population hits one time in ten.
    """
    points = np.random.default_rng(11).random(ROWS)
    holdout = Holdout(points, confidence=CONFIDENCE)

    def hits(low: float, high: float) -> bool:
        def fails(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            inside = (rows >= low) & (rows < high)
            if how == "error" and inside.any():
                raise ValueError
            if how == "shape":
                return np.full(len(rows) - int(inside.any()), 0.5)
            return np.where(inside, np.nan if how == "nan" else 2.0, 0.5)

        try:
            holdout.ask(fails, guess=0.5)
        except QueryError:
            return True
        return False

    found, waiting = [], [(0.0, 1.0)]
    for _ in range(1500):
        if not waiting:
            break
        low, high = waiting.pop()
        if not hits(low, high):
            continue
        if high - low < 2.0**-10.5:
            found.append((low, high))
        else:
            waiting += [(low, (low + high) / 2), ((low + high) / 2, high)]
    lows, highs = np.array(sorted(found)).reshape(-1, 2).T
    truth = float((highs - lows).sum())

    def is_found(rows: NDArray[np.float64]) -> Bits:
        at = np.searchsorted(lows, rows, side="right") - 1
        return (at >= 0) & (rows < np.append(highs, 0.0)[at])

    answer = holdout.ask(is_found, guess=truth)
    assert is_found(points).mean() > 0.5 > 4 * truth
    assert answer.low <= truth <= answer.high


def test_signal_is_found() -> None:
    """Features that agree with the label in 7 of 10 rows are told apart from chance, and no others."""
    rng = np.random.default_rng(3)
    shares = np.where(np.arange(40) < 8, 0.7, 0.5)
    rows, train = rng.random((2, 5000, 40)) < shares
    holdout = Holdout(rows, train=train)
    answers = [holdout.ask(lambda rows, j=j: rows[:, j]) for j in range(40)]  # type: ignore[misc]
    assert [answer.low > 0.5 for answer in answers] == [True] * 8 + [False] * 32
    assert all(answer.low <= share <= answer.high for answer, share in zip(answers, shares, strict=True))
