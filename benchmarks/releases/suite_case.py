"""One release of one table of the suite, in a process of its own: python -m releases.suite_case CASE, a JSON object.

CASE: table, epsilon, method, ways (3), limit (seconds of CPU time). It prints one: the errors, the cost, a note. A
method that cannot run, or does not end within the limit, gives a note alone.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

import maquette as mq
from maquette.query import Workload
from releases import averages, baselines
from releases.distance import Codes, Values, counted, distance, sampled, some
from releases.suite import SuiteTable, table

DELTA = 1e-9
OURS = ("auto", "everything", "adaptive", "graphical", "mixture")
BASELINES = ("independent columns", "noisy tables", "resampling")


class OutOfTime(BaseException):
    """The limit of CPU time has passed; not an Exception, so that nothing on the way takes it for its own."""


@dataclass(frozen=True)
class Made:
    """A release: its marginals (of at most `ways` columns, ascending), its synthetic rows if it has any, a note."""

    answers: Callable[[tuple[int, ...]], Values]
    rows: Callable[[], Codes] | None
    note: str
    ways: int = 3


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` when this process has used this CPU time; compiled code is stopped when it next returns."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def ours(found: SuiteTable, case: dict[str, Any]) -> Made:
    """A release of Maquette, under the default accounting."""
    schema = found.schema
    made = mq.release(found.curator(case["epsilon"], DELTA), workload(schema, case["ways"]), method=case["method"])

    def answers(columns: tuple[int, ...]) -> Values:
        return made.marginal(*(schema.names[i] for i in columns))

    def rows() -> Codes:
        drawn = made.sample(len(found.codes))
        return np.stack([column.encode(drawn[column.name]) for column in schema], axis=1).astype(np.int64)

    return Made(answers, rows, made.certificate.method)


def workload(schema: mq.Schema, ways: int) -> Workload:
    """Every table of this many columns."""
    return mq.marginals(schema, k=min(ways, len(schema)))


def baseline(found: SuiteTable, case: dict[str, Any]) -> Made:
    """What any method should beat, and the floor: resampled rows."""
    rows, sizes = found.codes.astype(np.int64), list(found.schema.shape(found.schema.names))
    if case["method"] == "resampling":
        again = rows[np.random.default_rng().integers(0, len(rows), len(rows))]
        return Made(lambda columns: counted(again, sizes, columns) / len(again), lambda: again, "baseline")
    if case["method"] == "independent columns":
        marginal, synthetic = baselines.product(rows, sizes, case["epsilon"], DELTA)
        return Made(marginal, lambda: synthetic, "baseline")
    return Made(noisy_tables(rows, sizes, case), None, "baseline", min(3, case["ways"]))


def noisy_tables(rows: Codes, sizes: list[int], case: dict[str, Any]) -> Callable[[tuple[int, ...]], Values]:
    """Every table of the workload is paid for; only those that are looked at are made. Smaller tables are sums."""
    ways = min(case["ways"], len(sizes))
    made: dict[tuple[int, ...], Values] = {}
    paid = math.comb(len(sizes), ways)

    def whole(columns: tuple[int, ...]) -> Values:
        if columns not in made:
            made[columns] = baselines.noisy(rows, sizes, [columns], case["epsilon"], DELTA, paid=paid)[columns]
        return made[columns]

    def answers(columns: tuple[int, ...]) -> Values:
        others = sorted((i for i in range(len(sizes)) if i not in columns), key=lambda i: (sizes[i], i))
        larger = tuple(sorted((*columns, *others[: ways - len(columns)])))
        kept = whole(larger).sum(axis=tuple(at for at, i in enumerate(larger) if i not in columns))
        return np.asarray(kept)

    return answers


def compared(found: SuiteTable, made: Made) -> dict[str, float]:
    """The distance of a release from the rows."""
    rows, sizes = found.codes.astype(np.int64), list(found.schema.shape(found.schema.names))
    errors: dict[str, float] = {}
    for ways in range(1, made.ways + 1):
        far = distance(rows, sizes, some(sizes, ways), made.answers)
        errors |= {f"{ways}-way": far["tvd"], f"{ways}-way cell": far["cell"]}
    errors |= averages.errors(found.schema, found.codes, found.target, made.answers)
    if made.rows is not None:
        far = sampled(rows, sizes, some(sizes, 3), made.rows())
        errors |= {"rows 3-way": far["rows tvd"], "rows cell": far["rows cell"]}
    return errors


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One case, in this process."""
    found = table(case["table"])
    _ = found.codes
    began, cpu = time.perf_counter(), time.process_time()
    try:
        with within(case["limit"]):
            made = (baseline if case["method"] in BASELINES else ours)(found, case)
    except OutOfTime:
        return {"note": f"not done in {case['limit']:g} CPU s"}
    except mq.MaquetteError as refused:
        return {"note": f"cannot run: {refused}"}
    spent = {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    try:
        with within(max(60.0, 2 * case["limit"])):
            errors = compared(found, made)
    except OutOfTime:
        return {**spent, "memory": memory, "note": f"{made.note}; comparing its tables took too long"}
    return {**spent, "memory": memory, **errors, "note": made.note}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
