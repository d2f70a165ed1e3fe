"""Payments: what a session's questions cost, by what it was paid for. Plans follow from them, so all are public."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from maquette.estimates import Columns
from maquette.session.order import Order
from maquette.session.precision.view import View
from maquette.session.question import Goal
from maquette.session.wholes import served

Paid = defaultdict[Columns, int]


@dataclass(eq=False)
class Payments:
    """Units that were paid, all and by columns."""

    goals: int = 0  # asked
    alone: int = 0  # what all goals would cost measured as asked
    spent: int = 0
    plain: int = 0  # for counts that can be measured from half of the rows
    apart: int = 0  # for others that were measured as asked
    single: Paid = field(default_factory=lambda: Paid(int))  # for single questions about these columns, in any way
    valued: Paid = field(default_factory=lambda: Paid(int))  # the same, with those from half of the rows in full
    whole: Paid = field(default_factory=lambda: Paid(int))  # for questions on these columns, measured as asked
    rented: Paid = field(default_factory=lambda: Paid(int))  # for the contributions of these parts to single questions

    def asked(self, prices: Sequence[int]) -> None:
        """Record goals, with their prices measured as asked."""
        self.alone += sum(prices)
        self.goals += len(prices)

    def settle(self, order: Order, view_of: Callable[[Goal], View | None], price_of: Callable[[Goal], int]) -> None:
        """Record a charge; `price_of` is that of a goal measured as asked."""
        self.spent += order.units
        for goal, units in order.directs.values():
            view = view_of(goal)
            if goal.from_half is None:
                self.apart += units
            elif not goal.centred and not served(view):  # a table of their own is soon bought for some
                self.plain += units
            if view is not None:
                self.whole[view.columns] += units
                self.single[view.columns] += units
                plain = price_of(replace(goal, centred=False)) if goal.centred else abs(units)
                self.valued[view.columns] += plain if units > 0 else -plain
        for goal, parts in order.rents.values():
            view = view_of(goal)
            assert view is not None, "only a goal with a view is rented for"
            self.single[view.columns] += sum(parts.values())
            self.valued[view.columns] += sum(parts.values())
            for part, units in parts.items():
                self.rented[part] += units
