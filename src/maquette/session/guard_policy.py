"""GuardPolicy: when to pay for a guard over the public model, and what its silence is worth.

A guard (`Curator.guard`) is charged when it opens and then says, for any number of questions, whether the model is off;
its first alarm ends it. It costs as much as several hundred counts, so it pays only where the model is good and many
questions are still to come. Ski-rental decides: the session keeps account of what it paid for answers that the model
had right, and arms a guard when that *regret* reaches the guard's price; after every alarm the price to reach doubles.
All of it follows from released numbers.

Accuracy: an answer passes although it is off by more than the tolerance only if the noise of the threshold or of the
test exceeds `slack`, half the tolerance. With threshold noise of scale 2 D / e and test noise of scale 4 D / e, one
tail of each is exp(-x / scale) / 2, so e is chosen for their sum to be the doubt. The threshold's noise is shared by
all tests of a guard: in simultaneous sessions it takes a share of the doubt of its own, and the tests of a guard are
limited so that theirs add up.
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
from maquette.session.precision.width import GUARDED, Widths
from maquette.session.question import Goal, as_json
from maquette.session.record import Record

Values = NDArray[np.float64]

THRESHOLD = 0.5  # of the tolerance; the rest is slack for the noise
GOOD = 0.25  # of the tolerance: how close the model must have been for a payment to be regretted
MAX_TESTS = 10_000  # of one guard
MAX_TESTED = 1_000  # cells of one test
MAX_GUARDS = 16  # of one session, over all restarts
STALE = 2  # the model is fitted again when there are so many times as many charges


class GuardPolicy:
    """Keeps the regret, arms guards, and lets them test the model's answers."""

    def __init__(self, record: Record, widths: Widths, tolerance: float, *, never: bool) -> None:
        self._record = record
        self._curator: Curator = record.curator
        self._widths = widths
        self._tolerance = tolerance
        self._never = never
        self._guard: Guard | None = None
        self._number = 0  # of the guard that is open
        self._tests = 0
        self._regret = self._spent = 0

    @property
    def armed(self) -> bool:
        """Whether a guard is open."""
        return self._guard is not None

    @property
    def price(self) -> int:
        """Units for one guard."""
        return self._curator.budget.accountant.units(Pure(self._epsilon))

    @property
    def _epsilon(self) -> float:
        moved = self._curator.relation.max_contributions
        threshold, test = self._doubts
        slack = (1 - THRESHOLD) * self._tolerance * 0.99  # the doors round noise up
        return moved * (2 * math.log(1 / (2 * threshold)) + 4 * math.log(1 / (2 * test))) / slack

    @property
    def _doubts(self) -> tuple[float, float]:
        """The doubt about the threshold's noise, and about that of each test."""
        if not self._widths.simultaneous:
            return self._widths.beta / 2, self._widths.beta / 2
        share = self._widths.beta * GUARDED * 6 / (math.pi * (self._record.guards + 1)) ** 2 / 2
        return share, share / MAX_TESTS

    def watching(self) -> bool:
        """Whether the model's answers are worth looking at: enough was spent that a guard may pay soon."""
        return not self._never and self._record.guards < MAX_GUARDS and 2 * self._spent >= self.price

    def paid(self, units: int) -> None:
        """Take note of a payment."""
        self._spent += units

    def compare(self, units: int, guessed: Values, found: Values) -> None:
        """Take note of what a payment brought to light; arm a guard once the regret is worth one."""
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
        except DeadlineMissed:  # a guard that was paid for and not opened; its number is used up
            self._regret = 0
            return
        self._tests = self._regret = 0

    def accept(self, goal: Goal, model: Model, rows: float) -> bool:
        """Let the guard test the model's answer to a goal; True if it may be given as it is."""
        if self._guard is None or goal.signed or goal.marginal.cells > MAX_TESTED:
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
        except (RequestBusy, RequestLost):  # a test that was interrupted is never told
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
