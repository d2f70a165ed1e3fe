"""BareView: a question about one column read from its bare table and the number of rows (`maquette.query.bare`).

It has two keys: the table, and the number of rows that was measured for all counts. Public computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from maquette.estimates import Columns
from maquette.query import BareReading, bare_reading_of
from maquette.session.precision.bases import ANCHOR, BARE, bare_kind, plain, whole_key, whole_kind
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.view import Values, View
from maquette.session.precision.whole_view import WholeView


class BareView(WholeView):
    """How every cell of a question about one column depends on its bare table and the number of rows."""

    @classmethod
    def instead(cls, whole: WholeView) -> BareView | None:
        """The same question read from the bare table that can be measured instead of a whole one; None if none can."""
        kind = BARE.get(whole_kind(whole.key) or "")
        return None if kind is None or len(whole.columns) != 1 else cls(whole.question, whole_key(kind, whole.columns))

    @property
    def parts(self) -> tuple[Columns, ...]:
        """The table, and the number of rows."""
        return (self.key, ANCHOR)

    @cached_property
    def _reading(self) -> BareReading:
        kind = bare_kind(self.key)
        assert kind is not None, "only a bare table is read with the number of rows"
        return bare_reading_of(self.schema, kind, self.columns[0])

    @cached_property
    def _rows(self) -> list[Values]:
        return [np.asarray(self.condition(self.columns[0]) @ self._reading.table)]

    @cached_property
    def of_rows(self) -> Values:
        """The weight of the number of rows in every cell."""
        return np.asarray(self.condition(self.columns[0]) @ self._reading.rows).reshape(self.shape)

    def own(self, variance: float) -> Values:
        """The variance of every cell without that of the number of rows; `variance` is that of each number."""
        return np.asarray((self._rows[0] ** 2).sum(axis=1).reshape(self.shape) * variance)

    def _gain(self, part: Columns) -> float:
        return float((self.of_rows**2).max(initial=0.0)) if part == ANCHOR else super()._gain(part)

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return self._gain(ANCHOR) if part == ANCHOR else super().peak(part)

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        return np.asarray(self.of_rows**power * block) if part == ANCHOR else super()._project(part, block, power)

    def _shares(self, part: Columns) -> Values:
        return self.of_rows[..., None] if part == ANCHOR else super()._shares(part)


def wholes_of(view: View | None, measured: Iterable[Columns]) -> list[WholeView]:
    """A question read from each of the whole tables that hold its columns."""
    if not isinstance(view, ProductView) or not view.columns:
        return []
    keys = [key for key in measured if set(view.columns) <= set(plain(key))]
    return [WholeView(view, key) if bare_kind(key) is None else BareView(view, key) for key in keys]
