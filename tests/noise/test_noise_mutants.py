"""Broken samplers, each killed by a check that the production source passes in the tests of its laws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import noise_checks as checks
import numpy as np
import pytest

from maquette.audit.reference import epsilon_lower_bound, exponential_law, lowest_bit, permute_and_flip_law
from maquette.curator.noise import ExactNoise

SOURCE = ExactNoise()
RNG = np.random.default_rng(20240)


def biased_laplace(scale: Any, size: Any) -> Any:
    return SOURCE.laplace(scale * Fraction(1003, 1000), size)


def biased_gaussian(variance: Any, size: Any) -> Any:
    return SOURCE.gaussian(variance * Fraction(997, 1000) ** 2, size)


def laplace_with_two_zeros(scale: Any, size: Any) -> Any:
    """The minus sign before zero is not refused."""
    magnitude = RNG.geometric(1 - np.exp(-1 / float(scale)), size) - 1
    return np.where(RNG.random(size) < 0.5, -magnitude, magnitude)


def rounded_laplace(scale: Any, size: Any) -> Any:
    return np.rint(RNG.laplace(0, float(scale), size)).astype(np.int64)


def rounded_gaussian(variance: Any, size: Any) -> Any:
    return np.rint(RNG.normal(0, float(variance) ** 0.5, size)).astype(np.int64)


def gaussian_of_a_standard_deviation(variance: Any, size: Any) -> Any:
    """The variance is taken for the standard deviation."""
    return SOURCE.gaussian(variance**2, size)


def laplace_without_low_bits(scale: Any, size: Any) -> Any:
    """Large scales keep the step and forget the rest."""
    return SOURCE.laplace(scale / 16, size) * 16


def flip_in_order(scores: Any, scale: Any) -> Any:
    """Permute-and-flip without the permutation."""
    heads = RNG.random(len(scores)) < np.exp((scores - scores.max()) / float(scale))
    return int(np.argmax(heads))


def first_of_ties(scores: Any, scale: Any) -> Any:
    """Exponential mechanism with ties resolved by position."""
    index = SOURCE.exponential(scores, scale)
    return int(np.flatnonzero(scores == scores[index])[0])


def no_factor_two(scores: Any, scale: Any) -> Any:
    return exponential_law(scores, scale / 2)


def float32_softmax(scores: Any, scale: Any) -> Any:
    weights = np.exp(((scores - scores.max()) / scale).astype(np.float32))
    return (weights / weights.sum()).astype(np.float64)


SMALL, HALF, WIDE = Fraction(7, 3), Fraction(1, 2), Fraction(2**30)
SCORES = [0, 0, 3]

KILLED_BY_SAMPLES = [
    (checks.laplace_has_its_mean_magnitude, biased_laplace, (Fraction(10), 20_000_000)),
    (checks.gaussian_has_its_variance, biased_gaussian, (Fraction(100), 10_000_000)),
    (checks.laplace_follows_its_law, laplace_with_two_zeros, (SMALL, 100_000)),
    (checks.laplace_follows_its_law, rounded_laplace, (SMALL, 100_000)),
    (checks.gaussian_follows_its_law, rounded_gaussian, (HALF, 300_000)),
    (checks.gaussian_follows_its_law, gaussian_of_a_standard_deviation, (SMALL, 100_000)),
    (checks.laplace_quantiles, laplace_without_low_bits, (WIDE, 100_000)),
]  # fmt: skip


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("check", "mutant", "arguments"), KILLED_BY_SAMPLES, ids=[row[1].__name__ for row in KILLED_BY_SAMPLES]
)
def test_sampler_mutant_is_killed(check: Any, mutant: Any, arguments: Any) -> None:
    with pytest.raises(AssertionError):
        check(mutant, *arguments)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("law", "sound", "mutant"),
    [
        (permute_and_flip_law, SOURCE.permute_and_flip, flip_in_order),
        (exponential_law, SOURCE.exponential, first_of_ties),
    ],
    ids=["flip_in_order", "first_of_ties"],
)
def test_selection_mutant_is_killed(law: Any, sound: Any, mutant: Any) -> None:
    checks.selection_follows_its_law(sound, law, SCORES, SMALL, 3_000)
    with pytest.raises(AssertionError):
        checks.selection_follows_its_law(mutant, law, SCORES, SMALL, 3_000)


@pytest.mark.parametrize(("epsilon", "loss"), [(0.5, 0.935), (1, 1.979), (2, 3.999)])
def test_exponent_without_the_factor_two_costs_twice_epsilon(epsilon: Any, loss: Any) -> None:
    measured = checks.selection_losses(no_factor_two, 2 / epsilon)[0]
    assert measured == pytest.approx(loss, abs=1e-3)
    assert measured > epsilon


def test_softmax_in_float32_gives_infinite_loss_where_the_exact_law_keeps_epsilon() -> None:
    assert checks.selection_losses(exponential_law, 2.0, offset=206)[0] <= 1 + 1e-9
    assert checks.selection_losses(float32_softmax, 2.0, offset=206)[0] > 1


def lowest_bit_attack(release: Any, trials: Any = 100_000) -> Any:
    """Pilot runs choose the cut on the lowest set bit; fresh runs bound epsilon for the neighbours 0 and 1."""
    pilot = [lowest_bit(release(x, trials // 10)) for x in (0, 1)]
    cuts = np.unique(np.concatenate(pilot))
    below = {c: [int((bits <= c).sum()) for bits in pilot] for c in cuts}
    cut = max(cuts, key=lambda c: epsilon_lower_bound(below[c][0], below[c][1], trials // 10))
    hits = [int((lowest_bit(release(x, trials)) <= cut).sum()) for x in (0, 1)]
    return epsilon_lower_bound(hits[0], hits[1], trials)


def test_float_laplace_noise_is_told_apart_by_its_lowest_bits_and_exact_noise_is_not() -> None:
    """Mironov: doubles near x = 0 are finer than near x = 1."""
    claimed = 0.1
    assert lowest_bit_attack(lambda x, n: x + RNG.laplace(0, 1 / claimed, n)) > 20 * claimed
    assert lowest_bit_attack(lambda x, n: x + SOURCE.laplace(Fraction(10), n)) <= claimed
    assert lowest_bit_attack(lambda x, n: x + SOURCE.gaussian(Fraction(100), n)) <= claimed
