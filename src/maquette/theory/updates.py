"""T(alpha): how many updates a database update algorithm can make on queries it errs on by alpha or more.

Data and errors are normalised (fractions of rows). An update is post-processing: it costs no privacy. For mirror
descent with a potential of strong convexity s, T(alpha) = 2 sup B(x, D1) max |f|^2 / (s alpha^2). Mechanisms §4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from maquette.theory.arguments import checked
from maquette.theory.net import log_multisets, small_database_size
from maquette.theory.solve import power

Updates = Callable[[float], float]


@checked()
def multiplicative_weights(universe: int, alpha: float) -> float:
    """Multiplicative weights with step 4 alpha: ln N / (2 alpha^2).

    The divergence from the data falls by eta alpha - eta^2/8 (Hoeffding). Corrected: the book's step alpha/2 gives
    eight times as many (erratum A14).
    """
    return math.log(universe) / (2 * alpha**2)


@checked()
def multiplicative_weights_book(universe: int, alpha: float) -> float:
    """Multiplicative weights with step alpha/2: 4 ln N / alpha^2. Dwork and Roth, theorem 4.10."""
    return 4 * math.log(universe) / alpha**2


@checked()
def multiplicative_weights_prior(log_ratio: float, alpha: float) -> float:
    """Multiplicative weights from a public prior p0, step 4 alpha: K / (2 alpha^2), K = max ln(1 / p0)."""
    return log_ratio / (2 * alpha**2)


@checked()
def multiplicative_weights_range(universe: int, alpha: float, width: float) -> float:
    """Multiplicative weights on queries of range `width`, step 4 alpha / width^2: width^2 ln N / (2 alpha^2)."""
    return width**2 * math.log(universe) / (2 * alpha**2)


@checked()
def perceptron(universe: int, alpha: float, norm: float = 1.0, query_norm: float | None = None) -> float:
    """Perceptron from zero: norm^2 query_norm^2 / alpha^2, public bounds on |x|_2 / |x|_1 and |f|_2 <= sqrt(N).

    Dwork and Roth, theorem 5.11, with steps alpha/N. Corrected: alpha is normalised there (erratum A9), and the norm of
    the data is private, so only a public bound may enter (erratum A3).
    """
    return p_norm(universe, alpha, 2.0, norm, query_norm)


@checked()
def p_norm(universe: int, alpha: float, p: float, norm: float = 1.0, query_norm: float | None = None) -> float:
    """Mirror descent with the p-norm, 1 < p <= 2, q = p / (p - 1): norm^2 query_norm^2 / ((p - 1) alpha^2).

    `norm` bounds |x|_p / |x|_1, `query_norm` |f|_q, by default N^(1/q). p = 2 is the perceptron; p = 1 + 1/ln N gives
    at most e^2 ln N / alpha^2. Jain and Thakurta 2012; Mechanisms §4.2.

    >>> [round(p_norm(13_000, 0.1, 2.0, norm)) for norm in (1.0, 0.05)]
    [1300000, 3250]
    """
    queries = power(universe, 2 * (p - 1) / p) if query_norm is None else query_norm**2
    return norm**2 * queries / ((p - 1) * alpha**2)


@checked()
def default_p(universe: int) -> float:
    """1 + 1/ln N, at most 2: the order at which mirror descent behaves as multiplicative weights."""
    return 1.0 + 1.0 / max(1.0, math.log(universe))


@checked()
def median(log_members: float) -> int:
    """The median algorithm on a net strictly finer than alpha: floor(log2 |R|), given ln|R|.

    Dwork and Roth, theorem 5.8. Corrected: base 2, as every update halves the net (erratum A7); a net exactly as coarse
    as alpha can lose its last consistent member to a tie (erratum A6). A tiny excess avoids rounding down powers of
    two.
    """
    return math.floor(log_members / math.log(2) + 1e-9)


@checked()
def median_small_databases(universe: int, queries: int, alpha: float) -> int:
    """The median algorithm on small databases, for linear queries: log2 C(N + m - 1, m), m for alpha0 = alpha.

    Corrected: ln(2|Q|) / (2 alpha^2) log2 N at most, not log|Q| log|X| / alpha^2 (erratum A8). The m rows err by
    strictly less than alpha, so the net is fine enough.
    """
    return median(log_multisets(universe, small_database_size(queries=queries, alpha0=alpha)))


@checked()
def frieze_kannan(vertices: int, edges: int, alpha: float) -> float:
    """Cut decomposition of a simple graph: |V|^2 / (m alpha^2). Mechanisms §4.6."""
    return vertices**2 / (edges * alpha**2)


@checked()
def sparse(support: int, alpha: float) -> int:
    """Multiplicative weights on queries with at most `support` points: least T >= 1 with T >= ln(mT + 1)/(2 alpha^2).

    For any universe, even an infinite one. Mechanisms §4.7.

    >>> sparse(20, 0.1)
    456
    """

    def enough(updates: int) -> bool:
        return updates >= math.log(support * updates + 1) / (2 * alpha**2)

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    # The logarithm is concave, so if T is enough, every larger T is too.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@checked()
def separable(levels: int, alpha: float) -> float:
    """One histogram of `levels` cells per column, for sums over columns: ln s / (2 alpha^2), for any number of columns.

    Mechanisms §4.8.
    """
    return math.log(levels) / (2 * alpha**2)
