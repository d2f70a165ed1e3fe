"""Statements that have one answer in a session, by their key, give the same rows: nobody gets the answer of another."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.query import parse
from sql_checks import answered_exactly

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 9),
        mq.Boolean("smoker"),
        mq.Category("town", ["a", "b"], nullable=True),
        mq.Integer("gain", -3, 2),
    ]
)
_rng = np.random.default_rng(5)
ROWS: dict[str, Any] = {
    "age": _rng.integers(0, 10, 90).tolist(),
    "smoker": (_rng.random(90) < 0.3).tolist(),
    "town": [None if r < 0.1 else "a" if r < 0.7 else "b" for r in _rng.random(90)],
    "gain": _rng.integers(-3, 3, 90).tolist(),
}

NUMBERS = [
    "age",
    "2 * age",
    "age * 2",
    "age / 2",
    "-age",
    "age + 1",
    "age - 1",
    "gain",
    "2 * gain",
    "-gain",
    "gain + 1",
]
CHOICES = [
    f"CASE WHEN smoker THEN {one} ELSE {two} END"
    for one in (-2, -1, 0, 1, 1.5, 2, 3, "age", "2 * age")
    for two in (-1, 0, 1, 2, "NULL")
]
AGGREGATES = [
    *(f"{name}({number})" for number in (*NUMBERS, *CHOICES) for name in ("sum", "avg")),
    *(f"{name}({number})" for number in NUMBERS for name in ("var_pop", "stddev", "2 * sum", "1 + sum")),
    *(f"sum({number}) / count(*)" for number in NUMBERS),
]
GROUPS = [
    "CASE WHEN smoker THEN 1 ELSE 0 END",
    "CASE WHEN smoker THEN '1' ELSE '0' END",
    "CASE WHEN NOT smoker THEN 1 ELSE 0 END",
    "CASE WHEN smoker THEN 2 ELSE 0 END",
    "CASE WHEN town = 'a' THEN 1 ELSE 0 END",
]


def texts() -> list[str]:
    single = [f"SELECT {one} AS s FROM people" for one in AGGREGATES]
    grouped = [f"SELECT {group} AS g, count(*) AS s FROM people GROUP BY 1" for group in GROUPS]
    towns = [f"SELECT town AS g, {one} AS s FROM people GROUP BY 1" for one in AGGREGATES[::7]]
    return [*single, *grouped, *towns]


def test_statements_of_one_key_give_the_same_rows() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts():
        rows = [
            tuple(round(cell, 3) + 0.0 if isinstance(cell, float) else cell for cell in row)
            for row in answered_exactly(SCHEMA, ROWS, text)
        ]
        found[parse(SCHEMA, text).key].add(repr(rows))
    assert len(found) > 100
    assert [rows for rows in found.values() if len(rows) > 1] == []


@pytest.mark.parametrize("values", [True, False])
def test_a_session_scales_and_shifts_what_it_has_measured(values: bool) -> None:
    """sum(2 * x) is read from the marginal of sum(x), without another charge, and is twice as large."""
    schema = mq.Schema([mq.Integer("age", 0, 99, width=10 if values else 1), mq.Boolean("smoker")])
    table = mq.open_table({"age": list(range(100)) * 20, "smoker": [True, False] * 1000}, schema)
    with mq.Curator(table, mq.Budget(epsilon=50.0, delta=1e-9)) as curator:
        session = mq.online(curator, alpha=0.02)
        asked = ["sum(age)", "sum(2 * age)", "avg(age)", "avg(age + 1)"]
        total, twice, mean, shifted = (session.ask(f"SELECT {one} AS s FROM t", strict=True) for one in asked)
        assert [one.source for one in (twice, shifted)] == ["derived"] * 2
        assert total.low <= 99_000 <= total.high
        assert twice.low <= 198_000 <= twice.high
        assert mean.low <= 49.5 <= mean.high
        assert shifted.low <= 50.5 <= shifted.high
        if not values:
            assert twice.value == pytest.approx(2 * total.value)
            assert shifted.value == pytest.approx(mean.value + 1)
