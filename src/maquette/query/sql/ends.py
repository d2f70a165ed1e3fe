"""Ends: the least and the largest number of an expression on the values that a combination of bins may hold.

A sum of `amount * quantity` is known from counts of bins only as far as the bins tell: it lies between the sum of the
least and that of the largest number of every combination of bins. An expression that names each binned column once, in
operations that rise or fall with every one of their parts, takes both at the ends of bins: moving one column at a time
to one of its ends makes the number no smaller. Otherwise every whole number and day of the bins is tried, if there are
few. No row is read.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.sql import levels
from maquette.schema import Number, Schema

Values = NDArray[np.float64]

_KEEPING = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Paren, exp.Floor, exp.Ceil, exp.Round, exp.Trunc),
    *(exp.Cast, exp.Coalesce, exp.Greatest, exp.Least, exp.DateDiff, exp.Ln, exp.Sqrt, exp.Exp),
)


def on_ends(schema: Schema, node: Any) -> tuple[tuple[str, ...], Values, Values] | None:
    """The columns of an expression, and its least and largest number on every combination of their levels; NaN is NULL.

    None if each level holds one value: `on_levels` says all there is.
    """
    names = tuple(name for name in schema.names if name in set(levels.names_in(node)))
    binned = frozenset(name for name in names if not levels.single(schema[name]))
    if not binned:
        return None
    least, largest = _on_ends(schema, names, node.sql(dialect="duckdb"), _kept(node, binned))
    return names, least, largest


@lru_cache(2**6)
def _on_ends(schema: Schema, names: tuple[str, ...], sql: str, kept: bool) -> tuple[Values, Values]:
    columns = [schema[name] for name in names]
    if not kept and any(isinstance(column, Number) for column in columns):
        raise QueryError(
            f"what {sql[:60]} is inside a bin does not follow from its ends",
            advice="name each column once, in sums, differences, products and round; or add up the column itself",
        )
    tried = [levels.outermost(column) if kept else levels.every(column) for column in columns]
    shape = tuple(column.size for column in columns)
    least, largest, nulls = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape, dtype=np.bool_)
    for place, value in levels.computed(sql, names, tried):
        if value is None:
            nulls[place] = True
            continue
        if not isinstance(value, bool | int | float):
            raise QueryError("a sum of anything but numbers is not supported", advice="add numbers")
        least[place], largest[place] = min(least[place], float(value)), max(largest[place], float(value))
    if (nulls & (least <= largest)).any():
        raise QueryError(f"{sql[:60]} is NULL for a part of a bin", advice="declare bins that end there")
    if not np.isfinite(least[~nulls]).all() or not np.isfinite(largest[~nulls]).all():
        raise QueryError("the expression is infinite or not a number on some level", advice="divide by nullif(x, 0)")
    least[nulls] = largest[nulls] = np.nan
    least.flags.writeable = largest.flags.writeable = False
    return least, largest


def _kept(node: Any, binned: frozenset[str]) -> bool:
    """Whether an expression names each binned column once, and rises or falls with every part that names one."""
    return max(_often(node, binned).values(), default=0) <= 1 and _rises(node, binned)


def _often(node: Any, binned: frozenset[str]) -> Counter[str]:
    """How often an expression reads each binned column; of the branches of a CASE one is read."""
    if isinstance(node, exp.Column):
        return Counter([str(node.name)] if str(node.name) in binned else [])
    if isinstance(node, exp.Case | exp.If):
        branches = [_often(branch, binned) for branch in _branches(node)]
        return Counter({name: max(found[name] for found in branches) for name in binned})
    return sum((_often(part, binned) for part in node.iter_expressions()), Counter[str]())


def _branches(node: Any) -> list[Any]:
    """What a CASE or IF may give."""
    ifs, other = (
        ([node], node.args.get("false")) if isinstance(node, exp.If) else (node.args["ifs"], node.args.get("default"))
    )
    return [*(each.args["true"] for each in ifs), *([] if other is None else [other])]


def _tests(node: Any) -> list[Any]:
    """What decides between the branches of a CASE or IF."""
    if isinstance(node, exp.If):
        return [node.this]
    return [*(each.this for each in node.args["ifs"]), *([] if node.this is None else [node.this])]


def _rises(node: Any, binned: frozenset[str]) -> bool:
    if isinstance(node, exp.Column) or binned.isdisjoint(levels.names_in(node)):
        return True  # a column, or one number for each combination of levels
    if isinstance(node, exp.Case | exp.If):  # levels of one value decide which branch it is
        decided = all(binned.isdisjoint(levels.names_in(test)) for test in _tests(node))
        return decided and all(_rises(branch, binned) for branch in _branches(node))
    if not isinstance(node, _KEEPING) or levels.turns(node):
        return False
    if isinstance(node, exp.Div | exp.IntDiv) and not binned.isdisjoint(levels.names_in(node.expression)):
        return False  # a divisor may be 0 inside a bin
    return all(_rises(part, binned) for part in node.iter_expressions())
