"""Risk: the numbers of the plain statement, against exact attacks on known mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

import maquette as mq
from maquette.errors import BudgetError
from maquette.privacy import ACCOUNTANTS, UNITS_PER_ONE, Loss
from maquette.reports import believed, odds_factor, true_positive_rate
from maquette.reports.risk import chance, in_words, number, percent, told

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
    exact = float(scipy.stats.norm.cdf(scipy.stats.norm.ppf(a) + mu)) if 0 < a < 1 else a
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
    for expected in ("2.72", "1 in a billion", "2.67%", "0.37%", "13.6%", "one row"):
        assert expected in sentences
    assert "nothing is guaranteed" in sentences
    assert "nothing is guaranteed" not in " ".join(in_words(loss(1.0), "one row"))


def test_presence_and_content_are_told_apart() -> None:
    """Leaving and coming back with other words are two steps under add-remove, and one under replace."""
    added = " ".join(in_words(loss(1.0), "one row"))
    replaced = " ".join(in_words(loss(1.0), "one row", "replace"))
    assert "A suspicion of 1% that one row is in the table can become at most 2.67%" in added
    assert f"counts twice: at most {believed(0.01, 2.0):.1%}" in added
    assert "that one row has one value rather than another can become at most 2.67%" in replaced
    assert "counts twice" not in replaced


def test_two_laplace_counts_reach_the_squared_factor() -> None:
    """Counts of rows that say a and rows that say b, with Laplace noise of scale 1 / epsilon on each.

    One row comes or goes: one count moves by one, and the density by e^epsilon at most. It says b instead of a: both
    move, and far out the densities are e^(2 epsilon) apart, so no smaller factor would be true of contents.
    """
    epsilon = 1.0

    def density(a: float, b: float, counts: tuple[int, int]) -> float:
        return math.exp(-epsilon * (abs(a - counts[0]) + abs(b - counts[1])))

    seen = (9.0, -9.0)
    assert density(*seen, (1, 0)) / density(*seen, (0, 0)) == pytest.approx(math.exp(epsilon))
    assert density(*seen, (1, 0)) / density(*seen, (0, 1)) == pytest.approx(math.exp(2 * epsilon))


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (number(2.718), "2.72"),
        (number(2981.0), "2,981"),
        (number(5e21), "5e+21"),
        (percent(1e-7), "less than 0.01%"),
        (percent(0.99999), "more than 99.99%"),
        (percent(1.0), "100.0%"),
        (chance(1e-6), "1 in a million"),
        (chance(1e-13), "1e-13"),
    ],
)
def test_numbers_are_made_to_be_read(shown: str, text: str) -> None:
    assert shown == text


def test_a_loss_without_a_finite_epsilon_is_told_at_a_delta() -> None:
    spent = ACCOUNTANTS["zcdp"].loss(UNITS_PER_ONE // 50, 0.0)
    epsilon, delta = told(spent)
    assert math.isinf(spent.epsilon)
    assert epsilon == pytest.approx(ACCOUNTANTS["zcdp"].loss(UNITS_PER_ONE // 50, 1e-9).epsilon)
    assert delta == 1e-9


@pytest.mark.parametrize("epsilon", [300.0, 400.0, 800.0, 1e18, math.inf])
def test_a_loss_beyond_floats_can_be_told(epsilon: float) -> None:
    assert odds_factor(epsilon) > 1e100
    assert believed(0.01, epsilon) == pytest.approx(1.0)
    assert believed(0.01, -epsilon) < 1e-100
    lost = Loss(epsilon=epsilon, delta=0.0, rho=None, units=0, currency="pure")
    assert any("100.0%" in sentence for sentence in in_words(lost, "one row"))
