"""Reserve before read, commit before release: one recorder over every door, session and release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit.mutants import MUTANTS
from maquette.audit.order import DOORS, FREE, OutOfOrder, check_door, check_order, check_replay, check_steps
from maquette.curator import Curator
from maquette.query import Marginal

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"]), mq.Integer("c", 0, 3)])
RELATIONS = ("add-remove", "replace")


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(400) < 0.3, "b": rng.choice(list("xyz"), 400), "c": rng.integers(0, 4, 400)}
    return mq.open_table(columns, SCHEMA)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_reserves_reads_and_commits_in_order(door: str, relation: str) -> None:
    free = door == "count_rows" and relation == "replace"
    check_door(DOORS[door], relation=relation, charged=not free)


@pytest.mark.parametrize("door", FREE)
def test_what_is_free_reads_nothing(door: str) -> None:
    check_door(FREE[door], charged=False)


def test_a_repeated_request_reads_nothing() -> None:
    check_replay()


def _asked(curator: Curator) -> Any:
    session = mq.online(curator, alpha=0.1, rows=400)
    asks = ["a", "a AND b = 'x'", "c >= 2", "SELECT b, count(*), avg(c) FROM t GROUP BY b", "a"]
    return [session.ask(text) for text in asks]


METHODS = ("auto", "everything", "adaptive", "graphical", "mwem", "small-db", "dual-query", "both-learn", "laplace")
ROUTES: dict[str, Callable[[Curator], Any]] = {
    "answer": lambda c: mq.answer(c, "SELECT b, count(*), sum(c), avg(c) FROM t WHERE a GROUP BY b", epsilon=0.5),
    "session": _asked,
    "session without a row count": lambda c: mq.online(c, alpha=0.2).ask("a"),
    **{
        f"release: {method}": lambda c, method=method: mq.release(  # type: ignore[misc]
            c, mq.marginals(c.schema, k=2), method=method, epsilon=1.0
        )
        for method in METHODS
    },
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("route", ROUTES)
def test_sessions_and_releases_go_through_the_doors_in_order(table: mq.PrivateTable, route: str, relation: str) -> None:
    for budget in (mq.Budget(epsilon=20.0), mq.Budget(epsilon=20.0, delta=1e-9)):
        check_door(ROUTES[route], budget=budget, relation=relation, rows=table)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(("method", "budget"), [
    ("combined", mq.Budget(epsilon=20.0, delta=1e-9)),
    ("gaussian", mq.Budget(epsilon=20.0, delta=1e-9)),
    ("iterative-construction", mq.Budget(epsilon=20.0)),
    ("iterative-construction", mq.Budget(epsilon=20.0, delta=1e-9)),
    ("averaged-construction", mq.Budget(epsilon=20.0)),
])  # fmt: skip
def test_releases_that_need_many_rows_keep_the_order(method: str, budget: mq.Budget) -> None:
    rng = np.random.default_rng(1)
    columns = {"a": rng.random(40_000) < 0.3, "b": rng.choice(list("xyz"), 40_000), "c": rng.integers(0, 4, 40_000)}
    many = mq.open_table(columns, SCHEMA)
    workload = mq.marginals(SCHEMA, k=2)
    check_door(lambda c: mq.release(c, workload, method=method, epsilon=19.0), budget=budget, rows=many)


@pytest.mark.parametrize("steps", [
    ["read", "reserve", "commit"],
    ["draw", "reserve", "commit"],
    ["reserve", "commit", "read"],
    ["reserve", "read", "draw"],
    ["reserve", "commit", "rows"],
    ["commit"],
    [],
])  # fmt: skip
def test_steps_out_of_order_are_seen(steps: list[str]) -> None:
    with pytest.raises(OutOfOrder):
        check_steps(steps, charged=True)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.killer == "order of steps"], ids=lambda m: m.name)
def test_broken_orders_are_caught(mutant: Any) -> None:
    with mutant.applied(), pytest.raises(OutOfOrder):
        check_order()


def test_a_lottery_that_counts_when_it_opens_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Curator.lottery

    def lottery(self: Any, questions: Any, **named: Any) -> Any:
        self._engine.counts(["a"])
        return original(self, questions, **named)

    monkeypatch.setattr(Curator, "lottery", lottery)
    with pytest.raises(OutOfOrder):
        check_door(FREE["opening a lottery"], charged=False)


def test_an_exact_row_count_outside_a_charge_is_caught() -> None:
    def peek(curator: Any) -> Any:
        curator.measure(Marginal(curator.schema), epsilon=0.1)
        return curator._engine.rows

    with pytest.raises(OutOfOrder):
        check_door(peek)
