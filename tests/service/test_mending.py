"""A table whose ledger has stopped is opened again while the service runs, as by a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from rooms import house, settings

from maquette.service import state as kept
from maquette.service.state import State


def broken(*_: Any, **__: Any) -> Any:
    raise OSError("the disk is full")


def test_a_stopped_ledger_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with house(settings(tmp_path)) as made:
        first = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json()
        table = made.service.tables["people"]
        writer: Any = table.curator.ledger
        monkeypatch.setattr(writer._writer, "_transaction", broken)
        refused = made.ask("ada", "age >= 50 AND b", Idempotency_Key="l")
        assert (refused.status_code, refused.json()["code"]) == (503, "ledger")
        assert table.stopped
        assert not made.service.ready
        assert made.ask("ada", "smoker", Idempotency_Key="m").status_code == 503

        assert made.service.mend()
        assert made.service.ready
        assert made.service.tables["people"] is not table
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json() == first
        assert made.ask("ada", "age >= 50 AND b", Idempotency_Key="l").status_code == 200
        again = made.service.tables["people"]
        assert made.service.mend()
        assert made.service.tables["people"] is again, "nothing had stopped"


def test_what_cannot_be_opened_stays_closed_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with house(settings(tmp_path)) as made:
        made.service.tables["people"].close()
        with monkeypatch.context() as patched:
            patched.setattr(made.service, "_open", broken)
            assert not made.service.mend()
        assert made.ask("ada", "smoker").status_code == 503
        assert made.ask("custodian", "smoker", table="other").status_code == 200, "the others go on"
        assert made.service.mend()
        assert made.ask("ada", "smoker").status_code == 200


def test_lines_of_the_log_wait_for_their_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.service.state.RETRY_SECONDS", 0.01)
    state = State(f"sqlite:///{tmp_path / 'state.db'}")
    begin, left = state.begin, [3]

    def away() -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise sa.exc.OperationalError("INSERT", {}, Exception("away"))
        return begin()

    monkeypatch.setattr(state, "begin", away)
    line = {"at": 1.0, "who": "-", "role": None, "what": "w", "table": None, "outcome": "done", "facts": "{}"}
    state.later(kept.log, line)
    state.flush()
    monkeypatch.undo()
    assert [row["what"] for row in state.rows(sa.select(kept.log))] == ["w"]
    state.close()


def test_a_state_that_is_away_is_no_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise sa.exc.OperationalError("SELECT 1", {}, Exception("secret text"))

    with house(settings(tmp_path)) as made:
        monkeypatch.setattr(made.service.state, "rows", away)
        got = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        assert (got.status_code, got.json()["code"]) == (503, "service.unavailable")
        assert "secret" not in got.text
