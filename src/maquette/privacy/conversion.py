"""Tight conversions of zCDP and Gaussian differential privacy to (epsilon, delta), rounded against the spender."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

_GOLDEN = (math.sqrt(5) - 1) / 2
_KEPT = 2**12  # conversions that are remembered: a session asks for few different prices

# Bounds on floating-point errors, well above the errors measured against 40-digit arithmetic (see the tests).
_SUM_ERROR = 1e-14  # relative, of the three terms of a zCDP conversion
_TAIL_ERROR = 4e-15  # relative, of a scaled Gaussian tail
_LOG_ERROR = 1e-11  # absolute, of the logarithm of a Gaussian delta


@lru_cache(_KEPT)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that every rho-zCDP mechanism is (epsilon, delta)-DP, tight in Rényi terms.

    delta = inf over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)**alpha / (alpha - 1), solved for
    epsilon: each alpha gives a valid epsilon, so an inexact search is safe. log delta is convex in alpha, hence the
    epsilon of alpha is quasi-convex and a golden-section search finds its minimum. Canonne, Kamath and Steinke 2020,
    section 2.3; Mechanisms §1.3.
    """
    if rho == 0:
        return 0.0
    log_inverse_delta = -math.log(delta)

    def epsilon_of(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        growth = (1 + excess) * rho
        shrink = math.log1p(1 / excess)
        tail = (log_inverse_delta - math.log1p(excess)) / excess
        return growth - shrink + tail + _SUM_ERROR * (growth + shrink + abs(tail))

    return max(0.0, _minimum(epsilon_of))


@lru_cache(_KEPT)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the rho whose tight conversion at `delta` is `epsilon`, to float precision: inverse of `zcdp_epsilon`."""
    log_inverse_delta = -math.log(delta)

    def negative_rho_of(log_excess: float) -> float:
        excess = math.exp(log_excess)
        tail = (log_inverse_delta - math.log1p(excess)) / excess
        return -(epsilon + math.log1p(1 / excess) - tail) / (1 + excess)

    return max(0.0, -_minimum(negative_rho_of))


@lru_cache(_KEPT)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-Gaussian DP is (epsilon, delta)-DP, rounded up.

    Exact privacy profile of the Gaussian mechanism (Balle and Wang 2018; Dong, Roth and Su 2022). The upper end of the
    bisection always satisfies the profile; at the start, by the tail bound Phi(-z) <= exp(-z**2 / 2) / 2.
    """
    log_delta = math.log(delta)
    if mu == 0 or gaussian_log_delta(mu, 0.0) <= log_delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * log_delta)
    while low < (middle := (low + high) / 2) < high:
        if gaussian_log_delta(mu, middle) <= log_delta:
            high = middle
        else:
            low = middle
        if high - low <= 1e-15 * high:
            break
    return high


@lru_cache(_KEPT)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose exact conversion at `delta` is `epsilon`, to float precision."""
    log_delta = math.log(delta)
    low, high = 0.0, 1.0
    while gaussian_log_delta(high, epsilon) <= log_delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if gaussian_log_delta(middle, epsilon) <= log_delta:
            low = middle
        else:
            high = middle
    return low


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return an upper bound on log delta(epsilon) = log(Phi(-near) - e**epsilon Phi(-far)), mu > 0.

    near, far = epsilon/mu -+ mu/2. Since e**epsilon phi(far) = phi(near), delta is phi(near) times a difference of
    Mills ratios. So nothing underflows for tiny delta, and the rounding error of each ratio is added on the safe side.
    Very far in the tail, Phi(-near) <= exp(-near**2 / 2) / 2 is enough.
    """
    from scipy.special import erfcx, ndtr

    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_density = -near * near / 2 - math.log(2)
    if near > 1e6:
        return log_density
    outer = float(erfcx(far / math.sqrt(2))) * (1 - _TAIL_ERROR)
    if near > -1:
        inner = float(erfcx(near / math.sqrt(2))) * (1 + _TAIL_ERROR)
        return log_density + math.log(inner - outer) + _LOG_ERROR
    # Here mu > 2 and delta is large: no cancellation, while the scaled tail would overflow.
    return math.log(float(ndtr(-near)) - math.exp(log_density) * outer) + _LOG_ERROR


def log_odds_to_normal(epsilon: float) -> float:
    """Phi^-1(e**epsilon / (1 + e**epsilon)): the normal quantile of the logistic cdf, accurate at both ends."""
    from scipy.special import erfinv, ndtri_exp

    if epsilon <= 1:
        return math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    return -float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


def normal_to_log_odds(quantile: float) -> float:
    """log(Phi(quantile) / Phi(-quantile)): the inverse of `log_odds_to_normal`."""
    from scipy.special import log_ndtr

    if quantile <= 1:
        return 2 * math.atanh(math.erf(quantile / math.sqrt(2)))
    return float(log_ndtr(quantile)) - float(log_ndtr(-quantile))


def _minimum(function: Callable[[float], float], low: float = -45.0, high: float = 45.0) -> float:
    """Least value seen in a golden-section search of a quasi-convex function of log(alpha - 1)."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-9:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(at_left, at_right)
