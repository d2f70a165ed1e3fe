"""The Net mechanism: sizes of nets, and the error of SmallDB.

One exponential mechanism over a public net R of databases, score minus the largest error. Privacy: epsilon-DP and
epsilon^2/8-zCDP, for scores of sensitivity 1/rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maquette.theory.arguments import checked
from maquette.theory.solve import RESOLUTIONS

_SUMMED = 64  # terms up to which a count of tables is summed exactly; a longer sum is bounded


@dataclass(frozen=True, kw_only=True)
class Net:
    """A choice of net: all multisets of `size` rows; `resolution` is its alpha0, `log_members` is ln|R|."""

    alpha: float
    resolution: float
    size: int
    log_members: float


@checked()
def small_database_size(*, queries: int, alpha0: float) -> int:
    """Rows m of a small database that answers |Q| queries within alpha0: floor(ln(2|Q|) / (2 alpha0^2)) + 1.

    m random rows miss with probability at most 2|Q| exp(-2 m alpha0^2) < 1 (Hoeffding), so some m rows err by strictly
    less than alpha0. Corrected: the lecture's 8 ln|Q| / alpha^2 is 15 times larger; the book's ln|Q| / alpha^2 needs
    |Q| > 2 (erratum D6, Mechanisms §3.2).
    """
    return math.floor(math.log(2 * queries) / (2 * alpha0**2)) + 1


@checked()
def vc_database_size(*, dimension: int, alpha0: float) -> int:
    """Rows m of a small database for any 0/1 queries of this VC dimension.

    The least m with 4 S(2m) e^(-m alpha0^2 / 8) < 1, where S(2m) <= (2em / d)^d for 2m >= d (Sauer). For queries
    without number; for a list that can be counted `small_database_size` is smaller. Vapnik and Chervonenkis 1971; Dwork
    and Roth, section 5.1; Mechanisms §3.2.2.

    >>> vc_database_size(dimension=1, alpha0=0.5), small_database_size(queries=1000, alpha0=0.5)
    (279, 16)
    """

    def enough(rows: int) -> bool:
        growth = dimension * math.log(2 * math.e * rows / dimension) if 2 * rows >= dimension else math.inf
        return math.log(4) + growth - rows * alpha0**2 / 8 < 0

    # Beyond 8 d / alpha0^2 rows the left side falls: the least such m is past its maximum.
    low = max(math.floor(8 * dimension / alpha0**2), (dimension + 1) // 2)
    high = low + 1
    while not enough(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@checked()
def dual_net(*, queries: int, steps: int, commuting: bool = False) -> float:
    """ln of the number of transcripts of T signed queries: the sum over t <= T of (2|Q|)^t.

    If updates commute, as multiplicative ones do, a table depends only on how often each query was raised, less how
    often it was lowered: whole vectors of L1 norm at most T, sum over k of 2^k C(|Q|, k) C(T, k) of them; for large
    numbers an upper bound of it. Dwork and Roth, section 5.3.1. Corrected: signs are part of a transcript (erratum
    A12). Mechanisms §3.2.4.

    >>> round(math.exp(dual_net(queries=3, steps=7))), round(math.exp(dual_net(queries=3, steps=7, commuting=True)))
    (335923, 575)
    """
    if not commuting:
        base = math.log(2 * queries)
        last = (steps + 1) * base
        return last + math.log1p(-math.exp(-last)) - math.log(2 * queries - 1) if steps else 0.0
    fewer = min(queries, steps)
    if fewer <= _SUMMED and max(queries, steps) <= _SUMMED**2:
        return math.log(sum(2**k * math.comb(queries, k) * math.comb(steps, k) for k in range(fewer + 1)))
    # At most as many terms as there are k, none above the peak, where 2 (|Q| - k) (T - k) = k^2.
    # Written without differences of large numbers, as the smaller root times the larger is 2 |Q| T.
    both = float(queries) + float(steps)
    peak = min(2 * queries * (steps / (both + math.sqrt(both**2 - 2 * float(queries) * steps))), float(fewer))
    return _log_choose(queries, peak) + _log_choose(steps, peak) + peak * math.log(2) + math.log(fewer + 1)


def _log_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@checked()
def dual_net_accuracy(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> Net:
    """The Net mechanism over the transcripts of multiplicative weights, at the best alpha0.

    T(alpha0) = ln N / (2 alpha0^2) updates, which commute. The roles of ln N and ln(2|Q|) in SmallDB are exchanged: T
    ln(2|Q|) here, m ln N there, and both are ln N ln(2|Q|) / (2 alpha0^2) before tables are told apart.
    """

    def choose(alpha0: float) -> Net:
        updates = math.floor(math.log(universe) / (2 * alpha0**2))
        members = dual_net(queries=queries, steps=updates, commuting=True)
        alpha = net_accuracy(log_members=members, epsilon=epsilon, rows=rows, beta=beta, optimum=alpha0)
        return Net(alpha=alpha, resolution=alpha0, size=updates, log_members=members)

    return min(map(choose, RESOLUTIONS[::3].tolist()), key=lambda net: net.alpha)


@checked()
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


@checked()
def net_accuracy(*, log_members: float, epsilon: float, rows: int, beta: float, optimum: float = 0.0) -> float:
    """Error of the Net mechanism, with probability 1 - beta: OPT + (2 / (epsilon n)) (ln|R| + ln(1 / beta)).

    Dwork and Roth, proposition 5.2; `optimum` is the error of the best member, at most alpha0 for an alpha0-net.
    Corrected: a net exists for normalised data of fixed size, not for all of N^X (erratum A5).
    """
    return optimum + 2 / (epsilon * rows) * (log_members + math.log(1 / beta))


@checked()
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


@checked()
def small_db_closed_form(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """The same with ln|R| <= m ln N and m = ln(2|Q|) / (2 alpha0^2): 1.89 A^(1/3) + 2 ln(1 / beta) / (epsilon n).

    A = ln(2|Q|) ln N / (epsilon n), 1.89 = (27/4)^(1/3), at alpha0 = (2A)^(1/3). Mechanisms §3.3.
    """
    a = math.log(2 * queries) * math.log(universe) / (epsilon * rows)
    return math.cbrt(6.75 * a) + 2 * math.log(1 / beta) / (epsilon * rows)


@checked()
def small_db_book(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """SmallDB as the book counts: N^m tuples, m = ln|Q| / alpha0^2, best alpha0. Dwork and Roth, theorem 4.5.

    Valid for |Q| > 2, and looser than `small_db`.
    """

    def error(alpha0: float) -> float:
        members = math.ceil(math.log(queries) / alpha0**2) * math.log(universe)
        return net_accuracy(log_members=members, epsilon=epsilon, rows=rows, beta=beta, optimum=alpha0)

    return min(map(error, RESOLUTIONS.tolist()))


@checked()
def small_db_lecture(*, universe: int, queries: int, epsilon: float, rows: int, beta: float) -> float:
    """SmallDB as the lecture states it: (256 ln|Q| ln N / (epsilon n))^(1/3) + 8 ln(1 / beta) / (epsilon n).

    BLR+PMW lecture, theorem 5: valid, and looser than `small_db`.
    """
    a = math.log(queries) * math.log(universe) / (epsilon * rows)
    return math.cbrt(256 * a) + 8 * math.log(1 / beta) / (epsilon * rows)
