"""Guess and check, at any time: intervals widen with the number of failed guesses, hardly with the number of questions.

The holdout says only whether a guess is close; if it is not, it returns a point of a coarse grid. So few transcripts
are possible, and a union bound over all of them, weighted node by node, needs no limit on questions or failures.

Reference: Rogers et al., Guaranteed Validity for Empirical Approaches to Adaptive Data Analysis, 2020; Mechanisms
§10.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maquette.holdout.api import Decision, Guess, Note, uncertified
from maquette.holdout.certified import Certified
from maquette.holdout.statistic import Values
from maquette.theory.holdout import (
    binomial_interval,
    hoeffding_width,
    node_log_failure,
    relative_entropy_interval,
)

_LEAST = 17 / 16  # the tolerance must leave a sixteenth of the sampling half-width for the guess, or for the grid


class GuessAndCheck:
    """All intervals cover together with probability 1 - beta, for any number of adaptive questions.

    At a node of the transcript tree, reached after i questions of which f failed, beta_node of
    `theory.holdout.node_log_failure` bounds the probability that the population's mean p lies outside the interval I(s)
    of the sample's mean s: exact binomial for predicates, relative entropy otherwise. If p lies in I(s),

    * a guess g is returned with half-width tau iff I(s) lies within g ± tau, so p does too;
    * otherwise the midpoint r of s's bin, with a half-width that covers I of every s in that bin, so p too.

    tau and the number of bins depend on what was released before and on g; the half-width also depends on r; none
    depends on s otherwise. Without a tolerance, tau is twice the half-width of I at s = g, and the bins are as wide as
    Hoeffding's half-width. A question without a guess is answered from the grid; its failure is known in advance, so it
    multiplies the number of transcripts by the grid size only.
    """

    needs_guess = False

    def __init__(
        self, *, rows: int, beta: float, tolerance: float | None, widen: bool, queries: int | None = None
    ) -> None:
        self._rows, self._beta, self._tolerance, self._widen, self._queries = rows, beta, tolerance, widen, queries
        self._asked = self._missed = self._failures = 0
        self._log_answers = 0.0

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"tolerance": self._tolerance, "widen": self._widen, "queries": self._queries}

    @property
    def exhausted(self) -> bool:
        """With `queries`, once all are asked; with `widen=False`, once the tolerance can no longer be met."""
        if self._queries is not None and self._asked >= self._queries:
            return True
        return not self._widen and self._tolerance is not None and self._tolerance < _LEAST * self._node.hoeffding

    @property
    def _node(self) -> _Node:
        log_failure = node_log_failure(
            asked=self._asked,
            failures=self._missed,
            log_answers=self._log_answers,
            beta=self._beta,
            queries=self._queries,
        )
        return _Node(self._rows, log_failure)

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """See `Method`; both branches compute the interval of the sample, its bin and the guess's half-width."""
        node = self._node
        low, high = node.interval_of(values)
        bins = self._bins(node.hoeffding)
        rounded, half_width = node.rounded(values, bins)
        centre = 0.5 if guess is None else guess.value
        tau = self._tau(node.width_at(centre, predicate=values.predicate))
        accepted = guess is not None and centre - tau <= low and high <= centre + tau
        if accepted:
            assert guess is not None
            certified = self._certified(guess.value, tau, guess.source, self._failures)
        else:
            certified = self._certified(rounded, half_width, "holdout", self._failures + 1)
        return Decision(certified, {"failed": not accepted, "guessed": guess is not None, "bins": bins})

    def _tau(self, width: float) -> float:
        if self._tolerance is not None and self._tolerance >= _LEAST * width:
            return self._tolerance
        return 2 * width

    def _bins(self, width: float) -> int:
        """The fewest equal bins of [0, 1] whose midpoints meet the tolerance, or which are one half-width wide."""
        size = width
        if self._tolerance is not None and self._tolerance >= _LEAST * width:
            size = 2 * (self._tolerance - width)
        return max(1, math.ceil(1 / size))

    def _certified(self, value: float, half_width: float, source: Any, failures: int) -> Certified:
        wide = self._tolerance is not None and half_width > self._tolerance
        return Certified(
            value=value,
            half_width=min(1.0, half_width),
            level=1 - self._beta,
            source=source,
            failures=failures,
            queries=self._asked + 1,
            left=None if self._queries is None else self._queries - self._asked - 1,
            certificate="transcript",
            status="widened" if wide else "ok",
        )

    def sealed(self, guess: Guess | None) -> Decision:
        """See `Method`."""
        spent = self._queries is not None and self._asked >= self._queries
        limit = f"{self._queries} queries" if spent else f"failed guesses at a tolerance of {self._tolerance}"
        certified = uncertified(
            guess, level=1 - self._beta, failures=self._failures, queries=self._asked + 1, left=0, limit=limit
        )
        return Decision(certified, {"failed": False})

    def refused(self) -> Note:
        """Counts as a failed guess: a refusal is one more possible answer at a node, besides the grid."""
        return {"failed": True, "guessed": True, "bins": self._bins(self._node.hoeffding)}

    def apply(self, note: Mapping[str, Any]) -> None:
        """Count the question; if the holdout answered it, count the possible places and answers."""
        self._asked += 1
        if note["failed"]:
            self._failures += 1
            self._missed += bool(note["guessed"])
            self._log_answers += math.log(note["bins"] + 1)  # or a refusal

    def reopened(self) -> Note | None:
        """No cost: there is no noise."""
        return None


@dataclass(frozen=True)
class _Node:
    """The bounds that hold at one node of the transcript tree."""

    rows: int
    log_failure: float

    @property
    def hoeffding(self) -> float:
        """Upper bound on the half-width of every interval."""
        return hoeffding_width(rows=self.rows, log_failure=self.log_failure)

    def interval_of(self, values: Values) -> tuple[float, float]:
        """I(s): the interval for the population's mean."""
        return self._binomial(values.count) if values.predicate else self._entropic(values.mean)

    def width_at(self, guess: float, *, predicate: bool) -> float:
        """How far I extends from the guess when the sample mean equals the guess."""
        if predicate:
            low, high = (
                self._binomial(math.floor(guess * self.rows))[0],
                self._binomial(math.ceil(guess * self.rows))[1],
            )
        else:
            low, high = self._entropic(guess)
        return max(high - guess, guess - low)

    def rounded(self, values: Values, bins: int) -> tuple[float, float]:
        """The midpoint of the sample's bin, and the half-width that covers I for every sample in the bin."""
        if values.predicate:
            # In whole numbers: all counts c of a bin have the same floor(c * bins / rows); the last bin also c = rows.
            index = min(bins - 1, values.count * bins // self.rows)
            least = -(-index * self.rows // bins)
            most = self.rows if index == bins - 1 else -(-(index + 1) * self.rows // bins) - 1
            low, high = self._binomial(least)[0], self._binomial(most)[1]
        else:
            index = min(bins - 1, math.floor(values.mean * bins))
            low, high = self._entropic(index / bins)[0], self._entropic((index + 1) / bins)[1]
        middle = (index + 0.5) / bins
        return middle, max(high - middle, middle - low)

    def _binomial(self, count: int) -> tuple[float, float]:
        return binomial_interval(successes=count, rows=self.rows, log_failure=self.log_failure)

    def _entropic(self, mean: float) -> tuple[float, float]:
        return relative_entropy_interval(mean=mean, rows=self.rows, log_failure=self.log_failure)
