"""Nothing of a statement is read past: it means what DuckDB means by it, or it is refused before any charge."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.answers.frame import Box, Frame, Vector
from maquette.answers.scalars import evaluate
from maquette.query import Context, PublicTable, parse
from sql_checks import answered_exactly

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 3),
        mq.Boolean("smoker", nullable=True),
        mq.Category("town", ["a", "b"], nullable=True),
        mq.Date("seen", "2023-12-31", "2024-01-01"),
    ]
)
LEVELS: list[list[Any]] = [
    [0, 1, 2, 3],
    [True, False, None],
    ["a", "b", None],
    [dt.date(2023, 12, 31), dt.date(2024, 1, 1)],
]
# Every combination of levels at least once: a group that is possible has a row.
_ROWS = [row for i, row in enumerate(itertools.product(*LEVELS)) for _ in range(1 + i % 3)]
DATA: dict[str, Any] = {name: [row[i] for row in _ROWS] for i, name in enumerate(SCHEMA.names)}
LOOKUP = PublicTable({"town": ["a", "b"], "age": [1, 2], "name": ["A", "B"]}, key="town")
CONTEXT = Context(table="people", public={"towns": LOOKUP})
BY_TOWN = "SELECT town, count(*) AS n FROM people GROUP BY town"
BY_AGE = "SELECT age, count(*) AS n FROM people GROUP BY age"

EQUAL = [
    # conditions that are NULL are no part of an average
    "SELECT avg(CAST(town = 'a' AS INT)) AS v, sum(CAST(town = 'a' AS INT)) AS s FROM people",
    "SELECT age, avg(CAST(NOT smoker AS INT)) AS v FROM people GROUP BY 1",
    "SELECT var_pop(CAST(smoker = TRUE AS INT)) AS v FROM people",
    # literals that are cast
    "SELECT CASE WHEN smoker THEN CAST(1.7 AS INT) END AS g, count(*) AS n FROM people GROUP BY 1",
    "SELECT CASE WHEN smoker THEN CAST(NULL AS INT) ELSE 1 END AS g, count(*) AS n FROM people GROUP BY 1",
    "SELECT count(*) AS n FROM people WHERE age > CAST('1' AS INT)",
    # buckets that no row can enter
    "SELECT CASE WHEN age >= 0 THEN 'x' WHEN smoker THEN 'y' END AS g, count(*) AS n FROM people GROUP BY 1",
    "SELECT age > 3 - 4 AS g, town, count(*) AS n FROM people WHERE town IS NOT NULL GROUP BY 1, 2",
    # truth values of noisy numbers
    f"{BY_TOWN} HAVING (count(*) > 5) IS TRUE",
    f"{BY_TOWN} HAVING (count(*) > 5) IS NOT FALSE",
    f"{BY_TOWN} HAVING (count(*) < 5) IS FALSE",
    f"{BY_TOWN} HAVING town = 'a' OR count(*) > 5",
    f"{BY_TOWN} HAVING NOT (town = 'a' AND count(*) < 5)",
    f"{BY_TOWN} HAVING NOT (town = 'a' OR count(*) < 5)",
    f"{BY_TOWN} HAVING town = 'a' AND count(*) > 5",
    f"{BY_TOWN} HAVING (town = 'a' OR count(*) < 5) IS NULL",
    f"{BY_TOWN} HAVING count(*) IN (1, 2) OR town IS NULL",
    "SELECT (sum(age) - 9999) // 1000 AS v FROM people",
    # what has no number is NULL
    "SELECT coalesce(covar_samp(age, age), 0) AS v FROM people WHERE age > 2 AND age < 1",
    "SELECT count(v) AS n FROM (SELECT town, var_samp(age) FILTER (WHERE age > 2 AND age < 1) AS v FROM people "
    "GROUP BY town) q",
    "SELECT town, nullif(count(*), 0) AS v FROM people WHERE (age = 2) IS NULL GROUP BY town",
    # a discrete quantile in falling order is the other of two middle rows
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age DESC) AS v FROM people WHERE age IN (0, 3)",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age) AS v FROM people WHERE age IN (0, 3)",
    "SELECT town, percentile_disc(0.25) WITHIN GROUP (ORDER BY age DESC) AS v FROM people GROUP BY 1",
    # frames of windows
    "SELECT age, sum(count(*)) OVER (ORDER BY age RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w "
    "FROM people GROUP BY age",
    "SELECT age, sum(count(*)) OVER (ORDER BY age RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS w "
    "FROM people GROUP BY age",
    "SELECT age, sum(count(*)) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS w FROM people GROUP BY age",
    "SELECT age, sum(count(*)) OVER (ORDER BY age ROWS 1 PRECEDING) AS w FROM people GROUP BY age",
    "SELECT age, town, last_value(count(*)) OVER (ORDER BY age ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
    "FOLLOWING) > 0 AS w FROM people WHERE town = 'a' GROUP BY age, town",
]
REFUSED = {
    "SELECT count(NULL) AS v FROM people": "counts nothing",
    "SELECT age / age AS g, count(*) AS n FROM people GROUP BY 1": "not a number on some level",
    "SELECT sum(age / age) AS s FROM people": "not a number on some level",
    f"SELECT a.town, a.n, b.n AS m FROM ({BY_TOWN}) a NATURAL JOIN ({BY_TOWN}) b": "NATURAL JOIN",
    f"SELECT a.town, a.n, b.n AS m FROM ({BY_TOWN}) a POSITIONAL JOIN ({BY_TOWN}) b": "POSITIONAL JOIN",
    f"SELECT a.town, a.n, b.n AS m FROM ({BY_TOWN}) a ASOF JOIN ({BY_TOWN}) b ON a.town = b.town": "ASOF JOIN",
    "SELECT count(*) AS n FROM people NATURAL JOIN towns": "NATURAL JOIN",
    "SELECT count(*) AS n FROM people JOIN towns USING (town, age)": "USING with several",
    f"{BY_TOWN} ORDER BY n LIMIT 50%": "PERCENT after LIMIT",
    f"{BY_TOWN} ORDER BY n FETCH FIRST 2 ROWS WITH TIES": "WITH TIES after LIMIT",
    f"({BY_TOWN}) ORDER BY n LIMIT 1": "not supported",
    f"{BY_TOWN} UNION ALL BY NAME SELECT count(*) AS n, town FROM people GROUP BY town": "BY NAME",
    f"SELECT * EXCLUDE (n) FROM ({BY_TOWN}) q": "EXCEPT of STAR",
    f"SELECT * REPLACE (n + 1 AS n) FROM ({BY_TOWN}) q": "REPLACE of STAR",
    f"WITH q(n, town) AS ({BY_TOWN}) SELECT n, town FROM q": "new names of columns",
    f"SELECT n, town FROM ({BY_TOWN}) AS q(n, town)": "new names of columns",
    "SELECT count(*) AS n FROM people WHERE town IN age": "FIELD of IN",
    "SELECT town, town AS t, count(*) AS n FROM people GROUP BY ROLLUP (1, 2)": "names an entry twice",
    "SELECT age, sum(count(*)) OVER (ORDER BY age RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS w FROM people "
    "GROUP BY age": "RANGE with this frame",
    "SELECT age, sum(count(*)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS w "
    "FROM people GROUP BY age": "EXCLUDE",
    "SELECT age, lag(count(*), 1, 7) OVER (ORDER BY age) AS w FROM people GROUP BY age": "DEFAULT of LAG",
    "SELECT age, lag(count(*) IGNORE NULLS) OVER (ORDER BY age) AS w FROM people GROUP BY age": "IGNORE NULLS",
    "SELECT age, first_value(count(*)) OVER (ORDER BY age ROWS 1 PRECEDING) AS w FROM people "
    "GROUP BY age": "this frame",
    f"SELECT max(n, 2) AS m FROM ({BY_TOWN}) q": "not supported",
}


@pytest.fixture(scope="module")
def engine() -> Any:
    with duckdb.connect() as connection:
        connection.register("people", pa.table(DATA))
        yield connection


def same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-5)
    return bool(one == other)


@pytest.mark.parametrize("text", EQUAL)
def test_statements_mean_what_they_say(engine: Any, text: str) -> None:
    theirs = sorted(engine.execute(text).fetchall(), key=str)
    ours = sorted(answered_exactly(SCHEMA, DATA, text), key=lambda row: str(tuple(plain(cell) for cell in row)))
    assert len(ours) == len(theirs), (ours, theirs)
    theirs.sort(key=lambda row: str(tuple(plain(cell) for cell in row)))
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(plain(a), plain(b)) for a, b in zip(one, other, strict=True)), (one, other)


def plain(cell: Any) -> Any:
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else cell


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_read_past_is_refused(text: str) -> None:
    with pytest.raises(mq.QueryError, match=REFUSED[text]):
        parse(SCHEMA, text, context=CONTEXT)


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(pay AS VARCHAR) > '45'",
        "TRY_CAST(pay - 2000 AS TINYINT) < 100",
        "CAST(pay - 25 AS BOOLEAN) > FALSE",
    ],
)
def test_the_ends_of_a_bin_decide_only_where_order_is_kept(condition: str) -> None:
    """'5' and '49' lie above '45' as texts, and '10' between them does not."""
    schema = mq.Schema([mq.Number("pay", edges=[0.0, 5.0, 50.0, 4000.0])])
    with pytest.raises(mq.QueryError, match="may differ inside one"):
        mq.where(schema, condition)
    assert mq.where(schema, "CAST(pay AS DOUBLE) < 5") == mq.where(schema, "pay < 5")


@pytest.mark.parametrize("numbers", [np.arange(4), [Decimal(i) for i in range(4)], [np.float64(i) for i in range(4)]])
def test_numbers_of_a_public_table_are_numbers_whatever_their_type(numbers: Any) -> None:
    ranks = PublicTable({"age": numbers, "rank": [int(n) + 8 for n in numbers], "same": numbers}, key="age")
    assert ranks.column("same") == (0, 1, 2, 3)
    assert not any(isinstance(value, np.generic | Decimal) for value in ranks.column("same"))
    text = "SELECT sum(r.same) AS s, count(*) AS n FROM people JOIN ranks r ON people.age = r.age WHERE r.same >= 2"
    parse(SCHEMA, text, context=Context(table="people", public={"ranks": ranks}))


def test_a_key_that_is_no_number_is_refused() -> None:
    with pytest.raises(mq.QueryError, match="must be unique"):
        PublicTable({"age": [1.0, math.nan], "rank": [1, 2]}, key="age")
    assert PublicTable({"age": [1, 2], "rank": [math.nan, 2.0]}, key="age").column("rank") == (None, 2.0)


TOTAL = [
    "pow(count(*) - count(*), -1)", "round(count(*), 400)",
    "round(count(*), -400)", "round(var_pop(age), 1)", "floor(corr(age, age))", "exp(count(*))",
]  # fmt: skip


@pytest.mark.parametrize("expression", TOTAL)
def test_what_is_computed_from_answers_never_fails_after_the_charge(expression: str) -> None:
    with mq.Curator(mq.open_table(DATA, SCHEMA), mq.Budget(epsilon=100.0)) as curator:
        mq.answer(curator, f"SELECT {expression} AS v FROM people WHERE age > 1 AND age < 1", epsilon=1.0)
        mq.answer(curator, f"SELECT {expression} AS v FROM people", epsilon=1.0)


def test_a_power_beyond_what_was_rehearsed_is_infinite() -> None:
    schema = mq.Schema([mq.Integer("pay", 0, 999_999, width=100_000)])
    table = mq.open_table({"pay": [999_999] * 1_000}, schema)
    with mq.Curator(table, mq.Budget(epsilon=100.0)) as curator:
        mq.answer(curator, "SELECT pow(sum(pay), 40) AS v FROM t", epsilon=1.0)


def test_a_negative_power_of_a_number_that_may_be_zero_has_no_end() -> None:
    from sqlglot import exp

    box = Box()
    values = np.array([3.0], dtype=object)
    counted = Vector(values, [box.add(0.0, 5.0)], np.array([0.0]), np.array([5.0]), np.array([2]), np.array([True]))
    frame = Frame({"n": counted}, 1, box)
    power: exp.Expression = exp.maybe_parse('pow("n", -1)', dialect="duckdb")
    found = evaluate(power, frame, SCHEMA)
    assert found.low is not None
    assert found.high is not None
    assert found.low[0] <= 0.2
    assert found.high[0] == math.inf
