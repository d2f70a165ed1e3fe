"""Whatever is outside the grammar is refused, quickly, with a place and a way out; nothing else is ever raised."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from maquette.errors import QueryError
from maquette.query import LinearQuery, Marginal, Statement, col, parse, question, where
from maquette.query.expression import And, In, Not, Or
from maquette.schema import Boolean, Category, Date, Integer, Number, Schema

PEOPLE = Schema(
    [
        Integer("age", 0, 99),
        Boolean("smoker"),
        Category("sex", ["f", "m"], nullable=True),
        Number("bmi", edges=[10, 18.5, 25, 60]),
        Date("seen", "2024-01-01", "2024-12-31", unit="month"),
        *(Boolean(f"b{i}") for i in range(30)),
    ]
)
QUICK = 0.1  # seconds of processor time

BAD_CONDITIONS = {
    "": "line 1, column 1: the text is empty; expected =, <>",
    "ages = 3": "line 1, column 1: there is no column 'ages'; did you mean age?",
    "smoker AND\n  salary > 3": "line 2, column 3: there is no column 'salary'",
    "age": "column 'age' (integer) is not true or false; compare it with a value",
    "age >= 150": "150 is out of range; declared values run from 0 to 99",
    "age = 1.5": "1.5 is not a whole number",
    "age = 'old'": "'old' is not a number; expected 0 to 99",
    "age = 1e999": "column 7: '1e999' is not a number that can be compared",
    "sex = 'g'": "'g' is not a declared level; expected one of f, m",
    "sex > 'f'": "categories have no order, so > makes no sense; use =, <> or IN",
    'sex = "f"': "text takes single quotes: 'f'",
    "sex = NULL": "nothing equals a missing value; use .is_null() or IS NULL",
    "sex IN ('f', NULL)": "use .is_null() or IS NULL",
    "age IN ()": "the list of values for 'age' is empty",
    "smoker = 2": "2 is not a truth value; expected true or false",
    "smoker IS TRUE": "IS with anything but NULL is not supported; use = or the column alone",
    "bmi BETWEEN 10 AND 25": "use bmi >= 10 AND bmi < 25",
    "bmi >= 20": "cuts through the bin [18.5, 25); use >= 18.5 or >= 25",
    "seen >= DATE '2024-03-02'": "cuts through the bin 2024-03",
    "seen = DATE '2024-02-30'": "column 13: '2024-02-30' is not a date; expected DATE 'YYYY-MM-DD'",
    "age = age": "column 7: a column can only be compared with a literal",
    "1 = 1": "comparing a literal is not supported; compare a column with literals",
    "age < 3 < 4": "comparing a comparison is not supported; compare a column with literals",
    "t.age = 3": "a table before a column is not supported; write the name of the column alone",
    "age + 1 = 3": "column 5: + is not supported; compare a column alone with a literal",
    "sex LIKE 'f%'": "column 5: LIKE is not supported; use = or IN with declared levels",
    "lower(sex) = 'f'": "column 1: the function lower is not supported; expected =, <>",
    "age = $1": "column 7: $ is not supported; write the value into the text",
    "age = ?": "? is not supported; write the value into the text",
    "age = 1; smoker": "column 8: more than one statement is not supported; ask one at a time",
    "age IN (SELECT 1)": "column 9: SELECT here is not supported",
    "age = 1 AND": "column 9: ends too early after AND",
    "sex = 'f": "a quote or a comment is not closed",
    "((smoker)": "a ) is missing",
    "!smoker": "column 1: ! is not supported; write NOT",
    "age IN (1, 2,)": "column 13: ',' with nothing on one side is not supported",
}
BAD_STATEMENTS = {
    "SELECT * FROM t": "* in the select list is not supported; rows are never shown",
    "SELECT age FROM t": "age is selected but not grouped by; add it to GROUP BY, or take count, sum or avg of it",
    "SELECT sex FROM t GROUP BY sex": "select at least one of count(*), count(x), sum(x), avg(x)",
    "SELECT count(*)": "a SELECT without FROM and the name of a table is not supported",
    "SELECT count(*) FROM 'people.csv'": "a SELECT without FROM and the name of a table is not supported",
    "SELECT count(*) FROM main.t": "a schema before the table is not supported; write the name of the table alone",
    "SELECT count(*) FROM t AS p": "another name for the table is not supported; leave it out",
    "SELECT count(*) FROM t, u": "a second table is not supported; ask about one table",
    "SELECT count(*) FROM t JOIN u ON TRUE": "column 24: JOIN is not supported; ask about one table",
    "SELECT count(*) FROM (SELECT 1) x": "column 23: SELECT here is not supported",
    "SELECT count(DISTINCT sex) FROM t": "column 14: DISTINCT is not supported; use GROUP BY sex with count(*)",
    "SELECT count(*) FROM t HAVING count(*) > 5": "HAVING is not supported; every declared group is always returned",
    "SELECT count(*) FROM t ORDER BY 1": "ORDER BY is not supported; every declared group is always returned",
    "SELECT count(*) FROM t LIMIT 3": "LIMIT is not supported; every declared group is always returned",
    "SELECT count(*) OVER () FROM t": "OVER is not supported; use GROUP BY",
    "SELECT count(*) FROM t UNION SELECT count(*) FROM t": "UNION is not supported; ask each SELECT by itself",
    "SELECT max(age) FROM t": "the function max is not supported; expected SELECT columns, count(*)",
    "SELECT sum(sex) FROM t": "has no numbers to add; use count(*) and GROUP BY sex",
    "SELECT avg(seen) FROM t": "column 'seen' (date) has no numbers to add",
    "SELECT sum(age * 2) FROM t": "multiplication is not supported",
    "SELECT count(age, sex) FROM t": "expressions in the function count is not supported",
    "SELECT count(*) FROM t GROUP BY 1": "GROUP BY points at count(*); group by columns or a CASE",
    "SELECT count(*) FROM t GROUP BY 7": "the select list has items 1 to 1",
    "SELECT count(*) FROM t GROUP BY sex, sex": "an axis is named twice: sex, sex",
    "SELECT count(*) AS n, sum(age) AS n FROM t": "would be called n; name them apart with AS",
    "SELECT count(*) FROM t GROUP BY ALL": "ALL is not supported; name the columns",
    "SELECT CASE WHEN smoker THEN 1 END, count(*) FROM t GROUP BY 1": "write THEN 'label' and ELSE 'label'",
    "SELECT CASE sex WHEN 'f' THEN 'a' END, count(*) FROM t GROUP BY 1": "this in the function case is not supported",
    "SELECT CASE WHEN smoker THEN 'NULL' END, count(*) FROM t GROUP BY 1": "add an ELSE or rename the label",
    "SELECT count(*) FROM t GROUP BY age, bmi, seen, " + ", ".join(f"b{i}" for i in range(20)): "use fewer columns",
    "SELECT count(*) FROM t; DROP TABLE t": "column 23: more than one statement is not supported",
    "DELETE FROM t": "'DELETE' at the start is not supported; only SELECT is supported: SELECT columns, count(*)",
}
BAD_CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "and": (lambda: (col("age") > 3) and col("smoker"), "write & for and, | for or, ~ for not"),
    "not": (lambda: not col("smoker"), "~ for not"),
    "chain": (lambda: 3 < col("age") < 5, r".between(a, b) or two comparisons instead of a < x < b"),
    "precedence": (lambda: col("age") >= 65 & col("smoker"), "put each comparison in parentheses"),
    "and with a number": (lambda: col("smoker") & 1, "& and | join conditions, got int"),
    "two columns": (lambda: col("age") == col("bmi"), "only be compared with a literal"),
    "none": (lambda: col("age") == None, "use .is_null()"),  # noqa: E711
    "infinite": (lambda: col("age") < math.inf, "expected one within"),
    "enormous": (lambda: col("age") < 10**400, "expected one within"),
    "a list": (lambda: col("age") == [1], "list is not a literal; expected true, false, a number, text or a date"),
    "isin text": (lambda: col("sex").isin("f"), "write isin(['f'])"),
    "isin nothing": (lambda: where(PEOPLE, col("sex").isin([])), "expected at least one"),
    "unknown": (lambda: where(PEOPLE, col("Age") > 3), "there is no column 'Age'; did you mean age?"),
    "a number": (
        lambda: where(PEOPLE, 3),  # type: ignore[arg-type]
        "the question is of type int; expected an expression, text or a linear query",
    ),
    "too many products": (
        lambda: where(PEOPLE, " OR ".join(f"(b{2 * i} AND b{2 * i + 1})" for i in range(14))),
        "products, more than 4,096; ask it in parts, or use IN lists",
    ),
}


@pytest.mark.parametrize("text", BAD_CONDITIONS)
def test_bad_conditions_are_explained(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        where(PEOPLE, text)
    assert BAD_CONDITIONS[text] in str(caught.value)
    assert caught.value.line is not None
    assert caught.value.column is not None


@pytest.mark.parametrize("text", BAD_STATEMENTS)
def test_bad_statements_are_explained(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(PEOPLE, text)
    assert BAD_STATEMENTS[text] in str(caught.value)


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_explained(name: str) -> None:
    call, helpful = BAD_CALLS[name]
    with pytest.raises(QueryError) as caught:
        call()
    assert helpful in str(caught.value)


CORPUS = Path(__file__).with_name("hostile.txt").read_text(encoding="utf-8")
FORBIDDEN = [
    "LIKE",
    "UNION",
    "JOIN",
    "ORDER BY",
    "LIMIT 1",
    "HAVING",
    "DISTINCT",
    "OVER ()",
    "WITH",
    "+",
    "/",
    "||",
    "?",
]
FORBIDDEN += ["$1", "now()", "random()", "[", "]", "{", "}", ";", "'", "SELECT SELECT"]
ALLOWED = [
    "SELECT",
    "count(*)",
    "FROM t",
    "WHERE",
    "age",
    "smoker",
    "=",
    "1",
    "AND",
    "OR",
    "NOT",
    "(",
    ")",
    ",",
    "IN (1)",
]
ALLOWED += ["BETWEEN 1 AND 2", "IS NULL", "GROUP BY", "CASE", "WHEN", "THEN", "END", "sex", "sum(age)", "AS n"]


def hostile(section: str) -> list[str]:
    _, _, after = CORPUS.partition(f"[{section}]\n")
    return list(itertools.takewhile(lambda line: not re.fullmatch(r"\[[a-z]+\]", line), after.splitlines()))


def soup(count: int) -> list[str]:
    """Words of the grammar in random order with a word from outside it."""
    rng = random.Random(7)
    texts = []
    for _ in range(count):
        words = rng.choices(ALLOWED, k=rng.randrange(1, 25))
        words.insert(rng.randrange(len(words)), rng.choice(FORBIDDEN))
        texts.append(rng.choice(["", "SELECT count(*) FROM t WHERE "]) + " ".join(words))
    return texts


def corpus() -> list[str]:
    contexts = ["{}", "smoker AND ({})", "SELECT count(*) FROM t WHERE {}", "SELECT sum(age) FILTER (WHERE {}) FROM t"]
    contexts += ["SELECT CASE WHEN {} THEN 'a' END, count(*) FROM t GROUP BY 1"]
    return [
        *(context.replace("{}", text) for text, context in itertools.product(hostile("conditions"), contexts)),
        *(f"SELECT count(*) FROM {tail}" for tail in hostile("from")),
        *(f"SELECT {item} FROM t" for item in hostile("items")),
        *(f"SELECT sex, {item} FROM t GROUP BY sex" for item in hostile("items")),
        *hostile("statements"),
        *soup(400),
    ]


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """No garbage of earlier tests is collected on the clock of this one."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("undisturbed")
def test_nothing_hostile_is_accepted_and_each_refusal_is_quick() -> None:
    texts = corpus()
    assert len(set(texts)) >= 1000
    question(PEOPLE, "SELECT count(*) FROM t")  # the parser is loaded once
    accepted, slow = [], []
    for text in texts:
        begun = time.thread_time()
        try:
            question(PEOPLE, text)
            accepted.append(text)
        except QueryError:
            pass
        if time.thread_time() - begun > QUICK:
            slow.append(text)
    assert accepted == []
    assert slow == []


