"""Charges have owners: an account holds what its own block relied on, whoever else is asking."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from release_checks import SCHEMA, table_of

import maquette as mq
from maquette.curator import ScopedAccount
from maquette.errors import DeadlineMissed, LedgerError, RequestConflict, RequestLost

BUDGET = mq.Budget(epsilon=8.0)
CANARY = "canary-4711"


@pytest.fixture
def curator() -> Iterator[mq.Curator]:
    with mq.Curator(table_of(SCHEMA, 300), BUDGET) as opened:
        yield opened


def elsewhere(work: Callable[[], Any]) -> None:
    """Do it in another thread, and wait for it."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def columns_of(account: ScopedAccount) -> list[Any]:
    return [json.loads(entry.description)["columns"] for entry in account.entries]


@pytest.mark.thorough
def test_a_release_is_certified_at_its_own_loss_while_another_thread_asks(curator: mq.Curator) -> None:
    """Counted as the difference of two totals it was 0.5061."""
    measure, asked = curator.measure_many, 0

    def crowded(*given: Any, **named: Any) -> Any:
        nonlocal asked
        if threading.current_thread() is threading.main_thread():
            elsewhere(lambda: curator.measure(["region"], epsilon=0.0061, analyst=CANARY))
            asked += 1
        return measure(*given, **named)

    curator.measure_many = crowded  # type: ignore[method-assign]
    for method in ("laplace", "everything", "adaptive", "mwem", "auto"):
        before, others = len(list(curator.ledger.charges())), asked
        made = mq.release(curator, mq.marginals(SCHEMA, k=1), method=method, epsilon=0.5, check=False)
        assert asked > others
        own = [charge for charge in list(curator.ledger.charges())[before:] if charge.analyst != CANARY]
        assert made.certificate.charges == tuple(charge.description for charge in own)
        assert made.certificate.units == sum(charge.units for charge in own)
        assert made.certificate.epsilon == pytest.approx(0.5, rel=1e-6)
        assert made.certificate.epsilon <= 0.5
        assert made.certificate.ledger_units == curator.ledger.spent()


def test_two_threads_with_accounts_of_their_own_do_not_mix(curator: mq.Curator) -> None:
    found: dict[str, ScopedAccount] = {}
    turn = threading.Barrier(2)

    def work(name: str, epsilon: float) -> None:
        with curator.account(name) as account:
            for _ in range(5):
                turn.wait()
                curator.measure([name], epsilon=epsilon)
        found[name] = account

    threads = [threading.Thread(target=work, args=each) for each in (("age", 0.125), ("region", 0.25))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found["age"].loss.epsilon, found["region"].loss.epsilon) == (0.625, 1.25)
    assert columns_of(found["age"]) == [[["age"]]] * 5


def test_asyncio_tasks_have_accounts_of_their_own(curator: mq.Curator) -> None:
    async def work(name: str, epsilon: float) -> ScopedAccount:
        with curator.account(name) as account:
            for _ in range(3):
                await asyncio.sleep(0)
                curator.measure([name], epsilon=epsilon)
        return account

    async def both() -> tuple[ScopedAccount, ScopedAccount]:
        return await asyncio.gather(work("age", 0.125), work("region", 0.25))

    age, region = asyncio.run(both())
    assert (age.loss.epsilon, region.loss.epsilon) == (0.375, 0.75)
    assert columns_of(age) == [[["age"]]] * 3


def test_what_a_block_starts_in_a_copy_of_its_context_is_inside_until_the_block_ends(curator: mq.Curator) -> None:
    async def work() -> ScopedAccount:
        late = asyncio.Event()

        async def afterwards() -> None:
            await late.wait()
            curator.measure(["region"], epsilon=1.0)

        with curator.account("report") as account:
            await asyncio.to_thread(curator.measure, ["age"], epsilon=0.25)
            await asyncio.create_task(asyncio.to_thread(curator.measure, ["age"], epsilon=0.25))
            started = asyncio.create_task(afterwards())
            await asyncio.sleep(0)
        late.set()
        await started
        return account

    assert asyncio.run(work()).loss.epsilon == 0.5


def test_nested_accounts_each_hold_what_they_are_around(curator: mq.Curator) -> None:
    with curator.account("outer") as outer:
        curator.measure(["age"], epsilon=0.25)
        with curator.account("inner") as inner:
            curator.measure(["region"], epsilon=0.5)
        curator.measure(["smoker"], epsilon=1.0)
    curator.measure(["age"], epsilon=0.25)
    assert (outer.loss.epsilon, inner.loss.epsilon) == (1.75, 0.5)
    assert columns_of(outer) == [[["age"]], [["region"]], [["smoker"]]]
    assert columns_of(inner) == [[["region"]]]


def test_accounts_of_two_curators_do_not_mix(curator: mq.Curator) -> None:
    with mq.Curator(table_of(SCHEMA, 50), BUDGET) as other:
        with curator.account("one") as one, other.account("two") as two:
            curator.measure(["age"], epsilon=0.25)
            other.measure(["age"], epsilon=0.5)
        assert (one.loss.epsilon, two.loss.epsilon) == (0.25, 0.5)


def test_an_exception_ends_the_account_and_keeps_what_was_charged(curator: mq.Curator) -> None:
    with suppress(ZeroDivisionError), curator.account("broken") as account:
        curator.measure(["age"], epsilon=0.25)
        _ = 1 / 0
    curator.measure(["age"], epsilon=0.5)
    assert account.loss.epsilon == account.charged_loss.epsilon == 0.25
    assert "broken" in repr(account)


