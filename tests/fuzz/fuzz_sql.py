"""SQL and conditions: sentences of the grammar, hostile ones, and mutations of both; then the way back to text.

What is accepted is written again from its tree, and must mean the same: equal digests. Some texts also go through
`answer` with a curator: a refusal charges nothing, and no text of it knows the table.
"""

from __future__ import annotations

import functools
import random
import zlib
from pathlib import Path

import fuzz_words as words
import numpy as np
from fuzz_render import condition_text, select_text, tree_text
from fuzz_runner import Broken, Target

import maquette as mq
from maquette.answers import rehearse
from maquette.errors import BudgetExceeded, MaquetteError, QueryError
from maquette.query import Program, question, where
from maquette.query.expression import And, Expression, Not, OnLevels, Or
from maquette.query.sql.parser import is_select, predicate
from maquette.query.sql.statement import Statement, parse
from maquette.query.sql.words import MAX_TEXT as LONGEST
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema

PEOPLE = Schema(
    [
        Integer("age", 0, 99),
        Integer("pay", -50, 950, width=100, nullable=True),
        Category("sex", ["f", "m", "it's"], other="other"),
        Boolean("smoker", nullable=True),
        Number("bmi", edges=[10, 18.5, 25, 60]),
        Date("seen", "2024-01-01", "2024-12-31", unit="month"),
    ]
)
ODD = Schema(
    [
        Integer("select", 0, 3),
        Category('a "b"', ["x", "", "y"][::2], nullable=True),
        Boolean("Größe"),
        Boolean("GRÖSSE"),
        Integer("count", -(2**53), 2**53, width=2**50),
        Number("n.n", low=0.0, high=5e-324, bins=1),
        Category("day", [str(i) for i in range(200)]),
        Date("when", "0001-01-01", "9999-12-31", unit="year"),
    ]
)
SCHEMAS = (PEOPLE, ODD)
HOSTILE = [
    line
    for line in (Path(__file__).parent.parent / "query" / "hostile.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("[")
]
WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "CASE"),
    *("WHEN", "THEN", "ELSE", "END", "AS", "FILTER (WHERE", "count(*)", "count(", "sum(", "avg(", "(", ")", ",", "*"),
    *(
        "=",
        "<>",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "TRUE",
        "FALSE",
        "NULL",
        "DATE '2024-02-01'",
        "'x'",
        "'f'",
        '"age"',
        "age",
    ),
    *(
        "pay",
        "sex",
        "smoker",
        "bmi",
        "seen",
        "people",
        "DISTINCT",
        "JOIN t",
        "UNION",
        "LIMIT 1",
        "ORDER BY 1",
        "OVER ()",
    ),
    *(
        "1",
        "2",
        "65",
        "-1",
        "0.5",
        "18.5",
        "CAST(",
        "::",
        "COLLATE",
        "INTERVAL '1' day",
        "EXISTS (",
        "ANY (",
        "$1",
        ":x",
    ),
    *("GROUPING SETS ((", "ROLLUP (", "HAVING", "WINDOW", "PIVOT", "UNPIVOT", "LATERAL", "VALUES (1)", "TABLESAMPLE 1"),
    *(
        "USING SAMPLE 1",
        "FOR UPDATE",
        "INTO x",
        "QUALIFY 1",
        "e'\\x00'",
        "x'00'",
        "b'1'",
        "U&'\\0061'",
        "{d '2024-01-01'}",
    ),
    *(
        "[1, 2]",
        "a.b.c",
        "x -> 1",
        "x := 1",
        "#1",
        "COLUMNS(*)",
        "* EXCLUDE (age)",
        "* REPLACE (1 AS age)",
        "lambda x: x",
    ),
)
ROWS = 7919  # a number that no refusal may know


def literal(rng: random.Random, column: Column) -> str:
    """A literal for a column, mostly one that fits."""
    if rng.random() < 0.02:
        return rng.choice(words.NUMBERS)
    match column:
        case Boolean():
            return rng.choice(("TRUE", "false", "1", "0"))
        case Category():
            return "'" + str(rng.choice(column.values)).replace("'", "''") + "'"
        case Integer():
            step = rng.randrange(column.known)
            return str(column.low + step * column.width + (column.width - 1) * (rng.random() < 0.05))
        case Number():
            return repr(float(rng.choice(column._boundaries.tolist()[:-1])))
    start = rng.choice(column.values)
    return f"{rng.choice(('DATE ', ''))}'{start.isoformat()}'"


