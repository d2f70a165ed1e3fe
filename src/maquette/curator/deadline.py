"""Deadline: two moments fixed before a request begins, from declared numbers alone, and the clock that keeps them.

How long an evaluation takes can depend on the rows: on how many there are, on a guard's branch, on the noise. So an
answer is *decided* at one fixed moment and *released* at another. What is evaluated by the first is recorded then, not
earlier, so that the time of the recording tells nothing either; what is not is refused. Both leave at the second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from math import isfinite
from typing import Generic, Literal, Protocol, TypeVar

from maquette.curator.compiled import FEW_CELLS, Compiled
from maquette.errors import QueryError
from maquette.schema import Schema

T = TypeVar("T")

Deadline = float | Literal["auto"]

RECORDING = 0.25  # of a deadline is for the durable record of the answer
PREPARING = 0.125  # of a deadline may go into reading a question; what takes longer, such as planning, comes before it
LONGEST = 3600.0  # seconds
SPIN = 0.001  # seconds before a moment from which the clock is watched: a sleep alone ends some 0.1 ms late

# What "auto" allows; each is several times what was measured (decision 11).
BASE = 0.5  # seconds: two durable writes, and whatever does not grow
PER_VALUE = 1e-7  # seconds for one column of one declared row
PER_CELL = 2e-6  # seconds for one cell of a question: its count, its noise, its record


class Clock(Protocol):
    """Moments in seconds since some start. Tests bring their own."""

    def monotonic(self) -> float:
        """Now."""

    def until(self, moment: float) -> None:
        """Return at this moment, or at once if it has passed."""

    def meet(self, event: threading.Event, moment: float) -> None:
        """Return when the event has happened, or at this moment if it has not."""


class SystemClock:
    """The machine's own; setting the time of day does not move it."""

    def monotonic(self) -> float:
        """Now."""
        return time.perf_counter()

    def until(self, moment: float) -> None:
        """Sleep for most of the wait, then watch the clock."""
        rest = moment - SPIN - time.perf_counter()
        if rest > 0:
            time.sleep(rest)
        while time.perf_counter() < moment:
            pass

    def meet(self, event: threading.Event, moment: float) -> None:
        """Wait for an event, or for a moment."""
        event.wait(max(0.0, moment - time.perf_counter()))


@dataclass(frozen=True)
class Moments:
    """When one request is decided and when it leaves."""

    decided: float
    released: float

    @classmethod
    def of(cls, start: float, seconds: float) -> Moments:
        """The two moments of a request that begins at `start`."""
        return cls(start + (1 - RECORDING) * seconds, start + seconds)


@dataclass
class Span:
    """A stretch of work whose results are told when it ends: requests in it take their turns, the first from its start.

    `released` is when the last of them may be told; None while rows were not consulted. `requests` are their names.
    """

    deadline: Deadline | None
    start: float
    released: float | None = None
    requests: list[str] = field(default_factory=list)

    def begin(self, now: float, seconds: float) -> float:
        """From when the next request counts; rows have no part in it."""
        if self.released is not None:
            return max(self.released, now)
        return self.start if now - self.start <= PREPARING * seconds else now


@dataclass(frozen=True)
class Work:
    """How much a question asks for, as far as everybody may know: columns of all its tables, and their cells."""

    columns: int = 0
    cells: int = 0

    @classmethod
    def of(cls, schema: Schema, questions: Sequence[Compiled]) -> Work:
        """What counting these takes at most."""
        counted = [max(m.cells, min(schema.cells(m.columns), FEW_CELLS)) for m in questions]
        return cls(sum(len(m.columns) + 1 for m in questions), sum(counted))


def check_deadline(deadline: object, max_rows: object) -> None:
    """Refuse a deadline that makes no sense, before anything is charged."""
    if max_rows is not None and (isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1):
        raise QueryError(f"max_rows is {max_rows!r}", expected="a whole number of rows that the table will not exceed")
    if deadline == "auto":
        if max_rows is None:
            raise QueryError(
                'deadline="auto" is computed from declared numbers and none was declared',
                expected="Curator(..., max_rows=...), a public number of rows that the table will not exceed, or a "
                "deadline in seconds",
            )
    elif deadline is not None:
        number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
        if not number or not isfinite(deadline) or not 0 < deadline <= LONGEST:  # type: ignore[arg-type, operator]
            raise QueryError(f"deadline is {deadline!r}", expected=f'seconds, {LONGEST:g} at most, or "auto"')


def seconds(deadline: Deadline, max_rows: int | None, work: Work) -> float:
    """How long a request takes; a function of what was declared and asked, and of nothing else."""
    if deadline != "auto":
        return float(deadline)
    return BASE + PER_VALUE * (max_rows or 0) * work.columns + PER_CELL * work.cells


class Attempt(Generic[T]):
    """Work in a thread of its own, for at most so long: a result that comes later, or an exception, is no result."""

    def __init__(self, work: Callable[[], T], clock: Clock, turn: threading.RLock) -> None:
        self._work = work
        self._clock = clock
        self._turn = turn
        self._done = threading.Event()
        self._abandoned = False
        self._result: T | None = None
        self._finished = float("inf")
        context = copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._run), name="maquette-evaluation", daemon=True)

    def by(self, moment: float) -> T | None:
        """The result, if there is one by this moment; returns then or earlier."""
        self._thread.start()
        self._clock.meet(self._done, moment)
        self._abandoned = True  # if it still waits for its turn, it need not begin
        if not self._done.is_set() or self._finished > moment:
            return None
        self._thread.join()  # nothing of it is left to do
        return self._result

    def _run(self) -> None:
        try:
            with self._turn:
                if not self._abandoned:
                    self._result = self._work()
                    self._finished = self._clock.monotonic()
        except BaseException:  # whatever is raised there may depend on rows, and is never told
            self._result = None
        finally:
            self._done.set()
