"""Between: a condition that cuts through bins, as the two conditions around it that do not.

The *inner* one holds on the levels on which the condition surely holds, the *outer* one also on those it cuts through.
Every row that satisfies the condition satisfies the outer one, and every row that satisfies the inner one satisfies
the condition; NOT, AND and OR keep this. So a count lies between the two counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from maquette.errors import QueryError
from maquette.query.expression import And, Between, Compare, Expression, In, Not, OnLevels, Or, located, plain, where
from maquette.query.linear import LinearQuery
from maquette.schema import Comparison, Ordered, Schema


def bracketed(schema: Schema, condition: Expression) -> tuple[LinearQuery, LinearQuery | None]:
    """The inner and the outer condition; no outer one where nothing is cut."""
    loose = _mapped(condition, lambda atom: _loosened(schema, atom))
    if not any(isinstance(atom, OnLevels) and atom.open is not None for atom in _atoms(loose)):
        return where(schema, condition), None
    return where(schema, _mapped(loose, _inner)), where(schema, _mapped(loose, _outer))


def _mapped(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    match node:
        case And(parts) | Or(parts):
            return replace(node, parts=tuple(_mapped(part, change) for part in parts))
        case Not(part):
            return replace(node, part=_mapped(part, change))
    return change(node)


def _atoms(node: Expression) -> list[Expression]:
    match node:
        case And(parts) | Or(parts):
            return [atom for part in parts for atom in _atoms(part)]
        case Not(part):
            return _atoms(part)
    return [node]


def _loosened(schema: Schema, atom: Expression) -> Expression:
    """A comparison that cuts through a bin, with that bin left open; anything else as it is."""
    match atom:
        case Between(column, low, high):
            both = [Compare(column, ">=", low, at=atom.at), Compare(column, "<=", high, at=atom.at)]
            return And(tuple(_loosened(schema, one) for one in both)) if _cut(schema, atom) else atom
        case In(column, literals):
            each = [Compare(column, "=", literal, at=atom.at) for literal in literals]
            return Or(tuple(_loosened(schema, one) for one in each)) if _cut(schema, atom) else atom
        case Compare(name, comparison, literal):
            error = _cut(schema, atom)
            return atom if error is None else _opened(schema, atom, name, comparison, literal, error)
    return atom


def _cut(schema: Schema, atom: Expression) -> QueryError | None:
    """The error of an atom that cannot be asked as it is."""
    try:
        where(schema, atom)
    except QueryError as error:
        return error
    return None


def _opened(  # noqa: PLR0917
    schema: Schema, atom: Expression, name: str, comparison: Comparison, literal: object, error: QueryError
) -> Expression:
    column = schema[name]
    with located(atom.at):
        around = column.around(comparison, plain(literal)) if isinstance(column, Ordered) else None
    if around is None:
        raise error
    sure, through = around
    never = np.asarray(~column.is_null() & ~sure & ~through)
    return OnLevels((column.name,), sure, never, through, error, at=atom.at)


def _inner(atom: Expression) -> Expression:
    return replace(atom, open=None) if isinstance(atom, OnLevels) else atom


def _outer(atom: Expression) -> Expression:
    if not isinstance(atom, OnLevels) or atom.open is None:
        return atom
    return replace(atom, holds=atom.holds | atom.open, fails=atom.fails | atom.open, open=None)
