"""Thresholdout: the sparse vector technique on the sample; guesses that agree with the sample cost nothing.

Reference: Dwork et al., The reusable holdout, 2015; here with exact discrete noise, accounted in zCDP and carried to
the population by the transfer theorem of Jung et al. 2020. Mechanisms §6.2 and §10.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from maquette.curator import NoiseSource, SparseVector, concentrated
from maquette.holdout.api import Decision, Guess, Note, uncertified
from maquette.holdout.certified import Certified
from maquette.holdout.fixed_point import FINE, SLACK, fraction, total
from maquette.holdout.statistic import Values
from maquette.theory import transfer
from maquette.theory.holdout import refusal_beta


class Thresholdout:
    """A guess is kept while its distance to the sample is below a noisy threshold; a hit answers with fresh noise.

    Privacy of the sample, relation "replace", sensitivity one row: rho-zCDP for all hits together (NumericSparse of
    `curator`: every hit starts a fresh AboveThreshold and has a Gaussian answer), whatever is asked. The noisy
    threshold is never stored: opening a saved state draws a new one and pays one hit for it. Accuracy: all k
    answers within `half_width` of the population with probability 1 - beta, until the hits are used up
    (`theory.transfer.thresholdout`).
    """

    needs_guess = True

    def __init__(
        self, *, rows: int, beta: float, queries: int, hits: int, tolerance: float | None, noise: NoiseSource
    ) -> None:
        self._rows, self._beta, self._queries = rows, beta, queries
        share = refusal_beta(queries=queries, refusals=0, beta=beta)
        promise = transfer.thresholdout(rows=rows, queries=queries, hits=hits, beta=share, threshold=tolerance)
        self.half_width = promise.alpha + SLACK
        self._promise, self._refusals = promise, 0
        # The same mechanism in units of 1/FINE row; scales are rounded up, so it costs at most the promised rho.
        self.settings = concentrated(rho=promise.rho, hits=hits, sensitivity=FINE, numeric=True)
        self._threshold = round(Fraction(promise.threshold) * rows * FINE)
        self._tolerance, self._noise = tolerance, noise
        self._asked = self._hits = self._tested = 0  # tested: since the threshold was drawn
        self._guard: SparseVector | None = None

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"queries": self._queries, "hits": self.settings.hits, "tolerance": self._tolerance}

    @property
    def exhausted(self) -> bool:
        """Once every hit is used or every query is asked."""
        return self._hits >= self.settings.hits or self._asked >= self._queries

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """See `Method`; a hit draws more noise than a miss, which takes a few microseconds more."""
        assert guess is not None
        if self._guard is None:
            self._guard = SparseVector(self.settings, self._threshold, self._noise)
            self._guard.hits = self._hits
        private = total(values)
        public = round(Fraction(guess.value) * self._rows * FINE)
        outcome = self._guard.test(abs(private - public), answer_of=private)
        used = self._hits + outcome.above
        certified = Certified(
            value=guess.value if outcome.value is None else fraction(outcome.value, self._rows),
            half_width=min(1.0, self.half_width),
            level=1 - self._beta,
            source="holdout" if outcome.above else guess.source,
            failures=used,
            queries=self._asked + 1,
            left=self.settings.hits - used,
            certificate="dp-transfer" if self.half_width < 1.0 else "none",
            status="ok",
        )
        return Decision(certified, {"hit": outcome.above, "tested": True})

    def sealed(self, guess: Guess | None) -> Decision:
        """See `Method`."""
        certified = uncertified(
            guess,
            level=1 - self._beta,
            failures=self._hits,
            queries=self._asked + 1,
            left=0,
            limit=f"{self.settings.hits} hits and {self._queries} queries",
        )
        return Decision(certified, {"hit": False, "tested": False})

    def refused(self) -> Note:
        """The same noise, with a smaller share of beta from here on (`theory.holdout.refusal_beta`)."""
        return {"hit": False, "tested": False, "refused": True}

    def apply(self, note: Mapping[str, Any]) -> None:
        """Count the question, or the threshold lost by a restart."""
        if note.get("refused"):
            self._refusals += 1
            share = refusal_beta(queries=self._queries, refusals=self._refusals, beta=self._beta)
            self.half_width = self._promised(share)
        if "epoch" in note:
            self._hits, self._tested = self._hits + 1, 0
            return
        self._asked += 1
        self._hits += bool(note["hit"])
        self._tested = 0 if note["hit"] else self._tested + bool(note["tested"])

    def _promised(self, share: float) -> float:
        if not share:
            return 1.0
        promise = transfer.thresholdout(
            rows=self._rows,
            queries=self._queries,
            hits=self.settings.hits,
            beta=share,
            threshold=self._promise.threshold,
            rho=self._promise.rho,
        )
        return promise.alpha + SLACK

    def reopened(self) -> Note | None:
        """One hit, if the lost threshold had been compared with anything."""
        return {"epoch": True} if self._tested and self._hits < self.settings.hits else None
