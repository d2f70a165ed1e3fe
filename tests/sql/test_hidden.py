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
    ]
)
ASKED = ["var_pop(x)", "stddev(x)", "stddev_pop(y)", "covar_pop(x, y)", "covar_samp(x, z)", "corr(x, y)", "corr(y, z)"]


def even(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.integers(0, 100, ROWS)
    return {"x": x, "y": np.clip(x / 4 + 15 * rng.random(ROWS), 0, 39.9), "z": x // 10}


def at_the_ends(rng: np.random.Generator) -> dict[str, Any]:
    """Values far from the middles of their bins, and so that they pull the moments one way."""
    low = rng.random(ROWS) < 0.5
    return {"x": np.where(low, 40, 59), "y": np.where(low, 5.0, 39.999), "z": np.where(low, 0, 9)}


def near_the_middle(rng: np.random.Generator) -> dict[str, Any]:
    low = rng.random(ROWS) < 0.5
    return {"x": np.where(low, 49, 50), "y": np.where(low, 19.999, 20.0), "z": np.where(low, 9, 0)}


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("made", [even, at_the_ends, near_the_middle])
@pytest.mark.parametrize("expression", ASKED)
def test_the_interval_holds_wherever_values_lie(made: Any, expression: str) -> None:
    rows = pa.table(made(np.random.default_rng(8)))
    engine = duckdb.connect()
    engine.register("t", rows)
    ((truth,),) = engine.execute(f"SELECT {expression} FROM t").fetchall()
    curator = mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=5e3))  # almost no noise: the bins are left
    (number,) = mq.answer(curator, f"SELECT {expression} AS v FROM t", epsilon=4e3).numbers
    assert number.low - 1e-9 <= truth <= number.high + 1e-9


def test_even_values_are_corrected_for() -> None:
    rows = even(np.random.default_rng(9))
    curator = mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=9e3))
    (number,) = mq.answer(curator, "SELECT var_pop(x) AS v FROM t", epsilon=4e3).numbers
    middles = rows["x"] // 10 * 10 + 4.5
    assert abs(number.value - rows["x"].var()) < 0.25 * (rows["x"].var() - middles.var())
    (twice,) = mq.answer(curator, "SELECT stddev_pop(1 - 2 * x) AS v FROM t", epsilon=4e3).numbers
    assert twice.value == pytest.approx(2 * number.value**0.5, rel=1e-3)


def test_a_column_of_single_values_has_the_interval_of_its_noise() -> None:
    curator = mq.Curator(mq.open_table(even(np.random.default_rng(9)), SCHEMA), mq.Budget(epsilon=5e3))
    (number,) = mq.answer(curator, "SELECT stddev_pop(z) AS v FROM t", epsilon=4e3).numbers
    assert number.high - number.low < 0.01
