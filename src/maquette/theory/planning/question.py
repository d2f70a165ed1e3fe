"""What a plan is about: the public facts a promise depends on, and a promised bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from maquette.privacy import zcdp_rho

WIDEST = 20  # most columns of a table that a plan considers


@dataclass(frozen=True, kw_only=True)
class Question:
    """The public facts a promise depends on.

    `sizes` are those of the schema's columns; without a schema, two-level columns make about this universe.
    `p`, `norm` and `query_norm` are for mirror descent: public bounds on the norms of the table and of every query.
    """

    rows: int
    universe: int
    queries: int
    epsilon: float
    delta: float
    beta: float
    relation: Literal["replace", "add-remove"]
    sizes: tuple[int, ...] | None = None
    p: float | None = None
    norm: float = 1.0
    query_norm: float | None = None

    @property
    def rho(self) -> float:
        """The zCDP budget that (epsilon, delta) buys."""
        return zcdp_rho(self.epsilon, self.delta)

    @property
    def columns(self) -> tuple[int, ...]:
        """The size of each column."""
        return self.sizes or (2,) * max(1, round(math.log2(self.universe)))

    @property
    def order(self) -> tuple[int, int]:
        """The least k for which all tables of k columns have this many cells, and how many such tables there are."""
        return _order(self.columns, self.queries)


@lru_cache(maxsize=2**8)
def _order(columns: tuple[int, ...], queries: int) -> tuple[int, int]:
    most = min(len(columns), WIDEST)
    sums = [1, *[0] * most]  # elementary symmetric polynomials of the sizes: cells of all tables of k columns
    for size in columns:
        for k in range(most, 0, -1):
            sums[k] += size * sums[k - 1]
    found = next((k for k in range(1, most + 1) if sums[k] >= queries), most)
    return found, math.comb(len(columns), found)


class Bound(NamedTuple):
    """A promised error, with the rounds of a loop and ln of the size of a net where they apply."""

    error: float
    rounds: int = 1
    log_members: float = 0.0


def magnitude(number: int) -> str:
    """A whole number as people read it: 1,048,576 or about 10^60."""
    return f"{number:,}" if number < 10**12 else f"10^{math.log10(number):.3g}"
