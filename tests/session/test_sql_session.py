"""SQL through a session: without noise it answers as SQL does on the clamped table, and intervals hold the truth."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from session_checks import NoNoise, SeededNoise, curator_of, numbers

import maquette as mq
from maquette.schema import Schema

SCHEMA = Schema(
    [
        mq.Integer("age", 0, 59, width=10),
        mq.Boolean("smoker"),
        mq.Category("town", ["a", "b", "c"], other="elsewhere"),
        mq.Number("gain", edges=[-4.0, -1.0, 0.0, 2.0], nullable=True),
    ]
)
ROWS = 3_000
_rng = np.random.default_rng(3)
TABLE: dict[str, list[Any]] = {
    "age": _rng.integers(-5, 70, ROWS).tolist(),
    "smoker": (_rng.random(ROWS) < 0.3).tolist(),
    "town": _rng.choice(["a", "b", "c", "d"], ROWS).tolist(),
    "gain": [None if g > 2.5 else g for g in _rng.normal(0, 2, ROWS).tolist()],
}
BUDGETS = {
    "zcdp": mq.Budget(rho=9e3),
    "gdp": mq.Budget(rho=4e3, accounting="gdp"),
    "pure": mq.Budget(epsilon=9e3),
}

# What a session is asked, and the same of the table: codes of levels, and clamped values v_age and v_gain.
STATEMENTS = {
    "SELECT count(*) FROM t": "SELECT count(*) FROM t",
    "SELECT count(gain) FROM t WHERE smoker": "SELECT count(v_gain) FROM t WHERE smoker = 1",
    "SELECT smoker, count(*) FROM t GROUP BY smoker": "SELECT count(*) FROM t GROUP BY smoker ORDER BY smoker",
    "SELECT town, count(*), avg(age) FROM t WHERE age >= 20 GROUP BY town": (
        "SELECT count(*), avg(v_age) FROM t WHERE age >= 2 GROUP BY town ORDER BY town"
    ),
    "SELECT sum(age), sum(gain), avg(gain) FROM t WHERE town IN ('a', 'c')": (
        "SELECT sum(v_age), sum(v_gain), avg(v_gain) FROM t WHERE town IN (0, 2)"
    ),
    "SELECT avg(gain) FROM t WHERE smoker OR age < 10": "SELECT avg(v_gain) FROM t WHERE smoker = 1 OR age = 0",
    "SELECT sum(gain) FROM t WHERE NOT (smoker AND town = 'b')": (
        "SELECT sum(v_gain) FROM t WHERE NOT (smoker = 1 AND town = 1)"
    ),
    "SELECT CASE WHEN age < 20 THEN 'x' WHEN smoker THEN 'y' ELSE 'z' END AS c, count(*) FROM t GROUP BY c": (
        "SELECT count(*) FROM t GROUP BY CASE WHEN age < 2 THEN 0 WHEN smoker = 1 THEN 1 ELSE 2 END "
        "ORDER BY CASE WHEN age < 2 THEN 0 WHEN smoker = 1 THEN 1 ELSE 2 END"
    ),
    "SELECT town, CASE WHEN gain < 0 THEN 'x' WHEN gain >= 0 THEN 'y' END AS c, count(*) FROM t GROUP BY town, c": (
        "SELECT count(*) FROM t GROUP BY town, CASE WHEN gain < 2 THEN 0 WHEN gain < 3 THEN 1 ELSE 2 END "
        "ORDER BY town, CASE WHEN gain < 2 THEN 0 WHEN gain < 3 THEN 1 ELSE 2 END"
    ),
    "SELECT age, avg(age) FROM t WHERE age BETWEEN 10 AND 39 GROUP BY age": None,
}
CONDITIONS = {
    "smoker": "smoker = 1",
    "age BETWEEN 10 AND 39 AND town = 'elsewhere'": "age BETWEEN 1 AND 3 AND town = 3",
    "gain IS NULL": "gain = 3",
    "gain < 0 OR smoker": "gain < 2 OR smoker = 1",
    "age < 10 AND age >= 20": "false",
    "TRUE": "true",
}


@pytest.fixture(scope="module")
def binned() -> duckdb.DuckDBPyConnection:
    """The table as the schema holds it: codes, and the values themselves, clamped."""
    codes = {name: SCHEMA[name].encode(TABLE[name]) for name in SCHEMA.names}
    columns = {name: pa.array(codes[name]) for name in SCHEMA.names}
    for name, low, high in (("age", 0, 59), ("gain", -4, 2)):
        clamped = [None if value is None else float(min(max(value, low), high)) for value in TABLE[name]]
        columns[f"v_{name}"] = pa.array(clamped)
    engine = duckdb.connect()
    engine.register("t", pa.table(columns))
    return engine


def exact(engine: duckdb.DuckDBPyConnection, text: str) -> list[float]:
    return [float(number) for row in engine.execute(text).fetchall() for number in row]


def session(accounting: str, noise: Any, **settings: Any) -> mq.Session:
    return mq.online(curator_of(SCHEMA, TABLE, BUDGETS[accounting], noise), alpha=0.05, **settings)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(("simultaneous", "warm_start"), [(True, "none"), (False, "none"), (True, "histogram")])
def test_without_noise_a_session_answers_as_sql_does(
    binned: duckdb.DuckDBPyConnection, accounting: str, simultaneous: bool, warm_start: str
) -> None:
    opened = session(accounting, NoNoise(0), simultaneous=simultaneous, warm_start=warm_start)
    for text, meaning in STATEMENTS.items():
        if meaning is not None:
            found = numbers(opened.ask(text))
            # Values are added up in steps of 2^-22.
            np.testing.assert_allclose([one.value for one in found], exact(binned, meaning), rtol=1e-5, atol=1e-3)
            assert all(one.guarantee is not None for one in found)
    for text, meaning in CONDITIONS.items():
        (one,) = numbers(opened.ask(text))
        (truth,) = exact(binned, f"SELECT avg(CASE WHEN {meaning} THEN 1 ELSE 0 END) FROM t")
        assert one.value == pytest.approx(truth, abs=1e-9)
        assert one.low - 1e-12 <= truth <= one.high + 1e-12


def test_the_average_of_each_level_lies_in_it_and_of_none_in_the_declared_range() -> None:
    opened = session("zcdp", NoNoise(0))
    found = numbers(opened.ask("SELECT age, avg(age) FILTER (WHERE age BETWEEN 10 AND 39) FROM t GROUP BY age"))
    assert len(numbers(opened.ask("SELECT age, avg(age) FROM t WHERE age BETWEEN 10 AND 39 GROUP BY age"))) == 3
    for level, one in enumerate(found):
        if 1 <= level <= 3:
            assert 10 * level <= one.value <= 10 * level + 9
        else:
            assert (one.low, one.high) == (0, 59)


@pytest.mark.thorough
@pytest.mark.parametrize("accounting", BUDGETS)
def test_every_interval_holds_the_answer_of_sql(binned: duckdb.DuckDBPyConnection, accounting: str) -> None:
    for seed, simultaneous in itertools.product(range(2), (True, False)):
        opened = session(accounting, SeededNoise(seed), simultaneous=simultaneous, beta=1e-6)
        for text, meaning in STATEMENTS.items():
            if meaning is not None:
                for one, truth in zip(numbers(opened.ask(text)), exact(binned, meaning), strict=True):
                    assert one.low - 1e-9 <= truth <= one.high + 1e-9, (text, one, truth)
                    assert one.low <= one.value <= one.high


def test_counts_and_sums_are_within_the_promised_share_of_the_rows() -> None:
    opened = session("zcdp", SeededNoise(1))
    for one in numbers(opened.ask("SELECT town, count(*) FROM t GROUP BY town")):
        assert one.high - one.low <= 2 * opened.tolerance * (1 + 1e-9)
        assert opened.tolerance <= 0.05 * ROWS
    (total,) = numbers(opened.ask("SELECT sum(age) FROM t WHERE smoker"))
    assert total.high - total.low <= 2 * 59 * opened.tolerance * (1 + 1e-9)
    for (
        text
    ) in CONDITIONS:  # a count is within the tolerance, the number of rows too, and so is their ratio but for both
        (one,) = numbers(opened.ask(text))
        assert one.high - one.low <= 2 * 0.05 * (1 + one.high)


def test_asking_the_same_in_other_words_is_free_and_gives_the_same_number() -> None:
    opened = session("zcdp", SeededNoise(4))
    (first,) = numbers(opened.ask("smoker AND age >= 20"))
    (again,) = numbers(opened.ask("NOT (age < 20 OR NOT smoker)"))
    assert (again.value, again.low, again.high, again.source) == (first.value, first.low, first.high, "cache")
    assert again.cost.epsilon == 0.0
