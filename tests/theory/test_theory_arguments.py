"""Every bound refuses arguments outside their range, by name; no number comes out of nonsense."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.errors import QueryError
from maquette.hypothesis import rule_of
from maquette.session import OnlineIC
from maquette.theory import online, updates
from maquette.theory.arguments import RANGES, checked

MODULES = (
    "composition", "cuts", "distance", "game", "holdout", "learning", "lower", "net", "noise", "offline", "online",
    "projection", "regret", "selection", "transfer", "updates",
)  # fmt: skip
NOT_NUMBERS = {
    "accounting", "bipartitions", "centred", "columns", "guesser", "kind", "pure", "relation", "updates", "book",
    "commuting", "geometry",
}  # fmt: skip
FREE = {"d"}  # the slack of a transfer theorem, any number of at least 0: checked where it is used
GOOD: dict[str, Any] = {
    "accounting": "gaussian", "guesser": "weights", "kind": "pure", "relation": "replace", "pure": True,
    "columns": [(1.0, 4)], "updates": lambda alpha: 1 / alpha**2, "beta": 0.05, "gamma": 0.05, "test_share": 0.5,
    "delta": 1e-6, "margin": 0.25, "p": 1.5, "place": 0.5, "mean": 0.5, "largest": 0.5, "log_failure": -3.0,
    "alpha": 0.1, "alpha0": 0.1, "rows": 10**6, "tolerance": 0.1, "epsilon": 0.5, "c": 0.1, "d": 0.1,
    "successes": 3, "scale": 0.01, "threshold": 0.1, "error": 0.1, "failures": 1, "refusals": 1, "asked": 5,
    "bipartitions": False, "centred": False, "universe": 64, "queries": 100, "log_members": 3.0, "geometry": "any",
    "size": 3, "dimension": 2, "norm": 0.5, "query_norm": 1.0, "book": False, "degree": 2,
}  # fmt: skip


def bounds() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in MODULES:
        try:
            module = importlib.import_module(f"maquette.theory.{name}")
        except ModuleNotFoundError:
            continue
        for word, found in vars(module).items():
            if inspect.isfunction(found) and found.__module__ == module.__name__ and not word.startswith("_"):
                yield f"{name}.{word}", found


BOUNDS = dict(bounds())


def arguments(bound: Callable[..., Any]) -> dict[str, Any]:
    return {name: GOOD.get(name, 2) for name in inspect.signature(bound).parameters}


@pytest.mark.thorough(fast=75)
@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_checks_every_argument(name: str) -> None:
    bound = BOUNDS[name]
    good = arguments(bound)
    bound(**good)
    for word in good:
        if word in NOT_NUMBERS | FREE:
            continue
        assert word in RANGES, f"{word} of {name} has no range"
        outside = 1.0 if word == "log_failure" else -1.0
        for bad in (outside, math.nan, "x", np.array([outside, 3 * outside])):
            with pytest.raises(QueryError, match=f"^{word} is "):
                bound(**good | {word: bad})


@pytest.mark.parametrize(
    "call",
    [
        partial(updates.multiplicative_weights, 64, -0.1),
        partial(updates.multiplicative_weights, 64, 0.0),
        partial(updates.p_norm, 64, 0.1, 3.0),
        partial(updates.p_norm, 64, 0.1, 1.0),
        partial(mq.theory.noise.laplace_accuracy, queries=10, epsilon=1.0, rows=100, beta=2.0),
        partial(mq.theory.noise.laplace_accuracy, queries=10, epsilon=0.0, rows=100, beta=0.1),
        partial(mq.theory.offline.book_round_epsilon, rounds=3, epsilon=1.0, delta=1.0),
        partial(mq.theory.composition.advanced, accesses=3, epsilon=1.0, delta=0.0),
        partial(mq.theory.game.boosting_rounds, queries=100, margin=0.0),
    ],
)
def test_what_was_once_accepted_is_refused(call: Callable[[], float]) -> None:
    with pytest.raises(QueryError, match="expected"):
        call()


def test_a_bound_keeps_its_name_its_words_and_its_result() -> None:
    def twice(alpha: float) -> float:
        """Twice."""
        return 2 * alpha

    made = checked()(twice)
    assert (made.__name__, made.__doc__, made(3.0), made(alpha=0.5)) == ("twice", "Twice.", 6.0, 1.0)


SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_the_plan_knows_that_tight_online_runs_with_a_pure_budget(epsilon: float) -> None:
    """What a pure session promises is what the plan says: resolutions come from two grids, so within 2%."""
    table = mq.open_table({"a": [True] * 40_000, "b": [False] * 40_000}, SCHEMA)
    planned = mq.plan(rows=40_000, schema=SCHEMA, queries=50, epsilon=epsilon, relation="replace")["online"]
    assert planned.accounting == "pure"
    assert planned.runnable
    with mq.Curator(table, mq.Budget(epsilon=epsilon), relation="replace") as curator:
        session = OnlineIC(curator, queries=50)
    assert session.alpha == pytest.approx(planned.error, rel=0.02)


def test_pure_tight_online_takes_the_better_of_two_guards() -> None:
    facts: dict[str, Any] = {"queries": 50, "epsilon": 1.0, "delta": 0.0, "rows": 10**5, "beta": 0.05}
    rule = rule_of(SCHEMA, "multiplicative-weights").updates
    found = online.tight(updates=rule, **facts)
    assert math.isfinite(found.alpha)
    for refreshed in (online.resampled, online.unresampled):
        scales = refreshed(hits=found.rounds, epsilon=1.0)
        thresholds = found.rounds if refreshed is online.resampled else 1
        width = scales.query * math.log(2 * 50 / 0.05) + scales.threshold * math.log(4 * thresholds / 0.05)
        assert found.alpha <= found.resolution + 2 * width / 10**5 * (1 + 1e-12)
