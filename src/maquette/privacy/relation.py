"""Relation: which tables are neighbours, and the sensitivity of questions.

A *unit* (a row, or a person with at most `max_contributions` = m rows) is protected.

* ``"add-remove"``: neighbours differ in the presence of one unit. The number of rows is private.
* ``"replace"``: neighbours differ in the rows of one unit. With m = 1 the number of rows is public.

All sensitivities are in the integer grid of the question. `Moves` says how one row changes the question's values;
nothing else of the question is read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maquette.errors import BudgetError
from maquette.query import Movable, Moves

Kind = Literal["add-remove", "replace"]


def rows_counted(unit: str | None, max_contributions: int) -> str | None:
    """How many rows of one unit are counted, in words; None if each row is a unit.

    >>> rows_counted("patient", 5)
    'at most 5 rows per patient are counted'
    """
    if unit is None:
        return None
    many = f"{max_contributions:,} rows per {unit} are" if max_contributions > 1 else f"one row per {unit} is"
    return f"at most {many} counted"


@dataclass(frozen=True)
class Relation:
    """A neighbouring relation; every door computes its sensitivity here and nowhere else."""

    kind: Kind = "add-remove"
    max_contributions: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("add-remove", "replace"):
            raise BudgetError(f"the relation is {self.kind!r}", expected='"add-remove" or "replace"')
        if self.max_contributions < 1:
            raise BudgetError(f"max_contributions is {self.max_contributions}", expected="1 or more")

    @property
    def rows_are_public(self) -> bool:
        """Whether the number of rows is public: replacing one row by one row never changes it."""
        return self.kind == "replace" and self.max_contributions == 1

    def one_cell(self, question: Movable) -> int:
        """Sensitivity of a single value.

        add-remove: m rows of size at most W are added or removed, m*W. replace: each may be exchanged for another, m
        times their span, which is m*W if numbers are not negative. With contrasts a row changes a value up or down, by
        at most the largest entry, so under replace the changes by the leaving and the entering row may add up.
        """
        moves = question.moves
        if moves.once:
            return 1
        if moves.gains is not None:
            return self.max_contributions * moves.size * moves.gains[0] * self._ends
        return self.max_contributions * (moves.size if self.kind == "add-remove" else moves.span)

    def l1(self, question: Movable) -> int:
        """L1 sensitivity of all values together.

        add-remove: m rows fall into the cells, so a table changes by at most m*W in total. replace: m rows leave and m
        rows enter, 2*m*W. A table of one cell changes by at most m times the span, and by high - low if m = 1 and every
        row is in the cell, because then one row is exchanged for another. Contrasts multiply the change by one row by
        at most their largest L1 column norm.
        """
        moves = question.moves
        if moves.once:
            return self._entered(moves)
        moved = self.max_contributions * moves.size * (1 if moves.gains is None else moves.gains[1])
        if self.kind == "add-remove" or moves.gains is not None or moves.cells > 1:
            return moved * self._ends
        if self.max_contributions == 1 and moves.everywhere:
            return max(1, moves.high - moves.low)
        return self.max_contributions * moves.span

    def l2_squared(self, question: Movable) -> int:
        """Squared L2 sensitivity of all values together.

        All m rows may share a cell, so (m*W)^2. Under replace, a row that moves to another cell changes two cells, 2
        W^2, and a row that stays in its cell changes it by the span: m^2 times the larger. With contrasts the two
        changes need not be orthogonal: four times (m*W)^2 times the largest squared L2 column norm.
        """
        moves = question.moves
        if moves.once:
            return self._entered(moves)
        if moves.gains is not None:
            return (self.max_contributions * moves.size * self._ends) ** 2 * moves.gains[2]
        if moves.cells == 1:
            return self.l1(question) ** 2
        row = moves.size**2 if self.kind == "add-remove" else max(2 * moves.size**2, moves.span**2)
        return self.max_contributions**2 * row

    def _entered(self, moves: Moves) -> int:
        """How many values one unit changes, each by 1, where units are counted.

        add-remove: a unit of m rows enters at most m cells, and no more than there are. replace: one unit leaves its
        cells and another enters its own, at most 2*m of them; a cell that both are in does not change. Changes are 0,
        1 or -1, so this is the L1 sensitivity and the square of the L2 sensitivity.
        """
        return min(self.max_contributions * self._ends, moves.cells)

    @property
    def _ends(self) -> int:
        """1 under add-remove; 2 under replace, where one row leaves and another enters."""
        return 1 if self.kind == "add-remove" else 2

    def __str__(self) -> str:
        rows = "row" if self.max_contributions == 1 else f"unit of up to {self.max_contributions} rows"
        return f"{self.kind} of one {rows}"
