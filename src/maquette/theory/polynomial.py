"""Polynomials that are 0 at 0 and nearly 1 at 1..k: how few attributes it takes to answer "any of these k".

If t of k attributes hold for a row, OR is the step [t > 0]. A polynomial r of degree D that stays within gamma of the
step at 0, 1, ..., k turns a question about k attributes into questions about at most D of them, since r(t) is a sum of
products of at most D attributes. All of it is public arithmetic. Mechanisms §8.3, §8.4, §8.6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

Values = NDArray[np.float64]

_ROUNDING = 1e-9  # tolerance when a computed error decides whether a degree is enough


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial of at most `degree`, by its values at 0, 1, ..., k."""

    values: Values
    degree: int

    @property
    def k(self) -> int:
        """The largest number of attributes it is for."""
        return len(self.values) - 1

    @cached_property
    def error(self) -> float:
        """gamma: the largest distance from [t > 0] over t = 0..k."""
        return float(np.abs(self.values - (np.arange(len(self.values)) > 0)).max())

    @cached_property
    def newton(self) -> Values:
        """a_0..a_D with r(t) = sum_j a_j C(t, j): forward differences at 0.

        On attributes y the sum is sum_j a_j e_j(y), e_j the sum of all products of j of them. Rounding grows as 2^D.
        """
        differences, found = self.values[: self.degree + 1], []
        while len(differences):
            found.append(differences[0])
            differences = np.diff(differences)
        return np.array(found)

    @cached_property
    def parities(self) -> Values:
        """c_0..c_D with r(t) = sum over sets S of at most D of the k attributes of c_|S| (-1)^(number of S that hold).

        The same polynomial in the basis of parities: the values' expansion in Krawtchouk polynomials.
        """
        table = krawtchouk(self.k, self.k)
        ways = np.array([math.comb(self.k, t) for t in range(self.k + 1)], dtype=np.float64)
        spectrum: Values = (table.T @ (self.values * ways)) / (2.0**self.k * ways)
        return spectrum[: self.degree + 1]

    def weight(self, attributes: int) -> float:
        """W = sum_j |a_j| C(attributes, j): the L1 norm in products of attributes (or of blocks of them)."""
        return float(sum(abs(a) * math.comb(attributes, j) for j, a in enumerate(self.newton)))

    @property
    def amplification(self) -> float:
        """||a||_{2,k} = sqrt(sum_j a_j^2 C(k, j)): how much r amplifies independent noise on every product."""
        return math.sqrt(sum(a**2 * math.comb(self.k, j) for j, a in enumerate(self.newton) if j))

    @property
    def parity_amplification(self) -> float:
        """sqrt(sum over S not empty of c_S^2): how much r amplifies independent noise on every parity.

        By Parseval it is the standard deviation of r over uniform attributes, at most sqrt(2^-k + gamma^2) + gamma: far
        below `amplification` at the same price, since a product and a parity both move by one with one row.
        """
        return math.sqrt(sum(c**2 * math.comb(self.k, s) for s, c in enumerate(self.parities) if s))


def exact(k: int) -> Polynomial:
    """OR itself, of degree k: a_j = (-1)^(j+1).

    >>> exact(3).newton.tolist()
    [0.0, 1.0, -1.0, 1.0]
    """
    return Polynomial((np.arange(_whole(k) + 1) > 0).astype(np.float64), k)


def chebyshev(k: int, degree: int) -> Polynomial:
    """r(t) = 1 - T_D((k + 1 - 2t) / (k - 1)) / T_D((k + 1) / (k - 1)), T_D Chebyshev's polynomial of degree D.

    r(0) = 0, and |r(t) - 1| <= 1 / T_D((k + 1) / (k - 1)) for every real t in [1, k].
    """
    _whole(k), _whole(degree)
    if k == 1:
        return Polynomial(np.array([0.0, 1.0]), 1)
    points = (k + 1 - 2 * np.arange(k + 1)) / (k - 1)
    values = _chebyshev_values(degree, points)
    return Polynomial(1 - values / values[0], degree)


def chebyshev_error(k: int, degree: int) -> float:
    """The bound 1 / T_D((k + 1) / (k - 1)) on the error of `chebyshev`."""
    return 0.0 if k == 1 else 1 / math.cosh(degree * math.acosh((k + 1) / (k - 1)))


def chebyshev_degree(k: int, gamma: float) -> int:
    """D = ceil(arccosh(1 / gamma) / arccosh((k + 1) / (k - 1))), about sqrt(k - 1) ln(2 / gamma) / 2.

    It promises gamma for every real t; the integers never need more than k (`exact`).

    >>> chebyshev_degree(100, 0.01)
    27
    """
    _whole(k), _fraction(gamma)
    return 1 if k == 1 else math.ceil(math.acosh(1 / gamma) / math.acosh((k + 1) / (k - 1)) - 1e-12)


