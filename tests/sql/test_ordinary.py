"""Ordinary analysis in SQL: every statement of a list gives what DuckDB gives on the same rows, or is refused well."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.query import Context, parse
from sql_checks import answered_exactly

HERE = Path(__file__).parent
ROWS = 2_000
SCHEMA = mq.Schema(
    [
        mq.Integer("age", 18, 80),
        mq.Category("region", ["north", "south", "east", "west"]),
        mq.Boolean("smoker"),
        mq.Category("sex", ["f", "m"], nullable=True),
        mq.Integer("visits", 0, 9),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="day"),
    ]
)


def statements() -> tuple[list[str], list[str]]:
    """The statements that work, and those that are refused."""
    works: list[str] = []
    refused: list[str] = []
    into = works
    for line in (HERE / "ordinary.sql").read_text().splitlines():
        if line.startswith("--"):
            into = works if line.startswith("-- works") else refused
        elif line.strip():
            into.append(line)
    return works, refused


WORKS, REFUSED = statements()


def rows() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    age = rng.integers(18, 81, ROWS)
    return {
        "age": age.tolist(),
        "region": rng.choice(["north", "south", "east", "west"], ROWS, p=[0.3, 0.3, 0.25, 0.15]).tolist(),
        "smoker": (rng.random(ROWS) < 0.3).tolist(),
        "sex": [None if r < 0.1 else "f" if r < 0.55 else "m" for r in rng.random(ROWS)],
        "visits": np.clip(rng.poisson(1 + age / 20), 0, 9).tolist(),
        "seen": [dt.date(2024, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 366, ROWS)],
    }


DATA = rows()


@pytest.fixture(scope="module")
def engine() -> Any:
    connection = duckdb.connect()
    connection.register("people", pa.table(DATA))
    return connection


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, bool) or value is None or isinstance(value, str | dt.date):
        return value
    return float(value)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)
    return bool(ours == theirs)


def test_the_list_is_long_enough() -> None:
    assert len(WORKS) + len(REFUSED) >= 120
    assert len(WORKS) >= 85


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("text", WORKS)
def test_a_statement_gives_what_duckdb_gives_with_noise_off(engine: Any, text: str) -> None:
    asked = text.replace("SELECT TOP 2", "SELECT") + (" LIMIT 2" if "TOP 2" in text else "")
    theirs = [tuple(map(plain, row)) for row in engine.execute(asked).fetchall()]
    ours = [tuple(map(plain, row)) for row in answered_exactly(SCHEMA, DATA, text)]
    if "ORDER BY" not in text.rsplit(")", 1)[-1]:
        ours, theirs = (sorted(found, key=lambda row: [str(cell)[:6] for cell in row]) for found in (ours, theirs))
    assert len(ours) == len(theirs), (ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True)), (one, other)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_says_what_to_type(text: str) -> None:
    with pytest.raises(mq.QueryError) as caught:
        parse(SCHEMA, text, context=Context(table="people"))
    assert caught.value.advice or caught.value.expected
