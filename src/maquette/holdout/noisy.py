"""Noise on every answer: k private answers, which a transfer theorem carries from the sample to the population.

References: Jung et al., A new analysis of differential privacy's generalization guarantees, 2020; Bassily et al.,
Algorithmic stability for adaptive data analysis, 2016; Dwork et al., Generalization in adaptive data analysis and
holdout reuse, 2015 (max-information). Mechanisms §10.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, get_args

from maquette.curator import NoiseSource, round_scale_up
from maquette.errors import QueryError
from maquette.holdout.api import Decision, Guess, Note, uncertified
from maquette.holdout.certified import Certified
from maquette.holdout.fixed_point import FINE, SLACK, fraction, total
from maquette.holdout.statistic import Values
from maquette.theory import transfer
from maquette.theory.holdout import refusal_beta

Theorem = Literal["jung", "bassily", "pure", "max-information"]


class Noisy:
    """Every question is answered by the sample's mean with fresh discrete noise; guesses are not used.

    Privacy of the sample, relation "replace", sensitivity one row: k Gaussian answers are rho-zCDP, k Laplace ones
    ("pure" and "max-information") epsilon-DP. Accuracy: all k answers are within `half_width` of the population with
    probability 1 - beta (`theory.transfer`); "jung" is best from a dozen questions on, "max-information" below.
    """

    needs_guess = False

    def __init__(self, *, rows: int, beta: float, queries: int, theorem: Theorem, noise: NoiseSource) -> None:
        self._rows, self._beta, self._queries, self._theorem, self._noise = rows, beta, queries, theorem, noise
        promise = _promise(theorem, rows, queries, refusal_beta(queries=queries, refusals=0, beta=beta))
        if promise is None:
            raise QueryError(
                "the theorem of Bassily et al",
                advice=f"says nothing about {queries:,} queries on {rows:,} rows; take "
                "transfer='jung', fewer queries or more rows",
            )
        self.half_width = promise.alpha + SLACK
        self._scale, self._refusals = promise.scale, 0
        self.gaussian = theorem in ("jung", "bassily")
        scale = Fraction(promise.scale) * rows * FINE
        self.scale = round_scale_up(scale**2 if self.gaussian else scale)  # the variance, for Gaussian noise
        self._asked = 0

    @property
    def terms(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"queries": self._queries, "transfer": self._theorem}

    @property
    def exhausted(self) -> bool:
        """Once every query is asked."""
        return self._asked >= self._queries

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """See `Method`."""
        draw = self._noise.gaussian if self.gaussian else self._noise.laplace
        noisy = total(values) + int(draw(self.scale, 1)[0])
        certified = Certified(
            value=fraction(noisy, self._rows),
            half_width=min(1.0, self.half_width),
            level=1 - self._beta,
            source="holdout",
            failures=self._asked + 1,
            queries=self._asked + 1,
            left=self._queries - self._asked - 1,
            certificate="dp-transfer" if self.half_width < 1.0 else "none",
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
        """The same noise, with a smaller share of beta from here on (`theory.holdout.refusal_beta`)."""
        return {"answered": False, "refused": True}

    def apply(self, note: Mapping[str, Any]) -> None:
        """Count the question."""
        self._asked += 1
        if note.get("refused"):
            self._refusals += 1
            share = refusal_beta(queries=self._queries, refusals=self._refusals, beta=self._beta)
            promise = _promise(self._theorem, self._rows, self._queries, share, self._scale)
            self.half_width = 1.0 if promise is None else promise.alpha + SLACK

    def reopened(self) -> Note | None:
        """No cost: no noise is kept after its answer."""
        return None


def _promise(
    theorem: Theorem, rows: int, queries: int, beta: float, scale: float | None = None
) -> transfer.Transfer | None:
    """The theorem's bound; None if the theorem does not apply."""
    if beta == 0:
        return None
    # zCDP: the discrete Gaussian has the rho of the continuous one, but not its exact profile.
    if theorem == "jung":
        return transfer.gaussian(rows=rows, queries=queries, beta=beta, accounting="zcdp", scale=scale)
    if theorem == "pure":
        return transfer.laplace(rows=rows, queries=queries, beta=beta, scale=scale)
    if theorem == "max-information":
        return transfer.max_information(rows=rows, queries=queries, beta=beta, scale=scale)
    if theorem == "bassily":
        return transfer.bassily(rows=rows, queries=queries, beta=beta, accounting="zcdp", scale=scale)
    raise QueryError(f"there is no transfer theorem {theorem!r}", expected=f"one of {', '.join(get_args(Theorem))}")
