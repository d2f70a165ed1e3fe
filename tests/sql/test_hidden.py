"""Moments of binned columns: even values are corrected for, and intervals hold wherever values lie in their bins."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import maquette as mq

ROWS = 3_000
SCHEMA = mq.Schema(
    [
        mq.Integer("x", 0, 99, width=10),
        mq.Number("y", edges=[0, 5, 20, 40]),
        mq.Integer("z", 0, 9),
        mq.Boolean("b"),
    ]
)
ASKED = [
    "var_pop(x)", "stddev(x)", "stddev_pop(y)", "covar_pop(x, y)", "covar_samp(x, z)", "corr(x, y)", "corr(y, z)",
    "covar_pop(x / 4, 1 - y)", "corr(2 - x, 3 * y)", "corr(y, b)",
]  # fmt: skip


def even(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.integers(0, 100, ROWS)
    return {"x": x, "y": np.clip(x / 4 + 15 * rng.random(ROWS), 0, 39.9), "z": x // 10, "b": x > 60}


def at_the_ends(rng: np.random.Generator) -> dict[str, Any]:
    """Values far from the middles of their bins, and so that they pull the moments one way."""
    low = rng.random(ROWS) < 0.5
    return {"x": np.where(low, 40, 59), "y": np.where(low, 5.0, 39.999), "z": np.where(low, 0, 9), "b": low}


def near_the_middle(rng: np.random.Generator) -> dict[str, Any]:
    low = rng.random(ROWS) < 0.5
    return {"x": np.where(low, 49, 50), "y": np.where(low, 19.9, 20.1), "z": np.where(low, 9, 0), "b": ~low}


def opened(rows: Any, *, values: bool) -> mq.Curator:
    """A curator with almost no noise, so that the bins are left; without values, moments are those of the middles."""
    curator = mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=9e3))
    curator._keeps_values = values
    return curator


def true(rows: Any, expression: str) -> float:
    engine = duckdb.connect()
    engine.register("t", rows)
    ((truth,),) = engine.execute(f"SELECT {expression.replace(', b)', ', b::INT)')} FROM t").fetchall()
    return float(truth)


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("made", [even, at_the_ends, near_the_middle])
@pytest.mark.parametrize("expression", ASKED)
def test_the_interval_holds_wherever_values_lie(made: Any, expression: str, values: bool) -> None:
    rows = pa.table(made(np.random.default_rng(8)))
    truth = true(rows, expression)
    (number,) = mq.answer(opened(rows, values=values), f"SELECT {expression} AS v FROM t", epsilon=4e3).numbers
    assert number.low - 1e-9 <= truth <= number.high + 1e-9


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("made", [even, at_the_ends])
@pytest.mark.parametrize("expression", ASKED)
def test_moments_of_values_have_the_interval_of_their_noise(made: Any, expression: str) -> None:
    """Bins of a tenth of the range, and of half of it, do not show."""
    rows = pa.table(made(np.random.default_rng(8)))
    truth = true(rows, expression)
    (number,) = mq.answer(opened(rows, values=True), f"SELECT {expression} AS v FROM t", epsilon=4e3).numbers
    assert number.high - number.low < 0.02 * max(abs(truth), 1.0)
    assert number.value == pytest.approx(truth, abs=0.01 * max(abs(truth), 1.0))


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("expression", ASKED)
def test_sessions_measure_moments_of_values(expression: str) -> None:
    rows = pa.table(even(np.random.default_rng(8)))
    truth = true(rows, expression)
    with mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(rho=50.0, delta=1e-9)) as curator:
        (number,) = mq.online(curator, alpha=0.002).ask(f"SELECT {expression} AS v FROM t").numbers
    assert number.low - 1e-9 <= truth <= number.high + 1e-9
    assert number.high - number.low < 0.1 * max(abs(truth), 1.0)


def test_a_moment_shares_the_sum_of_an_average(tmp_path: Any) -> None:
    """And what was bought is known after a restart, with the same digits."""
    rows = pa.table(even(np.random.default_rng(8)))
    answers = []
    for _ in range(2):
        with mq.Curator(
            mq.open_table(rows, SCHEMA), mq.Budget(rho=50.0, delta=1e-9), ledger=tmp_path / "ledger"
        ) as curator:
            session = mq.online(curator, alpha=0.01)
            first = session.ask("SELECT corr(x, y) AS c, corr(y, z) AS d FROM t")
            answers.append([(one.value, one.low, one.high) for one in first.numbers])
            spent = curator.spent.rho
            session.ask("SELECT avg(x) AS a, stddev_pop(x) AS s FROM t")
            assert curator.spent.rho == spent
    assert answers[0] == answers[1]


def test_even_values_are_corrected_for() -> None:
    rows = even(np.random.default_rng(9))
    curator = opened(rows, values=False)
    (number,) = mq.answer(curator, "SELECT var_pop(x) AS v FROM t", epsilon=4e3).numbers
    middles = rows["x"] // 10 * 10 + 4.5
    assert abs(number.value - rows["x"].var()) < 0.25 * (rows["x"].var() - middles.var())
    (twice,) = mq.answer(curator, "SELECT stddev_pop(1 - 2 * x) AS v FROM t", epsilon=4e3).numbers
    assert twice.value == pytest.approx(2 * number.value**0.5, rel=1e-3)


def test_a_column_of_single_values_has_the_interval_of_its_noise() -> None:
    curator = mq.Curator(mq.open_table(even(np.random.default_rng(9)), SCHEMA), mq.Budget(epsilon=5e3))
    (number,) = mq.answer(curator, "SELECT stddev_pop(z) AS v FROM t", epsilon=4e3).numbers
    assert number.high - number.low < 0.01
