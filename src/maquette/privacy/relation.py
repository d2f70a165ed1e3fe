"""Relation: which tables are neighbours, and how far apart their answers can be.

A *unit* (a row, or a person with at most `max_contributions` = m rows) is protected.

* ``"add-remove"``: neighbours differ in the presence of one unit. The number of rows is private.
* ``"replace"``: neighbours differ in the rows of one unit. With m = 1 the number of rows is public.

All distances are in the integer grid of the question: weights are whole numbers w(x) in [0, W] (`Marginal.grid`),
and contrasts are whole-number combinations of such cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from maquette.errors import BudgetError

if TYPE_CHECKING:
    from maquette.query import Contrasts, Marginal

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

    def one_cell(self, question: Marginal | Contrasts) -> int:
        """How far any single value can move.

        m rows of weight at most W come, go, or change places; through contrasts a row moves a value either way, by at
        most its largest entry, so under replace the leaving and the entering row may add up.
        """
        marginal, (largest, _, _) = _gains(question)
        return self._rows(marginal) * largest * (1 if marginal is question else self._ends)

    def l1(self, question: Marginal | Contrasts) -> int:
        """L1 sensitivity of all values together.

        add-remove: m rows fall into the cells, so a marginal moves by at most m*W in total. replace: m rows leave and
        m rows enter, 2*m*W; a table of one cell moves by at most m*W, and by W - min w when m = 1, because then a row
        is exchanged for a row. Contrasts multiply what a row moves by at most their largest L1 column norm.
        """
        marginal, (_, gain, _) = _gains(question)
        moved = self._rows(marginal) * gain
        if self.kind == "add-remove" or marginal is not question or marginal.cells > 1:
            return moved * self._ends
        if self.max_contributions == 1 and all(isinstance(axis, str) for axis in marginal.axes):
            low, high = marginal.weight.whole_bounds
            return max(1, high - low)
        return moved

    def l2_squared(self, question: Marginal | Contrasts) -> int:
        """Squared L2 sensitivity of all values together.

        All m rows may share a cell, so (m*W)^2; under replace twice that, because rows that move to another cell are
        orthogonal to those they leave. Through contrasts they need not be: four times (m*W)^2 times the largest
        squared L2 column norm.
        """
        marginal, (_, _, gain) = _gains(question)
        moved = self._rows(marginal) ** 2 * gain
        if marginal is not question:
            return moved * self._ends**2
        return self.l1(marginal) ** 2 if marginal.cells == 1 else moved * self._ends

    @property
    def _ends(self) -> int:
        """A row that comes or goes has one end, a row that is replaced has two."""
        return 1 if self.kind == "add-remove" else 2

    def _rows(self, marginal: Marginal) -> int:
        return self.max_contributions * max(1, marginal.weight.whole_bounds[1])

    def __str__(self) -> str:
        rows = "row" if self.max_contributions == 1 else f"unit of up to {self.max_contributions} rows"
        return f"{self.kind} of one {rows}"


def _gains(question: Marginal | Contrasts) -> tuple[Marginal, tuple[int, int, int]]:
    """The marginal in question, and what contrasts make of a row: its largest entry, L1 and squared L2 norm."""
    from maquette.query import Contrasts

    if isinstance(question, Contrasts):
        return question.marginal, question.gains
    return question, (1, 1, 1)
