"""Deadline: two moments fixed before a request begins, from declared numbers only, and the clock that keeps them.

The duration of an evaluation can depend on the rows: on their number, on a guard's branch, on the noise. So a request
is *decided* at one fixed moment and *released* at another. An answer that is ready by the first moment is recorded
then, not earlier, so that the time of recording reveals nothing either; otherwise the request is refused. Answers and
refusals are both returned at the second moment.
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

RECORDING = 0.25  # fraction of a deadline reserved for recording the answer durably
PREPARING = 0.125  # maximum fraction of a deadline for reading a question; longer work, such as planning, comes before
LONGEST = 3600.0  # seconds
SPIN = 0.001  # seconds of busy waiting before a moment: a sleep alone ends about 0.1 ms late

# Allowances of "auto"; each is several times the measured time (decision 11).
BASE = 0.5  # seconds: two durable writes, and everything else of constant size
PER_VALUE = 1e-7  # seconds for one column of one declared row
PER_CELL = 2e-6  # seconds for one cell of a question: its count, its noise, its record


class Clock(Protocol):
    """Moments in seconds since a fixed start. Tests have their own clock."""

    def monotonic(self) -> float:
        """Now."""

    def until(self, moment: float) -> None:
        """Return at this moment, or at once if it has passed."""

    def meet(self, event: threading.Event, moment: float) -> None:
        """Return when the event has happened, but no later than at this moment."""


class SystemClock:
    """The machine's monotonic clock; changing the time of day does not affect it."""

    def monotonic(self) -> float:
        """Now."""
        return time.perf_counter()

    def until(self, moment: float) -> None:
        """Sleep for most of the wait, then wait busily."""
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
    """When one request is decided and when it is released."""

    decided: float
    released: float

    @classmethod
    def of(cls, start: float, seconds: float) -> Moments:
        """The two moments of a request that begins at `start`."""
        return cls(start + (1 - RECORDING) * seconds, start + seconds)


@dataclass
class Span:
    """A block of work whose results are released when it ends. Its requests run in turn, the first from its start.

    `released` is when the last result may be released; None if rows were not read. `requests` are their names.
    """

    deadline: Deadline | None
    start: float
    released: float | None = None
    requests: list[str] = field(default_factory=list)

    def begin(self, now: float, seconds: float) -> float:
        """The start of the next request, for its deadline; it does not depend on rows."""
        if self.released is not None:
            return max(self.released, now)
        return self.start if now - self.start <= PREPARING * seconds else now


@dataclass(frozen=True)
class Work:
    """The public size of a question: the columns of all its tables, and their cells."""

    columns: int = 0
    cells: int = 0

    @classmethod
    def of(cls, schema: Schema, questions: Sequence[Compiled]) -> Work:
        """The most work that counting these questions can take; a visited record is read with all its columns."""
        counted = [max(m.cells, min(schema.cells(m.columns), FEW_CELLS)) for m in questions]
        visited = (0 if m.reads else len(schema) + m.steps for m in questions)
        return cls(sum(len(m.columns) + 1 for m in questions) + sum(visited), sum(counted))


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
    """The duration of a request: a function of declared numbers and of the question only."""
    if deadline != "auto":
        return float(deadline)
    return BASE + PER_VALUE * (max_rows or 0) * work.columns + PER_CELL * work.cells


class Attempt(Generic[T]):
    """Work in its own thread, up to a moment. A later result, or an exception, counts as no result."""

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
        """The result, or None if there is none by this moment; returns no later than that."""
        self._thread.start()
        self._clock.meet(self._done, moment)
        self._abandoned = True  # if it has not started yet, it need not start
        if not self._done.is_set() or self._finished > moment:
            return None
        self._thread.join()  # it has finished
        return self._result

    def _run(self) -> None:
        try:
            with self._turn:
                if not self._abandoned:
                    self._result = self._work()
                    self._finished = self._clock.monotonic()
        except BaseException:  # an exception may depend on rows and is never shown
            self._result = None
        finally:
            self._done.set()
