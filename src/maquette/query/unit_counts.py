"""UnitCounts: the number of privacy units in each cell of a table, not of their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property

from maquette.errors import QueryError
from maquette.query import forms
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.moves import Moves
from maquette.schema import Schema


class UnitCounts(Marginal):
    """For every cell of `axes`, how many privacy units have a row in it for which `where` holds.

    A unit of several rows is counted once in every cell that it enters, so cells do not add up to the total: what is
    asked is measured, and never derived from another table.

    Privacy: a unit enters at most as many cells as rows are kept of it, and changes each by 1 (`Relation`).

    >>> from maquette import Boolean, Schema
    >>> UnitCounts(Schema([Boolean("smoker")]), ["smoker"]).moves.once
    True
    """

    def __init__(self, schema: Schema, axes: Iterable[Axis] = (), where: LinearQuery | None = None) -> None:
        super().__init__(schema, axes, where)
        if not self.weight.is_predicate:
            raise QueryError("units are counted where a predicate holds", advice="`where` weighs rows between 0 and 1")

    @property
    def grid(self) -> int:
        """Whole units."""
        return 1

    @property
    def form(self) -> forms.Form:
        """The question as data, for the wall."""
        axes = [axis if isinstance(axis, str) else [part.form for part in axis.parts] for axis in self.axes]
        return forms.UnitCells(axes, self.weight.form)

    @property
    def moves(self) -> Moves:
        """A unit adds 1 to every cell that it enters."""
        return Moves(0, 1, self.cells, everywhere=False, once=True)

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        return hashlib.sha256(f"units {Marginal(self.schema, self.axes, self.weight).key}".encode()).hexdigest()

    def __repr__(self) -> str:
        return f"UnitCounts({' x '.join(self.names) or 'total'}: {self.cells} cells)"
