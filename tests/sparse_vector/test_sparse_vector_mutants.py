"""Broken sparse vectors, each killed by the named audit that the production one passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import sparse_vector_checks as checks
from sparse_vector_checks import Subject, settings_of

from maquette.curator.sparse_vector import AnswerNoise, Outcome, Settings, SparseVector


def scaled(**factors: float) -> Callable[..., Settings]:
    def settings(form: str, total: float, **terms: object) -> Settings:
        sound = settings_of(form, total, **terms)
        return replace(sound, **{name: getattr(sound, name) * factor for name, factor in factors.items()})

    return settings


def with_terms(**changed: object) -> Callable[..., Settings]:
    """Scales computed for other terms than the ones in force."""

    def settings(form: str, total: float, **terms: object) -> Settings:
        wrong, sound = settings_of(form, total, **(terms | changed)), settings_of(form, total, **terms)
        return replace(wrong, hits=sound.hits, sensitivity=sound.sensitivity)

    return settings


def answers_divided(by: int, form: str, total: float, **terms: object) -> Settings:
    """Numeric answers with too little noise."""
    sound = settings_of(form, total, **terms)
    assert sound.answer is not None
    return replace(sound, answer=AnswerNoise(law=sound.answer.law, scale=sound.answer.scale / by))


class StopsOneHitLate(SparseVector):
    @property
    def sealed(self) -> bool:
        return self.hits > self.settings.hits


class NeverStops(SparseVector):
    @property
    def sealed(self) -> bool:
        return False


class SharedQueryNoise(SparseVector):
    shared: int | None = None

    def _laplace(self, scale: Any) -> Any:
        if scale != self.settings.query_scale:
            return super()._laplace(scale)
        if self.shared is None:
            self.shared = super()._laplace(scale)
        return self.shared


class ThresholdNotRefreshed(SparseVector):
    def _draw_threshold(self) -> Any:
        return self._noisy_threshold if self.hits else super()._draw_threshold()


class ThresholdAlwaysRefreshed(SparseVector):
    def test(self, private: Any, *, answer_of: Any = None) -> Outcome:
        outcome = super().test(private, answer_of=answer_of)
        if not outcome.above:
            self._noisy_threshold = self._draw_threshold()
        return outcome


class AnswerReusesComparisonNoise(SparseVector):
    last = 0

    def _laplace(self, scale: Any) -> Any:
        drawn = super()._laplace(scale)
        self.last = drawn if scale == self.settings.query_scale else self.last
        return drawn

    def _answer(self, exact: Any) -> Any:
        return None if self.settings.answer is None else exact + self.last


class SameAnswerNoiseTwice(SparseVector):
    first: int | None = None

    def _answer(self, exact: Any) -> Any:
        if self.settings.answer is None:
            return None
        if self.first is None:
            self.first = super()._answer(0)
        return exact + self.first


class AnswersOnMisses(SparseVector):
    def test(self, private: Any, *, answer_of: Any = None) -> Outcome:
        outcome = super().test(private, answer_of=answer_of)
        return outcome if outcome.above else Outcome(above=False, value=self._answer(answer_of))


class ExactAnswers(SparseVector):
    def _answer(self, exact: Any) -> Any:
        return None if self.settings.answer is None else exact


class StrictComparison(SparseVector):
    def test(self, private: Any, *, answer_of: Any = None) -> Outcome:
        return super().test(private - 1, answer_of=answer_of)


class NoThresholdNoise(SparseVector):
    def _draw_threshold(self) -> Any:
        return self.threshold


class NoQueryNoise(SparseVector):
    def _laplace(self, scale: Any) -> Any:
        return 0 if scale == self.settings.query_scale else super()._laplace(scale)


L1 = checks.matches_the_reference_on_every_noise
ONE_HIT = partial(checks.keeps_its_epsilon, form="resampled", hits=1, length=6)
THREE_HITS = partial(checks.keeps_its_epsilon, form="resampled", hits=3)
ONE_THRESHOLD = partial(checks.keeps_its_epsilon, form="unresampled", hits=3)
WIDE = partial(checks.keeps_its_epsilon, form="resampled", hits=1, sensitivity=2, length=4, values=(-16, 0, 18))
NUMERIC = partial(checks.keeps_its_epsilon, form="resampled", hits=1, numeric=True)
RHO = checks.keeps_its_rho
AUDITS: dict[str, Any] = {
    "L1": L1,
    "ONE_HIT": ONE_HIT,
    "THREE_HITS": THREE_HITS,
    "ONE_THRESHOLD": ONE_THRESHOLD,
    "WIDE": WIDE,
    "NUMERIC": NUMERIC,
    "RHO": RHO,
}

MUTANTS = {
    "half query noise": ("ONE_HIT", Subject(settings=scaled(query_scale=0.5))),
    "half threshold noise": ("ONE_HIT", Subject(settings=scaled(threshold_scale=0.5))),
    "noise not scaled by hits": ("THREE_HITS", Subject(settings=with_terms(hits=1))),
    "query noise of one hit under one threshold": ("ONE_THRESHOLD", Subject(settings=with_terms(hits=1))),
    "sensitivity ignored": ("WIDE", Subject(settings=with_terms(sensitivity=1))),
    "half answer noise": ("NUMERIC", Subject(settings=partial(answers_divided, 2))),
    "half query noise under zCDP": ("RHO", Subject(settings=scaled(query_scale=0.5))),
    "noise not scaled by hits under zCDP": ("RHO", Subject(settings=with_terms(hits=1))),
    "a quarter of the answer variance": ("RHO", Subject(settings=partial(answers_divided, 4))),
    "half threshold noise, by its scale": ("L1", Subject(settings=scaled(threshold_scale=0.5))),
    "no threshold noise": ("L1", Subject(machine=NoThresholdNoise)),
    "no query noise": ("L1", Subject(machine=NoQueryNoise)),
    "one hit too many": ("L1", Subject(machine=StopsOneHitLate)),
    "never stops": ("L1", Subject(machine=NeverStops)),
    "shared query noise": ("L1", Subject(machine=SharedQueryNoise)),
    "threshold not refreshed": ("L1", Subject(machine=ThresholdNotRefreshed)),
    "threshold refreshed on misses": ("L1", Subject(machine=ThresholdAlwaysRefreshed)),
    "answer reuses the comparison noise": ("L1", Subject(machine=AnswerReusesComparisonNoise)),
    "the same answer noise twice": ("L1", Subject(machine=SameAnswerNoiseTwice)),
    "answers on misses": ("L1", Subject(machine=AnswersOnMisses)),
    "exact answers": ("L1", Subject(machine=ExactAnswers)),
    "strict comparison": ("L1", Subject(machine=StrictComparison)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: Any) -> None:
    audit, mutant = MUTANTS[name]
    with pytest.raises(AssertionError):
        AUDITS[audit](mutant)


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize("audit", AUDITS)
def test_the_audits_that_kill_pass_the_production_guard(audit: Any) -> None:
    AUDITS[audit](Subject())
