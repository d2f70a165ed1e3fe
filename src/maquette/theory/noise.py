"""Accuracy of answering every query with its own noise.

All errors are fractions of the rows; a query in [0, 1] moves by at most 1/rows between neighbours. Noise is treated as
continuous: the exact discrete noise of the curator is within one row of it.
"""

from __future__ import annotations

import math
from typing import Literal

from maquette.theory.arguments import checked
from maquette.theory.solve import power


@checked()
def laplace_accuracy(*, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """Largest error of k Laplace answers, with probability 1 - beta: (k / (n epsilon)) ln(k / beta).

    Privacy: epsilon-DP, replace or add-remove; the L1 sensitivity of k arbitrary queries is k/n. BLR+PMW lecture,
    theorem 2; Mechanisms §1.1. Corrected: the standard deviation is sqrt(2) times the scale (erratum D10).
    """
    return queries / (rows * epsilon) * math.log(queries / beta)


@checked()
def laplace_quantile(*, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """The exact 1 - beta quantile of the same maximum: Pr[max <= t] = (1 - exp(-t / b))^k. Mechanisms §1.1."""
    miss = -math.expm1(math.log1p(-beta) / queries)
    return -queries / (rows * epsilon) * math.log(miss)


@checked()
def gaussian_deviation(*, queries: int, rho: float, rows: int) -> float:
    """Standard deviation of k Gaussian answers that are rho-zCDP together: sqrt(k / (2 rho)) / n.

    The L2 sensitivity of k arbitrary queries is sqrt(k)/n, replace or add-remove. Mechanisms §1.2.
    """
    return math.sqrt(queries / (2 * rho)) / rows


@checked()
def gaussian_accuracy(*, queries: int, rho: float, rows: int, beta: float) -> float:
    """Largest error of k Gaussian answers, with probability 1 - beta: sigma sqrt(2 ln(2k / beta)). Mechanisms §1.2."""
    return gaussian_deviation(queries=queries, rho=rho, rows=rows) * gaussian_tail(queries, beta)


@checked()
def gaussian_tail(values: float, beta: float) -> float:
    """Standard deviations t that `values` Gaussians stay within with probability 1 - beta: 2 v exp(-t^2 / 2) = beta."""
    return math.sqrt(2 * math.log(2 * values / beta))


@checked()
def histogram_accuracy(
    *,
    universe: int,
    queries: int,
    rho: float,
    rows: int,
    beta: float,
    relation: Literal["replace", "add-remove"] = "replace",
) -> float:
    """Largest error of k queries on one Gaussian histogram of all N points, with probability 1 - beta.

    Privacy: rho-zCDP. replace: L2 sensitivity sqrt(2)/n; since the total is public, a query can be summed as f - 1/2,
    with norm at most sqrt(N)/2. add-remove: sensitivity 1/n and norm at most sqrt(N). Mechanisms §1.2.
    """
    sensitivity, norm = (math.sqrt(2), 0.5) if relation == "replace" else (1.0, 1.0)
    return sensitivity / (rows * math.sqrt(2 * rho)) * norm * power(universe, 0.5) * gaussian_tail(queries, beta)