def name(rng: random.Random, column: str) -> str:
    """A column as a text may write it."""
    if column.isidentifier() and column.lower() not in ("select", "count") and rng.random() < 0.8:
        return rng.choice((column, column, column.upper()))
    return '"' + column.replace('"', '""') + '"'


def _signs(column: Column) -> tuple[str, ...]:
    """The comparisons that a column mostly allows."""
    match column:
        case Boolean() | Category():
            return ("=", "<>", "!=")
        case Number():
            return ("<", ">=")
        case Integer(width=1):
            return ("=", "<>", "!=", "<", "<=", ">", ">=")
    return ("<", ">=")


def computed(rng: random.Random, column: Column, subject: str) -> str:
    """A condition that is computed on the levels of a column."""
    sign, number = rng.choice(("=", "<>", "<", ">=")), rng.randrange(-3, 60)
    forms: tuple[str, ...]
    match column:
        case Boolean():
            forms = (
                f"coalesce({subject}, FALSE)",
                f"CASE WHEN {subject} THEN TRUE ELSE FALSE END",
                f"{subject} IS TRUE",
            )
        case Category():
            text = literal(rng, column)
            forms = (
                f"lower({subject}) = lower({text})",
                f"{subject} LIKE {text[:-1]}%'",
                f"length({subject}) {sign} {number % 5}",
                f"{subject} || 'x' <> {text}",
            )
        case Date():
            forms = (
                f"extract(month FROM {subject}) {sign} {1 + number % 12}",
                f"year({subject}) {sign} {2000 + number}",
                f"date_trunc('year', {subject}) {sign} {literal(rng, column)}",
            )
        case _:
            forms = (
                f"{subject} % {1 + number % 7} {sign} {number % 3}",
                f"abs({subject} - {number}) {sign} {number}",
                f"{subject} * 2 + 1 {sign} {number}.5",
                f"-{subject} {sign} {number}",
                f"{subject} / 3 {sign} {number}",
                f"CASE WHEN {subject} > {number} THEN 1 ELSE 0 END = {number % 2}",
            )
    return rng.choice(forms)


def sentence(rng: random.Random, schema: Schema, depth: int = 0) -> str:
    """A condition of the grammar; now and then one that is long or deep."""
    column = rng.choice(schema.columns)
    subject = name(rng, column.name)
    few = depth < 4 and rng.random() < (0.75 if depth == 0 else 0.45)
    if few:
        match rng.randrange(5):
            case 0:
                return f"NOT ({sentence(rng, schema, depth + 1)})"
            case 1:
                return f"({sentence(rng, schema, depth + 1)})"
        times = 2 + int(rng.expovariate(0.9))
        joint = rng.choice((" AND ", " OR ", " and ", " or "))
        return joint.join(sentence(rng, schema, depth + 1) for _ in range(times))
    if rng.random() < 0.12:
        return computed(rng, column, subject)
    match rng.randrange(7):
        case 0:
            return f"{subject} IS {rng.choice(('', 'NOT '))}NULL"
        case 1 if isinstance(column, Integer | Date) or rng.random() < 0.1:
            return f"{subject} {rng.choice(('', 'NOT '))}BETWEEN {literal(rng, column)} AND {literal(rng, column)}"
        case 2 if not isinstance(column, Number | Date) or rng.random() < 0.1:
            listed = ", ".join(literal(rng, column) for _ in range(1 + int(rng.expovariate(0.4))))
            return f"{subject} {rng.choice(('', 'NOT '))}IN ({listed})"
        case 3 if any(isinstance(c, Boolean) for c in schema):
            return name(rng, rng.choice([c.name for c in schema if isinstance(c, Boolean)]))
    sign = rng.choice(_signs(column) if rng.random() < 0.9 else ("=", "<>", "!=", "<", "<=", ">", ">="))
    sides = [subject, literal(rng, column)]
    return f" {sign} ".join(sides if rng.random() < 0.8 else sides[::-1])


