"""The Net mechanism: sizes of nets, and the error of SmallDB.

One exponential mechanism over a public net R of databases, score minus the largest error. Privacy: epsilon-DP and
epsilon^2/8-zCDP, for scores of sensitivity 1/rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maquette.theory.solve import RESOLUTIONS


@dataclass(frozen=True, kw_only=True)
class Net:
    """A choice of net: all multisets of `size` rows; `resolution` is its alpha0, `log_members` is ln|R|."""

    alpha: float
    resolution: float
    size: int
    log_members: float


def small_database_size(*, queries: int, alpha0: float) -> int:
    """Rows m of a small database that answers |Q| queries within alpha0: floor(ln(2|Q|) / (2 alpha0^2)) + 1.

    m random rows miss with probability at most 2|Q| exp(-2 m alpha0^2) < 1 (Hoeffding), so some m rows err by strictly
    less than alpha0. Corrected: the lecture's 8 ln|Q| / alpha^2 is 15 times larger; the book's ln|Q| / alpha^2 needs
    |Q| > 2 (erratum D6, Mechanisms §3.2).
    """
    return math.floor(math.log(2 * queries) / (2 * alpha0**2)) + 1


def log_multisets(universe: int, size: int) -> float:
    """ln C(N + m - 1, m), the number of multisets of m rows over N points; accurate for any N and m.

    >>> round(log_multisets(1024, 1521))  # against ln N^m = 10543
    1710
    """
    small, large = sorted((universe - 1, size))
    if large < 10**6:
        growth = math.lgamma(large + small + 1) - math.lgamma(large + 1)
    elif large < 2**100:
        # Stirling for both gammas; the large terms are subtracted by hand, to avoid cancellation.
        top, bottom = large + small + 1, large + 1
        growth = small * math.log(top) + (bottom - 0.5) * math.log1p(small / bottom) - small
        growth += 1 / (12 * top) - 1 / (12 * bottom)
    else:
        growth = small * math.log(large + small)
    return growth - math.lgamma(small + 1)


def net_accuracy(*, log_members: float, epsilon: float, rows: int, beta: float, optimum: float = 0.0) -> float:
    """Error of the Net mechanism, with probability 1 - beta: OPT + (2 / (epsilon n)) (ln|R| + ln(1 / beta)).

    Dwork and Roth, proposition 5.2; `optimum` is the error of the best member, at most alpha0 for an alpha0-net.
    Corrected: a net exists for normalised data of fixed size, not for all of N^X (erratum A5).
    """
    return optimum + 2 / (epsilon * rows) * (log_members + math.log(1 / beta))


def small_db(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> Net:
    """SmallDB with the best alpha0, counting multisets: min over alpha0 of alpha0 + (2 / (epsilon n)) ln(|R| / beta).

    Blum, Ligett and Roth; Dwork and Roth, section 4.1. Corrected: multisets instead of N^m tuples and the tight m;
    the published statements are `small_db_book` and `small_db_lecture`. Mechanisms §3.3.
    """

    def choose(alpha0: float) -> Net:
        size = small_database_size(queries=queries, alpha0=alpha0)
        members = log_multisets(universe, size)
        alpha = net_accuracy(log_members=members, epsilon=epsilon, rows=rows, beta=beta, optimum=alpha0)
        return Net(alpha=alpha, resolution=alpha0, size=size, log_members=members)

    return min(map(choose, RESOLUTIONS.tolist()), key=lambda net: net.alpha)


def small_db_closed_form(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """The same with ln|R| <= m ln N and m = ln(2|Q|) / (2 alpha0^2): 1.89 A^(1/3) + 2 ln(1 / beta) / (epsilon n).

    A = ln(2|Q|) ln N / (epsilon n), 1.89 = (27/4)^(1/3), at alpha0 = (2A)^(1/3). Mechanisms §3.3.
    """
    a = math.log(2 * queries) * math.log(universe) / (epsilon * rows)
    return math.cbrt(6.75 * a) + 2 * math.log(1 / beta) / (epsilon * rows)


def small_db_book(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """SmallDB as the book counts: N^m tuples, m = ln|Q| / alpha0^2, best alpha0. Dwork and Roth, theorem 4.5.

    Valid for |Q| > 2, and looser than `small_db`.
    """

    def error(alpha0: float) -> float:
        members = math.ceil(math.log(queries) / alpha0**2) * math.log(universe)
        return net_accuracy(log_members=members, epsilon=epsilon, rows=rows, beta=beta, optimum=alpha0)

    return min(map(error, RESOLUTIONS.tolist()))


def small_db_lecture(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """SmallDB as the lecture states it: (256 ln|Q| ln N / (epsilon n))^(1/3) + 8 ln(1 / beta) / (epsilon n).

    BLR+PMW lecture, theorem 5: valid, and looser than `small_db`.
    """
    a = math.log(queries) * math.log(universe) / (epsilon * rows)
    return math.cbrt(256 * a) + 8 * math.log(1 / beta) / (epsilon * rows)
