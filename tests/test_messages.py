"""What people read when something is refused: each message says what to do instead, and never what a row holds."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from pathlib import Path

import pytest

from maquette.errors import MaquetteError, OutOfDomain, PrivacyWarning, QueryError, SchemaError, UnreadableSource
from maquette.query import question, where
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema

AGE = Integer("age", 0, 99, width=10)
BMI = Number("bmi", edges=[10, 18.5, 25, 60])
SEEN = Date("seen", "2024-01-01", "2024-12-31", unit="month")
HOURS = Integer("hours-per-week", 1, 98, width=7)
PEOPLE = Schema([AGE, BMI, SEEN, HOURS, Category("city", ["Paris", "Rome"]), Boolean("smoker"), Boolean("a")])

QUESTIONS = {
    "age = 34": "= 34 cuts through the bin 30-39; use age BETWEEN 30 AND 39",
    "age != 34": "<> 34 cuts through the bin 30-39; use NOT age BETWEEN 30 AND 39",
    "age IN (30, 34)": "use age BETWEEN 30 AND 39",
    "age BETWEEN 20 AND 40": "<= 40 cuts through the bin 40-49; use <= 39 or <= 49",
    "age > 44": "> 44 cuts through the bin 40-49; use > 39 or > 49",
    "age < 44": "< 44 cuts through the bin 40-49; use < 40 or < 50",
    "age <= 100": "100 is out of range; declared values run from 0 to 99",
    '"hours-per-week" = 3': 'use "hours-per-week" BETWEEN 1 AND 7',
    "bmi <= 20": "<= 20 cuts through the bin [18.5, 25); use < 18.5 or < 25",
    "bmi > 30": "use >= 25 or > 60",
    "seen = '2024-03-02'": "use seen BETWEEN '2024-03-01' AND '2024-03-31'",
    "seen <= '2024-03-02'": "use <= '2024-02-29' or <= '2024-03-31'",
    "city = 'paris'": "'paris' is not a declared level; did you mean 'Paris'?",
    "city = 'Roma'": "did you mean 'Rome'?",
    "city = 'London'": "expected one of Paris, Rome",
    "city = Paris": "text takes single quotes: 'Paris'",
    "smoker && a": "&& is not supported; use AND",
    "smoker || a": "|| is not supported; use OR",
    "age => 30": "=> is not supported; use >=",
    "age >=": "ends too early after >=",
    "smoker AND (a OR": "ends too early after OR",
    "(age >= 60": "a ) is missing",
    "age >= 60)": "a ( is missing",
    "count(*)/count(age)": "divide the answers yourself",
    "SELEC count(*) FROM t": "did you mean SELECT?",
    "SELEC * FROM t": "did you mean SELECT?",
    "seen a": "cannot be read at 'a'",
    "UPDATE t SET age = 3": "'UPDATE' at the start is not supported; only SELECT is supported",
    "DELETE FROM t": "only SELECT is supported",
    "EXPLAIN SELECT count(*) FROM t": "only SELECT is supported",
    "SELECT * FROM t": "* in the select list is not supported; rows are never shown; name columns, GROUP BY them",
    "SELECT count(*) * 2 FROM t": "multiplication is not supported; compare a column alone",
    "SELECT count(*) - 1 FROM t": "subtraction is not supported",
    "SELECT count(*)/count(age) FROM t": "divide the answers yourself",
    "SELECT count(*) FROM t WHERE": "ends too early after WHERE",
    "SELECT DISTINCT city FROM t": "DISTINCT is not supported; use GROUP BY city with count(*)",
    "SELECT city, count(*) FROM t GROUP BY city ORDER BY 2": "sort or filter answer.to_pandas() yourself",
    "SELECT count(*) FROM t LIMIT 3": "sort or filter answer.to_pandas() yourself",
    "SELECT city, count(*) FROM t GROUP BY city HAVING count(*) > 3": "sort or filter answer.to_pandas() yourself",
}
TOML = {
    "name = 'age'\nkind = 'integer'\nlow = 0\nhigh = 99\nwidht = 10": (
        "column 'age' (integer): unknown setting 'widht'; did you mean width?"
    ),
    "name = 'age'\nkind = 'integer'\nlow = 0\nhigh = 99\ncolour = 1": "settings are name, nullable, low, high, width",
    "name = 'age'\nkind = 'integer'\nwidth = 10": "column 'age' (integer): needs low and high; add a line low = ...",
    "name = 'age'\nkind = ['integer']": "kind must be one of boolean, category, integer, number, date",
    "kind = 'boolean'": "column 1 has no name",
}
MISSING = "declare nullable = true if values are missing"
UNFIT: list[tuple[Column, str, list[str]]] = [
    (Boolean("c"), "maybe", ["values must be true or false, yes or no, 1 or 0", MISSING]),
    (Integer("c", 0, 9), "many", ["values must be numbers", MISSING]),
    (Number("c", 0, 9, bins=3, nullable=True), "many", ["values must be numbers"]),
    (Date("c", "2024-01-01", "2024-12-31"), "03/02/2024", ["values must be dates as YYYY-MM-DD", MISSING]),
    (Category("c", ["x"]), "y", ["declare the missing levels, or an `other` level", MISSING]),
    (Category("c", ["x"], other="other"), "", [MISSING]),
]
CANARY = "31415926"
FILES = {
    "empty.csv": (b"", "the file is empty; expected a header line"),
    "blank.csv": (b"\n\n", "the file is empty; expected a header line"),
    "data.csv": (b"34,Paris,true\n35,Rome,false\n", "the first line of '", "looks like data, not a header; add one"),
    "latin.csv": ("age,city\n3,Orl\xe9ans\n".encode("latin-1"), "at line 2: it is not UTF-8 text"),
    "long.csv": (
        b"age,city\n" + b"3,a\n" * 50_000 + CANARY.encode() + b",b,c\n",
        "at line 50002: it is not a well-formed",
    ),
    "short.csv": (f"age,city\n3,a\n{CANARY},b,c,d\n5,c\n".encode(), "short.csv': it is not a well-formed table"),
    "binary.csv": (bytes(range(256)) * 50, "it is not a well-formed table"),
    "binary.parquet": (CANARY.encode() * 50, "it is not a well-formed table"),
    "binary.csv.gz": (CANARY.encode() * 50, "is not what its name says"),
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_refused_question_says_what_to_ask_instead(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        question(PEOPLE, text)
    assert QUESTIONS[text] in str(caught.value)


def test_every_suggested_cut_is_accepted() -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(366)]
    literals: dict[Column, list[object]] = {
        AGE: [*range(100)],
        BMI: [12, 20, 30],
        SEEN: [*days],
        HOURS: [*range(1, 99)],
    }
    suggested = 0
    for column, values in literals.items():
        for literal, comparison in itertools.product(values, ("=", "<>", "<", "<=", ">", ">=")):
            try:
                column.compare(comparison, literal)  # type: ignore[arg-type]
            except QueryError as error:
                if hint := re.search(r"cuts through the bin .*; use (.*)", str(error)):
                    cuts = [f'"{column.name}" {cut}' for cut in hint[1].split(" or ")]
                    for condition in [hint[1]] if "BETWEEN" in hint[1] else cuts:
                        where(PEOPLE, condition)
                        suggested += 1
    assert suggested > 3000


def test_one_past_either_end_is_everything_or_nothing() -> None:
    for every in ("age < 100", "age > -1", "age < 99.5", "seen < '2025-01-01'", "seen > '2023-12-31'"):
        (column,) = {"age", "seen"} & {every.split()[0]}
        assert where(PEOPLE, every).weights([column]).all(), every
        assert not where(PEOPLE, f"NOT {every}").weights([column]).any(), every
    for refused in ("age <= 100", "age = 100", "age >= -1", "seen = '2025-01-01'", "bmi < 61"):
        with pytest.raises(QueryError, match="out of range"):
            where(PEOPLE, refused)


def test_a_column_may_be_called_like_a_statement() -> None:
    odd = Schema([Boolean("update"), Boolean("show"), Boolean("selected", nullable=True)])
    assert where(odd, "show AND NOT selected").columns == ("show", "selected")
    assert where(odd, "selected IS NULL OR show = true").columns == ("show", "selected")
    assert where(odd, "update").columns == ("update",)


def test_the_last_day_there_is_may_end_a_range() -> None:
    until = Schema([Date("until", "2000-01-01", "9999-12-31", unit="year")])
    assert where(until, "until <= '9999-12-31'").weights(["until"]).all()
    with pytest.raises(QueryError, match="use >= '9999-01-01' or > '9999-12-31'"):
        where(until, "until >= '9999-06-01'")


@pytest.mark.parametrize("text", TOML)
def test_a_refused_schema_file_says_what_to_write_instead(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.loads("[[column]]\n" + text)
    assert TOML[text] in str(caught.value)


@pytest.mark.parametrize(("column", "value", "remedies"), UNFIT, ids=lambda part: getattr(part, "kind", ""))
def test_values_that_do_not_fit_are_explained_by_kind(column: Column, value: str, remedies: list[str]) -> None:
    with pytest.raises(OutOfDomain) as caught:
        Schema([column]).encode({"c": [value, value]})
    advice = ". ".join(f"c: {remedy}" for remedy in remedies)
    assert str(caught.value) == f"values outside the declared universe (c: 2). {advice}"
    assert caught.value.counts == {"c": 2}


def test_columns_in_the_same_trouble_share_the_advice() -> None:
    schema = Schema([Integer("a", 0, 9, nullable=True), Number("b", 0, 9, bins=3, nullable=True), Integer("d", 0, 9)])
    with pytest.raises(OutOfDomain, match=r"\(a: 1, b: 1\)\. a, b: values must be numbers$"):
        schema.encode({"a": ["x"], "b": ["y"], "d": [1]})


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_drafted_says_why_and_quotes_no_row(name: str, tmp_path: Path) -> None:
    content, *helpful = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.warns(PrivacyWarning), pytest.raises(UnreadableSource) as caught:
        Schema.guess(path)
    assert all(part in str(caught.value) for part in helpful)
    assert not re.search(f"{CANARY}|Paris|Orl", str(caught.value))


def test_paths_that_are_no_file_are_named(tmp_path: Path) -> None:
    for path, helpful in ((tmp_path, "is a directory"), (tmp_path / "nothing.csv", "there is no file")):
        with pytest.warns(PrivacyWarning), pytest.raises(UnreadableSource, match=helpful):
            Schema.guess(path)


def test_a_draft_says_which_columns_it_skipped_and_lists_no_rare_level() -> None:
    rows = 200
    table = {
        "person_id": [f"{CANARY}-{i}" for i in range(rows)],
        "income": [*map(str, range(rows - 1)), CANARY],
        "city": [CANARY, "Lyon", "Lyon", *["Paris", "other"] * ((rows - 4) // 2), None],
        "hour": [dt.time(3)] * rows,
        "nothing": [None] * rows,
        "key": [2**60] * rows,
        "word": [CANARY, *[None] * (rows - 1)],
        "odd\nname": [None] * rows,
    }
    with pytest.warns(PrivacyWarning):
        schema = Schema.guess(table)
    assert schema.columns == (Category("city", ["Paris"], other="other", nullable=True),)
    text = schema.dumps()
    assert [line for line in text.splitlines() if line.startswith("# skipped")] == [
        "# skipped: person_id (text with more than 50 different values; if it says whose row it is, pass it as "
        "privacy_unit)",
        "# skipped: income (numbers mixed with other text; mend the text, or declare it by hand)",
        "# skipped: hour (no kind of column holds TIME)",
        "# skipped: nothing (no values)",
        "# skipped: key (whole numbers too large for exact bins; if it says whose row it is, pass it as privacy_unit)",
        "# skipped: word (text with no value seen 3 times or more)",
        "# skipped: 'odd\\nname' (no values)",
    ]
    assert CANARY not in text
    assert Schema.loads(text) == schema
    assert schema.encode(table).shape == (rows, 1)


def test_one_bad_value_far_down_skips_its_column_only(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("income,age\n" + "".join(f"{i},{i % 90}\n" for i in range(30_000)) + f"{CANARY}x,3\n")
    with pytest.warns(PrivacyWarning):
        schema = Schema.guess(path)
    assert schema.names == ("age",)
    assert schema.skipped == ("income (numbers mixed with other text; mend the text, or declare it by hand)",)


def test_numbers_take_their_range_by_position() -> None:
    assert Number("b", 0, 99, bins=3) == Number("b", low=0, high=99, bins=3)
    with pytest.raises(MaquetteError, match="give either edges, or low, high and bins"):
        Number("b", 0, 99)
