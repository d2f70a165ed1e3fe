"""Planner: the cheapest charge after which some goals are known within the tolerance.

A goal can be met in three ways: buy parts, which later questions share; rent parts, for this question only; or measure
the goal exactly as asked. The ski-rental rule chooses: what was paid in rents, or for single questions, counts towards
buying. It uses public facts alone: the schema, prices, and what was asked and released before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from maquette.bounded import Bounded
from maquette.estimates import Columns
from maquette.session.anchoring import DEARER, Anchor, anchor_of, early_anchor
from maquette.session.bound import Bound
from maquette.session.knowledge import Knowledge
from maquette.session.offer import TOO_DEAR, Offer, Purchase
from maquette.session.order import Order
from maquette.session.outcome import Outcome
from maquette.session.own import Rented
from maquette.session.payments import Payments
from maquette.session.precision.bare_view import BareView
from maquette.session.precision.bases import ANCHOR, bare_kind
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.view import CELLS, View
from maquette.session.precision.whole_view import WholeView
from maquette.session.precision.width import Known, Widths
from maquette.session.pricing import FIRST_SETS, Pricing
from maquette.session.question import Goal
from maquette.session.wholes import RANGES, Family, Wholes, has_parts, tables_in

PASSES = 4  # over the goals of one order
AHEAD = 1.02  # of what all questions would cost measured as asked: never more is spent with a view to later ones
SEVERAL = 4.0  # the same for ranges of several columns where all answers hold together: parts need long names
CAREFUL = 12  # goals after which parts are bought ahead for questions other than ranges
MULTIPLE = 8.0  # of the price of the question alone: no more is paid at once with a view to others
COARSEST = 4.0  # times the tolerance: a wider interval is not worth what is left of the budget
USEFUL = 0.25  # of the rows, the same
NARROWER = 0.75  # of the width that is known already, the same
CLOSE = 1e-3  # how closely the width that the rest of the budget buys is found
PATIENT = 4.0  # times its price, paid for single counts, after which it is bought
ROUNDING = 64  # units by which splitting and rounding prices may move a plan
RECENT = 64  # prices of goals that are kept
LEVEL = 1.01  # parts are bought if their price is within this factor: they also serve other questions


class Planner:
    """Plans charges, and records what they were paid for."""

    def __init__(self, knowledge: Knowledge, pricing: Pricing, *, expect: int | None) -> None:
        self._knowledge = knowledge
        self._pricing = pricing
        self._expect = expect
        self._sets: dict[int, set[Columns]] = {}  # column sets asked about, by size
        self._paid = Payments()
        self._wholes = Wholes()
        self._anchor: Anchor | None = None  # the number of rows, if it is bought with this order
        self._prices: Bounded[Hashable, int] = Bounded(RECENT)  # of goals measured as asked: a plan needs one often

    def beside(self, knowledge: Knowledge) -> Planner:
        """A planner for other promises about the same record."""
        return Planner(knowledge, self._pricing, expect=self._expect)

    def on(self, knowledge: Knowledge) -> Planner:
        """This planner on other knowledge, for plans alone; what it records is this one's."""
        other = copy(self)
        other._knowledge = knowledge
        return other

    def plan(self, goals: Iterable[Goal]) -> Order:
        """What to charge for these goals.

        Buying for one goal adds pieces to parts that another goal uses, which may widen the other's interval. Then more
        is bought for the other, until all are within the tolerance.
        """
        goals = list({goal.key: goal for goal in goals}.values())
        order = self._plan(goals)
        if not order or (anchor := anchor_of(self._knowledge, self._pricing)) is None:
            return order
        return self._with_rows(order, goals) or self._anchored(order, goals, anchor)

    def _plan(self, goals: Sequence[Goal]) -> Order:
        missing = self._missing(goals)
        families = self._families(missing)
        return self._with_wholes(self._by_parts(goals, missing, families), missing, families)

    def _with_rows(self, order: Order, goals: Sequence[Goal]) -> Order | None:
        """The order with the number of rows and a bare table in place of a whole one, if that is hardly dearer."""
        anchor = early_anchor(self._knowledge, self._pricing, order)
        if anchor is None or not any(map(bare_kind, (found := self._given(anchor)._plan(goals)).parts)):
            return None
        return anchor.beside(found) if found.units + anchor.units <= DEARER * order.units else None

    def _given(self, anchor: Anchor) -> Planner:
        """This planner where the number of rows is bought with the order."""
        other = copy(self)
        other._anchor = anchor
        return other

    def _anchored(self, order: Order, goals: Sequence[Goal], anchor: Anchor) -> Order:
        """The order with the number of rows, if that is cheaper now or enough was paid for counts without it."""
        enough = self._paid.plain >= max(PATIENT * anchor.units, self._paid.apart)
        if not enough and order.units <= anchor.units:
            return order
        found = self._given(anchor)._plan(goals)
        centred = any(goal.centred for goal, _ in found.directs.values())
        alike = tables_in(found.parts).keys() == tables_in(order.parts).keys()  # else a table is put off
        if alike and centred and found.units + (0 if enough else anchor.units) < order.units:
            return anchor.beside(found)
        return order

    def _by_parts(self, goals: Sequence[Goal], missing: Sequence[Goal], families: Sequence[Family]) -> Order:
        """What to charge for goals, some of them missing, in parts or as asked.

        For ranges that will soon have a table of their own, nothing is bought ahead in parts. Where all answers hold
        together, that is so for all ranges which may have a table: parts need long names.
        """
        if not missing:
            return Order({}, {}, {})
        every = self._knowledge.widths.simultaneous
        soon = {key for family in families if every or family.whole.simple for key in family.serves}
        now = Outcome(self._knowledge.transcript)
        if all(goal.key in soon for goal in missing):
            return self._planned(missing, now, ahead=False)
        offer = self._surely_alone(missing[0], goals, now) if len(missing) == 1 else None
        if isinstance(offer, Order):
            return offer
        order = self._planned(missing, now, ahead=True, offer=offer)
        if len(missing) > 1:  # what the hardest needs may serve the others
            hardest = sorted(missing, key=self._hardness, reverse=True)
            order = min(order, self._planned(hardest, now, ahead=True), key=lambda order: order.units)
        if self._worth(order.units, goals, missing):
            return order
        return min(order, self._planned(missing, now, ahead=False), key=lambda order: order.units)

    def _with_wholes(self, order: Order, missing: Sequence[Goal], families: Sequence[Family]) -> Order:
        """The order with whole tables for ranges where that is cheaper now, or enough was paid for single ones."""
        for family in families:
            others = [goal for goal in missing if goal.key not in family.serves]
            rest = self._by_parts(others, others, families)
            rest = Order({**rest.parts, **tables_in(order.parts)}, rest.directs, rest.rents)
            units = self._whole_price(family.whole, rest)
            if units is None or len(others) == len(missing):
                continue
            singles, enough = self._paid.valued if family.whole.simple else self._paid.single, family.enough(units)
            paid = singles.get(family.whole.columns, 0)
            topped_up = order.units < enough and not order.directs and not order.rents
            if rest.units + units < order.units or (enough <= paid and not topped_up):
                order, missing = Order({**rest.parts, family.whole.key: units}, rest.directs, rest.rents), others
        tables = tables_in(order.parts)
        parts = {key: units for key, units in order.parts.items() if key not in tables}
        for whole in (family.whole for family in families):  # what one replaced changes the number of another
            if whole.key in tables:
                known = Order(parts, order.directs, order.rents)
                parts = {**parts, whole.key: self._whole_price(whole, known) or tables[whole.key]}
        return Order(parts, order.directs, order.rents)

    def _families(self, missing: Sequence[Goal]) -> list[Family]:
        """Whole tables that would serve some of these goals."""
        if self._pricing.pure or self._knowledge.record.cells:
            return []
        views = {goal.key: self._knowledge.view(goal) for goal in missing}
        now = self._now
        found = self._wholes.families(views, simultaneous=now.simultaneous, corners=now.shares_rows)
        if self._known_rows is None or not now.shares_rows:
            return found
        return [family.cheaper(lambda whole: self._whole_price(whole, Order({}, {}, {}))) for family in found]

    def _whole_price(self, view: WholeView, order: Order) -> int | None:
        """Units for a whole table beside an order; None if it cannot be bought.

        All answers together are served by a table as it was first drawn.
        """
        known = self._knowledge.transcript.latest(view.key)
        widths = self._widths(order) if has_parts(order) else self._now
        if widths.simultaneous and known is not None:
            return None
        assert view.family is not None, "a table is bought for its family"
        places = sum(widths.places(view.schema, key) for key in tables_in(order.parts))
        number = self._taken + len(order.directs) + places + 1
        if isinstance(view, BareView):
            if (rows := self._known_rows) is None:
                return None
            told = widths.bare_doubt(view, number, after=self._anchor is None)
            return self._pricing.bare(view.key, self._tolerance, told, rows)
        hardest = widths.hardest(view, number)
        return self._pricing.whole(
            view.key, self._tolerance, hardest, have=0.0 if known is None else 1 / known.variance
        )

    def frugal(self, goals: Iterable[Goal]) -> Order:
        """The cheapest charge for these goals at their tolerance, with no view to later questions."""
        missing, now = self._missing(goals), Outcome(self._knowledge.transcript)
        alone = self._alone_at(missing, self._tolerance)
        return min(self._planned(missing, now, ahead=False), alone, key=lambda order: order.units) if missing else alone

    def rest(self, goals: Iterable[Goal], left: int) -> Order:
        """The goals measured as asked, as precisely as `left` units allow; nothing where that would tell too little.

        Too little is more than COARSEST times the tolerance, more than USEFUL of the rows, or hardly less than what is
        known already.
        """
        missing, nothing = self._missing(goals), Order({}, {}, {})
        widest = min(COARSEST * self._tolerance, USEFUL * self._knowledge.rows)
        known = [self._knowledge.width_now(goal) for goal in missing]
        widest = min(widest, NARROWER * max(known, default=0.0))
        if not missing or widest <= self._tolerance or self._alone_at(missing, widest).units > left:
            return nothing
        low, high = self._tolerance, widest
        while high > low * (1 + CLOSE):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._alone_at(missing, middle).units <= left else (middle, high)
        return self._alone_at(missing, high)

    def _missing(self, goals: Iterable[Goal]) -> list[Goal]:
        distinct = {goal.key: goal for goal in goals}
        return [goal for goal in distinct.values() if self._knowledge.state(goal) is None]

    def _alone_at(self, missing: Sequence[Goal], tolerance: float) -> Order:
        """Goals measured exactly as asked, each within a tolerance."""
        order = Order({}, {goal.key: (goal, 0) for goal in missing}, {})
        for i, goal in enumerate(missing, 1):
            order.directs[goal.key] = self._by_itself(goal, tolerance, order, i)
        return order

    def _by_itself(self, goal: Goal, tolerance: float, order: Order, place: int | None = None) -> tuple[Goal, int]:
        """A goal measured as asked, or from half of the rows, and its price."""
        plain, half = goal if not goal.centred else replace(goal, centred=False), goal.from_half
        units = self._direct(plain, tolerance, self._doubt(plain, order, place))
        if half is None or not self._now.simultaneous or (rows := self._known_rows) is None:
            return plain, units
        less = self._direct(half, tolerance, self._doubt(half, order, place), rows)
        return (half, less) if less < units else (plain, units)

    def _direct(self, goal: Goal, tolerance: float, doubt: float, rows: float = 0.0) -> int:
        key = goal.key, goal.centred, tolerance, doubt, rows
        if (found := self._prices.get(key)) is None:
            found = self._prices[key] = self._pricing.direct(goal, tolerance, doubt, rows, self._now.k)
        return found

    @property
    def _now(self) -> Widths:
        """The widths before an order, but with the number of rows that it buys."""
        widths = self._knowledge.widths
        return widths if self._anchor is None else widths.anchored(self._anchor.place)

    @property
    def _taken(self) -> int:
        """Places of the series of shares that are taken before the first number of an order."""
        return self._knowledge.record.directs if self._anchor is None else self._anchor.place

    @property
    def _known_rows(self) -> float | None:
        """The variance of the number of rows from half of which counts are measured; None if there is none."""
        if self._anchor is not None:
            return self._anchor.variance
        known = self._knowledge.transcript.latest(ANCHOR)
        return None if known is None else known.variance

    def _planned(self, missing: Sequence[Goal], now: Outcome, *, ahead: bool, offer: Offer | None = None) -> Order:
        """What to charge for goals that are not known; `ahead`: with a view to questions that may follow.

        `offer` is for the first of them, if one was found already.
        """
        if not ahead and len(missing) == 1 and (alone := self._dearer_in_parts(missing[0], now)) is not None:
            return alone
        order, then = Order({}, {}, {}), now.fork()
        for _ in range(PASSES):
            short = [goal for goal in missing if not self._will_do(goal, order, then)]
            for goal in short:
                self._add(order, then, goal, ahead=ahead, offer=offer)
                offer = None
            if not short:
                break
        else:
            while short := [goal for goal in missing if not self._will_do(goal, order, then)]:
                for goal in short:
                    self._measure_as_asked(order, then, goal)
        for i, (key, (goal, _)) in enumerate(order.directs.items(), 1):  # parts taken later change their doubt
            order.directs[key] = self._by_itself(goal, self._tolerance, order, i)
        return order

    def _surely_alone(self, goal: Goal, goals: Sequence[Goal], now: Outcome) -> Order | Offer | None:
        """A goal measured as asked, if bounds on the prices of parts show that nothing else would be planned.

        That is so for most questions that are measured at all, and pricing parts is most of the work of a plan. If
        bounds do not show it, the best offer with a view to later questions, if that was found.
        """
        view, nothing = self._knowledge.view(goal), Order({}, {}, {})
        if view is None or isinstance(view, CellView):
            return None
        known = now.known(view, goal)
        alone = self._alone_at([goal], self._tolerance)
        later = self._best(view, known, nothing, goal, ahead=True)
        if later is None or later.units <= alone.units:
            return None
        if self._worth(later.units, goals, [goal]):
            rents = self._rentable(view, known, goal, ahead=True)
            least = alone.units * LEVEL + ROUNDING  # more than any plan without a view to later questions costs

            def dear(units: int) -> bool:
                return units > least and not self._worth(units, goals, [goal])

            offer = self._shop(view, known, nothing, ahead=True, rents=rents, dear=dear)
            if offer is not TOO_DEAR:
                return offer
        return self._dearer_in_parts(goal, now, alone)

    def _dearer_in_parts(self, goal: Goal, now: Outcome, alone: Order | None = None) -> Order | None:
        """A goal measured as asked, if a bound shows that its parts cost more now; later questions do not count."""
        view = self._knowledge.view(goal)
        if view is None or isinstance(view, CellView):
            return None
        alone = self._alone_at([goal], self._tolerance) if alone is None else alone
        parts = self._best(view, now.known(view, goal), Order({}, {}, {}), goal, ahead=False)
        return alone if parts is not None and parts.burden > alone.units * LEVEL else None

    def _hardness(self, goal: Goal) -> float:
        """What a goal would cost in parts of which nothing is known, roughly."""
        view = self._knowledge.view(goal)
        return 0.0 if view is None else self._pricing.hardness(view)

    def _widths(self, order: Order, *, buying: bool = False) -> Widths:
        """The widths once an order is carried out, to which more parts are added if `buying`.

        The first charge that brings parts takes its share of the doubt before the numbers of the same charge that are
        measured as asked; or after them, if it brings parts by whole tables alone.
        """
        widths, record = self._now, self._knowledge.record
        if widths.account is None or record.before is not None:
            return widths
        before = self._taken + (0 if buying or order.parts or order.rents else len(order.directs))
        return widths.spent(before)

    def _worth(self, units: float, goals: Sequence[Goal], missing: Sequence[Goal]) -> bool:
        """Whether to pay with a view to later questions.

        Always within what all questions until now would have cost by themselves. Beyond that, for ranges, once enough
        was paid for single ones of the same columns; for other questions after the first few, at a modest multiple.
        """
        alone = sum(map(self._as_asked, goals))
        views = [self._knowledge.view(goal) for goal in missing]
        several = any(view is not None and view.ranged and len(view.columns) > 1 for view in views)
        if several and self._knowledge.widths.simultaneous:
            return SEVERAL * units <= self._paid_alone(missing)
        if units <= AHEAD * (self._paid.alone + alone) - self._paid.spent:
            return True
        if any(view is not None and view.ranged for view in views):
            return RANGES * units <= self._paid_alone(missing)
        return self._paid.goals >= CAREFUL and units <= MULTIPLE * max(alone, 1)

    def _paid_alone(self, goals: Iterable[Goal]) -> int:
        """Units paid for single questions about the columns of these goals."""
        views = map(self._knowledge.view, goals)
        return sum(
            self._paid.single.get(columns, 0) for columns in {view.columns for view in views if view is not None}
        )

    def _as_asked(self, goal: Goal) -> int:
        """The price of measuring a goal exactly as asked, at most the whole budget; the number of rows serves all."""
        if not goal.marginal.columns:
            return 0
        units = self._direct(goal, self._tolerance, self._doubt(goal, Order({}, {}, {})))
        return min(units, self._knowledge.record.curator.budget.limit)

    def answer(self, goals: Iterable[Goal]) -> None:
        """Record that these goals were asked, whether or not they had to be paid for."""
        self._paid.asked([self._as_asked(goal) for goal in goals])

    def settle(self, order: Order, goals: Iterable[Goal]) -> None:
        """Record a charge and the goals it was for."""
        self._paid.settle(order, self._knowledge.view, self._as_asked)
        views = list(map(self._knowledge.view, goals))
        self._wholes.asked(views)
        for view in filter(None, views):
            self.asked(len(view.columns)).add(view.columns)

    @property
    def _tolerance(self) -> float:
        return self._knowledge.tolerance

    def asked(self, size: int) -> set[Columns]:
        """The sets of `size` columns that were asked about."""
        return self._sets.setdefault(size, set())

    def _will_do(self, goal: Goal, order: Order, ahead: Outcome) -> bool:
        view = self._knowledge.view(goal)
        if goal.key in order.directs or view is None:
            return goal.key in order.directs
        known = ahead.known(view, goal)
        return len(known) == len(view.gains) and self._widths(order).of(view, known) <= self._tolerance

    def _add(self, order: Order, then: Outcome, goal: Goal, *, ahead: bool, offer: Offer | None = None) -> None:
        """Add to the order what a goal lacks, in the cheapest way; `offer` is the best one, if it was found already."""
        view = self._knowledge.view(goal)
        then.give_up(goal)
        order.rents.pop(goal.key, None)
        known = {} if view is None else then.known(view, goal)
        _, units = self._by_itself(goal, self._tolerance, order)
        if view is not None and ahead:
            units += self._paid.whole.get(view.columns, 0) + self._whole_in(order, view.columns)
        if view is not None and offer is None:
            offer = self._offer(view, known, order, goal, ahead=ahead)
        if view is None or offer is None or offer.burden > units * LEVEL:
            self._measure_as_asked(order, then, goal)
            return
        then.take(goal, offer)
        for part, price in offer.prices.items():
            key = offer.bases[part].key
            order.parts[key] = order.parts.get(key, 0) + price
        if offer.rents:
            order.rents[goal.key] = goal, offer.rents

    def _whole_in(self, order: Order, columns: Columns) -> int:
        """Units that the order already has for questions on these columns, measured as asked."""
        views = [(self._knowledge.view(goal), units) for goal, units in order.directs.values()]
        return sum(units for view, units in views if view is not None and view.columns == columns)

    def _measure_as_asked(self, order: Order, ahead: Outcome, goal: Goal) -> None:
        doubt = self._doubt(goal, order)
        ahead.give_up(goal)
        order.rents.pop(goal.key, None)
        order.directs[goal.key] = self._by_itself(goal, self._tolerance, order)
        precision = self._pricing.fresh_precision(goal, self._tolerance, doubt)
        if self._tells_parts(goal) and math.isfinite(precision):  # an infinite precision has no price
            ahead.learn(goal, precision)

    def _tells_parts(self, goal: Goal) -> bool:
        """Whether a record extracts parts from a goal measured as asked: only Gaussian noise, and no cell histogram."""
        return goal.tells_parts and not self._pricing.pure and not self._knowledge.record.cells

    def _doubt(self, goal: Goal, order: Order, place: int | None = None) -> float:
        """The failure probability of a goal that is measured next as it is asked, or at a place in the order."""
        number = self._taken + (len(order.directs) + 1 if place is None else place)
        widths = self._widths(order) if order.parts or order.rents else self._now
        return widths.fresh(goal.as_asked.cells, number, centred=goal.centred)

    def _offer(
        self, view: View, known: Mapping[Columns, Known], order: Order, goal: Goal, *, ahead: bool
    ) -> Offer | None:
        """The cheapest way to know a question; the histogram of a small universe is bought once, for all questions."""
        if isinstance(view, CellView) and CELLS in view.gains and CELLS not in known and () in known:
            widths = self._widths(order, buying=True)
            purchase = self._pricing.histogram(view, known, self._tolerance, widths, self._expected(view))
            return None if purchase is None else self._pricing.split(view, purchase, {})
        return self._shop(view, known, order, ahead=ahead, rents=self._rentable(view, known, goal, ahead=ahead))

    def _rentable(self, view: View, known: Mapping[Columns, Known], goal: Goal, *, ahead: bool) -> dict[Columns, float]:
        """Parts that may be rented for a goal, each with the factor by which that is cheaper."""
        if any(isinstance(own, Rented) for own in self._knowledge.record.own.get(goal.key, ())):
            return {}  # a name has one number of its own
        return self._pricing.rentable(view, known, self._expected(view) if ahead else 0)

    def _best(
        self, view: View, known: Mapping[Columns, Known], order: Order, goal: Goal, *, ahead: bool
    ) -> Bound | None:
        """A bound on what `_offer` finds."""
        expected, widths = self._expected(view) if ahead else 0, self._widths(order, buying=True)
        rents = self._rentable(view, known, goal, ahead=ahead)
        return self._pricing.at_best(view, known, self._tolerance, widths, expected, rents=rents)

    def _expected(self, view: View) -> int:
        """Expected number of column sets of the same size that will be asked about."""
        known = self.asked(len(view.columns))
        asked, expected = len(known) + (view.columns not in known), self._expect or FIRST_SETS
        while expected < asked:  # doubled, so that the expectation changes rarely
            expected *= 2
        return expected

    def _shop(
        self,
        view: View,
        known: Mapping[Columns, Known],
        order: Order,
        *,
        ahead: bool,
        rents: dict[Columns, float],
        dear: Callable[[int], bool] | None = None,
    ) -> Offer | None:
        """The cheapest mixture of parts to buy and to rent; what was paid in rents counts towards buying."""
        expected, widths = self._expected(view) if ahead else 0, self._widths(order, buying=True)

        def worn(part: Columns, units: int, purchase: Purchase) -> bool:
            return ahead and self._worn(part, units, purchase, order)

        return self._pricing.offer(view, known, self._tolerance, widths, expected, rents=rents, worn=worn, dear=dear)

    def _worn(self, part: Columns, units: int, purchase: Purchase, order: Order) -> bool:
        """Whether renting a part once more would cost more in total than buying it; ranges seldom come alone."""
        enough = RANGES if purchase.bases[part].key != part else 1.0
        now = sum(parts.get(part, 0) for _, parts in order.rents.values())  # in the same charge
        return self._paid.rented.get(part, 0) + now + units > enough * purchase.prices[part]
