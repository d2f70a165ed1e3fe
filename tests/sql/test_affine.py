"""Sums of multiples of a column, and of a column in a CASE, add up the values themselves, not the middles of bins."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import maquette as mq
from maquette.query.sql.affine import affine

ROWS = 4_000
SCHEMA = mq.Schema(
    [
        mq.Integer("x", 0, 999, width=100),
        mq.Integer("debt", -999, 0, width=50, nullable=True),
        mq.Boolean("b"),
        mq.Category("c", ["p", "q"]),
    ]
)


def people() -> pa.Table:
    rng = np.random.default_rng(3)
    debt = [None if number > 0 else int(number) for number in rng.integers(-900, 100, ROWS)]
    columns = {"x": rng.integers(0, 130, ROWS), "debt": debt, "b": rng.random(ROWS) < 0.2}
    return pa.table({**columns, "c": rng.choice(["p", "q"], ROWS)})


ASKED = [
    "sum(-x)",
    "avg(x / 1000)",
    "avg(12 * x + 5)",
    "sum(100 - x)",
    "sum(-(3 - 2 * (debt - 1)))",
    "avg(debt * 12)",
    "sum(CASE WHEN b THEN x ELSE 0 END)",
    "sum(CASE WHEN b AND c = 'p' THEN debt END)",
    "avg(CASE WHEN b THEN x END)",
    "avg(CASE WHEN c = 'q' THEN debt / 4 + 1 END)",
    "sum(2 * x + 1) FILTER (WHERE b)",
    "sum(CASE WHEN b THEN x ELSE 0 END) / count(*)",
    "sum(CASE WHEN b THEN 1 ELSE 0 END)",
    "sum(CASE WHEN b THEN 2 * x - 1 ELSE 0 END) - sum(x)",
    "sum(coalesce(debt, 0))",
    "sum(coalesce(debt, -5)) / count(*)",
    "sum(CASE WHEN b THEN 2 * x WHEN c = 'p' THEN 7 ELSE x - 1 END)",
    "sum(CASE WHEN b THEN debt ELSE -x END)",
    "sum(CASE WHEN debt IS NULL THEN 0 ELSE debt END)",
]


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("expression", ASKED)
def test_the_values_are_added_up(expression: str) -> None:
    rows = people()
    curator = mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=9e3))
    engine = duckdb.connect()
    engine.register("t", rows)
    for grouped in ("",) if "c = " in expression else ("", "c, "):
        text = f"SELECT {grouped}{expression} AS v FROM t" + (" GROUP BY c ORDER BY c" if grouped else "")
        truth = [float(row[-1]) for row in engine.execute(text).fetchall()]
        told = [number.value for number in mq.answer(curator, text, epsilon=4e3).numbers]
        assert told == pytest.approx(truth, rel=1e-3)  # noise of about a thousandth of one row


@pytest.mark.parametrize("expression", ["CASE WHEN b THEN 1 WHEN c = 'p' THEN 2 ELSE 3 END", "coalesce(b::int, 0)"])
def test_what_holds_no_values_is_measured_once(expression: str) -> None:
    assert len(mq.query.parse(SCHEMA, f"SELECT sum({expression}) AS v FROM t").marginals) == 1


def test_equal_sums_are_one_question() -> None:
    curator = mq.Curator(mq.open_table(people(), SCHEMA), mq.Budget(epsilon=10.0))
    text = "SELECT sum(x) FILTER (WHERE b) - sum(CASE WHEN b THEN x ELSE 0 END) AS zero FROM t"
    (number,) = mq.answer(curator, text, epsilon=0.1).numbers
    assert (number.low, number.value, number.high) == (0, 0, 0)


def test_what_an_expression_says_is_what_was_read() -> None:
    rng = random.Random(5)

    def written(depth: int) -> str:
        if depth == 0:
            return "x"
        inner, number = written(depth - 1), rng.choice(["2", "0.5", "-3", "10"])
        return rng.choice(
            [
                f"({inner} + {number})",
                f"({number} - {inner})",
                f"({inner} * {number})",
                f"({inner} / {number})",
                f"-{inner}",
            ]
        ).replace("--", "- -")

    for _ in range(200):
        text = written(rng.randint(0, 5))
        found = affine(sqlglot.parse_one(text, dialect="duckdb"))
        assert found is not None
        for x in (0.0, 1.0, -7.5):
            assert found.factor * x + found.offset == pytest.approx(eval(text, {"x": x}))


@pytest.mark.parametrize(
    "text",
    [
        "x * x",
        "x * 1e200",
        "x + 1e200",
        "x / 1e200",
        "x + y",
        "1 / x",
        "abs(x)",
        "x // 2",
        "x % 3",
        "x * 0",
        "x / 0",
        "5",
        "x || 'a'",
    ],
)
def test_anything_else_is_left_as_it_is(text: str) -> None:
    assert affine(sqlglot.parse_one(text, dialect="duckdb")) is None


@pytest.mark.parametrize("expression", ["variance(x * 1e200)", "stddev(x * 1e200)", "sum(x * 1e308)"])
def test_numbers_without_end_are_refused_before_a_charge(expression: str) -> None:
    curator = mq.Curator(mq.open_table(people(), SCHEMA), mq.Budget(epsilon=1.0))
    with pytest.raises(mq.QueryError):
        mq.answer(curator, f"SELECT {expression} AS v FROM t", epsilon=0.5)
    assert curator.spent.epsilon == 0.0
