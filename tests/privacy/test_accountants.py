from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from maquette.errors import BudgetError
from maquette.privacy import (
    ACCOUNTANTS,
    UNITS_PER_ONE,
    Accountant,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Pure,
    Selection,
)
from maquette.privacy.units import coarse_up, exact, float_down, float_up, sqrt_down

CURRENCIES = sorted(ACCOUNTANTS)
currencies = st.sampled_from(CURRENCIES)
amounts = st.integers(10**9, 50 * UNITS_PER_ONE)  # 1e-6 to 50 of epsilon, rho or mu squared
tiny_or_huge = st.integers(1, 9000 * UNITS_PER_ONE)
sensitivities = st.integers(1, 2**40).map(Fraction)


def calibrated(accountant: Accountant, units: int, sensitivity: Fraction) -> list[Event]:
    events: list[Event] = [
        Pure(accountant.pure_epsilon(units)),
        Selection(accountant.selection_epsilon(units)),
        DiscreteLaplace(accountant.laplace_scale(units, sensitivity), sensitivity),
    ]
    if accountant.currency != "pure":
        events.append(DiscreteGaussian(accountant.gaussian_variance(units, sensitivity), sensitivity))
    return events


@given(currencies, tiny_or_huge, sensitivities)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_calibrated_mechanism_never_costs_more_than_its_units(
    currency: str, units: int, sensitivity: Fraction
) -> None:
    accountant = ACCOUNTANTS[currency]
    for event in calibrated(accountant, units, sensitivity):
        assert accountant.units(event) <= units


@given(currencies, amounts, sensitivities)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_calibrated_mechanism_uses_its_units(currency: str, units: int, sensitivity: Fraction) -> None:
    accountant = ACCOUNTANTS[currency]
    for event in calibrated(accountant, units, sensitivity):
        # A discrete Gaussian under gdp never has a variance below 1/3, so it cannot use up more than 6 per unit shift.
        wasted = isinstance(event, DiscreteGaussian) and currency == "gdp" and units > 6 * sensitivity * UNITS_PER_ONE
        assert wasted or accountant.units(event) >= units * (1 - 1e-9) - 1


@given(st.floats(1e-9, 50), st.fractions(1, 1000), st.fractions(1, 1000))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_exact_costs_round_up_by_less_than_one_unit(epsilon: float, width: Fraction, sensitivity: Fraction) -> None:
    rational = Fraction(epsilon)
    ratio = sensitivity / width
    expected: dict[tuple[str, Event], Fraction] = {
        ("pure", Pure(epsilon)): rational,
        ("pure", Selection(epsilon)): rational,
        ("pure", DiscreteLaplace(width, sensitivity)): ratio,
        ("zcdp", Pure(epsilon)): rational**2 / 2,
        ("zcdp", Selection(epsilon)): rational**2 / 8,
        ("zcdp", DiscreteLaplace(width, sensitivity)): ratio**2 / 2,
        ("zcdp", DiscreteGaussian(width, sensitivity)): ratio / 2,
    }
    for (currency, event), cost in expected.items():
        units = ACCOUNTANTS[currency].units(event)
        assert 0 <= units - cost * UNITS_PER_ONE < 1


@given(currencies, st.floats(1e-6, 20), st.floats(1.0001, 10))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_costs_and_calibrations_are_monotone(currency: str, epsilon: float, factor: float) -> None:
    accountant = ACCOUNTANTS[currency]
    less, more = accountant.units(Pure(epsilon)), accountant.units(Pure(epsilon * factor))
    assert less < more
    assert accountant.units(Selection(epsilon)) <= less
    assert accountant.pure_epsilon(less) <= accountant.pure_epsilon(more)
    assert accountant.laplace_scale(less, Fraction(1)) >= accountant.laplace_scale(more, Fraction(1))
    if accountant.currency != "pure":
        assert accountant.gaussian_variance(less, Fraction(1)) >= accountant.gaussian_variance(more, Fraction(1))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_positive_cost_is_never_zero_units(currency: str) -> None:
    accountant = ACCOUNTANTS[currency]
    for epsilon in (5e-324, 1e-300, 1e-20):
        assert accountant.units(Pure(epsilon)) >= 1
        assert accountant.units(Selection(epsilon)) >= 1
    assert accountant.units(Pure(0.0)) == 0
    assert accountant.units(DiscreteLaplace(Fraction(1), Fraction(0))) == 0


