"""Baseline: what the sessions without a guard share: a required accuracy for every answer, and a cache of answers.

A fraction of rows is (count + Z) / n, where Z is the noise of the estimate, and n is the number of rows, or an
estimate n + Y of it. Its error is (Z - f Y) / n', where n' is the number divided by and f the fraction itself. The
same holds for t + (count - t n + Z) / n', for every public number t in [0, 1].
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from maquette.answers import NOISE_ONLY, Answer, Source
from maquette.curator import Curator, Measurement
from maquette.errors import QueryError
from maquette.estimates import Estimate
from maquette.privacy import MAX_UNITS, Loss, sum_half_width
from maquette.query import Expression, LinearQuery, Marginal, Program, Statement, question
from maquette.session.baselines.known_rows import KnownRows, known_rows

Noise = Literal["auto", "laplace", "gaussian"]

MARGIN = 1e-9  # bought in excess, so that rounding of a price does not miss the target
ROWS = 0.25  # share of the standard deviation allowed by alpha that goes to the number of rows, where it is private
GLANCE = 10**9  # the first look at the number of rows costs budget / GLANCE, each further look four times more
MOST_GLANCES = 100  # no look costs more than budget / MOST_GLANCES
GLIMPSE = 1e-6  # probability that such a look is off by more than it says; this can only misprice the estimate
FEW = 0.01  # share of beta: probability that this estimate is off by more than a slack, which is a second-order term


class Baseline(ABC):
    """Answers within `alpha` of the fraction of rows, each with failure probability `beta` over the noise.

    The probability holds for each answer, for a question that was not chosen by looking at the noise that answers it.
    Where the number of rows is private and not given as `rows`, it is estimated first, with a quarter of the standard
    deviation allowed by alpha (the price of 16 counts in zCDP, of 4 under a pure budget); its error is part of alpha.
    A repeated question gets the same answer, free.
    """

    def __init__(
        self, curator: Curator, *, alpha: float, beta: float, noise: Noise = "auto", rows: int | None = None
    ) -> None:
        if not (0 < alpha < 1 and 0 < beta < 1):
            raise QueryError(
                f"got alpha={alpha} and beta={beta}", expected="both between 0 and 1, such as 0.01 and 0.001"
            )
        if noise not in ("auto", "laplace", "gaussian"):
            raise QueryError(f"noise is {noise!r}", expected='"laplace", "gaussian" or "auto"')
        self.curator = curator
        self.alpha, self.beta = alpha, beta
        automatic = "laplace" if curator.budget.accountant.currency == "pure" else "gaussian"
        self._law: Literal["laplace", "gaussian"] = automatic if noise == "auto" else noise  # type: ignore[assignment]
        self._deviation(Marginal(curator.schema), curator.budget.limit)  # a noise law without a price is refused here
        self._doubt = beta
        self.rows = self._count(rows)
        self._free = curator.budget.accountant.loss(0, curator.budget.delta)
        self._seen: dict[str, Answer] = {}
        self._in_turn = threading.Lock()
        self._doubt = beta if self.rows.measured is None else beta * (1 - FEW)
        # Given Y, Pr[|Z - f Y| is large] grows with the scale of Z, which follows from the estimate. The slack is
        # subtracted twice, so that scale and bound are conservative for the true number of rows.
        self.least_rows = self.rows.size - 2 * self.rows.slack(FEW * beta)
        if self.least_rows <= 0 or self.width(0.0, 0.0) >= self.bound:
            raise QueryError(
                f"the number of rows, known to {self.rows.deviation:.3g}, is too uncertain for alpha {alpha:g}",
                advice="take a larger alpha or budget, or give the number of rows if it is public (rows=...)",
            )

    def ask(self, asked: str | Expression | LinearQuery) -> Answer:
        """The fraction of rows on which a predicate holds, or the mean of a linear query."""
        query = question(self.curator.schema, asked)
        if isinstance(query, Statement | Program):
            raise QueryError(
                "this session answers predicates and linear queries, not SQL statements", advice="ask the condition"
            )
        if query.schema != self.curator.schema:
            raise QueryError("the question was built for another schema", advice="build it from curator.schema")
        with self._in_turn:  # two threads that ask the same question at once pay once
            known = self._seen.get(query.key)
            if known is not None:
                return known
            fresh = self._fresh(query) if query.columns else self._answer(query.bounds[0], 0.0, "derived", self._free)
            self._seen[query.key] = replace(fresh, source="cache", cost=self._free)
            return fresh

    @abstractmethod
    def _fresh(self, query: LinearQuery) -> Answer:
        """Answer a question that was not asked before."""

    @property
    def bound(self) -> float:
        """The error in rows that a half-width must not exceed."""
        return self.alpha * self.least_rows

    def width(self, deviation: float, largest: float) -> float:
        """Half-width of an answer in rows, given the standard deviation of its noise and of its largest component."""
        total, rows = math.hypot(deviation, self.rows.deviation), self.rows.deviation
        if self._law == "gaussian":
            return Estimate(0.0, total, total, gaussian=True).half_width(1 - self._doubt)
        if deviation <= largest * (1 + MARGIN) and rows < 0.95 * largest:
            # Pr[|Z - f Y| > w] < exp(-w / b) / (1 - r^2) for Laplace laws of scales b and at most r b, r < 1. With w
            # rounded up to a whole number, this also holds for the discrete laws.
            tail = math.log(1 / self._doubt) - math.log1p(-((rows / largest) ** 2))
            return largest / math.sqrt(2) * tail + 1.0
        return sum_half_width(total, max(largest, rows), 1 - self._doubt, gaussian=False)

    def _count(self, rows: int | None) -> KnownRows:
        """The number of rows; where it must be measured, rough looks set the price of the one estimate that is used."""
        if rows is not None or self.curator.relation.rows_are_public:
            return known_rows(self.curator, 0, rows=rows)
        self.rows = KnownRows(0.0)  # no noise besides that of the estimate itself
        units, limit = max(1, self.curator.budget.limit // GLANCE), self.curator.budget.limit
        while True:
            rough = known_rows(self.curator, units, noise=self._law)
            if rough.slack(GLIMPSE) <= rough.size / 2:
                break
            units *= 4
            if units > limit // MOST_GLANCES:
                raise QueryError(
                    f"1/{MOST_GLANCES} of the budget is too little to estimate the number of rows",
                    advice="take a larger budget, or give the number if it is public (rows=...)",
                )
        wanted = ROWS * self.alpha * rough.size
        total = Marginal(self.curator.schema)
        units = _least(lambda units: self.width(deviation := self._deviation(total, units), deviation) <= wanted)
        return known_rows(self.curator, units, noise=self._law)

    def _buy(self, wanted: Marginal, enough: Callable[[float], bool]) -> Measurement:
        """Measure at the lowest price whose standard deviation (of a cell, in counts) is small enough."""
        units = _least(lambda units: enough(self._deviation(wanted, units)))
        return self.curator.measure(wanted, units=units, noise=self._law)

    def _deviation(self, wanted: Marginal, units: int) -> float:
        """Standard deviation per cell that `units` buy: of the continuous law, whose tail bounds are proven."""
        accountant, relation = self.curator.budget.accountant, self.curator.relation
        if self._law == "gaussian":
            return math.sqrt(accountant.gaussian_variance(units, Fraction(relation.l2_squared(wanted)))) / wanted.grid
        return math.sqrt(2) * float(accountant.laplace_scale(units, Fraction(relation.l1(wanted)))) / wanted.grid

    def _answer(self, value: float, width: float, source: Source, cost: Loss) -> Answer:
        """An answer from an unbiased fraction and a half-width in rows; beyond the bound it has no guarantee."""
        error = width / self.least_rows
        low, high = (min(1.0, max(0.0, value + side)) for side in (-error, error))
        return Answer(
            value=min(max(value, low), high),
            low=low,
            high=high,
            unbiased=value,
            confidence=1 - self.beta,
            count=max(0.0, value * self.rows.size),
            source=source,
            cost=cost,
            guarantee=NOISE_ONLY if width <= self.bound * (1 + MARGIN) else None,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(within {self.alpha:g}, {len(self._seen):,} answers, spent {self.curator.spent})"


def _least(enough: Callable[[int], bool]) -> int:
    """The smallest number of units that is enough, to nine digits."""
    high = 1
    while not enough(high):
        if high >= MAX_UNITS // 2:
            raise QueryError("no budget buys this accuracy", advice="take a larger alpha")
        high *= 2
    low = high // 2
    while high - low > max(1, high >> 30):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
