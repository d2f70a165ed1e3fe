"""What the tests of deadlines share: a clock that moves when told, curators that take their time, and the gates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator import Curator
from maquette.errors import DeadlineMissed
from maquette.query import Marginal

DEADLINE = 1.0
DECIDED = 0.75  # of a deadline: the rest is for the record
SCHEMA = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
ROWS = {"age": [1, 2, 2, 7, 9], "smoker": [True, False, True, True, False]}
AGE = Marginal(SCHEMA, ["age"])
TOTAL = Marginal(SCHEMA)


class FakeClock:
    """Moments that pass only by waiting for them, or by work that says how long it takes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.hanging = False  # whether nobody waits for an event beyond the moment, as if the work went on for ever

    def monotonic(self) -> float:
        return self.now

    def until(self, moment: float) -> None:
        self.now = max(self.now, moment)

    def meet(self, event: threading.Event, moment: float) -> None:
        if self.hanging:
            self.until(moment)
        else:
            assert event.wait(30)


class SlowEngine:
    """The rows of another engine, each count of which takes `cost` seconds, or raises."""

    def __init__(self, engine: Any, clock: FakeClock) -> None:
        self._engine = engine
        self._clock = clock
        self.cost = 0.0
        self.failure: BaseException | None = None
        self.blocked: threading.Event | None = None
        self.counted = 0

    def counts(self, columns: Sequence[str]) -> Any:
        self.counted += 1
        if self.blocked is not None:
            assert self.blocked.wait(30)
        else:
            self._clock.now += self.cost
        if self.failure is not None:
            raise self.failure
        return self._engine.counts(columns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Scene:
    """A curator under a fake clock, whose rows and whose disk take as long as one likes."""

    def __init__(
        self, *, path: Path | None = None, deadline: Any = DEADLINE, rows: Any = None, clock: FakeClock | None = None
    ) -> None:
        self.clock = clock or FakeClock()
        table = mq.open_table(ROWS if rows is None else rows, SCHEMA)
        self.curator = Curator(table, mq.Budget(epsilon=100.0), ledger=path, deadline=deadline, max_rows=1_000)
        self.curator._transaction._clock = self.clock
        self.engine = SlowEngine(self.curator._engine, self.clock)
        self.curator._engine = self.engine
        self.commits: list[float] = []
        self.recording = 0.0
        commit = self.curator.ledger.commit

        def slowly(*args: Any, **named: Any) -> Any:
            self.commits.append(self.clock.now)
            self.clock.now += self.recording
            return commit(*args, **named)

        self.curator.ledger.commit = slowly  # type: ignore[method-assign]

    def taken(self, ask: Callable[[], object]) -> float:
        """How long a call took, whether it was answered or refused."""
        start = self.clock.now
        with suppress(DeadlineMissed):
            ask()
        return self.clock.now - start

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """Counting goes on until the block ends, and nobody waits for it."""
        self.engine.blocked, self.clock.hanging = threading.Event(), True
        try:
            yield
        finally:
            blocked, self.engine.blocked, self.clock.hanging = self.engine.blocked, None, False
            blocked.set()


def doors(curator: Curator) -> dict[str, Callable[[], object]]:
    """One access through each door, each time a new request."""
    quiet = curator.guard(1e6, hits=9, epsilon=1.0)
    loud = curator.guard(1.0, hits=9, epsilon=20.0)
    tables = curator.guard(1e6, hits=9, epsilon=1.0, numeric=False)
    lottery = curator.lottery([AGE])
    candidates = np.zeros((3, AGE.cells))
    return {
        "measure": lambda: curator.measure(AGE, epsilon=0.1),
        "measure_many": lambda: curator.measure_many([AGE, TOTAL], epsilon=0.1),
        "measure_error": lambda: curator.measure_error([AGE], [np.zeros(10)], epsilon=0.1),
        "select_worst": lambda: curator.select_worst([AGE], [np.zeros(10)], epsilon=0.1),
        "select_best": lambda: curator.select_best([AGE], candidates, epsilon=0.1),
        "guard": lambda: curator.guard(5.0, epsilon=0.1),
        "guard.test, easy": lambda: quiet.test(TOTAL, 5.0),
        "guard.test, hard": lambda: loud.test(TOTAL, 1e6),
        "guard.test, table": lambda: tables.test(AGE, np.zeros(10)),
        "lottery": lambda: lottery.draw(np.zeros(10), draws=3, epsilon=0.1),
        "count_rows": lambda: curator.count_rows(epsilon=0.1),
        "answer": lambda: mq.answer(curator, "age >= 5", epsilon=0.1, request=None),
    }


def leaves_at_the_deadline(cost: float) -> None:
    """Gate: every door's answer leaves at the deadline, and is recorded at the moment before it, whatever it took."""
    scene = Scene()
    for name, ask in doors(scene.curator).items():
        scene.engine.cost = cost
        scene.commits.clear()
        start = scene.clock.now
        assert scene.taken(ask) == pytest.approx(DEADLINE), name
        assert [moment - start for moment in scene.commits] == pytest.approx([DECIDED * DEADLINE]), name


def never_told(scene: Scene, request: str) -> None:
    """A request that was late: paid for, and lost to everyone who looks."""
    curator = scene.curator
    (charge,) = [charge for charge in curator.ledger.charges() if charge.id == request]
    assert charge.units > 0
    assert charge.state == "lost"
    assert curator.recall(request) is None
    assert curator.ledger.lookup(request) is None
    spent = curator.ledger.spent()
    for deadline in (None, 1_000.0):
        with pytest.raises(DeadlineMissed) as caught, curator.within(deadline):
            curator.measure(AGE, epsilon=0.1, request=request)
        assert str(caught.value) == str(DeadlineMissed())
    assert curator.ledger.spent() == spent
    curator.ledger.verify()


def late_evaluation_is_never_told(path: Path) -> None:
    """Gate: what is not evaluated in time is refused at the deadline, and by every later retry, also after restart."""
    scene = Scene(path=path)
    scene.engine.cost = (DECIDED + 1) / 2 * DEADLINE  # too late to be recorded
    with pytest.raises(DeadlineMissed):
        scene.curator.measure(AGE, epsilon=0.1, request="nearly")
    never_told(scene, "nearly")
    scene.engine.cost = 0.0
    start = scene.clock.now
    with scene.stuck():
        with pytest.raises(DeadlineMissed) as caught:
            scene.curator.measure(AGE, epsilon=0.1, request="late")
        assert scene.clock.now - start == pytest.approx(DEADLINE)
    assert str(caught.value) == str(DeadlineMissed())
    scene.curator.measure(AGE, epsilon=0.1)  # waits for what was left of the first
    _gone_for_ever(scene, path)


def late_record_is_never_told(path: Path) -> None:
    """Gate: an answer whose record ended after the deadline is refused, also after a restart."""
    scene = Scene(path=path)
    scene.recording = 1.0
    with pytest.raises(DeadlineMissed) as caught:
        scene.curator.measure(AGE, epsilon=0.1, request="late")
    assert str(caught.value) == str(DeadlineMissed())
    scene.recording = 0.0
    _gone_for_ever(scene, path)


def _gone_for_ever(scene: Scene, path: Path) -> None:
    never_told(scene, "late")
    scene.curator.close()
    again = Scene(path=path, clock=scene.clock)
    never_told(again, "late")
    again.curator.close()
    plain = Scene(path=path, clock=scene.clock, deadline=None)
    never_told(plain, "late")
    plain.curator.close()


def failures_look_like_lateness() -> None:
    """Gate: whatever is raised behind the wall leaves as a late answer does."""
    for failure in (RuntimeError("3 rows"), mq.MaquetteError("3 rows"), MemoryError(), SystemExit("3 rows")):
        scene = Scene()
        scene.engine.failure, scene.engine.cost = failure, 0.3
        start = scene.clock.now
        with pytest.raises(DeadlineMissed) as caught:
            scene.curator.measure(AGE, epsilon=0.1, request="failed")
        assert scene.clock.now - start == pytest.approx(DEADLINE)
        assert str(caught.value) == str(DeadlineMissed())
        assert caught.value.__cause__ is caught.value.__context__ is None
        never_told(scene, "failed")


def late_tests_keep_their_hit(answer: float, *, recording: float) -> None:
    """Gate: a late test of a guard takes a hit, whatever it found and wherever it was late."""
    scene = Scene()
    guard = scene.curator.guard(3.0, hits=4, epsilon=50.0)
    before = guard.hits_left
    scene.recording, scene.engine.cost = recording, 0.0 if recording else 2.0
    with pytest.raises(DeadlineMissed):
        guard.test(TOTAL, answer, request="late")
    assert guard.hits_left == before - 1
    assert scene.curator.recall("late") is None
    scene.curator.ledger.verify()
