"""The lecture's private multiplicative weights: its own parameters, its promise under hostile noise, its price."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import Curator
from maquette.privacy import lazy_epsilon
from maquette.query import LinearQuery
from maquette.session import LazyConstruction, PrivateMultiplicativeWeights
from maquette.session.textbook import lazy as module
from maquette.theory import online

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b"), mq.Boolean("c")])
CELLS = np.array([(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
COUNTS = np.array([190, 4, 30, 2, 1, 70, 3, 100]) * 500
ROWS = int(COUNTS.sum())
BUDGET = mq.Budget(epsilon=40.0, delta=1e-7, accounting="basic")
QUERIES, BETA = 60, 0.05


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    records = np.repeat(CELLS, COUNTS, axis=0).astype(bool)
    return mq.open_table({name: records[:, i].tolist() for i, name in enumerate(SCHEMA.names)}, SCHEMA)


class Hostile:
    """Noise as large as the theorem allows for all questions together, with signs that alternate."""

    def __init__(self, factor: float = 1.0) -> None:
        self.draws, self.factor = 0, factor

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        self.draws += 1
        reach = math.floor(self.factor * float(scale) * math.log(QUERIES / BETA))
        return np.full(size, reach if self.draws % 3 else -reach, dtype=np.int64)

    def gaussian(self, variance: Fraction, size: int) -> NDArray[np.int64]:
        raise AssertionError("basic accounting draws no Gaussian noise")

    exponential = permute_and_flip = gaussian


def asked(rng: np.random.Generator) -> tuple[LinearQuery, float]:
    factors = {name: np.rint(rng.random(2)).tolist() for name in SCHEMA.names}
    values = np.prod([np.array(factors[name])[CELLS[:, i]] for i, name in enumerate(SCHEMA.names)], axis=0)
    return LinearQuery.product(SCHEMA, factors), float((values * COUNTS).sum() / ROWS)


def opened(curator: Curator, **named: Any) -> PrivateMultiplicativeWeights:
    return PrivateMultiplicativeWeights(curator, **{"epsilon": 40.0, "queries": QUERIES, "beta": BETA, **named})


def play(table: mq.PrivateTable, noise: Any) -> tuple[PrivateMultiplicativeWeights, float]:
    """The session after hostile questions, and its largest error."""
    rng, worst = np.random.default_rng(3), 0.0
    with Curator(table, BUDGET, relation="replace", noise=noise) as curator:
        session = opened(curator)
        for _ in range(QUERIES):
            tried = [asked(rng) for _ in range(12)]
            query, truth = max(tried, key=lambda each: abs(each[1] - session.hypothesis.answer(each[0])))
            worst = max(worst, abs(session.ask(query).value - truth))
    return session, worst


def test_parameters_are_the_lectures(table: mq.PrivateTable) -> None:
    with Curator(table, BUDGET, relation="replace") as curator:
        session = opened(curator)
        eta = (math.log(8) / ROWS) ** (1 / 3)
        updates = math.floor(math.log(8) / eta**2)
        assert session.hits_left == updates
        assert session.hypothesis.alpha == pytest.approx(eta / 4)  # type: ignore[attr-defined]
        sigma = updates * math.log(1 / BUDGET.delta) / (40.0 * ROWS)
        tau = max(4 * eta, 2 * sigma * math.log(QUERIES / BETA))
        assert session.alpha == pytest.approx(tau + sigma * math.log(QUERIES / BETA), rel=1e-3)
        stated = online.lecture(universe=8, queries=QUERIES, epsilon=40.0, delta=BUDGET.delta, rows=ROWS, beta=BETA)
        assert stated.alpha <= session.alpha <= 1.001 * stated.alpha
        assert stated.rounds == updates
        assert stated.resolution == pytest.approx(eta / 4)
        # What this noise costs by the theorem of lazy rounds, and no more, is charged.
        cost = lazy_epsilon(hits=updates, rate=1 / (sigma * ROWS), delta=BUDGET.delta)
        assert session.cost.epsilon == pytest.approx(cost, rel=1e-4)
        assert session.cost.epsilon < 40.0


def test_every_answer_is_within_alpha_under_hostile_noise(table: mq.PrivateTable) -> None:
    session, worst = play(table, Hostile())
    assert 0 < worst <= session.alpha < 1
    assert session.updates > 0


MUTANTS: dict[str, dict[str, Any]] = {
    "noise beyond its bound": {"noise": Hostile(4.0)},
    "an eighth of the threshold": {"halved": True},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_promise_is_noticed(table: mq.PrivateTable, name: str) -> None:
    """The gate fails if the noise is four times its bound, or hits are fired at an eighth of the threshold."""
    if MUTANTS[name].get("halved"):
        real = module.lecture

        def halved(schema: Any, setting: Any) -> Any:
            made = real(schema, setting)
            return replace(made, threshold=made.threshold / 8)

        with mock.patch.object(module, "lecture", halved):
            session, _ = play(table, Hostile())
        # Updates are fired where the model is right, so that there are more of them than the promise allows.
        right, _ = play(table, Hostile())
        assert session.updates > right.updates
        return
    session, worst = play(table, MUTANTS[name]["noise"])
    assert worst > session.alpha


@pytest.mark.thorough
def test_the_promise_fails_no_more_often_than_beta(table: mq.PrivateTable) -> None:
    """1,000 runs of the threshold test with real Laplace noise: at beta 0.05 more than 86 failures have chance 1e-6."""
    rng = np.random.default_rng(7)
    eta, hits, rate = online.lecture_settings(universe=8, epsilon=40.0, delta=BUDGET.delta, rows=ROWS)
    noise = math.log(QUERIES / BETA) / (rate * ROWS)
    draws = np.abs(rng.laplace(scale=1 / (rate * ROWS), size=(1000, QUERIES)))
    failures = int((draws.max(axis=1) > noise).sum())
    assert 20 < failures <= 86, "the union bound over questions is nearly tight"
    assert max(4 * eta, 2 * noise) / 2 >= 2 * eta
    assert hits >= 1


def test_the_tight_construction_never_promises_more(table: mq.PrivateTable) -> None:
    for rows in (10**4, 10**6, 10**8):
        facts: dict[str, Any] = {"queries": 1000, "epsilon": 1.0, "delta": 1e-9, "rows": rows, "beta": 0.05}
        ours = online.lazy(updates=lambda alpha: math.log(2**10) / (2 * alpha**2), **facts)
        assert ours.alpha < online.lecture(universe=2**10, **facts).alpha


def test_few_updates_take_more_noise_than_the_lectures() -> None:
    """With one update, c ln(1/delta) / epsilon would cost more than epsilon: the rate is lowered until it does not."""
    _, hits, rate = online.lecture_settings(universe=2, epsilon=1.0, delta=1e-9, rows=1)
    assert hits == 1
    assert rate < 1.0 / math.log(1e9)
    assert lazy_epsilon(hits=hits, rate=rate, delta=1e-9) <= 1.0


def test_refusals(table: mq.PrivateTable) -> None:
    with Curator(table, BUDGET, relation="replace") as curator:
        with pytest.raises(mq.QueryError, match="which says nothing"):
            opened(curator, epsilon=1e-4)
        assert curator.ledger.spent() == 0
        assert isinstance(opened(curator), LazyConstruction)
    with Curator(table, mq.Budget(epsilon=1.0, delta=1e-7)) as curator, pytest.raises(mq.QueryError, match="basic"):
        opened(curator, epsilon=1.0)
