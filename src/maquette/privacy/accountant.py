"""Accountant: the contract that turns events into integer units, and the code that all currencies share.

Every currency is additive and is used as a *filter*: a request is refused if its units would take the sum past the
limit. Requests may be chosen adaptively. That is sound for pure epsilon (Rogers, Roth, Ullman and Vadhan 2016),
for rho (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023) and for mu squared (Smith and Thakurta 2022;
Koskela, Tobaben and Honkela 2023).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Protocol

from maquette.errors import BudgetError
from maquette.privacy.cost import Composed, DiscreteGaussian, DiscreteLaplace, Event, LazyRounds, Pure, Selection
from maquette.privacy.loss import Loss
from maquette.privacy.units import UNITS_PER_ONE, coarse_up, exact, float_down, units_down, units_up


class Accountant(Protocol):
    """Prices events in one currency; stateless."""

    @property
    def currency(self) -> str:
        """The quantity that adds up: "pure" epsilon, "zcdp" rho or "gdp" mu squared."""

    def supports(self, event: Event) -> bool:
        """Whether the event has a cost in this currency."""

    def units(self, event: Event) -> int:
        """Cost of the event, rounded up; BudgetError when it has none in this currency."""

    def loss(self, units: int, delta: float) -> Loss:
        """Return the tight (epsilon, delta) of `units`, rounded up."""

    def share(self, *, epsilon: float | None = None, rho: float | None = None, delta: float) -> int:
        """Units that correspond to epsilon (at the budget's delta) or to rho, rounded down."""

    def gaussian_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Least variance of a discrete Gaussian that costs at most `units`."""

    def laplace_scale(self, units: int, sensitivity: Fraction) -> Fraction:
        """Least scale of a discrete Laplace that costs at most `units`."""

    def selection_epsilon(self, units: int) -> float:
        """Largest epsilon of an exponential mechanism that costs at most `units`."""

    def pure_epsilon(self, units: int) -> float:
        """Largest epsilon of a pure access that costs at most `units`."""


class AdditiveAccountant(ABC):
    """Code that all currencies share; each defines the cost of two mechanisms, its inverses, and the conversion."""

    currency: str
    per_rho: int | None  # amount of this currency that implies rho = 1; None if it does not convert to zCDP
    selection_gain: int  # a selection with range epsilon costs as much as a pure access at epsilon / selection_gain

    @abstractmethod
    def pure_cost(self, epsilon: Fraction) -> Fraction:
        """Cost of a pure access, exact or rounded up."""

    @abstractmethod
    def pure_budget(self, units: int) -> Fraction:
        """Epsilon of the largest pure access that costs at most `units`."""

    @abstractmethod
    def gaussian_cost(self, variance: Fraction, sensitivity_squared: Fraction) -> Fraction:
        """Cost of a discrete Gaussian, exact or rounded up; BudgetError when it has none."""

    @abstractmethod
    def least_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Least variance of a discrete Gaussian that costs at most `units`, before coarse rounding."""

    @abstractmethod
    def epsilon_of(self, units: int, delta: float) -> float:
        """Tight conversion of `units` to epsilon at delta, rounded up."""

    @abstractmethod
    def amount_of(self, epsilon: float, delta: float) -> Fraction:
        """Amount whose conversion at delta is epsilon; a float estimate is enough."""

    def lazy_cost(self, event: LazyRounds) -> Fraction:
        """Refuse: lazy rounds are (epsilon, delta)-DP at one delta, but this currency must convert at every delta."""
        raise BudgetError(
            f"A lazy guard has no cost under {self.currency} accounting: it is (epsilon, delta)-private and neither "
            "pure nor concentrated",
            advice='Open the table with Budget(epsilon=..., delta=..., accounting="basic")',
        )

    def units(self, event: Event) -> int:
        """Cost of the event, rounded up; BudgetError when it has none in this currency."""
        match event:
            case Composed(events):
                return sum(self.units(part) for part in events)
            case DiscreteLaplace(scale, sensitivity):
                return units_up(self.pure_cost(sensitivity / scale))
            case DiscreteGaussian(variance, sensitivity_squared):
                return units_up(self.gaussian_cost(variance, sensitivity_squared))
            case Selection(epsilon):
                return units_up(self.pure_cost(Fraction(epsilon) / self.selection_gain))
            case Pure(epsilon):
                return units_up(self.pure_cost(Fraction(epsilon)))
            case LazyRounds():
                return units_up(self.lazy_cost(event))

    def supports(self, event: Event) -> bool:
        """Whether the event has a cost in this currency."""
        try:
            self.units(event)
        except BudgetError:
            return False
        return True

    def loss(self, units: int, delta: float) -> Loss:
        """Return the tight (epsilon, delta) of `units`, rounded up."""
        rho = None if self.per_rho is None else units / (UNITS_PER_ONE * self.per_rho)
        spent_delta = 0.0 if self.per_rho is None else delta
        epsilon = partial(self.epsilon_of, units, delta)
        return Loss(epsilon=epsilon, delta=spent_delta, rho=rho, units=units, currency=self.currency)

    def share(self, *, epsilon: float | None = None, rho: float | None = None, delta: float) -> int:
        """Units that correspond to epsilon (at the budget's delta) or to rho, rounded down.

        The first estimate may be too large: it is reduced until the safe conversion agrees.
        """
        epsilon, rho = _plain("epsilon", epsilon), _plain("rho", rho)
        self._check(epsilon, rho, delta)
        if rho is not None:
            return units_down(exact(rho) * (self.per_rho or 0))
        assert epsilon is not None
        units = units_down(self.amount_of(epsilon, delta))
        step = max(1, units >> 42)
        while units > 0 and self.epsilon_of(units, delta) > epsilon:
            units, step = units - step, 2 * step
        return max(0, units)

    def pure_epsilon(self, units: int) -> float:
        """Largest epsilon of a pure access that costs at most `units`."""
        return float_down(self.pure_budget(_some(units)))

    def selection_epsilon(self, units: int) -> float:
        """Largest epsilon of an exponential mechanism that costs at most `units`."""
        return float_down(self.selection_gain * self.pure_budget(_some(units)))

    def laplace_scale(self, units: int, sensitivity: Fraction) -> Fraction:
        """Least scale of a discrete Laplace that costs at most `units`."""
        return coarse_up(_positive(sensitivity) / self.pure_budget(_some(units)))

    def gaussian_variance(self, units: int, sensitivity_squared: Fraction) -> Fraction:
        """Least variance of a discrete Gaussian that costs at most `units`."""
        return coarse_up(self.least_variance(_some(units), _positive(sensitivity_squared)))

    def _check(self, epsilon: float | None, rho: float | None, delta: float) -> None:
        if (epsilon is None) == (rho is None):
            raise BudgetError(f"Got epsilon={epsilon} and rho={rho}", expected="exactly one of them.")
        name, amount = ("epsilon", epsilon) if rho is None else ("rho", rho)
        if not (isinstance(amount, Real) and 0 < amount < math.inf):
            raise BudgetError(f"{name} is {amount!r}", expected="a finite number above 0, often between 0.01 and 10.")
        if not (isinstance(delta, Real) and 0 <= delta < 1):
            raise BudgetError(
                f"delta is {delta!r}", expected="0 <= delta < 1: 0 for a pure budget, else well below 1 / rows (1e-9)."
            )
        if rho is not None and self.per_rho is None:
            raise BudgetError(
                f"rho {rho:g} has no meaning in a pure budget, which adds epsilons: give epsilon, or use "
                'accounting="zcdp".'
            )
        if rho is None and self.per_rho is not None and delta == 0:
            raise BudgetError(
                f"epsilon {epsilon:g} at delta 0 cannot be promised under {self.currency} accounting, which needs "
                "delta > 0",
                advice='set delta well below 1 / rows (such as 1e-9), give rho instead, or use accounting="pure".',
            )


def _plain(name: str, amount: float | None) -> float | None:
    """A plain float: an object of a subclass could give the price one value and the noise another."""
    if amount is None:
        return None
    if isinstance(amount, Fraction):
        return Fraction(int(amount.numerator), int(amount.denominator))
    if not isinstance(amount, Real):
        raise BudgetError(f"{name} is {amount!r}", expected="a finite number above 0, often between 0.01 and 10.")
    return int(amount) if isinstance(amount, int) else float(amount)


def _some(units: int) -> int:
    if units <= 0:
        raise BudgetError(f"{units} units of budget buy no access", expected="at least 1: ask for a larger epsilon.")
    return units


def _positive(sensitivity: Fraction) -> Fraction:
    if sensitivity <= 0:
        raise BudgetError(f"The sensitivity is {float(sensitivity):g}", advice="noise is calibrated to one above 0")
    return Fraction(sensitivity)
