"""About how long a mechanism runs: what it passes over, times what one pass costs on one core."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from maquette.theory.solve import power

if TYPE_CHECKING:
    from maquette.theory.planning.question import Bound, Question

Time = Callable[["Question", "Bound"], float]

DRAW, CELL, SCORE, ROUND = 1e-6, 5e-9, 1e-7, 1e-3  # seconds: a noisy number, a cell, a query's score, a round


def noise(q: Question, bound: Bound) -> float:
    """One number for each query."""
    return DRAW * q.queries


def histogram(q: Question, bound: Bound) -> float:
    """One number for each cell, and a sum over cells for each query."""
    return power(q.universe, 1.0) * (DRAW + CELL * q.queries)


def loop(q: Question, bound: Bound) -> float:
    """Rounds that score every query and update every cell."""
    return bound.rounds * (ROUND + SCORE * q.queries + CELL * power(q.universe, 1.0))


def online(q: Question, bound: Bound) -> float:
    """A pass over the cells for every query that is asked."""
    return q.queries * (ROUND + CELL * power(q.universe, 1.0))


def listed(q: Question, bound: Bound) -> float:
    """Every candidate of a net answers every query."""
    return CELL * q.queries * (math.exp(bound.log_members) if bound.log_members < 700 else math.inf)


def halved(q: Question, bound: Bound) -> float:
    """A net of 2^T candidates, all of which answer every query in every round."""
    return CELL * q.queries * (2.0**bound.rounds if bound.rounds < 1000 else math.inf)


def columns(q: Question, bound: Bound) -> float:
    """Rounds that score every query on the histograms of single columns."""
    return bound.rounds * (ROUND + q.queries * (SCORE + CELL * sum(q.columns)))


def parities(q: Question, bound: Bound) -> float:
    """One number for each set of at most k columns."""
    return DRAW * sum(math.comb(len(q.columns), size) for size in range(1, q.order[0] + 1))


def projection(q: Question, bound: Bound) -> float:
    """Some hundred eigenvalue decompositions of the moment matrix."""
    d = len(q.columns)
    size = 1 + d + (math.comb(d, 2) if q.order[0] > 2 else 0)
    return 300 * (ROUND + 2e-9 * float(size) ** 3)


def solver(q: Question, bound: Bound) -> float:
    """Rounds of draws, and a solver for each round."""
    return bound.rounds * (2.0 + SCORE * q.queries)


def in_words(seconds: float) -> str:
    """1 ms, 20 s, 3 hours, 4 years; or only how large the number is."""
    if seconds < 1:
        return f"{max(1, round(1000 * seconds))} ms"
    for size, word in ((60.0, "s"), (3600.0, "min"), (86_400.0, "h"), (3.15e7, "days")):
        if seconds < 2 * size:
            unit = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0}[word]
            return f"{seconds / unit:.0f} {word}"
    years = seconds / 3.15e7
    if math.isinf(years):
        return "never"
    return f"{years:,.0f} years" if years < 10**6 else f"10^{math.log10(years):.0f} years"
