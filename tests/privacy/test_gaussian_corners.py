"""The Gaussian-DP costs against exact trade-off corners, in high precision."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri_exp

from maquette.privacy import ACCOUNTANTS, UNITS_PER_ONE, DiscreteGaussian, Pure, Selection
from maquette.privacy.conversion import gaussian_log_delta, log_odds_to_normal

GDP = ACCOUNTANTS["gdp"]
VARIANCES = ["1/3", "9/25", "49/100", "1", "9/4", "4", "9", "25", "100", "900"]


def mu_of(event: DiscreteGaussian | Pure | Selection) -> mpmath.mpf:
    return mpmath.sqrt(mpmath.mpf(GDP.units(event)) / UNITS_PER_ONE)


def quantile(tail: mpmath.mpf) -> mpmath.mpf:
    """z > 0 with Phi(-z) = tail <= 1/2, by Newton's method on the logarithm."""
    z = mpmath.sqrt(max(0, -2 * mpmath.log(2 * tail)))
    for _ in range(100):
        cdf = mpmath.ncdf(-z)
        step = (mpmath.log(cdf) - mpmath.log(tail)) * cdf / mpmath.npdf(z)
        z += step
        if abs(step) < mpmath.mpf(10) ** -25:
            return z
    raise AssertionError("no convergence")


def normal_scores(variance: mpmath.mpf, reach: int) -> list[mpmath.mpf]:
    """Phi^-1(F(k)) for k = -reach .. reach - 1, F the cdf of the discrete Gaussian."""
    weights = [mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * variance)) for z in range(reach + 60)]
    total = 2 * mpmath.fsum(weights) - weights[0]
    tails, tail = [], mpmath.mpf(0)
    for weight in reversed(weights):
        tail += weight
        tails.append(tail / total)
    scores = [quantile(tails[-1 - k]) for k in range(1, reach + 1)]  # Pr[X >= k] = Phi(-score)
    return [-score for score in reversed(scores)] + scores


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("text", VARIANCES)
def test_discrete_gaussian_cost_covers_every_corner(text: str) -> None:
    """sup over thresholds of Phi^-1(F(k)) - Phi^-1(F(k - d)), out to 40 standard deviations."""
    variance = Fraction(text)
    with mpmath.workdps(40):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        reach = math.ceil(40 * math.sqrt(variance)) + 5
        scores = normal_scores(v, reach)
        for shift in (1, 2, 3, 4, 5):
            tight = max(b - a for a, b in zip(scores, scores[shift:], strict=False))
            claimed = mu_of(DiscreteGaussian(variance, Fraction(shift**2)))
            assert tight < claimed
            if variance >= 1:
                assert claimed < tight * (1 + mpmath.mpf("0.007") / v**2)
            # Continuous noise of the same variance would be claimed to cost less than the truth.
            if shift == 1:
                assert tight > shift / mpmath.sqrt(v) * (1 + 1 / (24 * v))


def test_sheppard_correction_alone_would_underestimate() -> None:
    with mpmath.workdps(40):
        scores = normal_scores(mpmath.mpf(4), 40)
        tight = max(b - a for a, b in pairwise(scores))
        assert tight > 1 / mpmath.sqrt(4 - mpmath.mpf(1) / 12)


@pytest.mark.parametrize("variance", [1, 4, 25])
@pytest.mark.parametrize("shift", [1, 3])
def test_discrete_gaussian_profile_is_below_the_claimed_one(variance: int, shift: int) -> None:
    """dp-accounting's exact delta of the discrete Gaussian never exceeds that of the claimed mu."""
    from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss

    mu = float(mu_of(DiscreteGaussian(Fraction(variance), Fraction(shift**2))))
    exact = DiscreteGaussianPrivacyLoss(math.sqrt(variance), shift)
    for epsilon in np.linspace(0, 12 * mu, 200):
        delta = exact.get_delta_for_epsilon(float(epsilon))
        if delta > 1e-13:
            assert math.log(delta) <= gaussian_log_delta(mu, float(epsilon)) + 1e-9


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 0.99, 1.0, 1.01, 3.0, 20.0, 700.0, 2000.0])
def test_pure_cost_is_the_corner_of_randomized_response(epsilon: float) -> None:
    with mpmath.workdps(40):
        tight = 2 * quantile(1 / (1 + mpmath.exp(mpmath.mpf(epsilon))))
        claimed = mpmath.sqrt(mpmath.mpf(GDP.units(Pure(epsilon))) / UNITS_PER_ONE)
        one_unit = mpmath.mpf(1) / UNITS_PER_ONE
        assert tight**2 <= claimed**2 <= tight**2 * (1 + mpmath.mpf("1.2e-12")) + one_unit


def bounded_range_mu(epsilon: float, t: np.ndarray) -> np.ndarray:
    """mu of the two-point law whose likelihood ratios are e**t and e**(t - epsilon)."""
    norm = math.log(-math.expm1(-epsilon))
    log_p, log_not_p = np.log(-np.expm1(t - epsilon)) - norm, t - epsilon + np.log(-np.expm1(-t)) - norm
    log_q, log_not_q = log_p - t, log_not_p - t + epsilon

    def score(log_yes: np.ndarray, log_no: np.ndarray) -> np.ndarray:
        return np.where(
            log_yes < log_no, ndtri_exp(np.minimum(log_yes, log_no)), -ndtri_exp(np.minimum(log_yes, log_no))
        )

    return np.asarray(score(log_p, log_not_p) - score(log_q, log_not_q))


@pytest.mark.parametrize("epsilon", np.geomspace(1e-3, 20, 25).tolist())
def test_selection_cost_covers_every_bounded_range_law(epsilon: float) -> None:
    t = epsilon * np.concatenate([np.geomspace(1e-9, 0.5, 2000), 1 - np.geomspace(1e-9, 0.5, 2000)])
    mu = bounded_range_mu(epsilon, t)
    claimed = float(mu_of(Selection(epsilon)))
    # 1e-12 absolute: the rounding of this oracle near log(1/2), far above the claim's own.
    assert mu.max() <= claimed + 1e-12
    assert mu.max() >= claimed * (1 - 1e-9) - 1e-12
    assert claimed == pytest.approx(2 * log_odds_to_normal(epsilon / 2), rel=1e-9)


def test_normal_score_of_the_logistic_law_is_concave() -> None:
    """The step of the selection proof taken from van Zwet: z Phi(z) Phi(-z) / phi(z) <= Phi(z) - Phi(-z)."""
    with mpmath.workdps(30):
        for k in range(1, 2000):
            z = mpmath.mpf(k) / 50
            assert z * mpmath.ncdf(z) * mpmath.ncdf(-z) < mpmath.npdf(z) * (1 - 2 * mpmath.ncdf(-z))
