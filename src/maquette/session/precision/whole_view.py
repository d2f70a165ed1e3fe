"""WholeView: a product question read from one whole table that was measured at once, and from nothing else.

The table of its columns, or of more of them, is measured in a basis for ranges (`maquette.query.steps`) whose rows span
everything. So the question has one key and one gain. The questions that a whole table is bought for, one range of each
ordered column and one level of the others, are its *family*: it is fixed before the noise is drawn. Public computation.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from maquette.estimates import Columns
from maquette.query import RangeBasis, hardest_of
from maquette.session.precision.bases import BEGINS, ENDS, ends_of, inverse, plain, whole_kind
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.view import Values, View


class WholeView(View):
    """How every cell of a product question depends on the numbers of a whole table."""

    def __init__(self, of: ProductView, key: Columns) -> None:
        super().__init__(of.schema, plain(key), of.shape, of.description)
        self.key = key
        self._of = of
        self._order = sorted(range(len(self.columns)), key=lambda i: of.axes.get(self.columns[i], -1))

    @classmethod
    def of(cls, view: ProductView, key: Columns) -> WholeView | None:
        """The question read from a table that was bought for it among others; None if it was not."""
        if not view.columns or not set(view.columns) <= set(plain(key)):
            return None
        whole = cls(view, key)
        return whole if whole.family is not None else None

    @property
    def parts(self) -> tuple[Columns, ...]:
        """The whole table alone."""
        return (self.key,)

    @property
    def question(self) -> ProductView:
        """The question that is read."""
        return self._of

    @cached_property
    def family(self) -> int | None:
        """How many questions the table was bought for; None if this one is not among them."""
        kind = whole_kind(self.key)
        assert kind is not None, "only a whole table is read whole"
        if self._of.factor != 1.0 or not all(self._holds(name, kind) for name in self.columns):
            return None
        return self._of.family(kind, self.columns) >> len(self._ends)  # half as many ranges of each of these columns

    @property
    def hardest(self) -> float:
        """The largest variance of a question of the family, where every number measured has variance one."""
        kind = whole_kind(self.key)
        assert kind is not None, "only a whole table is read whole"
        return hardest_of(self.schema, kind, self.columns)

    @property
    def distribution(self) -> bool:
        """Whether it is for ranges that begin or end with their column, of ordered columns alone."""
        return whole_kind(self.key) == "steps" and self.ordered

    @property
    def ordered(self) -> bool:
        """Whether all of its columns are ordered."""
        return all(map(self._of.ordered, self.columns))

    @property
    def simple(self) -> bool:
        """Whether it is for ranges of one column, or for those that begin or end with theirs."""
        return len(self.columns) == 1 or whole_kind(self.key) == "steps"

    def condition(self, name: str) -> Values:
        """The weights of the levels of a column, one row for each of its conditions."""
        return self._of.rows(name)

    @cached_property
    def _ends(self) -> dict[str, str]:
        return ends_of(self.schema, self.key) or {}

    def _holds(self, name: str, kind: RangeBasis) -> bool:
        """Whether every condition on a column is one of the family's: a range, one at an end, or a level."""
        if not self._of.ordered(name):
            return all(_fits(row, None) for row in self.condition(name))
        end = {BEGINS: 0, ENDS: -1}.get(self._ends.get(name, ""))
        there = end is None or all(row[end] or not row.any() for row in self.condition(name))
        return there and all(_fits(row, kind) for row in self.condition(name))

    @cached_property
    def _rows(self) -> list[Values]:
        return [np.asarray(self.condition(name) @ inverse(self.schema, self.key, name)) for name in self.columns]

    def _gain(self, part: Columns) -> float:
        return self._of.factor**2 * math.prod(float((rows**2).sum(axis=1).max(initial=0.0)) for rows in self._rows)

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return self._of.factor**2 * math.prod(float((rows**2).max(initial=0.0)) for rows in self._rows)

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        cells = block
        for rows in self._rows:  # sums over the first axis and appends the new one
            cells = np.tensordot(cells, rows.T**power, axes=(0, 0))
        return np.asarray(np.transpose(cells, self._order).reshape(self.shape)) * self._of.factor**power

    def _shares(self, part: Columns) -> Values:
        shares = np.full((1, 1), self._of.factor)
        for rows in self._rows:
            shares = np.kron(shares, rows)
        sizes = [len(rows) for rows in self._rows]
        return np.asarray(np.transpose(shares.reshape(*sizes, -1), [*self._order, len(sizes)]))


def _fits(row: Values, kind: RangeBasis | None) -> bool:
    held = np.flatnonzero(row)
    if not len(held):
        return True  # nothing is counted, whatever the noise
    if (row[held] != 1.0).any() or held[-1] - held[0] + 1 != len(held):
        return False
    if kind is None:
        return len(held) == 1
    return kind in ("waves", "bare waves") or held[0] == 0 or held[-1] == len(row) - 1
