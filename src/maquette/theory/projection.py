"""Error of a projection: noise on all parities of at most k of d two-level columns, then the nearest feasible point.

The parities of a table, with their signs, fill a matrix M[A, B] = E[x_(A xor B)] over small sets A and B of columns (of
at most one for k = 2, of at most two for k = 3 and 4): positive semidefinite, with ones on its diagonal. Let y be the m
measured parities of the table, y + g the noisy ones, z the nearest point of the convex set of all such matrices. By
the projection's own inequality |z - y|^2 <= <g, z - y>; and <g, z> = <G, M(z)>, G = sum_S g_S A_S, where A_S holds
1/c_S at the c_S places of parity S. M has trace D, so <g, z - y> <= 2 D |G|, |G| the largest absolute eigenvalue. Noise
that is sub-Gaussian with parameter sigma has |G| <= sigma sqrt(2 v ln(2D/beta)) with probability 1 - beta, v = |sum_S
A_S^2| the largest row sum of 1/c_S^2 (Tropp 2012, theorem 1.5, whose proof needs the moment generating function only).
So

    mean squared error of a parity <= 2 D sigma sqrt(2 v ln(2D/beta)) / m.

With sigma = sqrt(m / (2 rho)) / n its root is of the order of d^(ceil(k/2)/4) / sqrt(n), but for rho and logarithms,
the rate of the slides, where plain noise has d^(k/2) / n. Nikolov, Talwar and Zhang 2013; Dwork, Nikolov and Talwar
2015; Mechanisms §8.7, which has 4 for the 2.
"""

from __future__ import annotations

import math

from maquette.theory.arguments import Range, checked

SETS = Range(lambda value: (value == 2) | (value == 3) | (value == 4), "2, 3 or 4")


@checked(k=SETS)
def parities(*, attributes: int, k: int) -> int:
    """How many parities of 1 to k of the columns there are."""
    return sum(math.comb(attributes, size) for size in range(1, k + 1))


@checked(k=SETS)
def matrix_size(*, attributes: int, k: int) -> int:
    """D: the number of sets of at most one (k = 2) or two columns, the empty one included."""
    return 1 + attributes + (math.comb(attributes, 2) if k > 2 else 0)


@checked(k=SETS)
def spread(*, attributes: int, k: int) -> float:
    """V: the largest row sum of 1 / c_S^2 over the measured parities."""
    d = attributes
    if k == 2:
        return d / 4  # every parity has two places
    one = two = 1 / (2 * d) ** 2  # places of a parity of one or two columns: 2 d
    wide = 1 / 36  # of three or four: 6
    rows = [
        d * one + math.comb(d, 2) * two,
        one + (d - 1) * (one + two) + math.comb(d - 1, 2) * wide,
        two + 2 * one + (d - 2) * wide + 2 * (d - 2) * two + (math.comb(d - 2, 2) * wide if k == 4 else 0.0),
    ]
    return max(rows)


@checked(k=SETS)
def root_mean_square(*, attributes: int, k: int, scale: float, beta: float) -> float:
    """The bound on the root mean squared error of all parities, for noise of parameter `scale` (a fraction of rows).

    It fails with probability beta. Noise alone has about `scale`.
    """
    size, many = matrix_size(attributes=attributes, k=k), parities(attributes=attributes, k=k)
    largest = scale * math.sqrt(2 * spread(attributes=attributes, k=k) * math.log(2 * size / beta))
    return math.sqrt(2 * size * largest / many)


@checked(k=SETS)
def error(*, attributes: int, k: int, rho: float, rows: float, beta: float) -> float:
    """The bound for rho-zCDP and n rows, or about what noise alone has if that is less: a projection never hurts."""
    scale = math.sqrt(parities(attributes=attributes, k=k) / (2 * rho)) / rows
    return min(scale, root_mean_square(attributes=attributes, k=k, scale=scale, beta=beta))
