"""Guess and check by description length: k questions and m failures are fixed in advance; all intervals are equal.

Reference: Stemmer, lecture 4, with the mechanism it quotes spelt out and its constants corrected; Mechanisms §9.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maquette.holdout.api import Decision, Guess, Note, uncertified
from maquette.holdout.certified import Certified
from maquette.holdout.statistic import Values
from maquette.theory.holdout import guess_and_check_width


class DescriptionLength:
    """A guess within eta of the sample is returned; at most m others become midpoints of ceil(2 / eta) bins.

    With probability 1 - beta all answers are within eta + sqrt((ln Nt + ln(2k / beta)) / (2n)) of the population,
    where Nt counts the transcripts of k questions with at most m failures (`theory.holdout.guess_and_check_width`).
    A question without a guess counts as a failure. Exhausted after k questions, or at failure m + 1: from then on
    nothing is certified, so this last failure adds no transcript.
    """

    needs_guess = False

    def __init__(self, *, rows: int, beta: float, queries: int, tolerance: float, failures: int) -> None:
        self._rows, self._beta, self._queries, self._limit = rows, beta, queries, min(failures, queries)
        self._tolerance = tolerance
        self._bins = math.ceil(2 / tolerance)
        # Where a guess fails, the holdout can answer with a bin or with a refusal.
        self._half_width = guess_and_check_width(
            rows=rows, queries=queries, failures=self._limit, tolerance=tolerance, beta=beta, grid=self._bins + 1
        )
        self._asked = self._failures = 0
        self._halted = False

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"queries": self._queries, "tolerance": self._tolerance, "failures": self._limit}

    @property
    def exhausted(self) -> bool:
        """See the class."""
        return self._halted or self._asked >= self._queries

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """See `Method`."""
        mean = values.mean
        index = min(self._bins - 1, math.floor(mean * self._bins))
        failed = guess is None or abs(mean - guess.value) > self._tolerance
        halted = failed and self._failures >= self._limit
        if halted:
            return Decision(self._sealed(guess), {"failed": False, "halted": True})
        used = self._failures + failed
        certified = Certified(
            value=guess.value if guess is not None and not failed else (index + 0.5) / self._bins,
            half_width=min(1.0, self._half_width),
            level=1 - self._beta,
            source=guess.source if guess is not None and not failed else "holdout",
            failures=used,
            queries=self._asked + 1,
            left=self._limit - used,
            certificate="transcript" if self._half_width < 1.0 else "none",
            status="ok",
        )
        return Decision(certified, {"failed": failed, "halted": False})

    def _sealed(self, guess: Guess | None) -> Certified:
        return uncertified(
            guess,
            level=1 - self._beta,
            failures=self._failures,
            queries=self._asked + 1,
            left=0,
            limit=f"{self._queries} queries and {self._limit} failed guesses",
        )

    def sealed(self, guess: Guess | None) -> Decision:
        """See `Method`."""
        return Decision(self._sealed(guess), {"failed": False, "halted": self._halted})

    def refused(self) -> Note:
        """Counts as a failed guess; if m others failed before, the holdout is exhausted."""
        halted = self._failures >= self._limit
        return {"failed": not halted, "halted": halted}

    def apply(self, note: Mapping[str, Any]) -> None:
        """Count the question and whether its guess failed."""
        self._asked += 1
        self._failures += bool(note["failed"])
        self._halted = self._halted or bool(note["halted"])

    def reopened(self) -> Note | None:
        """No cost: there is no noise."""
        return None
