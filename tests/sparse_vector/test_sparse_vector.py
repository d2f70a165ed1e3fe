"""Settings, costs and the visible behaviour of a guard."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sparse_vector_checks import FORMS, settings_of

from maquette.audit.reference import ScriptedNoise
from maquette.curator.noise import ExactNoise
from maquette.curator.sparse_vector import Outcome, SparseVector, concentrated, resampled, unresampled
from maquette.errors import BudgetError, GuardSealed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numeric", [False, True])
@pytest.mark.parametrize(("total", "hits", "sensitivity"), [(0.1, 1, 1), (1.0, 7, 1), (3.3, 1000, 2**20)])
def test_cost_computed_from_the_noise_is_the_total_asked_for_and_never_more(
    form: Any, numeric: Any, total: Any, hits: Any, sensitivity: Any
) -> None:
    settings = settings_of(form, total, hits=hits, sensitivity=sensitivity, numeric=numeric)
    cost = settings.rho if form == "zcdp" else settings.epsilon
    assert cost is not None
    assert Fraction(total) * (1 - Fraction(1, 10**5)) <= cost <= Fraction(total)


def test_epsilon_is_the_sum_over_hits_of_test_and_answer() -> None:
    settings = resampled(epsilon=Fraction(9, 8), hits=4, sensitivity=2, numeric=True)
    assert settings.scales() == {"threshold": 16, "query": 32, "answer": 64}
    assert settings.epsilon == Fraction(9, 8)
    assert settings.rho == 4 * (Fraction(1, 4) ** 2 + Fraction(1, 32) ** 2) / 2


def test_gaussian_answers_have_no_pure_cost() -> None:
    assert concentrated(rho=1, hits=2, numeric=True).epsilon is None
    assert concentrated(rho=1, hits=2).epsilon == pytest.approx(2, rel=1e-5)


def test_noise_does_not_depend_on_the_number_of_tests() -> None:
    """k is nowhere in the settings: a guard answers any number of easy tests at one price."""
    guard = SparseVector(unresampled(epsilon=1, hits=1), 100, ScriptedNoise([0] * 501))
    assert not any(guard.test(0).above for _ in range(500))
    assert not guard.sealed


def test_a_guard_seals_after_its_hits() -> None:
    guard = SparseVector(resampled(epsilon=1, hits=2), 0, ScriptedNoise([0] * 9))
    assert guard.test(5) == Outcome(above=True, value=None)
    assert (guard.hits, guard.sealed) == (1, False)
    guard.test(-5)
    guard.test(5)
    assert (guard.hits, guard.sealed) == (2, True)
    with pytest.raises(GuardSealed, match="all its 2 hits"):
        guard.test(5)


def test_a_tie_is_a_hit_and_the_answer_defaults_to_the_statistic() -> None:
    guard = SparseVector(resampled(epsilon=1, hits=1, numeric=True), 7, ScriptedNoise([1, 1, 3, 0]))
    assert guard.test(7) == Outcome(above=True, value=10)


def test_integers_beyond_int64_do_not_wrap() -> None:
    guard = SparseVector(resampled(epsilon=1, hits=1, numeric=True), 2**70, ScriptedNoise([0, 5, 1, 0]))
    assert guard.test(2**70, answer_of=-(2**80)).value == 1 - 2**80


def test_the_secret_threshold_is_not_in_the_repr() -> None:
    guard = SparseVector(resampled(epsilon=1, hits=1), 1000, ScriptedNoise([123456]))
    assert "124456" not in f"{guard!r} {guard.settings!r}"


@pytest.mark.parametrize("form", FORMS)
def test_production_noise_finds_what_is_far_above_and_not_what_is_far_below(form: Any) -> None:
    guard = SparseVector(settings_of(form, 1.0, hits=3, sensitivity=1, numeric=True), 0, ExactNoise())
    for _ in range(3):
        assert not guard.test(-(10**6)).above
        outcome = guard.test(10**6, answer_of=10**9)
        assert outcome.above
        assert outcome.value is not None
        assert abs(outcome.value - 10**9) < 10**4
    assert guard.sealed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("total", [0, -1, float("inf"), float("nan")])
def test_a_total_that_makes_no_sense_is_refused(form: Any, total: Any) -> None:
    with pytest.raises(BudgetError, match="expected a positive finite number"):
        settings_of(form, total, hits=1)


@pytest.mark.parametrize("terms", [{"hits": 0}, {"hits": 1, "sensitivity": 0}])
def test_hits_and_sensitivity_start_at_one(terms: Any) -> None:
    with pytest.raises(BudgetError, match="at least 1"):
        resampled(epsilon=1, **terms)
