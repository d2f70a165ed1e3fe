"""Deadlines: every answer of a door leaves at one moment, and what is late is never told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import timing_checks as checks
from hypothesis import given, settings
from timing_checks import AGE, DEADLINE, ROWS, SCHEMA, TOTAL, Scene

import maquette as mq
from gate_tools import compiled
from maquette.answers import direct
from maquette.curator import Curator, deadline
from maquette.curator.compile import SEARCH, Compiler
from maquette.curator.deadline import Moments, SystemClock, Work, seconds
from maquette.curator.engines import kernels
from maquette.errors import BudgetExceeded, DeadlineMissed, QueryError, RequestLost
from maquette.privacy.ledger import inspect
from maquette.query import Contrasts, Marginal, UnitCounts, ValueSums

LENGTHS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 1.1, 5.0])


@pytest.mark.parametrize("cost", [0.0, 0.02, 0.3])
def test_every_door_leaves_at_its_deadline_whatever_it_took(cost: float) -> None:
    checks.leaves_at_the_deadline(cost)


def test_every_door_refuses_at_the_same_moment_too() -> None:
    scene = Scene()
    doors = checks.doors(scene.curator)
    reading = [name for name in doors if name != "guard"]  # opening one reads no rows
    for name in reading:
        with scene.stuck():
            spent = scene.curator.ledger.spent()
            assert scene.taken(doors[name]) == pytest.approx(DEADLINE), name
            assert scene.curator.ledger.spent() > spent or "guard.test" in name


def test_without_a_deadline_answers_leave_when_they_are_ready() -> None:
    scene = Scene(deadline=None)
    scene.engine.cost = 0.2
    assert scene.taken(lambda: scene.curator.measure(AGE, epsilon=0.1)) == pytest.approx(0.2)


def test_late_evaluation_is_never_told(tmp_path: Path) -> None:
    checks.late_evaluation_is_never_told(tmp_path / "ledger")


def test_late_record_is_never_told(tmp_path: Path) -> None:
    checks.late_record_is_never_told(tmp_path / "ledger")


def test_failures_look_like_lateness() -> None:
    checks.failures_look_like_lateness()


@pytest.mark.parametrize("recording", [0.0, 2.0])
@pytest.mark.parametrize("answer", [5.0, 1e6])
def test_late_tests_keep_their_hit(answer: float, recording: float) -> None:
    checks.late_tests_keep_their_hit(answer, recording=recording)


def test_an_account_shows_a_late_request_as_lost(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    scene = Scene(path=path)
    scene.recording = 2.0
    with pytest.raises(DeadlineMissed):
        scene.curator.measure(AGE, epsilon=0.25, request="late")
    scene.curator.close()
    account = inspect(path)
    assert [charge.state for charge in account.charges] == ["lost"]
    assert account.spent == account.charges[0].units > 0


def test_what_is_late_is_not_recorded_when_it_ends_at_last() -> None:
    scene = Scene()
    with scene.stuck():
        scene.taken(lambda: scene.curator.measure(AGE, epsilon=0.1, request="late"))
    scene.curator.measure(TOTAL, epsilon=0.1)
    assert len(scene.commits) == 1
    checks.never_told(scene, "late")


def test_what_is_late_before_its_turn_never_begins() -> None:
    scene = Scene()
    with scene.curator._transaction._one_at_a_time:  # somebody else's question
        scene.clock.hanging = True
        assert scene.taken(lambda: scene.curator.measure(AGE, epsilon=0.1)) == pytest.approx(DEADLINE)
        scene.clock.hanging = False
    scene.curator.measure(TOTAL, epsilon=0.1)
    assert scene.engine.counted == 1


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=4))
def test_answers_are_told_at_the_deadline_or_never(lengths: list[tuple[float, float]]) -> None:
    """Whatever evaluating and recording take, and whatever came before."""
    scene = Scene()
    for number, (cost, recording) in enumerate(lengths):
        scene.engine.cost, scene.recording = cost, recording
        name = f"r{number}"
        told: list[Any] = []
        taken = scene.taken(
            lambda name=name, told=told: told.append(scene.curator.measure(AGE, request=name, epsilon=0.1))  # type: ignore[misc]
        )
        in_time = cost <= 0.75 and recording <= 0.25
        assert bool(told) == in_time == (scene.curator.recall(name) is not None)
        if cost <= 0.75 and not in_time:  # the disk's own time
            assert taken == pytest.approx(0.75 + recording)
        elif cost <= 0.75:
            assert taken == pytest.approx(DEADLINE)
    states = [charge.state for charge in scene.curator.ledger.charges()]
    assert states == ["answered" if c <= 0.75 and r <= 0.25 else "lost" for c, r in lengths]
    assert scene.curator.spent.epsilon == pytest.approx(0.1 * len(lengths))


def test_a_guard_that_was_paid_for_and_not_opened_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    ledger = scene.curator.ledger
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "open_guard", lambda *_: None)  # takes no hits: a TypeError
        with pytest.raises(TypeError):
            scene.curator.guard(3.0, epsilon=1.0, request="g")
    spent = ledger.spent()
    guard = scene.curator.guard(3.0, epsilon=1.0, request="g")
    assert guard.hits_left == 1
    assert not guard.test(TOTAL, 5.0).above or guard.sealed
    assert ledger.spent() == spent


def test_a_missed_deadline_is_a_lost_request() -> None:
    assert issubclass(DeadlineMissed, RequestLost)


def test_recorded_answers_leave_at_once() -> None:
    scene = Scene()
    first = scene.curator.measure(AGE, epsilon=0.1, request="r")
    again: list[Any] = []
    scene.engine.cost = 50.0
    assert scene.taken(lambda: again.append(scene.curator.measure(AGE, epsilon=0.1, request="r"))) == 0.0
    with scene.curator.within(2.0):
        again.append(scene.curator.measure(AGE, epsilon=0.1, request="r"))
    assert all((first.values == other.values).all() for other in again)
    mq.answer(scene.curator, "age < 5", epsilon=0.1, deadline=300.0)
    assert scene.taken(lambda: mq.answer(scene.curator, "NOT age >= 5", epsilon=0.1)) == 0.0


def test_what_is_refused_before_the_charge_is_refused_at_once() -> None:
    scene = Scene()
    start = scene.clock.now
    with pytest.raises(QueryError):
        mq.answer(scene.curator, "age >= 55", epsilon=0.1)
    with pytest.raises(BudgetExceeded):
        mq.answer(scene.curator, "age >= 5", epsilon=1_000.0)
    assert scene.clock.now == start


def test_an_answer_has_the_deadline_of_its_call_before_that_of_the_curator() -> None:
    scene = Scene()
    assert scene.taken(lambda: mq.answer(scene.curator, "age >= 5", epsilon=0.1, deadline=2.0)) == pytest.approx(2.0)
    assert scene.taken(lambda: mq.answer(scene.curator, "age >= 6", epsilon=0.1)) == pytest.approx(DEADLINE)
    plain = Scene(deadline=None)
    assert plain.taken(lambda: mq.answer(plain.curator, "age >= 5", epsilon=0.1, deadline=0.5)) == pytest.approx(0.5)
    assert plain.taken(lambda: mq.answer(plain.curator, "age >= 6", epsilon=0.1)) == 0.0


def test_what_is_done_with_an_answer_is_inside_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    assemble, question = direct.assemble, direct.question

    def slowly(function: Any, cost: float) -> Any:
        def run(*args: Any, **settings: Any) -> Any:
            scene.clock.now += cost
            return function(*args, **settings)

        return run

    monkeypatch.setattr(direct, "question", slowly(question, 0.1))
    monkeypatch.setattr(direct, "assemble", slowly(assemble, 0.1))
    sql = "SELECT count(*) FROM people WHERE age >= 5"
    assert scene.taken(lambda: mq.answer(scene.curator, sql, epsilon=0.1)) == pytest.approx(DEADLINE)
    scene.engine.cost = 0.7
    assert scene.taken(lambda: mq.answer(scene.curator, sql, epsilon=0.2)) == pytest.approx(DEADLINE)
    assert [charge.state for charge in scene.curator.ledger.charges()] == ["answered", "lost"]


def test_long_preparation_comes_before_the_deadline() -> None:
    scene = Scene()
    start = scene.clock.now
    with scene.curator.within(2.0):
        scene.clock.now += 3.0  # a plan, a model
        scene.curator.measure(AGE, epsilon=0.1)
    assert scene.clock.now - start == pytest.approx(5.0)


def test_an_analyst_cannot_shorten_the_deadline_to_see_what_misses_it() -> None:
    scene = Scene()
    for shorter in (0.5, DEADLINE / 2):
        with pytest.raises(QueryError, match="shorter one would reveal"):
            mq.answer(scene.curator, "age >= 5", epsilon=0.1, deadline=shorter)
        with pytest.raises(QueryError, match="shorter one would reveal"), scene.curator.within(shorter):
            pass
    assert scene.curator.ledger.spent() == 0


def test_requests_of_one_block_take_turns() -> None:
    scene = Scene()
    start = scene.clock.now
    with scene.curator.within(2.0):
        for cost in (0.0, 0.3, 0.1):
            scene.engine.cost = cost
            scene.curator.measure(AGE, epsilon=0.1)
    assert scene.clock.now - start == pytest.approx(6.0)
    assert [moment - start for moment in scene.commits] == pytest.approx([1.5, 3.5, 5.5])


def test_deadlines_of_two_curators_do_not_meet() -> None:
    one, two = Scene(deadline=None), Scene(deadline=None)
    with one.curator.within(7.0):
        assert two.taken(lambda: two.curator.measure(AGE, epsilon=0.1)) == 0.0
    assert one.clock.now == 100.0


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), 1e9, True, "soon", [1.0]])
def test_a_deadline_that_makes_no_sense_is_refused_before_anything_is_charged(bad: Any) -> None:
    table = mq.open_table(ROWS, SCHEMA)
    with pytest.raises(QueryError, match=r'deadline is .*; expected seconds, 3600 at most, or "auto"'):
        Curator(table, mq.Budget(epsilon=1.0), deadline=bad)
    curator = Curator(table, mq.Budget(epsilon=1.0))
    with pytest.raises(QueryError, match="deadline is"):
        mq.answer(curator, "age >= 5", epsilon=0.1, deadline=bad)
    with pytest.raises(QueryError, match="deadline is"):
        mq.online(curator, alpha=0.1, deadline=bad)
    assert curator.ledger.spent() == 0


def test_auto_needs_a_declared_number_of_rows() -> None:
    table = mq.open_table(ROWS, SCHEMA)
    with pytest.raises(QueryError, match=r"expected Curator\(..., max_rows=...\)"):
        Curator(table, mq.Budget(epsilon=1.0), deadline="auto")
    for bad in (0, -3, 1.5, True):
        with pytest.raises(QueryError, match="max_rows is"):
            Curator(table, mq.Budget(epsilon=1.0), max_rows=bad)  # type: ignore[arg-type]


def test_auto_is_the_same_for_every_table_of_a_schema() -> None:
    many = {"age": [3] * 900, "smoker": [True] * 900}
    times = []
    for rows in (ROWS, many):
        scene = Scene(deadline="auto", rows=rows)
        doors = checks.doors(scene.curator)
        times.append({name: round(scene.taken(ask), 9) for name, ask in doors.items()})
    assert times[0] == times[1]
    assert min(times[0].values()) >= deadline.BASE


def test_auto_grows_with_what_is_declared_and_asked() -> None:
    asked = [compiled(question, SCHEMA) for question in (AGE, Marginal(SCHEMA, ["age", "smoker"]))]
    one, two = Work.of(SCHEMA, asked[:1]), Work.of(SCHEMA, asked)
    assert (one, two) == (Work(2, 10), Work(5, 30))
    assert seconds("auto", 10**6, one) == pytest.approx(deadline.BASE + 2e6 * 1e-7 + 10 * 2e-6)
    assert seconds("auto", 10**6, one) < seconds("auto", 10**6, two) < seconds("auto", 10**7, two)
    assert seconds(0.25, 10**9, two) == 0.25


def test_auto_allows_for_what_is_looked_up_for_every_record() -> None:
    """Sums of values and counts of units read whole records, and tables within `max_rows` missed their moment."""
    schema = mq.Schema([mq.Integer("income", 0, 9_999, width=1_000), *(mq.Boolean(f"b{i}") for i in range(30))])
    wall = Compiler(schema, values=True, units=True)

    def columns(question: Any) -> int:
        return Work.of(schema, [wall(question)]).columns

    assert columns(Marginal(schema, ["b0"])) == 2
    assert columns(ValueSums(schema, "income")) >= len(schema) + 1
    assert columns(UnitCounts(schema)) >= len(schema) + SEARCH
    several = mq.where(schema, "(b1 AND b2) OR (b3 AND b4) OR (b5 AND b6)")
    assert columns(UnitCounts(schema, (), several)) >= columns(UnitCounts(schema)) + len(several.terms)
    wide = Marginal(schema, ["b0"], mq.where(schema, " AND ".join(f"b{i}" for i in range(1, 30))))
    assert columns(wide) >= len(schema) + 30
    assert columns(Contrasts(wide, [np.array([[1, -1]])])) == columns(wide)


def test_the_compiled_kernel_is_loaded_with_the_deadline_and_not_when_enough_rows_were_counted() -> None:
    kernels._kernel.cache_clear()
    curator = Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=1.0))
    assert not kernels._kernel.cache_info().currsize
    with curator.within(1.0):
        assert kernels._kernel.cache_info().currsize


def test_two_moments_of_a_deadline() -> None:
    assert Moments.of(10.0, 4.0) == Moments(decided=13.0, released=14.0)


def test_the_machine_clock_sleeps_and_then_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [5.0], []

    def sleep(length: float) -> None:
        slept.append(length)
        now[0] += length + 0.0002  # a sleep ends late

    def tick() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr(deadline.time, "sleep", sleep)
    monkeypatch.setattr(deadline.time, "perf_counter", tick)
    clock = SystemClock()
    clock.until(5.1)
    assert slept == [pytest.approx(0.1 - deadline.SPIN, abs=1e-5)]
    assert 5.1 <= now[0] < 5.1 + 1e-5
    clock.until(4.0)
    assert len(slept) == 1
    happened = threading.Event()
    happened.set()
    clock.meet(happened, now[0] + 60)
    clock.meet(threading.Event(), now[0] - 1)
