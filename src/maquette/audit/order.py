"""One recorder for all doors: reserve before read, commit before release.

The ledger's `reserve` and `commit`, the engine's reading methods and the noise source all write to one list of steps.
`reserve` and `commit` are written when they are done, `read` and `draw` when they begin.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from maquette.audit.reference.quiet import QuietNoise
from maquette.audit.tiny import ANSWERS, BASE, QUESTIONS, SEVERAL, asked, tiny_table
from maquette.curator import Curator, PrivateTable
from maquette.privacy import Budget

READING = ("counts", "blocks", "prefetch")
VALUES = ("sums", "amounts")  # of an engine that also keeps values


class OutOfOrder(AssertionError):
    """Rows were read without a reservation, or something was released before it was recorded."""


class _WatchedEngine:
    """An engine that records its reads."""

    def __init__(self, engine: Any, steps: list[str]) -> None:
        self._engine = engine
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        if name in (*READING, *VALUES) or name == "rows":
            self._steps.append("rows" if name == "rows" else "read")
        return getattr(self._engine, name)


@contextmanager
def watched(curator: Curator, steps: list[str]) -> Iterator[None]:
    """Record the steps of everything that goes through this curator; its noise must be a `QuietNoise(steps)`."""
    ledger = curator.ledger
    engines = [name for name, value in vars(curator).items() if all(callable(getattr(value, m, None)) for m in READING)]
    if not engines:
        raise OutOfOrder("this curator has no engine to watch")
    with ExitStack() as stack:
        for name in engines:
            stack.enter_context(mock.patch.object(curator, name, _WatchedEngine(getattr(curator, name), steps)))
        for name in ("reserve", "commit"):
            stack.enter_context(mock.patch.object(ledger, name, _spy(getattr(ledger, name), name, steps)))
        yield


def _spy(original: Callable[..., Any], name: str, steps: list[str]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        done = original(*args, **named)
        steps.append(name)
        return done

    return call


def check_steps(steps: list[str], *, charged: bool, rows_are_public: bool = False) -> None:
    """The rule: read only under a reservation, draw only after one, and return only when all are recorded."""
    pending = reserved = committed = 0
    for place, step in enumerate(steps):
        if step == "reserve":
            pending, reserved = pending + 1, reserved + 1
        elif step == "commit":
            pending, committed = pending - 1, committed + 1
        elif step == "draw" and not reserved:
            raise OutOfOrder(f"step {place + 1} draws before any charge: {steps[:20]}")
        elif (step == "read" or (step == "rows" and not rows_are_public)) and not pending:
            raise OutOfOrder(f"step {place + 1} reads rows without a pending charge: {steps[:20]}")
        if pending < 0:
            raise OutOfOrder(f"step {place + 1} records what was not reserved: {steps[:20]}")
    if pending:
        raise OutOfOrder(f"released before {pending} answers were recorded: {steps[:20]}")
    if charged and not committed:
        raise OutOfOrder(f"nothing was charged and recorded: {steps[:20]}")


Door = Callable[[Curator], Any]
_TABLE = np.array([[0, 1, 2, 0, 1, 0, 1.0, 0.2, 0.5], np.zeros(9)])


def _guard(curator: Curator, **settings: Any) -> Any:
    guard = curator.guard(1.5, hits=3, epsilon=0.5, **settings)
    return [guard.test(asked("a"), answer) for answer in (1.0, 50.0, 0.0)]


def _lazy(curator: Curator) -> Any:
    guard = curator.lazy_guard(1.5, hits=3, epsilon=0.5)
    return [guard.test(asked("a"), answer) for answer in (1.0, 50.0)]


def _lottery(curator: Curator, between: tuple[float, float] | None = None) -> Any:
    lottery = curator.lottery(SEVERAL, between=between)
    return [lottery.draw(np.linspace(0, 2, 9), draws=2, epsilon=0.2) for _ in range(2)]


DOORS: dict[str, Door] = {
    "measure": lambda c: [c.measure(q, epsilon=0.1) for q in QUESTIONS],
    "measure_many": lambda c: c.measure_many(SEVERAL, epsilon=0.1),
    "measure_error": lambda c: c.measure_error(SEVERAL, ANSWERS, epsilon=0.1),
    "select_worst: cells": lambda c: c.select_worst(SEVERAL, ANSWERS, epsilon=0.1),
    "select_worst: signed": lambda c: c.select_worst(SEVERAL, ANSWERS, epsilon=0.1, signed=True),
    "select_worst: marginals": lambda c: c.select_worst(SEVERAL, ANSWERS, epsilon=0.1, over="marginals"),
    "select_best": lambda c: c.select_best(SEVERAL, _TABLE, epsilon=0.1),
    "guard": _guard,
    "guard without numbers": lambda c: _guard(c, numeric=False),
    "lazy_guard": _lazy,
    "lottery": _lottery,
    "lottery between": lambda c: _lottery(c, (0.5, 1.5)),
    "count_rows": lambda c: c.count_rows(epsilon=0.1),
}
FREE: dict[str, Door] = {
    "opening a lottery": lambda c: c.lottery(SEVERAL),
    "cost_of, spent, remaining": lambda c: (c.cost_of([]), c.spent, c.remaining, repr(c)),
    "recall": lambda c: c.recall("nothing"),
}


def check_door(
    door: Door,
    *,
    budget: Budget | None = None,
    relation: Any = "add-remove",
    charged: bool = True,
    rows: PrivateTable | None = None,
) -> None:
    """Run one door, or a whole loop over doors, under the recorder."""
    steps: list[str] = []
    chosen = Budget(epsilon=50.0, delta=1e-9, accounting="basic") if budget is None else budget
    table = tiny_table((*BASE, ((1, 1),), ((0, 2),)), 1) if rows is None else rows
    with Curator(table, chosen, relation=relation, noise=QuietNoise(steps)) as curator, watched(curator, steps):
        public = curator.relation.rows_are_public
        door(curator)
        check_steps(steps, charged=charged, rows_are_public=public)


def check_replay() -> None:
    """An answered request is answered from the record: no step except the ledger's own."""
    steps: list[str] = []
    with Curator(tiny_table(BASE, 1), Budget(epsilon=9.0), noise=QuietNoise(steps)) as curator:
        with watched(curator, steps):
            first = curator.measure(["a"], epsilon=0.5, request="one")
            steps.clear()
            again = curator.measure(["a"], epsilon=0.5, request="one")
        if set(steps) - {"reserve"} or again.values.tolist() != first.values.tolist():
            raise OutOfOrder(f"a repeated request was evaluated again: {steps}")


def check_order() -> None:
    """Every door, under both relations."""
    for relation, door in itertools.product(("add-remove", "replace"), DOORS.values()):
        free = door is DOORS["count_rows"] and relation == "replace"
        check_door(door, relation=relation, charged=not free)
    for door in FREE.values():
        check_door(door, charged=False)
    check_replay()
