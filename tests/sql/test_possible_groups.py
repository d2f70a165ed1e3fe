"""Groups that a condition rules out are no part of an answer; all others are, also where the table has no row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.query import Context, parse, where
from maquette.query.sql.possible import possible
from sql_checks import answered_exactly

SCHEMA = mq.Schema(
    [
        mq.Category("region", ["north", "south", "east"]),
        mq.Category("plan", ["a", "b"], nullable=True),
        mq.Integer("age", 0, 9),
        mq.Date("seen", "2023-07-01", "2024-06-30", unit="month"),
    ]
)
DATA: dict[str, Any] = {
    "region": ["north", "south", "south", "east"] * 100,
    "plan": ["a", "b", None, "a"] * 100,
    "age": [1, 2, 3, 4] * 100,
    "seen": ["2023-08-01", "2024-01-01", "2024-01-01", "2024-05-01"] * 100,
}


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("SELECT region, count(*) FROM people WHERE region IN ('north', 'south') GROUP BY 1", ["north", "south"]),
        ("SELECT plan, count(*) FROM people WHERE plan IS NOT NULL GROUP BY plan", ["a", "b"]),
        ("SELECT plan, count(*) FROM people WHERE plan <> 'a' GROUP BY plan", ["b"]),
        ("SELECT region, count(*) FROM people WHERE region LIKE '%th' AND age < 5 GROUP BY 1", ["north", "south"]),
        ("SELECT region, count(*) FROM people WHERE age < 5 GROUP BY 1", ["north", "south", "east"]),
        ("SELECT age >= 5 AS old, count(*) FROM people WHERE age < 5 GROUP BY 1", [False]),
        ("SELECT region, count(*) AS n FROM people WHERE region <> 'east' GROUP BY 1 ORDER BY 1", ["north", "south"]),
        ("SELECT region, count(*) FILTER (WHERE region = 'east') FROM people GROUP BY 1", ["north", "south", "east"]),
        ("SELECT region, count(*) FROM people WHERE region = 'east' AND region = 'north' GROUP BY 1", []),
    ],
)
def test_only_groups_that_the_condition_allows(text: str, groups: list[Any]) -> None:
    assert [row[0] for row in answered_exactly(SCHEMA, DATA, text)] == groups


def test_groups_are_ruled_out_together() -> None:
    either = "(region = 'north' AND plan = 'a') OR region = 'east'"
    text = f"SELECT region, plan, count(*) FROM people WHERE {either} GROUP BY 1, 2"
    found = {row[:2] for row in answered_exactly(SCHEMA, DATA, text)}
    assert found == {("north", "a"), ("east", "a"), ("east", "b"), ("east", None)}


def test_keys_of_one_column_exclude_one_another() -> None:
    rows = answered_exactly(SCHEMA, DATA, "SELECT year(seen), month(seen), count(*) FROM people GROUP BY 1, 2")
    assert {row[:2] for row in rows} == {(2023, m) for m in range(7, 13)} | {(2024, m) for m in range(1, 7)}


def test_a_total_of_no_rows_is_told() -> None:
    ((count, total),) = answered_exactly(
        SCHEMA, DATA, "SELECT count(*), sum(age) FROM people WHERE age < 2 AND age > 5"
    )
    assert (count, total) == (0, 0)


def test_numbers_computed_from_groups_leave_them_out() -> None:
    text = "WITH g AS (SELECT region, count(*) AS n FROM people WHERE region <> 'east' GROUP BY 1) SELECT avg(n) FROM g"
    ((mean,),) = answered_exactly(SCHEMA, DATA, text)
    assert mean == 150
    ranked = "SELECT region, avg(age) AS a FROM people WHERE region <> 'east' GROUP BY 1 ORDER BY a DESC LIMIT 3"
    assert len(answered_exactly(SCHEMA, DATA, ranked)) == 2


def test_statements_with_the_same_numbers_and_other_groups_differ() -> None:
    texts = (
        "SELECT region, count(*) FILTER (WHERE region = 'east') AS n FROM people GROUP BY 1",
        "SELECT region, count(*) AS n FROM people WHERE region = 'east' GROUP BY 1",
    )
    one, other = (parse(SCHEMA, text, context=Context(table="people")) for text in texts)
    assert one.marginals == other.marginals
    assert one.key != other.key
    curator = mq.Curator(mq.open_table(DATA, SCHEMA), mq.Budget(epsilon=10.0, delta=1e-9))
    session = mq.online(curator, alpha=0.2)
    assert [len(session.ask(text).rows) for text in texts] == [3, 1]


def test_what_is_too_large_to_list_is_taken_to_be_possible() -> None:
    wide = mq.Schema([mq.Integer(f"c{i}", 0, 99) for i in range(4)])
    either = where(wide, "c0 < 50 AND c1 < 50 OR c2 < 50 AND c3 < 50")
    assert possible(wide, ["c0"], either).all()
    both = where(wide, "c0 < 50 AND c1 < 50 AND c2 < 50 AND c3 < 50")
    assert np.flatnonzero(possible(wide, ["c0"], both)).tolist() == list(range(50))


def test_a_release_and_psql_types_of_no_group() -> None:
    curator = mq.Curator(mq.open_table(DATA, SCHEMA), mq.Budget(epsilon=10.0, delta=1e-9))
    release = mq.release(curator, mq.marginals(SCHEMA, k=1))
    nothing = release.answer(
        "SELECT region, count(*) AS n FROM people WHERE region = 'east' AND region = 'north' GROUP BY 1"
    )
    assert len(nothing.rows) == 0
    assert len(nothing.to_pandas()) == 0
    assert str(nothing)
    assert len(release.answer("SELECT region, count(*) FROM people WHERE region = 'east' GROUP BY 1").rows) == 1
