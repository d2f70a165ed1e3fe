"""Many threads on one session: a table, a session on it, and questions that are held back once they are planned."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from session_checks import SeededNoise

import maquette as mq
from maquette.curator import Curator
from maquette.session.record import Record
from maquette.session.session import Session

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Category("region", ["north", "east", "south"]),
        *(mq.Boolean(name) for name in "abcdef"),
    ]
)
ROWS = 4_000


@functools.cache
def opened_table() -> mq.PrivateTable:
    rng = np.random.default_rng(11)
    return mq.open_table(
        {
            "age": rng.integers(0, 100, ROWS),
            "region": rng.choice(["north", "east", "south"], ROWS),
            **{name: rng.random(ROWS) < 0.4 for name in "abcdef"},
        },
        SCHEMA,
    )


BUDGET = mq.Budget(rho=40.0, delta=1e-9)
QUESTIONS = [f"{x} AND {y} AND region = '{where}'" for x, y in ("ab", "cd", "ef", "ac") for where in ("north", "east")]
QUESTIONS += [f"SELECT {x}, count(*) FROM people WHERE age >= 50 GROUP BY {x}" for x in "abc"]


@contextmanager
def opened(path: Path | None, budget: mq.Budget = BUDGET, seed: int = 1, **named: Any) -> Iterator[Session]:
    with Curator(opened_table(), budget, ledger=path, noise=SeededNoise(seed)) as curator:
        yield mq.online(curator, **{"alpha": 0.05, "rows": ROWS, "warm_start": "none", **named})


def numbers(answer: mq.Answered) -> list[Any]:
    return [(one.value, one.low, one.high, one.guarantee is not None) for one in answer.numbers]


class Flights:
    """Asks in threads, one after the other, each held back once it is planned."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.pool = ThreadPoolExecutor(16)
        self.told: list[Any] = []

    def ask(self, text: str, **named: Any) -> None:
        """Ask, and return when the question is in flight or answered; or, for a while, waits for what others buy."""
        future = self.pool.submit(self.session.ask, text, **named)
        future.add_done_callback(lambda _: self.begun.release())
        self.told.append(future)
        self.begun.acquire(timeout=4)


@contextmanager
def held_back(session: Session, count: int) -> Iterator[Flights]:
    flights, measure = Flights(session), Record._measure

    def wait(self: Record, *args: Any) -> Any:
        flights.begun.release()
        assert flights.gate.wait(120)
        return measure(self, *args)

    with mock.patch.object(Record, "_measure", wait):
        yield flights
        flights.gate.set()
        flights.pool.shutdown()
    for future in flights.told:
        future.result()


@contextmanager
def held_back_calls(flights: Flights, measure: Callable[..., Any]) -> Iterator[None]:
    def wait(self: Record, *args: Any) -> Any:
        flights.begun.release()
        assert flights.gate.wait(120)
        return measure(self, *args)

    with mock.patch.object(Record, "_measure", wait):
        yield
        flights.gate.set()
        flights.pool.shutdown()
