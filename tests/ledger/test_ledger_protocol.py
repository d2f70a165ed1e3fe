"""Reserve, commit, replay: what each call does and refuses, the same for every ledger; add yours to `KINDS`.

A kind opens a ledger at a place for some terms; `KEPT` are those that find their events there again.
"""

from __future__ import annotations

import copy
import os
import pickle
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ledger_checks import TERMS, ask, contents, opened, request

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DeadlineMissed,
    GuardSealed,
    LedgerCorrupted,
    LedgerError,
    LedgerMismatch,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import Ledger, MemoryLedger, MemoryStorage, Recorded, SqliteLedger, Terms, Ticket, machine
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE
from page_examples import example

Open = Callable[[Path, Terms], Ledger]
New = Callable[[Terms], closing[Ledger]]
Again = Callable[..., closing[Ledger]]
KEPT: dict[str, Open] = {
    "disk": SqliteLedger,
    "example": lambda place, terms: example("JournalLedger")(place, terms, bytes(range(32))),
}
KINDS: dict[str, Open] = {
    "memory": lambda place, terms: MemoryLedger(terms),
    "sqlite in memory": lambda place, terms: SqliteLedger(None, terms),
    **KEPT,
}


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    with closing(KINDS[request.param](tmp_path / "ledger", TERMS)) as ledger:
        yield ledger


@pytest.fixture(params=KINDS)
def new(request: pytest.FixtureRequest, tmp_path: Path) -> New:
    """Opens a ledger for any terms."""
    return lambda terms: closing(KINDS[request.param](tmp_path / "ledger", terms))


@pytest.fixture(params=KEPT)
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Again:
    """Opens the same ledger, as often as it is closed."""
    return lambda terms=TERMS: closing(KEPT[request.param](tmp_path / "ledger", terms))


def reserved(ledger: Ledger, *args: object, **kwargs: object) -> Ticket:
    ticket = ledger.reserve(request(*args, **kwargs))  # type: ignore[arg-type]
    assert isinstance(ticket, Ticket)
    return ticket


def test_an_answered_request_is_replayed_with_the_same_bytes_and_free(ledger: Ledger) -> None:
    receipt = ledger.commit(reserved(ledger), b"\x00forty-two")
    again = ledger.reserve(request())
    assert again == Recorded(b"\x00forty-two", receipt)
    assert ledger.lookup("r") == again
    assert ledger.spent() == ledger.spent("ann") == 10


def test_receipts_lie_on_one_chain(ledger: Ledger) -> None:
    first = ledger.commit(reserved(ledger, "a"), b"1")
    second = ledger.commit(reserved(ledger, "b"), b"1")
    assert second.seq == first.seq + 2
    assert ledger.verify() == second
    assert len(bytes.fromhex(second.head)) == 32


def test_a_charge_is_kept_from_reservation_on(ledger: Ledger) -> None:
    reserved(ledger)
    assert ledger.spent() == 10
    assert [(charge.id, charge.units, charge.state) for charge in ledger.charges()] == [("r", 10, "reserved")]
    assert ledger.lookup("r") is None


def test_a_request_being_evaluated_is_busy(ledger: Ledger) -> None:
    reserved(ledger)
    with pytest.raises(RequestBusy, match="being evaluated"):
        ledger.reserve(request())
    assert ledger.spent() == 10


@pytest.mark.parametrize("other", [{"analyst": "bob"}, {"digest": "e"}])
def test_an_id_used_for_something_else_conflicts_and_shows_nothing(ledger: Ledger, other: dict[str, str]) -> None:
    ask(ledger, "r", b"secret")
    with pytest.raises(RequestConflict) as caught:
        ledger.reserve(request(**other))  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert ledger.spent() == 10
    assert ledger.spent("bob") == 0