@pytest.mark.parametrize("currency", CURRENCIES)
def test_composition_is_the_sum(currency: str) -> None:
    accountant = ACCOUNTANTS[currency]
    parts: tuple[Event, ...] = (Pure(0.1), Selection(0.7), DiscreteLaplace(Fraction(10, 3), Fraction(2)))
    nested = Composed((Composed(parts), Pure(0.1)))
    assert accountant.units(nested) == sum(map(accountant.units, parts)) + accountant.units(Pure(0.1))
    assert accountant.units(Composed(())) == 0


def test_a_gaussian_needs_delta() -> None:
    pure = ACCOUNTANTS["pure"]
    event = Composed((Pure(0.1), DiscreteGaussian(Fraction(4), Fraction(1))))
    assert not pure.supports(event)
    assert pure.supports(Pure(0.1))
    with pytest.raises(BudgetError, match="needs delta > 0"):
        pure.units(event)
    with pytest.raises(BudgetError, match="needs delta > 0"):
        pure.gaussian_variance(1, Fraction(1))


def test_a_narrow_discrete_gaussian_has_no_cost_under_gdp() -> None:
    gdp = ACCOUNTANTS["gdp"]
    narrow = DiscreteGaussian(Fraction(33, 100), Fraction(1))
    assert not gdp.supports(narrow)
    with pytest.raises(BudgetError, match="at least 1/3"):
        gdp.units(narrow)
    assert gdp.supports(DiscreteGaussian(Fraction(1, 3), Fraction(1)))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_nothing_is_calibrated_to_nothing(currency: str) -> None:
    accountant = ACCOUNTANTS[currency]
    for units in (0, -1):
        with pytest.raises(BudgetError, match="buy no access"):
            accountant.pure_epsilon(units)
        with pytest.raises(BudgetError, match="buy no access"):
            accountant.selection_epsilon(units)
        with pytest.raises(BudgetError, match="buy no access"):
            accountant.laplace_scale(units, Fraction(1))
    with pytest.raises(BudgetError, match="sensitivity is 0"):
        accountant.laplace_scale(10, Fraction(0))


def test_gdp_needs_less_gaussian_noise_and_zcdp_less_of_the_rest() -> None:
    zcdp, gdp = ACCOUNTANTS["zcdp"], ACCOUNTANTS["gdp"]
    rho_units = zcdp.share(epsilon=1.0, delta=1e-9)
    mu_units = gdp.share(epsilon=1.0, delta=1e-9)
    ratio = gdp.gaussian_variance(mu_units, Fraction(1)) / zcdp.gaussian_variance(rho_units, Fraction(1))
    assert 0.90 < ratio < 0.92
    assert gdp.pure_epsilon(mu_units) < zcdp.pure_epsilon(rho_units)
    assert gdp.selection_epsilon(mu_units) < zcdp.selection_epsilon(rho_units)


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**15))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_roundings_go_the_stated_way(number: Fraction) -> None:
    root = sqrt_down(number)
    assert root**2 <= number < (root * (1 + Fraction(1, 2**62))) ** 2
    assert Fraction(float_down(number)) <= number <= Fraction(float_up(number))
    assert math.nextafter(float_down(number), math.inf) >= float_up(number)
    coarse = coarse_up(number)
    assert number <= coarse <= number * (1 + Fraction(1, 2**39))
    assert coarse.denominator & (coarse.denominator - 1) == 0
    lowest_bit = coarse.numerator & -coarse.numerator
    assert (coarse.numerator // lowest_bit).bit_length() <= 42
    assert sqrt_down(number**2) == number


def test_numbers_mean_their_decimals() -> None:
    assert exact(0.3) == Fraction(3, 10)
    assert exact(1e-9) == Fraction(1, 10**9)
    assert exact(Fraction(1, 3)) == Fraction(1, 3)
