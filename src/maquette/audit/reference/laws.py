"""The exact distributions of noise and selection in float64: oracles for audits, never a source of noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def discrete_laplace(values: ArrayLike, scale: float) -> Floats:
    """P(Z = z) for P(z) proportional to exp(-|z| / scale)."""
    law: Floats = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(np.asarray(values, dtype=np.float64)) / scale)
    return law


def laplace_tail(values: ArrayLike, scale: float) -> Floats:
    """P(Z >= z) of the discrete Laplace distribution."""
    z = np.asarray(values, dtype=np.float64)
    ratio = np.exp(-1 / scale)
    tail: Floats = np.where(
        z > 0,
        np.exp(-np.maximum(z, 0) / scale) / (1 + ratio),
        1 - np.exp(-(1 - np.minimum(z, 0)) / scale) / (1 + ratio),
    )
    return tail


def discrete_gaussian(values: ArrayLike, variance: float) -> Floats:
    """P(Z = z) for P(z) proportional to exp(-z^2 / (2 variance)), normalised over 40 standard deviations."""
    reach = int(40 * np.sqrt(variance)) + 2
    total = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * variance)).sum()
    law: Floats = np.exp(-(np.asarray(values, dtype=np.float64) ** 2) / (2 * variance)) / total
    return law


def exponential_law(scores: ArrayLike, scale: float) -> Floats:
    """P(i) of the exponential mechanism, proportional to exp(scores[i] / scale), along the last axis."""
    s = np.asarray(scores, dtype=np.float64)
    weights = np.exp((s - s.max(axis=-1, keepdims=True)) / scale)
    law: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return law


def permute_and_flip_law(scores: ArrayLike, scale: float) -> Floats:
    """P(i) of permute-and-flip: p_i times the integral over t in [0, 1] of the product of 1 - t p_j over j != i."""
    s = np.asarray(scores, dtype=np.float64)
    p = np.exp((s - s.max()) / scale)
    law = np.empty(len(p))
    for i in range(len(p)):
        product = np.ones(1)  # coefficients of t^0, t^1, ...
        for other in np.delete(p, i):
            product = np.convolve(product, (1.0, -other))
        law[i] = p[i] * (product / np.arange(1, len(product) + 1)).sum()
    return law


def renyi(p: Floats, q: Floats, order: float) -> float:
    """Rényi divergence of order > 1 of p from q on the same points; infinite if q is zero at a point of p."""
    seen = p > 0
    with np.errstate(divide="ignore"):
        terms = order * np.log(p[seen]) + (1 - order) * np.log(q[seen])
    return float(np.logaddexp.reduce(terms) / (order - 1))
