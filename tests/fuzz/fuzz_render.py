"""Trees back to text: what the grammar understood, written in one plain way."""

from __future__ import annotations

import datetime as dt

from maquette.query.expression import Always, And, Between, Compare, Expression, In, IsNull, Not, Or, Truth, plain
from maquette.query.sql.grammar import Source
from maquette.schema.raw_values import identifier, quoted


def condition_text(tree: Expression) -> str:
    """A condition, each part in parentheses."""
    match tree:
        case And(parts) | Or(parts):
            joint = " AND " if isinstance(tree, And) else " OR "
            return joint.join(_inner(part) for part in parts) if parts else str(isinstance(tree, And)).upper()
        case Not(part):
            return f"NOT {_inner(part)}"
        case Always(value):
            return str(value).upper()
        case Truth(column):
            return identifier(column)
        case IsNull(column):
            return f"{identifier(column)} IS NULL"
        case Compare(column, comparison, literal):
            return f"{identifier(column)} {comparison} {literal_text(literal)}"
        case Between(column, low, high):
            return f"{identifier(column)} BETWEEN {literal_text(low)} AND {literal_text(high)}"
        case In(column, literals):
            return f"{identifier(column)} IN ({', '.join(map(literal_text, literals))})"
    raise TypeError(type(tree).__name__)


def _inner(part: Expression) -> str:
    return f"({condition_text(part)})" if isinstance(part, And | Or | Not) else condition_text(part)


def literal_text(value: object) -> str:
    """A literal."""
    value = plain(value)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return quoted(value)
    return repr(value)


def select_text(text: str) -> str:
    """A statement as its syntax tree says it."""
    return str(Source(text, statement=True).tree.sql(dialect="duckdb", comments=False))


def tree_text(text: str) -> str:
    """A condition as its syntax tree says it."""
    return str(Source(text, statement=False).tree.sql(dialect="duckdb", comments=False))
