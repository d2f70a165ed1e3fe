"""Gaussian DP accounting: mu squared adds."""

from __future__ import annotations

import math
from fractions import Fraction

from maquette.errors import BudgetError
from maquette.privacy.accountant import AdditiveAccountant
from maquette.privacy.conversion import gaussian_epsilon, gaussian_mu, log_odds_to_normal, normal_to_log_odds
from maquette.privacy.units import UNITS_PER_ONE, exact, float_up, sqrt_down

_COST_MARGIN = 1 + Fraction(1, 10**12)  # the quantile behind a pure cost is accurate to 2e-14 relative
_SLACK = Fraction(2**40 + 1, 2**40)  # 1e-12 relative: more than the rounding of that quantile
_STRICT = Fraction(2**60 + 1, 2**60)  # keeps a rounded square root on the right side of the exact one
_LEAST_VARIANCE = Fraction(1, 3)


class GdpAccountant(AdditiveAccountant):
    """Gaussian DP: distinguishing neighbours is at least as hard as N(0, 1) from N(mu, 1), at every error level.

    One unit is 1e-15 of mu squared. Write G_mu(a) = Phi(Phi^-1(1 - a) - mu) for the trade-off function, which is
    convex from (0, 1) to (1, 0). A mechanism whose own trade-off function is piecewise linear is therefore mu-GDP as
    soon as G_mu is below each of its corners (Dong, Roth and Su 2022); `pure_cost` and `gaussian_cost` use this.
    """

    currency = "gdp"
    per_rho = 2  # a mu-GDP mechanism is dominated by the Gaussian pair, which is mu**2 / 2 - zCDP
    selection_gain = 2

    def pure_cost(self, epsilon: Fraction) -> Fraction:
        """Mu squared of a pure access: mu = 2 Phi^-1(e**epsilon / (1 + e**epsilon)); no smaller mu is valid.

        The trade-off function of epsilon-DP, max(1 - e**epsilon a, e**-epsilon (1 - a)), has its one corner at
        a = 1 / (1 + e**epsilon) on the diagonal: G_mu(a) <= a there iff mu is at least the value above.

        A selection has its likelihood ratio in [e**(t - epsilon), e**t] for some t, so its corner is (a, b) with odds
        (1 - a)/a and (1 - b)/b whose product is e**epsilon, and mu = g(x) + g(epsilon - x) for a log-odds x and
        g = Phi^-1 of the logistic cdf. g is odd, and concave on x >= 0 (van Zwet 1964: the logistic law has heavier
        tails than the normal), so x = epsilon / 2 is the worst case: a selection costs as much as a pure access at
        epsilon / 2.
        """
        if epsilon == 0:
            return Fraction(0)
        quantile = log_odds_to_normal(max(float_up(epsilon), 1e-300))  # below it the quantile underflows to 0
        return 4 * Fraction(quantile) ** 2 * _COST_MARGIN

    def pure_budget(self, units: int) -> Fraction:
        """Epsilon of the largest pure access that costs at most `units`.

        It leaves some slack, so that rounding of the quantile cannot make a smaller epsilon cost more.
        """
        limit = Fraction(units, UNITS_PER_ONE)
        epsilon = Fraction(normal_to_log_odds(math.sqrt(limit) / 2))
        while self.pure_cost(epsilon * _SLACK) > limit:
            epsilon /= _SLACK
        return epsilon

    def gaussian_cost(self, variance: Fraction, sensitivity_squared: Fraction) -> Fraction:
        """Mu squared of a discrete Gaussian: sensitivity_squared / s2, with s2 = v (1 + sqrt(1 - 1 / (3 v))) / 2.

        The discrete Gaussian of variance v is not exactly mu-GDP for mu = sensitivity / sqrt(v); s2 is about
        v - 1/12, that is v minus the variance of rounding to integers. Theorem: a shift by an integer d is
        (d / s)-GDP when s**4 / (s**2 - 1/12) <= v, and coordinates compose to sum(d_i**2) / s**2.

        Proof. The likelihood ratio is monotone, so corners are at integer thresholds; it is enough that one step of
        the cdf F moves Phi^-1(F) by at most 1 / s (d steps telescope). Fix m, choose y with Pr[s Z >= y] =
        Pr[X >= m], and compare p_j = Pr[X = m + j] with q_j = Pr[y + j <= s Z < y + j + 1]; the claim is p_0 <= q_0.
        The second derivative in y of log q is -1/s**2 + V/s**4, where V is the variance of a log-concave law on an
        interval of length 1, hence at most 1/12. By the condition it is at most -1/v, the second difference of
        log p. So log(p/q) is convex in j and {p < q} is a run of integers. Both laws have equal mass on j >= 0 and on
        j < 0, so each side meets that run or has p = q throughout; either way p_0 <= q_0.
        """
        if variance < _LEAST_VARIANCE:
            raise BudgetError(
                f"A discrete Gaussian of variance {float(variance):g} has no proven cost under gdp accounting, which "
                "needs at least 1/3",
                advice='use more noise, or Budget(..., accounting="zcdp").',
            )
        return sensitivity_squared / (variance * (1 + sqrt_down(1 - 1 / (3 * variance))) / 2)

    def least_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Least variance of a discrete Gaussian that costs at most `units`: s**4 / (s**2 - 1/12), never below 1/3."""
        continuous = max(sensitivity_squared * UNITS_PER_ONE / units, Fraction(1, 6))
        return continuous**2 / (continuous - Fraction(1, 12)) * _STRICT

    def epsilon_of(self, units: int, delta: float) -> float:
        """Exact conversion of mu at delta; infinite at delta 0."""
        if delta == 0:
            return math.inf if units else 0.0
        return gaussian_epsilon(math.sqrt(units / UNITS_PER_ONE), delta)

    def amount_of(self, epsilon: float, delta: float) -> Fraction:
        """Mu squared whose conversion at delta is epsilon."""
        return exact(gaussian_mu(epsilon, delta)) ** 2
