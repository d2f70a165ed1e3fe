"""Columns: probabilities from noisy counts sum to one, are exact without noise, and err less than clipped counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from maquette.estimates import smoothed
from maquette.estimates.columns import LEAST, MANY

Values = NDArray[np.float64]
ROWS = 10_000


def shape(name: str, size: int) -> Values:
    """Probabilities of an ordered column."""
    places = np.linspace(0, 1, size)
    found = {
        "hump": np.exp(-((places - 0.3) ** 2) / 0.02),
        "falling": np.exp(-5 * places),
        "two humps": np.exp(-((places - 0.2) ** 2) / 0.005) + 0.5 * np.exp(-((places - 0.7) ** 2) / 0.01),
        "flat": np.ones(size),
        "step": np.where(places < 0.4, 3.0, 1.0),
        "peak": np.where(np.arange(size) == size // 3, float(size), 1.0),
    }[name]
    return np.asarray(found / found.sum())


def clipped(counts: Values) -> Values:
    found = np.maximum(counts, 0.0)
    return np.asarray(found / found.sum())


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.floats(1e-3, 1e6),
    st.booleans(),
)
def test_any_counts_become_probabilities(counts: list[float], deviation: float, ordered: bool) -> None:
    for spread in (0.0, deviation):
        found = smoothed(np.array(counts), spread, ordered=ordered)
        assert found.shape == (len(counts),)
        assert np.isfinite(found).all()
        assert found.min() >= 0.0
        assert found.sum() == pytest.approx(1.0)
        assert spread == 0.0 or found.min() > 0.0, "no level is ruled out by noisy counts"


@pytest.mark.parametrize("ordered", [False, True])
def test_exact_counts_are_kept(ordered: bool) -> None:
    counts = np.array([0.0, 5.0, 3.0, 0.0, 12.0, 1.0, 0.0, 0.0, 2.0, 7.0])
    assert smoothed(counts, 0.0, ordered=ordered) == pytest.approx(counts / counts.sum(), abs=0)
    assert smoothed(np.zeros(4), 0.0, ordered=ordered) == pytest.approx([0.25] * 4)
    nearly = smoothed(1e6 * counts, 1e-3, ordered=ordered)
    assert nearly == pytest.approx(counts / counts.sum(), abs=LEAST)


@pytest.mark.thorough(fast=6)
@pytest.mark.parametrize("size", [64, 100])
@pytest.mark.parametrize("name", ["hump", "falling", "two humps", "flat", "step", "peak"])
def test_smooth_ordered_columns_err_less_than_clipped_counts(name: str, size: int) -> None:
    """Over 200 draws of noise of half a level; a lone peak, which neighbours say nothing of, is not blurred."""
    rng = np.random.default_rng(0)
    truth = shape(name, size)
    deviation = 0.5 * ROWS / size
    ours, plain = [], []
    for _ in range(200):
        counts = ROWS * truth + deviation * rng.standard_normal(size)
        ours.append(np.abs(smoothed(counts, deviation, ordered=True) - truth).sum())
        plain.append(np.abs(clipped(counts) - truth).sum())
    margin = 1.05 if name == "peak" else 0.9
    assert np.mean(ours) < margin * np.mean(plain), (np.mean(ours), np.mean(plain))


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_named_columns_as_the_prior_expects_them_err_less_than_clipped_counts(alpha: float) -> None:
    """Where most levels are empty it is the other way round: the prior does not know of them."""
    rng = np.random.default_rng(1)
    ours, plain = [], []
    for _ in range(300):
        truth = rng.dirichlet(np.full(30, alpha))
        counts = ROWS * truth + 300 * rng.standard_normal(30)
        ours.append(np.abs(smoothed(counts, 300.0, ordered=False) - truth).sum())
        plain.append(np.abs(clipped(counts) - truth).sum())
    assert np.mean(ours) < 0.95 * np.mean(plain)


def test_the_names_of_levels_do_not_matter_but_their_order_does_where_there_is_one() -> None:
    rng = np.random.default_rng(2)
    counts = 100 * rng.random(20) - 10
    mixed = rng.permutation(20)
    one = smoothed(counts, 15.0, ordered=False)
    assert smoothed(counts[mixed], 15.0, ordered=False) == pytest.approx(one[mixed])
    two = smoothed(counts, 15.0, ordered=True)
    assert np.abs(smoothed(counts[mixed], 15.0, ordered=True) - two[mixed]).max() > 1e-3


def test_few_ordered_levels_are_not_smoothed_into_each_other() -> None:
    counts = np.array([500.0, 0.0, 500.0, 0.0, 500.0, 0.0, 500.0])
    assert len(counts) < MANY
    assert smoothed(counts, 20.0, ordered=True) == pytest.approx(smoothed(counts, 20.0, ordered=False))


def test_pure_noise_becomes_nearly_even() -> None:
    counts = 100 * np.random.default_rng(3).standard_normal(64) + 100
    found = smoothed(counts, 100.0, ordered=True)
    assert np.abs(found - 1 / 64).sum() < 0.5 * np.abs(clipped(counts) - 1 / 64).sum()
