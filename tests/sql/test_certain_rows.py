"""Rows of answered groups that the noise may have chosen: joins, DISTINCT and counts allow for what it has missed."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from sql_checks import Shifted

SCHEMA = mq.Schema([mq.Category("g", ["a", "b", "c"]), mq.Boolean("s"), mq.Integer("v", 0, 9, nullable=True)])
COUNTS = {"a": 40, "b": 100, "c": 160}
ROWS: dict[str, list[Any]] = {
    "g": [g for g, n in COUNTS.items() for _ in range(n)],
    "s": [i % 2 == 0 for n in COUNTS.values() for i in range(n)],
    "v": [None if g == "a" else 5 for g, n in COUNTS.items() for _ in range(n)],
}
BY = "SELECT g, count(*) AS n FROM t GROUP BY g"


def asked(text: str, by: int = 0) -> mq.Answered:
    """Intervals of about 60 rows, and noise that leaves the interval of no number."""
    with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=10.0), noise=Shifted(by)) as curator:
        return mq.answer(curator, text, epsilon=0.2)


def column(text: str, title: str, by: int = 0) -> dict[str, mq.Answer]:
    return {row.groups[0]: row[title] for row in asked(text, by).rows}


@pytest.mark.parametrize("by", [-9, 0, 9])
@pytest.mark.parametrize("least", [60, 95, 105])
def test_a_left_join_keeps_rows_whose_partner_was_not_chosen(by: int, least: int) -> None:
    text = f"WITH x AS ({BY}), y AS ({BY} HAVING count(*) > {least}) SELECT x.g, x.n, y.n AS m FROM x LEFT JOIN y "
    text += "USING (g)"
    assert [row.groups[0] for row in asked(text, by).rows] == ["a", "b", "c"]


@pytest.mark.parametrize("by", [-9, 0, 9])
def test_totals_over_a_left_join_cover_both_cases(by: int) -> None:
    """Of the three groups one is surely without a partner, one has one and one may have one; each counts once."""
    text = f"WITH x AS ({BY}), y AS ({BY} HAVING count(*) > 105) SELECT count(*) AS k FROM x LEFT JOIN y ON x.g = y.g"
    (number,) = asked(text, by).numbers
    assert number.value == 3
    assert number.low <= 3 <= number.high


@pytest.mark.parametrize("by", [-9, 0, 9])
@pytest.mark.parametrize("least", [60, 95, 105])
def test_different_rows_that_the_noise_left_out_may_be_in(by: int, least: int) -> None:
    halves = "SELECT g, s, count(*) AS n FROM t GROUP BY g, s"
    text = f"SELECT count(*) AS k FROM (SELECT DISTINCT g FROM ({halves}) q WHERE n > {least / 2}) r"
    (number,) = asked(text, by).numbers
    truth = sum(n / 2 > least / 2 for n in COUNTS.values())
    assert number.low <= truth <= number.high


def test_a_count_of_noisy_numbers_allows_for_those_that_are_null() -> None:
    """The average of no values is NULL, which its noisy number does not say."""
    (number,) = asked("SELECT count(m) AS k FROM (SELECT g, avg(v) AS m FROM t GROUP BY g) q").numbers
    assert number.low <= 2 <= number.high
    (number,) = asked("SELECT count(n) AS k FROM (SELECT g, count(v) AS n FROM t GROUP BY g) q").numbers
    assert (number.low, number.value, number.high) == (3, 3, 3)
    for k in column("SELECT g, count(avg(v)) OVER () AS k FROM t GROUP BY g", "k").values():
        assert k.low <= 2 <= k.high


@pytest.mark.parametrize(
    "expression",
    ["CASE WHEN count(*) > {} THEN 'many' ELSE 'few' END", "count(*) > {}", "if(count(*) > {}, 'y', NULL)"],
)
def test_a_label_that_the_noise_leaves_open_is_not_exact(expression: str) -> None:
    """Intervals reach about 15 rows to each side."""
    for least, standing in ((-1, "promised"), (98, "guessed"), (10_000, "promised")):
        answer = asked(f"SELECT g, {expression.format(least)} AS size, count(*) AS n FROM t WHERE g = 'b' GROUP BY g")
        assert answer.rowset["g"].standing == ("exact",)
        assert answer.rowset["size"].standing == (standing,)
        assert answer.each(lambda one: one).rowset["size"].standing == (standing,)


def test_the_standing_of_labels_survives_the_wire() -> None:
    from maquette.service.wire import answer_data, answer_of

    answer = asked("SELECT g, count(*) > 98 AS many, count(*) AS n FROM t GROUP BY g")
    assert answer_of(answer_data(answer)).rowset == answer.rowset
    assert set(answer.rowset["many"].standing) == {"promised", "guessed"}


SHARES = [
    "count(*) FILTER (WHERE s) * 1.0 / count(*)",
    "100.0 * sum(CASE WHEN s THEN 1 ELSE 0 END) / nullif(count(*), 0) / 100",
    "count(v) / count(*)",
    "countif(s AND v > 3) / countif(s)",
    "count(*) FILTER (WHERE s) / (SELECT count(*) FROM t)",
]


@pytest.mark.parametrize("expression", SHARES)
@pytest.mark.parametrize("by", [-9, 0, 9])
def test_a_share_of_rows_is_at_most_one(expression: str, by: int) -> None:
    numbers = asked(f"SELECT {expression} AS p FROM t WHERE g = 'a'", by).numbers
    numbers += asked(f"SELECT g, {expression} AS p FROM t GROUP BY g", by).numbers
    assert all(0 <= number.low <= number.value <= number.high <= 1 for number in numbers)
    assert "-0" not in str(numbers[0])


def test_a_ratio_of_counts_of_other_rows_may_be_above_one() -> None:
    """40 rows of 100, and 100 of 40."""
    (number,) = asked("SELECT countif(g = 'b') / countif(g = 'a') AS r FROM t").numbers
    assert number.low <= 2.5 <= number.high
    text = f"WITH x AS ({BY}) SELECT p.n / q.n AS r FROM x p CROSS JOIN x q WHERE p.g = 'c' AND q.g = 'b'"
    (number,) = asked(text).numbers
    assert number.low <= 1.6 <= number.high


def test_the_average_of_equal_numbers_lies_in_its_interval() -> None:
    """A seventh of seven equal numbers, added up, need not be that number in floating point."""
    schema = mq.Schema([mq.Integer("a", 0, 6)])
    table = mq.open_table({"a": list(range(7)) * 240}, schema)
    text = "SELECT avg(m) AS v, sum(m) AS s FROM (SELECT a, 100.0 * count(*) / 7 AS m FROM t GROUP BY a) q"
    with mq.Curator(table, mq.Budget(epsilon=9e3), noise=Shifted(0)) as curator:
        numbers = mq.answer(curator, text, epsilon=8e3).numbers
    assert all(number.low <= number.value <= number.high for number in numbers)