def test_a_charge_whose_answer_fails_counts(curator: mq.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(curator, "_prefetch", broken)
    with pytest.raises(MemoryError), curator.account("failed") as account:
        curator.measure(["age"], epsilon=0.25)
    assert account.charged_units == curator.ledger.spent() == 25 * 10**13


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupted_reservation_counts_if_it_is_durable_or_the_ledger_cannot_say(
    moment: str, curator: mq.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = curator.ledger.reserve

    def interrupted(request: Any) -> None:
        if moment == "after":
            reserve(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(curator.ledger, "reserve", interrupted)
    with pytest.raises(KeyboardInterrupt), curator.account("interrupted") as account:
        curator.measure(["age"], epsilon=0.25)
    assert account.charged_units == curator.ledger.spent() == (25 * 10**13 if moment == "after" else 0)
    monkeypatch.setattr(curator._transaction.accounts, "_charges", _broken)
    assert account.charged_units == 25 * 10**13


def _broken() -> None:
    raise LedgerError("the ledger is closed")


def test_refusals_are_no_entries_and_do_not_remove_the_charge_they_repeat(curator: mq.Curator) -> None:
    with curator.account("refusals") as account:
        with pytest.raises(mq.BudgetExceeded):
            curator.measure(["age"], epsilon=9.0, request="too much")
        assert not account.entries
        curator.measure(["age"], epsilon=0.25, request="age")
        with pytest.raises(RequestConflict):
            curator.measure(["region"], epsilon=0.25, request="age")
        curator.measure(["age"], epsilon=0.25, request="age")
    (entry,) = account.entries
    assert (entry.request, entry.analyst, entry.units, entry.new) == ("age", "custodian", 25 * 10**13, True)


def test_a_recorded_answer_counts_as_relied_on_and_not_as_charged(curator: mq.Curator) -> None:
    curator.measure(["age"], epsilon=0.25, request="age")
    with curator.account("again") as account:
        curator.measure(["age"], epsilon=0.25, request="age")
        curator.measure(["region"], epsilon=0.5)
    assert [entry.new for entry in account.entries] == [False, True]
    assert (account.loss.epsilon, account.charged_loss.epsilon) == (0.75, 0.5)


def test_guards_belong_to_the_account_in_which_they_charge_and_to_those_that_rely_on_them(curator: mq.Curator) -> None:
    with curator.account("opening") as opening:
        guard = curator.guard(50.0, hits=2, epsilon=1.0)
        lottery = curator.lottery([["age"]])
        lottery.draw([1.0] * lottery.cells, draws=2, epsilon=0.5)
    with curator.account("testing") as testing:
        guard.test(mq.where(SCHEMA, "smoker"), 100.0)
        guard.test(mq.where(SCHEMA, "age < 10"), 100.0)
    assert opening.units == opening.charged_units == curator.ledger.spent()
    assert testing.units == guard.cost.units > 0
    assert testing.charged_units == 0
    assert [entry.units for entry in testing.entries] == [0, guard.cost.units, 0]


def test_requests_lost_in_a_crash_are_no_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.ledger"
    with mq.Curator(table_of(SCHEMA, 300), BUDGET, ledger=path) as first:
        monkeypatch.setattr(first, "_prefetch", lambda *_: 1 / 0)
        with suppress(ZeroDivisionError):
            first.measure(["age"], epsilon=0.25, request="age")
    with mq.Curator(table_of(SCHEMA, 300), BUDGET, ledger=path) as second, second.account("after") as account:
        with pytest.raises(RequestLost):
            second.measure(["age"], epsilon=0.25, request="age")
        assert not account.entries


def test_a_missed_deadline_counts_where_it_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    with mq.Curator(table_of(SCHEMA, 300), BUDGET, deadline=0.2) as curator:
        wait = threading.Event()
        monkeypatch.setattr(curator, "_prefetch", lambda *_: wait.wait(5))
        with curator.account("late") as account:
            for _ in range(2):
                with pytest.raises(DeadlineMissed):
                    curator.measure(["age"], epsilon=0.25, request="age")
        wait.set()
        assert account.charged_loss.epsilon == 0.25
        with curator.account("later") as later, pytest.raises(DeadlineMissed):
            curator.measure(["age"], epsilon=0.25, request="age")
        assert not later.entries


def test_a_release_that_was_interrupted_is_certified_at_what_it_was_charged(curator: mq.Curator) -> None:
    measure, calls = curator.measure_many, 0

    def interrupted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        made = measure(*given, **named)
        if calls == 3:
            raise KeyboardInterrupt
        return made

    curator.measure(["age"], epsilon=1.0)
    before = curator.ledger.spent()
    curator.measure_many = interrupted  # type: ignore[method-assign]
    made = mq.release(curator, mq.marginals(SCHEMA, k=1), method="adaptive", epsilon=0.5)
    assert calls == 3
    assert made.certificate.units == curator.ledger.spent() - before
    assert len(made.certificate.charges) == len(list(curator.ledger.charges())) - 1


def test_the_purpose_is_a_text(curator: mq.Curator) -> None:
    with pytest.raises(mq.QueryError, match="purpose"):
        curator.account(3)  # type: ignore[arg-type]
