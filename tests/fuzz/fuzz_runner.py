"""Run one fuzz target over many inputs: each input is a function of the seed and its number, so it can be run again.

A *finding* is an input on which the target raised something that it does not document, took too much time (of the
processor: the machine may be busy) or memory, or broke its own property. Long runs use worker processes: the parent
sees a crash or a hang of a worker, notes the input and starts another worker after it.
"""

from __future__ import annotations

import atexit
import multiprocessing as mp
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from maquette.errors import MaquetteError

SECONDS = 2.0
MEGABYTES = 200
LONGEST_MESSAGE = 12_000
_ROOM = 2 * 2**30  # of address space above what a worker starts with: a bomb ends the input, not the machine
_KEPT = 40  # findings reported in full
_STEP = 1_000  # how many inputs between two reports of a worker


_folders: list[tuple[int, Path]] = []


def memory_folder(prefix: str) -> Path:
    """A new folder, in memory where there is such a place; it goes with the process that asked for it."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=shared if shared.is_dir() else None))
    if not _folders:
        atexit.register(_remove_folders)
    _folders.append((os.getpid(), path))
    return path


def _remove_folders() -> None:
    for owner, path in _folders:
        if owner == os.getpid():
            shutil.rmtree(path, ignore_errors=True)


class Broken(AssertionError):
    """A property of the target does not hold on this input."""


class _TooSlow(BaseException):
    pass


@dataclass(frozen=True)
class Target:
    """What to run: `make` an input from a generator, then `run` it; `run` returns a word for what became of it.

    `raises` are the documented errors. `check` holds for every one of them, given the input.
    """

    name: str
    make: Callable[[random.Random], Any]
    run: Callable[[Any], str]
    raises: tuple[type[MaquetteError], ...]
    check: Callable[[Any, MaquetteError], None] = lambda given, error: None
    seconds: float = SECONDS


@dataclass
class Outcome:
    """What became of a range of inputs."""

    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    found: int = 0
    slowest: tuple[float, int] = (0.0, -1)
    seconds: float = 0.0
    peak: tuple[float, int] = (0.0, -1)

    def add(self, other: Outcome) -> None:
        """Take in another range."""
        self.count += other.count
        self.outcomes += other.outcomes
        self.findings = [*self.findings, *other.findings][:_KEPT]
        self.found += other.found
        self.slowest = max(self.slowest, other.slowest)
        self.seconds += other.seconds
        self.peak = max(self.peak, other.peak)

    def note(self, number: int, problem: str, given: Any) -> None:
        """Add a finding."""
        self.found += 1
        if len(self.findings) < _KEPT:
            self.findings.append({"input": number, "problem": problem, "shown": repr(given)[:400]})


Job = tuple[str, int, Callable[[str], Target]]  # which target, its seed, and where targets come from


def made(target: Target, seed: int, number: int) -> Any:
    """The input of this number."""
    return target.make(random.Random(seed * 2**40 + number))


def run(target: Target, seed: int, first: int, count: int) -> Outcome:
    """Run inputs in this process."""
    total = Outcome()
    began = time.perf_counter()
    signal.signal(signal.SIGPROF, _alarm)
    highest = _peak()  # asked once for each input: where the kernel adds up every page it takes a millisecond
    with open("/proc/self/statm", "rb", buffering=0) as memory:
        for number in range(first, first + count):
            given = made(target, seed, number)
            before, start = _resident(memory.fileno()), time.process_time()
            word, problem = _one(target, given)
            took = time.process_time() - start
            reached = _peak()
            grown, highest = reached - before if reached > highest else 0.0, reached
            total.slowest, total.peak = max(total.slowest, (took, number)), max(total.peak, (grown, number))
            if problem is None and took > target.seconds:
                problem = f"took {took:.1f} s"
            if problem is None and grown > MEGABYTES:
                problem = f"took {grown:.0f} MB"
            total.outcomes[word] += 1
            if problem is not None:
                total.note(number, problem, given)
    total.count, total.seconds = count, time.perf_counter() - began
    return total


def _one(target: Target, given: Any) -> tuple[str, str | None]:
    try:
        with _deadline(4 * target.seconds):
            return target.run(given), None
    except _TooSlow:
        return "too slow", f"was interrupted after {4 * target.seconds:.0f} s"
    except Broken as broken:
        return "broken", f"broken: {broken}"
    except MaquetteError as error:
        return type(error).__name__, _judged(target, given, error)
    except BaseException as error:  # whatever else comes out is what we are looking for
        if isinstance(error, KeyboardInterrupt):
            raise
        return type(error).__name__, f"{type(error).__name__}: {str(error)[:200]}"


def _judged(target: Target, given: Any, error: MaquetteError) -> str | None:
    """What is wrong with a refusal: its kind, its text, or what the target checks."""
    text = str(error)
    if not isinstance(error, target.raises):
        return f"undocumented {type(error).__name__}: {text[:200]}"
    if not 0 < len(text) <= LONGEST_MESSAGE:
        return f"a message of {len(text):,} characters"
    try:
        text.encode("utf-8")
        target.check(given, error)
    except (UnicodeError, Broken) as broken:
        return f"message: {broken}"
    return None


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _alarm(*_: object) -> None:
    raise _TooSlow


def _resident(descriptor: int) -> float:
    pages = int(os.pread(descriptor, 200, 0).split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def run_in_workers(
    name: str,
    seed: int,
    *,
    first: int,
    count: int,
    workers: int,
    target_of: Callable[[str], Target],
    minutes: float | None = None,
) -> Outcome:
    """Split the range among workers; a worker that crashes or hangs is a finding, and its range goes on after it.

    After so many `minutes` each worker ends with its present step.
    """
    total, context = Outcome(), mp.get_context("fork")
    share = -(-count // workers)
    ranges = [(at, min(share, first + count - at)) for at in range(first, first + count, share)]
    threads = [_Worker(context, (name, seed, target_of), first=start, size=size) for start, size in ranges]
    began = time.perf_counter()
    while any(worker.pending for worker in threads):
        for worker in threads:
            worker.look(total)
            if minutes is not None and time.perf_counter() - began > 60 * minutes:
                worker.stop()
        time.sleep(0.02)
    total.seconds = time.perf_counter() - began
    return total


class _Worker:
    """One worker process after another, over one range."""

    patience = 60 + 8 * SECONDS  # seconds by the clock without another input, after which a worker hangs

    def __init__(self, context: Any, job: Job, *, first: int, size: int) -> None:
        self.context, self.job = context, job
        self.end, self.next = first + size, first
        self.pending = size > 0
        self.process: Any = None

    def _start(self) -> None:
        self.at: Synchronized[int] = self.context.Value("q", self.next)
        self.results, self.stopped = self.context.SimpleQueue(), self.context.Event()
        work = (self.job, range(self.next, self.end), self.at, self.results, self.stopped)
        self.process = self.context.Process(target=_work, args=work, daemon=True)
        self.process.start()
        self.seen, self.since = -1, time.monotonic()

    def look(self, total: Outcome) -> None:
        """Collect results, and notice a crash or a hang."""
        if not self.pending:
            return
        if self.process is None:
            self._start()
        while not self.results.empty():
            outcome, self.next = self.results.get()
            total.add(outcome)
        if self.next >= self.end or (self.stopped.is_set() and self.process.exitcode == 0 and self.results.empty()):
            self.process.join()
            self.pending = False
            return
        now, at = time.monotonic(), self.at.value
        if at != self.seen:
            self.seen, self.since = at, now
        ended = not self.process.is_alive()
        if ended or now - self.since > self.patience:
            self._bury(total, at, None if ended else now - self.since)

    def stop(self) -> None:
        """End after the step at hand: what the worker did not come to is not counted."""
        if self.process is not None:
            self.stopped.set()

    def _bury(self, total: Outcome, at: int, waited: float | None) -> None:
        """Note which of the two it was: a process that ended by itself, or one that was `waited` for in vain."""
        how = "" if waited is None else f"hung: no other input for {waited:.0f} s, {_doing(self.process.pid)}"
        if waited is not None:
            self.process.kill()
        self.process.join()
        while not self.results.empty():
            outcome, self.next = self.results.get()
            total.add(outcome)
        if self.next < self.end:
            how = how or f"ended with {_ending(self.process.exitcode)}"
            word = "crashed" if waited is None else "hung"
            lost = Outcome(count=at + 1 - self.next, outcomes=Counter({word: 1}))
            name, seed, target_of = self.job
            lost.note(at, f"the process {how}", made(target_of(name), seed, at))
            total.add(lost)
            self.next, self.process = at + 1, None
        self.pending = self.next < self.end


def _ending(code: int) -> str:
    return f"exit code {code}" + (f", by {signal.Signals(-code).name}" if code < 0 else "")


def _doing(pid: int) -> str:
    """What the kernel says of a process: its state, its processor time, what it waits for. A busy machine runs it."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        said = f"in state {fields[0]} after {used:.0f} s of the processor"
        with suppress(OSError):
            said += f", waiting in {Path(f'/proc/{pid}/wchan').read_text('ascii')}"
        return said
    return "of which the kernel says nothing"


def _work(job: Job, numbers: range, at: Synchronized[int], results: Any, stopped: Any) -> None:
    (name, seed, target_of), first, end = job, numbers.start, numbers.stop
    target = target_of(name)
    run(target, seed, first, 1)  # imports and caches, before the room is measured
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, resource.RLIM_INFINITY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def make(rng: random.Random) -> Any:
        given = target.make(rng)
        at.value += 1
        return given

    watched = Target(target.name, make, target.run, target.raises, target.check, target.seconds)
    try:
        while first < end and not stopped.is_set():
            size = min(_STEP, end - first)
            at.value = first - 1
            outcome = run(watched, seed, first, size)
            first += size
            results.put((outcome, first))
    finally:
        _remove_folders()
