"""Sparse vector: any number of threshold tests; only the hits are paid for.

Pure logic on integers: the curator handles the ledger and the table. A guard with a given number of hits comes in three
forms, which differ in their noise and in whether a hit refreshes the noisy threshold.

Privacy, for statistics of the given sensitivity under the relation the sensitivity was computed for: one AboveThreshold
with threshold noise Lap(b) and query noise Lap(q) is epsilon-DP, epsilon = sensitivity / b + 2 sensitivity / q, for any
number of adaptive tests up to its hit. The comparison noise is never released: a numeric answer has separate noise.

References: Dwork and Roth, theorems 3.23 and 3.25; Lyu, Su and Li, Understanding the Sparse Vector Technique, alg. 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import Literal, NamedTuple

from maquette.curator.noise import NoiseSource, round_scale_up
from maquette.errors import BudgetError, GuardSealed
from maquette.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Pure


class Outcome(NamedTuple):
    """The released result of one test; `value` only on a hit of a numeric guard."""

    above: bool
    value: int | None


@dataclass(frozen=True, kw_only=True)
class AnswerNoise:
    """Noise of the numeric answers; `scale` is the variance if the noise is Gaussian."""

    law: Literal["laplace", "gaussian"]
    scale: Fraction


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The noise of a guard; its cost is computed from the noise, so the two cannot disagree."""

    hits: int
    sensitivity: int
    threshold_scale: Fraction
    query_scale: Fraction
    refreshed: bool
    answer: AnswerNoise | None

    def scales(self) -> dict[str, Fraction]:
        """Every noise scale by name (for Gaussian answers, the variance)."""
        scales = {"threshold": self.threshold_scale, "query": self.query_scale}
        return scales | ({"answer": self.answer.scale} if self.answer else {})

    @property
    def epsilon(self) -> Fraction | None:
        """Pure cost of the whole guard; None with Gaussian answers, which have no pure cost."""
        if self.answer is None:
            return self._runs * self._run_epsilon
        if self.answer.law == "gaussian":
            return None
        return self._runs * self._run_epsilon + self.hits * self.sensitivity / self.answer.scale

    @property
    def rho(self) -> Fraction:
        """zCDP cost of the whole guard: epsilon^2/2 for each pure part, sensitivity^2/(2 variance) for a Gaussian."""
        tests = self._runs * self._run_epsilon**2 / 2
        if self.answer is None:
            return tests
        squared = self.answer.scale if self.answer.law == "gaussian" else self.answer.scale**2
        return tests + self.hits * self.sensitivity**2 / (2 * squared)

    @property
    def event(self) -> Composed:
        """The whole guard as an event for the accountant: one pure access per run, one noisy value per answer."""
        return Composed(tuple(event for event, times in self.kinds for _ in range(times)))

    @property
    def kinds(self) -> tuple[tuple[Pure | DiscreteLaplace | DiscreteGaussian, int], ...]:
        """The same as kinds of access, each with its number: a guard with many hits has only two kinds."""
        tests = (Pure(nextafter(float(self._run_epsilon), inf)), self._runs)
        return (tests, (self._answer_event(), self.hits)) if self.answer else (tests,)

    def _answer_event(self) -> DiscreteLaplace | DiscreteGaussian:
        assert self.answer is not None
        moved = Fraction(self.sensitivity)
        if self.answer.law == "gaussian":
            return DiscreteGaussian(self.answer.scale, moved**2)
        return DiscreteLaplace(self.answer.scale, moved)

    @property
    def _runs(self) -> int:
        return self.hits if self.refreshed else 1

    @property
    def _run_epsilon(self) -> Fraction:
        # In a run with several hits, neighbours differ once in the threshold noise but in the query noise of every hit.
        hits = 1 if self.refreshed else self.hits
        return self.sensitivity / self.threshold_scale + 2 * hits * self.sensitivity / self.query_scale


def resampled(*, epsilon: float | Fraction, hits: int, sensitivity: int = 1, numeric: bool = False) -> Settings:
    """Pure epsilon-DP, every hit starts a fresh AboveThreshold at an equal share (Dwork and Roth, NumericSparse)."""
    total = _checked("epsilon", epsilon, hits, sensitivity)
    answers = total / 9 if numeric else Fraction(0)
    unit = hits * sensitivity / (total - answers)
    return Settings(
        hits=hits,
        sensitivity=sensitivity,
        threshold_scale=round_scale_up(2 * unit),
        query_scale=round_scale_up(4 * unit),
        refreshed=True,
        answer=AnswerNoise(law="laplace", scale=round_scale_up(hits * sensitivity / answers)) if numeric else None,
    )


