"""Planner: the cheapest charge after which some needs are known within the tolerance.

A need is met by parts bought, which later questions share; by parts rented, for the one question; or by measuring it
just as it is asked. Ski-rental between them: what was paid in rents, or for single questions, counts towards buying.
Decided from public facts alone: the schema, prices, and what was asked and released before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from maquette.estimates import Columns, subsets
from maquette.session.knowledge import Knowledge
from maquette.session.precision.lens import CELLS, CellLens, Lens
from maquette.session.precision.width import Known
from maquette.session.pricing import FIRST_SETS, Market, Offer, after
from maquette.session.question import Need
from maquette.session.record import Order
from maquette.session.transcript import Transcript

PASSES = 4  # over the needs of one order
LEVEL = 1.01  # at so nearly the same price, parts are bought: they tell of more questions than the one


class Planner:
    """Plans charges, and keeps account of what they were paid for."""

    def __init__(self, knowledge: Knowledge, market: Market, *, expect: int | None) -> None:
        self._knowledge = knowledge
        self._market = market
        self._widths = knowledge.widths
        self._expect = expect
        self._sets: dict[int, set[Columns]] = {}  # asked about, by their size
        self._paid_whole: dict[Columns, int] = {}  # for questions about these columns, measured just as asked
        self._rented: dict[Columns, int] = {}  # for what these parts contributed to single questions

    def plan(self, needs: Iterable[Need]) -> Order:
        """What to charge for these needs.

        What one need buys adds pieces to parts that another relies on, which may widen its interval: then the other
        buys more, until all fit.
        """
        order, ahead = Order({}, {}, {}), _Ahead(self._knowledge.transcript)
        missing = list({need.key: need for need in needs if self._knowledge.state(need) is None}.values())
        for _ in range(PASSES):
            short = [need for need in missing if not self._will_do(need, order, ahead)]
            for need in short:
                self._add(order, ahead, need)
            if not short:
                break
        while short := [need for need in missing if not self._will_do(need, order, ahead)]:
            for need in short:
                self._measure_as_asked(order, ahead, need)
        return order

    def settle(self, order: Order, needs: Iterable[Need]) -> None:
        """Take note of a charge, and of the needs it was for."""
        for need, units in order.directs.values():
            lens = self._knowledge.lens(need)
            if lens is not None:
                self._paid_whole[lens.columns] = self._paid_whole.get(lens.columns, 0) + units
        for _, parts in order.rents.values():
            for part, units in parts.items():
                self._rented[part] = self._rented.get(part, 0) + units
        for need in needs:
            lens = self._knowledge.lens(need)
            if lens is not None:
                self.asked(len(lens.columns)).add(lens.columns)

    @property
    def _tolerance(self) -> float:
        return self._knowledge.tolerance

    def asked(self, size: int) -> set[Columns]:
        """The sets of so many columns that were asked about."""
        return self._sets.setdefault(size, set())

    def _will_do(self, need: Need, order: Order, ahead: _Ahead) -> bool:
        lens = self._knowledge.lens(need)
        if need.key in order.directs or lens is None:
            return need.key in order.directs
        known = ahead.known(lens, need)
        return len(known) == len(lens.gains) and self._widths.of(lens, known) <= self._tolerance

    def _add(self, order: Order, ahead: _Ahead, need: Need) -> None:
        """Order what a need lacks, in the cheapest way."""
        lens = self._knowledge.lens(need)
        ahead.give_up(need)
        order.rents.pop(need.key, None)
        known = {} if lens is None else ahead.known(lens, need)
        offer = None if lens is None else self._offer(lens, known)
        units = self._market.direct(need, self._tolerance, self._doubt(need, order))
        if lens is None or offer is None or offer.burden > units * LEVEL + self._paid_whole.get(lens.columns, 0):
            self._measure_as_asked(order, ahead, need)
            return
        ahead.take(need, offer)
        for part, price in offer.prices.items():
            order.parts[part] = order.parts.get(part, 0) + price
        if offer.rents:
            order.rents[need.key] = need, offer.rents

    def _measure_as_asked(self, order: Order, ahead: _Ahead, need: Need) -> None:
        doubt = self._doubt(need, order)
        ahead.give_up(need)
        order.rents.pop(need.key, None)
        order.directs[need.key] = need, self._market.direct(need, self._tolerance, doubt)
        precision = self._market.fresh_precision(need, self._tolerance, doubt)
        if self._tells_parts(need) and math.isfinite(precision):  # no budget pays for more
            ahead.learn(need, precision)

    def _tells_parts(self, need: Need) -> bool:
        """Whether a record will take parts from a need measured as it is asked: of Gaussian noise, and not of cells."""
        return need.tells_parts and not self._market.pure and not self._knowledge.record.cells

    def _doubt(self, need: Need, order: Order) -> float:
        """The doubt of a need that is measured next as it is asked."""
        number = self._knowledge.record.directs + len(order.directs) + 1
        return self._widths.fresh(need.marginal.cells, number)

    def _offer(self, lens: Lens, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest way to know a question; the histogram of a small universe is bought once, for all questions."""
        if isinstance(lens, CellLens) and CELLS in lens.gains and CELLS not in known and () in known:
            purchase = self._market.histogram(lens, known, self._tolerance, self._widths, self._expected(lens))
            return None if purchase is None else self._market.split(lens, purchase, {})
        return self._shop(lens, known)

    def _expected(self, lens: Lens) -> int:
        """How many sets of as many columns are likely to be asked about."""
        asked = self.asked(len(lens.columns)) | {lens.columns}
        expected = self._expect or FIRST_SETS
        while expected < len(asked):  # doubled, so that what is bought for it changes rarely
            expected *= 2
        return expected

    def _shop(self, lens: Lens, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest mixture of parts to buy and to rent; what was paid in rents counts towards buying."""
        expected = self._expected(lens)
        rents = self._market.rentable(lens, known, expected)
        while True:
            purchase = self._market.shop(lens, known, self._tolerance, self._widths, expected, rents=rents)
            if purchase is None:
                return None
            offer = self._market.split(lens, purchase, rents)
            worn = [part for part, units in offer.rents.items() if self._worn(part, units, purchase.prices[part])]
            if not worn:
                return offer
            rents = {part: times for part, times in rents.items() if part not in worn}

    def _worn(self, part: Columns, units: int, price: int) -> bool:
        """Whether renting a part once more would cost more in all than buying it."""
        return self._rented.get(part, 0) + units > price


class _Ahead:
    """What will be known once an order is carried out."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._parts: dict[Columns, Known] = {}
        self._rented: dict[str, dict[Columns, Known]] = {}

    def known(self, lens: Lens, need: Need) -> dict[Columns, Known]:
        """Of the parts of a need, those rented for it included."""
        bought = {part: self._parts[part] for part in lens.gains if part in self._parts}
        return {**self._transcript.known(lens.gains), **bought, **self._rented.get(need.key, {})}

    def take(self, need: Need, offer: Offer) -> None:
        """Reckon with an offer."""
        self._add({part: offer.precisions[part] for part in offer.prices})
        rented = {part: Known(1.0 / offer.precisions[part], 1, lumped=True) for part in offer.rents}
        if rented:
            self._rented[need.key] = rented

    def learn(self, need: Need, precision: float) -> None:
        """Reckon with a whole table whose cells are measured with this precision: one more piece of all its parts."""
        schema, columns = need.marginal.schema, need.marginal.columns
        wide = tuple(name for name in columns if schema[name].size > 1)
        cells = schema.cells(wide)
        self._add({part: precision * schema.cells(part) / cells for part in subsets(wide)})

    def give_up(self, need: Need) -> None:
        """Reckon no more with what was to be rented for a need."""
        self._rented.pop(need.key, None)

    def _add(self, precisions: Mapping[Columns, float]) -> None:
        known = self._transcript.known(precisions)
        for part, precision in precisions.items():
            self._parts[part] = after(self._parts.get(part, known.get(part)), precision)
