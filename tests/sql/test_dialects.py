"""What people write in PostgreSQL, BigQuery, MySQL and SQL Server is answered as DuckDB's own words are."""

from __future__ import annotations

from typing import Any

import pytest
from test_ordinary import DATA, SCHEMA, engine, plain, same

import maquette as mq
from maquette.query import Context, PublicTable, parse
from sql_checks import answered_exactly

assert engine  # the fixture

EQUAL = {
    "SELECT to_char(seen, 'YYYY-MM') AS m, count(*) FROM people GROUP BY 1": (
        "SELECT strftime(seen, '%Y-%m') AS m, count(*) FROM people GROUP BY 1"
    ),
    "SELECT to_char(seen, 'YYYYMM') AS m, count(*) FROM people GROUP BY 1": (
        "SELECT strftime(seen, '%Y%m') AS m, count(*) FROM people GROUP BY 1"
    ),
    "SELECT FORMAT_DATE('%Y-%m', seen) AS m, count(*) FROM people GROUP BY 1": (
        "SELECT strftime(seen, '%Y-%m') AS m, count(*) FROM people GROUP BY 1"
    ),
    "SELECT DATE_FORMAT(seen, '%Y-%m') AS m, count(*) FROM people GROUP BY 1": (
        "SELECT strftime(seen, '%Y-%m') AS m, count(*) FROM people GROUP BY 1"
    ),
    "SELECT DATE(seen) AS d, count(*) FROM people WHERE DATE(seen) < '2024-01-04' GROUP BY 1": (
        "SELECT seen AS d, count(*) FROM people WHERE seen < '2024-01-04' GROUP BY 1"
    ),
    "SELECT DATE_TRUNC(seen, MONTH) AS m, count(*) FROM people GROUP BY m": (
        "SELECT date_trunc('month', seen) AS m, count(*) FROM people GROUP BY m"
    ),
    "SELECT DATEPART(quarter, seen) AS q, count(*) FROM people GROUP BY DATEPART(quarter, seen)": (
        "SELECT quarter(seen) AS q, count(*) FROM people GROUP BY 1"
    ),
    "SELECT EXTRACT(ISOWEEK FROM seen) AS w, count(*) FROM people GROUP BY w": (
        "SELECT week(seen) AS w, count(*) FROM people GROUP BY w"
    ),
    "SELECT region, SAFE_DIVIDE(COUNTIF(smoker), COUNT(*)) AS r FROM people GROUP BY 1": (
        "SELECT region, countif(smoker) / count(*) AS r FROM people GROUP BY 1"
    ),
    "SELECT width_bucket(age, 20, 80, 6) AS b, count(*) FROM people GROUP BY b": (
        "SELECT CASE WHEN age < 20 THEN 0 WHEN age >= 80 THEN 7 ELSE (age - 20) // 10 + 1 END AS b, count(*) "
        "FROM people GROUP BY b"
    ),
    "SELECT ISNULL(sex, 'x') AS s, count(*) FROM people GROUP BY 1": (
        "SELECT coalesce(sex, 'x') AS s, count(*) FROM people GROUP BY 1"
    ),
    "SELECT count(*) FROM people WHERE seen >= TO_DATE('2024-06-01', 'YYYY-MM-DD')": (
        "SELECT count(*) FROM people WHERE seen >= DATE '2024-06-01'"
    ),
    "SELECT count(*) FROM people WHERE seen::timestamp >= TIMESTAMP '2024-06-01 00:00:00'": (
        "SELECT count(*) FROM people WHERE seen >= DATE '2024-06-01'"
    ),
    "SELECT count(*) FROM people WHERE region = ANY(ARRAY['north', 'east'])": (
        "SELECT count(*) FROM people WHERE region IN ('north', 'east')"
    ),
    "SELECT count(*) FROM people WHERE region ~* '^N'": "SELECT count(*) FROM people WHERE region LIKE 'n%'",
    "SELECT count(*) FROM people WHERE REGEXP_CONTAINS(region, 'th$')": (
        "SELECT count(*) FROM people WHERE region LIKE '%th'"
    ),
    "SELECT count(*) FROM people WHERE 1 = 1 AND smoker": "SELECT count(*) FROM people WHERE smoker",
    "SELECT count(*) FROM people WHERE smoker OR 'a' = 'b'": "SELECT count(*) FROM people WHERE smoker",
    "SELECT count(*) FROM people WHERE smoker = 'yes' OR smoker = 'T'": "SELECT count(*) FROM people WHERE smoker",
    "SELECT count(*) FROM public.people WHERE smoker": "SELECT count(*) FROM people WHERE smoker",
}
ADVISED = {
    "SELECT extract(hour FROM seen) AS h, count(*) FROM people GROUP BY 1": "the time of a day",
    "SELECT date_trunc('hour', seen) AS h, count(*) FROM people GROUP BY 1": "the time of a day",
    "SELECT date_part('minute', seen) AS h, count(*) FROM people GROUP BY 1": "the time of a day",
    "SELECT strftime(seen, '%H') AS h, count(*) FROM people GROUP BY 1": "the time of a day",
    "SELECT hour(seen) AS h, count(*) FROM people GROUP BY 1": "without a time",
    "SELECT to_char(seen, 'YYYY HH24') AS h, count(*) FROM people GROUP BY 1": "strftime",
    "SELECT count(*) FROM people WHERE seen > now() - INTERVAL '1 year'": "CURRENT_DATE",
    "SELECT count(*) FROM people WHERE seen > DATE_SUB('2024-12-31', INTERVAL 30 DAY)": "INTERVAL 30 DAY",
    "SELECT DATE_FORMAT(seen, 'yyyy-MM') AS m, count(*) FROM people GROUP BY 1": "strftime",
    "SELECT DATE_FORMAT(seen, '%X-%V') AS w, count(*) FROM people GROUP BY 1": "strftime",
    "SELECT DATE_FORMAT(seen, '%V') AS w, count(*) FROM people GROUP BY 1": "strftime",
    "SELECT DATEPART(week, seen) AS w, count(*) FROM people GROUP BY 1": "there is no column",
    "SELECT DATE_TRUNC(seen, WEEK) AS w, count(*) FROM people GROUP BY 1": "there is no column",
    "SELECT percentile(age, 0.5) FROM people": "quantile_cont",
    "SELECT histogram(age) FROM people": "GROUP BY the column",
    "SELECT bool_and(smoker) FROM people": "count_if",
    "SELECT any_value(region) FROM people": "GROUP BY the column",
    "SELECT regr_slope(age, visits) FROM people": "covar_pop",
    "SELECT count(*) FROM other.people": "name of the table alone",
}


