"""Sample splitting, the baseline: every question has its own rows, which are never used again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maquette.errors import QueryError
from maquette.holdout.api import Decision, Guess, Note, uncertified
from maquette.holdout.certified import Certified
from maquette.holdout.statistic import Values
from maquette.theory.holdout import binomial_interval, refusal_log_beta, relative_entropy_interval


class Splitting:
    """floor(n / k) fresh rows for each of k questions, chosen by public random choices; guesses are not used.

    Accuracy: the mean over fresh rows, exact, with the interval of k questions fixed in advance (exact binomial for
    predicates, relative entropy otherwise), for all k together with probability 1 - beta. The exact mean may be
    released because these rows are never used again; the same name returns the same answer.
    """

    needs_guess = False

    def __init__(self, *, rows: int, beta: float, queries: int, seed: int) -> None:
        if queries > rows:
            raise QueryError(
                f"{rows:,} rows cannot be split among {queries:,} queries",
                expected="at most one query per row",
                advice="Take method='guess-and-check' or fewer queries",
            )
        self._beta, self._queries = beta, queries
        self._share = rows // queries
        self._order = np.random.default_rng(seed).permutation(rows)
        self._asked = self._refusals = 0

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"queries": self._queries}

    @property
    def exhausted(self) -> bool:
        """Once every query is asked."""
        return self._asked >= self._queries

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """See `Method`."""
        own = self._order[self._asked * self._share : (self._asked + 1) * self._share]
        fresh = Values(values.numbers[own], values.predicate)
        share = refusal_log_beta(queries=self._queries, refusals=self._refusals, beta=self._beta)
        log_failure = share - math.log(self._queries)
        if fresh.predicate:
            low, high = binomial_interval(successes=fresh.count, rows=self._share, log_failure=log_failure)
        else:
            low, high = relative_entropy_interval(mean=fresh.mean, rows=self._share, log_failure=log_failure)
        certified = Certified(
            value=fresh.mean,
            half_width=max(high - fresh.mean, fresh.mean - low),
            level=1 - self._beta,
            source="holdout",
            failures=self._asked + 1,
            queries=self._asked + 1,
            left=self._queries - self._asked - 1,
            certificate="fresh",
            status="ok",
        )
        return Decision(certified, {"answered": True})

    def sealed(self, guess: Guess | None) -> Decision:
        """See `Method`."""
        certified = uncertified(
            guess,
            level=1 - self._beta,
            failures=self._queries,
            queries=self._asked + 1,
            left=0,
            limit=f"{self._queries} queries",
        )
        return Decision(certified, {"answered": False})

    def refused(self) -> Note:
        """The statistic saw all rows, also those of later questions: a smaller share of beta is left for them."""
        return {"answered": False, "refused": True}

    def apply(self, note: Mapping[str, Any]) -> None:
        """Count the question: its rows are used."""
        self._asked += 1
        self._refusals += bool(note.get("refused"))

    def reopened(self) -> Note | None:
        """No cost: the order of the rows is kept with the state."""
        return None
