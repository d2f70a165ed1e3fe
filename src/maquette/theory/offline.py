"""Error of the offline iterative construction: the book's theorem with its constants corrected, and tighter ones.

All errors are fractions of rows, hold with probability 1 - beta, and assume queries of sensitivity 1/rows, under the
relation of that sensitivity. Privacy: the stated (epsilon, delta), delta 0 meaning a pure budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maquette.privacy import zcdp_rho
from maquette.theory.arguments import checked
from maquette.theory.selection import exponential_error
from maquette.theory.solve import RESOLUTIONS, fixed_point
from maquette.theory.updates import Updates

_SHARES = np.arange(1, 20) / 20


@dataclass(frozen=True, kw_only=True)
class Construction:
    """A promised error and its settings: resolution a' of the updates, rounds, share of the budget for selection."""

    alpha: float
    resolution: float
    rounds: int
    share: float


@checked()
def book_round_epsilon(*, rounds: float, epsilon: float, delta: float) -> float:
    """The epsilon of each of 2T accesses: epsilon / (2T), or epsilon / (4 sqrt(T ln(1/delta))) when delta > 0.

    Dwork and Roth, theorem 5.3. Corrected: the second form needs epsilon <= 1 (erratum A4); a larger epsilon is used as
    1.
    """
    if delta == 0:
        return epsilon / (2 * rounds)
    return min(epsilon, 1.0) / (4 * math.sqrt(rounds * math.log(1 / delta)))


@checked()
def book_requirement(*, rounds: float, queries: int, round_epsilon: float, rows: int, beta: float) -> float:
    """The alpha that the proof requires: max(8 ln(2T/beta) / (epsilon0 n), 8F), gamma = beta/2T.

    Dwork and Roth, theorems 5.4 and 5.5. Noise and F at most alpha/8 with threshold 3 alpha/4 and T(alpha/2) give
    alpha. The first term is at most half the second. Corrected: the lecture's 4 and 2F prove only 3 alpha/2
    (erratum E1).
    """
    gamma = beta / (2 * rounds)
    return 8 * exponential_error(candidates=queries, epsilon=round_epsilon, gamma=gamma, rows=rows)


@checked()
def book(*, updates: Updates, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> float:
    """Iterative construction with the book's parameters: the alpha that equals its requirement.

    Dwork and Roth, theorem 5.7. Corrected: substituting 5.3 into 5.4 gives 32 T(alpha/2) / (n epsilon) ln(2T|Q|/beta)
    and 64 sqrt(T(alpha/2) ln(1/delta)) / (n epsilon) ln(2T|Q|/beta), not 8 and 16 (erratum A1).
    """

    def requirement(alpha: float) -> float:
        rounds = max(1.0, updates(alpha / 2))
        each = book_round_epsilon(rounds=rounds, epsilon=epsilon, delta=delta)
        return book_requirement(rounds=rounds, queries=queries, round_epsilon=each, rows=rows, beta=beta)

    return fixed_point(requirement)


@checked()
def tight(*, updates: Updates, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """Iterative construction, optimised constants: alpha = a' + 2 Nb + F, minimised over a' and the selection share.

    Rounds floor(T(a')); Nb bounds all measurement noises, F all selections, each with probability 1 - beta/2; the
    threshold a' + Nb needs Nb < a'. Pure: Laplace measurements, epsilons add. Otherwise zCDP with Gaussian ones.
    Mechanisms §5.1.
    """
    resolution = RESOLUTIONS[:, None]
    # Beyond 1e60 rounds nothing is promised for any size, and an infinite number would become NaN below.
    rounds = np.clip(np.floor([updates(a) for a in RESOLUTIONS.tolist()]), 1, 1e60)[:, None]
    if delta == 0:
        selection = _SHARES * epsilon / rounds
        noise = rounds / ((1 - _SHARES) * epsilon * rows) * np.log(2 * rounds / beta)
    else:
        rho = zcdp_rho(epsilon, delta)
        selection = np.sqrt(8 * _SHARES * rho / rounds)
        deviation = np.sqrt(rounds / (2 * (1 - _SHARES) * rho)) / rows
        noise = deviation * np.sqrt(2 * np.log(4 * rounds / beta))
    choice = 2 / (rows * selection) * np.log(2 * rounds * queries / beta)
    alpha = np.where(noise < resolution, resolution + 2 * noise + choice, np.inf)
    best, share = np.unravel_index(np.argmin(alpha), alpha.shape)
    return Construction(
        alpha=float(alpha[best, share]),
        resolution=float(RESOLUTIONS[best]),
        rounds=int(rounds[best, 0]),
        share=float(_SHARES[share]),
    )


@checked()
def averaged(*, universe: int, queries: int, epsilon: float, delta: float, rows: int, beta: float) -> Construction:
    """Multiplicative weights on signed selections, averaged: sqrt(ln N / (2T)) + (2 / (n epsilon_s)) ln(2|Q|T/beta).

    No measurements and no threshold; the best T. Pure: epsilon_s = epsilon / T. Otherwise sqrt(8 rho / T), the
    exponential mechanism being epsilon_s^2/8-zCDP. Ullman's slides, with the average released instead of the last
    iterate (erratum C3), signed candidates (erratum C5) and the exponent halved (erratum C1). Mechanisms §5.3.
    """
    rounds = np.unique(np.floor(np.geomspace(1, 1e12, 3000)))
    selection = epsilon / rounds if delta == 0 else np.sqrt(8 * zcdp_rho(epsilon, delta) / rounds)
    regret = np.sqrt(math.log(universe) / (2 * rounds))
    alpha = regret + 2 / (rows * selection) * np.log(2 * queries * rounds / beta)
    best = int(np.argmin(alpha))
    return Construction(alpha=float(alpha[best]), resolution=float(regret[best]), rounds=int(rounds[best]), share=1.0)


@checked()
def averaged_closed_form(
    *, universe: int, queries: int, epsilon: float, delta: float, rows: int, beta: float, rounds: int
) -> float:
    """The same minimum with L = ln(2|Q|T/beta) held at the given T.

    Pure: 3 (ln N L / (4 n epsilon))^(1/3). zCDP: 2 (ln N / 2)^(1/4) sqrt(L / (n sqrt(2 rho))). Mechanisms §5.3.
    """
    log_term = math.log(2 * queries * rounds / beta)
    if delta == 0:
        return 3 * math.cbrt(math.log(universe) * log_term / (4 * rows * epsilon))
    rho = zcdp_rho(epsilon, delta)
    return 2 * math.sqrt(math.sqrt(math.log(universe) / 2) * log_term / (rows * math.sqrt(2 * rho)))
