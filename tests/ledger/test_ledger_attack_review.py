"""What an independent attack on the ledger's head file and recovery found."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from ledger_checks import TERMS, ask, opened, request

from maquette.errors import LedgerCorrupted, PrivacyWarning
from maquette.privacy.ledger import SqliteLedger, Ticket, files, inspect, recover

FILES = Path(__file__).with_name("files")


def went_on_separately(folder: Path, **settings: Any) -> tuple[Path, Path]:
    """Two copies of one ledger: the first told 400 in one answer, the second 300 in four."""
    first, second = folder / "first", folder / "second"
    first.mkdir()
    with opened(first / "ledger", **settings):
        pass
    shutil.copytree(first, second)
    with opened(first / "ledger", **settings) as ledger:
        ask(ledger, "a", units=400)
    with opened(second / "ledger") as ledger:
        for number in range(4):
            ask(ledger, f"b{number}", units=75)
    return first, second


def test_copies_that_surely_went_on_separately_are_recovered_for_what_both_told(tmp_path: Path) -> None:
    """The head remembers event 5 of one copy, the database has another event 5: 400 + 300 were told, not 400."""
    first, second = went_on_separately(tmp_path)
    shutil.copy(first / "ledger.head", second / "ledger.head")
    with pytest.raises(LedgerCorrupted, match="two copies that went on separately"):
        inspect(second / "ledger")
    assert recover(second / "ledger").spent >= 700


def test_an_anchor_of_another_copy_than_the_head_is_recovered_for_what_both_told(tmp_path: Path) -> None:
    """The database is older than both, and the anchor, of the first copy, is not past the head of the second."""
    anchor = tmp_path / "anchor"
    anchor.write_bytes(b"")
    first, second = went_on_separately(tmp_path, anchor=anchor)
    (third := tmp_path / "third").mkdir()
    for name in ("ledger", "ledger.key"):
        shutil.copy(first / name, third / name)  # holds the anchor's event
    shutil.copy(second / "ledger.head", third / "ledger.head")
    assert recover(third / "ledger", anchor=anchor).spent >= 400
    shutil.copy(second / "ledger", third / "ledger")
    head = (first / "ledger.head").read_bytes()
    (third / "ledger.head").write_bytes(head)
    assert recover(third / "ledger", anchor=anchor).spent >= 700


def test_an_upgrade_that_is_killed_while_it_writes_the_head_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was there, with nothing in it yet: it was taken for the head, and the whole budget for lost."""
    path = tmp_path / "ledger"
    shutil.copy(FILES / "version-0.1.bin", path)
    path.with_name("ledger.key").write_bytes(bytes(range(32)))

    class Killed(BaseException):
        pass

    def kill(descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", kill)
        with pytest.raises(Killed):
            SqliteLedger(path, TERMS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        with opened(path) as ledger:
            assert ledger.spent() == 375
    inspect(path)


def test_an_anchor_stays_where_it_was_named_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file of that name in another folder was written instead, and the anchor stayed behind in silence."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "anchor").write_bytes(b"")
    monkeypatch.chdir(home)
    with opened(Path("ledger"), anchor=Path("anchor")) as ledger:
        before = (home / "anchor").read_bytes()
        monkeypatch.chdir(elsewhere)
        ask(ledger, "a")
        assert (home / "anchor").read_bytes() != before
        assert (elsewhere / "anchor").read_bytes() == b""


def test_a_head_of_another_copy_put_under_a_running_ledger_stops_it(tmp_path: Path) -> None:
    """Both copies had an event of that number; which of the two records counted was decided by their digests."""
    for trial in range(6):
        (folder := tmp_path / str(trial)).mkdir()
        first, second = folder / "first", folder / "second"
        first.mkdir()
        with opened(first / "ledger"):
            pass
        shutil.copytree(first, second)
        with opened(first / "ledger") as ledger:
            ask(ledger, "a", units=300)
        with opened(second / "ledger") as ledger:
            ticket = ledger.reserve(request("b"))
            assert isinstance(ticket, Ticket)
            shutil.copy(first / "ledger.head", second / "ledger.head")
            with pytest.raises(LedgerCorrupted, match="two copies that went on separately"):
                ledger.commit(ticket, b"42")
        with pytest.raises(LedgerCorrupted, match="two copies that went on separately"):
            inspect(second / "ledger")
