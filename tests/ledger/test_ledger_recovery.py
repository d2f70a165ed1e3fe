"""Recovery after a loss: what may have been spent is charged first, whatever was lost and wherever it is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from ledger_checks import TERMS, ask, opened, quick_directory, request, restore, snapshot

from maquette.errors import BudgetExceeded, LedgerCorrupted, LedgerError, LedgerLocked, RequestLost
from maquette.privacy.ledger import Recorded, SqliteLedger, Ticket, inspect, recover
from maquette.privacy.ledger.head import Head


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def without(files: dict[Path, bytes], *names: str) -> dict[Path, bytes]:
    return {file: data for file, data in files.items() if file.name not in names}


def spend(path: Path, **settings: Any) -> dict[Path, bytes]:
    """Three answers for 100 units each; the first two are in the main file, the third only in the log."""
    with opened(path, **settings) as ledger:
        ask(ledger, "a", b"1", units=100)
        ask(ledger, "b", b"2", units=100)
        ledger._home.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ask(ledger, "c", b"3", units=100)
        return snapshot(path)


def test_a_lost_log_costs_exactly_what_was_in_it(path: Path) -> None:
    restore(without(spend(path), "ledger-wal"))
    recovery = recover(path)
    assert (recovery.charged, recovery.spent, recovery.limit) == (100, 300, 1_000)
    with opened(path) as ledger:
        assert ledger.spent() == 300
        assert isinstance(ledger.reserve(request("a")), Recorded)
        assert isinstance(ledger.reserve(request("c", units=100)), Ticket), "it is paid for anew"
        lost = list(ledger.charges())[2]
        assert (lost.analyst, lost.units, lost.state) == ("lost before a recovery", 100, "lost")
        with pytest.raises(RequestLost):
            ledger.reserve(request(lost.id, analyst=lost.analyst, digest=""))
        ledger.verify()


def test_a_ledger_that_lacks_nothing_is_left_as_it_is(path: Path) -> None:
    files = spend(path)
    restore(files)
    recovery = recover(path)
    assert (recovery.charged, recovery.spent) == (0, 300)
    assert path.with_name("ledger.head").read_bytes() == files[path.with_name("ledger.head")]
    with opened(path) as ledger:
        assert [charge.id for charge in ledger.charges()] == ["a", "b", "c"]


@pytest.mark.parametrize("head", [None, b"", b"maquette head"])
@pytest.mark.parametrize("log", [True, False])
def test_without_a_head_the_rest_of_the_budget_is_charged(path: Path, head: bytes | None, log: bool) -> None:
    files = without(spend(path), "ledger.head", *([] if log else ["ledger-wal"]))
    restore(files if head is None else {**files, path.with_name("ledger.head"): head})
    recovery = recover(path)
    assert recovery.spent == recovery.limit == 1_000
    with opened(path) as ledger:
        assert isinstance(ledger.reserve(request("a")), Recorded)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(request("new", units=1))


def test_an_older_copy_that_went_on_by_itself_is_charged_in_full(path: Path) -> None:
    old = spend(path)
    with opened(path) as ledger:
        ask(ledger, "d", units=10)
    head = path.with_name("ledger.head").read_bytes()
    restore(old)  # together with its head, which nothing but an anchor notices
    with opened(path) as ledger:
        for number in range(3):
            ask(ledger, f"e{number}", units=100)
    path.with_name("ledger.head").write_bytes(head)
    assert recover(path).spent == 1_000


def test_an_anchor_that_reaches_past_the_head_takes_the_rest_of_the_budget(path: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    old = spend(path, anchor=anchor)
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "d", units=10)
    restore({**old, anchor: anchor.read_bytes()})
    with pytest.raises(LedgerCorrupted, match="anchor remembers"):
        inspect(path, anchor=anchor)
    assert recover(path, anchor=anchor).spent == 1_000
    with opened(path, anchor=anchor) as ledger:
        assert ledger.spent() == 1_000


def test_an_anchor_that_lost_no_more_than_the_head_begins_anew(path: Path, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    restore(without(spend(path, anchor=anchor), "ledger-wal"))
    assert recover(path, anchor=anchor).spent == 300
    with opened(path, anchor=anchor) as ledger:
        assert ledger.spent() == 300


@pytest.mark.parametrize("anchored", [False, True])
def test_a_recovery_cut_off_before_its_end_charges_nothing_twice(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anchored: bool
) -> None:
    anchor = tmp_path / "anchor" if anchored else None
    settings: dict[str, Any] = {"anchor": anchor} if anchor else {}
    restore(without(spend(path, **settings), "ledger-wal"))

    def cut(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Head, "replace", cut)
            with pytest.raises(LedgerError, match="Input/output error"):
                recover(path, anchor=anchor)
        with pytest.raises(LedgerCorrupted):
            SqliteLedger(path, TERMS)
    assert recover(path, anchor=anchor).spent == 300
    with opened(path, anchor=anchor) as ledger:
        assert ledger.spent() == 300


def test_a_log_that_is_found_again_after_a_recovery_is_refused(path: Path) -> None:
    files = spend(path)
    restore(without(files, "ledger-wal"))
    recover(path)
    with opened(path) as ledger:
        ask(ledger, "d", units=10)
    head = path.with_name("ledger.head").read_bytes()
    restore({**files, path.with_name("ledger.head"): head})
    with pytest.raises(LedgerCorrupted, match=r"ledger\.head remembers"):
        SqliteLedger(path, TERMS)
    assert recover(path).spent == 310


def test_nothing_else_is_recovered(path: Path, tmp_path: Path) -> None:
    files = spend(path)
    with opened(path), pytest.raises(LedgerLocked):
        recover(path)
    with pytest.raises(LedgerError, match="there is no ledger"):
        recover(tmp_path / "nothing")
    changed = files[path].replace(b'"door": "measure"', b'"door": "treasure"'[:17])
    restore({**without(files, "ledger-wal"), path: changed})
    with pytest.raises(LedgerCorrupted, match="chain does not verify"):
        recover(path)
    restore(without(files, "ledger-wal"))
    with pytest.raises(LedgerCorrupted, match="not the ledger's key"):
        recover(path, key=bytes(32))


@pytest.mark.thorough
@given(data=st.data())
def test_after_any_loss_a_recovered_ledger_counts_all_that_was_told(data: st.DataObject) -> None:
    with quick_directory() as directory:
        path = directory / "ledger"
        copies: list[dict[Path, bytes]] = []
        told = 0
        for boot in range(data.draw(st.integers(1, 3))):
            with opened(path) as ledger:
                for number in range(data.draw(st.integers(0, 3))):
                    units = data.draw(st.integers(0, 100))
                    ask(ledger, f"{boot}.{number}", units=units)
                    told += units
                    copies.append(snapshot(path))
            copies.append(snapshot(path))
        head, main = path.with_name("ledger.head"), data.draw(st.sampled_from(copies))
        left = {**copies[-1], **main, head: copies[-1][head]}
        for name in data.draw(st.sets(st.sampled_from(["ledger-wal", "ledger.head"]))):
            left.pop(path.with_name(name), None)
        restore(left)
        assert told <= recover(path).spent <= 1_000
        with opened(path) as ledger:
            assert told <= ledger.spent()
            ledger.verify()
