"""Offer: what could be bought for one question, and what it would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from maquette.estimates import Columns


class Basis(NamedTuple):
    """How a part is measured: its key, and its gain for a question relative to that of the plain part."""

    key: Columns
    ratio: float


@dataclass(frozen=True)
class Purchase:
    """Precision to add to each part, its price in ledger units, and how many questions will share it.

    Precisions are in terms of the question's gains; `added` has them, and `parts` the prices, by the key to measure.
    """

    precisions: dict[Columns, float]
    prices: dict[Columns, int]
    reuse: dict[Columns, float]
    bases: dict[Columns, Basis]

    @property
    def parts(self) -> dict[Columns, int]:
        """Prices by key."""
        return {self.bases[part].key: units for part, units in self.prices.items()}

    @property
    def burden(self) -> float:
        """Price divided by expected reuse, summed over the parts."""
        return sum(units / self.reuse[part] for part, units in self.prices.items())

    @property
    def units(self) -> int:
        """The whole price."""
        return sum(self.prices.values())


@dataclass(frozen=True)
class Offer:
    """Parts to buy and parts to rent for one question, in ledger units; `burden` is the effective price."""

    precisions: dict[Columns, float]
    prices: dict[Columns, int]
    rents: dict[Columns, int]
    burden: float
    bases: dict[Columns, Basis]

    @property
    def units(self) -> int:
        """The whole price."""
        return sum(self.prices.values()) + sum(self.rents.values())


TOO_DEAR = Offer({}, {}, {}, math.inf, {})  # in place of one that nobody would take, so that it need not be found
