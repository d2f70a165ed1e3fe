"""Names that mean a column and a title, rows that are not NULL, and grouping sets: as DuckDB has them, or refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from test_read_as_written import DATA, SCHEMA, plain, same

import maquette as mq
from maquette.query import PublicTable
from sql_checks import Shifted, answered_exactly

BY_AGE = "SELECT age, count(*) AS n FROM people GROUP BY age"
EQUAL = {
    # a group's column goes before a title; a title alone in ORDER BY before a column
    "SELECT age, town AS smoker, smoker AS town, count(*) AS n FROM people GROUP BY people.age, people.town, "
    "people.smoker HAVING smoker IS NOT NULL": None,
    "SELECT age AS g, avg(age) AS age FROM people GROUP BY 1 HAVING age > 1": None,
    "SELECT age AS g, -age AS age, count(*) AS n FROM people GROUP BY 1 ORDER BY age": None,
    "SELECT age AS g, -age AS age, count(*) AS n FROM people GROUP BY 1 ORDER BY age + 0": None,
    "SELECT age AS g, -age AS age, count(*) AS n FROM people GROUP BY 1 QUALIFY row_number() OVER (ORDER BY age) = 1": (
        None
    ),
    "SELECT age AS g, count(*) AS town FROM people GROUP BY 1 HAVING town > 18": None,
    # a group that is shown twice
    "SELECT town AS one, town AS two, count(*) AS n FROM people GROUP BY town": None,
    "SELECT town AS one, age, town AS two, avg(age) AS a FROM people GROUP BY ALL": None,
    # count(expression) counts the rows on which it is not NULL
    "SELECT count(CASE WHEN smoker THEN town END) AS n, count(if(smoker, NULL, age)) AS m FROM people": None,
    "SELECT count(CASE WHEN smoker THEN town ELSE 'x' END) AS n, count(CASE smoker WHEN TRUE THEN 1 END) AS m "
    "FROM people": None,
    "SELECT count(nullif(age, 2)) AS n, count(coalesce(town, 'x')) AS m, count(town || 'x') AS k FROM people": None,
    "SELECT count(*) AS n FROM people WHERE age IN (1, age - 1, NULL)": None,
    "SELECT count(*) AS n FROM people WHERE age NOT IN (1, length(town))": None,
    # grouping sets
    "SELECT town, age, grouping(town, age) AS g, count(*) AS n FROM people GROUP BY ROLLUP (town, age)": None,
    "SELECT town, age, grouping(age, town) AS g, count(*) AS n FROM people GROUP BY CUBE (town, age)": None,
    "SELECT age > 1 AS old, grouping((age > 1)) AS g, count(*) AS n FROM people GROUP BY ROLLUP ((age > 1))": None,
    "SELECT age, count(*) AS n FROM people GROUP BY age WITH ROLLUP": (
        "SELECT age, count(*) AS n FROM people GROUP BY ROLLUP (age)"
    ),
    "SELECT age, town, count(*) AS n FROM people GROUP BY age, town WITH CUBE": (
        "SELECT age, town, count(*) AS n FROM people GROUP BY CUBE (age, town)"
    ),
    # a window with a name
    "SELECT age, sum(count(*)) OVER w AS s, lag(count(*)) OVER w AS l FROM people GROUP BY age "
    "WINDOW w AS (ORDER BY age)": None,
    "SELECT age, sum(count(*)) OVER (w ROWS 1 PRECEDING) AS s FROM people GROUP BY age WINDOW w AS (ORDER BY age)": (
        None
    ),
    # a quantile of no rows is NULL
    "SELECT coalesce(median(age), -1) AS m FROM people WHERE age > 2 AND age < 1": None,
    "SELECT min(m) AS m FROM (SELECT town, coalesce(median(age) FILTER (WHERE town = 'a'), -1) AS m FROM people "
    "GROUP BY town) q": None,
    # greatest and least leave NULL out
    "SELECT town, greatest(count(*), var_samp(age) FILTER (WHERE town = 'a'), 3) AS g, least(nullif(count(*), 0), 1) "
    "AS l FROM people GROUP BY town": None,
    "SELECT greatest(median(age), count(*) - count(*), NULL) AS g FROM people WHERE age > 2 AND age < 1": None,
    # what is computed from the labels of answered groups, and of none
    "SELECT count(town) AS n, count(*) AS m FROM (SELECT town, count(*) AS n FROM people GROUP BY town) q": None,
    "SELECT max(town) AS t, min(age) AS a FROM (SELECT town, age, count(*) AS n FROM people GROUP BY 1, 2) q": None,
    f"SELECT age, sum(n) AS s FROM ({BY_AGE}) q WHERE age > 7 GROUP BY age": None,
    f"SELECT count(*) AS n, sum(n) AS s FROM ({BY_AGE}) q WHERE age > 7": None,
}
# the public table as DuckDB sees it
LOOKUP = {"code": ["a", "b"], "age": [1, 2], "name": ["A", "B"], "w": [1.5, None]}
JOINED = [
    "WITH g AS (SELECT town, count(*) AS n FROM people GROUP BY town) SELECT name, n FROM g JOIN towns ON town = code",
    "WITH g AS (SELECT town, count(*) AS n FROM people GROUP BY town) SELECT name, w, n FROM g LEFT JOIN towns t "
    "ON g.town = t.code",
    "SELECT t.name, sum(g.n * t.w) AS s, count(t.w) AS k FROM (SELECT age, count(*) AS n FROM people GROUP BY age) g "
    "JOIN towns t USING (age) WHERE n > 2 GROUP BY t.name",
    # a public table first, or alone
    "WITH g AS (SELECT town, count(*) AS n FROM people GROUP BY town) SELECT t.name, g.n FROM towns t JOIN g "
    "ON g.town = t.code",
    "SELECT t.name, g.n FROM towns t LEFT JOIN (SELECT town, count(*) AS n FROM people WHERE town = 'a' GROUP BY town) "
    "g ON g.town = t.code",
    "SELECT count(*) AS n, count(w) AS k, max(name) AS m FROM towns",
    "SELECT * FROM towns WHERE code > 'a'",
    # FILTER of answered groups
    f"SELECT sum(n) FILTER (WHERE age > 1) AS s, count(*) FILTER (WHERE n > 4) AS k, avg(n) FILTER (WHERE age > 7) "
    f"AS a FROM ({BY_AGE}) q",
    f"SELECT age > 1 AS old, max(n) FILTER (WHERE age <> 3) AS m FROM ({BY_AGE}) q GROUP BY 1 "
    "HAVING sum(n) FILTER (WHERE age = 0) IS NULL",
    # IN of a public table
    "SELECT count(*) AS n FROM people WHERE town IN (SELECT code FROM towns WHERE NAME = 'A')",
    "SELECT age, count(*) AS n FROM people WHERE town NOT IN (SELECT t.code FROM towns AS t WHERE w > 1) GROUP BY age",
    "SELECT count(*) FILTER (WHERE age IN (SELECT age FROM towns)) AS n FROM people WHERE smoker",
    "SELECT count(*) AS n FROM people WHERE town IN (SELECT name FROM towns)",
    "SELECT count(*) AS n FROM people WHERE town NOT IN (SELECT DISTINCT code FROM towns WHERE code = 'none')",
    "WITH g AS (SELECT town, count(*) AS n FROM people GROUP BY town) SELECT n FROM g WHERE town IN "
    "(SELECT code FROM towns WHERE age = 2)",
    # a SELECT about subqueries alone
    "SELECT (SELECT count(*) FROM people WHERE smoker) * 1.0 / (SELECT count(*) FROM people) AS share",
    "SELECT (SELECT sum(age) FROM people), (SELECT count(*) FROM people WHERE town = 'a') AS n, 'x' AS label",
    "WITH g AS (SELECT town, count(*) AS n FROM people GROUP BY town) SELECT (SELECT max(n) FROM g) - "
    "(SELECT min(n) FROM g) AS spread",
    # quantiles where CASE keeps rows
    "SELECT median(CASE WHEN smoker THEN age END) AS m, quantile_disc(nullif(age, 0), 0.1) AS q FROM people",
]
REFUSED = {
    "SELECT t.name, count(*) AS n FROM towns t JOIN people p ON p.town = t.code GROUP BY 1": (
        "begin FROM with the private table"
    ),
    "SELECT count(*) AS n FROM people WHERE town IN (SELECT max(code) FROM towns)": "JOIN towns ON town = towns.code",
    "SELECT count(*) AS n FROM people WHERE age IN (SELECT w FROM towns)": "add WHERE w IS NOT NULL",
    "SELECT count(*) AS n FROM people p WHERE town IN (SELECT code FROM towns t WHERE t.age = p.age)": (
        "does not see the rows around it"
    ),
    "SELECT count(*) AS n FROM people WHERE town IN (SELECT cod FROM towns)": "columns are code",
    "WITH g AS (SELECT age, count(*) AS n FROM people GROUP BY age) SELECT n FROM g JOIN towns ON g.age = towns.code": (
        "JOIN on integer and text"
    ),
    "SELECT (SELECT count(*) FROM people GROUP BY town) AS n": "without FROM",
    "SELECT town + '!' AS t, count(*) AS n FROM people GROUP BY town": "join texts with",
    "SELECT count(*) / (SELECT count(*) FROM people q WHERE q.town = p.town) AS n FROM people p GROUP BY town": (
        "does not see the rows around it"
    ),
    "SELECT count(*) AS n FROM people WHERE smoker XOR age = 1": r"write \(a\) <> \(b\)",
    "SELECT decode(town, 'a', 1, 'b', 2, 3) AS d, count(*) AS n FROM people GROUP BY 1": "instead of DECODE",
    "SELECT std(age) AS s FROM people": "stddev_pop",
    "SELECT age, grouping(town) AS g, count(*) AS n FROM people GROUP BY ROLLUP (age)": "an entry of GROUP BY",
    "SELECT age, count(*) AS n FROM people GROUP BY ALL WITH ROLLUP": "write GROUP BY ROLLUP|cannot be read",
    "SELECT age, sum(count(*)) OVER v AS s FROM people GROUP BY age WINDOW w AS (ORDER BY age)": "write OVER",
    "SELECT count(*) AS n FROM people GROUP BY age WITH ROLLUP WITH CUBE": "ROLLUP or CUBE of nothing|cannot be read",
    "SELECT count(*) AS n FROM people WHERE town IN (a, 'b')": "takes single quotes: 'a'",
}


@pytest.fixture(scope="module")
def engine() -> Any:
    with duckdb.connect() as connection:
        connection.register("people", pa.table(DATA))
        yield connection


@pytest.mark.parametrize("text", EQUAL)
def test_it_means_what_duckdb_means(engine: Any, text: str) -> None:
    theirs = [tuple(map(plain, row)) for row in engine.execute(EQUAL[text] or text).fetchall()]
    ours = [tuple(map(plain, row)) for row in answered_exactly(SCHEMA, DATA, text)]
    if " ORDER BY age" not in text.rsplit("GROUP BY", 1)[-1] or "WINDOW" in text:
        ours, theirs = sorted(ours, key=str), sorted(theirs, key=str)
    assert len(ours) == len(theirs), (ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True)), (one, other)


@pytest.mark.parametrize("text", JOINED)
def test_public_tables_join_answered_groups(text: str) -> None:
    public = {"towns": PublicTable(LOOKUP, key="code")}
    with duckdb.connect() as connection:
        connection.register("people", pa.table(DATA))
        connection.register("towns", pa.table(LOOKUP))
        theirs = sorted(connection.execute(text).fetchall(), key=str)
    with mq.Curator(mq.open_table(DATA, SCHEMA), mq.Budget(epsilon=9e3), noise=Shifted(0)) as curator:
        answer = mq.answer(curator, text, epsilon=8e3, table="people", public=public)
    ours = sorted(([plain(cell) for cell in row] for row in answer.rowset), key=str)
    expected = sorted(([plain(cell) for cell in row] for row in theirs), key=str)
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True)), (one, other)


def test_top_may_have_parentheses() -> None:
    one, other = (f"SELECT TOP {n} age, count(*) AS n FROM people GROUP BY age ORDER BY n" for n in ("2", "(2)"))
    assert answered_exactly(SCHEMA, DATA, one) == answered_exactly(SCHEMA, DATA, other)
    assert len(answered_exactly(SCHEMA, DATA, one)) == 2


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_such_meaning_is_refused(text: str) -> None:
    public = {"towns": PublicTable(LOOKUP, key="code")}
    with mq.Curator(mq.open_table(DATA, SCHEMA), mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(mq.QueryError, match=REFUSED[text]) as caught:
            mq.answer(curator, text, epsilon=0.5, table="people", public=public)
        assert curator.spent.units == 0
    assert '"c' not in str(caught.value)


BINNED = mq.Schema(
    [
        mq.Integer("pay", 0, 99, width=10, atoms=[0]),
        mq.Number("gain", edges=[-50, -10, 0, 10, 50], atoms=[0], precision=1, nullable=True),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="quarter"),
        mq.Boolean("b", nullable=True),
    ]
)


def binned() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    rows = 2_000
    return {
        "pay": np.where(rng.random(rows) < 0.3, 0, rng.integers(0, 100, rows)).tolist(),
        "gain": [
            None if r < 0.1 else 0.0 if r < 0.3 else round(float(rng.uniform(-50, 50)), 1) for r in rng.random(rows)
        ],
        "seen": [dt.date(2024, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 366, rows)],
        "b": [None if r < 0.1 else bool(r < 0.5) for r in rng.random(rows)],
    }


ROWS = binned()


@pytest.fixture(scope="module")
def rows() -> Any:
    with duckdb.connect() as connection:
        connection.register("t", pa.table(ROWS))
        yield connection


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    return mq.open_table(ROWS, BINNED)


def asked(table: mq.PrivateTable, expression: str, where: str = "") -> mq.Answer:
    """Without noise: what is left of an interval is what bins hide, and almost nothing for noise."""
    with mq.Curator(table, mq.Budget(epsilon=9e3), noise=Shifted(0)) as curator:
        (number,) = mq.answer(curator, f"SELECT {expression} AS v FROM t {where}", epsilon=8e3).numbers
    return number


OWN_VALUES = [
    "sum(nullif(gain, 0))", "avg(nullif(gain, 0))", "avg(nullif(pay, 0))", "avg(coalesce(gain, 0))",
    "avg(CASE WHEN gain > 0 THEN gain ELSE 0 END)", "avg(CASE WHEN b THEN pay WHEN NOT b THEN 2 * pay ELSE 1 END)",
    "avg(if(b, pay, gain))", "sum(CASE WHEN b THEN CASE WHEN gain > 0 THEN gain END END)",
]  # fmt: skip


@pytest.mark.parametrize("expression", OWN_VALUES)
def test_branches_add_up_the_values_themselves(rows: Any, table: mq.PrivateTable, expression: str) -> None:
    ((truth,),) = rows.execute(f"SELECT {expression} FROM t").fetchall()
    number = asked(table, expression)
    tolerance = 0.01 * max(1.0, abs(truth))
    assert number.low - 1e-6 <= truth <= number.high + 1e-6
    assert number.high - number.low < tolerance
    assert number.value == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("expression", ["avg(CASE WHEN pay > 0 THEN pay ELSE 0 END)", "avg(coalesce(pay, 3))"])
def test_an_average_of_branches_stays_in_the_declared_range(table: mq.PrivateTable, expression: str) -> None:
    with mq.Curator(table, mq.Budget(epsilon=1.0)) as curator:
        (number,) = mq.answer(curator, f"SELECT {expression} AS v FROM t WHERE pay = 0 AND b", epsilon=1e-4).numbers
    assert 0 <= number.low <= number.high <= 99


def test_edges_beside_an_atom_are_written_as_people_write_them(table: mq.PrivateTable) -> None:
    with pytest.raises(mq.QueryError, match="use > 0 or >= 10"):
        asked(table, "count(*)", "WHERE gain > 0.5")
    with pytest.raises(mq.QueryError, match="use <= 0 or < 10"):
        asked(table, "count(*)", "WHERE gain <= 0.5")
    assert asked(table, "median(gain)", "WHERE gain > 0 AND gain < 10").low == 0


def test_count_of_an_expression_that_is_null_for_a_part_of_a_bin_is_refused(rows: Any, table: mq.PrivateTable) -> None:
    for expression in ("nullif(pay, 5)", "nullif(gain, 10)", "nullif(month(seen), 2)"):
        with pytest.raises(mq.QueryError):
            asked(table, f"count({expression})")
    for expression in ("nullif(pay, 0)", "nullif(gain, 0)", "nullif(quarter(seen), 2)", "gain * 2", "gain + pay"):
        ((truth,),) = rows.execute(f"SELECT count({expression}) FROM t").fetchall()
        assert asked(table, f"count({expression})").value == truth


@pytest.mark.parametrize(
    "condition",
    [
        "coalesce(gain, 0) >= 10", "(gain >= 10) IS NOT TRUE", "(gain >= 10) IS NULL", "sign(gain) < 0",
        "greatest(gain, 0) >= 10", "coalesce(gain >= 0, FALSE)",
    ],
)  # fmt: skip
def test_what_rises_with_a_real_number_is_decided_by_the_ends_of_bins(
    rows: Any, table: mq.PrivateTable, condition: str
) -> None:
    ((truth,),) = rows.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
    assert asked(table, "count(*)", f"WHERE {condition}").value == truth


@pytest.mark.parametrize("where", ["", " WHERE k < 3", " WHERE k > 9"])
@pytest.mark.parametrize("word", ["IN", "NOT IN"])
def test_a_public_list_leaves_null_out_as_a_database_does(word: str, where: str) -> None:
    """Also where no value of the list is a level: then NOT IN holds for every row but those of NULL."""
    schema = mq.Schema([mq.Category("g", ["a", "b", "c"], nullable=True)])
    rows, codes = {"g": ["a", "b", None, "c", None] * 20}, {"code": ["zz", "yy", "a"], "k": [1, 2, 3]}
    text = f"SELECT count(*) FROM people WHERE g {word} (SELECT code FROM codes{where})"
    with duckdb.connect() as connection:
        connection.register("people", pa.table(rows))
        connection.register("codes", pa.table(codes))
        ((truth,),) = connection.execute(text).fetchall()
    public = {"codes": PublicTable(codes, key="code")}
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=9e3), noise=Shifted(0)) as curator:
        ((number,),) = mq.answer(curator, text, epsilon=8e3, table="people", public=public).rowset
    assert number == truth
