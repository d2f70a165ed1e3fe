"""The cost of events, checked against independent formulas: each currency, its inverse, sums and conversion."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from scipy.special import ndtr, ndtri

from maquette.errors import BudgetError
from maquette.privacy import (
    UNITS_PER_ONE,
    Budget,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    LazyRounds,
    Pure,
    Selection,
)

EPSILONS = (Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(5, 2))
BUDGETS = {
    "pure": Budget(epsilon=50.0),
    "zcdp": Budget(rho=50.0, delta=1e-6),
    "gdp": Budget(epsilon=50.0, delta=1e-6, accounting="gdp"),
    "basic": Budget(epsilon=50.0, delta=1e-6, accounting="basic"),
}


def _of_pure(name: str, epsilon: float, ranged: bool) -> float:
    """The amount that a pure access, or a selection of bounded range, costs."""
    if name in ("pure", "basic"):
        return epsilon
    if name == "zcdp":
        return epsilon**2 / (8 if ranged else 2)
    half = epsilon / 2 if ranged else epsilon
    return float((2 * ndtri(1 / (1 + math.exp(-half)))) ** 2)


def check_costs() -> None:
    """A charge is never below the formula, and above it by rounding only."""
    for name, budget in BUDGETS.items():
        units = budget.accountant.units
        for epsilon in EPSILONS:
            e = float(epsilon)
            _close(units(Pure(e)), _of_pure(name, e, False), f"{name}: a pure access at {e}")
            _close(units(Selection(e)), _of_pure(name, e, True), f"{name}: a selection at {e}")
            noise = DiscreteLaplace(3 / epsilon, Fraction(3))
            _close(units(noise), _of_pure(name, e, False), f"{name}: Laplace noise at {e}")
        if name in ("zcdp", "gdp"):
            for variance in (Fraction(5), Fraction(10**6)):
                found = units(DiscreteGaussian(variance, Fraction(4))) / UNITS_PER_ONE
                least = 4 / float(variance) / (2 if name == "zcdp" else 1)
                most = least * (1 + 1e-12 if name == "zcdp" else 1.05)
                assert least * (1 - 1e-12) <= found <= most + 2e-15, f"{name}: Gaussian noise of variance {variance}"
        several = Composed((Pure(0.5), Pure(0.5), Selection(1.0)))
        total = 2 * units(Pure(0.5)) + units(Selection(1.0))
        assert units(several) == total, f"{name}: costs of several accesses do not add up"
    for name in ("pure", "zcdp", "gdp"):
        try:
            BUDGETS[name].accountant.units(LazyRounds(2, Fraction(9), Fraction(1), 1e-6))
        except BudgetError:
            continue
        raise AssertionError(f"{name}: lazy rounds, which are neither pure nor concentrated, have a cost")
    try:
        BUDGETS["pure"].accountant.units(DiscreteGaussian(Fraction(9), Fraction(1)))
    except BudgetError:
        return
    raise AssertionError("pure: Gaussian noise has a cost")


def check_calibration() -> None:
    """Noise calibrated to `units` costs at most `units`, and little less."""
    for name, budget in BUDGETS.items():
        accountant = budget.accountant
        for units in (10**9, 10**12, 123_456_789_012_345, 3 * UNITS_PER_ONE):
            events: list[Any] = [
                DiscreteLaplace(accountant.laplace_scale(units, Fraction(7)), Fraction(7)),
                Pure(accountant.pure_epsilon(units)),
                Selection(accountant.selection_epsilon(units)),
            ]
            if name in ("zcdp", "gdp"):
                events.append(DiscreteGaussian(accountant.gaussian_variance(units, Fraction(49)), Fraction(49)))
            for event in events:
                cost = accountant.units(event)
                assert cost <= units, f"{name}: {event} costs {cost}, more than {units}"
                small = name == "gdp" and isinstance(event, DiscreteGaussian) and units > 10**15
                assert small or cost >= units * (1 - 1e-4) - 2, f"{name}: {event} wastes budget"


def check_limits() -> None:
    """Limits round down and charges round up, in whole numbers."""
    assert Budget(epsilon=0.1).limit == math.floor(Fraction("0.1") * UNITS_PER_ONE)
    third = BUDGETS["pure"].accountant.units(DiscreteLaplace(Fraction(3), Fraction(1)))
    assert third == -(-UNITS_PER_ONE // 3), f"a third of epsilon was charged {third} units"


def check_conversion() -> None:
    """Conversion of rho or mu squared to epsilon: at least the exact loss of Gaussian noise, at most a known bound."""
    for rho in (1e-4, 0.01, 0.5, 3.0):
        for delta in (1e-3, 1e-6, 1e-12):
            zcdp = BUDGETS["zcdp"].accountant.loss(round(rho * UNITS_PER_ONE), delta).epsilon
            gdp = BUDGETS["gdp"].accountant.loss(round(2 * rho * UNITS_PER_ONE), delta).epsilon
            exact = _gaussian_epsilon(math.sqrt(2 * rho), delta)
            known = rho + 2 * math.sqrt(rho * math.log(1 / delta))
            assert exact * (1 - 1e-9) - 1e-12 <= gdp <= exact * (1 + 1e-6) + 1e-9, f"mu^2 = {2 * rho} at {delta}"
            assert exact * (1 - 1e-9) <= zcdp <= known * (1 + 1e-9), f"rho = {rho} at {delta}: {zcdp}"


def _gaussian_epsilon(mu: float, delta: float) -> float:
    low, high = 0.0, 500.0
    for _ in range(200):
        middle = (low + high) / 2
        found = ndtr(mu / 2 - middle / mu) - math.exp(min(700.0, middle)) * ndtr(-mu / 2 - middle / mu)
        low, high = (middle, high) if found > delta else (low, middle)
    return high


def _close(units: int, amount: float, what: str) -> None:
    found = units / UNITS_PER_ONE
    assert amount * (1 - 1e-10) <= found <= amount * (1 + 1e-10) + 2e-15, f"{what} costs {found}, expected {amount}"


def check_accounting() -> None:
    """All checks of this file."""
    for check in (check_costs, check_calibration, check_limits, check_conversion):
        check()
