"""What analysts are used to type in PostgreSQL, DuckDB and Snowflake: it means the same here, or the refusal helps."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from test_read_as_written import DATA, SCHEMA, plain, same

import maquette as mq
from maquette.query import Context, PublicTable, parse
from sql_checks import answered_exactly

PER_TOWN = "SELECT town, count(*) AS n FROM people GROUP BY town"
EQUAL = {
    # as written here: as DuckDB writes it, if it differs
    "SELECT town, age, count(*) AS n FROM people GROUP BY ALL ORDER BY ALL": None,
    "SELECT town, count(*) AS n FROM people GROUP BY ALL ORDER BY ALL DESC": None,
    "SELECT count(*) AS n, n * 2 AS twice, twice / n AS two FROM people": None,
    "SELECT upper(town) AS t, t || '!' AS u, count(*) AS n FROM people WHERE t = 'A' GROUP BY 1, 2": (
        "SELECT 'A' AS t, 'A!' AS u, count(*) AS n FROM people WHERE town = 'a'"
    ),
    "SELECT sum(age) AS total, total / count(*) AS mean FROM people": None,
    f"WITH q AS ({PER_TOWN}) SELECT * FROM q WHERE n >= (SELECT avg(n) FROM q)": None,
    f"SELECT town, n * 2 AS m, m + 1 AS k FROM ({PER_TOWN}) q WHERE n = (SELECT max(n) FROM ({PER_TOWN}) z)": None,
    f"SELECT q.town FROM ({PER_TOWN}) q WHERE q.n > (SELECT count(*) FROM people WHERE smoker) / 2": None,
    "SELECT cast(avg(age) AS DECIMAL(6, 2)) AS v FROM people": None,
    "SELECT (sum(age) / count(*))::numeric(9, 1) AS v FROM people": None,
    "SELECT split_part(town || '.x', '.', 1) AS t, count(*) AS n FROM people GROUP BY 1": None,
    "SELECT regexp_extract(town, '^.') AS t, count(*) AS n FROM people GROUP BY 1": None,
    "SELECT iff(smoker, 'yes', 'no') AS s, count(*) AS n FROM people GROUP BY 1": (
        "SELECT CASE WHEN smoker THEN 'yes' ELSE 'no' END AS s, count(*) AS n FROM people GROUP BY 1"
    ),
    "SELECT zeroifnull(sum(age)) AS s FROM people": "SELECT sum(age) AS s FROM people",
    "SELECT date_part(year, seen) AS y, count(*) AS n FROM people GROUP BY 1": (
        "SELECT year(seen) AS y, count(*) AS n FROM people GROUP BY 1"
    ),
    "SELECT sum(if(smoker, age, 0)) AS v, sum(CASE town WHEN 'a' THEN age END) AS w FROM people": None,
}
REFUSED = {
    "SELECT town || ': ' || count(*) AS t FROM people GROUP BY town": r"\|\| of a noisy number.*a column of its own",
    "SELECT count(*) % 10 AS r FROM people": "MOD of a noisy number",
    "SELECT town, string_agg(age) AS v FROM people GROUP BY town": "the function string_agg is",
    "SELECT listagg(town, ',') AS v FROM people": "the function listagg is",
    "SELECT count(*) AS n FROM people WHERE town = a": "takes single quotes: 'a'",
    "SELECT count(*) AS n FROM people WHERE town IN (\"b\", 'a')": "takes single quotes: 'b'",
    "SELECT count(*) AS n FROM people WHERE twon = 'a'": "did you mean town",
    "SELECT count(*) AS n form people": "did you mean FROM instead of form",
    "SELECT town, count(*) AS n FROM people grup by town": "did you mean GROUP instead of grup",
    "SELECT sum(age) OVER () AS v FROM people": r"take sum\(sum\(age\)\) OVER",
    "SELECT mode() WITHIN GROUP (ORDER BY age) AS v FROM people": "the function mode is",
    "SELECT ratio_to_report(count(*)) OVER () AS r FROM people GROUP BY town": r"write count\(\*\) / sum\(count",
    "SELECT approx_percentile(age, 0.5) AS v FROM people": r"write quantile_cont\(x, 0.9\)",
    "SELECT kurtosis(age) AS v FROM people": "compute it from the groups that are answered",
    "PIVOT people ON town USING count(*)": "'PIVOT' at the start is",
}


@pytest.fixture(scope="module")
def engine() -> Any:
    with duckdb.connect() as connection:
        connection.register("people", pa.table(DATA))
        yield connection


@pytest.mark.parametrize("text", EQUAL)
def test_it_means_what_it_means_elsewhere(engine: Any, text: str) -> None:
    theirs = [tuple(map(plain, row)) for row in engine.execute(EQUAL[text] or text).fetchall()]
    ours = [tuple(map(plain, row)) for row in answered_exactly(SCHEMA, DATA, text)]
    if "ORDER BY" not in text:
        ours, theirs = sorted(ours, key=str), sorted(theirs, key=str)
    assert len(ours) == len(theirs), (ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(a, float(b) if isinstance(a, float) else b) for a, b in zip(one, other, strict=True)), (
            one,
            other,
        )


@pytest.mark.parametrize("text", REFUSED)
def test_the_refusal_says_what_to_type(text: str) -> None:
    with pytest.raises(mq.QueryError, match=REFUSED[text]) as caught:
        parse(SCHEMA, text, context=Context(table="people")) if "PIVOT" not in text else mq.where(SCHEMA, text)
    assert not any(f'"c{i}"' in str(caught.value) for i in range(20))  # names of our own


def test_units_are_counted_with_parentheses_too() -> None:
    context = Context(table="people", unit="person", unit_rows=3)
    one, other = (f"SELECT count(DISTINCT {unit}) AS n FROM people" for unit in ("person", "(person)"))
    assert parse(SCHEMA, one, context=context).key == parse(SCHEMA, other, context=context).key


def test_the_key_of_a_join_may_stand_in_parentheses() -> None:
    towns = PublicTable({"code": ["a", "b"], "name": ["A", "B"]}, key="code")
    context = Context(table="people", public={"towns": towns})
    text = "SELECT t.name, count(*) AS n FROM people p JOIN towns t ON {} GROUP BY 1"
    plainly, inside = (text.format(on) for on in ("p.town = t.code", "((t.code = p.town))"))
    assert parse(SCHEMA, plainly, context=context).key == parse(SCHEMA, inside, context=context).key


def test_titles_of_titles_do_not_grow_without_end() -> None:
    chain = ", ".join(f"c{i} + c{i} AS c{i + 1}" for i in range(60))
    with pytest.raises(mq.QueryError, match="more than 10,000 parts"):
        parse(SCHEMA, f"SELECT count(*) AS c0, {chain} FROM people", context=Context(table="people"))


def test_a_column_goes_before_a_title() -> None:
    """`age` in a later item is the column, though an earlier item has that title."""
    text = "SELECT count(*) AS age, sum(age) AS s FROM people"
    ((_, total),) = answered_exactly(SCHEMA, DATA, text)
    assert total == sum(DATA["age"])
