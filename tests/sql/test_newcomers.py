"""What newcomers type: shares by a scalar subquery are answered, and what is refused says what to type."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.errors import QueryError

SCHEMA = mq.Schema(
    [
        mq.Category("plan", ["a", "b"]),
        mq.Integer("age", 0, 99, width=20),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="month"),
    ]
)
PLANS = np.array(["a", "b"])[(np.arange(4_000) % 4 == 0).astype(int)]


def curator() -> mq.Curator:
    rows = {"plan": PLANS, "age": np.arange(4_000) % 100, "seen": ["2024-03-01"] * 4_000}
    return mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=2_000.0))


def test_an_answered_group_is_divided_by_a_subquery() -> None:
    text = """WITH g AS (SELECT plan, count(*) AS n FROM t GROUP BY plan)
              SELECT plan, n * 100.0 / (SELECT sum(n) FROM g) AS percent FROM g"""
    answer = mq.answer(curator(), text, epsilon=1_000.0)
    assert isinstance(answer, mq.AnswerTable)
    assert {row.groups[0]: row["percent"].value for row in answer} == pytest.approx({"a": 75.0, "b": 25.0}, abs=0.1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT to_char(seen, 'J') AS q, count(*) FROM t GROUP BY 1", r"date_trunc\('month', x\)"),
        ("SELECT width_bucket(age, 0, age, 5) AS b, count(*) FROM t GROUP BY 1", r"floor\(x / 20\)"),
        ("SELECT string_agg(plan) FROM t", r"never listed: GROUP BY"),
        (
            "WITH g AS (SELECT plan, count(*) AS n FROM t GROUP BY plan) "
            "SELECT plan FROM g WHERE plan IN (SELECT plan FROM g)",
            "SELECT here is not supported.*ask two questions",
        ),
    ],
)
def test_a_refusal_says_what_to_type(text: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        mq.answer(curator(), text, epsilon=1.0)
