"""Zero-concentrated accounting: rho adds."""

from __future__ import annotations

import math
from fractions import Fraction

from maquette.privacy.accountant import AdditiveAccountant
from maquette.privacy.conversion import zcdp_epsilon, zcdp_rho
from maquette.privacy.units import UNITS_PER_ONE, exact, sqrt_down


class ZcdpAccountant(AdditiveAccountant):
    """Zero-concentrated DP: the Rényi divergence of every order alpha between neighbours is at most alpha rho.

    One unit is 1e-15 of rho; costs and calibrations are exact rationals. A pure access costs epsilon**2 / 2 (Bun and
    Steinke 2016, Proposition 1.4), also for a discrete Laplace, where the smaller continuous formula does not hold;
    a selection with range epsilon costs epsilon**2 / 8 (Cesar and Rogers 2021); a discrete Gaussian costs
    sensitivity_squared / (2 variance). Mechanisms §1.3 and §1.4.
    """

    currency = "zcdp"
    per_rho = 1
    selection_gain = 2

    def pure_cost(self, epsilon: Fraction) -> Fraction:
        """Rho of a pure access."""
        return epsilon**2 / 2

    def pure_budget(self, units: int) -> Fraction:
        """Epsilon of the largest pure access that costs at most `units`."""
        return sqrt_down(Fraction(2 * units, UNITS_PER_ONE))

    def gaussian_cost(self, variance: Fraction, sensitivity_squared: Fraction) -> Fraction:
        """Rho of a discrete Gaussian."""
        return sensitivity_squared / (2 * variance)

    def least_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Least variance of a discrete Gaussian that costs at most `units`."""
        return sensitivity_squared * UNITS_PER_ONE / (2 * units)

    def epsilon_of(self, units: int, delta: float) -> float:
        """Tight conversion of rho at delta; infinite at delta 0."""
        if delta == 0:
            return math.inf if units else 0.0
        return zcdp_epsilon(units / UNITS_PER_ONE, delta)

    def amount_of(self, epsilon: float, delta: float) -> Fraction:
        """Rho whose conversion at delta is epsilon."""
        return exact(zcdp_rho(epsilon, delta))