VALID = [
    "age >= 65 AND smoker",
    "NOT (sex IN ('f', 'm') OR seen >= DATE '2024-03-01')",
    "SELECT sex, count(*) AS n, avg(age) FROM people WHERE bmi < 25 GROUP BY sex",
    "SELECT CASE WHEN age < 18 THEN 'a' ELSE 'b' END AS g, sum(age) FILTER (WHERE smoker) FROM t GROUP BY g",
]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from(VALID), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3), st.text(max_size=3)), max_size=4)
)
def test_damaged_texts_are_answered_or_refused_and_nothing_else(text: str, damage: list[tuple[int, int, str]]) -> None:
    for where_, removed, inserted in damage:
        text = text[:where_] + inserted + text[where_ + removed :]
    with contextlib.suppress(QueryError):
        assert isinstance(question(PEOPLE, text), Statement | LinearQuery)


def nested(wrap: Callable[[object], object], times: int) -> object:
    expression: object = col("smoker")
    for _ in range(times):
        expression = wrap(expression)
    return expression


HUGE: dict[str, Callable[[], object]] = {
    "a long text": lambda: "smoker OR " * 10**6 + "smoker",
    "many words": lambda: "a=1," * 1499,
    "open parentheses": lambda: "(" * 2400,
    "negations in text": lambda: "NOT " * 2400 + "smoker",
    "open cases": lambda: "SELECT " + "CASE WHEN " * 900,
    "open functions": lambda: "SELECT " + "count(" * 1200,
    "a wide expression": lambda: Or((col("smoker"),) * 10**6),
    "a long list": lambda: In("age", (1,) * 10**6),
    "deep negations": lambda: nested(Not, 10**5),  # type: ignore[arg-type]
    "a deep chain": lambda: nested(lambda e: e & col("smoker"), 10**5),
    "deep alternation": lambda: nested(lambda e: (e & col("smoker")) | col("b1"), 2000),
    "a shared expression": lambda: nested(lambda e: And((e, e)), 60),  # type: ignore[arg-type]
}


@pytest.mark.thorough(fast=3)
@pytest.mark.usefixtures("undisturbed")
@pytest.mark.parametrize("name", HUGE)
def test_huge_questions_are_refused_at_once(name: str) -> None:
    asked = HUGE[name]()
    begun = time.thread_time()
    with pytest.raises(QueryError, match=r"ask it in parts"):
        question(PEOPLE, asked)  # type: ignore[arg-type]
    assert time.thread_time() - begun < QUICK


def test_a_table_too_large_to_return_is_refused_before_it_is_made() -> None:
    wide = Schema([Integer(f"n{i}", 0, 99) for i in range(40)])
    with pytest.raises(QueryError, match="more than 67,108,864; use fewer columns"):
        Marginal(wide, wide.names)
