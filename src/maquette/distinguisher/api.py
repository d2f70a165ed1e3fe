"""Distinguisher: the contract of whoever points at the query on which a model errs most."""

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
    """A query on which the model errs, and if known the direction: +1 where the model says too little."""

    query: LinearQuery
    sign: int | None
    cost: Loss


class Distinguisher(Protocol):
    """An (F, gamma)-distinguisher: with probability 1 - gamma its query errs by the largest error less F."""

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
        """F, in rows: how far below the largest error it points, except with probability gamma, from public numbers.

        For ledger units of this accountant, among `queries` cells, each of which a privacy unit moves by `moves`.
        """
