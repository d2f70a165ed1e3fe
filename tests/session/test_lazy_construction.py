"""The lazy construction: its accuracy theorem under hostile noise, its transcript, its end, and its refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.errors import BudgetError, QueryError
from maquette.hypothesis import HYPOTHESES, RULES, Median, WeightedRecords
from maquette.query import LinearQuery
from maquette.session.textbook.lazy import LazyConstruction
from maquette.session.textbook.plan import ROWS_DOUBT
from maquette.theory import online

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b"), mq.Boolean("c")])
CELLS = np.array([(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
COUNTS = np.array([1900, 40, 300, 20, 10, 700, 30, 1000])
ROWS = int(COUNTS.sum())
BUDGET = mq.Budget(epsilon=20.0, delta=1e-6, accounting="basic")
QUERIES, BETA = 40, 0.05


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    records = np.repeat(CELLS, COUNTS, axis=0).astype(bool)
    return mq.open_table({name: records[:, i].tolist() for i, name in enumerate(SCHEMA.names)}, SCHEMA)


def weights(rng: np.random.Generator, sharp: bool) -> dict[str, list[float]]:
    drawn = rng.random((3, 2))
    return {name: (np.rint(pair) if sharp else pair).tolist() for name, pair in zip(SCHEMA.names, drawn, strict=True)}


def truth(factors: dict[str, list[float]]) -> float:
    values = np.prod([np.array(factors[name])[CELLS[:, i]] for i, name in enumerate(SCHEMA.names)], axis=0)
    return float((values * COUNTS).sum() / ROWS)


class Hostile:
    """Noise as large as the accuracy theorem allows, with signs of somebody's choice."""

    def __init__(self, sign: Callable[[], int], *, estimated: bool) -> None:
        self._sign, self._estimated, self.draws = sign, estimated, 0

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        self.draws += 1
        beta = BETA * (1 - ROWS_DOUBT) if self._estimated else BETA
        reach = math.floor(float(scale) * math.log(QUERIES / beta))
        if self._estimated and self.draws == 1:
            reach = math.floor(-float(scale) * math.log(ROWS_DOUBT * BETA)) - 1
        return np.full(size, self._sign() * reach, dtype=np.int64)

    def gaussian(self, variance: Fraction, size: int) -> NDArray[np.int64]:
        raise AssertionError("basic accounting draws no Gaussian noise")

    exponential = permute_and_flip = gaussian


def lazily(curator: Curator, hypothesis: Any = "multiplicative-weights", **named: Any) -> LazyConstruction:
    given = {"epsilon": 20.0, "queries": QUERIES, "beta": BETA, **named}
    return LazyConstruction(curator, hypothesis, **given)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("rule", [*RULES, "weighted-records"])
