"""Moves: what one row can do to the values of a question, in whole numbers of its grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LARGEST = 2**28  # what one row can add to any value, so that sums over 2^32 rows stay well within 64 bits


@dataclass(frozen=True, slots=True)
class Moves:
    """What one row adds to the values of a question: a whole number from `low` to `high`, to one of `cells` values.

    With `everywhere` every row falls into a cell; otherwise it may fall into none, and add nothing. With `gains` the
    cells are seen through contrasts: what a row of weight 1 then adds has at most this largest entry, L1 norm and
    squared L2 norm.
    """

    low: int
    high: int
    cells: int
    everywhere: bool = True
    gains: tuple[int, int, int] | None = None

    @property
    def size(self) -> int:
        """The largest absolute number, at least 1."""
        return max(1, abs(self.low), abs(self.high))

    @property
    def span(self) -> int:
        """How far apart two numbers can be, one of which may be the 0 of a row that is not there; at least 1."""
        return max(1, max(self.high, 0) - min(self.low, 0))


class Movable(Protocol):
    """A question, or what the wall made of it."""

    @property
    def moves(self) -> Moves:
        """What one row adds to its values."""