@cache
def least_error(k: int, degree: int) -> Polynomial:
    """The polynomial with r(0) = 0 that has the least error on the integers 1..k, by linear programming."""
    if degree >= _whole(k):
        return exact(k)
    from scipy.optimize import linprog

    basis = np.polynomial.chebyshev.chebvander(2 * np.arange(k + 1) / k - 1, _whole(degree))
    rows = np.hstack([basis[1:], -np.ones((k, 1))])
    mirrored = np.hstack([-basis[1:], -np.ones((k, 1))])
    found = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.vstack([rows, mirrored]),
        b_ub=np.r_[np.ones(k), -np.ones(k)],
        A_eq=np.r_[basis[0], 0.0][None, :],
        b_eq=[0.0],
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
        method="highs",
    )
    return Polynomial(basis @ found.x[:-1], degree)


def least_degree(k: int, gamma: float) -> int:
    """The least degree whose error on the integers is at most gamma.

    >>> least_degree(100, 0.01), least_degree(10, 0.1)
    (25, 5)
    """
    _fraction(gamma)
    low, high = 0, _whole(k)  # the error falls with the degree
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if least_error(k, middle).error <= gamma + _ROUNDING else (middle, high)
    return high


@cache
def least_weight(k: int, degree: int, attributes: int, gamma: float) -> Polynomial | None:
    """The polynomial with r(0) = 0 and error at most gamma whose `weight(attributes)` is least; None if there is none.

    Coefficients of products of more than `attributes` attributes are free and do not count.
    """
    from scipy.optimize import linprog

    _whole(k), _whole(degree)
    columns = range(1, degree + 1)
    table = np.array([[math.comb(t, j) for j in columns] for t in range(k + 1)], dtype=np.float64)
    costs = np.array([math.comb(attributes, j) for j in columns], dtype=np.float64)
    signed = np.hstack([table[1:], -table[1:]])
    found = linprog(
        np.r_[costs, costs] / costs.max(),
        A_ub=np.vstack([signed, -signed]),
        b_ub=np.r_[np.full(k, 1 + gamma), np.full(k, gamma - 1)],
        bounds=[(0, None)] * (2 * degree),
        method="highs",
    )
    if found.status != 0:
        return None
    return Polynomial(table @ (found.x[:degree] - found.x[degree:]), degree)


def least_interval(k: int, noise: tuple[float, ...]) -> Polynomial:
    """The polynomial with r(0) = 0 for which error plus noise is least, in the basis of parities.

    `noise[s - 1]` is what one unit of sqrt(C(k, s)) c_s adds to the half width, for s = 1..D; c_0 has no noise. Both
    are linear in the coefficients and their absolute values, so one linear program finds bias, noise and the levels
    worth measuring together. A free r(0) would lower the promise little (1/16 instead of 1/15 at k = 4, D = 3) and be
    worse in practice, where most rows have none of the attributes.
    """
    degree = min(len(noise), _whole(k))
    scale = np.sqrt([math.comb(k, s) for s in range(degree + 1)])
    basis = krawtchouk(k, degree) / scale  # orthogonal columns of comparable size
    signed = np.hstack([basis, -basis])
    step = (np.arange(k + 1) > 0).astype(np.float64)
    costs = np.r_[0.0, noise[:degree]]
    found = _solved(
        np.r_[costs, costs, 1.0],
        A_ub=np.vstack([np.c_[signed, -np.ones(k + 1)], np.c_[-signed, -np.ones(k + 1)]]),
        b_ub=np.r_[step, -step],
        A_eq=np.r_[signed[0], 0.0][None, :],
        b_eq=[0.0],
        bounds=[(0, None)] * (2 * degree + 3),
    )
    coefficients = found[: degree + 1] - found[degree + 1 : 2 * degree + 2]
    used = np.flatnonzero(np.abs(coefficients) > _ROUNDING)
    return Polynomial(basis @ coefficients, int(used.max(initial=0)))


def _solved(costs: Values, **program: Any) -> Values:
    """The solution of a linear program that has one; HiGHS with presolve may give up where costs are near 1e-12."""
    from scipy.optimize import linprog

    found = linprog(costs, method="highs", **program)
    if found.x is None:
        found = linprog(costs, method="highs", options={"presolve": False}, **program)
    solution: Values = found.x
    return solution


@cache
def _krawtchouk(k: int, degree: int) -> Values:
    def entry(t: int, s: int) -> int:
        return sum((-1) ** j * math.comb(t, j) * math.comb(k - t, s - j) for j in range(min(s, t) + 1))

    table = np.array([[entry(t, s) for s in range(degree + 1)] for t in range(k + 1)], dtype=np.float64)
    table.flags.writeable = False
    return table


def krawtchouk(k: int, degree: int) -> Values:
    """K_s(t), t = 0..k by s = 0..degree: the sum of all parities of s of k attributes when t of them hold."""
    return _krawtchouk(_whole(k), degree)


def _chebyshev_values(degree: int, points: Values) -> Values:
    inside = np.cos(degree * np.arccos(np.clip(points, -1, 1)))
    outside = np.cosh(degree * np.arccosh(np.maximum(points, 1.0)))
    values: Values = np.where(points > 1, outside, inside)
    return values


def _whole(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise QueryError(f"got {number!r}", expected="a whole number of attributes or a degree of at least 1")
    return number


def _fraction(gamma: float) -> float:
    if not 0 < gamma < 1:
        raise QueryError(f"gamma is {gamma!r}", expected="a number between 0 and 1, the distance allowed from OR")
    return gamma
