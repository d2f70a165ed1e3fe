"""Wholes: when ranges of ordered columns deserve a whole table of their own (`maquette.query.steps`).

A table is bought once its price is less than that of the plan without it, or once enough was paid for single ranges of
the same columns. It is bought for the hardest question of its family, so no more of it is needed later. Public facts
alone: the schema, prices, and which questions were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from maquette.estimates import Columns
from maquette.query import RangeBasis
from maquette.session.precision.bases import is_whole, whole_kind
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.view import View
from maquette.session.precision.whole_view import WholeView

Views = Mapping[str, View | None]  # by the key of their goal

RANGES = 0.1  # share of a price, paid for single questions, after which it is paid for ranges of the same columns
SEVERAL = 1.0  # the same for ranges of several columns that may lie anywhere: they are dear


@dataclass(frozen=True)
class Family:
    """A whole table, and the keys of those goals that it would serve."""

    whole: WholeView
    serves: frozenset[str]

    def enough(self, units: int) -> float:
        """What must be paid for single questions before the table is bought for so many units."""
        return (RANGES if self.whole.simple else SEVERAL) * units


class Wholes:
    """Remembers which ranges were asked, so that a table is bought for those that may come."""

    def __init__(self) -> None:
        self._anywhere: set[Columns] = set()  # columns of which ranges were asked that neither begin nor end there

    def asked(self, views: Iterable[View | None]) -> None:
        """Record questions."""
        self._anywhere |= {view.columns for view in views if _kind(view) == "waves" and view is not None}

    def families(self, views: Views, *, simultaneous: bool) -> list[Family]:
        """The tables that would serve some of these goals.

        Where each answer holds by itself, ranges are as cheap in parts, which other questions share; only those that
        begin or end with their column are not.
        """
        ranged = {view.columns: view for view in views.values() if isinstance(view, ProductView) and _kind(view)}
        anywhere = self._anywhere | {view.columns for view in views.values() if view and _kind(view) == "waves"}
        found = []
        for columns, view in ranged.items():
            kind: RangeBasis = "waves" if columns in anywhere else "steps"
            key = next(key for key in view.whole_keys if whole_kind(key) == kind)
            whole = WholeView(view, key)
            if simultaneous or whole.distribution:
                served = frozenset(name for name, other in views.items() if _serves(key, other))
                found.append(Family(whole, served))
        return found


def tables_in(parts: Mapping[Columns, int]) -> dict[Columns, int]:
    """The whole tables among what is bought."""
    return {key: units for key, units in parts.items() if is_whole(key)}


def _kind(view: View | None) -> RangeBasis | None:
    """The table for questions like this one; None if there is none."""
    if not isinstance(view, ProductView) or not view.ranged:
        return None
    for key in view.whole_keys:
        if WholeView(view, key).family is not None:
            return whole_kind(key)
    return None


def _serves(key: Columns, view: View | None) -> bool:
    return isinstance(view, ProductView) and WholeView.of(view, key) is not None
