"""Worst cell: a private selection among all cells of some tables, by how far a public answer is off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from maquette.curator import Curator, Mechanism
from maquette.distinguisher.api import Pointed
from maquette.privacy import Accountant
from maquette.query import Marginal


@dataclass(frozen=True)
class WorstCell:
    """The exponential mechanism or permute-and-flip on the error of every cell.

    Absolute errors give F = (2 / (n epsilon)) ln(|Q| / gamma). Signed errors have twice the candidates and also give
    the direction, so that an update needs no measurement. Privacy: one `Curator.select_worst`. The exponential
    mechanism has bounded range, epsilon^2/8-zCDP: the choice for many rounds under zCDP. Permute-and-flip never errs
    more in expectation but is only epsilon^2/2-zCDP: the choice for pure budgets and single selections. Mechanisms §2.
    """

    mechanism: Mechanism = "exponential"
    signed: bool = False

    def point(
        self,
        curator: Curator,
        tables: Sequence[Marginal],
        answers: Sequence[ArrayLike],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
    ) -> Pointed:
        """Point at a cell of `tables` where the public `answers` (in counts) are wrong."""
        worst = curator.select_worst(
            tables, answers, epsilon=epsilon, rho=rho, units=units, mechanism=self.mechanism, signed=self.signed
        )
        return Pointed(tables[worst.index].query(worst.cell or ()), worst.sign, worst.cost)

    def error(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """F, in rows: the error it points at is at most F below the largest, except with probability gamma.

        From public numbers. Public answers are rounded to whole counts before they are compared, which moves each of
        two scores by half a row.
        """
        buys = accountant.pure_epsilon if self.mechanism == "permute-and-flip" else accountant.selection_epsilon
        candidates = queries * (2 if self.signed else 1)
        return 2 * moves / buys(units) * math.log(candidates / gamma) + 1