def test_the_charge_that_would_pass_the_limit_is_refused_with_the_numbers(new: New) -> None:
    one = UNITS_PER_ONE
    with new(replace(TERMS, limit=one)) as ledger:
        reserved(ledger, "a", units=one // 4 * 3)
        with pytest.raises(BudgetExceeded, match=r"requested 0\.5, remaining 0\.25, short by 0\.25 \(zcdp\)") as caught:
            ledger.reserve(request("b", units=one // 2))
        assert (caught.value.requested, caught.value.remaining, caught.value.difference) == (0.5, 0.25, 0.25)
        assert ledger.spent() == one // 4 * 3
        assert ledger.spent("ann") == one // 4 * 3
        reserved(ledger, "b", units=one // 4)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(request("c", units=1))
        reserved(ledger, "free", units=0)


def test_an_analyst_has_a_limit_of_their_own_under_the_table_s(ledger: Ledger) -> None:
    ledger.limit_analyst("ann", 30)
    ledger.limit_analyst("bob", 990)
    reserved(ledger, "a", units=30)
    with pytest.raises(BudgetExceeded, match="analyst ann budget"):
        ledger.reserve(request("b", units=1))
    with pytest.raises(BudgetExceeded, match="the table budget"):
        ledger.reserve(request("b", units=971, analyst="bob"))
    reserved(ledger, "b", units=970, analyst="bob")
    assert (ledger.spent(), ledger.spent("ann"), ledger.spent("bob")) == (1000, 30, 970)
    ledger.verify()


def test_an_analyst_s_limit_can_change_but_not_below_what_is_spent(ledger: Ledger) -> None:
    reserved(ledger, "a", units=30)
    with pytest.raises(BudgetError, match=r"has spent 30 .* set it to 30"):
        ledger.limit_analyst("ann", 29)
    ledger.limit_analyst("ann", 30)
    before = ledger.verify()
    ledger.limit_analyst("ann", 30)
    assert ledger.verify() == before
    with pytest.raises(BudgetExceeded):
        ledger.reserve(request("b", units=1))
    ledger.limit_analyst("ann", 31)
    reserved(ledger, "b", units=1)


def test_no_analyst_is_named_like_the_table(ledger: Ledger) -> None:
    ledger.limit_analyst("table", 1)
    reserved(ledger, "a", units=500, analyst="")
    assert (ledger.spent(), ledger.spent(""), ledger.spent("table")) == (500, 500, 0)


@pytest.mark.parametrize("units", [-1, MAX_UNITS + 1, 1.0, True])
def test_amounts_are_integers_in_range(ledger: Ledger, units: int) -> None:
    with pytest.raises(BudgetError, match="expected an integer"):
        request(units=units)
    with pytest.raises(BudgetError, match="expected an integer"):
        replace(TERMS, limit=units)
    with pytest.raises(BudgetError, match="expected an integer"):
        ledger.limit_analyst("ann", units)


def test_the_largest_amounts_do_not_wrap(new: New) -> None:
    with new(replace(TERMS, limit=MAX_UNITS)) as ledger:
        reserved(ledger, "a", units=MAX_UNITS - 1)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(request("b", units=MAX_UNITS))
        reserved(ledger, "b", units=1)
        assert ledger.spent() == MAX_UNITS
        ledger.verify()


def test_a_guard_seals_after_its_hits_and_easy_queries_give_theirs_back(ledger: Ledger) -> None:
    ledger.open_guard("g", hits=2)
    for number in range(5):
        ledger.commit(reserved(ledger, f"easy{number}", units=0, guard="g"), b"", hit=False)
    assert ledger.hits_left("g") == 2
    for number in range(2):
        ledger.commit(reserved(ledger, f"hard{number}", units=0, guard="g"), b"7")
    assert ledger.hits_left("g") == 0
    with pytest.raises(GuardSealed, match="nothing was charged"):
        ledger.reserve(request("late", units=5, guard="g"))
    assert ledger.spent() == 0
    ledger.verify()


def test_hits_in_flight_are_counted_as_hits(ledger: Ledger) -> None:
    ledger.open_guard("g", hits=1)
    ticket = reserved(ledger, "a", guard="g")
    with pytest.raises(GuardSealed):
        ledger.reserve(request("b", guard="g"))
    ledger.commit(ticket, b"", hit=False)
    reserved(ledger, "b", guard="g")


def test_unknown_and_reused_guards_are_refused(ledger: Ledger) -> None:
    with pytest.raises(GuardSealed):
        ledger.reserve(request(guard="none"))
    with pytest.raises(LedgerError, match="no guard"):
        ledger.hits_left("none")
    ledger.open_guard("g", hits=1)
    with pytest.raises(RequestConflict, match="fresh id"):
        ledger.open_guard("g", hits=9)


def test_a_ticket_is_committed_once(ledger: Ledger) -> None:
    ticket = reserved(ledger)
    ledger.commit(ticket, b"first")
    with pytest.raises(LedgerError, match="not waiting"):
        ledger.commit(ticket, b"second")
    with pytest.raises(LedgerError, match="not waiting"):
        ledger.commit(Ticket(request("forged"), 1), b"x")
    recorded = ledger.lookup("r")
    assert recorded is not None
    assert recorded.answer == b"first"


def test_a_bad_answer_is_refused_alone(ledger: Ledger) -> None:
    ticket = reserved(ledger)
    with pytest.raises(TypeError):
        ledger.commit(ticket, "text")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        ledger.reserve(request("lone surrogate \ud800"))
    ledger.commit(ticket, b"bytes")
    ledger.verify()


@pytest.mark.thorough(fast=1)
def test_many_charges_are_listed_in_order(new: New) -> None:
    with new(replace(TERMS, limit=5_000)) as ledger:
        for number in range(2_300):
            ask(ledger, f"r{number}", units=1)
        assert [charge.id for charge in ledger.charges()] == [f"r{number}" for number in range(2_300)]


def test_concurrent_requests_share_the_budget_exactly(ledger: Ledger) -> None:
    granted: list[str] = []

    def spend(client: int) -> None:
        for number in range(30):
            try:
                ask(ledger, f"{client}.{number}", units=7)
            except BudgetExceeded:
                return
            granted.append(f"{client}.{number}")

    clients = [threading.Thread(target=spend, args=(client,)) for client in range(16)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert len(granted) == 1_000 // 7
    assert ledger.spent() == 1_000 // 7 * 7
    ledger.verify()


def test_a_restart_keeps_answers_and_charges_and_loses_what_was_reserved(again: Again) -> None:
    with again() as ledger:
        ask(ledger, "answered", b"7")
        stale = reserved(ledger, "interrupted")
        before = ledger.lookup("answered")
    with again() as ledger:
        assert ledger.reserve(request("answered")) == before
        with pytest.raises(RequestLost, match="never evaluated again"):
            ledger.reserve(request("interrupted"))
        with pytest.raises(LedgerError, match="not waiting"):
            ledger.commit(stale, b"late")
        assert ledger.spent() == 20
        assert [charge.state for charge in ledger.charges()] == ["answered", "lost"]


def test_a_restart_closes_guards_for_ever(again: Again) -> None:
    with again() as ledger:
        ledger.open_guard("g", hits=3)
    with again() as ledger:
        assert ledger.hits_left("g") == 0
        with pytest.raises(GuardSealed, match="restart"):
            ledger.reserve(request(guard="g"))
        with pytest.raises(RequestConflict):
            ledger.open_guard("g", hits=3)


def test_limits_survive_a_restart(again: Again) -> None:
    with again() as ledger:
        ledger.limit_analyst("ann", 10)
    with again() as ledger:
        ask(ledger, "a")
        with pytest.raises(BudgetExceeded):
            ledger.reserve(request("b", units=1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"table": "00" * 32}, "the data"),
        ({"schema": "cd" * 32}, r"schema changed since the ledger was made \(digest abababab, now cdcdcdcd\)\."),
        ({"schema": "cd" * 32, "table": "00" * 32}, r"else: the schema changed [^;]*cdcdcdcd\)\."),
        ({"relation": "replace"}, "add-remove, unit=row, max_contributions=1, this opening replace"),
        ({"currency": "pure"}, "the currency"),
        ({"limit": 1_001}, "has limit 1e-12 of rho, this opening limit 1.001e-12 of rho"),
        ({"limit": 2 * UNITS_PER_ONE}, "this opening limit 2 of rho"),
    ],
)
def test_a_ledger_opens_only_for_what_it_was_made_for(again: Again, change: dict[str, str], named: str) -> None:
    with again() as ledger:
        ask(ledger, "a")
        before = contents(ledger)
    with pytest.raises(LedgerMismatch, match=named) as caught:
        again(replace(TERMS, **change))  # type: ignore[arg-type]
    assert str(caught.value).count("this opening") <= 1
    assert TERMS.table not in str(caught.value)
    with again() as ledger:
        assert contents(ledger) == before


def test_the_digest_of_the_data_is_stored_only_under_the_key(again: Again, tmp_path: Path) -> None:
    with again():
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert TERMS.table.encode() not in stored
    assert bytes.fromhex(TERMS.table) not in stored
    assert TERMS.table not in repr(TERMS)


def test_a_ledger_shows_the_digest_of_the_data_only_under_its_key(ledger: Ledger) -> None:
    ask(ledger, "a")
    public = [getattr(ledger, name) for name in dir(ledger) if not name.startswith("_")]
    assert ledger.terms in public
    shown = repr([public, asdict(ledger.terms), vars(ledger.terms), list(map(asdict, ledger.charges()))])
    assert TERMS.table not in shown
    assert replace(ledger.terms, table=TERMS.table) == TERMS
    with opened(None) as another:  # under a key of its own
        assert another.terms.table != ledger.terms.table
        assert len(bytes.fromhex(another.terms.table)) == 32


def test_answers_are_in_no_repr(ledger: Ledger) -> None:
    ask(ledger, "r", b"canary")
    assert "canary" not in repr(ledger.reserve(request())) + repr(ledger) + repr(list(ledger.charges()))


def test_the_key_is_private_to_its_owner_and_may_live_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    key_path = tmp_path / "keys" / "secret"
    with opened(tmp_path / "ledger", key_path=key_path) as ledger:
        ask(ledger, "a")
        for file in (key_path, tmp_path / "ledger", tmp_path / "ledger-wal"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (tmp_path / "ledger.key").exists()
    with opened(tmp_path / "ledger", key=key_path.read_bytes()) as ledger:
        assert ledger.spent() == 10
    with pytest.raises(LedgerCorrupted, match=r"key file .* missing.*Restore the key file beside the ledger"):
        SqliteLedger(tmp_path / "ledger", TERMS)
    assert not (tmp_path / "ledger.key").exists()


def test_the_clock_decides_nothing(again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, now in enumerate([4e9, 0.0, -1e9, 2e9]):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        with again() as ledger:
            ask(ledger, f"r{number}")
            assert ledger.spent() == 10 * (number + 1)


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.spent()
    ledger.close()


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ledger.close()
        with (tmp_path / "other").open("w") as other:  # it gets a number that the ledger's files had
            ledger.close()
            other.write("still open")
    assert (tmp_path / "other").read_text() == "still open"


def test_withholding_keeps_the_charge_and_the_hit_and_tells_nobody(ledger: Ledger) -> None:
    ledger.open_guard("g", hits=2)
    easy = reserved(ledger, "easy", guard="g")
    ledger.commit(easy, b"late", hit=False)
    assert ledger.hits_left("g") == 2
    ledger.withhold(easy)
    ledger.withhold(reserved(ledger, "slow", guard="g"))
    assert ledger.hits_left("g") == 0
    assert ledger.spent() == 20
    for name in ("easy", "slow"):
        assert ledger.lookup(name) is None
        with pytest.raises(DeadlineMissed):
            ledger.reserve(request(name, guard="g"))
    with pytest.raises(LedgerError, match="lost already"):
        ledger.withhold(easy)
    assert {charge.state for charge in ledger.charges()} == {"lost"}
    ledger.verify()


def test_a_ledger_is_a_ledger_and_knows_its_terms(ledger: Ledger) -> None:
    assert isinstance(ledger, Ledger)
    ledger.check(TERMS)
    with pytest.raises(LedgerMismatch, match="the data"):
        ledger.check(replace(TERMS, table="00" * 32))
    with pytest.raises(LedgerMismatch, match="this opening limit"):
        ledger.check(replace(TERMS, limit=TERMS.limit + 1))


def test_a_ledger_cannot_be_copied(ledger: Ledger) -> None:
    for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copy_of(ledger)


@pytest.mark.parametrize("method", ["append", "follow"])
def test_an_interrupted_write_in_memory_keeps_the_charge(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Ctrl-C before the event, or between the event and the books: these are made anew from the events."""
    ledger = MemoryLedger(TERMS)
    ask(ledger, "a")
    owner = MemoryStorage if method == "append" else machine
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(request("b"))
    assert ledger.spent() == (10 if method == "append" else 20)
    assert ledger.verify().seq == (4 if method == "append" else 5)
    if method == "follow":
        with pytest.raises(RequestBusy):
            ledger.reserve(request("b"))


def test_a_fork_cannot_spend_the_same_budget(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="process"):
        ledger.reserve(request("in the fork"))
