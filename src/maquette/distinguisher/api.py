"""Distinguisher: the contract for finding the query on which a model errs most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from maquette.curator import Curator
from maquette.privacy import Accountant, Loss
from maquette.query import LinearQuery, Marginal


@dataclass(frozen=True)
class Pointed:
    """A query on which the model errs and, if known, the direction: +1 if the model's answer is too small."""

    query: LinearQuery
    sign: int | None
    cost: Loss


class Distinguisher(Protocol):
    """An (F, gamma)-distinguisher: with probability 1 - gamma its query's error is at least the largest one minus F."""

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

    def error(self, accountant: Accountant, *, units: int, queries: int, moves: int, gamma: float) -> float:
        """F, in rows: the error it points at is at most F below the largest, except with probability gamma.

        From public numbers: `units` of this accountant, and `queries` cells, each moved by at most `moves` by a privacy
        unit.
        """
