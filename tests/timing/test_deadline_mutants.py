"""Broken deadlines: each must be caught by the gate named beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timing_checks as checks

from gate_tools import patched, wrapped
from maquette.curator.deadline import Attempt, Moments
from maquette.curator.transaction import Transaction, unpack
from maquette.errors import DeadlineMissed, RequestBusy
from maquette.privacy.ledger import machine
from maquette.privacy.ledger.book import BookLedger

_on_time = Transaction._on_time


def _no_wait_after_a_hit() -> Any:
    """Released as soon as it is recorded, where the guard found the answer off."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        seen: list[bool] = []
        clock = self._clock
        until = clock.until

        def found() -> Any:
            recorded, hit = evaluate()
            seen.append(hit)
            return recorded, hit

        def wait(moment: float) -> None:
            if not (moment == moments.released and ticket.request.guard and seen[-1:] == [True]):
                until(moment)

        with patched(clock, "until", wait):
            return _on_time(self, ticket, found, moments, span)

    return patched(Transaction, "_on_time", on_time)


def _recorded_when_ready() -> Any:
    """The record is written when the evaluation ends, not at its moment."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        until = self._clock.until
        with patched(self._clock, "until", lambda moment: None if moment == moments.decided else until(moment)):
            return _on_time(self, ticket, evaluate, moments, span)

    return patched(Transaction, "_on_time", on_time)


def _waits_from_where_it_is() -> Any:
    """The deadline counts from the end of the evaluation."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        recorded, hit = evaluate()
        self.ledger.commit(ticket, recorded, hit=hit)
        self._clock.until(self._clock.monotonic() + checks.DEADLINE)
        return unpack(recorded)

    return patched(Transaction, "_on_time", on_time)


def _late_evaluation_is_released() -> Any:
    """The evaluation is waited for, however long it takes."""

    def by(self: Any, moment: float) -> Any:
        self._thread.start()
        self._done.wait()
        return self._result

    return patched(Attempt, "by", by)


def _late_is_released() -> Any:
    """A late record is let pass."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        return _on_time(self, ticket, evaluate, Moments(moments.decided, float(10**9)), span)

    return patched(Transaction, "_on_time", on_time)


def _late_is_refused_and_kept() -> Any:
    """A late answer is refused, but what was recorded stays recorded."""
    return patched(BookLedger, "withhold", lambda self, ticket: None)


def _late_is_recorded_at_the_end() -> Any:
    """A late evaluation is refused, and then recorded when it ends."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        def kept() -> Any:
            recorded, hit = evaluate()
            if self._clock.monotonic() >= moments.decided:
                self.ledger.commit(ticket, recorded, hit=hit)
            return recorded, hit

        with patched(BookLedger, "withhold", lambda self, ticket: None):
            return _on_time(self, ticket, kept, moments, span)

    return patched(Transaction, "_on_time", on_time)


def _withheld_for_this_life_only() -> Any:
    """Withheld requests are answered again once the ledger is opened anew, as far as its state says."""

    def state(charged: int, answered: int | None, boot: int, *, left: bool = False) -> str:
        return "answered" if answered is not None else "reserved"

    return patched(machine, "state", state)


def _hit_given_back() -> Any:
    """A late test that found nothing gives its hit back."""
    return wrapped(machine, "follow", _without_the_hit)


def _without_the_hit(original: Callable[..., Any], books: Any, seq: int, kind: str, facts: Any) -> None:
    original(books, seq, kind, facts)
    guard = books.facts(facts[0])[4] if kind == "withheld" else None
    if guard is not None:
        opened, hits, used = books.guards.get(guard)
        books.guards[guard] = (opened, hits, max(0, used - 1))


def _failure_is_told() -> Any:
    """What is raised behind the wall is raised in front of it."""

    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        try:
            recorded, hit = evaluate()
        finally:
            self._clock.until(moments.released)
        self.ledger.commit(ticket, recorded, hit=hit)
        return unpack(recorded)

    return patched(Transaction, "_on_time", on_time)


def _failure_is_the_cause() -> Any:
    def on_time(self: Transaction, ticket: Any, evaluate: Any, moments: Moments, span: Any) -> Any:
        failures: list[BaseException] = []

        def noted() -> Any:
            try:
                return evaluate()
            except BaseException as failure:
                failures.append(failure)
                raise

        try:
            return _on_time(self, ticket, noted, moments, span)
        except DeadlineMissed as refusal:
            raise refusal from next(iter(failures), None)

    return patched(Transaction, "_on_time", on_time)


def _all_costs(_: Path) -> None:
    for cost in (0.0, 0.02, 0.3):
        checks.leaves_at_the_deadline(cost)


def _hits(_: Path) -> None:
    for answer in (5.0, 1e6):
        for recording in (0.0, 2.0):
            checks.late_tests_keep_their_hit(answer, recording=recording)


GATES: dict[str, Callable[[Path], None]] = {
    "moments": _all_costs,
    "late evaluation": checks.late_evaluation_is_never_told,
    "late record": checks.late_record_is_never_told,
    "failures": lambda _: checks.failures_look_like_lateness(),
    "hits": _hits,
}

MUTANTS: dict[Callable[[], Any], str] = {
    _no_wait_after_a_hit: "moments",
    _recorded_when_ready: "moments",
    _waits_from_where_it_is: "moments",
    _late_evaluation_is_released: "late evaluation",
    _late_is_recorded_at_the_end: "late evaluation",
    _late_is_released: "late record",
    _late_is_refused_and_kept: "late record",
    _withheld_for_this_life_only: "late record",
    _hit_given_back: "hits",
    _failure_is_told: "failures",
    _failure_is_the_cause: "failures",
}


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("gate", GATES)
def test_sound_deadlines_pass_every_gate(gate: str, tmp_path: Path) -> None:
    GATES[gate](tmp_path / "ledger")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_broken_deadlines_are_caught(mutant: Callable[[], Any], tmp_path: Path) -> None:
    caught = (AssertionError, pytest.fail.Exception, RequestBusy, RuntimeError)
    with mutant(), pytest.raises(caught):
        GATES[MUTANTS[mutant]](tmp_path / "ledger")
