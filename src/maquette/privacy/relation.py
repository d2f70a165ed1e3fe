"""Relation: which tables are neighbours, and how far apart their answers can be.

A *unit* (a row, or a person with at most `max_contributions` = m rows) is protected.

* ``"add-remove"``: neighbours differ in the presence of one unit. The number of rows is private.
* ``"replace"``: neighbours differ in the rows of one unit. With m = 1 the number of rows is public.

All distances are in the integer grid of the question: weights are whole numbers w(x) in [0, W] (`Marginal.grid`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from maquette.errors import BudgetError

if TYPE_CHECKING:
    from maquette.query import Marginal

Kind = Literal["add-remove", "replace"]


@dataclass(frozen=True)
class Relation:
    """A neighbouring relation; every door computes its sensitivity here and nowhere else."""

    kind: Kind = "add-remove"
    max_contributions: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("add-remove", "replace"):
            raise BudgetError(f'the relation must be "add-remove" or "replace", got {self.kind!r}')
        if self.max_contributions < 1:
            raise BudgetError(f"max_contributions must be at least 1, got {self.max_contributions}")

    @property
    def rows_are_public(self) -> bool:
        """Replacing one row by one row never changes how many there are."""
        return self.kind == "replace" and self.max_contributions == 1

    def one_cell(self, marginal: Marginal) -> int:
        """How far any single cell can move: m rows of weight at most W come, go, or change places."""
        return max(1, self.max_contributions * self._top(marginal))

    def l1(self, marginal: Marginal) -> int:
        """L1 sensitivity of the whole table.

        add-remove: m rows fall into the cells, so the table moves by at most m*W in total. replace: m rows leave
        and m rows enter, 2*m*W; a table of one cell moves by at most m*W, and by W - min w when m = 1, because
        then a row is exchanged for a row.
        """
        if self.kind == "add-remove":
            return self.one_cell(marginal)
        if marginal.cells > 1:
            return 2 * self.one_cell(marginal)
        if self.max_contributions == 1 and all(isinstance(axis, str) for axis in marginal.axes):
            return max(1, self._top(marginal) - self._bottom(marginal))
        return self.one_cell(marginal)

    def l2_squared(self, marginal: Marginal) -> int:
        """Squared L2 sensitivity: all m rows may share a cell, so (m*W)^2, twice that when they move to another."""
        if self.kind == "replace" and marginal.cells > 1:
            return 2 * self.one_cell(marginal) ** 2
        return self.l1(marginal) ** 2

    def _top(self, marginal: Marginal) -> int:
        return round(marginal.weight.bounds[1] * marginal.grid)

    def _bottom(self, marginal: Marginal) -> int:
        return round(marginal.weight.bounds[0] * marginal.grid)

    def __str__(self) -> str:
        rows = "row" if self.max_contributions == 1 else f"unit of up to {self.max_contributions} rows"
        return f"{self.kind} of one {rows}"
