"""Regret of multiplicative weights: what it loses, over T rounds, beyond the best distribution in hindsight.

In round t a distribution D_t over N experts meets losses L_t in [0, 1]^N and loses <D_t, L_t>. For every distribution D
the sum of <D_t - D, L_t> over T rounds is at most sqrt(T ln N / 2) at the best rate, for both forms of the update:

    D_(t+1) ~ D_t exp(-eta L_t)          and, as on the slides,          D_(t+1) ~ D_t (1 - r L_t),  r = 1 - exp(-eta).

Proof for both. The divergence KL(D | D_t) falls by <D, ln m> - ln <D_t, m>, m the multipliers. The logarithm is
concave, so ln(1 - r f) >= f ln(1 - r) = -eta f for f in [0, 1]: the first term is at least -eta <D, L_t>. The second:
with q = <D_t, L_t>, <D_t, m> is 1 - r q for the linear form, and at most that for the exponential one (its chord); 1 -
r q = E exp(-eta B) for B with mean q in {0, 1}, at most exp(-eta q + eta^2 / 8) (Hoeffding). So the divergence falls by
eta <D_t - D, L_t> - eta^2 / 8 or more, it starts at ln N at most, and is never negative. The printed sqrt(T log|X|) is
thus true of the linear form, for losses that are not 0 or 1 too; Mechanisms §4.3 and erratum C4 give it twice as much.
Reference: Ullman's slides, after Littlestone and Warmuth.
"""

from __future__ import annotations

import math

from maquette.theory.arguments import checked


@checked()
def least(*, universe: int, rounds: int) -> float:
    """sqrt(T ln N / 2), the regret over T rounds at the best rate."""
    return math.sqrt(rounds * math.log(universe) / 2)


@checked()
def at_rate(*, universe: int, rounds: int, eta: float) -> float:
    """ln N / eta + T eta / 8, the regret over T rounds at the rate eta of the exponential form."""
    return math.log(universe) / eta + rounds * eta / 8 if eta else math.inf


@checked()
def best_rate(*, universe: int, rounds: int) -> float:
    """sqrt(8 ln N / T), the rate eta with the least bound."""
    return math.sqrt(8 * math.log(universe) / rounds)


@checked()
def linear_rate(*, eta: float) -> float:
    """r = 1 - exp(-eta), the rate of the linear form (1 - r L) that multiplies by exp(-eta) where the loss is 1."""
    return -math.expm1(-eta)
