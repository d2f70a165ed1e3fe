"""Sessions under a deadline: what was late is paid for, not known, and not found again by a restart."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from timing_checks import DEADLINE, SCHEMA, FakeClock, Scene
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.curator import transaction
from maquette.errors import DeadlineMissed

RNG = np.random.default_rng(3)
PEOPLE = {"age": RNG.integers(0, 10, 4_000), "smoker": RNG.random(4_000) < 0.3}
FIRST, SECOND = "age >= 5 AND smoker", "age < 3"


def opened(path: Path | None = None, **settings: Any) -> tuple[Scene, mq.Session]:
    scene = Scene(path=path, rows=PEOPLE, deadline=None)
    return scene, mq.online(scene.curator, alpha=0.1, warm_start="none", deadline=DEADLINE, **settings)


@pytest.mark.parametrize("cost", [0.0, 0.01, 0.05])
def test_a_session_takes_its_time_for_what_it_measures_and_none_for_what_it_knows(cost: float) -> None:
    scene, session = opened(rows=4_000)
    scene.engine.cost = cost
    assert scene.taken(lambda: session.ask(FIRST)) == pytest.approx(DEADLINE)
    assert scene.taken(lambda: session.ask(FIRST)) == 0.0
    assert scene.taken(lambda: session.peek(SECOND)) == scene.taken(lambda: session.explain(SECOND)) == 0.0


@pytest.mark.parametrize("cost", [0.0, 0.3])
def test_opening_a_session_takes_whole_deadlines(cost: float) -> None:
    scene = Scene(rows=PEOPLE, deadline=None)
    scene.engine.cost = cost
    start = scene.clock.now
    mq.online(scene.curator, alpha=0.1, warm_start="none", deadline=DEADLINE)
    looks = len(scene.commits)
    assert looks > 1
    assert scene.clock.now - start == pytest.approx(looks * DEADLINE)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("where", ["evaluation", "record"])
def test_a_late_measurement_is_paid_for_and_not_found_again(tmp_path: Path, where: str) -> None:
    scene, session = opened(tmp_path / "ledger")
    known, spent = session._record.transcript.digest, scene.curator.ledger.spent()
    if where == "evaluation":
        scene.engine.cost = 2.0
    else:
        scene.recording = 2.0
    with pytest.raises(DeadlineMissed) as caught:
        session.ask(FIRST)
    assert str(caught.value) == str(DeadlineMissed())
    paid = scene.curator.ledger.spent() - spent
    assert paid > 0
    scene.engine.cost = scene.recording = 0.0
    assert session.peek(FIRST).guarantee is None
    assert session._record.transcript.digest == known
    late = [charge for charge in scene.curator.ledger.charges() if charge.state == "lost"]
    assert len(late) == 1
    assert scene.curator.recall(late[0].id) is None
    scene.curator.close()

    again, restarted = opened(tmp_path / "ledger")
    assert restarted._record.transcript.digest == known
    assert restarted.peek(FIRST).guarantee is None
    spent = again.curator.ledger.spent()
    answer = restarted.ask(FIRST)
    assert again.curator.ledger.spent() > spent  # measured afresh, for a charge of its own
    again.curator.close()

    _, third = opened(tmp_path / "ledger")
    assert third.ask(FIRST).value == answer.value
    assert third.curator.recall(late[0].id) is None
    third.curator.close()


def test_a_guard_that_opens_late_leaves_its_session_in_order() -> None:
    scene, session = opened()
    policy = session._policy
    spent = scene.curator.ledger.spent()
    scene.recording = 2.0
    with scene.curator.within(DEADLINE):
        policy._arm()
    assert not policy.armed
    assert scene.curator.ledger.spent() > spent
    scene.recording = 0.0
    with scene.curator.within(DEADLINE):
        policy._arm()
    assert policy.armed
    assert session.ask(SECOND).guarantee is not None


def test_a_late_test_vouches_for_nothing() -> None:
    scene, session = opened()
    with scene.curator.within(DEADLINE):
        session._policy._arm()
    scene.engine.cost = 2.0
    with pytest.raises(DeadlineMissed):  # the test was late, so that the number was to be measured, which was late too
        session.ask(SECOND)
    scene.engine.cost = 0.0
    answer = session.ask(SECOND)
    assert answer.source == "measured"
    states = [charge.state for charge in scene.curator.ledger.charges()]
    assert states.count("lost") == 2


def test_the_prompt_takes_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (f"{age},{str(smokes).lower()}" for age, smokes in zip(PEOPLE["age"], PEOPLE["smoker"], strict=True))
    Path("people.csv").write_text("age,smoker\n" + "\n".join(lines))
    SCHEMA.save("people.toml")
    clock = FakeClock()
    monkeypatch.setattr(transaction, "SystemClock", lambda: clock)
    typed = ["online", "people.csv", "--schema", "people.toml", "--epsilon", "5", "--rows", "4000", "--alpha", "0.1"]
    runner = CliRunner()
    said = runner.invoke(app, [*typed, "--deadline", "2.5", "--json"], input="age < 3\n")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["question"] == "age < 3"
    assert clock.now - 100.0 == pytest.approx(2.5 * round((clock.now - 100.0) / 2.5))
    assert clock.now > 100.0
    said = runner.invoke(app, [*typed, "--deadline", "-1"], input="age < 3\n")
    assert "deadline is -1.0; expected seconds" in said.output or "deadline is -1.0" in str(said.exception)


def test_nobody_sees_in_a_session_what_is_not_released_yet() -> None:
    scene, session = opened(rows=4_000)
    seen: list[object] = []
    early: list[list[object]] = []
    until = scene.clock.until

    def look(moment: float) -> None:
        other = threading.Thread(target=lambda: seen.append(session.peek(FIRST).guarantee), daemon=True)
        other.start()
        other.join(0.3)  # it looks at what is released, or waits for the rest
        early.append(list(seen))
        until(moment)

    scene.clock.until = look  # type: ignore[method-assign]
    session.ask(FIRST)
    assert early
    assert not any(guarantee for told in early for guarantee in told)
    assert session.peek(FIRST).guarantee is not None
