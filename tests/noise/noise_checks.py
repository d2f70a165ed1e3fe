"""Checks that a noise source must pass and its mutants must fail."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from maquette.audit.reference import discrete_gaussian, discrete_laplace, goodness_of_fit, laplace_tail
from maquette.curator import noise

RARE = 1e-9
Sampler = Callable[[Fraction, int], NDArray[np.int64]]
Selector = Callable[[NDArray[np.int64], Fraction], int]
Law = Callable[[NDArray[np.int64], float], NDArray[np.float64]]


def laplace_follows_its_law(sampler: Sampler, scale: Fraction, draws: int) -> None:
    values = sampler(scale, draws)
    reach = int(40 * scale) + 2
    counts = np.bincount(np.clip(values, -reach, reach) + reach, minlength=2 * reach + 1)
    p = goodness_of_fit(counts, discrete_laplace(np.arange(-reach, reach + 1), float(scale)))
    assert p > RARE, f"scale {float(scale)}: chi-square p = {p:.1e}"


def gaussian_follows_its_law(sampler: Sampler, variance: Fraction, draws: int) -> None:
    values = sampler(variance, draws)
    reach = int(10 * float(variance) ** 0.5) + 2
    counts = np.bincount(np.clip(values, -reach, reach) + reach, minlength=2 * reach + 1)
    p = goodness_of_fit(counts, discrete_gaussian(np.arange(-reach, reach + 1), float(variance)))
    assert p > RARE, f"variance {float(variance)}: chi-square p = {p:.1e}"


def laplace_has_its_mean_magnitude(sampler: Sampler, scale: Fraction, draws: int) -> None:
    magnitude = np.abs(sampler(scale, draws)).astype(np.float64)
    b = float(scale)
    mean = 1 / np.sinh(1 / b)
    second = 1 / (2 * np.sinh(1 / (2 * b)) ** 2)
    z = (magnitude.mean() - mean) / np.sqrt((second - mean**2) / draws)
    assert abs(z) < 6, f"scale {b}: z = {z:.1f}"


def gaussian_has_its_variance(sampler: Sampler, variance: Fraction, draws: int) -> None:
    squares = sampler(variance, draws).astype(np.float64) ** 2
    # Above variance 9 the moments of the discrete law are those of the continuous one to many digits.
    z = (squares.mean() / float(variance) - 1) / np.sqrt(2 / draws)
    assert abs(z) < 6, f"variance {float(variance)}: z = {z:.1f}"


def laplace_quantiles(sampler: Sampler, scale: Fraction, draws: int) -> None:
    """For scales too large to count every value: 200 cells of equal probability, and uniform low bits."""
    values = sampler(scale, draws)
    b = float(scale)
    tail = np.arange(1, 100) / 200
    above = np.ceil(-b * np.log(tail * 2)).astype(np.int64)
    edges = np.sort(np.concatenate([-above, [0], above]))
    cumulative = np.concatenate([[0.0], 1 - laplace_tail(edges, b), [1.0]])
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    assert goodness_of_fit(counts, np.diff(cumulative)) > RARE
    assert goodness_of_fit(np.bincount(values & 63, minlength=64), np.full(64, 1 / 64)) > RARE


def gaussian_quantiles(sampler: Sampler, variance: Fraction, draws: int) -> None:
    values = sampler(variance, draws)
    edges = np.unique(np.ceil(scipy.stats.norm.ppf(np.arange(1, 200) / 200) * float(variance) ** 0.5).astype(np.int64))
    cumulative = np.concatenate([[0.0], scipy.stats.norm.cdf((edges - 0.5) / float(variance) ** 0.5), [1.0]])
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    assert goodness_of_fit(counts, np.diff(cumulative)) > RARE
    assert goodness_of_fit(np.bincount(values & 63, minlength=64), np.full(64, 1 / 64)) > RARE


def selection_follows_its_law(selector: Selector, law: Law, scores: list[int], scale: Fraction, draws: int) -> None:
    vector = np.array(scores, dtype=np.int64)
    counts = np.bincount([selector(vector, scale) for _ in range(draws)], minlength=len(scores))
    p = goodness_of_fit(counts, law(vector, float(scale)))
    assert p > RARE, f"scores {scores}: chi-square p = {p:.1e}"


def selection_losses(law: Law, scale: float, offset: int = 0) -> tuple[float, float, float]:
    """Largest log-ratio, largest range and zCDP constant over score triples 0..3 and all 27 perturbations.

    `offset` lowers the first score of every triple, to look at events of tiny probability.
    """
    orders = np.array([1.001, 1.5, 2, 4, 8, 32])[:, None]
    cache = {t: law(np.array(t) - [offset, 0, 0], scale) for t in product(range(-1, 5), repeat=3)}
    loss = spread = rho = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for triple in product(range(4), repeat=3):
            p = cache[triple]
            for change in product((-1, 0, 1), repeat=3):
                q = cache[tuple(a + b for a, b in zip(triple, change, strict=True))]
                ratio = np.log(p / q)
                loss = max(loss, np.abs(ratio).max())
                spread = max(spread, ratio.max() - ratio.min())
                for a, b in ((p, q), (q, p)):
                    divergence = np.log((a**orders * b ** (1 - orders)).sum(axis=1)) / (orders[:, 0] - 1)
                    rho = max(rho, (divergence / orders[:, 0]).max())
    return loss, spread, rho


def geometric(draws: NDArray[np.uint64], scale: Fraction, largest: int = 2**62) -> NDArray[np.int64]:
    """The draws of one scale."""
    return noise._geometric(draws, noise._Each.of([scale], [len(draws)]), np.array([largest]))
