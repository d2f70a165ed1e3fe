"""Boosting with tested structures: the promise is unconditional, and bad structures lose it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from game_checks import binary, booleans, largest_error, opened

import maquette as mq
from maquette.curator import Curator
from maquette.estimates import DenseModel
from maquette.query import LinearQuery
from maquette.releases import boosted
from maquette.releases.game import boosting as module
from maquette.theory import game as theory

RECORDS = binary(4, 20_000, 0)
SCHEMA = booleans(RECORDS)
WORKLOAD = mq.marginals(SCHEMA, k=2)
PAIRS = [(a, b) for a in range(4) for b in range(a + 1, 4)]
SETTINGS: dict[str, Any] = {"rounds": 30, "draws": 25, "tests": 10, "good": 0.05, "bad": 0.1}


@functools.cache
def opened_table() -> mq.PrivateTable:
    return opened(RECORDS)[1]


def uniform(curator: Curator, queries: Sequence[LinearQuery], rows: float, units: int) -> DenseModel:
    """A base that learns nothing."""
    return DenseModel(curator.schema, np.full((2,) * 4, 1 / 16))


def made(relation: Any = "replace", rho: float = 50.0, **named: Any) -> tuple[mq.Release, float]:
    with Curator(opened_table(), mq.Budget(rho=rho, delta=1e-9), relation=relation) as curator:
        release = boosted(curator, WORKLOAD, rng=np.random.default_rng(1), **{**SETTINGS, **named})
        assert curator.ledger.spent() <= curator.budget.limit
        return release, largest_error(release, RECORDS, PAIRS)


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_good_structures_earn_a_promise_without_a_condition(relation: Any) -> None:
    release, worst = made(relation)
    said = release.certificate.accuracy
    assert said is not None
    assert "provided" not in said
    assert worst <= float(said.split("within ")[1].split(" of")[0])


def test_bad_structures_lose_it() -> None:
    release, worst = made(base=uniform)
    assert worst > 0.1
    assert release.certificate.accuracy is None


def test_without_tests_the_promise_is_conditional() -> None:
    release, _ = made(tests=0, base=uniform)
    assert release.certificate.accuracy is not None
    assert "provided that every structure" in release.certificate.accuracy, "so it is not false of the bad base"


@pytest.mark.thorough
def test_a_cap_is_promised_nothing() -> None:
    assert made(cap=8)[0].certificate.accuracy is None


def _trusting(self: Any, cells: Any, answers: Any, units: int) -> int:
    return len(cells)


MUTANTS: dict[str, Any] = {
    "every test passes": mock.patch.object(module._Test, "passed", _trusting),
    "the share is not lowered for chance or counted": mock.patch.object(theory, "tested_share", return_value=1.0),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_test_of_structures_is_noticed(name: str) -> None:
    """A structure that learnt nothing is promised to be within 0.1: the gate of bad structures fails."""
    with MUTANTS[name]:
        release, worst = made(base=uniform)
    assert release.certificate.accuracy is not None
    assert worst > 0.1


def test_the_share_is_overestimated_no_more_often_than_beta() -> None:
    """2,000 runs of 300 tests at shares that vary by round: at beta 0.05 more than 152 failures have chance 1e-6."""
    rng, rounds, each = np.random.default_rng(3), 30, 10
    shares = rng.uniform(0.3, 1.0, size=rounds)
    failures = 0
    for _ in range(2000):
        passed = int(rng.binomial(each, shares).sum())
        failures += theory.tested_share(passed=passed, tests=rounds * each, beta=0.05) > shares.mean()
    assert failures <= 152


def test_the_theorem_on_random_plays() -> None:
    """If the average share exceeds 1/2 + needed, the median of the structures is not bad on any query: exact play."""
    rng, queries, rounds = np.random.default_rng(4), 40, 60
    rate = math.sqrt(2 * math.log(queries) / rounds)
    needed = (math.log(queries) / (rate * rounds) + rate / 2) / 2
    reached = 0
    for trial in range(30):
        gains, log_weights, shares = np.zeros((rounds, queries)), np.zeros(queries), []
        for turn in range(rounds):
            weights = np.exp(log_weights - log_weights.max())
            weights /= weights.sum()
            bad = np.zeros(queries, dtype=bool)
            for i in np.argsort(-weights if trial % 2 else rng.random(queries)):  # bad where it may be
                if weights[bad].sum() + weights[i] <= 0.5 - needed - 0.01:
                    bad[i] = True
            gains[turn] = np.where(bad, 1.0, -1.0)
            shares.append(1 - weights[bad].sum())
            log_weights += rate * gains[turn]
        if np.mean(shares) > 0.5 + needed:
            reached += 1
            assert ((gains > 0).sum(axis=0) < rounds / 2).all()
    assert reached == 30


def test_refusals() -> None:
    with Curator(opened_table(), mq.Budget(rho=1.0, delta=1e-9)) as curator:
        with pytest.raises(mq.QueryError, match="tests=-1"):
            boosted(curator, WORKLOAD, tests=-1)
        assert curator.ledger.spent() == 0
