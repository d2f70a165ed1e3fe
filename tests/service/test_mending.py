"""A table whose ledger has stopped is opened again while the service runs, as by a restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa
from rooms import House, house, settings

from maquette.errors import LedgerError
from maquette.service import Service, state as kept
from maquette.service.served import ServedTable
from maquette.service.state import State
from maquette.session.record import Record


def broken(*_: Any, **__: Any) -> Any:
    raise OSError("the disk is full")


def stop(made: House) -> ServedTable:
    """Let a write of the ledger fail while somebody asks; the table that has stopped."""
    table = made.service.tables["people"]
    writer: Any = table.curator.ledger
    with mock.patch.object(writer._writer, "_transaction", broken):
        refused = made.ask("ada", "age >= 50 AND b", Idempotency_Key="l")
    assert (refused.status_code, refused.json()["code"]) == (503, "ledger")
    assert table.stopped
    return table


def _opened_again_with_what_was_spent(folder: Path) -> None:
    with house(settings(folder)) as made:
        first = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json()
        spent = made.service.tables["people"].curator.ledger.spent()
        table = stop(made)
        assert not made.service.ready
        assert made.ask("ada", "smoker", Idempotency_Key="m").status_code == 503

        assert made.service.mend()
        assert made.service.ready
        assert made.service.tables["people"] is not table
        assert made.service.tables["people"].curator.ledger.spent() == spent
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json() == first
        assert made.ask("ada", "age >= 50 AND b", Idempotency_Key="l").status_code == 200
        again = made.service.tables["people"]
        assert made.service.mend()
        assert made.service.tables["people"] is again, "nothing had stopped"


def _reserved_and_then_lost(folder: Path) -> None:
    """What was charged when the ledger stopped stays charged, and is never evaluated again."""
    with house(settings(folder)) as made:
        table = made.service.tables["people"]
        before = table.curator.ledger.spent()
        with mock.patch.object(type(table.curator.ledger), "commit", broken):
            assert made.ask("ada", "age >= 50 AND b", Idempotency_Key="l").status_code >= 500
        charged = table.curator.ledger.spent()
        assert charged > before
        stop_writing: Any = table.curator.ledger
        with mock.patch.object(stop_writing._writer, "_transaction", broken):
            made.ask("ada", "smoker AND a AND b")
        assert made.service.mend()
        lost = made.ask("ada", "age >= 50 AND b", Idempotency_Key="l")
        assert (lost.status_code, lost.json().get("code")) == (410, "ledger.request-lost")
        assert made.service.tables["people"].curator.ledger.spent() == charged


def _tried_again_until_it_can_be_opened(folder: Path) -> None:
    with house(settings(folder)) as made:
        stop(made)
        for step in ("_open", "_set_limits"):
            with mock.patch.object(made.service, step, broken):
                assert not made.service.mend()
            assert made.ask("ada", "smoker").status_code == 503
            assert made.ask("custodian", "smoker", table="other").status_code == 200, "the others go on"
        assert made.service.mend()
        assert made.ask("ada", "smoker").status_code == 200


def _nothing_is_opened_by_a_service_that_stops(folder: Path) -> None:
    """Its ledger is free for the next process."""
    with house(settings(folder)) as made:
        stop(made)
        made.service.stopping = True
        made.service.mend()
        config, opened = made.service.config, made.service._open

        def late(table: Any) -> ServedTable:
            found = opened(table)
            made.service.close()  # the service ends while a thread still opens the ledger
            return found

        made.service.stopping = False
        with mock.patch.object(made.service, "_open", late):
            made.service.mend()
        with Service(config) as after:
            assert after.ready


def _mended(wrong: Callable[[Service, ServedTable], bool]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(Service, "_mended", wrong)


def _with_a_second_ledger(self: Service, table: ServedTable) -> bool:
    table.close()
    place = self.config.directory / "second.ledger"
    self._let_in(self._open(replace(table.config, ledger=str(place))))
    return True


def _beside_the_one_that_stopped(self: Service, table: ServedTable) -> bool:
    with suppress(Exception):
        self._let_in(self._open(table.config))
    return self._tables[table.name] is not table


def _without_a_look_at_the_failure(self: Service, table: ServedTable) -> bool:
    table.close()
    self._let_in(self._open(table.config))
    return True


def _left_open_where_it_is_not_let_in(self: Service, table: ServedTable) -> bool:
    table.close()
    with suppress(Exception):
        served = self._open(table.config)
        OPEN.append(served)
        self._let_in(served)
        return True
    return False


def _whatever_has_stopped() -> AbstractContextManager[Any]:
    return mock.patch.object(ServedTable, "stopped", property(lambda _: True))


def _evaluated_again() -> AbstractContextManager[Any]:
    """What was reserved before the ledger was opened is taken for nothing, so its key pays and is evaluated anew."""

    def settle(self: Record, name: str, analyst: str, asked: str) -> bool:
        known = self.requests.get(name)
        return known is not None and self.curator.ledger.lookup(known[0]) is not None

    return mock.patch.object(Record, "settle_request", settle)


OPEN: list[ServedTable] = []
MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[Path], None]]] = {
    "a second ledger": (_mended(_with_a_second_ledger), _opened_again_with_what_was_spent),
    "beside the one that stopped": (_mended(_beside_the_one_that_stopped), _opened_again_with_what_was_spent),
    "whatever has stopped or not": (_whatever_has_stopped, _opened_again_with_what_was_spent),
    "evaluated again": (_evaluated_again, _reserved_and_then_lost),
    "ends at the first failure": (_mended(_without_a_look_at_the_failure), _tried_again_until_it_can_be_opened),
    "left open where it is not let in": (
        _mended(_left_open_where_it_is_not_let_in),
        _tried_again_until_it_can_be_opened,
    ),
    "left open at the end": (_mended(_left_open_where_it_is_not_let_in), _nothing_is_opened_by_a_service_that_stops),
}


@pytest.mark.parametrize("check", sorted({check.__name__: check for _, check in MUTANTS.values()}))
def test_a_stopped_ledger_is(tmp_path: Path, check: str) -> None:
    next(one for _, one in MUTANTS.values() if one.__name__ == check)(tmp_path)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("name", MUTANTS)
def test_mending_mutant_is_killed(tmp_path: Path, name: str) -> None:
    wrong, check = MUTANTS[name]
    try:
        with wrong(), pytest.raises((AssertionError, OSError, LedgerError)):
            check(tmp_path)
    finally:
        while OPEN:
            OPEN.pop().close()


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
