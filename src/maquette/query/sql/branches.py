"""Branches: sums and averages of a column's own values through CASE, coalesce and nullif, one sum for each branch.

Without it such an expression is known on the levels alone, and its interval reaches from the lower to the upper ends of
bins.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from maquette.query.expression import where
from maquette.query.linear import LinearQuery
from maquette.query.sql import weights
from maquette.query.sql.affine import affine, filled, kept_case, searched
from maquette.query.sql.axes import literal_value
from maquette.query.sql.formulas import call
from maquette.query.sql.parser import is_literal

if TYPE_CHECKING:
    from maquette.query.sql.aggregates import Aggregates

MOST_BRANCHES = 4  # of a CASE that is added up by one sum for each


def valued(of: Aggregates, node: Any, inner: Any, keep: LinearQuery) -> Any | None:
    """A sum or average by the values of one column whose bins hold several; None if it needs no other form."""
    cased = False
    while (case := kept_case(searched(inner), zeros=isinstance(node, exp.Sum))) is not None:
        condition, inner = case
        keep, cased = keep & where(of.schema, of.condition(condition)), True
    if not cased and isinstance(inner.unnest(), exp.Column):
        return None
    found = affine(inner)
    if found is None or of.schema[of.reader.column(found.column)].value_grid is None:
        return None
    pieces = of.pieces(found.column)
    if isinstance(node, exp.Sum):
        counted = of.counted(of.rows(keep, pieces)) if found.offset else None
        return found.of(of.whole(pieces, keep), counted)
    return found.of(of.mean(pieces, keep), None)


def added_up(of: Aggregates, inner: Any, keep: LinearQuery) -> Any | None:
    """A sum of coalesce or CASE as one sum of values for each branch; None if a branch is anything else."""
    case = filled(inner)
    if not isinstance(case, exp.Case) or len(case.args["ifs"]) > MOST_BRANCHES:
        return None
    results = [*(branch.args["true"] for branch in case.args["ifs"]), case.args.get("default") or exp.Null()]
    if all(map(is_literal, results)) or not all(_is_term(of, result) for result in results):
        return None
    terms, left = [], keep
    for result, branch in zip(results, [*case.args["ifs"], None], strict=True):
        holds = None if branch is None else where(of.schema, of.condition(branch.this))
        term = _term(of, result, left if holds is None else left & holds)
        terms += [] if term is None else [term]
        left = left if holds is None else left & ~holds
    return exp.Paren(this=reduce(lambda a, b: exp.Add(this=a, expression=b), terms))


def averaged(of: Aggregates, inner: Any, keep: LinearQuery) -> Any | None:
    """An average of coalesce or CASE as such a sum over the rows that are known; None if bins hide nothing in it."""
    case = filled(inner)
    if not isinstance(case, exp.Case) or not weights.hides(pieces := of.pieces(case)):
        return None
    total = added_up(of, case, keep)
    if total is None:
        return None
    (least, _), (_, largest) = (weights.extent(side) for side in weights.ends(pieces))
    return call("mq_average", total, of.counted(of.rows(keep, pieces)), least, largest)


def _is_term(of: Aggregates, node: Any) -> bool:
    """Whether an expression is a number, NULL, or a multiple of a column whose values are added up."""
    if is_literal(node):
        return literal_value(node) is None or isinstance(literal_value(node), int | float)
    found = affine(node)
    return found is not None and of.schema[of.reader.column(found.column)].value_grid is not None


def _term(of: Aggregates, node: Any, keep: LinearQuery) -> Any | None:
    """The sum over some rows of what `_is_term`; None if it is nothing."""
    if is_literal(node):
        value = literal_value(node)
        return exp.Mul(this=exp.convert(value), expression=of.counted(keep)) if value else None
    return valued(of, exp.Sum(), node, keep) or of.whole(of.pieces(node.unnest()), keep)
