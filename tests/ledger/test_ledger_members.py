"""Several members of one PostgreSQL ledger: one budget, owners, fencing by epoch, no word from the dead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_ledgers import KEY, TERMS, asked

from maquette.errors import BudgetExceeded, GuardSealed, LedgerError, LedgerLocked, RequestBusy, RequestLost
from maquette.privacy.ledger import (
    Overtaken,
    PostgresLedger,
    Recorded,
    SharedLedger,
    SharedPostgresLedger,
    Ticket,
)
from postgres_server import Server

psycopg = pytest.importorskip("psycopg")


def member(postgres: Server, name: str, **given: Any) -> SharedPostgresLedger:
    return SharedPostgresLedger(postgres.address, TERMS, name=name, **{"key": KEY, **given})


def ticket_of(ledger: SharedPostgresLedger, id: str, units: int = 10, **given: Any) -> Ticket:  # noqa: A002
    ticket = ledger.reserve(asked(id, units, **given))
    assert isinstance(ticket, Ticket)
    return ticket


def cut(postgres: Server, ledger: SharedPostgresLedger) -> None:
    """End a member's connections on the server, as a failover or a network cut does; its process has not noticed."""
    pids = [c._connection.info.backend_pid for c in (ledger._connection, ledger._reader) if c is not None]
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid", (pids,))


@pytest.mark.thorough
def test_members_see_one_budget_and_each_others_answers(postgres: Server, name: str) -> None:
    with closing(member(postgres, name)) as one, closing(member(postgres, name)) as two:
        assert isinstance(one, SharedLedger)
        assert one.epoch != two.epoch
        one.commit(ticket_of(one, "a", 600), b"kept")
        again = two.reserve(asked("a", 600))
        assert isinstance(again, Recorded)
        assert again.answer == b"kept"
        with pytest.raises(BudgetExceeded):
            two.reserve(asked("b", 401))
        waiting = ticket_of(two, "c", 400)
        with pytest.raises(RequestBusy):  # its owner lives
            one.reserve(asked("c", 400))
        with pytest.raises(BudgetExceeded):
            one.reserve(asked("d", 1))
        two.commit(waiting, b"x")
        assert one.spent() == two.spent() == 1_000
        assert [charge.state for charge in one.charges_since(0)] == ["answered", "answered"]
        assert one.verify() == two.verify()


def test_the_dead_are_settled_and_fenced(postgres: Server, name: str) -> None:
    one, two = member(postgres, name), member(postgres, name)
    pending, kept = ticket_of(one, "a"), ticket_of(one, "b")
    one.commit(kept, b"kept")
    old = type(one._connection)
    cut(postgres, one)
    with pytest.raises(RequestLost):  # found dead on the way
        two.reserve(asked("a"))
    assert isinstance(two.reserve(asked("b")), Recorded)
    one._connection = old(psycopg.connect(postgres.address, autocommit=True))  # it wakes up, with another connection
    one._connection.execute(f"SET search_path TO maquette_{name}")
    with pytest.raises(LedgerError, match="taken over"):
        one.commit(pending, b"too late")
    with pytest.raises(LedgerError):
        one.reserve(asked("c"))
    assert two.lookup("a") is None
    assert two.spent() == 20
    two.verify()
    one.close()
    with closing(member(postgres, name)) as three:  # joins beside `two`, which goes on
        assert three.spent() == 20
        two.commit(ticket_of(two, "d"), b"d")
        assert isinstance(three.reserve(asked("d")), Recorded)
        three.verify()
    two.close()


def test_a_living_member_is_never_declared_dead(postgres: Server, name: str) -> None:
    with closing(member(postgres, name)) as one, closing(member(postgres, name)) as two:
        pending = ticket_of(one, "a")
        for _ in range(3):
            two.settle()
        one.commit(pending, b"kept")
        assert isinstance(two.reserve(asked("a")), Recorded)


def test_who_leaves_in_good_order_loses_what_it_had_reserved(postgres: Server, name: str) -> None:
    with closing(member(postgres, name)) as stays:
        leaves = member(postgres, name)
        ticket_of(leaves, "a")
        leaves.close()
        with pytest.raises(RequestLost):
            stays.reserve(asked("a"))
        stays.verify()


def test_the_first_to_come_boots_and_others_join(postgres: Server, name: str) -> None:
    one = member(postgres, name)
    ticket_of(one, "a")
    cut(postgres, one)
    with closing(member(postgres, name)) as two:  # nobody else is there: a boot
        with pytest.raises(RequestLost):
            two.reserve(asked("a"))
        kinds = [kind for (kind,) in two._read(lambda c: c.execute("SELECT kind FROM event ORDER BY seq").fetchall())]
        assert kinds == ["terms", "boot", "join", "charge", "boot", "join"]
    one.close()


