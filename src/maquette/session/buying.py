"""Buyer: pays for what goals lack: lets a guard speak first, plans on what is known and in flight, and charges.

Plans follow from public facts alone; rows are accessed by the charge, through `Record`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from maquette.curator import Deadline
from maquette.errors import BudgetExceeded, RequestLost
from maquette.privacy import Loss
from maquette.privacy.ledger import BookLedger, Overtaken
from maquette.session.ahead import Ahead
from maquette.session.guard_policy import STALE, GuardPolicy, Values, guessed
from maquette.session.knowledge import Knowledge
from maquette.session.order import Flight, Named, Order
from maquette.session.planner import Planner
from maquette.session.question import Goal

HEARD = 100_000  # goals
ROUNDING = 4  # units that splitting a charge may add

NOTHING = Order({}, {}, {})
Way = Literal["usual", "frugal", "rest"]


class Buyer:
    """Buys what goals lack, for one session's promises."""

    def __init__(self, knowledge: Knowledge, planner: Planner, policy: GuardPolicy, deadline: Deadline | None) -> None:
        self._knowledge = knowledge
        self._planner = planner
        self._policy = policy
        self._record = knowledge.record
        self._lock = self._record.lock
        self._curator = self._record.curator
        self._deadline = deadline
        self.free = self._curator.cost_of([])
        self.heard: deque[Goal] = deque(maxlen=HEARD)  # asked, and not yet counted by the planner

    @property
    def timed(self) -> bool:
        """Whether questions to the rows have a deadline; then they come one after the other."""
        return self._deadline is not None or self._curator.deadline is not None

    def loss(self, units: int) -> Loss:
        """A price in ledger units as a loss."""
        return self._curator.budget.accountant.loss(units, self._curator.budget.delta)

    def pay(
        self,
        goals: Sequence[Goal],
        analyst: str,
        named: Named | None,
        most: int | None = None,
        way: Way = "usual",
    ) -> tuple[int, Loss]:
        """Buy what these goals lack, for `most` units at most; returns the moment before that, and the price.

        The usual way has a view to later questions. The frugal one has not. With the rest of the budget goals are
        measured as asked, less precisely than promised, or not at all (`Planner.rest`); what remains may be spent by
        another thread meanwhile, and then nothing is charged.

        The lock is held for the plan alone. What others have in flight is planned on as if it were there; should it
        fail, the rest is bought in a second charge, which has a name of its own (`Bill`): whoever asks again under
        the request's name, after a crash or meanwhile, buys the rest or finds it bought.
        """
        before, paid, heard = self._record.transcript.moment, self.free, False
        bill = Bill(named)
        while True:
            counted = False
            flight = Flight(veiled=threading.get_ident() if self.timed else None)
            watched = most is None and way == "usual"  # with a highest price no guard is opened
            guesses = self._foresee(goals) if watched else {}
            try:
                with self._lock:
                    self._record.ready()
                    if self._settled(bill, analyst) and not paid.units:
                        before = self._record.transcript.moment
                    self._look_first(goals, way)
                    missing = [goal for goal in goals if self._knowledge.state(goal) is None]
                    ahead = self._record.ahead() if missing else None
                    usual = way == "usual"
                    plan = self.plan(missing, goals, ahead) if usual else self._saving(missing, way, analyst, most)
                    if not plan:
                        if ahead is None:
                            return before, paid
                        self._record.drain()  # others are buying all of it
                        continue
                    if bill.made and all(map(self._knowledge.measured_alone, missing)):
                        return before, paid  # the request bought what the rest of the budget allowed
                    if bill.made:
                        bill.turn(self._built_on_others(bill))
                        continue
                    self.check_price(plan.units, most, bill.units)
                    self._record.begin(flight, plan, analyst=analyst, named=bill.signed(way))
                    self._planner.settle(plan, goals)
                    self._planner.answer([] if paid.units or heard or way != "usual" else goals)
                    counted = True
                paid = self._plus(paid, self._record.charge(flight, analyst=analyst))
            except Overtaken:  # by another process; what it buys is there in a moment
                with self._lock:
                    self._planner.settle(plan.undone, [])
                heard = True
                continue
            except BudgetExceeded:
                with self._lock:
                    self._planner.settle(plan.undone if counted else NOTHING, [])
                raise
            finally:
                self._record.give_up(flight)
            with self._lock:
                self._compare(plan, goals, guesses)
                if not flight.ahead or all(self._knowledge.state(goal) is not None for goal in goals):
                    return before, paid
            bill.turn(plan.units)

    def _settled(self, bill: Bill, analyst: str) -> bool:
        """Find whether the next charge of a request was made before; False if that is known. Called with the lock."""
        if bill.name is None or bill.made:
            return False
        bill.made = self._record.settle_request(bill.name.text, analyst, bill.name.asked)
        self._record.ready()
        return True

    def _built_on_others(self, bill: Bill) -> int:
        """The units of a charge made before that was planned on others' charges; refused if it was not.

        Such a charge may be answered and yet not be enough, because one of the others came to nothing.
        """
        assert bill.name is not None, "only what has a name was made before"
        name = bill.name.text
        own, *_ = self._record.requests[name]
        charge = next(one for one in self._curator.ledger.charges() if one.id == own)
        note = charge.described.note
        if "since" not in note or note["request"].get("last"):
            raise RequestLost(
                f"request {name!r} was charged before, and what it bought does not answer the question within the "
                "tolerance",
                advice="nothing more is charged under this name. Ask under a fresh one, which is charged anew.",
            )
        return charge.units

    def prepare(self, goals: Sequence[Goal], analyst: str) -> Loss:
        """Buy in one charge what all these goals need; called with the lock, alone."""
        while True:
            order = self.plan(goals, goals)
            try:
                paid = self._record.charge(order, analyst=analyst) if order else self.free
            except Overtaken:
                self._record.drain()
                continue
            self._planner.settle(order, [])
            self._policy.paid(order.units)
            return paid

    def _look_first(self, goals: Sequence[Goal], way: Way) -> None:
        """An open guard speaks first; it and the last ways of a budget wait for what is in flight. With the lock."""
        if self._policy.armed or way != "usual":
            self._record.drain()
            self._record.ready()
        if self._policy.armed:
            self._accept(goals)

    def plan(self, missing: Sequence[Goal], goals: Sequence[Goal], ahead: Ahead | None = None) -> Order:
        """What to charge for goals of which some are missing; called with the lock."""
        while self.heard:
            self._planner.answer([self.heard.popleft()])
        if not missing:
            return NOTHING
        return (self._planner if ahead is None else self._planner.on(self._knowledge.foreseen(ahead))).plan(goals)

    def _saving(self, missing: Sequence[Goal], way: Way, analyst: str, most: int | None) -> Order:
        """What to charge where the usual plan cannot be paid; called with the lock, with nothing in flight."""
        if way == "frugal":
            return self._planner.frugal(missing)
        left = self.left(analyst) - ROUNDING
        return self._planner.rest(missing, left if most is None else min(left, most))

    def left(self, analyst: str) -> int:
        """The most that one charge of an analyst may take, in units."""
        ledger = self._curator.ledger
        if isinstance(ledger, BookLedger):
            return ledger.left(analyst)
        return self._curator.budget.limit - ledger.spent()

    def _plus(self, one: Loss, other: Loss) -> Loss:
        return other if not one.units else self.loss(one.units + other.units)

    def units(self, epsilon: float | None) -> int | None:
        """A highest price in ledger units, rounded down."""
        budget = self._curator.budget
        return (
            None if epsilon is None else budget.accountant.share(epsilon=epsilon, delta=budget.delta) if epsilon else 0
        )

    def check_price(self, units: int, most: int | None, spent: int = 0) -> None:
        """Refuse a plan that comes, with what was spent on the same request, above the highest price."""
        if most is not None and units + spent > most:
            price, limit = self.loss(min(units + spent, self._curator.budget.limit)), self.loss(most)
            charged = f"{self.loss(spent)} was charged before" if spent else "nothing was charged"
            raise TooDear(
                f"this would cost {price}, more than the max_cost of epsilon {limit.epsilon:.4g} given with it",
                advice=f"{charged}. Ask with a higher max_cost, or a larger alpha",
                requested=price.epsilon,
                remaining=limit.epsilon,
            )

    def _accept(self, goals: Sequence[Goal]) -> None:
        """If a guard is open, let it test the model's answers to goals that are not known."""
        for goal in goals:
            if self._policy.armed and self._knowledge.state(goal) is None:
                self._policy.accept(goal, self._knowledge.model(stale=STALE), self._knowledge.rows)

    def _foresee(self, goals: Sequence[Goal]) -> dict[str, Values]:
        """The model's answers to goals about to be paid for, if a guard may soon be worth its price."""
        if not self._policy.watching():
            return {}
        model, rows = self._knowledge.model(stale=STALE), self._knowledge.rows
        return {
            goal.key: guessed(goal, model, rows)
            for goal in goals
            if self._knowledge.state(goal) is None and not goal.signed and goal.counted
        }

    def _compare(self, plan: Order, goals: Sequence[Goal], foreseen: Mapping[str, Values]) -> None:
        """Record a payment for the guard's regret."""
        self._policy.paid(plan.units)
        for goal in goals:
            if goal.key in foreseen:
                found = self._knowledge.numbers([goal]).reading(goal)
                self._policy.compare(plan.units // len(foreseen), foreseen[goal.key], found.values)


class TooDear(BudgetExceeded):
    """A price above the highest that was given with the question."""


class Bill:
    """The charges of one request, made before or now: its own, and one for each rest that others did not bring."""

    def __init__(self, named: Named | None) -> None:
        self.name = self._named = named  # of the next charge
        self.made = False  # whether the next charge was made before
        self.units = self._turns = 0

    def turn(self, units: int) -> None:
        """Add a charge that was not enough; the next has a name of its own."""
        self.units += units
        self._turns, self.made = self._turns + 1, False
        self.name = self._named and self._named._replace(text=f"{self._named.text}\n{self._turns}")

    def signed(self, way: Way) -> Named | None:
        """The name as the next charge, made in this way, records it."""
        return self.name and self.name._replace(last=way == "rest")
