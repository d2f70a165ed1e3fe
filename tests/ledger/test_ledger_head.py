"""The head file: a lost log, an older copy and a lost head are refused; a crash between commit and head is not."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from ledger_checks import TERMS, ask, contents, opened, quick_directory, request, restore, snapshot

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import SqliteLedger, Ticket, inspect, recover
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.head import SLOT, Head
from maquette.privacy.ledger.store import Mark

ADVICE = r"Put the newest ledger back in place.*maquette verify ledger --recover.*docs/how-to/ledger-recovery\.md"


def killed(path: Path, *, asked: int = 3, **settings: Any) -> dict[Path, bytes]:
    """The files that a kill leaves after so many answers: the log is not in the database yet."""
    with opened(path, **settings) as ledger:
        for number in range(asked):
            ask(ledger, f"r{number}", units=100)
        return snapshot(path)


def refused(path: Path, match: str) -> None:
    for call in (lambda: SqliteLedger(path, TERMS), lambda: inspect(path)):
        with pytest.raises(LedgerCorrupted, match=match):
            call()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def newest(path: Path) -> Mark | None:
    head = Head(path, Chain(beside(path, ".key").read_bytes()))
    content = head.read()
    return None if content is None else head.newest(content)


def test_a_lost_log_is_refused_with_what_to_do(path: Path) -> None:
    files = killed(path)
    restore({file: data for file, data in files.items() if not file.name.endswith("-wal")})
    refused(path, rf"ends at event 1, but ledger\.head remembers event 8: the log ledger-wal was lost.*{ADVICE}")
    assert beside(path, ".head").read_bytes() == files[beside(path, ".head")], "a refusal changes nothing"
    restore(files)
    with opened(path) as ledger:
        assert ledger.spent() == 300


def test_the_main_file_restored_alone_from_an_older_copy_is_refused(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, "a", units=900)
    old = path.read_bytes()
    with opened(path) as ledger:
        ask(ledger, "b", units=100)
    path.write_bytes(old)
    refused(path, rf"ends at event 4, but ledger\.head remembers event 7.*or the database is an older copy.*{ADVICE}")


def test_an_older_log_is_refused(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, "a")
        older = snapshot(path)
        ask(ledger, "b")
        newer = snapshot(path)
    restore({**older, beside(path, ".head"): newer[beside(path, ".head")]})
    refused(path, "ends at event 4, but ledger.head remembers event 6")


@pytest.mark.parametrize("log", [True, False])
def test_deleting_the_head_does_not_help(path: Path, log: bool) -> None:
    files = killed(path)
    files.pop(beside(path, ".head"))
    if not log:
        files.pop(beside(path, "-wal"))
    restore(files)
    refused(path, rf"head file ledger\.head is missing.*{ADVICE}")


@pytest.mark.parametrize("cut", [0, 1, 100, 186])
def test_a_cut_head_is_refused(path: Path, cut: int) -> None:
    files = killed(path)
    head = beside(path, ".head")
    restore({**files, head: files[head][:cut]})
    refused(path, rf"ledger\.head is empty, cut or changed: its last record is not whole.*{ADVICE}")


def test_a_torn_write_of_the_head_leaves_the_one_before(path: Path) -> None:
    files = killed(path, asked=4)
    whole = files[beside(path, ".head")]
    restore(files)
    mark = newest(path)
    assert mark is not None
    for slot in range(2):
        torn = bytearray(whole)
        torn[slot * SLOT + 60 : (slot + 1) * SLOT] = bytes(SLOT - 60)
        restore({**files, beside(path, ".head"): bytes(torn)})
        left = newest(path)
        assert left is not None
        if left == mark:  # the other record was not being written: this is damage
            refused(path, "its last record is not whole")
            continue
        assert left.seq == mark.seq - 1
        with opened(path) as ledger:
            assert ledger.spent() == 400
        assert newest(path) > mark  # type: ignore[operator]


def test_damage_to_the_newest_record_does_not_hide_the_loss_of_the_last_commit(path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, "a")
        ticket = ledger.reserve(request("b"))
        assert isinstance(ticket, Ticket)
        before = snapshot(path)
        ledger.commit(ticket, b"42")
        after = snapshot(path)
    head = beside(path, ".head")
    for slot in range(2):
        damaged = bytearray(after[head])
        damaged[slot * SLOT + 20] ^= 1
        restore({**before, head: bytes(damaged)})
        refused(path, "its last record is not whole|remembers event")
        assert recover(path).spent == 1_000


def test_a_changed_byte_of_the_head_is_refused_or_changes_nothing(path: Path) -> None:
    files = killed(path)
    head = beside(path, ".head")
    with opened(path) as ledger:
        expected = contents(ledger)
    rng = random.Random(5)
    refusals = 0
    for lost_log in (False, True):
        for _ in range(60):
            changed = bytearray(files[head])
            changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
            left = {file: data for file, data in files.items() if not (lost_log and file.name.endswith("-wal"))}
            restore({**left, head: bytes(changed)})
            try:
                with opened(path) as ledger:
                    assert contents(ledger) == expected
                    assert not lost_log
            except LedgerCorrupted:
                refusals += 1
    assert 60 < refusals < 120


def test_a_head_cannot_be_made_without_the_key(path: Path) -> None:
    files = killed(path)
    forged = Head(path, Chain(bytes(32)))
    forged.replace(Mark(1, "00" * 32, 0))
    with pytest.raises(LedgerCorrupted, match="its last record is not whole"):
        SqliteLedger(path, TERMS)
    assert path in files


def test_a_head_of_another_ledger_or_of_a_copy_that_went_on_is_refused(path: Path, tmp_path: Path) -> None:
    with opened(path) as ledger:
        ask(ledger, "a")
    old = snapshot(path)
    with opened(path) as ledger:
        ask(ledger, "b")
    other = beside(path, ".head").read_bytes()
    restore(old)  # with its head: only an anchor would notice
    with opened(path) as ledger:
        for number in range(3):
            ask(ledger, f"c{number}")
    beside(path, ".head").write_bytes(other)
    refused(path, rf"another one than ledger\.head remembers: .*two copies that went on separately\. {ADVICE}")


def test_a_crash_between_the_commit_and_the_head_is_taken_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(_: Head, mark: Mark) -> None:
        raise OSError(5, "Input/output error")

    with opened(path) as ledger:
        ticket = ledger.reserve(request("a"))
        assert isinstance(ticket, Ticket)
        before = newest(path)
        with monkeypatch.context() as patch:
            patch.setattr(Head, "advance", cut)
            with pytest.raises(LedgerError, match="Nothing was released"):
                ledger.commit(ticket, b"42")
            with pytest.raises(LedgerError, match="stopped"):
                ledger.lookup("a")
        assert newest(path) == before
    with opened(path) as ledger:
        recorded = ledger.lookup("a")
        assert recorded is not None
        assert recorded.answer == b"42"
        receipt = ledger.verify()
        assert newest(path) == Mark(receipt.seq, receipt.head, 10)


def test_the_head_is_durable_before_an_outcome_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace: list[tuple[str, Mark | None]] = []
    sync = os.fdatasync

    def traced(descriptor: int) -> None:
        sync(descriptor)
        trace.append(("sync", newest(path)))

    monkeypatch.setattr(os, "fdatasync", traced)
    with opened(path) as ledger:
        for number in range(3):
            ticket = ledger.reserve(request(f"r{number}"))
            assert isinstance(ticket, Ticket)
            trace.append(("told", newest(path)))
            assert trace[-2] == ("sync", trace[-1][1])
            assert trace[-1][1] == Mark(ticket.seq, ledger.verify().head, 10 * number + 10)
            receipt = ledger.commit(ticket, b"42")
            assert trace[-1] == ("sync", Mark(receipt.seq, receipt.head, 10 * number + 10))
        count = len(trace)
        ledger.lookup("r0")
        ledger.spent()
        assert len(trace) == count, "reading writes no head"


def test_a_head_that_vanishes_or_runs_ahead_while_the_ledger_is_open_stops_it(path: Path) -> None:
    with opened(path) as ledger:
        beside(path, ".head").unlink()
        with pytest.raises(LedgerError, match=r"No such file.*Nothing was released"):
            ledger.reserve(request("a"))
    with pytest.raises(LedgerCorrupted, match="missing"):
        SqliteLedger(path, TERMS)
    ahead = path.with_name("ahead")
    with opened(ahead) as ledger:
        Head(ahead, ledger._home.chain).replace(Mark(100, "00" * 32, 10))
        with pytest.raises(LedgerCorrupted, match="remembers event 100"):
            ledger.reserve(request("a"))


def test_sharing_processes_write_one_head(path: Path) -> None:
    with opened(path, shared=True) as first, opened(path, shared=True) as second:
        for number in range(6):
            ask((first, second)[number % 2], f"r{number}")
            mark = newest(path)
            assert mark is not None
            assert mark.spent == 10 * number + 10
        assert first.verify() == second.verify()
        files = snapshot(path)
    files.pop(beside(path, "-wal"))
    restore(files)
    refused(path, "ends at event 1, but ledger.head remembers event 14")


def test_what_a_dead_sharer_committed_is_told_only_behind_the_head(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path, shared=True) as survivor:
        with opened(path, shared=True) as dying:
            ticket = dying.reserve(request("a"))
            assert isinstance(ticket, Ticket)
            with monkeypatch.context() as patch:
                patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
                with pytest.raises(LedgerError):
                    dying.commit(ticket, b"42")
        synced: list[Any] = []
        sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(sync(descriptor)))
        recorded = survivor.lookup("a")
        assert recorded is not None
        assert recorded.answer == b"42"
        assert synced
        assert newest(path) == Mark(recorded.receipt.seq, recorded.receipt.head, 10)


def test_a_ledger_in_memory_has_no_head_and_takes_no_anchor(tmp_path: Path) -> None:
    with opened(None) as ledger:
        ask(ledger, "a")
        ledger.verify()
    for settings in ({"anchor": tmp_path / "anchor"}, {"key_path": tmp_path / "key"}, {"shared": True}):
        with pytest.raises(LedgerError, match=r"no ledger file was named; nothing was opened\. Name the ledger's file"):
            SqliteLedger(None, TERMS, **settings)
    assert not list(tmp_path.iterdir())


def test_a_curator_in_memory_with_an_anchor_is_refused(tmp_path: Path) -> None:
    import maquette as mq

    table = mq.open_table({"age": [1, 2, 3]}, mq.Schema([mq.Integer("age", 0, 9)]))
    with pytest.raises(LedgerError, match="no ledger file was named"):
        mq.Curator(table, mq.Budget(epsilon=1.0), anchor=tmp_path / "anchor")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
@given(data=st.data())
def test_any_mixture_of_older_files_under_the_newest_head_is_refused_or_lacks_nothing(data: st.DataObject) -> None:
    with quick_directory() as directory:
        path = directory / "ledger"
        copies: list[dict[Path, bytes]] = []
        told = 0
        for _ in range(data.draw(st.integers(1, 3))):
            with opened(path) as ledger:
                ledger._home.connection.execute("PRAGMA wal_autocheckpoint = 8")
                for _ in range(data.draw(st.integers(0, 4))):
                    ask(ledger, f"r{told}", units=1)
                    told += 1
                    copies.append(snapshot(path))
            copies.append(snapshot(path))
        last = copies[-1] if data.draw(st.booleans()) or len(copies) < 2 else copies[-2]  # closed, or killed after all
        main, log = data.draw(st.sampled_from(copies)), data.draw(st.sampled_from([None, *copies]))
        mixed = {**last, path: main[path]}
        mixed.pop(beside(path, "-wal"), None)
        if log is not None and beside(path, "-wal") in log:
            mixed[beside(path, "-wal")] = log[beside(path, "-wal")]
        restore(mixed)
        try:
            with opened(path) as ledger:
                assert ledger.spent() == told
        except LedgerCorrupted:
            pass
