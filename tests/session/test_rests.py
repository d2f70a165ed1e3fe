"""A request that was planned on another's charge, which then failed, buys what that was to bring: once, by its name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from flights import Flights, held_back, held_back_calls, numbers, opened

from maquette.errors import BudgetExceeded, DeadlineMissed, LedgerCorrupted, MaquetteError, RequestLost
from maquette.session import record as records
from maquette.session.buying import Bill, Buyer
from maquette.session.record import Record
from maquette.session.session import Session
from maquette.session.shared import overlap


def test_a_request_whose_support_was_lost_buys_that_once_and_nothing_twice(tmp_path: Path) -> None:
    """Its charge was answered, but it was planned on another that a crash took."""
    with opened(tmp_path / "ledger") as session:
        with held_back(session, 2) as flights:
            flights.ask("a AND b AND c")
            flights.ask("a AND b AND c AND d", request="mine")
        lost = min(charge.id for charge in session.curator.ledger.charges())  # the first; either may be written first
    answered = records.Record._recover

    def crashed(self: Record, charge: Any, note: Any) -> None:
        answered(self, charge, note) if charge.id != lost else None

    with mock.patch.object(Record, "_recover", crashed), opened(tmp_path / "ledger") as session:
        found = session.ask("a AND b AND c AND d", request="mine")
        assert found.guarantee is not None
        spent = session.curator.ledger.spent()
        assert numbers(session.ask("a AND b AND c AND d", request="mine")) == numbers(found)
        assert session.curator.ledger.spent() == spent
        notes = [charge.described.note for charge in session.curator.ledger.charges() if charge.id != lost]
        assert [note["request"]["name"] for note in notes] == ["mine", "mine\n1"]
        assert not overlap(*notes)


def _refusal(session: Session, question: str, **given: Any) -> MaquetteError | None:
    try:
        session.ask(question, request="mine", **given)
    except MaquetteError as refused:
        return refused
    return None


def _what_failed_is_bought_once_after_a_crash(tmp_path: Path) -> None:
    """A request was charged and answered, another's charge that it was planned on failed, and then all ended."""
    measure, question = Record._measure, "a AND b AND c AND d"
    with opened(tmp_path / "ledger") as session:
        calls: list[str] = []

        def trouble(self: Record, request: str, *args: Any) -> Any:
            calls.append(request)
            if request.endswith(":0"):
                raise DeadlineMissed
            if len(calls) > 2:
                raise KeyboardInterrupt
            return measure(self, request, *args)

        flights = Flights(session)
        with held_back_calls(flights, trouble):
            flights.ask("a AND b AND c")
            flights.ask(question, request="mine")
        assert isinstance(flights.told[1].exception(), KeyboardInterrupt)
        (paid,) = session.curator.ledger.charges()
    with opened(tmp_path / "ledger") as session:
        most = session.curator.budget.accountant.loss(paid.units, session.curator.budget.delta).epsilon
        refused = _refusal(session, question, max_cost=most)
        assert isinstance(refused, BudgetExceeded)
        assert "was charged before" in str(refused)
        found = session.ask(question, request="mine")
        assert found.guarantee is not None
        assert found.cost.units > 0
        spent = session.curator.ledger.spent()
        assert numbers(session.ask(question, request="mine")) == numbers(found)
    with opened(tmp_path / "ledger") as session:
        assert numbers(session.ask(question, request="mine")) == numbers(found)
        assert session.curator.ledger.spent() == spent
        notes = [charge.described.note for charge in session.curator.ledger.charges()]
        assert [note.get("request", {}).get("name") for note in notes] == ["mine", "mine\n1"]


def _what_needed_no_other_is_lost(tmp_path: Path) -> None:
    """What it bought cannot be found again; under its name nothing more is charged."""
    with opened(tmp_path / "ledger") as session:
        session.ask("a AND b AND c", request="mine")
        spent = session.curator.ledger.spent()
    with mock.patch.object(Record, "_replay", return_value=None), opened(tmp_path / "ledger") as session:
        assert isinstance(_refusal(session, "a AND b AND c"), RequestLost)
        assert session.curator.ledger.spent() == spent


def _turned(units: bool, name: bool) -> Callable[[], AbstractContextManager[Any]]:
    """A bill that forgets what was paid, or gives the rest no name."""

    def turn(self: Bill, spent: int) -> None:
        original(self, spent if units else 0)
        self.name = self.name if name else None

    original = Bill.turn
    return lambda: mock.patch.object(Bill, "turn", turn)


def _bought_whatever_it_was_planned_on() -> AbstractContextManager[Any]:
    return mock.patch.object(Buyer, "_built_on_others", return_value=0)


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[Path], None]]] = {
    "forgotten what was paid": (_turned(units=False, name=True), _what_failed_is_bought_once_after_a_crash),
    "rest without a name": (_turned(units=True, name=False), _what_failed_is_bought_once_after_a_crash),
    "rest for whoever asks": (_bought_whatever_it_was_planned_on, _what_needed_no_other_is_lost),
}


@pytest.mark.parametrize("check", [_what_failed_is_bought_once_after_a_crash, _what_needed_no_other_is_lost])
def test_a_rest(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_rest_mutant_is_killed(tmp_path: Path, name: str) -> None:
    broken, check = MUTANTS[name]
    with broken(), pytest.raises((AssertionError, LedgerCorrupted)):
        check(tmp_path)
