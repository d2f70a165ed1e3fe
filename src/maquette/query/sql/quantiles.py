"""Quantiles: from the counts at or below every level of a column, which one table of it gives at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import where
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.sql.affine import kept_case, searched
from maquette.query.sql.axes import literal_value
from maquette.query.sql.formulas import call
from maquette.query.sql.parser import is_literal
from maquette.query.sql.statement import Measure, Output, Slice
from maquette.schema import Date, Ordered

if TYPE_CHECKING:
    from maquette.query.sql.aggregates import Aggregates

MOST_CUTS = 2_000  # levels of a column whose quantiles are asked


def quantile(of: Aggregates, node: Any, keep: LinearQuery) -> Any:
    """A quantile as a formula over the rows known and the rows at or below each level."""
    share, argument, discrete, falling = _asked(of, node)
    while (case := kept_case(searched(argument), zeros=False)) is not None:
        condition, argument = case
        keep &= where(of.schema, of.condition(condition))
    name = of.reader.column(argument.unnest()) if isinstance(argument.unnest(), exp.Column) else None
    column = None if name is None else of.schema[name]
    if not isinstance(column, Ordered) or isinstance(column, Date):
        of.source.refuse(
            node, f"{of.source.named(node)} of this is", "ask it of a column of numbers: an integer or a number"
        )
    if column.known > MOST_CUTS:
        raise QueryError(
            f"column {name!r} has {column.known:,} levels; a quantile is found among at most {MOST_CUTS:,}",
            advice="declare wider bins",
        )
    known = keep & LinearQuery.product(of.schema, {column.name: ~column.is_null()})
    levels = np.arange(column.size)
    cuts = [_below(of, column.name, keep, levels <= level, level + 1) for level in range(column.known - 1)]
    wanted = 1.0 - share if falling else share
    label = exp.Literal.string(column.name)
    kind = (2.0 if falling else 1.0) if discrete else 0.0  # in falling order the same share is another of two rows
    return call("mq_quantile", label, wanted, kind, of.counted(known), *cuts)


def _below(of: Aggregates, name: str, keep: LinearQuery, chosen: np.ndarray, stop: int) -> Any:
    """The rows at or below a level; one table of the column gives them all."""
    weight = keep & LinearQuery.product(of.schema, {name: chosen})

    def make(title: str, axes: tuple[Axis, ...]) -> Output:
        finer = None if name in axes else Slice(Marginal(of.schema, (*axes, name), keep), 0, stop)
        return Output(title, "count", measure=Measure(Marginal(of.schema, axes, weight), 1.0, False), via=finer)

    return of.number(("count", weight.key), "count", make, weight)


def _asked(of: Aggregates, node: Any) -> tuple[float, Any, bool, bool]:
    """The share, the column, whether the quantile is one of its values, and whether the order falls."""
    falling = False
    if isinstance(node, exp.WithinGroup):
        ordered = node.expression.expressions[0]
        falling, share, argument, kind = bool(ordered.args.get("desc")), node.this.this, ordered.this, node.this
    elif isinstance(node, exp.Median):
        share, argument, kind = exp.Literal.number(0.5), node.this, node
    else:
        share = node.args.get("quantile") or node.args.get("expression")
        argument, kind = node.this, node
    if isinstance(share, exp.Array | exp.Tuple | exp.Bracket):
        several = "ask one quantile at a time: quantile_cont(x, 0.25), quantile_cont(x, 0.5)"
        of.source.refuse(node, "a list of quantiles is", several)
    value = literal_value(share) if share is not None and is_literal(share) else None
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        of.source.refuse(node, "a quantile at anything but a number from 0 to 1 is", "write quantile_cont(x, 0.9)")
    return float(value), argument, isinstance(kind, exp.PercentileDisc | exp.Quantile), falling
