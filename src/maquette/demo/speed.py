"""How fast this installation is: counting, noise, ledger, session; takes a few seconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

import maquette as mq
from maquette.curator import ExactNoise
from maquette.demo.questions import stream
from maquette.demo.table import SCHEMA, survey

Result = TypeVar("Result")
Part = Literal["counting", "noise", "ledger", "session"]

BUDGET = mq.Budget(epsilon=1.0, delta=1e-9)


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    part: Part
    name: str
    value: float
    unit: str


def measure(part: Part, rows: int = 100_000) -> list[Figure]:
    """Measure one part on the generated survey, after a warm-up; wall-clock time, so use an idle machine."""
    return list(PARTS[part](rows))


def _counting(rows: int) -> Iterator[Figure]:
    """Open a table of `rows` rows, then count and measure every pair of its columns."""
    people = survey(rows)
    _measured(mq.open_table(people.slice(0, 1_000), SCHEMA))  # compiles what it needs
    opened, table = _timed(lambda: mq.open_table(people, SCHEMA))
    yield Figure("counting", "rows opened and checked", rows / opened, "per second")
    counted, sets = _timed(lambda: _measured(table))
    yield Figure("counting", "two-column tables counted and measured", sets / counted, "per second")


def _measured(table: mq.PrivateTable) -> int:
    """Returns how many tables were measured."""
    pairs = list(mq.marginals(SCHEMA, k=2).marginals)
    with mq.Curator(table, BUDGET) as curator:
        curator.measure_many(pairs, rho=1e-6)
    return len(pairs)


def _noise(rows: int) -> Iterator[Figure]:
    """Exact noise at a scale of ten rows."""
    source, scale = ExactNoise(), Fraction(10)
    laws: dict[str, Callable[[], object]] = {
        "exact discrete Laplace": lambda: source.laplace(scale, rows),
        "exact discrete Gaussian": lambda: source.gaussian(scale * scale, rows),
    }
    for name, draw in laws.items():
        draw()
        seconds, _ = _timed(draw)
        yield Figure("noise", name, rows / seconds, "values per second")


def _ledger(rows: int) -> Iterator[Figure]:
    """Charges that are on disk before anything is drawn; this measures the disk more than the program."""
    del rows
    schema = mq.Schema([mq.Integer("c", 0, 99)])
    table = mq.open_table({"c": np.arange(1_000) % 100}, schema)
    asked = [f"c >= {value}" for value in range(1, 50)]
    with tempfile.TemporaryDirectory() as folder:
        for name, place in (("durable charges, one client", Path(folder) / "bench.ledger"), ("in memory", None)):
            with mq.Curator(table, BUDGET, ledger=place) as curator:
                mq.answer(curator, "c >= 50", rho=1e-8)
                start = time.perf_counter()
                for text in asked:
                    mq.answer(curator, text, rho=1e-8)
                seconds = time.perf_counter() - start
            yield Figure("ledger", f"questions charged and answered, {name}", len(asked) / seconds, "per second")


def _session(rows: int) -> Iterator[Figure]:
    """A stream of random questions on the survey, then the same stream again."""
    with mq.Curator(mq.open_table(survey(rows), SCHEMA), BUDGET) as curator:
        opened, session = _timed(lambda: mq.online(curator, alpha=0.02, warm_start=2))
        yield Figure("session", "opened, all pairs bought in advance", opened, "seconds")
        asked = list(dict.fromkeys(stream(300, np.random.default_rng(1))))
        for name in ("new questions", "known questions"):
            seconds, _ = _timed(lambda: [session.ask(text) for text in asked])
            yield Figure("session", name, len(asked) / seconds, "per second")


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


PARTS: dict[Part, Callable[[int], Iterator[Figure]]] = {
    "counting": _counting,
    "noise": _noise,
    "ledger": _ledger,
    "session": _session,
}
