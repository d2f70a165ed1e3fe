"""The state of a holdout: restarts, kill -9, torn and changed files, other rows, two owners, forks, full disks."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked, LedgerMismatch, QueryError
from maquette.holdout import Holdout, MedianGuesser, WeightsGuesser

ROWS = np.random.default_rng(4).random((4_000, 10)) < 0.3
KILLED = Path(__file__).with_name("kill_holdout.py")


def opened(path: Path, **settings: Any) -> Holdout:
    return Holdout(ROWS[:2_000], train=ROWS[2_000:], state=path, **settings)


def column(i: int) -> Any:
    return lambda rows: rows[:, i]


def test_a_restart_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = opened(tmp_path / "whole")
    parts = []
    for i in range(10):
        guess = 0.9 if i % 3 == 0 else None
        with opened(tmp_path / "parts") as holdout:
            parts.append(holdout.ask(column(i), guess=guess))
        whole.ask(column(i), guess=guess)
    assert tuple(parts) == whole.answers
    with opened(tmp_path / "parts") as holdout:
        assert holdout.answers == whole.answers


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", ["median", "weights", "weights-bounded"])
def test_guessers_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    schema = mq.Schema([mq.Integer("x", 0, 2)])
    data = {"x": np.repeat([0, 1, 2], [300, 50, 10])}

    def again(path: Path) -> Holdout:
        guesser: Any = WeightsGuesser(schema, tolerance=0.2 if kind == "weights-bounded" else None)
        if kind == "median":
            guesser = MedianGuesser({"x": np.arange(3)}, rows=12, tolerance=0.2)
        return Holdout(data, schema=schema, guesser=guesser, queries=40, tolerance=0.2, failures=9, state=path)

    texts = ["x = 0", "x = 2", "x >= 1", "x = 1", "x <= 1"]
    whole = again(tmp_path / "whole")
    expected = [whole.ask(text) for text in texts]
    parts = []
    for text in texts:
        with again(tmp_path / "parts") as holdout:
            parts.append(holdout.ask(text))
    assert parts == expected
    assert {"holdout", "hypothesis"} == {answer.source for answer in parts}
    assert whole.ask("2 = x") == expected[1]  # the same condition, however it is written
    assert len(whole.answers) == len(texts)


def test_a_name_is_answered_once(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as holdout:
        first = holdout.ask(column(0), guess=0.9, name="first")
        assert holdout.ask(column(0), guess=0.1, name="first") == first
        with pytest.raises(QueryError, match="another statistic"):
            holdout.ask(column(1), name="first")
        assert holdout.answers == (first,)
    with opened(tmp_path / "s") as holdout:
        assert holdout.ask(column(0), name="first") == first
        assert len(holdout.answers) == 1


def test_a_name_is_looked_up_without_the_holdout() -> None:
    """Whether two statistics agree on every row of the holdout is news about it, so nothing may depend on that."""
    holdout = Holdout(np.array([0, 1, 2, 3]))
    nothing = holdout.ask(lambda rows: rows < 0)
    probes = [holdout.ask(lambda rows, i=i: rows == i + 2, guess=0.0) for i in range(4)]  # type: ignore[misc]
    # Points 2 and 3 are in the sample, 4 and 5 are not: their statistics agree with `nothing` there.
    assert [answer.queries for answer in probes] == [2, 3, 4, 5]
    assert nothing.queries == 1
    named = holdout.ask(lambda rows: rows < 0, name="a")
    assert holdout.ask(lambda rows: rows == 5, name="a") == holdout.ask(lambda rows: rows == 1, name="a") == named


def test_an_unnamed_question_is_new_but_its_answer_is_remembered_as_a_guess() -> None:
    holdout = Holdout(ROWS[:2_000], train=ROWS[2_000:])
    first = holdout.ask(column(0), guess=0.9)
    second = holdout.ask(column(0))
    assert (first.source, second.source) == ("holdout", "guess")
    assert (second.value, second.failures, second.queries) == (first.value, 1, 2)


@pytest.mark.thorough
def test_kill_9_never_changes_or_forgets_an_answer(tmp_path: Path) -> None:
    state, log = tmp_path / "s", tmp_path / "log"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    for life in range(4):
        told = log.stat().st_size if log.exists() else 0
        child = subprocess.Popen([sys.executable, str(KILLED), str(state), str(log), str(life)], env=environment)
        deadline = time.monotonic() + 60
        while (not log.exists() or log.stat().st_size < told + 2_000) and time.monotonic() < deadline:
            time.sleep(0.003)
        time.sleep(0.001 * life)
        child.send_signal(signal.SIGKILL)
        child.wait()
    by_name: dict[str, Any] = {}
    asked = 0
    for line in log.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "name" not in entry:
            assert entry["asked"] >= asked  # a life begins with everything that was told
            continue
        assert by_name.setdefault(entry["name"], entry) == entry
        asked = max(asked, entry["queries"])
    assert len(by_name) > 20
    rows = np.random.default_rng(1).random((2_000, 30)) < 0.4
    with Holdout(rows[:1_000], train=rows[1_000:], state=state) as holdout:
        assert len(holdout.answers) >= asked
        assert [answer.queries for answer in holdout.answers] == list(range(1, len(holdout.answers) + 1))


def _asked(path: Path) -> list[Any]:
    with opened(path) as holdout:
        return [holdout.ask(column(i), guess=0.8, name=str(i)) for i in range(4)]


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "s"
    answers = _asked(path)
    content = path.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (start, start + 3, start + 40, len(content) - 1):
        path.write_bytes(content[:cut])
        with opened(path) as holdout:
            assert list(holdout.answers) == answers[:3]
            assert holdout.ask(column(3), guess=0.8, name="3") == answers[3]
        assert path.read_bytes() == content
    header = content.find(b"\n")
    for cut in (0, 3, header - 5):  # the very first line was torn: nothing was ever asked
        path.write_bytes(content[:cut])
        with opened(path) as holdout:
            assert holdout.answers == ()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    _asked(path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    dice = np.random.default_rng(0)
    flipped = []
    for _ in range(60):
        at = int(dice.integers(0, len(content) - 1))
        flipped.append(content[:at] + bytes([content[at] ^ (1 << int(dice.integers(0, 7)))]) + content[at + 1 :])
    for broken in [b"".join(lines[:2] + lines[3:]), b"".join(lines[1:]), b"hello\n", *flipped]:
        path.write_bytes(broken)
        with pytest.raises(LedgerCorrupted):
            opened(path)
        assert path.read_bytes() == broken


def test_other_rows_are_refused_and_the_state_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    answers = _asked(path)
    before = path.read_bytes()
    changed = ROWS[:2_000].copy()
    changed[17, 3] ^= True
    with pytest.raises(LedgerMismatch, match="another sample") as refusal:
        Holdout(changed, train=ROWS[2_000:], state=path)
    assert "17" not in str(refusal.value).replace(str(path), "")
    with pytest.raises(LedgerMismatch, match="another sample"):
        Holdout(ROWS[:1_999], train=ROWS[2_000:], state=path)
    with pytest.raises(LedgerMismatch, match="train"):
        Holdout(ROWS[:2_000], train=ROWS[2_001:], state=path)
    with pytest.raises(LedgerMismatch, match="confidence"):
        opened(path, confidence=0.9)
    with pytest.raises(LedgerMismatch, match="method"):
        opened(path, method="splitting", queries=4)
    assert path.read_bytes() == before
    with opened(path) as holdout:
        assert list(holdout.answers) == answers


def test_frames_are_recognised_after_a_restart(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = {"x": np.arange(60) % 7, "name": np.array(["ab", "c", "d"] * 20)}
    for kind, make in {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}.items():
        path = tmp_path / kind
        with Holdout(make(columns), state=path) as holdout:
            answer = holdout.ask(lambda rows: np.asarray(rows["x"]) < 3, name="a")
        with Holdout(make(columns), state=path) as holdout:
            assert holdout.ask(lambda rows: np.asarray(rows["x"]) < 3, name="a") == answer
        with pytest.raises(LedgerMismatch):
            Holdout(make({**columns, "x": columns["x"][::-1]}), state=path)


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as holdout:
        with pytest.raises(LedgerLocked, match=r"close\(\)"):
            opened(tmp_path / "s")
        script = f"""
