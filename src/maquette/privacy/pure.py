"""Pure accounting: epsilons add."""

from __future__ import annotations

from fractions import Fraction

from maquette.errors import BudgetError
from maquette.privacy.accountant import AdditiveAccountant
from maquette.privacy.units import UNITS_PER_ONE, exact


class PureAccountant(AdditiveAccountant):
    """Basic composition: accesses that are epsilon_i-DP are together (sum of epsilon_i)-DP, with delta 0.

    One unit is 1e-15 of epsilon; all arithmetic is exact. Mechanisms §1.3, row "basic".
    """

    currency = "pure"
    per_rho = None
    selection_gain = 1

    def pure_cost(self, epsilon: Fraction) -> Fraction:
        """Cost of a pure access: its epsilon."""
        return epsilon

    def pure_budget(self, units: int) -> Fraction:
        """Epsilon of the largest pure access that costs at most `units`."""
        return Fraction(units, UNITS_PER_ONE)

    def gaussian_cost(self, variance: Fraction, sensitivity_squared: Fraction) -> Fraction:
        """Refuse: the likelihood ratio of Gaussian noise is unbounded."""
        raise self._no_gaussian()

    def least_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Refuse, as `gaussian_cost` does."""
        raise self._no_gaussian()

    def epsilon_of(self, units: int, delta: float) -> float:
        """Epsilon itself, at every delta."""
        return units / UNITS_PER_ONE

    def amount_of(self, epsilon: float, delta: float) -> Fraction:
        """Epsilon itself."""
        return exact(epsilon)

    @staticmethod
    def _no_gaussian() -> BudgetError:
        return BudgetError(
            "Gaussian noise has no cost in a pure budget: it needs delta > 0",
            advice="Use discrete Laplace noise, or open the table with Budget(epsilon=..., delta=1e-9)",
        )
