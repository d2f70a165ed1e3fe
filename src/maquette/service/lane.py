"""Lane: the threads that answer the questions of one table, first come, first served.

What they find is handed to the event loop in groups: a loop that is awake already is not woken again for each answer.
A pool of the standard library takes a lock or two and wakes the loop for every question, which is a large part of what
a question costs whose answer follows from what is known.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    context: contextvars.Context
    future: asyncio.Future[Any]
    hand: _Hand


class _Hand:
    """Gives an event loop what was found for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._found: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = False  # whether the loop will look

    def over(self, future: asyncio.Future[Any], found: Any, error: BaseException | None) -> None:
        """Hand something over, from any thread."""
        self._found.append((future, found, error))
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop was closed: nobody waits
                self.loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._called = False  # first: what comes from now on calls again
        while self._found:
            future, found, error = self._found.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(found)
                continue
            try:
                future.set_exception(error)
            except TypeError as unfit:  # a StopIteration, which nobody can wait for
                future.set_exception(unfit)


class Lane:
    """Work for a few threads, which end with this object."""

    def __init__(self, threads: int, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads, self._name = threads, name
        self._started = 0
        self._starting = threading.Lock()
        self._hand: _Hand | None = None
        weakref.finalize(self, _end, self._jobs, threads)

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises in one of the threads.

        If the request is abandoned, what has begun is finished, and what still waits is never begun.
        """
        loop = asyncio.get_running_loop()
        if (hand := self._hand) is None or hand.loop is not loop:
            hand = self._hand = _Hand(loop)
        future = loop.create_future()
        self._jobs.put(_Job(work, contextvars.copy_context(), future, hand))
        try:
            if self._started < self._threads:
                self._start()
            found: T = await future
        except BaseException:
            future.cancel()
            raise
        return found

    def _start(self) -> None:
        """Start one more thread, if any work waits."""
        with self._starting:
            if self._started < self._threads and not self._jobs.empty():
                name = f"{self._name}_{self._started + 1}"
                try:
                    threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True).start()
                except RuntimeError:  # the machine gives no more
                    if not self._started:
                        raise
                else:
                    self._started += 1


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        try:
            if not job.future.cancelled():
                job.hand.over(job.future, job.context.run(job.work), None)
        except BaseException as error:
            job.hand.over(job.future, None, error)
        del job  # it is not kept until the next one comes


def _end(jobs: SimpleQueue[_Job | None], threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)
