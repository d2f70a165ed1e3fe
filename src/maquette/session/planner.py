"""Planner: the cheapest charge after which some goals are known within the tolerance.

A goal can be met in three ways: buy parts, which later questions share; rent parts, for this question only; or measure
the goal exactly as asked. The ski-rental rule chooses: what was paid in rents, or for single questions, counts towards
buying. It uses public facts alone: the schema, prices, and what was asked and released before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from maquette.estimates import Columns, subsets
from maquette.session.knowledge import Knowledge
from maquette.session.precision.view import CELLS, CellView, View
from maquette.session.precision.width import Known
from maquette.session.pricing import FIRST_SETS, Offer, Pricing, after
from maquette.session.question import Goal
from maquette.session.record import Order
from maquette.session.transcript import Transcript

PASSES = 4  # over the goals of one order
LEVEL = 1.01  # parts are bought if their price is within this factor: they also serve other questions


class Planner:
    """Plans charges, and records what they were paid for."""

    def __init__(self, knowledge: Knowledge, pricing: Pricing, *, expect: int | None) -> None:
        self._knowledge = knowledge
        self._pricing = pricing
        self._widths = knowledge.widths
        self._expect = expect
        self._sets: dict[int, set[Columns]] = {}  # column sets asked about, by size
        self._paid_whole: dict[Columns, int] = {}  # units paid for questions on these columns, measured as asked
        self._rented: dict[Columns, int] = {}  # units paid for the contributions of these parts to single questions

    def plan(self, goals: Iterable[Goal]) -> Order:
        """What to charge for these goals.

        Buying for one goal adds pieces to parts that another goal uses, which may widen the other's interval. Then more
        is bought for the other, until all are within the tolerance.
        """
        order, ahead = Order({}, {}, {}), _Ahead(self._knowledge.transcript)
        missing = list({goal.key: goal for goal in goals if self._knowledge.state(goal) is None}.values())
        for _ in range(PASSES):
            short = [goal for goal in missing if not self._will_do(goal, order, ahead)]
            for goal in short:
                self._add(order, ahead, goal)
            if not short:
                break
        while short := [goal for goal in missing if not self._will_do(goal, order, ahead)]:
            for goal in short:
                self._measure_as_asked(order, ahead, goal)
        return order

    def settle(self, order: Order, goals: Iterable[Goal]) -> None:
        """Record a charge and the goals it was for."""
        for goal, units in order.directs.values():
            view = self._knowledge.view(goal)
            if view is not None:
                self._paid_whole[view.columns] = self._paid_whole.get(view.columns, 0) + units
        for _, parts in order.rents.values():
            for part, units in parts.items():
                self._rented[part] = self._rented.get(part, 0) + units
        for goal in goals:
            view = self._knowledge.view(goal)
            if view is not None:
                self.asked(len(view.columns)).add(view.columns)

    @property
    def _tolerance(self) -> float:
        return self._knowledge.tolerance

    def asked(self, size: int) -> set[Columns]:
        """The sets of `size` columns that were asked about."""
        return self._sets.setdefault(size, set())

    def _will_do(self, goal: Goal, order: Order, ahead: _Ahead) -> bool:
        view = self._knowledge.view(goal)
        if goal.key in order.directs or view is None:
            return goal.key in order.directs
        known = ahead.known(view, goal)
        return len(known) == len(view.gains) and self._widths.of(view, known) <= self._tolerance

    def _add(self, order: Order, ahead: _Ahead, goal: Goal) -> None:
        """Add to the order what a goal lacks, in the cheapest way."""
        view = self._knowledge.view(goal)
        ahead.give_up(goal)
        order.rents.pop(goal.key, None)
        known = {} if view is None else ahead.known(view, goal)
        offer = None if view is None else self._offer(view, known)
        units = self._pricing.direct(goal, self._tolerance, self._doubt(goal, order))
        if view is None or offer is None or offer.burden > units * LEVEL + self._paid_whole.get(view.columns, 0):
            self._measure_as_asked(order, ahead, goal)
            return
        ahead.take(goal, offer)
        for part, price in offer.prices.items():
            order.parts[part] = order.parts.get(part, 0) + price
        if offer.rents:
            order.rents[goal.key] = goal, offer.rents

    def _measure_as_asked(self, order: Order, ahead: _Ahead, goal: Goal) -> None:
        doubt = self._doubt(goal, order)
        ahead.give_up(goal)
        order.rents.pop(goal.key, None)
        order.directs[goal.key] = goal, self._pricing.direct(goal, self._tolerance, doubt)
        precision = self._pricing.fresh_precision(goal, self._tolerance, doubt)
        if self._tells_parts(goal) and math.isfinite(precision):  # an infinite precision has no price
            ahead.learn(goal, precision)

    def _tells_parts(self, goal: Goal) -> bool:
        """Whether a record extracts parts from a goal measured as asked: only Gaussian noise, and no cell histogram."""
        return goal.tells_parts and not self._pricing.pure and not self._knowledge.record.cells

    def _doubt(self, goal: Goal, order: Order) -> float:
        """The failure probability of a goal that is measured next as it is asked."""
        number = self._knowledge.record.directs + len(order.directs) + 1
        return self._widths.fresh(goal.marginal.cells, number)

    def _offer(self, view: View, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest way to know a question; the histogram of a small universe is bought once, for all questions."""
        if isinstance(view, CellView) and CELLS in view.gains and CELLS not in known and () in known:
            purchase = self._pricing.histogram(view, known, self._tolerance, self._widths, self._expected(view))
            return None if purchase is None else self._pricing.split(view, purchase, {})
        return self._shop(view, known)

    def _expected(self, view: View) -> int:
        """Expected number of column sets of the same size that will be asked about."""
        asked = self.asked(len(view.columns)) | {view.columns}
        expected = self._expect or FIRST_SETS
        while expected < len(asked):  # doubled, so that the expectation changes rarely
            expected *= 2
        return expected

    def _shop(self, view: View, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest mixture of parts to buy and to rent; what was paid in rents counts towards buying."""
        expected = self._expected(view)
        rents = self._pricing.rentable(view, known, expected)
        while True:
            purchase = self._pricing.shop(view, known, self._tolerance, self._widths, expected, rents=rents)
            if purchase is None:
                return None
            offer = self._pricing.split(view, purchase, rents)
            worn = [part for part, units in offer.rents.items() if self._worn(part, units, purchase.prices[part])]
            if not worn:
                return offer
            rents = {part: times for part, times in rents.items() if part not in worn}

    def _worn(self, part: Columns, units: int, price: int) -> bool:
        """Whether renting a part once more would cost more in total than buying it."""
        return self._rented.get(part, 0) + units > price


class _Ahead:
    """What will be known once an order is carried out."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._parts: dict[Columns, Known] = {}
        self._rented: dict[str, dict[Columns, Known]] = {}

    def known(self, view: View, goal: Goal) -> dict[Columns, Known]:
        """What will be known of the parts of a goal, including parts rented for it."""
        bought = {part: self._parts[part] for part in view.gains if part in self._parts}
        return {**self._transcript.known(view.gains), **bought, **self._rented.get(goal.key, {})}

    def take(self, goal: Goal, offer: Offer) -> None:
        """Include an offer."""
        self._add({part: offer.precisions[part] for part in offer.prices})
        rented = {part: Known(1.0 / offer.precisions[part], 1, lumped=True) for part in offer.rents}
        if rented:
            self._rented[goal.key] = rented

    def learn(self, goal: Goal, precision: float) -> None:
        """Include a whole table whose cells are measured with this precision: one more piece of each of its parts."""
        schema, columns = goal.marginal.schema, goal.marginal.columns
        wide = tuple(name for name in columns if schema[name].size > 1)
        cells = schema.cells(wide)
        self._add({part: precision * schema.cells(part) / cells for part in subsets(wide)})

    def give_up(self, goal: Goal) -> None:
        """Remove what was to be rented for a goal."""
        self._rented.pop(goal.key, None)

    def _add(self, precisions: Mapping[Columns, float]) -> None:
        known = self._transcript.known(precisions)
        for part, precision in precisions.items():
            self._parts[part] = after(self._parts.get(part, known.get(part)), precision)
