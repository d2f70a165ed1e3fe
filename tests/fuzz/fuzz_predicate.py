"""Conditions as Python expressions and as text: odd literals, hand-made trees, deep ones; and the way back to text."""

from __future__ import annotations

import datetime as dt
import functools
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fuzz_words as words
import numpy as np
from fuzz_render import condition_text, tree_text
from fuzz_runner import Broken, Target
from fuzz_sql import HOSTILE, PEOPLE, SCHEMAS, WORDS, on_levels, sentence

from maquette.errors import QueryError
from maquette.query import where
from maquette.query.expression import Always, And, Between, Compare, Expression, In, IsNull, Not, Or, Truth, col
from maquette.query.sql.parser import predicate
from maquette.schema import Boolean, Column, Integer, Number, Schema

ODD_LITERALS: tuple[Callable[[], Any], ...] = (
    *(lambda: None, lambda: float("nan"), lambda: float("inf"), lambda: -0.0, lambda: 5e-324, lambda: 2**63),
    *(lambda: -(2**63), lambda: 10**5000, lambda: True, lambda: b"f", lambda: 1j, lambda: Decimal("NaN"), lambda: []),
    *(lambda: Fraction(1, 3), lambda: np.float32(0.1), lambda: np.int64(-1), lambda: np.bool_(True), lambda: {}),
    *(lambda: np.datetime64("2024-01-01"), lambda: np.array([1]), lambda: dt.datetime(2024, 1, 1), lambda: "\ud800"),
    *(lambda: dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), lambda: dt.date.min, lambda: dt.date.max, lambda: "x\x00"),
    *(lambda: dt.time(1), lambda: dt.timedelta(1), lambda: np.float64("nan"), lambda: np.str_("f"), object),
    *(lambda: col("age"), lambda: int, lambda: "2024-02-30", lambda: "f" * 10_000, lambda: np.longdouble("1e4000")),
)


def _literal(rng: random.Random, column: Column) -> Any:
    if rng.random() < 0.25:
        return rng.choice(ODD_LITERALS)()
    match column:
        case Boolean():
            return rng.random() < 0.5
        case Integer():
            return column.low + rng.randrange(column.known) * column.width + rng.choice((0, 0, 1, column.width - 1))
        case Number():
            return float(rng.choice(column._boundaries.tolist()))
    return rng.choice(column.values)


def _tree(rng: random.Random, schema: Schema, depth: int = 0) -> Expression:
    column = rng.choice(schema.columns)
    named = col(column.name if rng.random() < 0.97 else rng.choice(("", "agee", "\ud800", 5)))  # type: ignore[arg-type]
    draw = rng.random()
    if depth < 5 and draw < 0.5:
        parts = tuple(_tree(rng, schema, depth + 1) for _ in range(rng.choice((0, 1, 2, 2, 3))))
        return And(parts) if draw < 0.2 else Or(parts) if draw < 0.4 else Not(_tree(rng, schema, depth + 1))
    raw = rng.random() < 0.2  # what a caller may build without `col`, and its checks
    one, two = _literal(rng, column), _literal(rng, column)
    match rng.randrange(7):
        case 0:
            return IsNull(named.column)
        case 1:
            return Between(named.column, one, two) if raw else named.between(one, two)
        case 2:
            return In(named.column, (one, two) * rng.randrange(3)) if raw else named.isin([one, two])
        case 3:
            return Always(rng.choice((True, False)))
        case 4:
            return named
    sign: Any = rng.choice(("=", "<>", "<", "<=", ">", ">=", *(("~", None) if raw else ())))
    if raw:
        return Compare(named.column, sign, one)
    compared = {"=": named.__eq__, "<>": named.__ne__, "<": named.__lt__, "<=": named.__le__, ">": named.__gt__}
    return compared.get(sign, named.__ge__)(one)


def make_predicate(rng: random.Random) -> tuple[int, Callable[[], Any]]:
    """A schema's number and what builds a condition: an expression, or its text."""
    which = int(rng.random() < 0.3)
    schema, draw, seed = SCHEMAS[which], rng.random(), rng.random()
    if draw < 0.4:
        given = sentence(rng, schema)
        given = given if draw < 0.1 else words.text(rng, given, HOSTILE, WORDS)
        return which, lambda: given
    if draw < 0.43:
        times = rng.choice((3, 70, 500, 9_000, 40_000))
        return which, lambda: _nested(rng, schema, times)
    if draw < 0.45:
        return which, rng.choice(ODD_LITERALS)
    return which, lambda: _tree(random.Random(seed), schema)


def _nested(rng: random.Random, schema: Schema, times: int) -> Expression:
    kinds = rng.choice(("not", "and", "or", "mixed", "shared"))
    last = schema.names[3] if schema is PEOPLE else "Größe"
    return _chain(schema.names[0], last, kinds, min(times, 60) if kinds == "shared" else times)


@functools.cache
def _chain(begins: str, ends: str, kinds: str, times: int) -> Expression:
    """A chain of conditions; there are a few dozen of them, and a long one takes longer to build than to read."""
    tree: Expression = Truth(ends)
    first, yes, no = Truth(begins), Always(True), Always(False)
    for i in range(times):
        match kinds:
            case "not":
                tree = Not(tree)
            case "shared":
                tree = And((tree, tree))
            case "and":
                tree = And((tree, yes))
            case "or":
                tree = Or((first, tree))
            case _:
                tree = And((tree, yes)) if i % 2 else Or((tree, no))
    return tree


def run_predicate(given: tuple[int, Callable[[], Any]]) -> str:
    """Build a condition, read it, and where it has a tree write it as text and read that."""
    which, build = given
    schema = SCHEMAS[which]
    built = build()
    asked = where(schema, built)
    tree = predicate(schema, built) if isinstance(built, str) else built
    if not isinstance(tree, Expression):
        return "query"
    computed = isinstance(built, str) and on_levels(tree)
    try:
        written = tree_text(built) if computed else condition_text(tree)
    except RecursionError:  # of the fuzzer: a chain may be longer than Python can write
        return "expression with a long text"
    if len(written) < 6_000:
        try:
            again = where(schema, written)
        except QueryError as error:
            if "deep" in str(error) or "ask it in parts" in str(error):
                return "expression with a long text"
            raise Broken(f"accepted as an expression, refused as text {written[:200]!r}: {error}") from error
        if again.key != asked.key:
            raise Broken(f"the text of an expression asks another question: {written[:200]}")
    return "condition on levels" if computed else "text" if isinstance(built, str) else "expression"


def warm() -> None:
    """What the first condition on levels loads belongs to no input."""
    where(PEOPLE, "smoker AND age % 2 = 0")


PREDICATE = Target("predicate", make_predicate, run_predicate, (QueryError,))
