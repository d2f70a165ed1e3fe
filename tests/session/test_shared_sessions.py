"""One session in several processes, on a real PostgreSQL: one budget, one transcript, the same answers everywhere."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import maquette as mq
from maquette.errors import LedgerError, RequestConflict, RequestLost
from maquette.privacy.ledger import PostgresLedger, SharedPostgresLedger
from maquette.session.shared import overlap
from postgres_server import Server

psycopg = pytest.importorskip("psycopg")

KEY = bytes(range(32))
LONG = 5.0  # seconds, of which a quarter is for the database to write, also on a busy machine
SCHEMA = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker"), mq.Integer("rooms", 0, 5), mq.Boolean("owner")])
ROWS = {
    "age": [i % 10 for i in range(3_000)],
    "smoker": [i % 3 == 0 for i in range(3_000)],
    "rooms": [i % 6 for i in range(3_000)],
    "owner": [i % 7 < 3 for i in range(3_000)],
}
QUESTIONS = [
    *(f"age >= {cut}" for cut in range(1, 10)),
    *(f"rooms < {cut} AND smoker" for cut in range(1, 6)),
    *(f"age = {level} AND owner" for level in range(10)),
    "smoker",
    "owner AND smoker",
]


class Members:
    """Sessions of one name, each with a curator and a membership of its own, as separate processes have."""

    def __init__(self, postgres: Server, name: str, *, epsilon: float = 3.0) -> None:
        self._server, self._name, self._epsilon = postgres, name, epsilon
        self._stack = ExitStack()

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def join(self, **given: Any) -> mq.Session:
        def kept(terms: Any) -> Any:
            return SharedPostgresLedger(self._server.address, terms, name=self._name, key=KEY)

        return self._session(kept, given)

    def alone(self) -> mq.Session:
        """Open the ledger as its one owner, after everyone has left, and replay everything."""
        self._stack.close()
        return self._session(lambda terms: PostgresLedger(self._server.address, terms, name=self._name, key=KEY), {})

    def _session(self, ledger: Any, given: Any) -> mq.Session:
        budget = mq.Budget(epsilon=self._epsilon, delta=1e-6)
        curator = self._stack.enter_context(mq.Curator(mq.open_table(ROWS, SCHEMA), budget, ledger=ledger))
        return mq.online(curator, alpha=0.05, **{"rows": 3_000, **given})


def state(session: mq.Session) -> str:
    session.explain("smoker AND age < 5 AND rooms < 2")  # takes what others have charged
    return session._record.transcript.digest


def end(postgres: Server, session: mq.Session) -> None:
    """Cut a member off from its ledger, as its death would."""
    ledger = session.curator.ledger
    assert isinstance(ledger, SharedPostgresLedger)
    pids = [c._connection.info.backend_pid for c in (ledger._connection, ledger._reader) if c is not None]
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid", (pids,))


def test_what_one_process_bought_is_free_in_another(postgres: Server, name: str) -> None:
    with Members(postgres, name) as members:
        one, two = members.join(), members.join()
        first = one.ask("age >= 5")
        spent = one.spent.units
        again = two.ask("age >= 5")
        assert (again.value, again.low, again.high) == (first.value, first.low, first.high)
        assert again.cost.units == 0
        assert two.spent.units == spent > 0
        two.ask("rooms < 3")
        assert one.ask("rooms < 3").cost.units == 0
        assert state(one) == state(two) == state(members.join())
        answers = {text: one.ask(text).value for text in ("age >= 5", "rooms < 3")}
        after = members.alone()
        assert {text: after.ask(text).value for text in answers} == answers


def test_a_private_number_of_rows_is_counted_once(postgres: Server, name: str) -> None:
    with Members(postgres, name) as members:
        one = members.join(rows=None)
        spent = one.spent.units
        two = members.join(rows=None)
        assert two.spent.units == spent > 0
        assert (one.rows, one.tolerance) == (two.rows, two.tolerance)


def test_a_request_pays_once_whichever_process_hears_it(postgres: Server, name: str) -> None:
    with Members(postgres, name) as members:
        one, two = members.join(), members.join()
        first = one.ask("age >= 5", request="r", analyst="ada")
        spent = one.spent.units
        again = two.ask("age >= 5", request="r", analyst="ada")
        assert (again.value, two.spent.units) == (first.value, spent)
        with pytest.raises(RequestConflict):
            two.ask("rooms < 3", request="r", analyst="ada")
        found: list[float] = []
        threads = [
            threading.Thread(target=lambda s=s: found.append(s.ask("owner", request="same", analyst="ada").value))
            for s in (one, two) * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        charges = list(one.curator.ledger.charges())
        assert sum(charge.described.note.get("request", {}).get("name") == "same" for charge in charges) == 1


@pytest.mark.thorough
def test_processes_that_ask_the_same_at_once_buy_it_once(postgres: Server, name: str) -> None:
    """Every question is asked through every member at the same time; no part is bought twice for one precision."""
    with Members(postgres, name) as members:
        sessions = [members.join() for _ in range(3)]
        found: dict[str, set[float]] = {text: set() for text in QUESTIONS}
        errors: list[BaseException] = []

        def ask(session: mq.Session, texts: list[str]) -> None:
            try:
                for text in texts:
                    found[text].add(session.ask(text, strict=True).value)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(one, QUESTIONS)) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert all(len(values) == 1 for values in found.values())
        assert len({state(session) for session in sessions}) == 1
        notes = [charge.described.note for charge in sessions[0].curator.ledger.charges()]
        assert sum(overlap(one, two) for one, two in itertools.pairwise(notes)) < len(notes) / 2
        sessions[0].curator.ledger.verify()
        digest, spent = state(sessions[0]), sessions[0].spent.units
        alone = members.alone()
        assert alone._record.transcript.digest == digest
        assert {text: {alone.ask(text).value} for text in QUESTIONS} == found
        assert alone.spent.units == spent


@pytest.mark.thorough
def test_the_budget_is_one(postgres: Server, name: str) -> None:
    with Members(postgres, name, epsilon=0.35) as members:
        sessions = [members.join() for _ in range(3)]
        for number, text in enumerate(QUESTIONS):
            sessions[number % 3].ask(text)
        limit = sessions[0].curator.budget.limit
        assert {session.spent.units for session in sessions} == {sessions[0].spent.units}
        assert sessions[0].spent.units <= limit
        assert len({state(session) for session in sessions}) == 1


@pytest.mark.thorough
def test_a_deadline_and_several_processes(postgres: Server, name: str) -> None:
    with Members(postgres, name) as members:
        one, two = members.join(deadline=LONG), members.join(deadline=LONG)
        first = one.ask("age >= 5")
        assert two.ask("age >= 5").value == first.value
        two.ask("rooms < 3")
        assert state(one) == state(two)


def test_a_process_that_dies_between_charge_and_answer(
    postgres: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge is lost, nobody is told its answer, and the others go on; it can neither charge nor answer again."""
    with Members(postgres, name) as members:
        one, two = members.join(), members.join()
        two.ask("rooms < 3")
        ledger = one.curator.ledger
        commit = ledger.commit

        def dying(*given: Any, **named: Any) -> Any:
            end(postgres, one)
            return commit(*given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(ledger, "commit", dying)
            with pytest.raises(LedgerError):
                one.ask("age >= 5", request="k", analyst="ada")
        spent = two.spent.units
        with pytest.raises(RequestLost):
            two.ask("age >= 5", request="k", analyst="ada")
        answer = two.ask("age >= 5")
        assert two.spent.units > spent
        states = [charge.state for charge in two.curator.ledger.charges()]
        assert states.count("lost") == 1
        with pytest.raises(LedgerError):
            one.ask("owner")
        three = members.join()
        assert three.ask("age >= 5").value == answer.value
        assert state(two) == state(three)
        digest = state(two)
        alone = members.alone()
        assert alone._record.transcript.digest == digest
        assert alone.ask("age >= 5").value == answer.value


def test_what_a_dead_process_was_to_bring_is_bought_under_the_key_that_needs_it(
    postgres: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process dies with a charge that another's was planned on; then the other dies before it buys the rest."""
    wide = "age = 3 AND smoker AND owner"
    with Members(postgres, name) as members:
        one, two, three = members.join(), members.join(), members.join()
        flying, dead, commit = threading.Event(), threading.Event(), one.curator.ledger.commit

        def dying(*given: Any, **named: Any) -> Any:
            flying.set()
            assert dead.wait(60)
            return commit(*given, **named)

        monkeypatch.setattr(one.curator.ledger, "commit", dying)
        first = ThreadPoolExecutor(1).submit(one.ask, "age = 3 AND smoker")
        assert flying.wait(60)
        record = two.curator.ledger.commit

        def answered(*given: Any, **named: Any) -> Any:
            done = record(*given, **named)
            end(postgres, one)
            end(postgres, two)
            return done

        monkeypatch.setattr(two.curator.ledger, "commit", answered)
        with pytest.raises(LedgerError):
            two.ask(wide, request="k")
        dead.set()
        assert isinstance(first.exception(60), LedgerError)
        answer = three.ask(wide, request="k")
        assert answer.guarantee is not None
        spent = three.spent.units
        assert three.ask(wide, request="k").value == members.join().ask(wide, request="k").value == answer.value
        assert three.spent.units == spent
        charges = list(three.curator.ledger.charges())
        named = {charge.described.note.get("request", {}).get("name"): charge for charge in charges}
        assert [charge.state for charge in charges] == ["lost", "answered", "answered"]
        assert list(named) == [None, "k", "k\n1"]
        assert not overlap(*(named[key].described.note for key in ("k", "k\n1")))
