"""The projection onto the elliptope: a projection, the nearest point, and what it does to noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.privacy.conversion import zcdp_rho
from maquette.releases.classes.projection import project_parities


def symmetric(upper: np.ndarray, size: int) -> np.ndarray:
    matrix = np.eye(size)
    matrix[np.triu_indices(size, 1)] = upper
    matrix.T[np.triu_indices(size, 1)] = upper
    return matrix


def noisy_matrices(count: int, seed: int) -> list[np.ndarray]:
    """Symmetric matrices of several sizes, from nearly feasible to far away."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        size = int(rng.integers(2, 15))
        made.append(symmetric(rng.normal(scale=10.0 ** (i % 4 - 1), size=math.comb(size, 2)), size))
    return made


def feasible(size: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.choice([-1.0, 1.0], size=(int(rng.integers(1, 30)), size))
    return rows.T @ rows / len(rows)


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("noisy", noisy_matrices(24, 1), ids=lambda m: f"{len(m)}")
def test_result_is_feasible_and_projecting_again_changes_nothing(noisy: np.ndarray) -> None:
    projected = project_parities(noisy)
    assert (np.diagonal(projected) == 1.0).all()
    assert (projected == projected.T).all()
    assert np.linalg.eigvalsh(projected)[0] >= -1e-12
    assert np.abs(project_parities(projected) - projected).max() <= 1e-8


@pytest.mark.parametrize("noisy", noisy_matrices(24, 2), ids=lambda m: f"{len(m)}")
def test_no_feasible_matrix_is_nearer(noisy: np.ndarray) -> None:
    """The variational inequality: from the projection, every feasible matrix lies behind."""
    rng = np.random.default_rng(len(noisy))
    projected = project_parities(noisy)
    for _ in range(100):
        towards = feasible(len(noisy), rng) - projected
        assert ((noisy - projected) * towards).sum() <= 1e-6 * max(1.0, np.abs(noisy).max())


def test_alternating_projections_end_at_the_same_matrix() -> None:
    """Dykstra's algorithm, slow and simple, as an independent reference."""
    for noisy in noisy_matrices(6, 3):
        target, correction = noisy / max(1.0, np.abs(noisy).max() / 3), np.zeros_like(noisy)
        np.fill_diagonal(target, 1.0)
        current = target.copy()
        for _ in range(1000):
            values, vectors = np.linalg.eigh(current - correction)
            positive = (vectors * np.maximum(values, 0)) @ vectors.T
            correction = positive - (current - correction)
            current = positive.copy()
            np.fill_diagonal(current, 1.0)
        assert np.abs(project_parities(target) - current).max() <= 1e-5


@pytest.mark.thorough
def test_it_is_non_expansive() -> None:
    rng = np.random.default_rng(4)
    for one in noisy_matrices(24, 5):
        shift = symmetric(rng.normal(scale=rng.choice([0.01, 1.0, 30.0]), size=math.comb(len(one), 2)), len(one))
        other = one + shift - np.eye(len(one))
        apart = np.linalg.norm(project_parities(one) - project_parities(other))
        assert apart <= np.linalg.norm(one - other) * (1 + 1e-9) + 1e-7


def test_feasible_matrices_stay_and_truth_is_never_further_than_before() -> None:
    rng = np.random.default_rng(6)
    for size in (2, 3, 7, 20):
        for scale in (0.01, 0.3, 5.0):
            truth = feasible(size, rng)
            assert np.abs(project_parities(truth) - truth).max() <= 1e-9
            noisy = truth + symmetric(rng.normal(scale=scale, size=math.comb(size, 2)), size) - np.eye(size)
            assert np.linalg.norm(project_parities(noisy) - truth) <= np.linalg.norm(noisy - truth) + 1e-9


def test_hopeless_noise_still_gives_a_feasible_matrix() -> None:
    assert project_parities(np.full((4, 4), 1e6)) == pytest.approx(np.ones((4, 4)))
    opposite = project_parities(np.full((7, 7), -1e6))
    assert opposite == pytest.approx(symmetric(np.full(21, -1 / 6), 7), abs=1e-6)
    assert project_parities(np.array([[5.0]])).tolist() == [[1.0]]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("rows", "before", "after"),
    [(500, 2.07, 0.34), (2_000, 0.52, 0.17), (10_000, 0.105, 0.065), (100_000, 0.0104, 0.0104)],
)
def test_published_errors_are_reproduced(rows: int, before: float, after: float) -> None:
    """Mechanisms §8.7: 2-way parities of 128 columns at epsilon 1, delta 1e-9, replace; simulated noise."""
    rng, d = np.random.default_rng(3), 128
    hidden = rng.choice([-1.0, 1.0], size=(rows, 3)) @ (rng.normal(size=(3, d)) * 0.8)
    signs = np.sign(hidden + rng.normal(size=(rows, d)))
    upper = np.triu_indices(d, 1)
    truth = (signs.T @ signs / rows)[upper]
    deviation = 2 * math.sqrt(len(truth)) / rows / math.sqrt(2 * zcdp_rho(1.0, 1e-9))
    noisy = truth + rng.normal(scale=deviation, size=len(truth))
    projected = project_parities(symmetric(noisy, d))[upper]
    assert math.sqrt(((noisy - truth) ** 2).mean()) == pytest.approx(before, rel=0.04)
    assert math.sqrt(((projected - truth) ** 2).mean()) == pytest.approx(after, rel=0.08)


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3)), np.zeros(3), np.full((2, 2), np.nan), np.array([[1.0, 2.0], [0.0, 1.0]])]
)
def test_anything_but_a_symmetric_matrix_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(QueryError, match="expected a s"):
        project_parities(bad)
