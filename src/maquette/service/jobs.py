"""Jobs: long work such as a release, one at a time for each table, with progress that others can follow.

A job that a restart interrupted is lost: what it charged stays charged, and the ledger says what that was.
"""

from __future__ import annotations

import contextvars
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from maquette.errors import MaquetteError
from maquette.releases import watch_progress
from maquette.service import state as kept
from maquette.service.errors import NotFound, TooManyRequests
from maquette.service.principals import Principal
from maquette.service.state import RETRY_SECONDS, State, as_text, now

JobState = Literal["waiting", "running", "done", "failed", "lost"]
EVENTS = 1_000  # progress events kept of one job


@dataclass
class Job:
    """One piece of long work: its state, and the events that tell its progress."""

    id: str
    table: str
    who: str
    what: str
    at: float
    state: JobState = "waiting"
    facts: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "lost")

    def tell(self, kind: str, **facts: Any) -> None:
        """Add an event and wake who waits for it."""
        with self._changed:
            if len(self.events) < EVENTS or kind != "progress":
                self.events.append({"number": len(self.events) + 1, "event": kind, **facts})
            self._changed.notify_all()

    def follow(self, after: int = 0, seconds: float = 15.0) -> Iterator[dict[str, Any]]:
        """The events after a number, as they come; an empty dict when nothing came for `seconds`."""
        while True:
            with self._changed:
                if len(self.events) <= after and not self.over:
                    self._changed.wait(seconds)
                fresh = self.events[after:]
                ended = self.over
            yield from fresh
            after += len(fresh)
            if ended and not fresh:
                return
            if not fresh:
                yield {}

    def as_dict(self) -> dict[str, Any]:
        """The job as plain data."""
        last = next((event for event in reversed(self.events) if event["event"] == "progress"), None)
        return {
            "id": self.id,
            "table": self.table,
            "analyst": self.who,
            "what": self.what,
            "at": self.at,
            "state": self.state,
            "progress": None if last is None else {word: last[word] for word in ("what", "done", "steps")},
            **self.facts,
        }


class Jobs:
    """The jobs of a service."""

    def __init__(self, state: State, most: int) -> None:
        self._state = state
        self._most = most
        self._jobs: dict[str, Job] = {}
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._recall()

    def submit(self, principal: Principal, table: str, what: str, work: Callable[[], dict[str, Any]]) -> Job:
        """Run `work` when its turn comes; what it returns becomes facts of the job."""
        with self._lock:
            waiting = sum(1 for job in self._jobs.values() if job.table == table and not job.over)
            if waiting >= self._most:
                raise TooManyRequests(
                    f"{waiting} jobs of this table wait or run already", seconds=30, advice="nothing was charged"
                )
            job = Job(secrets.token_hex(8), table, principal.account, what, now())
            self._jobs[job.id] = job
            pool = self._pools.setdefault(table, ThreadPoolExecutor(1, f"maquette-job-{table}"))
        try:
            self._save(job, new=True)
        except BaseException:
            del self._jobs[job.id]
            raise
        pool.submit(contextvars.Context().run, self._run, job, work)
        return job

    def get(self, id: str) -> Job:  # noqa: A002
        """A job by its id."""
        found = self._jobs.get(id)
        if found is None:
            raise NotFound(f"there is no job {id[:80]!r}")
        return found

    def of(self, table: str) -> list[Job]:
        """The jobs of a table, oldest first."""
        return sorted((job for job in self._jobs.values() if job.table == table), key=lambda job: job.at)

    def close(self) -> None:
        """Wait for running jobs; those that have not begun never run."""
        self.closing.set()
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, work: Callable[[], dict[str, Any]]) -> None:
        job.state = "running"
        job.tell("running")
        self._saved(job)
        try:
            with watch_progress(lambda what, done, steps: job.tell("progress", what=what, done=done, steps=steps)):
                job.facts = work()
            job.state = "done"
        except MaquetteError as error:
            job.facts, job.state = {"error": {"code": error.code, "detail": str(error)}}, "failed"
        except Exception as error:  # its text could hold anything
            job.facts, job.state = {"error": {"code": "service", "detail": type(error).__name__}}, "failed"
        saved = self._saved(job)
        job.tell(job.state, **job.facts)
        while not saved and not self.closing.wait(RETRY_SECONDS):
            saved = self._saved(job)

    def _saved(self, job: Job) -> bool:
        """Write down what became of a job; whether the database was there."""
        try:
            self._save(job)
        except sa.exc.DBAPIError:
            return False
        return True

    def _save(self, job: Job, *, new: bool = False) -> None:
        facts = as_text({"what": job.what, **job.facts})
        row = {"at": job.at, "table": job.table, "who": job.who, "state": job.state, "facts": facts}
        with self._state.begin() as connection:
            if new:
                connection.execute(kept.jobs.insert().values(id=job.id, **row))
            else:
                connection.execute(kept.jobs.update().where(kept.jobs.c.id == job.id).values(**row))

    def _recall(self) -> None:
        """Know the jobs of before; those that were under way are lost."""
        for row in self._state.rows(sa.select(kept.jobs)):
            facts = json.loads(row["facts"])
            job = Job(row["id"], row["table"], row["who"], facts.pop("what"), row["at"], row["state"], facts)
            if not job.over:
                job.state = "lost"
                self._save(job)
            job.tell(job.state, **job.facts)
            self._jobs[job.id] = job
