"""Wholes: when ranges of ordered columns deserve a whole table of their own (`maquette.query.steps`).

A table is bought once its price is less than that of the plan without it, or once enough was paid for single ranges of
the same columns. It is bought for the hardest question of its family, so no more of it is needed later. Public facts
alone: the schema, prices, and which questions were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from maquette.estimates import Columns
from maquette.session.order import Order
from maquette.session.precision.bare_view import BareView
from maquette.session.precision.bases import BEGINS, ENDS, WHOLE_KINDS, WholeKind, corner_key, is_whole, whole_key
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.view import View
from maquette.session.precision.whole_view import WholeView

Views = Mapping[str, View | None]  # by the key of their goal

RANGES = 0.1  # share of a price, paid for single questions, after which it is paid for ranges of the same columns
TABLES = 0.06  # the same for a whole table
RANGED = 0.3  # the same for ranges of several columns that may lie anywhere: they are dear
SEVERAL = 0.4  # the same for those of one column within levels of others


@dataclass(frozen=True)
class Family:
    """A whole table, and the keys of those goals that it would serve."""

    whole: WholeView
    serves: frozenset[str]

    def enough(self, units: int) -> float:
        """What must be paid for single questions before the table is bought for `units` units."""
        if self.whole.simple:
            return TABLES * units
        return (RANGED if self.whole.ordered else SEVERAL) * units

    def cheaper(self, price: Callable[[WholeView], int | None]) -> Family:
        """The family with a bare table in place of its whole one, if there is one and it costs less."""
        bare = BareView.instead(self.whole)
        other = None if bare is None else price(bare)
        if bare is None or other is None:
            return self
        plain = price(self.whole)
        return replace(self, whole=bare) if plain is None or other < plain else self


class Wholes:
    """Remembers which ranges were asked, so that a table is bought for those that may come."""

    def __init__(self) -> None:
        self._anywhere: set[Columns] = set()  # columns of which ranges were asked that neither begin nor end there
        self._corners: dict[Columns, set[str]] = {}  # columns, and the ends at which ranges of them lay

    def asked(self, views: Iterable[View | None]) -> None:
        """Record questions."""
        for view in views:
            kind = _kind(view)
            if isinstance(view, ProductView) and kind == "waves":
                self._anywhere.add(view.columns)
            elif isinstance(view, ProductView) and kind is not None:
                self._corners.setdefault(view.columns, set()).add(_corner(view))

    def families(self, views: Views, *, simultaneous: bool, corners: bool = False) -> list[Family]:
        """The tables that would serve some of these goals.

        Where each answer holds by itself, ranges are as cheap in parts, which other questions share; only those that
        begin or end with their column are not. `corners`: tables may be promised for any ends of several columns.
        """
        ranged = {view.columns: view for view in views.values() if isinstance(view, ProductView) and _kind(view)}
        kinds = {(view.columns, _kind(view)) for view in views.values() if view}
        anywhere = self._anywhere | {columns for columns, kind in kinds if kind == "waves"}
        lay = {columns: set(found) for columns, found in self._corners.items()}
        for view in views.values():
            if isinstance(view, ProductView) and _kind(view) not in (None, "waves"):
                lay.setdefault(view.columns, set()).add(_corner(view))
        found = []
        for columns, view in ranged.items():
            key = whole_key("waves" if columns in anywhere else "steps", columns)
            several = sum(map(view.ordered, columns)) > 1  # of one column, the other end costs little more doubt
            if simultaneous and several and columns not in anywhere and len(lay[columns]) == 1:
                (corner,) = lay[columns]
                if corner and (corners or set(corner) == {BEGINS}):
                    key = corner_key(columns, corner)
            whole = WholeView(view, key)
            if simultaneous or whole.distribution:
                served = frozenset(name for name, other in views.items() if _serves(key, other))
                found.append(Family(whole, served))
        return found


def served(view: View | None) -> bool:
    """Whether questions like this one have a whole table of their own that is bought early."""
    kind = _kind(view)
    return view is not None and kind is not None and (kind != "waves" or len(view.columns) == 1)


def tables_in(parts: Mapping[Columns, int]) -> dict[Columns, int]:
    """The whole tables among what is bought."""
    return {key: units for key, units in parts.items() if is_whole(key)}


def has_parts(order: Order) -> bool:
    """Whether an order brings parts, by themselves or in tables measured as asked."""
    told = any(goal.tells_parts for goal, _ in order.directs.values())
    return told or bool(order.rents) or len(tables_in(order.parts)) < len(order.parts)


def _kind(view: View | None) -> WholeKind | None:
    """The table for questions like this one; None if there is none."""
    if not isinstance(view, ProductView) or not view.ranged:
        return None
    for kind, key in zip(WHOLE_KINDS, view.whole_keys, strict=False):  # none where a table would be too large
        if WholeView(view, key).family is not None:
            return kind
    return None


def _corner(view: ProductView) -> str:
    """The ends of its ordered columns at which a question's ranges lie, one for each; "" if they differ."""
    corner = ""
    for name in filter(view.ordered, view.columns):
        rows = [row for row in view.rows(name) if row.any()]
        corner += BEGINS if all(row[0] for row in rows) else ENDS if all(row[-1] for row in rows) else " "
    return "" if " " in corner else corner


def _serves(key: Columns, view: View | None) -> bool:
    return isinstance(view, ProductView) and WholeView.of(view, key) is not None
