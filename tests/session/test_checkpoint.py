"""Checkpoints: a session opens with or without one to the same answers, and trusts nothing that it did not write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from maquette.session import checkpoint, record as records
from maquette.session.record import Record
from maquette.session.shelf import ShelvedOwn, Stack

ROWS = 3_000
SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Boolean("smoker"),
        mq.Category("region", list("abcd")),
        mq.Integer("income", 0, 999, width=100),
    ]
)
TEXTS = [
    "age >= 50 AND smoker",
    "SELECT count(*) FROM t GROUP BY age",
    "SELECT count(*) FROM t GROUP BY region, smoker",
    "SELECT avg(income) FROM t GROUP BY smoker",
    "SELECT sum(income) FROM t WHERE region = 'b'",
    "region = 'a' OR smoker",
    "age < 30 AND region IN ('a', 'b') AND smoker",
    "SELECT count(*) FROM t WHERE income >= 500 AND age < 20",
    "SELECT avg(age) FROM t",
    *(f"SELECT count(*) FROM t WHERE age >= {age} AND income < {10 * age}" for age in range(10, 100, 10)),
]
LATER = [
    *(f"age < {age} AND region = 'c'" for age in range(10, 100, 10)),
    "SELECT count(*) FROM t GROUP BY income",
    *(f"age >= {age} OR income < {10 * age}" for age in range(20, 100, 10)),
]


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(7)
    facts = {"age": rng.integers(0, 100, ROWS), "smoker": rng.random(ROWS) < 0.3}
    facts |= {"region": rng.choice(list("abcd"), ROWS), "income": rng.integers(0, 1000, ROWS)}
    return mq.open_table(facts, SCHEMA)


@contextmanager
def opened(table: Any, ledger: Path, every: int = 4, **settings: Any) -> Iterator[mq.Session]:
    """A session that writes a checkpoint after a few charges."""
    budget = settings.pop("budget", mq.Budget(rho=1.0, delta=1e-9))
    given: dict[str, Any] = {"alpha": 0.05, "guard": "never", "warm_start": "none"} | settings
    with mock.patch.object(records, "CHECKPOINT", every), mq.Curator(table, budget, ledger=ledger) as curator:
        yield mq.online(curator, **given)


@contextmanager
def replayed() -> Iterator[None]:
    """No checkpoint is read or written."""
    with (
        mock.patch.object(checkpoint, "restore", return_value=0),
        mock.patch.object(checkpoint, "write", return_value=False),
    ):
        yield


def numbers(answer: Any) -> list[Any]:
    return [(one.value, one.low, one.high, one.guarantee) for one in answer.numbers]


def path(session: mq.Session) -> Path:
    found = checkpoint.path_of(session._record)
    assert found is not None
    return found


def shelved(session: mq.Session) -> bool:
    """Whether something comes from a checkpoint."""
    return any(isinstance(states, Stack) for _, states in session._record.transcript.every_state())


def facts_of(record: Record) -> dict[str, Any]:
    """All that a record knows, piece by piece."""
    states = {
        part: [
            (one.moment, one.weight, one.pieces, one.sums.tobytes(), np.asarray(one.spreads).tobytes()) for one in kept
        ]
        for part, kept in record.transcript.every_state()
    }
    own = {key: [checkpoint._told(one) for one in record.own[key]] for key in record.own}
    names = ("requests", "wholes", "directs", "guards", "cells", "begun", "before", "following")
    digest = record.transcript.moment, record.transcript.digest
    return {"states": states, "own": own, "digest": digest} | {name: getattr(record, name) for name in names}


@pytest.fixture(scope="module", params=[{}, {"simultaneous": False, "rows": ROWS}], ids=["together", "each"])
def made(table: Any, request: Any, tmp_path_factory: Any) -> tuple[Path, dict[str, Any], dict[str, Any], Any]:
    """A ledger with a checkpoint and charges after it, its settings, and what was told."""
    ledger = tmp_path_factory.mktemp("made") / "ledger"
    with opened(table, ledger, **request.param) as session:
        told = {text: numbers(session.ask(text, request=f"r{i}")) for i, text in enumerate(TEXTS)}
        assert path(session).exists()
        assert shelved(session)
        assert {text: numbers(session.ask(text)) for text in TEXTS} == told
    with replayed(), opened(table, ledger, **request.param) as session:
        known = facts_of(session._record)
        assert not shelved(session)
    return ledger, request.param, told, known


@pytest.fixture
def copied(made: Any, tmp_path: Path) -> tuple[Path, dict[str, Any], dict[str, Any], Any]:
    """The same in a directory of its own."""
    shutil.copytree(made[0].parent, tmp_path / "copy")
    return tmp_path / "copy" / "ledger", *made[1:]


def agrees(table: Any, copied: Any, *, used: bool) -> None:
    """The session opens to the same knowledge and answers, with its checkpoint or without."""
    ledger, settings, told, known = copied
    with opened(table, ledger, every=10**6, **settings) as session:
        assert shelved(session) is used
        found = facts_of(session._record)
        assert found == known
        assert {text: numbers(session.ask(text)) for text in reversed(TEXTS)} == told
        spent = session.spent.units
        assert numbers(session.ask(TEXTS[0], request="r0")) == told[TEXTS[0]]
        assert session.spent.units == spent


@pytest.mark.thorough(fast=1)
def test_with_and_without_a_checkpoint_all_digits_are_the_same(table: Any, copied: Any) -> None:
    agrees(table, copied, used=True)
    ledger, settings, _, _ = copied
    spent, states = [], []
    for way in (replayed, nullcontext):
        with way(), opened(table, ledger, every=10**6, **settings) as session:
            plans = [session.explain(text).cost.units for text in LATER]
            spent.append(plans)
            states.append([(one.standing, one.source) for text in TEXTS for one in session.ask(text).numbers])
    assert spent[0] == spent[1]
    assert states[0] == states[1]


def test_a_missing_checkpoint_is_rebuilt(table: Any, copied: Any) -> None:
    ledger, settings, told, _ = copied
    (file,) = ledger.parent.glob("*.checkpoint")
    file.unlink()
    agrees(table, copied, used=False)
    with opened(table, ledger, **settings) as session:
        assert path(session).exists()
        assert shelved(session)
        assert {text: numbers(session.ask(text)) for text in TEXTS} == told


@pytest.mark.thorough(fast=1)
def test_no_changed_byte_is_believed(table: Any, copied: Any) -> None:
    ledger, settings, _, known = copied
    (file,) = ledger.parent.glob("*.checkpoint")
    whole = file.read_bytes()
    rng = np.random.default_rng(3)
    with replayed(), opened(table, ledger, **settings) as session:
        places = [int(place) for place in rng.integers(0, len(whole), 12)] + [0, len(whole) - 1, len(whole) - 50]
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(changed)
            fresh = session._record._replayed()
            seq = _restore(fresh, session._record)
            if seq:  # the index is untouched: each piece is compared when it is read
                fresh._follow(seq)
                assert facts_of(fresh) == known
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with replayed(), opened(table, ledger, **settings) as session:
            assert _restore(session._record._replayed(), session._record) == 0
    file.write_bytes(whole[: len(whole) // 2] + whole[: len(whole) // 2])
    agrees(table, copied, used=False)


RESTORE = checkpoint.restore


def _restore(fresh: Record, record: Record) -> int:
    """What a new session does first: the event until which it believes the checkpoint."""
    fresh._begin_anew()
    seq = RESTORE(fresh, record._replayed)
    fresh._digests[fresh.transcript.moment] = fresh.transcript.digest
    return seq


def test_a_damaged_piece_is_read_from_the_ledger(table: Any, copied: Any) -> None:
    ledger, settings, told, known = copied
    (file,) = ledger.parent.glob("*.checkpoint")
    whole = bytearray(file.read_bytes())
    whole[len(checkpoint.MAGIC) : len(checkpoint.MAGIC) + 400] = bytes(400)
    file.write_bytes(whole)
    with opened(table, ledger, every=10**6, **settings) as session:
        assert shelved(session)
        assert {text: numbers(session.ask(text)) for text in TEXTS} == told
        assert facts_of(session._record) == known


def test_a_checkpoint_of_another_version_name_or_key_is_ignored(table: Any, copied: Any, tmp_path: Path) -> None:
    ledger, settings, _, _ = copied
    with mock.patch.object(checkpoint, "__version__", "0.0"):
        agrees(table, copied, used=False)
    with mock.patch.object(checkpoint, "FORMAT", checkpoint.FORMAT + 1):
        agrees(table, copied, used=False)
    (file,) = ledger.parent.glob("*.checkpoint")
    with opened(table, ledger, name="another", **settings) as session:
        shutil.copy(file, path(session))
        assert _restore(session._record._replayed(), session._record) == 0
    with opened(table, tmp_path / "other", **settings) as session:
        shutil.copy(file, path(session))
        assert _restore(session._record._replayed(), session._record) == 0


@pytest.mark.thorough(fast=1)
def test_an_older_checkpoint_is_followed_by_what_came_since(table: Any, copied: Any) -> None:
    ledger, settings, _, _ = copied
    (file,) = ledger.parent.glob("*.checkpoint")
    old = file.read_bytes()
    with opened(table, ledger, every=2, **settings) as session:
        told = {text: numbers(session.ask(text)) for text in LATER}
        assert file.read_bytes() != old
    file.write_bytes(old)
    with opened(table, ledger, every=10**6, **settings) as session:
        assert shelved(session)
        assert {text: numbers(session.ask(text)) for text in LATER} == told
        found = facts_of(session._record)
    with replayed(), opened(table, ledger, **settings) as session:
        assert facts_of(session._record) == found


@pytest.mark.thorough(fast=1)
def test_a_newer_checkpoint_than_the_ledger_is_ignored(table: Any, made: Any, tmp_path: Path) -> None:
    ledger, settings, _, _ = made
    older, newer = tmp_path / "older", tmp_path / "newer"
    shutil.copytree(ledger.parent, older)
    shutil.copytree(ledger.parent, newer)
    with opened(table, newer / "ledger", every=1, **settings) as session:
        for text in LATER:
            session.ask(text)
    (file,) = newer.glob("*.checkpoint")
    shutil.copy(file, older / file.name)
    agrees(table, (older / "ledger", *made[1:]), used=False)


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_kill_around_a_checkpoint_loses_nothing(table: Any, copied: Any, when: str) -> None:
    """A crash before the rename leaves the checkpoint before it; after it, the new one; the ledger decides in both."""
    ledger, settings, _, _ = copied

    class Killed(BaseException):
        pass

    replace, told = Path.replace, dict[str, Any]()

    def killed(self: Path, target: Path) -> Path:
        if when == "after":
            replace(self, target)
        if when == "while":
            self.write_bytes(self.read_bytes()[:100])
        raise Killed

    def asked() -> None:
        with opened(table, ledger, every=2, **settings) as session:
            for text in LATER[:2]:
                told[text] = numbers(session.ask(text))
            with mock.patch.object(Path, "replace", killed):
                for text in LATER[2:]:
                    told[text] = numbers(session.ask(text))

    with pytest.raises(Killed):
        asked()
    with opened(table, ledger, every=10**6, **settings) as session:
        assert shelved(session)
        assert {text: numbers(session.ask(text)) for text in told} == told
        found = facts_of(session._record)
    with replayed(), opened(table, ledger, **settings) as session:
        assert facts_of(session._record) == found


def test_a_full_disk_costs_the_checkpoint_only(table: Any, tmp_path: Path) -> None:
    with opened(table, tmp_path / "ledger", every=2) as session:
        with mock.patch.object(Path, "replace", side_effect=OSError(28, "full")):
            assert checkpoint.write(session._record) is False
        assert session.ask(TEXTS[0]).guarantee is not None


def test_what_was_read_is_bounded(table: Any, copied: Any) -> None:
    ledger, settings, _, known = copied
    with opened(table, ledger, every=10**6, **settings) as session:
        stacks = [states for _, states in session._record.transcript.every_state() if isinstance(states, Stack)]
        shelf = stacks[0].shelf
        with mock.patch.object(shelf._read, "_most", 3):
            assert facts_of(session._record) == known
            assert len(shelf._read) <= 3
        below = session._record.own
        assert isinstance(below._below, ShelvedOwn)  # type: ignore[union-attr]
