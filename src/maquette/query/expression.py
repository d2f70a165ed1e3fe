"""Predicates: one small tree shared by Python expressions, predicate strings and SQL's WHERE.

Comparisons follow SQL's three-valued logic: on a missing value neither `age >= 65` nor `NOT age >= 65` holds. Negations
are pushed down to the comparisons, where the rule decides which levels are chosen; above them logic is two-valued.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import NoReturn, get_args

import numpy as np

from maquette.errors import QueryError
from maquette.query.linear import LinearQuery
from maquette.schema import Boolean, Column, Comparison, LevelMask, Number, Schema, writable

MAX_NODES = 10_000
MAX_DEPTH = 64
LARGEST = 2**63

_COMPARISONS = get_args(Comparison)

Place = tuple[int, int]  # line and column in the text, from 1
Literal = bool | int | float | str | dt.date


@dataclass(frozen=True, eq=False)
class Expression:
    """A condition on one row; combine conditions with `&`, `|` and `~`."""

    at: Place | None = field(default=None, kw_only=True, repr=False)

    def __and__(self, other: object) -> Expression:
        return And((self, _condition(other)))

    def __or__(self, other: object) -> Expression:
        return Or((self, _condition(other)))

    def __rand__(self, other: object) -> NoReturn:
        _condition(other)
        raise AssertionError

    __ror__ = __rand__

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            "an expression has no truth value of its own",
            advice="write & for and, | for or, ~ for not, and .between(a, b) or two comparisons instead of a < x < b",
        )


@dataclass(frozen=True, eq=False)
class And(Expression):
    """Every part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Or(Expression):
    """At least one part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Not(Expression):
    """The part is false (not merely unknown)."""

    part: Expression


@dataclass(frozen=True, eq=False)
class Always(Expression):
    """True or false for every row."""

    value: bool


@dataclass(frozen=True, eq=False)
class Compare(Expression):
    """A column against a literal."""

    column: str
    comparison: Comparison
    literal: Literal


@dataclass(frozen=True, eq=False)
class In(Expression):
    """A column equals one of the literals."""

    column: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, eq=False)
class Between(Expression):
    """A column lies between two literals, both included."""

    column: str
    low: Literal
    high: Literal


@dataclass(frozen=True, eq=False)
class IsNull(Expression):
    """A column is missing."""

    column: str


@dataclass(frozen=True, eq=False)
class OnLevels(Expression):
    """A condition known on every combination of levels of some columns: where it holds, and where it is false.

    On `open` levels it holds for some values and not for others: it cuts through a bin. It is then refused with
    `error`, unless it is bracketed (see `between`).
    """

    columns: tuple[str, ...]
    holds: LevelMask
    fails: LevelMask
    open: LevelMask | None = None
    error: QueryError | None = None


@dataclass(frozen=True, eq=False)
class Truth(Expression):
    """A boolean column used as a condition, or any column to be compared with a literal. Made by `col`."""

    column: str

    def __eq__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare(self.column, "=", plain(other))

    def __ne__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare(self.column, "<>", plain(other))

    __hash__ = Expression.__hash__

    def __lt__(self, other: object) -> Compare:
        return Compare(self.column, "<", plain(other))

    def __le__(self, other: object) -> Compare:
        return Compare(self.column, "<=", plain(other))

    def __gt__(self, other: object) -> Compare:
        return Compare(self.column, ">", plain(other))

    def __ge__(self, other: object) -> Compare:
        return Compare(self.column, ">=", plain(other))

    def isin(self, literals: Iterable[object]) -> In:
        """Equal to one of these."""
        if isinstance(literals, str):
            raise QueryError(
                f"isin got the text {literals!r}", expected="a list of values", advice=f"write isin([{literals!r}])"
            )
        return In(self.column, tuple(plain(literal) for literal in literals))

    def between(self, low: object, high: object) -> Between:
        """From low to high, both included."""
        return Between(self.column, plain(low), plain(high))

    def is_null(self) -> IsNull:
        """Missing."""
        return IsNull(self.column)


def col(name: str) -> Truth:
    """A column, to be compared with literals.

    >>> (col("age") >= 65) & ~col("smoker")
    And(parts=(Compare(column='age', comparison='>=', literal=65), Not(part=Truth(column='smoker'))))
    """
    return Truth(name)


def where(schema: Schema, question: Expression | str | LinearQuery) -> LinearQuery:
    """The linear query that weighs a row 1 if the condition holds and 0 otherwise.

    Takes an expression, the text of one (`"age >= 65 AND smoker"`) or a linear query, which is returned as it is.
    """
    if isinstance(question, str):
        from maquette.query.sql.parser import predicate

        question = predicate(schema, question)
    if isinstance(question, Expression):
        _refuse_huge(question)
        return _as_query(schema, _build(schema, question, False, 0))
    if not isinstance(question, LinearQuery):
        raise QueryError(
            f"the question is of type {type(question).__name__}",
            expected="an expression, text or a linear query",
            advice="write col('age') >= 65 or \"age >= 65\"",
        )
    if question.schema != schema:
        raise QueryError("the query is over another schema", advice="build it from this one")
    return question


def plain(value: object) -> Literal:
    """A value as a literal: a truth value, a finite number, text or a date."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        value = value.date()
    match value:
        case None:
            raise QueryError("nothing equals a missing value", advice="use .is_null() or IS NULL")
        case Expression():
            raise QueryError("a column can only be compared with a literal, not with another column or condition")
        case dt.datetime():
            raise QueryError(f"{value} has a time of day", expected="a date")
        case str() if not writable(value):
            raise QueryError("a text with a NUL or half a surrogate pair is no value of a column", advice="remove it")
        case bool() | str() | dt.date():
            return value
        case int() if abs(value) < LARGEST:
            return value
        case float() if math.isfinite(value):
            return value
        case int() | float():
            raise QueryError("a number of this size cannot be compared", expected=f"one within {LARGEST} of 0")
    raise QueryError(f"{type(value).__name__} is not a literal", expected="true, false, a number, text or a date")


