"""A ledger of version 0.1 has no head file: it gets one when it is next opened, and keeps what it recorded.

The files were written by version 0.1, under the key 00 01 .. 1f and the terms of `ledger_checks`: closed, after a kill
with the log beside the database, and young enough that the database alone, without its log, holds the first event only.
The last one was written by a curator of version 0.1, with its key.
"""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path

import pytest
from ledger_checks import TERMS, ask, opened, request, restore, snapshot

import maquette as mq
from maquette.errors import LedgerCorrupted, PrivacyWarning, RequestLost
from maquette.privacy.ledger import Recorded, SqliteLedger, inspect, recover
from maquette.privacy.ledger.head import Head

FILES = Path(__file__).with_name("files")
KEY = bytes(range(32))
NOTICE = r"version 0\.1 now keeps a \.head file beside it.*back it up with the ledger"


def old(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "ledger"
    path.write_bytes((FILES / f"{name}.bin").read_bytes())
    path.with_name("ledger.key").write_bytes(KEY)
    log = FILES / f"{name}-wal.bin"
    if log.exists():
        path.with_name("ledger-wal").write_bytes(log.read_bytes())
    return path


def noticed(path: Path) -> SqliteLedger:
    with pytest.warns(PrivacyWarning, match=NOTICE):
        return SqliteLedger(path, TERMS)


@pytest.mark.parametrize("name", ["version-0.1", "version-0.1-after-a-kill"])
def test_it_gets_its_head_once_with_a_notice_and_keeps_its_answers(tmp_path: Path, name: str) -> None:
    path = old(tmp_path, name)
    assert inspect(path).spent == 375, "it can be read as it is"
    assert not path.with_name("ledger.head").exists()
    with closing(noticed(path)) as ledger:
        assert ledger.spent() == 375
        assert ledger.spent("bob") == 50
        for id, analyst, answer in (  # noqa: A001
            ("a", "ann", b"first answer"),
            ("b", "bob", b"second answer"),
            ("c", "ann", b"third answer"),
        ):
            recorded = ledger.reserve(request(id, analyst=analyst))
            assert isinstance(recorded, Recorded)
            assert recorded.answer == answer
        with pytest.raises(RequestLost):
            ledger.reserve(request("interrupted"))
        ask(ledger, "d", units=25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with opened(path) as ledger:
            assert ledger.spent() == 400
            ledger.verify()


def test_from_then_on_a_lost_log_and_a_lost_head_are_refused(tmp_path: Path) -> None:
    path = old(tmp_path, "version-0.1-after-a-kill")
    with closing(noticed(path)) as ledger:
        ask(ledger, "d", units=25)
        files = snapshot(path)
    log, head = path.with_name("ledger-wal"), path.with_name("ledger.head")
    restore({file: data for file, data in files.items() if file != log})
    with pytest.raises(LedgerCorrupted, match=r"ledger\.head remembers"):
        SqliteLedger(path, TERMS)
    restore({file: data for file, data in files.items() if file not in (log, head)})
    with pytest.raises(LedgerCorrupted, match=r"ledger\.head is missing"):
        SqliteLedger(path, TERMS)
    path.write_bytes((FILES / "version-0.1.bin").read_bytes())
    head.write_bytes(files[head])
    with pytest.raises(LedgerCorrupted, match=r"ledger\.head remembers"):
        SqliteLedger(path, TERMS)


@pytest.mark.parametrize("step", ["replace", "advance"])
def test_bringing_it_up_to_date_can_stop_anywhere_and_be_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = old(tmp_path, "version-0.1")
    original = getattr(Head, step)

    def then_fail(*arguments: object) -> None:
        original(*arguments)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Head, step, then_fail)
        with pytest.raises(mq.MaquetteError, match="Input/output error"):
            SqliteLedger(path, TERMS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with opened(path) as ledger:
            assert ledger.spent() == 375
            ledger.verify()
    with opened(path) as ledger:
        assert ledger.spent() == 375


def test_one_that_has_only_its_first_event_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = old(tmp_path, "version-0.1-without-its-log")
    with pytest.raises(LedgerCorrupted, match=r"no event but its creation.*verify --recover"):
        SqliteLedger(path, TERMS)
    assert not path.with_name("ledger.head").exists()
    recovery = recover(path)
    assert (recovery.charged, recovery.spent) == (1_000, 1_000)
    with opened(path) as ledger:
        assert ledger.spent() == 1_000


def test_recovering_one_that_lacks_nothing_is_refused(tmp_path: Path) -> None:
    path = old(tmp_path, "version-0.1")
    with pytest.raises(LedgerCorrupted, match="Open it as usual"):
        recover(path)
    assert inspect(path).spent == 375


def test_a_curator_finds_the_answer_that_version_01_recorded(tmp_path: Path) -> None:
    schema = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker")])
    rows = {"age": [n * 37 % 100 for n in range(1000)], "smoker": [n % 3 == 0 for n in range(1000)]}
    path = tmp_path / "ledger"
    path.write_bytes((FILES / "version-0.1-curator.bin").read_bytes())
    path.with_name("ledger.key").write_bytes((FILES / "version-0.1-curator-key.bin").read_bytes())
    spent = inspect(path).spent
    with pytest.warns(PrivacyWarning, match=NOTICE):
        curator = mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=1.0, delta=1e-9), ledger=path)
    with curator:
        answer = mq.answer(curator, "SELECT count(*) FROM t WHERE age >= 65", epsilon=0.1)
        assert answer.count is not None
        assert round(answer.count) == 498
        assert curator.ledger.spent() == spent