@pytest.mark.parametrize("text", EQUAL)
def test_words_of_other_databases(engine: Any, text: str) -> None:
    theirs = sorted((tuple(map(plain, row)) for row in engine.execute(EQUAL[text]).fetchall()), key=str)
    ours = sorted((tuple(map(plain, row)) for row in answered_exactly(SCHEMA, DATA, text)), key=str)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True)), (one, other)


@pytest.mark.parametrize("text", ADVISED)
def test_what_has_no_equal_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(mq.QueryError, match=ADVISED[text]):
        parse(SCHEMA, text, context=Context(table="people"))


UNIT = Context(table="people", unit="person", unit_rows=3)


def test_people_by_a_case_are_people_by_a_filter() -> None:
    case = parse(SCHEMA, "SELECT count(DISTINCT CASE WHEN smoker THEN person END) AS n FROM people", context=UNIT)
    plainly = parse(SCHEMA, "SELECT count(DISTINCT person) FILTER (WHERE smoker) AS n FROM people", context=UNIT)
    assert case.key == plainly.key


@pytest.mark.parametrize(
    "text",
    [
        "SELECT person, count(*) FROM people GROUP BY person",
        "SELECT count(*) FROM people WHERE person = 'p1'",
        "SELECT sum(person) FROM people",
    ],
)
def test_the_privacy_unit_is_no_column_and_says_so(text: str) -> None:
    with pytest.raises(mq.QueryError, match=r"person says whose row it is.*count\(DISTINCT person\)"):
        parse(SCHEMA, text, context=UNIT)


LOOKUP = PublicTable({"code": ["north", "south", "east"], "half": ["up", "down", "up"]}, key="code")
JOINED = Context(table="people", public={"regions": LOOKUP})


@pytest.mark.parametrize(
    ("join", "kept"),
    [
        ("JOIN regions r ON p.region = r.code", "region IN ('north', 'south', 'east')"),
        ("INNER JOIN regions AS r ON region = code", "region IN ('north', 'south', 'east')"),
        ("LEFT JOIN regions r ON region = code", "TRUE"),
    ],
)
def test_a_join_keeps_rows_whose_key_is_in_the_public_table(join: str, kept: str) -> None:
    joined = parse(SCHEMA, f"SELECT count(*) AS n FROM people p {join} WHERE smoker", context=JOINED)
    written = parse(SCHEMA, f"SELECT count(*) AS n FROM people p WHERE smoker AND {kept}", context=JOINED)
    assert joined.key == written.key


def test_a_join_that_keeps_rows_of_the_public_table_is_refused() -> None:
    with pytest.raises(mq.QueryError, match="write JOIN or LEFT JOIN"):
        parse(SCHEMA, "SELECT count(*) FROM people p RIGHT JOIN regions r ON p.region = r.code", context=JOINED)
