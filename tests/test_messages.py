"""What people read when something is refused: each message says what to do instead, and never what a row holds."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlglot import exp
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DataError,
    LedgerError,
    MaquetteError,
    OutOfDomain,
    PrivacyWarning,
    QueryError,
    SchemaError,
    UnreadableSource,
)
from maquette.holdout import Holdout, accuracy_of, mean_loss, reusable_score
from maquette.query import question, where
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema
from sql_checks import answered_exactly

AGE = Integer("age", 0, 99, width=10)
BMI = Number("bmi", edges=[10, 18.5, 25, 60])
SEEN = Date("seen", "2024-01-01", "2024-12-31", unit="month")
HOURS = Integer("hours-per-week", 1, 98, width=7)
PEOPLE = Schema([AGE, BMI, SEEN, HOURS, Category("city", ["Paris", "Rome"]), Boolean("smoker"), Boolean("a")])

INNER = "what an inner one answers can be written as a number"
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
    "hours-per-week >= 8": 'smoker, a; a name with spaces or signs takes double quotes: "hours-per-week"',
    "hours per week >= 8": "cannot be read at 'per'",
    "`hours-per-week` = 3": 'use "hours-per-week" BETWEEN 1 AND 7',
    "`hours-per-week >= 8": "a quote or a comment is not closed",
    "hours_per_week >= 8": "there is no column 'hours_per_week'; did you mean \"hours-per-week\"?",
    "nothing >= 8": 'columns are age, bmi, seen, "hours-per-week", city, smoker, a',
    "seen >= 2024-03-01": "a date takes single quotes, as in '2024-03-01'",
    "COUNT(*)": "begin with SELECT, as in SELECT count(...) FROM t WHERE ...",
    "sum(age) where smoker": "begin with SELECT, as in SELECT sum(...) FROM t WHERE ...",
    "age > (SELECT avg(age) FROM t)": INNER,
    "SELECT count(*) FROM t WHERE age > (SELECT avg(age) FROM t)": INNER,
    "SELECT count(*) FROM t WHERE age IN (SELECT age FROM t)": INNER,
    "SELECT count(*) FROM t WHERE seen >= 2024-03-01": "a date takes single quotes, as in '2024-03-01'",
    "SELECT count(*) FROM t WHERE smoker || a": "|| is not supported; use OR",
    "SELECT count(*) FROM t WHERE count(*) > 3": "an aggregate in WHERE is not supported; put it after HAVING",
    "age BETWEEN SYMMETRIC 39 AND 30": "write the smaller value first, without SYMMETRIC",
    "SELECT count(*) FROM t AS u (x)": "name columns with AS in a subquery",
    "smoker IS UNKNOWN": "UNKNOWN is not supported; use IS NULL",
    "SELECT max(age) FROM t": 'ask an extreme quantile, which is known within the noise: quantile_disc("age", 0.99)',
    "age >=": "ends too early after >=",
    "smoker AND (a OR": "ends too early after OR",
    "(age >= 60": "a ) is missing",
    "age >= 60)": "a ( is missing",
    "count(*)/count(age)": "begin with SELECT, as in SELECT count(...) FROM t WHERE ...",
    "SELEC count(*) FROM t": "did you mean SELECT?",
    "SELEC * FROM t": "did you mean SELECT?",
    "seen a": "cannot be read at 'a'",
    "UPDATE t SET age = 3": "'UPDATE' at the start is not supported; nothing can be written here: only SELECT",
    "DELETE FROM t": "nothing can be written here: only SELECT",
    "USE t": "only SELECT is supported",
    "EXPLAIN SELECT count(*) FROM t": "session.explain(text)",
    "SELECT * FROM t": "* in the select list is not supported; rows are never shown; name columns, GROUP BY them",
    "SELECT count(*) FROM t WHERE": "ends too early after WHERE",
}
# What is computed on levels or from answers, and its answer about four people.
FOUR = {
    "age": [25, 34, 34, 61],
    "bmi": [20.0, 22.0, 30.0, 12.0],
    "seen": ["2024-01-05", "2024-03-01", "2024-03-31", "2024-12-31"],
    "hours-per-week": [1, 8, 40, 40],
    "city": ["Paris", "Rome", "Rome", "Rome"],
    "smoker": [True, False, True, True],
    "a": [True, True, False, False],
}
ANSWERED: dict[str, list[tuple[Any, ...]]] = {
    "SELECT count(*) FROM t WHERE year(seen) = 2024": [(4,)],
    "SELECT count(*) FROM (SELECT * FROM t)": [(4,)],
    "SELECT count(*) FROM t WHERE upper(city) = 'ROME'": [(3,)],
    "SELECT count(*) FROM t WHERE city || '!' = 'Rome!'": [(3,)],
    "SELECT count(*) FROM t WHERE seen < CURRENT_DATE": [(4,)],
    "SELECT quarter(seen) AS q, count(*) FROM t GROUP BY quarter(seen)": [(1, 3), (2, 0), (3, 0), (4, 1)],
    "SELECT sum(CASE WHEN smoker THEN 1 ELSE 0 END) FROM t": [(3,)],
    "SELECT age, count(*) FROM t GROUP BY age LIMIT 3": [("0-9", 0), ("10-19", 0), ("20-29", 1)],
    "SELECT count(*) * 2 FROM t": [(8,)],
    "SELECT count(*) - 1 FROM t": [(3,)],
    "SELECT count(*)/count(age) FROM t": [(1,)],
    "SELECT DISTINCT city FROM t": [("Paris",), ("Rome",)],
    "SELECT city, count(*) FROM t GROUP BY city ORDER BY 2 DESC": [("Rome", 3), ("Paris", 1)],
    "SELECT count(*) FROM t LIMIT 3": [(4,)],
    "SELECT city, count(*) FROM t GROUP BY city HAVING count(*) > 2": [("Rome", 3)],
}
TOML = {
    "name = 'age'\nkind = 'integer'\nlow = 0\nhigh = 99\nwidht = 10": (
        "column 'age' (integer): unknown setting 'widht'; did you mean width?"
    ),
    "name = 'age'\nkind = 'integer'\nlow = 0\nhigh = 99\ncolour = 1": (
        "settings are name, nullable, missing, atoms, decimal, thousands, marks, low, high, width"
    ),
    "name = 'age'\nkind = 'integer'\nwidth = 10": "column 'age' (integer): needs low and high; add a line low = ...",
    "name = 'age'\nkind = ['integer']": "kind is ['integer']; expected one of boolean, category, integer, number, date",
    "kind = 'boolean'": "column 1 has no name",
}
MISSING = "declare nullable = true if values are missing"
SAID = f'{MISSING}, and missing = ["NA"] if a text such as NA means "no value"'
UNFIT: list[tuple[Column, str, list[str]]] = [
    (Boolean("c"), "maybe", ["values must be true or false, yes or no, 1 or 0", SAID]),
    (Integer("c", 0, 9), "many", ["values must be numbers", SAID]),
    (
        Number("c", 0, 9, bins=3, nullable=True),
        "NA",
        ["values must be numbers", 'list texts that mean "no value", for example missing = ["NA"]'],
    ),
    (
        Number("c", 0, 9, bins=3, decimal=","),
        "1.5",
        ["values must be numbers, with a comma and no point, as in 61,5", SAID],
    ),
    (
        Date("c", "2024-01-01", "2024-12-31"),
        "03/02/2024",
        ['values must be dates written YYYY-MM-DD, or declare order = "dmy" or "mdy" if the year comes last', SAID],
    ),
    (
        Date("c", "2024-01-01", "2024-12-31", order="dmy"),
        "3/2/24",
        ["values must be dates written DD/MM/YYYY or YYYY-MM-DD", SAID],
    ),
    (Category("c", ["x"]), "y", ["add these values to levels, or declare an `other` level for them", SAID]),
    (Category("c", ["x"], other="other"), "", [MISSING]),
]
CANARY = "31415926"
FILES: dict[str, tuple[Any, ...]] = {
    "empty.csv": (b"", "the file is empty; expected a header line"),
    "blank.csv": (b"\n\n", "the file is empty; expected a header line"),
    "data.csv": (
        b"34,Paris,true\n35,Rome,false\n",
        "the first line of '",
        "looks like data, not a header; expected a header",
        "--names age,sex",
    ),
    "fewer.csv": (b"age,city,smoker\n3,a\n", "at line 2: the line has fewer fields than the header, which has 3"),
    "long.csv": (
        b"age,city\n" + b"3,a\n" * 50_000 + CANARY.encode() + b",b,c\n",
        "at line 50002: the line has more fields than the header, which has 2. Correct it",
    ),
    "short.csv": (
        f"age,city\n3,a\n{CANARY},b,c,d\n5,c\n".encode(),
        "short.csv' at line 3: the line has more fields than the header",
    ),
    "table.xlsx": (b"PK", "as a spreadsheet. It may be protected by a password", "CSV UTF-8"),
    "table.doc": (b"PK", "is neither CSV (.csv, .tsv, .txt, also .gz), Excel (.xlsx) nor Parquet"),
    "binary.csv": (bytes(range(256)) * 50, "line 2: the line has fewer fields than the header, which has 2"),
    "binary.parquet": (CANARY.encode() * 50, "it is not a well-formed table"),
    "binary.csv.gz": (CANARY.encode() * 50, "is not the kind of file that its name suggests"),
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_refused_question_says_what_to_ask_instead(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        question(PEOPLE, text)
    assert QUESTIONS[text] in str(caught.value)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("text", ANSWERED)
def test_what_is_computed_from_answers_or_on_levels_is_not_refused(text: str) -> None:
    assert answered_exactly(PEOPLE, FOUR, text) == ANSWERED[text]


@pytest.mark.thorough
def test_no_refusal_names_a_class_of_the_parser() -> None:
    named = [name for name, value in vars(exp).items() if isinstance(value, type) and len(name) > 4]
    inside = {name.upper() for name in named if re.search(r"[A-Z][a-z]*[A-Z]", name)}
    assert {"DPIPE", "BITWISEAND", "ATTIMEZONE"} <= inside
    corpus = (Path(__file__).parent / "query" / "hostile.txt").read_text(encoding="utf-8").splitlines()
    for text in [*QUESTIONS, *corpus, *(f"SELECT count(*) FROM t WHERE {line}" for line in corpus)]:
        try:
            question(PEOPLE, text)
        except QueryError as error:
            said = str(error).partition("; ")[0]
            assert not inside & set(re.findall(r"[A-Z]{5,}", said)) - set(re.findall(r"\w+", text.upper())), said


@pytest.mark.thorough
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
    with pytest.raises(OutOfDomain, match=r"\(a: 1, b: 1\)\. a, b: values must be numbers\. a, b: list texts"):
        schema.encode({"a": ["x"], "b": ["y"], "d": [1]})


@pytest.mark.thorough(fast=4)
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
    for path, helpful in ((tmp_path, "is a folder without files"), (tmp_path / "nothing.csv", "there is no file")):
        with pytest.warns(PrivacyWarning), pytest.raises(UnreadableSource, match=helpful):
            Schema.guess(path)


@pytest.mark.thorough
def test_a_draft_says_which_columns_it_skipped_and_lists_no_rare_level() -> None:
    rows = 200
    table = {
        "person_id": [f"{CANARY}-{i}" for i in range(rows)],
        "income": [*map(str, range(rows - 1)), f"{CANARY}x"],
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
        "# skipped: person_id (every value occurs once: it looks like a key. Make it the privacy unit "
        "(--unit person_id) or drop it)",
        "# skipped: income (numbers mixed with other text; correct the text, or declare the column by hand, with "
        'missing = [...] for texts that mean "no value")',
        "# skipped: hour (no kind of column can hold TIME)",
        "# skipped: nothing (no values)",
        "# skipped: key (whole numbers too large for exact bins; if it says whose row it is, make it the "
        "privacy unit (--unit key))",
        "# skipped: word (fewer than 3 values)",
        "# skipped: 'odd\\nname' (no values)",
    ]
    assert CANARY not in text
    assert Schema.loads(text) == schema
    assert schema.encode(table).shape == (rows, 1)


@pytest.mark.thorough
def test_one_bad_value_far_down_skips_its_column_only(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("income,age\n" + "".join(f"{i},{i % 90}\n" for i in range(30_000)) + f"{CANARY}x,3\n")
    with pytest.warns(PrivacyWarning):
        schema = Schema.guess(path)
    assert schema.names == ("age",)
    (skipped,) = schema.skipped
    assert skipped.startswith("income (numbers mixed with other text; correct the text, or declare the column by hand")


def test_numbers_take_their_range_by_position() -> None:
    assert Number("b", 0, 99, bins=3) == Number("b", low=0, high=99, bins=3)
    with pytest.raises(MaquetteError, match="give either edges, or low, high and bins"):
        Number("b", 0, 99)


LITTLE = Schema([AGE, Category("city", ["Paris", "Rome"]), Boolean("smoker")])
ROWS = {"age": [1, 2, 3] * 100, "city": ["Paris"] * 300, "smoker": [True] * 300}
ROWS_OF_DATES = Schema([SEEN])


def opened(rows: object = ROWS, schema: Schema = LITTLE) -> mq.Curator:
    return mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=1.0))


def answered(text: str, **price: float) -> object:
    curator = opened()
    try:
        return mq.answer(curator, text, **price)  # type: ignore[arg-type]
    finally:
        assert curator.spent.units == 0  # whatever was refused


NEWCOMER: dict[str, tuple[Callable[[], object], type[MaquetteError], str]] = {
    "a missing table": (
        lambda: mq.open_table("nothing.csv", LITTLE),
        UnreadableSource,
        "there is no file 'nothing.csv'; expected a CSV (.csv, .tsv, .txt, also .gz), Excel (.xlsx) or Parquet path",
    ),
    "a missing schema": (
        lambda: Schema.load("nothing.toml"),
        SchemaError,
        "there is no schema file 'nothing.toml'; draft one with `maquette schema guess FILE`",
    ),
    "a missing release": (lambda: mq.Release.load("nothing.maq"), UnreadableSource, "there is no file 'nothing.maq'"),
    "a wrong column": (lambda: answered("agee >= 50", epsilon=0.1), QueryError, "no column 'agee'; did you mean age?"),
    "an unknown level": (lambda: answered("city = 'rome'", epsilon=0.1), QueryError, "did you mean 'Rome'?"),
    "no price": (lambda: answered("smoker"), BudgetError, "epsilon=None and rho=None; expected exactly one of them"),
    "no budget": (mq.Budget, BudgetError, "expected exactly one of them"),
    "epsilon 0": (
        lambda: mq.Budget(epsilon=0),
        BudgetError,
        "expected a finite number above 0, often between 0.01 and",
    ),
    "epsilon as text": (lambda: mq.Budget(epsilon="1"), BudgetError, "epsilon is '1'; expected a finite number"),  # type: ignore[arg-type]
    "delta 1": (lambda: mq.Budget(epsilon=1, delta=1), BudgetError, "0 for a pure budget, else well below 1 / rows"),
    "a number for a budget": (
        lambda: mq.Curator(mq.open_table(ROWS, LITTLE), 1.0),  # type: ignore[arg-type]
        BudgetError,
        "the budget is 1.0; expected a Budget, such as Budget(epsilon=1.0)",
    ),
    "a schema for a workload": (
        lambda: mq.release(mq.Curator(mq.open_table(ROWS, LITTLE), mq.Budget(epsilon=1)), LITTLE),  # type: ignore[arg-type]
        QueryError,
        "the workload is of type Schema; expected a workload, such as marginals(schema, k=2)",
    ),
    "a release saved nowhere": (
        lambda: mq.release(
            mq.Curator(mq.open_table(ROWS, LITTLE), mq.Budget(epsilon=1)), mq.marginals(LITTLE, k=1)
        ).save("nowhere/people.maq"),
        DataError,
        "could not be written (No such file or directory); the release is still there",
    ),
    "delta too large": (
        lambda: mq.Curator(mq.open_table(ROWS, LITTLE), mq.Budget(epsilon=1, delta=0.01)),
        BudgetError,
        "Choose delta well below",
    ),
    "delta too large for a public number of rows": (
        lambda: mq.Curator(mq.open_table(ROWS, LITTLE), mq.Budget(epsilon=1, delta=0.5), relation="replace"),
        BudgetError,
        "Choose delta well below",
    ),
    "too much": (
        lambda: answered("smoker", epsilon=2),
        BudgetExceeded,
        "asks for epsilon 2 but only epsilon 1 remains: 1 of epsilon too much. Nothing was charged",
    ),
    "rows without a wall": (
        lambda: mq.Curator(ROWS, mq.Budget(epsilon=1)),  # type: ignore[arg-type]
        QueryError,
        "the table is of type dict; expected a table made by open_table",
    ),
    "a column less": (
        lambda: opened({"age": [1], "city": ["Rome"]}),
        UnreadableSource,
        "the source lacks 'smoker'; it has 'age', 'city'",
    ),
    "a column of another case": (
        lambda: opened({"Age": [1], "city": ["Rome"], "smoker": [True]}),
        UnreadableSource,
        "('age' is similar to 'Age'). Rename columns in the schema or in the source",
    ),
    "mixed types": (
        lambda: opened({"age": [1, "x", 3.5], "city": ["Rome"] * 3, "smoker": [True] * 3}),
        OutOfDomain,
        "(age: 1). age: values must be numbers. age: declare nullable = true if values are missing, and missing = [",
    ),
    "dates in another format": (
        lambda: opened({"seen": ["31/01/2024", "2024-01-31"]}, ROWS_OF_DATES),
        OutOfDomain,
        "(seen: 1). seen: values must be dates written YYYY-MM-DD",
    ),
    "a date in another format asked": (
        lambda: where(ROWS_OF_DATES, "seen >= '01/02/2024'"),
        QueryError,
        "'01/02/2024' is not a date; expected a date, 'YYYY-MM-DD'",
    ),
    "a method misspelt": (
        lambda: mq.release(opened(), mq.marginals(LITTLE, k=2), method="grafical"),
        QueryError,
        "there is no method 'grafical'; expected auto, combined, everything, adaptive, graphical",
    ),
    "too many columns": (
        lambda: mq.marginals(LITTLE, k=9),
        QueryError,
        "k is 9; expected a whole number from 1 to the number of columns, 3",
    ),
    "a session of a table": (
        lambda: mq.online(mq.open_table(ROWS, LITTLE), alpha=0.02),  # type: ignore[arg-type]
        QueryError,
        "the curator is of type PrivateTable; expected a Curator",
    ),
    "alpha in rows": (lambda: mq.online(opened(), alpha=20), QueryError, "expected a number between 0 and 1, such as"),
    "SQL where a condition is wanted": (
        lambda: where(LITTLE, "SELECT count(*) FROM t WHERE smoker"),
        QueryError,
        "SELECT here is not supported; write the condition alone, as it would follow WHERE",
    ),
    "a score of rows": (
        lambda: reusable_score(ROWS),  # type: ignore[arg-type]
        QueryError,
        "the holdout is of type dict; expected a Holdout; write reusable_score(Holdout(rows, ...))",
    ),
    "a bound as text": (
        lambda: mean_loss(len, bound="3"),  # type: ignore[arg-type]
        QueryError,
        "bound is '3'; expected a positive finite number",
    ),
    "a state in no folder": (
        lambda: Holdout(SPLIT, state="nowhere/s.holdout"),
        LedgerError,
        "(No such file or directory); name a file that can be written, in a folder that exists",
    ),
}


@pytest.mark.thorough(fast=10)
@pytest.mark.parametrize("mistake", NEWCOMER)
def test_a_newcomers_mistake_is_told_with_what_to_do(mistake: str) -> None:
    make, kind, helpful = NEWCOMER[mistake]
    with pytest.raises(kind) as caught:
        make()
    assert type(caught.value) is kind
    assert helpful in str(caught.value)


LABELS = np.arange(200) % 2
SPLIT: tuple[Any, Any] = (np.linspace(-3, 3, 200)[:, None], LABELS)
TEXTS = (SPLIT[0], np.where(LABELS > 0, "yes", "no"))
FORM = "one prediction and one label for each row"
MODELS: dict[str, tuple[object, object, str]] = {
    "a target misspelt": ({"x": SPLIT[0][:, 0], "label": LABELS}, accuracy_of(len, target="lable"), "mean label?"),
    "a feature that is none": (
        {"x": SPLIT[0][:, 0], "label": LABELS},
        accuracy_of(len, target="label", features=["q"]),
        "the rows have no column 'q'; columns are x, label",
    ),
    "a target past the end": (SPLIT[0], accuracy_of(len, target=5), "no column 5; expected a number from 0 to 0"),
    "a feature by name": (SPLIT, accuracy_of(len, features=["x"]), "no column 'x'; expected a number from 0 to 0"),
    "scores for probabilities": (SPLIT, mean_loss(lambda x: x[:, 0], "log"), "model.predict_proba(inputs)[:, 1]"),
    "all probabilities": (SPLIT, mean_loss(lambda x: np.full((len(x), 2), 0.5), "log"), FORM),
    "a column of predictions": (SPLIT, accuracy_of(lambda x: x), FORM),
    "a loss of labels": (TEXTS, mean_loss(lambda x: np.full(len(x), 0.5), "log"), "0 and 1 for two classes"),
    "numbers for labels": (TEXTS, accuracy_of(lambda x: np.ones(len(x))), "the labels that the rows have"),
}


@pytest.mark.parametrize("mistake", MODELS)
def test_a_model_that_does_not_fit_is_told_why_and_on_training_rows_for_free(mistake: str) -> None:
    rows, statistic, helpful = MODELS[mistake]
    holdout = Holdout(rows, train=rows)
    with pytest.raises(QueryError) as caught:
        holdout.ask(statistic)  # type: ignore[arg-type]
    assert helpful in str(caught.value)
    assert holdout.ask(lambda _: LABELS, guess=0.5).queries == 1


def test_what_a_model_says_of_the_holdout_alone_is_counted_and_a_wrong_name_is_not() -> None:
    holdout = Holdout(SPLIT)
    with pytest.raises(QueryError, match="so it counts"):
        holdout.ask(mean_loss(lambda x: x[:, 0], "log"), guess=0.5)
    with pytest.raises(QueryError, match="no column 7"):
        holdout.ask(accuracy_of(len, features=[7]), guess=0.5)
    assert holdout.ask(lambda _: LABELS, guess=0.5).queries == 2


@pytest.mark.parametrize("guess", ["0.5", "first model"])
def test_a_guess_as_text_may_be_a_name(guess: str) -> None:
    holdout = Holdout(SPLIT)
    with pytest.raises(QueryError, match="expected a fraction between 0 and 1; a name goes into name="):
        holdout.ask(lambda _: LABELS, guess)  # type: ignore[arg-type]
    assert holdout.answers == ()


def test_true_and_false_have_losses_too() -> None:
    flags = LABELS > 0
    assert Holdout((SPLIT[0], flags)).ask(mean_loss(lambda x: flags[: len(x)]), guess=0.0).value == 0


@pytest.mark.thorough
def test_a_prompt_takes_what_other_prompts_call_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("age,city,smoker\n" + "1,Rome,true\n" * 4000)
    LITTLE.save("t.toml")
    session = ["online", "t.csv", "--schema", "t.toml", "--epsilon", "2", "--alpha", "0.2"]
    typed = "help;\n\\d\n.columns city\n.explain\nsmoker\nQuit\nnonsense\n"
    said = CliRunner().invoke(app, session, input=typed)
    assert "Conditions on numbers and dates must cut at their declared bins" in said.output
    assert "age (integer, 10 levels): 0-9, 10-19, 20-29, 30-39, 40-49, 50-59, ..., 90-99" in said.output
    assert "city (category, 2 levels): Paris, Rome" in said.output
    assert "nothing to explain; expected a question, as in .explain SELECT" in said.output
    assert "of the budget remains" in said.output
    assert "nonsense" not in said.output
    with mq.Curator(mq.open_table("t.csv", LITTLE), mq.Budget(epsilon=2.0), ledger="ada.ledger") as keeper:
        mq.online(keeper, alpha=0.2).limit("ada", epsilon=1e-6)
    poor = CliRunner().invoke(app, [*session, "--ledger", "ada.ledger", "--analyst", "ada"], input="smoker\n")
    assert "without a guarantee, because the budget cannot pay for one" in poor.output


def test_a_holdout_asked_from_a_terminal_says_nothing_but_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("held.csv").write_text("age,city,smoker\n" + "1,Rome,true\n" * 400)
    LITTLE.save("t.toml")
    asked = ["holdout", "ask", "held.csv", "smoker", "--schema", "t.toml", "--guess", "1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.exception
    assert said.output.startswith("1 [")


def test_a_bad_row_is_named_by_its_line_and_not_by_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"age,city,smoker\n1,Paris,true\n2,Rome\n3,{CANARY},true,7\n4,Rome,false\n")
    with pytest.raises(
        UnreadableSource, match="at line 3: the line has fewer fields than the header, which has 3"
    ) as caught:
        mq.open_table(path, LITTLE)
    assert CANARY not in str(caught.value)


def test_an_unreviewed_draft_is_warned_of_before_anything_is_spent() -> None:
    draft = Schema.loads("guessed = true\n" + LITTLE.dumps())
    with pytest.warns(PrivacyWarning, match="Review them, then delete `guessed = true`"):
        mq.open_table(ROWS, draft)


def test_every_error_class_has_its_own_code() -> None:
    def below(kind: type[MaquetteError]) -> list[type[MaquetteError]]:
        return [kind, *(deeper for child in kind.__subclasses__() for deeper in below(child))]

    public = [kind for kind in below(MaquetteError) if kind.__module__ == "maquette.errors"]
    assert len({kind.code for kind in public}) == len(public) > 15
