"""Composition side by side: the epsilon of k accesses that are epsilon0-DP each, at a total delta.

For reading and for tests: the ledger adds integer units (`maquette.privacy`). All rules allow adaptive choices of
the mechanisms. Mechanisms §1.3.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from maquette.privacy import zcdp_epsilon
from maquette.theory.arguments import PROBABILITY, checked


@checked()
def basic(*, accesses: int, epsilon: float) -> float:
    """Sum of the epsilons, with delta 0. Dwork and Roth, corollary 3.15."""
    return accesses * epsilon


@checked(delta=PROBABILITY)
def advanced(*, accesses: int, epsilon: float, delta: float) -> float:
    """Strong composition: epsilon0 sqrt(2k ln(1/delta)) + k epsilon0 (e^epsilon0 - 1).

    Dwork, Rothblum and Vadhan; Dwork and Roth, theorem 3.20.
    """
    return epsilon * math.sqrt(2 * accesses * math.log(1 / delta)) + accesses * epsilon * math.expm1(epsilon)


@checked(delta=PROBABILITY)
def advanced_tight(*, accesses: int, epsilon: float, delta: float) -> float:
    """Strong composition with the exact mean loss: the second term becomes k epsilon0 tanh(epsilon0 / 2)."""
    drift = accesses * epsilon * math.tanh(epsilon / 2)
    return epsilon * math.sqrt(2 * accesses * math.log(1 / delta)) + drift


@checked()
def optimal_delta(*, accesses: int, epsilon: float, total_epsilon: float) -> float:
    """The exact delta at `total_epsilon`: k randomised responses are the worst case.

    Their loss is (k - 2l) epsilon0 with probability C(k, l) e^((k-l) epsilon0) / (1 + e^epsilon0)^k. Kairouz, Oh and
    Viswanath 2015, theorem 3.3.
    """
    lies = np.arange(accesses + 1)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, accesses + 1)))))
    choose = factorials[-1] - factorials - factorials[::-1]
    log_law = choose + (accesses - lies) * epsilon - accesses * np.logaddexp(0, epsilon)
    excess = np.maximum((accesses - 2 * lies) * epsilon - total_epsilon, 0)
    return float(np.exp(log_law) @ -np.expm1(-excess))


@checked()
def optimal(*, accesses: int, epsilon: float, delta: float) -> float:
    """The least total epsilon at delta that holds for any k epsilon0-DP accesses, by bisection."""
    low, high = 0.0, accesses * epsilon
    if optimal_delta(accesses=accesses, epsilon=epsilon, total_epsilon=low) <= delta:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        if optimal_delta(accesses=accesses, epsilon=epsilon, total_epsilon=middle) <= delta:
            high = middle
        else:
            low = middle
    return high


@checked()
def access_rho(kind: Literal["pure", "laplace", "selection"], epsilon: float) -> float:
    """Rho of one access: epsilon^2/2 if only pure DP is known, epsilon + e^-epsilon - 1 for continuous Laplace noise,
    epsilon^2/8 for an exponential mechanism.
    """
    if kind == "laplace":
        return epsilon + math.expm1(-epsilon)
    return epsilon**2 / (2 if kind == "pure" else 8)


@checked(delta=PROBABILITY)
def concentrated(
    *, accesses: int, epsilon: float, delta: float, kind: Literal["pure", "laplace", "selection"] = "pure"
) -> float:
    """zCDP: rho adds, then one tight conversion at delta. Bun and Steinke 2016; Canonne, Kamath and Steinke 2020."""
    return zcdp_epsilon(accesses * access_rho(kind, epsilon), delta)
