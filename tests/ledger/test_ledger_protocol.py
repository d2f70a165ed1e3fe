"""Reserve, commit, replay: what each call does and refuses, the same on disk and in memory."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ledger_checks import TERMS, ask, contents, opened, request

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    GuardSealed,
    LedgerCorrupted,
    LedgerError,
    LedgerMismatch,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import Ledger, Recorded, SqliteLedger, Ticket
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE


@pytest.fixture(params=["memory", "disk"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteLedger]:
    with opened(None if request.param == "memory" else tmp_path / "ledger") as ledger:
        yield ledger


def reserved(ledger: Ledger, *args: object, **kwargs: object) -> Ticket:
    ticket = ledger.reserve(request(*args, **kwargs))  # type: ignore[arg-type]
    assert isinstance(ticket, Ticket)
    return ticket


def test_an_answered_request_is_replayed_with_the_same_bytes_and_free(ledger: SqliteLedger) -> None:
    receipt = ledger.commit(reserved(ledger), b"\x00forty-two")
    again = ledger.reserve(request())
    assert again == Recorded(b"\x00forty-two", receipt)
    assert ledger.lookup("r") == again
    assert ledger.spent() == ledger.spent("ann") == 10


def test_receipts_lie_on_one_chain(ledger: SqliteLedger) -> None:
    first = ledger.commit(reserved(ledger, "a"), b"1")
    second = ledger.commit(reserved(ledger, "b"), b"1")
    assert second.seq == first.seq + 2
    assert ledger.verify() == second
    assert len(bytes.fromhex(second.head)) == 32


def test_a_charge_is_kept_from_reservation_on(ledger: SqliteLedger) -> None:
    reserved(ledger)
    assert ledger.spent() == 10
    assert [(charge.id, charge.units, charge.state) for charge in ledger.charges()] == [("r", 10, "reserved")]
    assert ledger.lookup("r") is None


def test_a_request_being_evaluated_is_busy(ledger: SqliteLedger) -> None:
    reserved(ledger)
    with pytest.raises(RequestBusy, match="being evaluated"):
        ledger.reserve(request())
    assert ledger.spent() == 10


@pytest.mark.parametrize("other", [{"analyst": "bob"}, {"digest": "e"}])
def test_an_id_used_for_something_else_conflicts_and_shows_nothing(ledger: SqliteLedger, other: dict[str, str]) -> None:
    ask(ledger, "r", b"secret")
    with pytest.raises(RequestConflict) as caught:
        ledger.reserve(request(**other))  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert ledger.spent() == 10
    assert ledger.spent("bob") == 0


def test_the_charge_that_would_pass_the_limit_is_refused_with_the_numbers() -> None:
    one = UNITS_PER_ONE
    with opened(None, replace(TERMS, limit=one)) as ledger:
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


def test_an_analyst_has_a_limit_of_their_own_under_the_table_s(ledger: SqliteLedger) -> None:
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


def test_an_analyst_s_limit_can_change_but_not_below_what_is_spent(ledger: SqliteLedger) -> None:
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


def test_no_analyst_is_named_like_the_table(ledger: SqliteLedger) -> None:
    ledger.limit_analyst("table", 1)
    reserved(ledger, "a", units=500, analyst="")
    assert (ledger.spent(), ledger.spent(""), ledger.spent("table")) == (500, 500, 0)


@pytest.mark.parametrize("units", [-1, MAX_UNITS + 1, 1.0, True])
def test_amounts_are_integers_in_range(ledger: SqliteLedger, units: int) -> None:
    with pytest.raises(BudgetError, match="expected an integer"):
        request(units=units)
    with pytest.raises(BudgetError, match="expected an integer"):
        replace(TERMS, limit=units)
    with pytest.raises(BudgetError, match="expected an integer"):
        ledger.limit_analyst("ann", units)


def test_the_largest_amounts_do_not_wrap() -> None:
    with opened(None, replace(TERMS, limit=MAX_UNITS)) as ledger:
        reserved(ledger, "a", units=MAX_UNITS - 1)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(request("b", units=MAX_UNITS))
        reserved(ledger, "b", units=1)
        assert ledger.spent() == MAX_UNITS
        ledger.verify()


def test_a_guard_seals_after_its_hits_and_easy_queries_give_theirs_back(ledger: SqliteLedger) -> None:
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


def test_hits_in_flight_are_counted_as_hits(ledger: SqliteLedger) -> None:
    ledger.open_guard("g", hits=1)
    ticket = reserved(ledger, "a", guard="g")
    with pytest.raises(GuardSealed):
        ledger.reserve(request("b", guard="g"))
    ledger.commit(ticket, b"", hit=False)
    reserved(ledger, "b", guard="g")


def test_unknown_and_reused_guards_are_refused(ledger: SqliteLedger) -> None:
    with pytest.raises(GuardSealed):
        ledger.reserve(request(guard="none"))
    with pytest.raises(LedgerError, match="no guard"):
        ledger.hits_left("none")
    ledger.open_guard("g", hits=1)
    with pytest.raises(RequestConflict, match="fresh id"):
        ledger.open_guard("g", hits=9)


def test_a_ticket_is_committed_once(ledger: SqliteLedger) -> None:
    ticket = reserved(ledger)
    ledger.commit(ticket, b"first")
    with pytest.raises(LedgerError, match="not waiting"):
        ledger.commit(ticket, b"second")
    with pytest.raises(LedgerError, match="not waiting"):
        ledger.commit(Ticket(request("forged"), 1), b"x")
    recorded = ledger.lookup("r")
    assert recorded is not None
    assert recorded.answer == b"first"


def test_a_bad_answer_is_refused_alone(ledger: SqliteLedger) -> None:
    ticket = reserved(ledger)
    with pytest.raises(TypeError):
        ledger.commit(ticket, "text")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        ledger.reserve(request("lone surrogate \ud800"))
    ledger.commit(ticket, b"bytes")
    ledger.verify()


def test_many_charges_are_listed_in_order() -> None:
    with opened(None, replace(TERMS, limit=5_000)) as ledger:
        for number in range(2_300):
            ask(ledger, f"r{number}", units=1)
        assert [charge.id for charge in ledger.charges()] == [f"r{number}" for number in range(2_300)]


def test_concurrent_requests_share_the_budget_exactly(ledger: SqliteLedger) -> None:
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


def test_a_restart_keeps_answers_and_charges_and_loses_what_was_reserved(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ask(ledger, "answered", b"7")
        stale = reserved(ledger, "interrupted")
        before = ledger.lookup("answered")
    with opened(tmp_path / "ledger") as ledger:
        assert ledger.reserve(request("answered")) == before
        with pytest.raises(RequestLost, match="never evaluated again"):
            ledger.reserve(request("interrupted"))
        with pytest.raises(LedgerError, match="not waiting"):
            ledger.commit(stale, b"late")
        assert ledger.spent() == 20
        assert [charge.state for charge in ledger.charges()] == ["answered", "lost"]


def test_a_restart_closes_guards_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ledger.open_guard("g", hits=3)
    with opened(tmp_path / "ledger") as ledger:
        assert ledger.hits_left("g") == 0
        with pytest.raises(GuardSealed, match="restart"):
            ledger.reserve(request(guard="g"))
        with pytest.raises(RequestConflict):
            ledger.open_guard("g", hits=3)


def test_limits_survive_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ledger.limit_analyst("ann", 10)
    with opened(tmp_path / "ledger") as ledger:
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
def test_a_ledger_opens_only_for_what_it_was_made_for(tmp_path: Path, change: dict[str, str], named: str) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ask(ledger, "a")
        before = contents(ledger)
    with pytest.raises(LedgerMismatch, match=named) as caught:
        SqliteLedger(tmp_path / "ledger", replace(TERMS, **change))  # type: ignore[arg-type]
    assert str(caught.value).count("this opening") <= 1
    assert TERMS.table not in str(caught.value)
    with opened(tmp_path / "ledger") as ledger:
        assert contents(ledger) == before


def test_the_digest_of_the_data_is_stored_only_under_the_key(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger"):
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert TERMS.table.encode() not in stored
    assert bytes.fromhex(TERMS.table) not in stored
    assert TERMS.table not in repr(TERMS)


def test_a_ledger_shows_the_digest_of_the_data_only_under_its_key(ledger: SqliteLedger) -> None:
    ask(ledger, "a")
    public = [getattr(ledger, name) for name in dir(ledger) if not name.startswith("_")]
    assert ledger.terms in public
    shown = repr([public, asdict(ledger.terms), vars(ledger.terms), list(map(asdict, ledger.charges()))])
    assert TERMS.table not in shown
    assert replace(ledger.terms, table=TERMS.table) == TERMS
    with opened(None) as another:
        assert another.terms.table != ledger.terms.table
        assert len(bytes.fromhex(another.terms.table)) == 32


def test_answers_are_in_no_repr(ledger: SqliteLedger) -> None:
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


def test_the_clock_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, now in enumerate([4e9, 0.0, -1e9, 2e9]):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        with opened(tmp_path / "ledger") as ledger:
            ask(ledger, f"r{number}")
            assert ledger.spent() == 10 * (number + 1)


def test_a_closed_ledger_says_so(ledger: SqliteLedger) -> None:
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
