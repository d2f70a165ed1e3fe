"""Utility of private selection: the error F(epsilon, gamma) of a distinguisher.

A distinguisher returns a query whose error is within F of the largest, except with probability gamma. Scores are
fractions of the rows, of sensitivity 1/rows.
"""

from __future__ import annotations

import math

from maquette.theory.arguments import checked


@checked()
def exponential_error(*, candidates: float, epsilon: float, gamma: float, rows: int) -> float:
    """F of the exponential mechanism: (2 / (n epsilon)) ln(|R| / gamma).

    Privacy: epsilon-DP and, its range being bounded, epsilon^2/8-zCDP. Dwork and Roth, theorem 5.5, correct as
    printed; signed candidates count twice. Mechanisms §2.1.
    """
    return 2 / (rows * epsilon) * math.log(candidates / gamma)


@checked()
def permute_and_flip_error(*, candidates: float, epsilon: float, gamma: float, rows: int) -> float:
    """F of permute-and-flip: that of the exponential mechanism, which it never exceeds.

    Privacy: epsilon-DP and epsilon^2/2-zCDP: its range is not bounded, so it is for one-shot pure budgets.
    McKenna and Sheldon 2020; Mechanisms §2.2.
    """
    return exponential_error(candidates=candidates, epsilon=epsilon, gamma=gamma, rows=rows)


@checked()
def noisy_max_error(*, candidates: float, epsilon: float, gamma: float, rows: int) -> float:
    """F of report-noisy-max with noise Lap(2 / (n epsilon)): (4 / (n epsilon)) ln(|R| / gamma).

    Privacy: epsilon-DP and epsilon^2/2-zCDP. The best and the chosen noise may err in opposite directions, hence
    twice the exponential mechanism. Mechanisms §2.2.
    """
    return 4 / (rows * epsilon) * math.log(candidates / gamma)
