"""The guardian's rule: regret buys a guard, alarms make the next dearer; all short histories against a reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator import results
from maquette.errors import BudgetExceeded, GuardSealed, RequestLost
from maquette.query import LinearQuery, Marginal
from maquette.session import guard_policy as module
from maquette.session.guard_policy import GOOD, GuardPolicy
from maquette.session.precision.width import Widths
from maquette.session.question import Goal
from maquette.session.record import Record

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Boolean("tall")])
NEED = Goal(Marginal(SCHEMA, (), mq.where(SCHEMA, "smoker")))
TOLERANCE = 100.0

# What can happen: a payment for what the model had right (a third of a guard's price, or all of it), one for what it
# had wrong, or a question, which an open guard lets pass or not.
EVENTS = ("good third", "good whole", "bad whole", "pass", "alarm")
LENGTH = 5


class Scripted:
    """A guard that says what it is told to."""

    def __init__(self) -> None:
        self.outcome: bool | Exception = False
        self.tests = 0

    def test(self, question: Any, answer: Any, *, request: str, note: Any) -> results.Tested:
        self.tests += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return results.Tested(self.outcome, None)


class Model:
    """A public model that always says the same."""

    def answer(self, query: LinearQuery) -> float:
        return 0.5

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        raise AssertionError("not asked for")


@pytest.fixture(scope="module")
def curator() -> Iterator[mq.Curator]:
    table = mq.open_table({"smoker": [True, False], "tall": [True, False]}, SCHEMA)
    with mq.Curator(table, mq.Budget(epsilon=1e3)) as opened:
        yield opened


class World:
    """A policy over scripted guards; `bought` are the prices of those it opened."""

    def __init__(
        self, curator: mq.Curator, *, rule: type[GuardPolicy] = GuardPolicy, guards: int = 0, never: bool = False
    ):
        self.open: Scripted | None = None
        self.bought: list[int] = []
        self.guarded = 0
        self.refuse = False
        stand_in = SimpleNamespace(
            guard=self._guard, budget=curator.budget, relation=curator.relation, schema=curator.schema
        )
        self.record = SimpleNamespace(curator=stand_in, name="session:test", guards=guards, accept=self._accept)
        widths = Widths(1e-3, False, gaussian=False)
        self.policy = rule(self.record, widths, TOLERANCE, never=never)  # type: ignore[arg-type]

    def _guard(self, threshold: float, *, hits: int, numeric: bool, request: str, units: int) -> Scripted:
        assert (threshold, hits, numeric) == (TOLERANCE / 2, 1, False)
        if self.refuse:
            raise BudgetExceeded("nothing is left", requested=1.0, remaining=0.0)
        self.bought.append(units)
        self.open = Scripted()
        return self.open

    def _accept(self, goal: Goal, note: Any) -> None:
        self.guarded += 1

    def live(self, event: str) -> None:
        if event in ("pass", "alarm"):
            if self.open is not None:
                self.open.outcome = event == "alarm"
            self.policy.accept(NEED, Model(), 1000.0)
            return
        kind, size = event.split()
        units = self.policy.price if size == "whole" else -(-self.policy.price // 3)
        off = GOOD * TOLERANCE * (1.0 if kind == "good" else 1.0001)
        self.policy.paid(units)
        self.policy.compare(units, np.array([500.0]), np.array([500.0 + off]))

    @property
    def state(self) -> tuple[bool, int, int]:
        return self.policy.armed, self.record.guards, self.guarded


def expected(history: Sequence[str]) -> tuple[bool, int, int]:
    """The rule in thirds of a price: armed, guards opened, answers accepted."""
    armed, guards, guarded, regret = False, 0, 0, 0
    for event in history:
        if event.startswith("good"):
            regret += 1 if event.endswith("third") else 3
            if not armed and regret >= 3 * 2**guards:
                armed, guards, regret = True, guards + 1, 0
        elif event == "pass":
            guarded += armed
        elif event == "alarm":
            armed = False
    return armed, guards, guarded


def disagreement(curator: mq.Curator, rule: type[GuardPolicy]) -> tuple[str, ...] | None:
    """The first history, shortest first, on which a rule differs from the reference."""
    for length in range(1, LENGTH + 1):
        for history in itertools.product(EVENTS, repeat=length):
            world = World(curator, rule=rule)
            for event in history:
                world.live(event)
            if world.state != expected(history):
                return history
    return None


def test_every_short_history_follows_the_rule(curator: mq.Curator) -> None:
    assert disagreement(curator, GuardPolicy) is None


class NeverDearer(GuardPolicy):
    """Forgets the guards it had when it reckons what the next one must be worth."""

    def compare(self, units: int, guessed: np.ndarray, found: np.ndarray) -> None:
        held, self._record = self._record, SimpleNamespace(**{**vars(self._record), "guards": 0})  # type: ignore
        try:
            super().compare(units, guessed, found)
        finally:
            held.guards += self._record.guards
            self._record = held


class RegretsEverything(GuardPolicy):
    """Takes every payment for one that the model could have spared."""

    def compare(self, units: int, guessed: np.ndarray, found: np.ndarray) -> None:
        super().compare(units, guessed, guessed)


class KeepsItsRegret(GuardPolicy):
    """Does not start from nothing after it has paid for a guard."""

    def _arm(self) -> None:
        kept = self._regret
        super()._arm()
        self._regret = kept


class OutlivesAnAlarm(GuardPolicy):
    """Goes on with a guard whose only hit is used."""

    def accept(self, goal: Goal, model: Any, rows: float) -> bool:
        guard = self._guard
        passed = super().accept(goal, model, rows)
        self._guard = guard
        return passed


@pytest.mark.parametrize("mutant", [NeverDearer, RegretsEverything, KeepsItsRegret, OutlivesAnAlarm])
def test_a_broken_rule_differs_on_some_short_history(curator: mq.Curator, mutant: type[GuardPolicy]) -> None:
    assert disagreement(curator, mutant) is not None


def test_guards_cost_no_more_than_what_was_regretted(curator: mq.Curator) -> None:
    """Ski-rental: with k guards opened, k prices were paid and at least (2^k - 1) prices regretted before."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        world, regretted = World(curator), 0
        for event in rng.choice(EVENTS, size=300):
            world.live(str(event))
            regretted += {"good third": 1, "good whole": 3}.get(str(event), 0)
            assert 3 * (2 ** len(world.bought) - 1) <= regretted
        assert len(set(world.bought)) == 1


