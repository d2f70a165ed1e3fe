"""Coverage of sessions: how often a promise is missed over many short sessions, whoever asks.

python benchmarks/session_coverage.py [--sessions 600] [--out benchmarks/results/session_coverage.json]

Each session is new, with noise as in use, and asked by one of six analysts in turn. Two do not look at errors: one
asks at random, one for whole distribution functions. Four know the table and see the error of every answer: one adds
up the cells that err one way, one asks for the ranges between the cuts whose errors are furthest apart, and has more
measured where errors disappoint, and two go on where the number of rows, which counts and tables share, seems to be
far off: with sets of levels, or with tables of another column. *Together*: a session fails if any of its intervals
misses (beta 0.1). *Each*: an answer fails if its interval misses (beta 0.1), for the first two analysts, to whom that
is promised; one answer of each session is judged, drawn beforehand, so that failures are independent. A rate is refuted
by an exact binomial test at one in a million; power is the least rate that would be refuted with probability 0.999.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import maquette as mq  # noqa: E402
from theorem_runs.judge import judged, power  # noqa: E402

ROWS, BETA, ALPHA = 4_000, 0.1, 0.05
AGES, HOURS, TOWNS = 16, 12, ("a", "b", "c")
SCHEMA = mq.Schema(
    [mq.Integer("age", 0, AGES - 1), mq.Integer("hours", 0, HOURS - 1), mq.Category("town", list(TOWNS))]
)


class Table:
    """Rows, and the exact number of those in a range of each column."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.age = np.minimum(rng.geometric(0.15, ROWS) - 1, AGES - 1)
        self.hours = (self.age + rng.integers(0, 9, ROWS)) % HOURS
        self.town = rng.choice(len(TOWNS), ROWS, p=[0.7, 0.25, 0.05])
        columns = {"age": self.age, "hours": self.hours, "town": [TOWNS[i] for i in self.town]}
        self.opened = mq.open_table(columns, SCHEMA)

    def count(self, ages: range, hours: range = range(HOURS), towns: tuple[int, ...] = (0, 1, 2)) -> int:
        held = np.isin(self.age, list(ages)) & np.isin(self.hours, list(hours)) & np.isin(self.town, towns)
        return int(held.sum())


class Witness:
    """Asks a session, and keeps for every answer whether its interval missed, and its error."""

    def __init__(self, table: Table, *, together: bool) -> None:
        self._table = table
        curator = mq.Curator(table.opened, mq.Budget(rho=1_000.0, delta=1e-9))
        self._session = mq.online(curator, alpha=ALPHA, beta=BETA, simultaneous=together, rows=ROWS, warm_start="none")
        self.missed: list[bool] = []

    def ask(self, ages: range, hours: range = range(HOURS), towns: tuple[int, ...] = (0, 1, 2)) -> float:
        """The error of a count; each condition is left out where it holds every level."""
        told = []
        if len(ages) < AGES:
            told.append(f"age BETWEEN {ages[0]} AND {ages[-1]}")
        if len(hours) < HOURS:
            told.append(f"hours BETWEEN {hours[0]} AND {hours[-1]}")
        if len(towns) < len(TOWNS):
            told.append("town IN (" + ", ".join(f"'{TOWNS[i]}'" for i in towns) + ")")
        where = f" WHERE {' AND '.join(told)}" if told else ""
        (one,) = self._session.ask(f"SELECT count(*) FROM t{where}").numbers
        exact = self._table.count(ages, hours, towns)
        self.missed.append(not one.low <= exact <= one.high)
        return float(one.value) - exact

    def sum_of(self, ages: list[int], hours: list[int] | None = None) -> float:
        """The error of the number of rows of some ages, and hours if given."""
        told = f"age IN ({', '.join(map(str, ages))})"
        told += "" if hours is None else f" AND hours IN ({', '.join(map(str, hours))})"
        (one,) = self._session.ask(f"SELECT count(*) FROM t WHERE {told}").numbers
        held = np.isin(self._table.age, ages)
        exact = int((held if hours is None else held & np.isin(self._table.hours, hours)).sum())
        self.missed.append(not one.low <= exact <= one.high)
        return float(one.value) - exact


def wanderer(witness: Witness, rng: np.random.Generator) -> None:
    """Asks for ranges, cells and tables at random."""
    for _ in range(8):
        low, high = np.sort(rng.integers(0, AGES, 2))
        some = int(rng.integers(1, HOURS))
        towns = (0, 1, 2) if rng.random() < 0.5 else (int(rng.integers(3)),)
        witness.ask(range(int(low), int(high) + 1), range(some) if rng.random() < 0.5 else range(HOURS), towns)


def statistician(witness: Witness, rng: np.random.Generator) -> None:
    """Asks for the distribution function of a column, and for some of that of two."""
    for i in rng.permutation(AGES - 1):
        witness.ask(range(int(i) + 1))
    for _ in range(8):
        witness.ask(range(int(rng.integers(1, AGES))), range(int(rng.integers(1, HOURS))))


