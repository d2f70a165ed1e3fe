"""OfValues: what tables of the rows' own values have in common, beside tables of counted levels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from fractions import Fraction

from maquette.query.marginal import Marginal
from maquette.query.moves import Moves


class OfValues(Marginal):
    """For every cell, a sum of whole numbers that follow from the values of rows, each from `low` to `high`.

    A number is worth `step`, and the numbers are measured from `centre`.
    """

    step: Fraction
    low: int
    high: int
    centre: int

    @property
    @abstractmethod
    def summand(self) -> Hashable:
        """What is added up, whatever the cells: tables of one summand add up to each other."""

    @property
    def grid(self) -> int:
        """Whole numbers are added up."""
        return 1

    def _moves(self, *, missing: bool) -> Moves:
        """What one row adds to the cells; 0 is included if a row may be in no cell, or its value missing."""
        plain = Marginal(self.schema, self.axes, self.weight)
        everywhere = plain.moves.everywhere and self.weight.whole_bounds == (1, 1) and not missing
        low, high = self.low - self.centre, self.high - self.centre
        if not everywhere:
            low, high = min(low, 0), max(high, 0)
        return Moves(low, high, self.cells, everywhere=everywhere)
