"""GuardPolicy: when to pay for a guard over the public model, and what the guard promises.

A guard (`Curator.guard`) is charged when it opens. It then tests any number of the model's answers; its first alarm
ends it. It costs as much as several hundred counts, so it pays only where the model is good and many questions are
still to come. The ski-rental rule decides: the session adds up what it paid for answers that the model had right, and
opens a guard when this *regret* reaches the guard's price. After every alarm the required regret doubles. All of this
is computed from released numbers.

Accuracy: an answer that is off by more than the tolerance passes only if the noise of the threshold or of the test
exceeds `slack`, half the tolerance. The threshold noise has scale 2 D / e and the test noise 4 D / e, with one-sided
tails exp(-x / scale) / 2, so e is chosen such that the two tails sum to the failure probability. All tests of a guard
share the threshold noise: in simultaneous sessions it gets its own share of the failure probability, and the number of
tests per guard is limited so that their shares add up.
"""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Guard
from maquette.errors import BudgetExceeded, DeadlineMissed, GuardSealed, RequestBusy, RequestLost
from maquette.privacy import Pure
from maquette.session.model import Model
from maquette.session.precision.width import Widths
from maquette.session.question import Goal, as_json
from maquette.session.record import Record

Values = NDArray[np.float64]

THRESHOLD = 0.5  # share of the tolerance; the rest is slack for the noise
GOOD = 0.25  # share of the tolerance: how close the model must have been for a payment to count as regret
MAX_TESTS = 10_000  # per guard
MAX_TESTED = 1_000  # cells per test
MAX_GUARDS = 16  # per session, over all restarts
STALE = 2  # the model is fitted again when the number of charges has grown by this factor


class GuardPolicy:
    """Keeps the regret, opens guards, and lets them test the model's answers."""

    def __init__(self, record: Record, widths: Widths, tolerance: float, *, never: bool, started: bool = False) -> None:
        self._record = record
        self._curator: Curator = record.curator
        self._widths = widths
        self._tolerance = tolerance
        self._never = never
        self._started = started
        self._guard: Guard | None = None
        self._number = 0  # number of the open guard
        self._tests = 0
        self._regret = self._spent = 0

    @property
    def armed(self) -> bool:
        """Whether a guard is open."""
        return self._guard is not None

    @property
    def price(self) -> int:
        """Price of one guard, in ledger units."""
        return self._curator.budget.accountant.units(Pure(self._epsilon))

    @property
    def _epsilon(self) -> float:
        moved = self._curator.relation.max_contributions
        threshold, test = self._doubts
        slack = (1 - THRESHOLD) * self._tolerance * 0.99  # the doors round noise up
        return moved * (2 * math.log(1 / (2 * threshold)) + 4 * math.log(1 / (2 * test))) / slack

    @property
    def _doubts(self) -> tuple[float, float]:
        """Failure probability of the threshold noise, and of each test."""
        if not self._widths.simultaneous:
            return self._widths.beta / 2, self._widths.beta / 2
        share = self._widths.guard(self._record.guards + 1) / 2
        return share, share / MAX_TESTS

    def watching(self) -> bool:
        """Whether to compare the model with measurements: a guard may soon be worth its price.

        That is where enough was spent; or where the model has a public start, which may be right from the beginning.
        """
        soon = self._started or 2 * self._spent >= self.price
        return not self._never and self._record.guards < MAX_GUARDS and soon

    def paid(self, units: int) -> None:
        """Record a payment."""
        self._spent += units

    def compare(self, units: int, guessed: Values, found: Values) -> None:
        """Compare a payment's result with the model's guess; open a guard once the regret reaches its price."""
        if float(np.abs(guessed - found).max(initial=0.0)) > GOOD * self._tolerance:
            return
        self._regret += units
        if self._guard is None and self._regret >= self.price * 2**self._record.guards:
            self._arm()

    def _arm(self) -> None:
        self._number, units = self._record.guards, self.price
        self._record.guards += 1
        try:
            self._guard = self._curator.guard(
                THRESHOLD * self._tolerance,
                hits=1,
                numeric=False,
                request=f"{self._record.name}:guard:{self._number}",
                units=units,
            )
        except BudgetExceeded:
            self._record.guards -= 1
            self._never = True
            return
        except DeadlineMissed:  # a guard that was paid for but did not open; its number is used up
            self._regret = 0
            return
        self._tests = self._regret = 0

    def accept(self, goal: Goal, model: Model, rows: float) -> bool:
        """Let the guard test the model's answer to a goal; True if the answer may be given."""
        if self._guard is None or goal.signed or not goal.counted or goal.marginal.cells > MAX_TESTED:
            return False
        values = np.rint(guessed(goal, model, rows))
        promise = {
            "tolerance": self._tolerance,
            "beta": self._widths.beta,
            "simultaneous": self._widths.simultaneous,
        }
        note = {"need": as_json(goal.marginal), "values": values.tolist(), **promise}
        name = hashlib.sha256(json.dumps([goal.key, values.tolist()]).encode()).hexdigest()
        try:
            tested = self._guard.test(
                goal.marginal, values, request=f"{self._record.name}:test:{self._number}:{name}", note=note
            )
        except GuardSealed:
            self._guard = None
            return False
        except (RequestBusy, RequestLost):  # the result of an interrupted test is never released
            return False
        self._tests += 1
        if tested.above or self._tests >= MAX_TESTS:
            self._guard = None
        if tested.above:
            return False
        self._record.accept(goal, note)
        return True


def guessed(goal: Goal, model: Model, rows: float) -> Values:
    """The model's numbers for every cell of a goal's marginal, in counts."""
    marginal = goal.marginal
    if all(isinstance(axis, str) for axis in marginal.axes) and not marginal.weight.columns:
        whole = marginal.weight.bounds[1]
        return model.marginal(marginal.names) * (rows * whole)
    cells = np.array([model.answer(query) for _, query in marginal.queries()])
    return cells.reshape(marginal.shape) * rows