@contextmanager
def located(at: Place | None) -> Iterator[None]:
    """Add the place in the text to query errors raised inside."""
    try:
        yield
    except QueryError as error:
        if at is None or error.line is not None:
            raise
        raise QueryError(
            error.happened, expected=error.expected, advice=error.advice, line=at[0], column=at[1]
        ) from None


def _condition(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    raise QueryError(
        f"& and | join conditions, got {type(value).__name__}",
        advice="put each comparison in parentheses: (col('age') >= 65) & (col('sex') == 'f')",
    )


def _refuse_huge(expression: Expression) -> None:
    """Refuse expressions with too many nodes. Shared nodes count each time; no recursion."""
    size, pending = 0, [expression]
    while pending:
        if size + len(pending) > MAX_NODES:
            raise QueryError(f"the condition has more than {MAX_NODES:,} parts", advice="ask it in parts")
        size += 1
        match pending.pop():
            case And(parts) | Or(parts):
                pending += parts
            case Not(part):
                pending.append(part)
            case In(_, literals):
                size += len(literals)
    if size > MAX_NODES:
        raise QueryError(f"a list has more than {MAX_NODES:,} values", advice="ask it in parts")


@dataclass(frozen=True)
class _Levels:
    """The levels of one column on which a condition holds: cheap to combine, unlike queries."""

    position: int
    holds: LevelMask


def _build(schema: Schema, node: Expression, negated: bool, depth: int) -> _Levels | LinearQuery:
    if depth > MAX_DEPTH:
        raise QueryError(f"the condition is nested more than {MAX_DEPTH} deep", advice="ask it in parts")
    while isinstance(node, Not):
        node, negated = node.part, not negated
    match node:
        case And() | Or():
            every = isinstance(node, And) != negated
            parts = [_build(schema, part, flipped, depth + 1) for part, flipped in _operands(node, negated, every)]
            return _combined(schema, parts, every)
        case Always(value):
            return LinearQuery.constant(schema, float(value != negated))
        case OnLevels(columns, holds, fails):
            if node.open is not None:
                raise node.error or QueryError("a condition cuts through a bin")
            chosen = fails if negated else holds
            if len(columns) == 1:
                return _Levels(schema.position(columns[0]), chosen)
            return LinearQuery.table(schema, columns, chosen)
    with located(node.at):
        return _atom(schema, node, negated)


def _operands(node: Expression, negated: bool, every: bool) -> Iterator[tuple[Expression, bool]]:
    """The operands of a chain of one connective, for any nesting, each with whether it is negated."""
    pending = [(node, negated)]
    while pending:
        node, negated = pending.pop()
        match node:
            case Not(part):
                pending.append((part, not negated))
            case And(parts) | Or(parts) if (isinstance(node, And) != negated) == every:
                pending += [(part, negated) for part in reversed(parts)]
            case _:
                yield node, negated


def _combined(schema: Schema, parts: list[_Levels | LinearQuery], every: bool) -> _Levels | LinearQuery:
    """All of the parts, or any of them; conditions on one column become one factor first."""
    levels: dict[int, LevelMask] = {}
    queries: list[LinearQuery] = []
    for part in parts:
        if isinstance(part, LinearQuery):
            queries.append(part)
            continue
        known = levels.get(part.position, part.holds)
        levels[part.position] = known & part.holds if every else known | part.holds
    if len(levels) == 1 and not queries:
        ((position, holds),) = levels.items()
        return _Levels(position, holds)
    # De Morgan: "any of the parts" is "not all of their negations".
    factors = {schema.columns[p].name: holds if every else ~holds for p, holds in levels.items()}
    rest = [query if every else ~query for query in sorted(queries, key=lambda query: len(query.terms))]
    product = reduce(LinearQuery.__and__, rest, LinearQuery.product(schema, factors))
    return product if every else ~product


def _as_query(schema: Schema, part: _Levels | LinearQuery) -> LinearQuery:
    if isinstance(part, LinearQuery):
        return part
    return LinearQuery.product(schema, {schema.columns[part.position].name: part.holds})


def _atom(schema: Schema, node: Expression, negated: bool) -> _Levels:
    """The levels where a condition is true or, if negated, false; the null level is in neither, except for IS NULL."""
    match node:
        case IsNull(name):
            missing = schema[name].is_null()
            return _Levels(schema.position(name), ~missing if negated else missing)
        case Compare(name, comparison, literal):
            if comparison not in _COMPARISONS:
                raise QueryError(f"{comparison!r} is no comparison", expected=f"one of {', '.join(_COMPARISONS)}")
            holds = schema[name].compare(comparison, plain(literal))
        case In(name, literals):
            if not literals:
                raise QueryError(f"the list of values for {name!r} is empty", expected="at least one")
            checked = [plain(literal) for literal in literals]
            different = dict.fromkeys((type(literal), literal) for literal in checked)
            holds = np.logical_or.reduce([schema[name].compare("=", literal) for _, literal in different])
        case Between(name, low, high):
            low, high = plain(low), plain(high)
            holds = schema[name].compare(">=", low) & _up_to(schema[name], low, high)
        case Truth(name):
            if not isinstance(schema[name], Boolean):
                raise QueryError(
                    f"column {name!r} ({schema[name].kind}) is not true or false", advice="compare it with a value"
                )
            holds = schema[name].compare("=", True)
        case _:
            raise QueryError(f"{type(node).__name__} is not a condition", advice="build it with col(...)")
    if negated:
        holds = ~schema[name].is_null() & ~holds
    return _Levels(schema.position(name), holds)


def _up_to(column: Column, low: Literal, high: Literal) -> LevelMask:
    try:
        return column.compare("<=", high)
    except QueryError:
        if not isinstance(column, Number):
            raise
        column.compare("<", high)  # raises its own message if the point is no edge or out of range
        raise QueryError(
            f"column {column.name!r} ({column.kind}): BETWEEN {low} AND {high} takes the single point {high} "
            "out of its bin",
            advice=f"use {column.name} >= {low} AND {column.name} < {high}",
        ) from None
