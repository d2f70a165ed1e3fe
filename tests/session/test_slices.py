"""Cells of a table that was measured as asked are free, with the numbers and intervals that were released."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq

SCHEMA = mq.Schema(
    [
        mq.Category("region", ["north", "south", "east", "west"]),
        mq.Category("plan", ["a", "b", "c"], nullable=True),
        mq.Boolean("smoker"),
    ]
)
RNG = np.random.default_rng(3)
ROWS = 20_000
DATA: dict[str, Any] = {
    "region": RNG.choice(["north", "south", "east", "west"], ROWS, p=[0.5, 0.3, 0.15, 0.05]),
    "plan": [[None, "a", "b", "c"][i] for i in RNG.integers(0, 4, ROWS)],
    "smoker": RNG.random(ROWS) < 0.3,
}


@functools.cache
def opened_table() -> mq.PrivateTable:
    return mq.open_table(DATA, SCHEMA)


BOTH = "SELECT plan, region, count(*) AS n FROM t GROUP BY plan, region"


def session(**settings: Any) -> mq.Session:
    return mq.online(mq.Curator(opened_table(), mq.Budget(epsilon=4.0, delta=1e-9)), alpha=0.02, **settings)


def intervals(answer: mq.Answered) -> dict[tuple[str, ...], tuple[float, float, float]]:
    return {row.groups: (one.value, one.low, one.high) for row in answer.rows for one in row.answers.values()}


@pytest.mark.parametrize("rows", [None, ROWS])
def test_a_slice_of_a_table_is_free_and_equal_to_it(rows: int | None) -> None:
    opened = session(rows=rows)
    table = intervals(opened.ask(BOTH))
    for text, expected in {
        "SELECT plan, count(*) AS n FROM t WHERE region = 'north' GROUP BY plan": {
            (plan,): found for (plan, region), found in table.items() if region == "north"
        },
        "SELECT region, plan, count(*) AS n FROM t WHERE plan IN ('a', 'c') GROUP BY 1, 2": {
            (region, plan): found for (plan, region), found in table.items() if plan in ("a", "c")
        },
        "SELECT count(*) AS n FROM t WHERE plan IS NULL AND region = 'west'": {(): table["NULL", "west"]},
    }.items():
        spent = opened.spent
        answer = opened.ask(text)
        assert opened.spent == spent, text
        assert intervals(answer) == expected, text


def test_what_is_more_than_a_cell_is_no_slice() -> None:
    opened = session()
    opened.ask(BOTH)
    spent = opened.spent.units
    either = opened.ask("SELECT count(*) AS n FROM t WHERE region IN ('north', 'south') AND plan IN ('a', 'b')")
    assert opened.spent.units > spent
    truth = sum(r in ("north", "south") and p in ("a", "b") for r, p in zip(DATA["region"], DATA["plan"], strict=True))
    assert either.low <= truth <= either.high


def test_a_session_opened_again_reads_the_same_slice(tmp_path: Path) -> None:
    asked = "SELECT plan, count(*) AS n FROM t WHERE region = 'south' GROUP BY plan"
    found = []
    for _ in range(2):
        with mq.Curator(opened_table(), mq.Budget(epsilon=4.0, delta=1e-9), ledger=tmp_path / "t.ledger") as curator:
            opened = mq.online(curator, alpha=0.02)
            opened.ask(BOTH)
            found.append((intervals(opened.ask(asked)), opened.spent.units))
    assert found[0] == found[1]


def test_slices_hold_together_with_their_tables() -> None:
    """All cells of 200 sessions at 95%: sound intervals fail more than 25 of them with probability below 1e-4."""
    truth: dict[tuple[str, ...], int] = {
        (str(plan) if plan else "NULL",): sum(
            r == "west" and p == plan for r, p in zip(DATA["region"], DATA["plan"], strict=True)
        )
        for plan in ("a", "b", "c", None)
    }
    broken = 0
    for _ in range(200):
        opened = session(rows=ROWS)
        opened.ask(BOTH)
        found = intervals(opened.ask("SELECT plan, count(*) AS n FROM t WHERE region = 'west' GROUP BY plan"))
        broken += not all(low <= truth[group] <= high for group, (_, low, high) in found.items())
    assert broken <= 25
