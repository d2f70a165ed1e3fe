"""Moves: how one row can change the values of a question, in whole numbers of its grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LARGEST = 2**28  # the most that one row can add to a value: sums over 3 * 2^32 rows fit in 64 bits


@dataclass(frozen=True, slots=True)
class Moves:
    """What one row adds to the values of a question: a whole number from `low` to `high`, to one of `cells` values.

    With `everywhere` every row falls into a cell; otherwise a row may fall into none and add nothing. With `gains` the
    values are contrasts of the cells: `gains` bounds the largest entry, the L1 norm and the squared L2 norm of what a
    row of weight 1 adds. With `once` a privacy unit adds at most 1 to a value, however many of its rows fall into it.
    """

    low: int
    high: int
    cells: int
    everywhere: bool = True
    gains: tuple[int, int, int] | None = None
    once: bool = False

    @property
    def size(self) -> int:
        """The largest absolute number, at least 1."""
        return max(1, abs(self.low), abs(self.high))

    @property
    def span(self) -> int:
        """The largest difference between two such numbers, counting 0 if a row may add nothing; at least 1."""
        return max(1, max(self.high, 0) - min(self.low, 0))


class Movable(Protocol):
    """A question, or its compiled form behind the wall."""

    @property
    def moves(self) -> Moves:
        """What one row adds to its values."""
