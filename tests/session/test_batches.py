"""A batch costs no more than its questions one by one, to a hundredth: rent-or-buy acts inside it."""

from __future__ import annotations

import numpy as np
import pytest
from session_checks import NoNoise, curator_of

import maquette as mq
from maquette.errors import MaquetteError
from maquette.schema import Schema

SCHEMA = Schema([mq.Integer("age", 0, 31), mq.Integer("hours", 0, 15), mq.Category("town", ["a", "b", "c"])])
ROWS = 4_000
_rng = np.random.default_rng(2)
TABLE = {
    "age": _rng.integers(0, 32, ROWS).tolist(),
    "hours": _rng.integers(0, 16, ROWS).tolist(),
    "town": _rng.choice(["a", "b", "c"], ROWS).tolist(),
}


def ranges(name: str, size: int, count: int, seed: int) -> list[str]:
    rng, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < count:
        low, high = sorted(rng.integers(0, size, 2).tolist())
        found[f"SELECT count(*) FROM t WHERE {name} BETWEEN {low} AND {high}"] = None
    return list(found)


STREAMS = {
    "80 ranges of 32 levels": ranges("age", 32, 80, 1),
    "ranges of two columns": [*ranges("age", 32, 15, 2), *ranges("hours", 16, 15, 3)],
    "prefixes": [f"SELECT count(*) FROM t WHERE age <= {i}" for i in range(31)],
    "cells": [f"SELECT count(*) FROM t WHERE hours = {i} AND town = '{t}'" for i in range(16) for t in "ab"],
    "tables": [
        "SELECT town, count(*) FROM t GROUP BY town",
        "SELECT hours, count(*) FROM t GROUP BY hours",
        "SELECT hours, town, count(*) FROM t GROUP BY hours, town",
        "SELECT town, avg(age) FROM t GROUP BY town",
    ],
    "three ranges": ranges("hours", 16, 3, 5),
}


def spent(texts: list[str], batch: int, simultaneous: bool) -> int:
    with curator_of(SCHEMA, TABLE, mq.Budget(rho=500.0, delta=1e-9), NoNoise(0)) as curator:
        session = mq.online(curator, alpha=0.05, rows=ROWS, simultaneous=simultaneous, warm_start="none")
        for start in range(0, len(texts), batch):
            for answer in session.ask_many(texts[start : start + batch]):
                assert all(one.guarantee is not None for one in answer.numbers)
        return curator.ledger.spent()


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("simultaneous", [False, True], ids=["each", "together"])
@pytest.mark.parametrize("texts", STREAMS.values(), ids=STREAMS)
def test_a_batch_costs_no_more_than_its_questions_one_by_one(texts: list[str], simultaneous: bool) -> None:
    singly = spent(texts, 1, simultaneous)
    assert spent(texts, len(texts), simultaneous) <= singly * 1.01


WRONG = ["SELECT count(*) FROM t WHERE nothing = 1", "/* alpha = 7 */ SELECT count(*) FROM t"]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_question_among_others_with_settings_of_their_own_charges_nothing(wrong: str) -> None:
    with curator_of(SCHEMA, TABLE, mq.Budget(rho=500.0, delta=1e-9), NoNoise(0)) as curator:
        session = mq.online(curator, alpha=0.05, rows=ROWS, warm_start="none")
        before = curator.ledger.spent()
        with pytest.raises(MaquetteError):
            session.ask_many(["/* alpha = 0.02 */ SELECT count(*) FROM t WHERE age < 9", wrong])
        assert curator.ledger.spent() == before