def statement(rng: random.Random, schema: Schema) -> str:
    """A SELECT of the grammar."""
    groups = rng.sample(schema.names, rng.choice((0, 0, 1, 1, 2)))
    case = ""
    if rng.random() < 0.2:
        branches = " ".join(f"WHEN {sentence(rng, schema, 2)} THEN '{i % 3}'" for i in range(1 + rng.randrange(3)))
        case = f"CASE {branches}{rng.choice(('', ' ELSE ' + repr('rest')))} END"
    items = [name(rng, group) for group in groups] + ([f"{case} AS bucket"] if case else [])
    for _ in range(1 + rng.randrange(3)):
        column = rng.choice(schema.names)
        item = rng.choice(("count(*)", f"count({name(rng, column)})", f"sum({name(rng, column)})"))
        if not isinstance(schema[column], Category | Date) or rng.random() < 0.1:
            item = rng.choice((item, f"avg({name(rng, column)})"))
        else:
            item = "count(*)"
        if rng.random() < 0.15:
            item += f" FILTER (WHERE {sentence(rng, schema, 2)})"
        items.append(item + rng.choice(("", f" AS n{rng.randrange(9)}")))
    keep = f" WHERE {sentence(rng, schema, 1)}" if rng.random() < 0.6 else ""
    keys = [name(rng, group) if rng.random() < 0.8 else str(i + 1) for i, group in enumerate(groups)]
    keys += ["bucket"] if case else []
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    table = rng.choice(("people", "t", chr(34) + "a b" + chr(34)))
    plain = f"SELECT {', '.join(items)} FROM {table}{keep}{group}"
    return plain if rng.random() < 0.6 else _program(rng, plain, items, keys)


def _program(rng: random.Random, plain: str, items: list[str], keys: list[str]) -> str:
    """A statement with more than groups and aggregates."""
    number, order = rng.randrange(50), rng.choice(("", " DESC", " ASC NULLS LAST"))
    last = items[-1].partition(" AS ")[0]
    formula = rng.choice((f"{last} * {number}", f"round({last} / 7.0, 2)", f"100.0 * {last} / sum({last}) OVER ()"))
    title = rng.choice(("", " AS f", ' AS "F g"'))
    more = plain.replace("SELECT ", f"SELECT {formula}{title}, ", 1)
    match rng.randrange(8):
        case 0:
            return f"{plain} ORDER BY {1 + rng.randrange(len(items))}{order} LIMIT {number}"
        case 1 if keys:
            return f"{plain} HAVING count(*) > {number}"
        case 2:
            return more
        case 3:
            return f"{more} ORDER BY 1{order} OFFSET {number % 3}"
        case 4:
            return f"WITH w AS ({plain}) SELECT * FROM w{rng.choice(('', ' LIMIT 2', ' ORDER BY 1'))}"
        case 5:
            return f"SELECT count(*) FROM ({plain}) AS w"
        case 6:
            return plain.replace("SELECT ", f"SELECT count(DISTINCT {rng.choice(('sex', 'age', 'smoker'))}), ", 1)
    return plain.replace(
        "SELECT ", f"SELECT {rng.choice(('median', 'min', 'max', 'stddev', 'var_pop'))}(age) AS m, ", 1
    )


def _bomb(rng: random.Random, schema: Schema) -> str:
    """Long or deep texts."""
    times = rng.choice((3, 20, 30, 200, 1500, 5000))
    atom = rng.choice(("smoker", "age = 1", "sex IN ('f')", "(age < 5)", "NOT smoker", "-1 < age", "CASE WHEN smoker"))
    match rng.randrange(7):
        case 0:
            return "(" * times + atom + ")" * rng.choice((times, times - 1, 0))
        case 1:
            return "NOT " * times + atom
        case 2:
            return rng.choice((" AND ", " OR ")).join([atom] * times)
        case 3:
            pairs = [f"(age = {i % 100} {rng.choice(('AND', 'OR'))} pay < {50 + 100 * (i % 9)})" for i in range(times)]
            return rng.choice((" AND ", " OR ")).join(pairs)
        case 4:
            return f"age IN ({', '.join(str(i % 120) for i in range(times))})"
        case 5:
            return f"age = {rng.choice(('-', '- ', '+', '~', '!')) * times}1"
    return "SELECT " + ", ".join(["count(*)"] * times) + " FROM people GROUP BY " + ", ".join(["age"] * times)


