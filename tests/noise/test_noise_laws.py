"""The production sampler follows the exact laws, and those of OpenDP."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import noise_checks as checks
import numpy as np
import pytest

from maquette.audit.reference import discrete_gaussian, discrete_laplace, laplace_tail, same_law
from maquette.curator.noise import ExactNoise

SOURCE = ExactNoise()


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(20)])
def test_discrete_laplace_law(scale: Any) -> None:
    checks.laplace_follows_its_law(SOURCE.laplace, scale, 1_000_000)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(10, 3), Fraction(400)])
def test_discrete_gaussian_law(variance: Any) -> None:
    checks.gaussian_follows_its_law(SOURCE.gaussian, variance, 1_000_000)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("exponent", [17, 30, 40, 50])
def test_large_scales_follow_their_quantiles_down_to_the_low_bits(exponent: Any) -> None:
    scale = Fraction(3 * 2**exponent, 4)
    checks.laplace_quantiles(SOURCE.laplace, scale, 500_000)
    checks.gaussian_quantiles(SOURCE.gaussian, scale**2, 500_000)


@pytest.mark.thorough
def test_ten_million_draws_fix_the_scale_to_a_third_of_a_percent() -> None:
    checks.laplace_has_its_mean_magnitude(SOURCE.laplace, Fraction(10), 10_000_000)
    checks.gaussian_has_its_variance(SOURCE.gaussian, Fraction(100), 10_000_000)


def test_tiny_noise_is_nearly_always_zero() -> None:
    assert not SOURCE.laplace(Fraction(1, 1000), 10_000).any()
    assert not SOURCE.gaussian(Fraction(1, 10**6), 10_000).any()


def test_successive_draws_are_uncorrelated() -> None:
    for values in (SOURCE.laplace(Fraction(10), 1_000_000), SOURCE.gaussian(Fraction(100), 1_000_000)):
        x = values / values.std()
        for lag in (1, 2, 1 << 15):
            assert abs((x[:-lag] * x[lag:]).mean()) < 6 / 1000


@pytest.fixture(scope="module")
def opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    yield dp
    dp.disable_features("contrib")


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10), Fraction(10**6)])
def test_same_law_as_opendp(scale: Any, opendp: Any) -> None:
    dp = opendp
    size, domain = 60_000, dp.vector_domain(dp.atom_domain(T="i64"))
    edges = np.unique((np.linspace(-4, 4, 41) * float(scale)).round().astype(np.int64))
    theirs = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), float(scale))([0] * size)
    assert same_law(SOURCE.laplace(scale, size), theirs, edges) > checks.RARE
    theirs = dp.m.make_gaussian(domain, dp.l2_distance(T=float), float(scale))([0] * size)
    assert same_law(SOURCE.gaussian(scale**2, size), theirs, edges) > checks.RARE


@pytest.mark.parametrize("scale", [0.3, 2.0, 11.0])
def test_oracle_laws_are_laws(scale: Any) -> None:
    z = np.arange(-2000, 2001)
    law = discrete_laplace(z, scale)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert discrete_gaussian(z, scale).sum() == pytest.approx(1, abs=1e-12)
    assert laplace_tail(z, scale) == pytest.approx(law[::-1].cumsum()[::-1], abs=1e-12)


def test_two_point_ratio_of_the_laplace_law_is_exactly_epsilon() -> None:
    z = np.arange(-50, 50)
    ratio = np.log(discrete_laplace(z, 3.0) / discrete_laplace(z - 1, 3.0))
    assert np.abs(ratio).max() == pytest.approx(1 / 3, rel=1e-12)