def test_every_answer_is_within_alpha_and_updates_stay_below_their_bound(
    table: mq.PrivateTable, rule: str, relation: Any
) -> None:
    for pattern in (lambda: 1, iter([-1, -1, 1, 1, -1] * 99).__next__):
        noise = Hostile(pattern, estimated=relation == "add-remove")
        model: Any = WeightedRecords(SCHEMA, CELLS, alpha=0.12) if rule == "weighted-records" else rule
        with Curator(table, BUDGET, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
            session = lazily(curator, model)
            assert session.alpha < 1
            assert session.cost.epsilon <= 20.0
            hits, rng = session.hits_left, np.random.default_rng(3)
            for _ in range(QUERIES):
                # The worst of many questions for the model as it stands: the adversary knows the table.
                asked = [weights(rng, bool(i % 2)) for i in range(12)]
                errors = [abs(truth(q) - session.hypothesis.answer(LinearQuery.product(SCHEMA, q))) for q in asked]
                worst = asked[int(np.argmax(errors))]
                answer = session.ask(LinearQuery.product(SCHEMA, worst))
                assert abs(answer.value - truth(worst)) <= session.alpha
                assert answer.low - 1e-9 <= truth(worst) <= answer.high + 1e-9
                assert answer.low <= answer.value <= answer.high
            assert session.updates <= hits == session.updates + session.hits_left
            assert session.status == "open" or session.updates == hits


def test_production_noise_keeps_the_promise(table: mq.PrivateTable) -> None:
    rng = np.random.default_rng(5)
    with Curator(table, BUDGET) as curator:
        session = lazily(curator, beta=1e-6)
        for _ in range(QUERIES):
            asked = weights(rng, True)
            answer = session.ask(LinearQuery.product(SCHEMA, asked))
            assert abs(answer.value - truth(asked)) <= session.alpha
            assert answer.guarantee is not None


def folded(curator: Curator, session: LazyConstruction, asked: list[dict[str, list[float]]]) -> None:
    """A model that sees nothing but released answers must be the session's own model, answer by answer."""
    model = type(session.hypothesis)(SCHEMA, alpha=session.hypothesis._rule.alpha)  # type: ignore[attr-defined, call-arg]
    for each in asked:
        query = LinearQuery.product(SCHEMA, each)
        before = model.answer(query)
        answer = session.ask(query)
        if answer.source == "derived":
            assert answer.low == answer.value == answer.high == before
        elif answer.source == "measured":
            assert answer.unbiased is not None
            model.update(query, answer.unbiased)
            moved = model.answer(query) - before
            assert moved * (answer.unbiased - before) > 0, "a step goes towards the released number"
        else:
            assert answer.value == before
        assert session.hypothesis.answer(query) == model.answer(query)


def gate_direction(table: mq.PrivateTable) -> None:
    """The model is a fold over released answers, also where noise has put them on the wrong side of the truth."""
    rng = np.random.default_rng(7)
    asked = [weights(rng, True) for _ in range(12)]
    for jump in (-(2**31), 2**31, 0):
        with Curator(table, BUDGET, relation="replace", noise=ScriptedNoise([jump] * 20)) as curator:
            session = lazily(curator)
            folded(curator, session, asked)
            assert session.updates > 0


def test_direction_comes_from_the_released_number(table: mq.PrivateTable) -> None:
    gate_direction(table)


_fresh = LazyConstruction._fresh


def _step_towards(value_of: Callable[[LinearQuery, float | None], float | None]) -> Any:
    """A session whose updates take another value than the released one, or happen without one."""

    def fresh(self: LazyConstruction, query: LinearQuery) -> Any:
        update = self.hypothesis.update
        with mock.patch.object(self.hypothesis, "update"):
            answer = _fresh(self, query)
        value = value_of(query, answer.unbiased)
        if value is not None:
            update(query, value)
        return answer

    return mock.patch.object(LazyConstruction, "_fresh", fresh)


def _true(query: LinearQuery) -> float:
    return float((query.evaluate(CELLS.astype(np.int32)) * COUNTS).sum() / ROWS)


@pytest.mark.parametrize("mutant", ["direction from the truth", "update on easy rounds", "reversed", "never"])
def test_broken_session_is_caught(table: mq.PrivateTable, mutant: str) -> None:
    values: dict[str, Callable[[LinearQuery, float | None], float | None]] = {
        "direction from the truth": lambda query, noisy: None if noisy is None else _true(query),
        "update on easy rounds": lambda query, noisy: _true(query) if noisy is None else noisy,
        "reversed": lambda _, noisy: None if noisy is None else -noisy,
        "never": lambda *_: None,
    }
    with _step_towards(values[mutant]), pytest.raises(AssertionError):
        gate_direction(table)


def test_sealed_sessions_answer_from_the_model_without_a_guarantee(table: mq.PrivateTable) -> None:
    net = np.array([COUNTS / ROWS, np.full(8, 1 / 8)])
    noise = ScriptedNoise([0])
    with Curator(table, BUDGET, relation="replace", noise=noise) as curator:
        session = lazily(curator, Median(SCHEMA, net[::-1], alpha=0.2, tolerance=0.0))
        assert session.hits_left == 1
        first = LinearQuery.product(SCHEMA, {"a": [1.0, 0.0], "b": [1.0, 0.0]})
        hit = session.ask(first)
        assert (hit.source, session.updates, session.status) == ("measured", 1, "exhausted")
        assert hit.value == pytest.approx(1940 / ROWS, abs=1e-6)
        after = session.ask(LinearQuery.product(SCHEMA, {"a": [1.0, 0.0]}))
        assert (after.source, after.guarantee, after.low, after.high) == ("hypothesis", None, 0.0, 1.0)
        assert after.value == pytest.approx(2260 / ROWS)
        assert session.ask(first) is hit
        assert noise.used == 1
        assert session.hits_left == 0


def test_the_promise_covers_the_announced_number_of_questions(table: mq.PrivateTable) -> None:
    with Curator(table, BUDGET, relation="replace", noise=ScriptedNoise([0] * 3)) as curator:
        session = lazily(curator, queries=2)
        answers = [session.ask(LinearQuery.product(SCHEMA, {"a": [w, 0.5]})) for w in (0.4, 0.45, 0.6)]
    assert [answer.guarantee is None for answer in answers] == [False, False, True]
    assert (answers[2].low, answers[2].high) == (0.0, 1.0)


def test_alpha_is_the_theory_at_the_noise_that_is_added(table: mq.PrivateTable) -> None:
    with Curator(table, BUDGET, relation="replace", noise=ScriptedNoise([])) as curator:
        session = lazily(curator)
        stated = online.lazy(
            updates=lambda alpha: HYPOTHESES["multiplicative-weights"].max_updates(SCHEMA, alpha),
            queries=QUERIES,
            epsilon=20.0,
            delta=BUDGET.delta,
            rows=ROWS,
            beta=BETA,
        )
        assert stated.alpha <= session.alpha <= stated.alpha * 1.001
        assert session.hits_left == stated.rounds


def test_refusals(table: mq.PrivateTable) -> None:
    with Curator(table, BUDGET, relation="replace") as curator:
        with pytest.raises(QueryError, match="at least 1 query"):
            lazily(curator, queries=0)
        with pytest.raises(QueryError, match="which says nothing"):
            lazily(curator, epsilon=0.01)
        assert curator.ledger.spent() == 0
        session = lazily(curator, epsilon=15.0)
        with pytest.raises(QueryError, match="another schema"):
            session.ask(LinearQuery.product(mq.Schema([mq.Boolean("z")]), {"z": [0.0, 1.0]}))
        with pytest.raises(BudgetError, match="took all of the delta"):
            lazily(curator, epsilon=5.0, queries=1)
        assert repr(session).startswith("LazyConstruction(MultiplicativeWeights(8 cells")
    with Curator(table, mq.Budget(epsilon=1.0, delta=1e-6)) as curator, pytest.raises(QueryError, match="basic"):
        lazily(curator)