def concentrated(*, rho: float | Fraction, hits: int, sensitivity: int = 1, numeric: bool = False) -> Settings:
    """rho-zCDP, every hit starts a fresh AboveThreshold; numeric answers are Gaussian and take a tenth of rho."""
    total = _checked("rho", rho, hits, sensitivity)
    tests = total * 9 / 10 if numeric else total
    unit = sensitivity / _root_down(2 * tests / hits)
    variance = hits * sensitivity**2 / (2 * (total - tests)) if numeric else None
    return Settings(
        hits=hits,
        sensitivity=sensitivity,
        threshold_scale=round_scale_up(2 * unit),
        query_scale=round_scale_up(4 * unit),
        refreshed=True,
        answer=AnswerNoise(law="gaussian", scale=round_scale_up(variance)) if variance else None,
    )


def unresampled(*, epsilon: float | Fraction, hits: int, sensitivity: int = 1, numeric: bool = False) -> Settings:
    """Pure epsilon-DP, one noisy threshold for all hits; threshold : queries is 1 : (2 hits)^(2/3) (Lyu, Su and Li)."""
    total = _checked("epsilon", epsilon, hits, sensitivity)
    answers = total / 9 if numeric else Fraction(0)
    threshold = (total - answers) / (1 + Fraction((2 * hits) ** (2 / 3)))
    queries = total - answers - threshold
    return Settings(
        hits=hits,
        sensitivity=sensitivity,
        threshold_scale=round_scale_up(sensitivity / threshold),
        query_scale=round_scale_up(2 * hits * sensitivity / queries),
        refreshed=False,
        answer=AnswerNoise(law="laplace", scale=round_scale_up(hits * sensitivity / answers)) if numeric else None,
    )


class SparseVector:
    """A running guard: `test` says whether a private integer statistic is above a public threshold, until sealed.

    Noise is drawn in a public order: threshold noise at the start; then query noise for each test; on a hit answer
    noise, if numeric, and fresh threshold noise, if refreshed.
    """

    def __init__(self, settings: Settings, threshold: int, noise: NoiseSource) -> None:
        self.settings = settings
        self.threshold = threshold
        self.hits = 0
        self._noise = noise
        self._noisy_threshold = self._draw_threshold()

    @property
    def sealed(self) -> bool:
        """Whether every hit has been used."""
        return self.hits >= self.settings.hits

    def test(self, private: int, *, answer_of: int | None = None) -> Outcome:
        """Compare `private` with the threshold; a hit of a numeric guard releases `answer_of` (default `private`)."""
        if self.sealed:
            raise GuardSealed(
                f"the guard has used all its {self.settings.hits} hits", advice="open a new guard, or go on without one"
            )
        if private + self._laplace(self.settings.query_scale) < self._noisy_threshold:
            return Outcome(above=False, value=None)
        value = self._answer(private if answer_of is None else answer_of)
        self.hits += 1
        if self.settings.refreshed:
            self._noisy_threshold = self._draw_threshold()
        return Outcome(above=True, value=value)

    def _answer(self, exact: int) -> int | None:
        answer = self.settings.answer
        if answer is None:
            return None
        if answer.law == "gaussian":
            return exact + int(self._noise.gaussian(answer.scale, 1)[0])
        return exact + self._laplace(answer.scale)

    def _draw_threshold(self) -> int:
        return self.threshold + self._laplace(self.settings.threshold_scale)

    def _laplace(self, scale: Fraction) -> int:
        return int(self._noise.laplace(scale, 1)[0])


def _root_down(square: Fraction) -> Fraction:
    """A rational at most the square root, with relative error at most 2^-64."""
    shift = 64 + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    return Fraction(isqrt(square.numerator * 4**shift // square.denominator), 2**shift)


def _checked(name: str, value: float | Fraction, hits: int, sensitivity: int) -> Fraction:
    if not 0 < value < float("inf"):
        raise BudgetError(f"{name} is {value}", expected="a positive finite number")
    if hits < 1 or sensitivity < 1:
        raise BudgetError(f"hits is {hits} and sensitivity {sensitivity}", expected="whole numbers of at least 1")
    return Fraction(value)
