"""Random schemas, rows and conditions, each condition as an expression and as text, and what DuckDB makes of them."""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from maquette.errors import QueryError
from maquette.query.expression import Always, And, Between, Compare, Expression, In, IsNull, Not, Or, Truth
from maquette.schema import Boolean, Category, Column, Date, Integer, Number, Schema

NAMES = ("a", "B c", 'd"q', "select", "été")
LEVELS = ("x", "it's", "two words", "n/a", "ü")


@dataclass(frozen=True)
class Condition:
    """The same condition three ways; `loose` texts need parentheses inside AND and NOT."""

    expression: Expression
    text: str
    loose: bool = False

    @property
    def tight(self) -> str:
        return f"({self.text})" if self.loose else self.text


def name_sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal_sql(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


@st.composite
def columns(draw: st.DrawFn, name: str, fine: bool) -> Column:
    """A column; `fine` ones have a level per raw value."""
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from(["boolean", "category", "integer", "date"] + ["number", "bins", "months"] * (not fine)))
    low = draw(st.integers(-4, 3))
    match kind:
        case "boolean":
            return Boolean(name, nullable=nullable)
        case "category":
            return Category(name, LEVELS[: draw(st.integers(1, 5))], nullable=nullable)
        case "integer":
            return Integer(name, low, low + draw(st.integers(0, 5)), nullable=nullable)
        case "bins":
            return Integer(name, low, low + draw(st.integers(2, 9)), width=3, nullable=nullable)
        case "number":
            return Number(name, edges=[-1.5, 0.0, 0.25, 3.0][: draw(st.integers(2, 4))], nullable=nullable)
        case "date":
            return Date(name, "2024-02-27", dt.date(2024, 2, 27 + draw(st.integers(0, 2))), nullable=nullable)
    return Date(name, "2024-01-10", "2024-04-20", unit="month", nullable=nullable)


@st.composite
def schemas(draw: st.DrawFn, fine: bool = False, most: int = 4) -> Schema:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True))
    return Schema([draw(columns(name, fine)) for name in names])


def raw_values(column: Column) -> st.SearchStrategy[Any]:
    """Raw values inside the declared range, missing ones where they are allowed."""
    match column:
        case Boolean():
            known: st.SearchStrategy[Any] = st.booleans()
        case Category():
            known = st.sampled_from([str(level) for level in column.values])
        case Integer():
            known = st.integers(column.low, column.high)
        case Number():
            low, high = (float(column._boundaries[i]) for i in (0, -1))
            known = st.floats(low, high) | st.sampled_from([float(edge) for edge in column._boundaries])
        case _:
            known = st.dates(column.low, column.high)  # type: ignore[attr-defined]
    return known | st.none() if column.nullable else known


@st.composite
def tables(draw: st.DrawFn, schema: Schema) -> pa.Table:
    rows = draw(st.lists(st.tuples(*map(raw_values, schema)), min_size=1, max_size=12))
    arrays = [pa.array([row[i] for row in rows], type=c._arrow_type()) for i, c in enumerate(schema)]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def literals(column: Column) -> list[Any]:
    """Literals to compare with: all declared values and one more on either side, or all edges."""
    match column:
        case Boolean():
            return [True, False]
        case Category():
            return [str(level) for level in column.values]
        case Integer():
            return list(range(column.low - 1, column.high + 2))
        case Number():
            return [float(edge) for edge in column._boundaries]
    days = (column.high - column.low).days  # type: ignore[attr-defined]
    return [column.low + dt.timedelta(days=i) for i in range(-1, days + 2)]  # type: ignore[attr-defined]


def _exact(column: Column, comparison: Any, literal: Any) -> bool:
    """Whether a comparison cuts between levels; the top edge of a number belongs to the last bin."""
    if isinstance(column, Number) and comparison in ("<", ">=") and literal == column._boundaries[-1]:
        return False
    try:
        column.compare(comparison, literal)
    except QueryError:
        return False
    return True


MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@st.composite
def atoms(draw: st.DrawFn, schema: Schema) -> Condition:
    column = draw(st.sampled_from(list(schema)))
    name = name_sql(column.name)
    values = literals(column)
    pairs = [(op, v) for op in MIRRORED for v in values if _exact(column, op, v)]
    equal = [v for op, v in pairs if op == "="]
    starts, ends = ([v for op, v in pairs if op == wanted] for wanted in (">=", "<="))
    kinds = ["compare", "null", "always"] + ["in"] * bool(equal) + ["between"] * bool(starts and ends)
    match draw(st.sampled_from(kinds + ["truth"] * isinstance(column, Boolean))):
        case "null":
            negated = draw(st.booleans())
            missing = IsNull(column.name)
            return Condition(Not(missing) if negated else missing, f"{name} IS {'NOT ' * negated}NULL")
        case "always":
            value = draw(st.booleans())
            return Condition(Always(value), str(value))
        case "truth":
            return Condition(Truth(column.name), name)
        case "in":
            chosen = draw(st.lists(st.sampled_from(equal), min_size=1, max_size=4))
            negated = draw(st.booleans())
            inside = In(column.name, tuple(chosen))
            text = f"{name} {'NOT ' * negated}IN ({', '.join(map(literal_sql, chosen))})"
            return Condition(Not(inside) if negated else inside, text)
        case "between":
            low, high = draw(st.sampled_from(starts)), draw(st.sampled_from(ends))
            negated = draw(st.booleans())
            within = Between(column.name, low, high)
            text = f"{name} {'NOT ' * negated}BETWEEN {literal_sql(low)} AND {literal_sql(high)}"
            return Condition(Not(within) if negated else within, text)
    comparison, value = draw(st.sampled_from(pairs))
    text = f"{name} {comparison} {literal_sql(value)}"
    if draw(st.booleans()):
        text = f"{literal_sql(value)} {MIRRORED[comparison]} {name}"
    return Condition(Compare(column.name, comparison, value), text)


def conditions(schema: Schema) -> st.SearchStrategy[Condition]:
    """Conditions with no more parentheses than SQL's precedence needs."""

    def extend(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            inner.map(lambda c: Condition(Not(c.expression), f"NOT {c.tight}")),
            several.map(lambda cs: Condition(And(_parts(cs)), " AND ".join(c.tight for c in cs))),
            several.map(lambda cs: Condition(Or(_parts(cs)), " OR ".join(c.text for c in cs), loose=True)),
        )

    # NOT binds tighter than AND, so an AND under NOT needs parentheses: mark every chain as loose there.
    return st.recursive(atoms(schema), lambda inner: extend(inner).map(_marked), max_leaves=6)


def _parts(cs: list[Condition]) -> tuple[Expression, ...]:
    return tuple(c.expression for c in cs)


def _marked(c: Condition) -> Condition:
    return Condition(c.expression, c.text, loose=c.loose or isinstance(c.expression, And))


@functools.cache
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def engine_rows(table: pa.Table, query: str) -> list[tuple[Any, ...]]:
    engine().register("raw", table)
    try:
        return engine().execute(query).fetchall()
    finally:
        engine().unregister("raw")


def encoded(schema: Schema, table: pa.Table) -> np.ndarray:
    """What `schema.encode` gives, in one query on the engine at hand."""
    codes = ", ".join(column.code_sql(name_sql(column.name)) for column in schema)
    return np.array(engine_rows(table, f"SELECT {codes} FROM raw"), dtype=np.int32)


def kleene(node: Expression, row: dict[str, Any]) -> bool | None:
    """SQL's three-valued logic by its definition: the oracle for the compiler."""
    match node:
        case Always(value):
            return value
        case Not(part):
            inner = kleene(part, row)
            return None if inner is None else not inner
        case And(parts):
            found = {kleene(part, row) for part in parts}
            return False if False in found else None if None in found else True
        case Or(parts):
            found = {kleene(part, row) for part in parts}
            return True if True in found else None if None in found else False
        case IsNull(name):
            return row[name] is None
    name = node.column  # type: ignore[attr-defined]
    if row[name] is None:
        return None
    value = row[name]
    match node:
        case Truth():
            return bool(value)
        case In(_, chosen):
            return value in chosen
        case Between(_, low, high):
            return bool(low <= value <= high)
        case Compare(_, comparison, literal):
            below, same = value < literal, value == literal
            return {"=": same, "<>": not same, "<": below, "<=": below or same, ">": not (below or same)}.get(
                comparison, not below
            )
    raise AssertionError(node)
