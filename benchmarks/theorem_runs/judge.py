"""How often a promise failed, against the probability beta that it allows: exact binomial tests at one in a million."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import scipy

DOUBT = 1e-6  # probability that a promise that is kept is called broken
SURE = 0.999  # probability with which the frequency that is stated as power would be noticed


class Judged(NamedTuple):
    """Failures in runs: the interval of Clopper and Pearson for their probability, and whether beta is refuted."""

    low: float
    high: float
    refuted: bool


def judged(failures: int, runs: int, beta: float) -> Judged:
    """The interval, each side at `DOUBT`; beta is refuted if it is below the interval."""
    low = 0.0 if failures == 0 else float(scipy.stats.beta.ppf(DOUBT, failures, runs - failures + 1))
    high = 1.0 if failures == runs else float(scipy.stats.beta.isf(DOUBT, failures + 1, runs - failures))
    return Judged(low, high, low > beta)


@cache
def most(runs: int, beta: float) -> int:
    """The most failures that do not refute beta."""
    return int(scipy.stats.binom.isf(DOUBT, runs, beta))


@cache
def power(runs: int, beta: float) -> float:
    """The least probability of failure that would be refuted with probability `SURE`, to three digits."""
    low, high, allowed = beta, 1.0, most(runs, beta)
    while high - low > 5e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if scipy.stats.binom.sf(allowed, runs, middle) >= SURE else (middle, high)
    return round(high, 3)
