"""Group commit: operations that wait at the same time share one durable transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from copy import copy
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from maquette.errors import LedgerCorrupted, LedgerError, LedgerLocked
from maquette.privacy.ledger.store import BROKEN, explain

T = TypeVar("T")
Operation = Callable[[Any], T]  # of a connection, or whatever else its transaction gives


class _Job(NamedTuple):
    operation: Operation[Any]
    future: Future[Any]


class Writer:
    """Runs operations one after the other and commits them together; an operation that refuses is undone alone.

    No outcome is returned before its transaction is durable. If the transaction fails, no outcome is returned and the
    writer stops permanently: after a failed write or sync, the content of the disk is unknown until the ledger is
    opened and verified again.
    """

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[Any]],
        *,
        threaded: bool,
        broken: tuple[type[Exception], ...] = BROKEN,
    ) -> None:
        self._transaction = transaction
        self._broken = (*broken, LedgerCorrupted)
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._failure: LedgerError | None = None
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="maquette-ledger", daemon=True) if threaded else None
        if self._thread is not None:
            self._thread.start()

    @property
    def inherited(self) -> bool:
        """Whether this process is a fork of the one that opened the ledger."""
        return os.getpid() != self._pid

    @property
    def running(self) -> bool:
        """Whether operations are accepted: it is this process's own, open, and nothing failed."""
        return not (self._closed or self._failure or self.inherited)

    def run(self, operation: Operation[T]) -> T:
        """Run the operation inside a transaction; return, or raise, once its outcome is durable."""
        if self.inherited:
            raise LedgerError(
                f"the ledger was opened by process {self._pid} and is used by its fork {os.getpid()}",
                advice="SQLite connections do not survive a fork. Open the ledger after forking.",
            )
        job = _Job(operation, Future())
        with self._mutex:
            if self._closed:
                raise LedgerError("the ledger is closed", advice="Open it again")
            if self._thread is None:
                self._commit([job])
            else:
                self._queue.put(job)
        result: T = job.future.result()
        return result

    def look(self, operation: Operation[T], reading: Callable[[Operation[T]], T]) -> T:
        """Run an operation that only reads: at once if nothing is being written, otherwise in its turn.

        Any failure is left to `run`, which raises the error.
        """
        if not self.inherited and self._writing.acquire(blocking=False):
            try:
                if not self._closed and self._failure is None:
                    return reading(operation)
            except Exception:
                pass
            finally:
                self._writing.release()
        return self.run(operation)

    def close(self) -> None:
        """Finish waiting operations, then refuse new ones."""
        if self.inherited:  # a fork inherits the mutex, perhaps locked, but not the thread
            return
        with self._mutex:
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        with self._writing:  # wait until no operation is reading
            pass

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            self._commit([job, *self._waiting()])

    def _waiting(self) -> Iterator[_Job]:
        """What waits now; the sign to end stays the last in the queue, for nothing comes after it."""
        with suppress(Empty):
            while (job := self._queue.get_nowait()) is not None:
                yield job
            self._queue.put(None)

    def _commit(self, group: list[_Job]) -> None:
        outcomes: list[tuple[Any, Exception | None]]
        try:
            if self._failure is not None:
                raise self._failure
            with self._writing, self._transaction() as connection:
                group.extend(self._waiting())  # it may have waited for other processes before it began
                outcomes = [_attempt(connection, job.operation, self._broken) for job in group]
        except LedgerLocked as refusal:
            outcomes = [(None, copy(refusal)) for _ in group]
        except BaseException as failure:
            if self._thread is None and not isinstance(failure, Exception):
                raise  # an interrupt of the caller, whose thread this is
            self._failure = self._failure or _fatal(failure)
            outcomes = [(None, copy(self._failure)) for _ in group]
        for job, (result, refused) in zip(group, outcomes, strict=True):
            if refused is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(refused)


def _attempt(
    connection: Any, operation: Operation[T], broken: tuple[type[Exception], ...]
) -> tuple[T | None, Exception | None]:
    """Run one operation. A refusal undoes this operation only; a broken database fails the whole transaction."""
    connection.execute("SAVEPOINT operation")
    refused: Exception | None = None
    result: T | None = None
    try:
        result = operation(connection)
    except broken:
        raise
    except Exception as refusal:
        connection.execute("ROLLBACK TO operation")
        refused = refusal
    connection.execute("RELEASE operation")
    return result, refused


def _fatal(failure: BaseException) -> LedgerError:
    """The error that every later call raises."""
    cause = explain(failure)
    return type(cause)(
        f"the ledger stopped: {str(cause).rstrip('.')}. Nothing was released; what was being charged may stay charged. "
        "Open the ledger again when the cause is removed: it is verified then."
    )