import numpy as np
from maquette.errors import LedgerLocked
from maquette.holdout import Holdout
try:
    Holdout(np.arange(3), state={str(tmp_path / "s")!r})
except LedgerLocked:
    print("locked")
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "locked"
        holdout.ask(column(0))
    with pytest.raises(LedgerError, match="closed"):
        holdout.ask(column(0))
    with opened(tmp_path / "s") as holdout:
        assert len(holdout.answers) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_a_fork_may_not_ask(durable: bool, tmp_path: Path) -> None:
    holdout = opened(tmp_path / "s") if durable else Holdout(ROWS)
    holdout.ask(column(0))
    context = multiprocessing.get_context("fork")
    queue: Any = context.Queue()

    def child() -> None:
        try:
            holdout.ask(column(1))
            queue.put("asked")
        except LedgerError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    assert "fork" in queue.get(timeout=60)
    process.join()
    holdout.ask(column(1))


def test_copies_are_refused() -> None:
    holdout = Holdout(ROWS)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="n_jobs=1"):
            copied(holdout)


def test_nothing_is_told_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    holdout = opened(path)
    holdout.ask(column(0), name="0")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerError, match="nothing was answered"):
            holdout.ask(column(1), name="1")
    with pytest.raises(LedgerError, match="Open the holdout again"):
        holdout.ask(column(1), name="1")
    holdout.close()
    with opened(path) as again:
        assert len(again.answers) == 1
        again.ask(column(1), name="1")


def test_the_answer_is_synced_before_it_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    holdout = opened(path)
    synced: list[bytes] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (real(file), synced.append(path.read_bytes()))[0])
    answer = holdout.ask(column(2), guess=0.77)
    assert repr(answer.value).encode() in synced[-1]


def test_a_directory_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be opened"):
        opened(tmp_path)
    with pytest.raises(LedgerError, match="cannot be opened"):
        opened(tmp_path / "none" / "s")
    (tmp_path / "notes.txt").write_text("my notes")
    with pytest.raises(LedgerCorrupted, match="not the state of a holdout"):
        opened(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "my notes"
