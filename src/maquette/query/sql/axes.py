"""Axes: what GROUP BY groups by. A column, a condition, a CASE, or any expression on the levels of a few columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import Expression, Not, located, where
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Buckets
from maquette.query.sql.grammar import COMPARISONS
from maquette.query.sql.levels import on_levels, refuse_nan
from maquette.query.sql.parser import Reader, is_literal
from maquette.schema import NULL_LABEL, Schema

MANY = 10_000  # groups of an expression
_CONDITIONS = (*COMPARISONS, exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Is, exp.Like, exp.ILike)


def axis_of(schema: Schema, reader: Reader, node: Any, title: str) -> Axis:
    """The axis of an entry of GROUP BY, whose names are resolved."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return str(node.name)
    with located(reader.at(node)):
        if isinstance(node, _CONDITIONS):
            return _truths(schema, title, reader.condition(node))
        if isinstance(node, exp.Case) and node.this is None and _labelled(node):
            return _cases(schema, title, node, reader.condition)
        return _values(schema, title, node)


def _labelled(node: Any) -> bool:
    default = node.args.get("default")
    results = [branch.args["true"] for branch in node.args["ifs"]]
    return all(is_literal(result) for result in [*results, *([] if default is None else [default])])


def _truths(schema: Schema, title: str, condition: Expression) -> Buckets:
    """False and true, and NULL where the condition is neither."""
    holds, fails = where(schema, condition), where(schema, Not(condition))
    parts: dict[Any, LinearQuery] = {False: fails, True: holds}
    rest = ~holds & ~fails
    if rest.bounds[1] > 0:
        parts[None] = rest
    return _buckets(title, parts)


def _cases(schema: Schema, title: str, node: Any, condition: Callable[[Any], Expression]) -> Buckets:
    """Disjoint buckets: a row goes to the first condition that holds; equal labels share a bucket."""
    parts: dict[Any, LinearQuery] = {}
    left = LinearQuery.constant(schema)
    for branch in node.args["ifs"]:
        holds = where(schema, condition(branch.this))
        _add(parts, literal_value(branch.args["true"]), left & holds)
        left = left & ~holds
    default = node.args.get("default")
    if default is not None or left.bounds[1] > 0:
        otherwise = None if default is None else literal_value(default)
        if otherwise is None and NULL_LABEL in parts:
            raise QueryError(
                f"the label {NULL_LABEL!r} means rows that fit no WHEN", advice="add an ELSE or rename the label"
            )
        _add(parts, otherwise, left)
    return _buckets(title, parts)


def _values(schema: Schema, title: str, node: Any) -> Buckets:
    """One bucket for each value of an expression on levels, in order."""
    columns, values = on_levels(schema, node)
    refuse_nan(values)
    different = set(values.reshape(-1))
    if len(different) > MANY:
        raise QueryError(f"{title} has {len(different):,} different values, more than {MANY:,}")
    parts = {
        value: LinearQuery.table(
            schema, columns, np.array([v == value for v in values.reshape(-1)]).reshape(values.shape)
        )
        for value in sorted(different - {None}, key=_ranked)
    }
    if None in different:
        nulls = np.array([v is None for v in values.reshape(-1)]).reshape(values.shape)
        parts[None] = LinearQuery.table(schema, columns, nulls)
    return _buckets(title, parts)


def _ranked(value: Any) -> tuple[str, Any]:
    number = isinstance(value, bool | int | float)
    return ("" if number else type(value).__name__, value)


def _buckets(title: str, parts: dict[Any, LinearQuery]) -> Buckets:
    labels = tuple(label_of(value) for value in parts)
    return Buckets(title, labels, tuple(parts.values()), tuple(parts))


def label_of(value: Any) -> str:
    """A value as the label of a group."""
    if value is None:
        return NULL_LABEL
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add(parts: dict[Any, LinearQuery], label: Any, part: LinearQuery) -> None:
    known = parts.get(label)
    parts[label] = part if known is None else LinearQuery(part.schema, [*known.terms, *part.terms])


def literal_value(node: Any) -> str | int | float | bool | dt.date | None:
    """The value of a literal node."""
    node = node.unnest()
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            inner = literal_value(node.this)
            return -inner if isinstance(inner, int | float) else inner
        case exp.Cast():
            return dt.date.fromisoformat(str(node.this.this))
        case exp.Literal(is_string=True):
            return str(node.this)
    number = float(node.this)
    return int(node.this) if str(node.this).isdecimal() else number
