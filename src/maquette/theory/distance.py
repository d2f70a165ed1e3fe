"""Bounds for average distances and other sums over columns, as fractions of the largest distance. Mechanisms §4.8.

Columns j have public shares a_j that sum to one, and s_j levels; a query adds at most a_j for column j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from maquette.theory import offline as offline_theory, online as online_theory
from maquette.theory.arguments import checked
from maquette.theory.offline import Construction


@checked()
def updates(columns: Iterable[tuple[float, int]], alpha: float) -> float:
    """Separable weights, step 4 alpha: sum_j a_j ln s_j / (2 alpha^2), from pairs (a_j, s_j).

    With equal columns ln s / (2 alpha^2), for any number of them: `theory.updates.separable`. The potential
    sum_j a_j KL(x_j, H_j) falls by eta gap - eta^2 sum_j a_j / 8 for eta = 4 alpha (Hoeffding in each column).

    >>> round(updates([(1 / 50, 20)] * 50, 0.05), 1)
    599.1
    """
    return math.fsum(share * math.log(levels) for share, levels in columns) / (2 * alpha**2)


@checked()
def grid_error(columns: Iterable[tuple[float, int]]) -> float:
    """Error of knowing rows only by their cell, evenly spaced, and using its middle: sum_j a_j / (2 s_j)."""
    return math.fsum(share / (2 * levels) for share, levels in columns)


@checked()
def offline(*, levels: int, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """The iterative construction with separable weights over listed distances; tight constants. Mechanisms §5.1."""
    return offline_theory.tight(
        updates=lambda alpha: updates([(1.0, levels)], alpha),
        queries=queries,
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        beta=beta,
    )


@checked()
def online(*, levels: int, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """The online construction with separable weights; tight constants, delta > 0. Mechanisms §6.4."""
    return online_theory.tight(
        updates=lambda alpha: updates([(1.0, levels)], alpha),
        queries=queries,
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        beta=beta,
    )


@checked()
def histogram_deviation(*, levels: int, place: float, rho: float, rows: int) -> float:
    """Standard deviation of one distance if each column is measured separately, all for rho: sqrt(s v / (2 rho)) / n.

    For equal columns and a point at `place` (from 0 to 1) of every column, v the variance of |u - place| over the
    levels u. It does not depend on the number of columns d: each has noise of variance d / (2 rho) and weight 1/d, and
    there are d of them. Add-remove, with a known number of rows.
    """
    middles = [(level + 0.5) / levels for level in range(levels)]
    distances = [abs(middle - place) for middle in middles]
    mean = math.fsum(distances) / levels
    variance = math.fsum((distance - mean) ** 2 for distance in distances) / levels
    return math.sqrt(levels * variance / (2 * rho)) / rows


@checked()
def gaussian_deviation(*, queries: int, rho: float, rows: int) -> float:
    """Standard deviation of one distance if each of k = `queries` is measured separately: sqrt(k / (2 rho)) / n."""
    return math.sqrt(queries / (2 * rho)) / rows


@checked()
def crossover(*, levels: int, place: float = 0.0) -> float:
    """Number of distances that cost as much one by one as the histograms that answer all: s v. Mechanisms §1.2.

    s/12 for points at a corner, s/48 for the centre.
    """
    one = gaussian_deviation(queries=1, rho=1.0, rows=1)
    return (histogram_deviation(levels=levels, place=place, rho=1.0, rows=1) / one) ** 2


@checked()
def fan_distortion(directions: int) -> float:
    """Evenly spread directions in the plane: any Euclidean distance has a relative error of at most tan^2(pi / 4k)."""
    return math.tan(math.pi / (4 * directions)) ** 2


@checked()
def gaussian_distortion(directions: int) -> float:
    """Random Gaussian directions: the relative standard deviation of one distance, sqrt((pi/2 - 1) / k)."""
    return math.sqrt((math.pi / 2 - 1) / directions)