def make_sql(rng: random.Random) -> tuple[int, str]:
    """A schema's number and a text."""
    which = int(rng.random() < 0.3)
    schema = SCHEMAS[which]
    draw = rng.random()
    if draw < 0.02:
        return which, _bomb(rng, schema)
    given = statement(rng, schema) if rng.random() < 0.6 else sentence(rng, schema)
    if draw < 0.25:
        return which, given
    if draw < 0.4:
        given = rng.choice(HOSTILE)
        given = rng.choice((given, f"SELECT count(*) FROM people WHERE {given}", f"smoker AND {given}"))
    return which, words.text(rng, given, (*HOSTILE[:50], statement(rng, schema)), WORDS)


def run_sql(given: tuple[int, str]) -> str:
    """Read a text; write what was understood again; the two must mean the same."""
    which, text = given
    schema = SCHEMAS[which]
    if which == 0 and zlib.crc32(text.encode(errors="replace")) % 64 == 0:
        _ask(text)
    asked = question(schema, text)
    if isinstance(asked, Program):
        rehearse(asked)
    if isinstance(asked, Statement | Program):
        _written_again(schema, asked, select_text(text))
        return "statement" if isinstance(asked, Statement) else "program"
    tree = predicate(schema, text)
    computed = on_levels(tree)
    again_text = tree_text(text) if computed else condition_text(tree)
    try:
        again = where(schema, again_text)
    except QueryError as error:
        if len(again_text) > LONGEST:  # in its own words a text may be longer than texts may be
            return "condition with a long text"
        raise Broken(f"accepted, and refused when written again as {again_text[:200]!r}: {error}") from error
    if again.key != asked.key:
        raise Broken(f"the condition written again asks another question: {again_text[:200]}")
    if is_select(again_text):
        raise Broken("a condition became a statement")
    return "condition on levels" if computed else "condition"


def _written_again(schema: Schema, asked: Statement | Program, text: str) -> None:
    """What the syntax tree says in its own words asks the same, under the same titles."""
    try:
        again = parse(schema, text)
    except QueryError as error:
        if len(text) > LONGEST:
            return
        raise Broken(f"accepted, and refused when written again as {text[:300]!r}: {error}") from error
    if [m.key for m in asked.marginals] != [m.key for m in again.marginals]:
        raise Broken(f"the statement written again asks another question: {text[:200]}")
    if titles(asked) != titles(again):
        raise Broken(f"written again as {text[:200]!r}, titles {titles(asked)} become {titles(again)}")
    if asked.key != again.key:
        raise Broken(f"the statement written again has another key: {text[:200]}")


def titles(asked: Statement | Program) -> tuple[str, ...]:
    """The names of the columns of the answer."""
    if isinstance(asked, Statement):
        return tuple(output.title for output in asked.outputs)
    return tuple(title for _, title in asked.outputs)


def on_levels(tree: Expression) -> bool:
    """Whether a part of a condition was computed on levels, so that it has no text of its own."""
    match tree:
        case And(parts) | Or(parts):
            return any(map(on_levels, parts))
        case Not(part):
            return on_levels(part)
    return isinstance(tree, OnLevels)


@functools.cache
def _curator() -> mq.Curator:
    rng = np.random.default_rng(0)
    made = {
        "age": rng.integers(0, 99, ROWS),
        "pay": rng.integers(-50, 950, ROWS),
        "sex": rng.choice(["f", "m"], ROWS),
        "smoker": rng.random(ROWS) < 0.5,
        "bmi": rng.uniform(10, 60, ROWS),
        "seen": ["2024-05-05"] * ROWS,
    }
    return mq.Curator(mq.open_table(made, PEOPLE), mq.Budget(epsilon=5000.0))


def _ask(text: str) -> None:
    curator = _curator()
    before = curator.spent.units
    try:
        mq.answer(curator, text, epsilon=1e-6)
    except MaquetteError as error:
        if curator.spent.units != before:
            raise Broken("a refused question was charged") from error
        if str(ROWS) in str(error) and str(ROWS) not in text:
            raise Broken("a refusal knows the number of rows") from error
        if isinstance(error, BudgetExceeded):
            raise Broken("the curator of the fuzzer is out of budget") from error
        raise


def warm() -> None:
    """What the first question loads belongs to no input."""
    mq.answer(_curator(), "smoker AND age % 2 = 0", epsilon=1e-6)
    mq.answer(_curator(), "SELECT count(*) + 1 FROM t", epsilon=1e-6)


SQL = Target("sql", make_sql, run_sql, (QueryError,))
