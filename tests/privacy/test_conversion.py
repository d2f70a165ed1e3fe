"""Conversions against dp-accounting, 40-digit arithmetic, the optimal composition theorem and tabulated values."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import gammaln

from maquette.privacy import ACCOUNTANTS, UNITS_PER_ONE
from maquette.privacy.conversion import (
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    log_odds_to_normal,
    normal_to_log_odds,
    zcdp_epsilon,
    zcdp_rho,
)

DELTA = 1e-9


def kov_epsilon(uses: int, epsilon: float, delta: float) -> float:
    """Optimal composition of `uses` epsilon-DP accesses (Kairouz, Oh and Viswanath; Mechanisms §1.3)."""
    other = np.arange(uses + 1)
    log_count = gammaln(uses + 1) - gammaln(other + 1) - gammaln(uses - other + 1)
    log_p = log_count + (uses - other) * epsilon - uses * np.logaddexp(0, epsilon)
    losses = (uses - 2 * other) * epsilon

    def delta_of(total: float) -> float:
        excess = np.maximum(losses - total, 0)
        return float(np.sum(-np.expm1(-excess) * np.exp(log_p)))

    low, high = 0.0, uses * epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(
    ("uses", "epsilon", "kov", "pure", "selection"),
    [
        (10, 0.1, 1.00, 1.88, 0.91),
        (100, 0.1, 5.96, 6.47, 3.06),
        (1000, 0.01, 1.78, 1.88, 0.91),
        (1000, 0.1, 23.3, 24.4, 10.8),
    ],
)
def test_composition_table(uses: int, epsilon: float, kov: float, pure: float, selection: float) -> None:
    assert kov_epsilon(uses, epsilon, DELTA) == pytest.approx(kov, rel=0.005)
    assert zcdp_epsilon(uses * epsilon**2 / 2, DELTA) == pytest.approx(pure, rel=0.005)
    assert zcdp_epsilon(uses * epsilon**2 / 8, DELTA) == pytest.approx(selection, rel=0.005)


def test_rho_of_epsilon_one() -> None:
    assert zcdp_rho(1.0, DELTA) == pytest.approx(0.01497, abs=5e-6)


@pytest.mark.parametrize("uses", [1, 2, 10, 100, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0])
def test_optimal_composition_is_never_beaten(uses: int, epsilon: float) -> None:
    optimal = kov_epsilon(uses, epsilon, DELTA) * (1 - 1e-9)
    assert optimal <= uses * epsilon
    assert optimal <= zcdp_epsilon(uses * epsilon**2 / 2, DELTA)
    assert optimal <= gaussian_epsilon(math.sqrt(uses) * 2 * log_odds_to_normal(epsilon), DELTA)


@pytest.mark.parametrize("rho", [1e-4, 0.0015, 0.01497, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-9, 1e-12])
def test_zcdp_agrees_with_dp_accounting(rho: float, delta: float) -> None:
    import dp_accounting

    best = math.sqrt(-math.log(delta) / rho)
    accountant = dp_accounting.rdp.RdpAccountant(orders=list(1 + best * np.geomspace(0.3, 3, 2000)))
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    assert zcdp_epsilon(rho, delta) == pytest.approx(theirs, rel=1e-5)
    assert zcdp_epsilon(rho, delta) <= theirs * (1 + 1e-12)


@pytest.mark.parametrize("mu", [0.05, 0.182, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-15])
def test_gdp_agrees_with_dp_accounting(mu: float, delta: float) -> None:
    from dp_accounting.pld import privacy_loss_mechanism

    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_log_delta(mu, epsilon) <= math.log(delta)
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu)
    # Their difference of two tails loses about 1e-16 * e**epsilon; delta itself is compared.
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6, abs=1e-17)


def test_gdp_agrees_with_the_privacy_loss_distribution() -> None:
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_accounting.GaussianDpEvent(10.0), 25)
    assert gaussian_epsilon(0.5, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def exact_gaussian_log_delta(mu: float, epsilon: float) -> mpmath.mpf:
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.log(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


@given(st.floats(-6, 1.9), st.floats(-3, 38))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_gaussian_profile_is_an_upper_bound(log10_mu: float, near: float) -> None:
    mu = 10.0**log10_mu
    epsilon = max(0.0, mu * (near + mu / 2))
    with mpmath.workdps(60):
        slack = gaussian_log_delta(mu, epsilon) - exact_gaussian_log_delta(mu, epsilon)
    assert 0 <= slack < 2e-11 + 1e-12 / mu


def exact_zcdp_epsilon(rho: float, delta: float, alpha: mpmath.mpf) -> mpmath.mpf:
    excess = alpha - 1
    return alpha * rho + mpmath.log(excess / alpha) - (mpmath.log(delta) + mpmath.log(alpha)) / excess


@pytest.mark.thorough
@given(st.floats(-12, 3), st.floats(-300, -1))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_zcdp_epsilon_is_an_upper_bound_of_the_true_infimum(log10_rho: float, log10_delta: float) -> None:
    rho, delta = 10.0**log10_rho, 10.0**log10_delta
    ours = zcdp_epsilon(rho, delta)
    with mpmath.workdps(40):
        low, high = mpmath.mpf(-25), mpmath.mpf(30)
        for _ in range(120):  # ternary search of the same quasi-convex function, in 40 digits
            left, right = (2 * low + high) / 3, (low + 2 * high) / 3
            values = [exact_zcdp_epsilon(rho, delta, 1 + mpmath.exp(x)) for x in (left, right)]
            low, high = (low, right) if values[0] < values[1] else (left, high)
        truth = max(mpmath.mpf(0), exact_zcdp_epsilon(rho, delta, 1 + mpmath.exp(low)))
    assert truth <= ours <= truth * (1 + 1e-12) + 1e-12


@given(st.floats(1e-4, 30), st.floats(-15, -2))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_conversions_round_trip(epsilon: float, log10_delta: float) -> None:
    delta = 10.0**log10_delta
    assert zcdp_epsilon(zcdp_rho(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    assert normal_to_log_odds(log_odds_to_normal(epsilon)) == pytest.approx(epsilon, rel=1e-12)


@given(st.sampled_from(sorted(ACCOUNTANTS)), st.floats(1e-4, 30), st.floats(-15, -2))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_share_never_converts_to_more_than_was_asked(currency: str, epsilon: float, log10_delta: float) -> None:
    accountant, delta = ACCOUNTANTS[currency], 10.0**log10_delta
    units = accountant.share(epsilon=epsilon, delta=delta)
    assert accountant.loss(units, delta).epsilon <= epsilon
    assert accountant.loss(units + 2 + units // 10**9, delta).epsilon > epsilon
    assert accountant.share(epsilon=epsilon * 1.001, delta=delta) > units


@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
def test_conversion_is_monotone(currency: str) -> None:
    accountant = ACCOUNTANTS[currency]
    amounts = [round(x) for x in np.geomspace(10**9, 50 * UNITS_PER_ONE, 60)]
    epsilons = [accountant.loss(units, DELTA).epsilon for units in amounts]
    assert epsilons == sorted(epsilons)
    deltas = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3]
    by_delta = [accountant.loss(UNITS_PER_ONE // 10, delta).epsilon for delta in deltas]
    assert by_delta == sorted(by_delta, reverse=True)
    assert accountant.loss(0, DELTA).epsilon == 0.0
    assert accountant.loss(0, 0.0).epsilon == 0.0
    assert accountant.loss(1, 0.0).epsilon == math.inf


def test_gdp_never_reports_more_than_zcdp_for_the_same_gaussian() -> None:
    for rho in (1e-4, 0.01, 0.1, 1.0):
        assert gaussian_epsilon(math.sqrt(2 * rho), DELTA) < zcdp_epsilon(rho, DELTA)
