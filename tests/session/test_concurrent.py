"""Many threads on one session: charges share commits, are taken in order, and hold up nobody who need not pay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from flights import QUESTIONS, Flights, held_back, held_back_calls, numbers, opened

from maquette.errors import BudgetExceeded, DeadlineMissed, LedgerCorrupted
from maquette.privacy.ledger import writer
from maquette.session import record as records, session as sessions
from maquette.session.record import Record
from maquette.session.session import Session

AT_ONCE = 6


def asked_at_once(session: Session, questions: list[str]) -> dict[str, list[Any]]:
    """The answers to questions that many threads ask; all begin together."""
    gate = threading.Barrier(AT_ONCE)

    def some(texts: list[str]) -> dict[str, list[Any]]:
        gate.wait(120)
        return {text: numbers(session.ask(text)) for text in texts}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(some, [questions[i::AT_ONCE] for i in range(AT_ONCE)])
        return {text: answer for told in found for text, answer in told.items()}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_restart_knows_what_many_threads_were_told(tmp_path: Path, simultaneous: bool) -> None:
    with opened(tmp_path / "ledger", simultaneous=simultaneous) as session:
        told = asked_at_once(session, QUESTIONS)
        digest, spent = session._record.transcript.digest, session.curator.ledger.spent()
        assert all(promised for answer in told.values() for *_, promised in answer)
        assert {text: numbers(session.ask(text)) for text in QUESTIONS} == told
    with opened(tmp_path / "ledger", simultaneous=simultaneous) as session:
        assert session._record.transcript.digest == digest
        assert {text: numbers(session.ask(text)) for text in reversed(QUESTIONS)} == told
        assert session.curator.ledger.spent() == spent


def test_threads_together_pay_what_one_after_the_other_would(tmp_path: Path) -> None:
    """A plan depends on precisions alone, so what is in flight is planned on: the sum of the prices is the same."""
    with opened(None) as session:
        for text in QUESTIONS:
            session.ask(text)
        single = session.curator.ledger.spent()
    with opened(tmp_path / "ledger") as session:
        with held_back(session, len(QUESTIONS)) as flights:
            for text in QUESTIONS:
                flights.ask(text)
        assert session.curator.ledger.spent() == single
        assert session.curator.ledger.verify().seq > 2 * session._record.transcript.moment


def test_what_is_known_is_answered_while_others_wait_for_the_disk(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", simultaneous=False) as session:
        session.ask("SELECT count(*) FROM people GROUP BY a, b")
        entered, gate = threading.Event(), threading.Event()
        sync = session.curator.ledger._home._head.advance  # type: ignore[attr-defined]

        def slow(*args: Any) -> None:
            entered.set()
            assert gate.wait(120)
            sync(*args)

        with (
            mock.patch.object(session.curator.ledger._home._head, "advance", slow),  # type: ignore[attr-defined]
            ThreadPoolExecutor(1) as pool,
        ):
            paying = pool.submit(session.ask, "c AND d AND e")
            assert entered.wait(30)
            count = "SELECT count(*) FROM people WHERE "
            assert session.ask(f"{count} a AND b").source == "derived"
            assert session.ask(f"{count} a AND b").source == "cache"
            assert session.peek(f"{count} a AND b").guarantee is not None
            assert session.explain(f"{count} a AND NOT b").cost.units == 0
            assert not paying.done()
            gate.set()
            assert paying.result(30).source == "measured"


def test_charges_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as session:
        groups: list[int] = []
        commit = writer.Writer._commit

        def counted(self: Any, group: Any) -> None:
            groups.append(len(group))
            commit(self, group)

        with mock.patch.object(writer.Writer, "_commit", counted), held_back(session, 6) as flights:
            for text in QUESTIONS[:6]:
                flights.ask(text)
        charges = [charge for charge in session.curator.ledger.charges() if charge.id.startswith("session:")]
        assert len({charge.id for charge in charges}) == len(charges) == 6
        assert max(groups) > 1


def test_each_charge_of_a_group_has_its_own_name_and_analyst(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as session:
        with held_back(session, 4) as flights:
            for i, text in enumerate(QUESTIONS[:4]):
                flights.ask(text, analyst=f"analyst {i}", request=f"key {i}")
        spent = session.curator.ledger.spent()
        assert sum(session.spent_by(f"analyst {i}").units for i in range(4)) == spent
        assert all(session.spent_by(f"analyst {i}").units for i in range(4))
        again = [session.ask(text, analyst=f"analyst {i}", request=f"key {i}") for i, text in enumerate(QUESTIONS[:4])]
        assert [numbers(one) for one in again] == [numbers(future.result()) for future in flights.told]
        assert session.curator.ledger.spent() == spent


@pytest.mark.parametrize("request_name", [None, "mine"])
@pytest.mark.parametrize("failure", [BudgetExceeded("no", requested=1.0, remaining=0.0), DeadlineMissed()])
def test_a_charge_that_fails_does_not_cost_others_their_promise(
    tmp_path: Path, failure: Exception, request_name: str | None
) -> None:
    measure = Record._measure
    with opened(tmp_path / "ledger") as session:
        failed: list[str] = []

        def one_fails(self: Record, request: str, *args: Any) -> Any:
            if request.endswith(":0") and not failed:
                failed.append(request)
                raise failure
            return measure(self, request, *args)

        with mock.patch.object(Record, "_measure", one_fails):
            flights = Flights(session)
            with held_back_calls(flights, one_fails):
                flights.ask("a AND b AND c")
                flights.ask("a AND b AND c AND d", request=request_name)  # planned on what the first will bring
        first, second = flights.told
        if isinstance(failure, DeadlineMissed):
            assert isinstance(first.exception(), DeadlineMissed)
        else:  # a cheaper way is tried, and this budget pays for it
            assert first.result().guarantee is not None
        assert second.result().guarantee is not None
        digest = session._record.transcript.digest
    with opened(tmp_path / "ledger") as session:
        assert session._record.transcript.digest == digest
        assert numbers(session.ask("a AND b AND c AND d", request=request_name)) == numbers(second.result())


def test_an_interrupted_charge_is_found_again_by_the_others(tmp_path: Path) -> None:
    measure = Record._measure
    with opened(tmp_path / "ledger") as session:
        session.ask("f")
        interrupted: list[str] = []

        def interrupt(self: Record, request: str, *args: Any) -> Any:
            measured = measure(self, request, *args)
            if request.endswith(":1") and not interrupted:
                interrupted.append(request)
                raise KeyboardInterrupt
            return measured

        with mock.patch.object(Record, "_measure", interrupt):
            flights = Flights(session)
            with held_back_calls(flights, interrupt):
                flights.ask("a AND b")
                flights.ask("c AND d")
        assert isinstance(flights.told[0].exception(), KeyboardInterrupt)
        assert flights.told[1].result().guarantee is not None
        spent = session.curator.ledger.spent()
        assert session.ask("a AND b").source == "derived"
        assert session.curator.ledger.spent() == spent
        digest = session._record.transcript.digest
    with opened(tmp_path / "ledger") as session:
        assert session._record.transcript.digest == digest


def test_what_is_expected_of_a_measurement_is_known_without_it() -> None:
    """The noise and the cost are those of the measurement; no row is read, and nothing is charged."""
    with opened(None) as session:
        curator, asked = session.curator, [["a", "b"], ["region"]]
        spent = curator.ledger.spent()
        with mock.patch("maquette.curator.curator.tally", side_effect=AssertionError("rows are read")):
            expected = curator.expected(asked, rho=0.5, shares=[1, 3])
        assert curator.ledger.spent() == spent
        assert not any(one.values.any() for one in expected)
        for one, other in zip(expected, curator.measure_many(asked, rho=0.5, shares=[1, 3]), strict=True):
            assert (one.event, one.cost, one.grid, one.values.shape) == (
                other.event,
                other.cost,
                other.grid,
                other.values.shape,
            )


# Mutants


def _taken_as_they_arrive() -> AbstractContextManager[Any]:
    def land(self: Record, flight: Any) -> None:
        with self.lock:
            if flight.outcome == "measured":
                self._take(flight.measured, flight.note, flight.owned)
            self._line.remove(flight)
            self._moved.notify_all()

    return mock.patch.object(Record, "_land", land)


def _replayed_as_they_were_reserved() -> AbstractContextManager[Any]:
    return mock.patch.object(records, "in_order", lambda notes: notes)


def _planned_as_if_alone() -> AbstractContextManager[Any]:
    return mock.patch.object(Record, "ahead", return_value=None)


def _told_before_its_group_is_durable() -> AbstractContextManager[Any]:
    def commit(self: Any, group: Any) -> None:
        with self._writing, self._transaction() as connection:
            for job in group:
                job.future.set_result(writer._attempt(connection, job.operation, self._broken)[0])

    return mock.patch.object(writer.Writer, "_commit", commit)


def _answered_from_zeros() -> AbstractContextManager[Any]:
    """What is in flight is taken for what is known."""

    def known(self: Session, questions: Any) -> bool:
        with self._lock:
            ahead = self._record.ahead()
        if ahead is not None:
            self._knowledge.record = ahead  # type: ignore[assignment]
        return original(self, questions)

    original = Session._known
    return mock.patch.object(Session, "_known", known)


def _read_before_its_moment() -> AbstractContextManager[Any]:
    """A charge is seen while only some of its parts are there."""
    from maquette.session.transcript import Transcript

    add = Transcript._append

    def early(self: Transcript, *args: Any) -> None:
        add(self, *args)
        self.moment = self._next

    return mock.patch.object(Transcript, "_append", early)


def _same_digest(folder: Path) -> None:
    """Flights that are measured in the opposite order, then a restart."""
    with opened(folder / "ledger") as session:
        turns = [threading.Event() for _ in range(3)]
        measure, flights = Record._measure, Flights(session)

        def backwards(self: Record, request: str, *args: Any) -> Any:
            turn = int(request.rpartition(":")[2])
            flights.begun.release()
            if turn < 2:
                assert turns[turn + 1].wait(30)
            try:
                return measure(self, request, *args)
            finally:
                turns[turn].set()

        with mock.patch.object(Record, "_measure", backwards):
            for text in ("a AND b", "c AND d", "e AND f"):
                flights.ask(text)
            flights.pool.shutdown()
        told = {text: numbers(session.ask(text)) for text in ("a AND b", "c AND d", "e AND f")}
        digest = session._record.transcript.digest
    with opened(folder / "ledger") as session:
        assert session._record.transcript.digest == digest
        assert {text: numbers(session.ask(text)) for text in told} == told


def _same_price(folder: Path) -> None:
    test_threads_together_pay_what_one_after_the_other_would(folder)


def _nothing_told_before_it_is_durable(folder: Path) -> None:
    with opened(folder / "ledger") as session:
        ledger, landed = session.curator.ledger, threading.Event()
        head, reserve = ledger._home._head, ledger.reserve  # type: ignore[attr-defined]
        advance, durable, early = head.advance, [0], list[bool]()

        def look(mark: Any, *rest: Any) -> None:
            landed.wait(1.0)  # time enough to tell what is not written yet
            advance(mark, *rest)
            durable.append(mark.seq)

        def reserved(request: Any) -> Any:
            ticket: Any = reserve(request)
            early.append(durable[-1] < ticket.seq)
            landed.set()
            return ticket

        with mock.patch.object(ledger, "reserve", reserved), mock.patch.object(head, "advance", look):
            session.ask("a AND b")
        assert early == [False]


def _never_zeros(folder: Path) -> None:
    with opened(folder / "ledger") as session:
        with held_back(session, 1) as flights:
            flights.ask("a AND b")
            other = flights.pool.submit(session.ask, "NOT a AND NOT b")  # the same parts
        assert flights.told[0].result().value > 0.02
        assert other.result(30).value > 0.05


def _whole_charges(folder: Path) -> None:
    from maquette.session.transcript import Transcript

    with opened(None) as session:
        append, seen = Transcript._append, []

        def look(self: Transcript, *args: Any) -> None:
            append(self, *args)
            seen.append(self.moment)

        with mock.patch.object(Transcript, "_append", look):
            session.ask("SELECT count(*) FROM people GROUP BY a, b")
        assert set(seen) == {0}


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[Path], None]]] = {
    "taken as they arrive": (_taken_as_they_arrive, _same_digest),
    "replayed as they were reserved": (_replayed_as_they_were_reserved, _same_digest),
    "planned as if alone": (_planned_as_if_alone, _same_price),
    "told before its group is durable": (_told_before_its_group_is_durable, _nothing_told_before_it_is_durable),
    "answered from zeros": (_answered_from_zeros, _never_zeros),
    "read before its moment": (_read_before_its_moment, _whole_charges),
}


@pytest.mark.parametrize("check", sorted({check.__name__: check for _, check in MUTANTS.values()}))
def test_the_checks_pass_on_the_library(tmp_path: Path, check: str) -> None:
    next(one for _, one in MUTANTS.values() if one.__name__ == check)(tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_concurrent_mutant_is_killed(tmp_path: Path, name: str) -> None:
    broken, check = MUTANTS[name]
    with broken(), pytest.raises((AssertionError, LedgerCorrupted)):
        check(tmp_path)


def test_the_caches_are_bounded() -> None:
    with mock.patch.object(sessions, "KEPT", 5), opened(None) as session:
        session.ask("SELECT count(*) FROM people GROUP BY a, b, c")
        texts = [f"{x} AND {y}" for x in ("a", "NOT a", "b") for y in ("b", "NOT b", "c", "NOT c")]
        told = [numbers(session.ask(text)) for text in texts]
        assert len(session._answers) <= 5
        assert len(session._texts) <= 5
        assert [numbers(session.ask(text)) for text in texts] == told
