"""Risk: the numbers of the plain statement, against exact attacks on known mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import maquette as mq
from maquette.errors import BudgetError
from maquette.privacy import ACCOUNTANTS, UNITS_PER_ONE, Loss
from maquette.report import believed, odds_factor, true_positive_rate
from maquette.report.risk import in_words, told

RATES = [0.0, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.9, 1.0]


def loss(epsilon: float, delta: float = 0.0) -> Loss:
    return Loss(epsilon=epsilon, delta=delta, rho=None, units=0, currency="pure")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_is_the_best_attack_on_pure_privacy(epsilon: float) -> None:
    """Its two outputs reach the bound at its own false alarm rate, so no smaller number would be true."""
    alarm = 1 / (1 + math.exp(epsilon))
    assert true_positive_rate(loss(epsilon), alarm) == pytest.approx(1 - alarm, abs=1e-12)


def test_laplace_noise_reaches_the_bound_at_every_small_rate() -> None:
    """A threshold test on Laplace noise of scale 1/epsilon: its rate is e^epsilon times that of false alarms."""
    for a in (0.001, 0.05, 0.1):
        assert true_positive_rate(loss(1.0), a) == pytest.approx(math.e * a, rel=1e-12)


@pytest.mark.parametrize("rho", [0.001, 0.02, 0.5])
@pytest.mark.parametrize("a", RATES)
def test_gaussian_noise_never_beats_what_is_told_of_its_rho(rho: float, a: float) -> None:
    mu = math.sqrt(2 * rho)
    exact = float(norm.cdf(norm.ppf(a) + mu)) if 0 < a < 1 else a
    told_zcdp = true_positive_rate(ACCOUNTANTS["zcdp"].loss(int(rho * UNITS_PER_ONE), 1e-9), a)
    told_gdp = true_positive_rate(ACCOUNTANTS["gdp"].loss(int(2 * rho * UNITS_PER_ONE), 1e-9), a)
    assert told_zcdp >= exact - 1e-9
    assert told_gdp == pytest.approx(exact, abs=1e-6)
    assert told_zcdp <= exact + 0.15  # a conversion loses something, not everything


def test_rates_are_rates() -> None:
    for one in (loss(0.0), loss(1.0, 1e-6), loss(800.0), mq.Budget(rho=0.1).accountant.loss(10**14, 0.0)):
        values = [true_positive_rate(one, a) for a in np.linspace(0, 1, 41)]
        assert all(a <= v <= 1 for a, v in zip(np.linspace(0, 1, 41), values, strict=True))
        assert values == sorted(values)
    with pytest.raises(BudgetError, match="from 0 to 1"):
        true_positive_rate(loss(1.0), 1.5)


def test_odds_and_beliefs() -> None:
    assert odds_factor(1.0) == pytest.approx(2.718281828)
    for prior in (0.01, 0.5, 0.99):
        after = believed(prior, 1.0)
        assert after / (1 - after) == pytest.approx(math.e * prior / (1 - prior))
    with pytest.raises(BudgetError, match="strictly between"):
        believed(1.0, 1.0)


def test_words_hold_the_numbers() -> None:
    sentences = " ".join(in_words(loss(1.0, 1e-9), "one row"))
    for number in ("2.72", "1e-09", "2.67%", "13.6%", "one row"):
        assert number in sentences
    assert "nothing is promised" not in " ".join(in_words(loss(1.0), "one row"))


def test_a_loss_without_a_finite_epsilon_is_told_at_a_delta() -> None:
    spent = ACCOUNTANTS["zcdp"].loss(UNITS_PER_ONE // 50, 0.0)
    epsilon, delta = told(spent)
    assert math.isinf(spent.epsilon)
    assert epsilon == pytest.approx(ACCOUNTANTS["zcdp"].loss(UNITS_PER_ONE // 50, 1e-9).epsilon)
    assert delta == 1e-9
