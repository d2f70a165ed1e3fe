"""Known: the rows on which an expression is not NULL, which are those that count(expression) counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from maquette.query.expression import where
from maquette.query.linear import LinearQuery
from maquette.query.sql.affine import searched
from maquette.query.sql.axes import literal_value
from maquette.query.sql.grammar import COMPARISONS
from maquette.query.sql.levels import on_levels, single
from maquette.query.sql.parser import is_literal

if TYPE_CHECKING:
    from maquette.query.sql.aggregates import Aggregates

_STRICT = (  # NULL where one of their parts is, and nowhere else
    *COMPARISONS,
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Abs),
    *(exp.Floor, exp.Ceil, exp.Round, exp.Year, exp.Quarter, exp.Month),
)


def known_rows(of: Aggregates, node: Any) -> LinearQuery:
    """The rows on which an expression is not NULL; one that is NULL for a part of a bin is refused."""
    schema, node = of.schema, searched(node.unnest()).unnest()
    if is_literal(node):
        return LinearQuery.constant(schema, 0.0 if literal_value(node) is None else 1.0)
    if isinstance(node, exp.Column):
        name = of.reader.column(node)
        return LinearQuery.product(schema, {name: ~schema[name].is_null()})
    if isinstance(node, exp.Case):
        return _of_case(of, node)
    of.source.scalar(node)
    resolved = of.reader.resolved(node)
    names, values = on_levels(schema, resolved, middle=True)
    null = np.array([value is None for value in values.reshape(-1)], dtype=bool).reshape(values.shape)
    if not all(isinstance(part, _STRICT) for part in resolved.walk()) and not all(single(schema[n]) for n in names):
        names, values = on_levels(schema, exp.Is(this=exp.Paren(this=resolved), expression=exp.Null()))
        null = np.array(values, dtype=bool)
    return LinearQuery.table(schema, names, (~null).astype(np.float64))


def _of_case(of: Aggregates, node: Any) -> LinearQuery:
    """The rows on which the branch that a row takes is not NULL."""
    found, left = LinearQuery.constant(of.schema, 0.0), LinearQuery.constant(of.schema)
    for branch in node.args["ifs"]:
        holds = where(of.schema, of.condition(branch.this))
        found |= left & holds & known_rows(of, branch.args["true"])
        left &= ~holds
    default = node.args.get("default")
    return found if default is None else found | (left & known_rows(of, default))
