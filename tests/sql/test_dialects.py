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
    "SELECT `region`, count(*) AS `n of rows` FROM `people` WHERE `region` NOT LIKE 'a`b' GROUP BY `region`": (
        "SELECT region, count(*) FROM people GROUP BY region"
    ),
    "SELECT region, count() FROM people GROUP BY 1 LIMIT ALL": "SELECT region, count(*) FROM people GROUP BY region",
    "SELECT CAST(seen AS VARCHAR(7)) AS m, region::char(2) AS r, count(*) FROM people GROUP BY 1, 2": (
        "SELECT strftime(seen, '%Y-%m') AS m, left(region, 2) AS r, count(*) FROM people GROUP BY 1, 2"
    ),
    "SELECT count(*) FROM people WHERE TRY_CAST(region AS NVARCHAR(3)) = N'nor' OR CAST(visits AS VARCHAR(9)) = '3'": (
        "SELECT count(*) FROM people WHERE left(region, 3) = 'nor' OR visits = 3"
    ),
    "SELECT COUNT_BIG(*) FROM people": "SELECT count(*) FROM people",
    "SELECT count(*) FROM people WHERE region !~ 'th$' OR region !~* 'NORTH'": (
        "SELECT count(*) FROM people WHERE region <> 'north' "
    ),
    "SELECT count(*) FROM people WHERE ISNULL(sex)": "SELECT count(*) FROM people WHERE sex IS NULL",
    "SELECT NVL2(sex, 'known', 'not') AS s, count(*) FROM people GROUP BY 1": (
        "SELECT CASE WHEN sex IS NULL THEN 'not' ELSE 'known' END AS s, count(*) FROM people GROUP BY 1"
    ),
    "SELECT CAST(avg(age) AS FLOAT64) AS a FROM people": "SELECT avg(age) AS a FROM people",
    "SELECT GROUPING_ID(region, smoker) AS g, region, smoker, count(*) FROM people GROUP BY CUBE (region, smoker)": (
        "SELECT grouping(region, smoker) AS g, region, smoker, count(*) FROM people GROUP BY CUBE (region, smoker)"
    ),
    "SELECT to_char(seen, 'YYYY-\"Q\"Q') AS q, count(*) FROM people GROUP BY 1": (
        "SELECT year(seen) || '-Q' || quarter(seen) AS q, count(*) FROM people GROUP BY 1"
    ),
    "SELECT to_char(seen, 'FMDay, DD Mon') AS q, count(*) FROM people GROUP BY 1": (
        "SELECT strftime(seen, '%A, %d %b') AS q, count(*) FROM people GROUP BY 1"
    ),
    "SELECT TO_DATE(seen) AS d, count(*) FROM people GROUP BY 1": "SELECT seen AS d, count(*) FROM people GROUP BY 1",
    "SELECT EOMONTH(seen) AS d, count(*) FROM people GROUP BY 1": (
        "SELECT last_day(seen) AS d, count(*) FROM people GROUP BY 1"
    ),
    "SELECT DATENAME(weekday, seen) AS d, DATENAME(month, seen) AS m, count(*) FROM people GROUP BY ALL": (
        "SELECT dayname(seen) AS d, monthname(seen) AS m, count(*) FROM people GROUP BY ALL"
    ),
    "SELECT DATE_TRUNC(seen, WEEK(MONDAY)) AS w, count(*) FROM people GROUP BY 1": (
        "SELECT date_trunc('week', seen) AS w, count(*) FROM people GROUP BY 1"
    ),
    "SELECT count(*) FROM people WHERE DATE_DIFF(DATE '2024-12-31', seen, MONTH) < 3": (
        "SELECT count(*) FROM people WHERE date_diff('month', seen, DATE '2024-12-31') < 3"
    ),
    "SELECT count(*) FROM people WHERE seen > DATE_SUB('2024-12-31', INTERVAL 30 DAY)": (
        "SELECT count(*) FROM people WHERE seen > DATE '2024-12-31' - INTERVAL 30 DAY"
    ),
    "SELECT count(*) FROM people WHERE seen > '2024-12-31' - INTERVAL 1 MONTH": (
        "SELECT count(*) FROM people WHERE seen > DATE '2024-12-31' - INTERVAL 1 MONTH"
    ),
    "SELECT count(*) FROM people WHERE DATEADD(month, -1, seen) >= DATEADD('quarter', 1, '2024-02-29')": (
        "SELECT count(*) FROM people WHERE seen - INTERVAL 1 MONTH >= DATE '2024-02-29' + INTERVAL 3 MONTH"
    ),
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
    "SELECT count(*) FROM people WHERE seen > DATE_SUB('2024-12-31', 30)": "INTERVAL 30 DAY",
    "SELECT count(*) FROM people WHERE seen > DATEADD(day, visits, '2024-12-31')": "INTERVAL 30 DAY",
    "SELECT count(*) FROM people WHERE DATE_DIFF(DATE '2024-12-31', seen, WEEK) < 9": "a unit stands first",
    "SELECT DATE_TRUNC(seen, WEEK(SUNDAY)) AS w, count(*) FROM people GROUP BY 1": "a unit stands first",
    "SELECT DATENAME(hour, seen) AS w, count(*) FROM people GROUP BY 1": "did you mean dayname",
    "SELECT to_char(seen, 'Month') AS m, count(*) FROM people GROUP BY 1": "monthname",
    "SELECT to_char(seen, '%%') AS m, count(*) FROM people GROUP BY 1": "monthname",
    "SELECT count(*) FROM people WHERE region SIMILAR TO '(n|s)%'": "databases read in different ways.*regexp_matches",
    "SELECT count(*) FROM people WHERE region NOT SIMILAR TO 'n_rth'": "databases read in different ways",
    "SELECT count(*) FROM people WHERE dayofweek(seen) IN (1, 7)": "0 on Sunday to 6 on Saturday; isodow",
    "SELECT count(*) FROM people WHERE EXTRACT(DAYOFWEEK FROM seen) = 7": "isodow",
    "SELECT count(*) FROM people WHERE DATEPART(weekday, seen) = 7": "isodow",
    "SELECT count(*) FROM people WHERE date_part('dow', seen) BETWEEN 6 AND 7": "isodow",
    "SELECT count(*) FROM people WHERE 7 <> weekday(seen)": "isodow",
    "SELECT count(*) FROM people WHERE seen >= '2024-06-01 00:00:00'": "'2024-06-01' alone",
    "SELECT count(*) FROM people WHERE seen LIKE '2024-03%'": "strftime",
    "SELECT seen + visits AS d, count(*) FROM people GROUP BY 1": r"x \+ CAST\(y AS INT\)",
    "SELECT upper(age) AS d, count(*) FROM people GROUP BY 1": "AS VARCHAR",
    "SELECT EXTRACT(DATE FROM seen) AS d, count(*) FROM people GROUP BY 1": "write year, quarter",
    "SELECT count(*) FROM people WHERE REGEXP_CONTAINS(region, r'th$')": "without r before it",
    "SELECT count(*) FROM [people]": "double quotes",
    "SELECT CONVERT(date, seen) AS d, count(*) FROM people GROUP BY 1": r"CAST\(x AS",
    "SELECT n = count(*) FROM people": "AS n",
    "SELECT count(*) FROM people WHERE age MOD 2 = 1": "x % 2",
    "SELECT region, count(*) FROM people GROUP region": "write GROUP BY",
    "SELECT region, count(*) FROM people GROUPBY region": "write GROUP BY",
    "SELECT region, count(*) FROM people GROUP BY 1 LIMIT ten": "write LIMIT 10",
    "SELECT region, cnt(*) FROM people GROUP BY 1": r"did you mean count\?",
    "SELECT averge(age) FROM people": r"did you mean avg\?",
    "SELECT sum(count(*)) FROM people GROUP BY region": r"sum\(count\(\*\)\) OVER \(\)",
    "SELECT region, count(*) AS n FROM people WHERE n > 9 GROUP BY region": "put it after HAVING",
    "SELECT region, age FROM people": "rows are never shown",
    "SELECT max(seen) FROM people": "GROUP BY",
    "SELECT string_agg(DISTINCT region, ',') FROM people": "the function string_agg is not supported",
    "SELECT quantile_cont(age, [0.25, 0.5]) FROM people": "one quantile at a time",
    "SELECT sum(age / visits) FROM people": r"nullif\(x, 0\)",
    "SELECT * FROM (SELECT region FROM people) PIVOT (count(*) FOR region IN ('north'))": r"count\(\*\) FILTER",
    "SELECT count(*) FROM people # all": "a comment begins with --",
    "SELECT region, to_char(count(*), '999,999') FROM people GROUP BY 1": "the function to_char",
    "SELECT count(*)::varchar(9) FROM people": "the function left of a noisy number",
    "SELECT count(*) FROM people WHERE age <> ALL (1, 2)": "NOT IN",
    "SELECT count(*) FROM people WHERE region[1] = 'n'": "substring",
    "SELECT count(*) FROM people WHERE region COLLATE NOCASE = 'N'": "lower",
    "DESCRIBE people": "the columns are age",
    "SHOW TABLES": "the columns are age",
    "EXPLAIN SELECT count(*) FROM people": r"session.explain\(text\)",
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