def test_an_owner_and_members_exclude_each_other(postgres: Server, name: str) -> None:
    with closing(PostgresLedger(postgres.address, TERMS, name=name, key=KEY)) as owner:
        with pytest.raises(LedgerLocked):
            member(postgres, name, wait=0)
        assert isinstance(owner.reserve(asked("a")), Ticket)
    with closing(member(postgres, name)) as one:
        with pytest.raises(LedgerLocked):
            PostgresLedger(postgres.address, TERMS, name=name, key=KEY)
        with pytest.raises(RequestLost):
            one.reserve(asked("a"))
        ticket_of(one, "b")
    with closing(PostgresLedger(postgres.address, TERMS, name=name, key=KEY)) as owner:
        assert [charge.state for charge in owner.charges()] == ["lost", "lost"]
        owner.verify()


def test_a_guard_is_its_owners_alone(postgres: Server, name: str) -> None:
    with closing(member(postgres, name)) as one, closing(member(postgres, name)) as two:
        one.open_guard("g", hits=2)
        assert (one.hits_left("g"), two.hits_left("g")) == (2, 0)
        with pytest.raises(GuardSealed):
            two.reserve(asked("a", 0, guard="g"))
        one.commit(ticket_of(one, "b", 0, guard="g"), b"", hit=False)
        assert one.hits_left("g") == 2


def test_a_plan_that_was_overtaken_is_not_charged(postgres: Server, name: str) -> None:
    with closing(member(postgres, name)) as one, closing(member(postgres, name)) as two:
        seen: list[list[str]] = []

        def clash(later: Any) -> bool:
            seen.append([charge.id for charge in later])
            return "mine" in seen[-1]

        with two.unless(clash, after=0):
            ticket_of(two, "first")
            ticket_of(one, "mine")
            with pytest.raises(Overtaken):
                two.reserve(asked("second"))
        assert seen == [[], ["first", "mine"]]
        assert two.spent() == 20
        ticket_of(two, "second")


def test_a_clash_is_found_behind_any_number_of_other_charges(
    postgres: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maquette.privacy.ledger.book.PAGE", 2)
    with closing(member(postgres, name)) as one, closing(member(postgres, name)) as two:
        for number in range(4):
            ticket_of(one, f"another's {number}")
        ticket_of(one, "mine")
        with two.unless(lambda later: "mine" in [charge.id for charge in later], after=0), pytest.raises(Overtaken):
            two.reserve(asked("second"))


def test_threads_of_three_members_never_overspend(postgres: Server, name: str) -> None:
    members = [member(postgres, name) for _ in range(3)]
    refused: list[str] = []

    def spend(ledger: SharedPostgresLedger, thread: int) -> None:
        for number in range(12):
            try:
                ledger.commit(ticket_of(ledger, f"{thread}:{number}", 20), b"x")
            except BudgetExceeded:
                refused.append(f"{thread}:{number}")

    threads = [threading.Thread(target=spend, args=(members[i % 3], i)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ledger.spent() for ledger in members} == {1_000}
    assert len(refused) == 72 - 50
    members[0].verify()
    for ledger in members:
        ledger.close()


def test_the_first_makes_the_key_and_the_others_wait_for_it(postgres: Server, name: str, tmp_path: Path) -> None:
    opened: list[SharedPostgresLedger] = []
    path = tmp_path / "key"

    def open_one() -> None:
        opened.append(member(postgres, name, key=None, key_path=path))

    threads = [threading.Thread(target=open_one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 3
    assert len({ledger.verify().head for ledger in opened}) == 1
    for ledger in opened:
        ledger.close()


MUTANTS: dict[str, tuple[Callable[[Server, str], None], dict[str, Any]]] = {
    "the dead may write": (
        test_the_dead_are_settled_and_fenced,
        {"postgres_shared.SharedPostgresLedger._may_write": lambda *_: True},
    ),
    "what the dead had reserved stays reserved": (
        test_the_dead_are_settled_and_fenced,
        {"machine.left": lambda *_: False},
    ),
    "the living are buried": (
        test_a_living_member_is_never_declared_dead,
        {
            "postgres_shared._is_dead": lambda *_: True,
            "postgres_shared.SharedPostgresLedger._bury": lambda self, connection, epoch: self._book(connection).leave(
                epoch
            ),
        },
    ),
    "nobody looks whether a plan was overtaken": (
        test_a_plan_that_was_overtaken_is_not_charged,
        {"postgres_shared.SharedPostgresLedger._reserved": lambda _, book, request, __: book.reserve(request)},
    ),
    "a guard is everybody's": (
        test_a_guard_is_its_owners_alone,
        {"machine._is_open": lambda books, opened, _: opened > books.boot},
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_member_mutant_is_killed(postgres: Server, name: str, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, changes = MUTANTS[mutant]
    for place, broken in changes.items():
        monkeypatch.setattr(f"maquette.privacy.ledger.{place}", broken)
    with pytest.raises((AssertionError, Exception, pytest.fail.Exception)):
        gate(postgres, name)