def test_the_model_is_looked_at_from_half_the_price_on(curator: mq.Curator) -> None:
    world = World(curator)
    assert not world.policy.watching()
    world.policy.paid(world.policy.price // 2 - 1)
    assert not world.policy.watching()
    world.policy.paid(2)
    assert world.policy.watching()
    assert not World(curator, never=True).policy.watching()
    old = World(curator, guards=module.MAX_GUARDS)
    old.policy.paid(10 * old.policy.price)
    assert not old.policy.watching()


def test_a_guard_that_cannot_be_paid_is_never_asked_for_again(curator: mq.Curator) -> None:
    world = World(curator)
    world.refuse = True
    world.live("good whole")
    assert (world.state, world.bought) == ((False, 0, 0), [])
    assert not world.policy.watching()


@pytest.mark.parametrize(("failure", "armed"), [(GuardSealed("sealed"), False), (RequestLost("lost"), True)])
def test_a_test_without_an_outcome_accepts_nothing(curator: mq.Curator, failure: Exception, armed: bool) -> None:
    world = World(curator)
    world.live("good whole")
    assert world.open is not None
    world.open.outcome = failure
    assert not world.policy.accept(NEED, Model(), 1000.0)
    assert world.state == (armed, 1, 0)


def test_a_guard_is_put_down_after_its_tests(curator: mq.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TESTS", 3)
    world = World(curator)
    for event in ("good whole", "pass", "pass", "pass", "pass"):
        world.live(event)
    assert world.state == (False, 1, 3)
    assert world.open is not None
    assert world.open.tests == 3


def test_a_record_is_what_a_guardian_needs() -> None:
    """The stand-in above has no name that the real thing lacks."""
    table = mq.open_table({"smoker": [True, False], "tall": [True, False]}, SCHEMA)
    record = Record(mq.Curator(table, mq.Budget(epsilon=1.0)), "real")
    assert all(hasattr(record, name) for name in ("curator", "name", "guards", "accept"))