def summer(witness: Witness, rng: np.random.Generator) -> None:
    """Adds up the cells that err one way."""
    errors = np.array([witness.ask(range(i, i + 1)) for i in range(AGES)])
    for chosen in (errors > 0, errors < 0, errors > np.median(errors)):
        ages = np.flatnonzero(chosen).tolist()
        if ages:
            witness.sum_of(ages)


def chaser(witness: Witness, rng: np.random.Generator) -> None:
    """Asks for distribution functions, then for the ranges between the cuts whose errors are furthest apart."""
    errors = [0.0, *(witness.ask(range(i + 1)) for i in range(AGES - 1))]
    for _ in range(2):
        first, last = sorted((int(np.argmin(errors)), int(np.argmax(errors))))
        if first == last:
            break
        error = witness.ask(range(first, last))
        if abs(error) < 0.3 * ALPHA * ROWS:  # it disappoints: have more measured about these ages
            for i in range(3):
                witness.ask(range(first, last), range(i + 1))
        errors[last] = 0.0
    worst = int(np.argmax(np.abs(errors)))
    for hours in (range(HOURS // 2), range(HOURS // 2, HOURS)):
        witness.ask(range(max(1, worst)), hours)


def gambler(witness: Witness, rng: np.random.Generator) -> None:
    """Asks for sets of levels, and for more of them the further the last ones were off in one direction."""
    errors = list[float]()
    while len(errors) < 32 or (len(errors) < 64 and abs(float(np.mean(errors[-8:]))) > 0.1 * ALPHA * ROWS):
        ages, hours = (np.flatnonzero(rng.random(size) < 0.5).tolist() for size in (AGES, HOURS))
        if ages and hours:
            errors.append(witness.sum_of(ages, hours))


def follower(witness: Witness, rng: np.random.Generator) -> None:
    """Asks for the tables of another column only where all of one err alike, as the rows that they share make them."""
    errors = [witness.ask(range(i + 1)) for i in range(AGES - 1)]
    if abs(float(np.mean(errors))) > 0.1 * ALPHA * ROWS:
        for i in rng.permutation(HOURS - 1):
            witness.ask(range(AGES), range(int(i) + 1))
        for i in range(1, HOURS - 1):
            witness.ask(range(AGES), range(i, HOURS - 1))
    worst = int(np.argmax(np.abs(errors)))
    for first in range(1, worst):
        witness.ask(range(first, worst + 1))


Analyst = Callable[[Witness, np.random.Generator], None]
BLIND: dict[str, Analyst] = {"asks at random": wanderer, "asks for distribution functions": statistician}
SEEING: dict[str, Analyst] = {"adds up what errs one way": summer, "chases the largest errors": chaser}
SEEING |= {"asks on where the rows are off": gambler, "buys tables where the rows are off": follower}


def runs(analyst: Analyst, sessions: int, *, together: bool, table: Table, seed: int) -> tuple[int, int]:
    """Failures over some sessions, and how many answers there were."""
    failures = answers = 0
    for i in range(sessions):
        rng = np.random.default_rng([seed, i])
        witness = Witness(table, together=together)
        analyst(witness, rng)
        answers += len(witness.missed)
        failures += any(witness.missed) if together else witness.missed[int(rng.integers(len(witness.missed)))]
    return failures, answers


def main() -> None:
    parser = argparse.ArgumentParser(description="How often promises of sessions are missed.")
    parser.add_argument("--sessions", type=int, default=600, help="of each mode, shared by its analysts")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    given = parser.parse_args()
    table, found = Table(5), list[dict[str, object]]()
    for together, analysts in ((True, BLIND | SEEING), (False, BLIND)):
        each = given.sessions // len(analysts)
        total = told = 0
        start = time.process_time()
        for seed, (name, analyst) in enumerate(analysts.items()):
            failures, answers = runs(analyst, each, together=together, table=table, seed=seed)
            mode = "together" if together else "each"
            print(f"{mode:8} {name:34} {each} sessions, {answers} answers, {failures} failed", flush=True)
            found.append({"mode": mode, "analyst": name, "sessions": each, "answers": answers, "failed": failures})
            total, told = total + failures, told + each
        verdict = judged(total, told, BETA)
        print(
            f"{mode}: {total} of {told} failed at beta {BETA}: rate below {verdict.high:.3f}; a rate of "
            f"{power(told, BETA):.3f} would be refuted; {'REFUTED' if verdict.refuted else 'not refuted'}; "
            f"{time.process_time() - start:.0f} CPU s",
            flush=True,
        )
        found.append({"mode": mode, "analyst": "all", "sessions": told, "failed": total, "power": power(told, BETA)})
    if given.out:
        given.out.write_text(json.dumps({"beta": BETA, "alpha": ALPHA, "rows": ROWS, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
