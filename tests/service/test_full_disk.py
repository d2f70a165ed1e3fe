"""What a full disk, or a database of the state that is away, does to each part of the service."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from rooms import House, house, settings

from maquette.service import running, state as kept
from maquette.service.pgwire.sqlstate import problem_of
from maquette.service.state import State

RELEASE = {"name": "first", "ways": 1, "epsilon": 0.5, "method": "everything"}


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def away(*_: Any, **__: Any) -> Any:
    raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))


def over(made: House, job: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while not (found := made.service.jobs.get(job)).over or found.events[-1]["event"] != found.state:
        assert time.monotonic() < end
        time.sleep(0.01)
    return found.as_dict()


def test_a_state_that_cannot_be_written_is_told_and_its_keys_pay_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "RETRY_SECONDS", 0.01)
    with house(settings(tmp_path)) as made:
        table, engine = made.service.tables["people"], made.service.state._engine
        before = table.curator.ledger.spent()
        assert made.call(None, "GET", "/v1/ready").status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr(engine, "begin", away)
            refused = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
            assert (refused.status_code, refused.json()["code"]) == (503, "service.unavailable")
            assert refused.headers["Content-Type"] == "application/problem+json"
            assert made.call(None, "GET", "/v1/ready").status_code == 503
            assert made.call("ada", "GET", "/v1/tables").status_code == 200, "what is only read goes on"
            assert made.call(None, "GET", "/v1/ready").status_code == 503
        assert table.curator.ledger.spent() > before
        spent = table.curator.ledger.spent()
        assert made.call(None, "GET", "/v1/ready").status_code == 200, "it is tried again"
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").status_code == 200
        assert table.curator.ledger.spent() == spent


def test_nothing_is_asked_while_too_much_waits_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with house(settings(tmp_path)) as made:
        ledger = made.service.tables["people"].curator.ledger
        spent = ledger.spent()
        with monkeypatch.context() as patched:
            patched.setattr(kept, "MOST_WAITING", 0)
            assert made.ask("ada", "age >= 50 AND a").status_code == 503
        assert ledger.spent() == spent
        assert made.ask("ada", "age >= 50 AND a").status_code == 200


def test_a_release_that_is_paid_for_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.service.publishing.RETRY_SECONDS", 0.01)
    tries: list[int] = []

    def room(descriptor: int) -> None:
        tries.append(descriptor)
        assert len(list((tmp_path / "data" / "releases" / "people").glob("*.maq"))) == 0
        full() if len(tries) < 4 else None

    with house(settings(tmp_path)) as made:
        with monkeypatch.context() as patched:
            patched.setattr("maquette.releases.storage.os", SimpleNamespace(fsync=room))
            job = made.call("custodian", "POST", "/v1/tables/people/releases", json=RELEASE).json()
            assert over(made, job["id"])["state"] == "done"
        assert len(tries) == 4
    files = [path.name for path in (tmp_path / "data" / "releases" / "people").iterdir()]
    assert files == ["first.maq"]
    with house(settings(tmp_path)) as made:
        assert set(made.service.tables["people"].releases) == {"first"}


def test_a_release_that_finds_no_room_until_the_end_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(settings(tmp_path)) as made:
        made.service.jobs.closing.set()
        monkeypatch.setattr("maquette.releases.storage.os", SimpleNamespace(fsync=full))
        job = made.call("custodian", "POST", "/v1/tables/people/releases", json=RELEASE).json()
        found = over(made, job["id"])
        assert (found["state"], found["error"]["code"]) == ("failed", "data")
        assert "No space left" in found["error"]["detail"]


def test_a_job_ends_although_the_state_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.service.jobs.RETRY_SECONDS", 0.01)
    with house(settings(tmp_path)) as made:
        jobs, principal = made.service.jobs, made.service.authenticate(made.tokens["custodian"])
        begin = made.service.state.begin
        with monkeypatch.context() as patched:

            def work() -> dict[str, Any]:
                patched.setattr(made.service.state, "begin", away)
                return {"made": 1}

            job = jobs.submit(principal, "people", "work", work)
            assert over(made, job.id)["made"] == 1
            with pytest.raises(sa.exc.OperationalError):
                jobs.submit(principal, "people", "another", work)
            assert [one.id for one in jobs.of("people")] == [job.id], "what was refused does not wait"
        assert made.service.state.begin == begin
        stored = sa.select(kept.jobs.c.state)
        end = time.monotonic() + 30
        while made.service.state.rows(stored) != [{"state": "done"}]:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_an_upload_to_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with house(settings(tmp_path)) as made:
        send = lambda: made.call(  # noqa: E731
            "custodian", "POST", "/v1/drafts/upload", params={"filename": "a.csv"}, content=b"a,b\n1,2\n"
        )
        with monkeypatch.context() as patched:
            patched.setattr("maquette.service.drafts.os.fdopen", full)
            got = send()
        assert (got.status_code, got.json()["code"]) == (507, "service.no-space")
        assert got.headers["Content-Type"] == "application/problem+json"
        assert not list((tmp_path / "data" / "drafts").iterdir()), "nothing half is left"
        with monkeypatch.context() as patched:
            patched.setattr("maquette.service.drafts.os.fdopen", lambda *_: (_ for _ in ()).throw(OSError(5, "secret")))
            other = send()
        assert other.status_code == 500
        assert "secret" not in other.text
        assert send().status_code in (200, 201)


def test_what_is_done_again_and_again_outlives_a_failure() -> None:
    told: list[Any] = []
    service: Any = SimpleNamespace(telemetry=SimpleNamespace(log=lambda *given: told.append(given)))
    assert asyncio.run(running._tried(service, full)) is None
    assert told[0][1:] == ("full failed", {"error": "OSError"})
    assert asyncio.run(running._tried(service, lambda: 3)) == 3


def test_the_postgresql_door_names_it() -> None:
    found = problem_of(sa.exc.OperationalError("INSERT secret", {}, Exception("secret")))
    assert (found.code, "secret" in found.message) == ("57P03", False)


def test_a_state_is_tried_again_only_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(f"sqlite:///{tmp_path / 'state.db'}")
    try:
        with monkeypatch.context() as patched:
            patched.setattr(state._engine, "begin", away)
            assert state.ready, "nobody has tried"
            with pytest.raises(sa.exc.OperationalError), state.begin():
                pass
            assert not state.ready
            state.rows(sa.select(kept.facts))
            assert not state.ready, "a full database can still be read"
        assert state.ready
    finally:
        state.close()
