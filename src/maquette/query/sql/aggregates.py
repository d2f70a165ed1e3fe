"""Aggregates: what count, sum, avg, variance, covariance, correlation and quantiles need from the table.

Each is a formula over *measured numbers*: counts and sums of weights in [0, 1] by group, which are marginals the doors
know already. So no aggregate reads rows in a way of its own; the wall prices and clamps the weights.

| aggregate | measured numbers (n: rows where the arguments are known) |
|---|---|
| count, sum, avg | n; the sum; both |
| var, stddev | n, the sum and the sum of squares, measured from the middle of the declared range |
| covar, corr | n, both sums, the sum of products (and both sums of squares), of values where the table keeps them |
| median, quantile | n, and for each level the rows at or below it: one table of the column gives them all |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import located, where
from maquette.query.forms import ValueSteps
from maquette.query.linear import LinearQuery
from maquette.query.marginal import Axis, Marginal
from maquette.query.sql import branches, weights
from maquette.query.sql.affine import Affine, affine, searched
from maquette.query.sql.axes import _CONDITIONS, literal_value
from maquette.query.sql.context import Context
from maquette.query.sql.ends import on_ends
from maquette.query.sql.formulas import call
from maquette.query.sql.grammar import Source, instead, named
from maquette.query.sql.keeping import Kept, kept_by
from maquette.query.sql.known import known_rows
from maquette.query.sql.levels import on_levels, refuse_nan
from maquette.query.sql.parser import Reader, is_literal
from maquette.query.sql.quantiles import quantile
from maquette.query.sql.scales import Scale, multiplied, scale_of
from maquette.query.sql.statement import Measure, Output
from maquette.query.sql.weights import Piece
from maquette.query.unit_counts import UnitCounts
from maquette.schema import Numeric, Schema

Make = Callable[[str, tuple[Axis, ...]], Output]

_SPREAD = {
    exp.Variance: ("mq_variance", True),
    exp.VariancePop: ("mq_variance", False),
    exp.Stddev: ("mq_deviation", True),
    exp.StddevSamp: ("mq_deviation", True),
    exp.StddevPop: ("mq_deviation", False),
}
_PAIRS = {exp.CovarSamp: "mq_covariance", exp.CovarPop: "mq_covariance", exp.Corr: "mq_correlation"}
_QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile)
_MEANS = {"mean": exp.Avg}
ADDED = 2**24  # maximum levels of a column whose numbers are added up: each takes some tens of bytes
AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)


def is_aggregate(node: Any) -> bool:
    """Whether a node is an aggregate function (not a window function's ranking)."""
    ranking = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in _MEANS
    return isinstance(node, AGGREGATES) and not isinstance(
        node, (*ranking, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)
    )


@dataclass
class Aggregates:
    """The measured numbers of one SELECT: makers of outputs by name, shared by equal aggregates."""

    schema: Schema
    reader: Reader
    source: Source
    context: Context
    keep: Kept
    fresh: Callable[[], str]

    def __post_init__(self) -> None:
        self.makers: dict[str, Make] = {}
        self.facts: dict[str, tuple[str, Any]] = {}  # by name: kind, and what identifies it
        self._names: dict[Any, str] = {}

    def number(self, identity: Any, kind: str, make: Make, fact: Any = None) -> Any:
        """The column of a measured number."""
        name = self._names.get(identity)
        if name is None:
            name = self._names[identity] = self.fresh()
            self.makers[name] = make
            self.facts[name] = kind, fact
        return exp.column(name, quoted=True)

    def formula(self, node: Any) -> Any:
        """An aggregate as an expression over measured numbers."""
        keep, node = self._kept(node)
        with located(self.reader.at(node)):
            inner = self._formula(node, keep.inner)
            if keep.outer is None:
                return inner
            self._check_grows(node)
            return call("mq_between", inner, self._formula(node, keep.outer))

    def _kept(self, node: Any) -> tuple[Kept, Any]:
        """The rows that an aggregate is about, and the aggregate without its own condition."""
        keep = self.keep
        if isinstance(node, exp.Filter):
            keep, node = keep & kept_by(self.schema, self.reader, self.condition(node.expression.this)), node.this
        if isinstance(node, exp.CountIf):
            keep &= kept_by(self.schema, self.reader, self.condition(node.this))
            node = exp.Count(this=exp.Star())
        return keep, node

    def _check_grows(self, node: Any) -> None:
        """Refuse what does not lie between its values on fewer and on more rows; a sum of midpoints need not."""
        if isinstance(node, exp.Count):
            return
        self.source.refuse(
            node,
            f"{self.source.named(node)} where a comparison cuts through a bin is",
            "a count is answered between the two cuts; for anything else cut at the declared edges",
        )

    def _formula(self, node: Any, keep: LinearQuery) -> Any:
        if isinstance(node, exp.Anonymous):
            if str(node.this).lower() not in _MEANS or len(node.expressions) != 1:
                self.source.refuse(node, f"{named(node)} is")
            node = _MEANS[str(node.this).lower()](this=node.expressions[0])
        kind = type(node)
        match node:
            case exp.Count():
                return self._count(node, keep)
            case exp.Sum() | exp.Avg():
                return self._sum(node, keep)
        if kind in _SPREAD:
            return self._spread(node, keep)
        if kind in _PAIRS:
            return self._pair(node, keep)
        if isinstance(node, exp.Mode) or (isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.Mode)):
            self.source.refuse(
                node, "the function mode is", "GROUP BY the column with count(*), ORDER BY it DESC LIMIT 1"
            )
        if isinstance(node, (*_QUANTILES, exp.WithinGroup)):
            return quantile(self, node, keep)
        if isinstance(node, exp.Min | exp.Max):
            what = f"{self.source.named(node)}, which is the value of one row, is"
            self.source.refuse(node, what, self._extreme(node))
        self.source.refuse(node, f"{self.source.named(node)} is", instead(node))

    def _extreme(self, node: Any) -> str:
        """What to ask instead of the least or the largest value."""
        share = "0.01" if isinstance(node, exp.Min) else "0.99"
        argument = node.this.sql(dialect="duckdb", comments=False)
        column = None if not isinstance(node.this, exp.Column) else self.schema[self.reader.column(node.this)]
        if column is not None and not isinstance(column, Numeric):
            return f"GROUP BY {argument} with count(*), and see which groups have rows beyond the noise"
        return f"ask an extreme quantile, which is known within the noise: quantile_disc({argument}, {share})"

    # counts

    def counted(self, keep: LinearQuery) -> Any:
        """The number of rows kept."""

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            return Output(title, "count", measure=Measure(Marginal(self.schema, axes, keep), 1.0, False))

        return self.number(("count", keep.key), "count", make, keep)

    def _count(self, node: Any, keep: LinearQuery) -> Any:
        inner = node.this
        if node.args.get("expressions"):
            self.source.refuse(node, "count of several columns is", "count one of them, or write count(*)")
        if isinstance(inner, exp.Null):
            self.source.refuse(node, "count(NULL), which counts nothing, is", "write count(*), or count(x) of a column")
        if isinstance(inner, exp.Star) or is_literal(inner):
            return self.counted(keep)
        if isinstance(inner, exp.Distinct):
            return self._distinct(node, inner, keep)
        return self.counted(keep & known_rows(self, inner))

    def _distinct(self, node: Any, inner: Any, keep: LinearQuery) -> Any:
        counted = inner.expressions[0].unnest() if len(inner.expressions) == 1 else None
        name = counted.name if isinstance(counted, exp.Column) else ""
        unit = self.context.unit
        if unit is not None and name.casefold() == unit.casefold():
            if self.context.unit_rows == 1:
                return self.counted(keep)  # one row for each unit
            return self._units(keep)
        self.source.refuse(
            node,
            "count(DISTINCT ...) of anything but the privacy unit is",
            f"GROUP BY {name or 'the column'} with count(*), and count the groups you see",
        )

    def _units(self, keep: LinearQuery) -> Any:
        """Privacy units with a row that is kept; a unit is counted once in every group that it enters."""

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            return Output(title, "count", measure=Measure(UnitCounts(self.schema, axes, keep), 1.0, False))

        return self.number(("units", keep.key), "count", make, keep)

    # sums, averages and moments

    def condition(self, node: Any) -> Any:
        """A condition on rows."""
        self.source.scalar(node)
        return self.reader.condition(node)

    def pieces(self, node: Any) -> list[Piece]:
        """A number for every row: a column, a truth value, a CASE, or an expression on levels."""
        node = node.unnest()
        while isinstance(node, exp.Cast) and isinstance(node.this.unnest(), (*_CONDITIONS, exp.Case)):
            node = node.this.unnest()
        if isinstance(node, _CONDITIONS):
            condition = self.condition(node)
            holds, fails = where(self.schema, condition), where(self.schema, ~condition)
            truths = ((holds, 1.0), (fails, 0.0), (~holds & ~fails, np.nan))  # a condition may be NULL
            return self._branches([(rows, [Piece(None, (), np.array(value))]) for rows, value in truths])
        node = searched(node)
        if isinstance(node, exp.Case):
            left, found = LinearQuery.constant(self.schema), []
            for branch in node.args["ifs"]:
                holds = where(self.schema, self.condition(branch.this))
                found.append((left & holds, self.pieces(branch.args["true"])))
                left = left & ~holds
            default = node.args.get("default") or exp.Null()
            found.append((left, self.pieces(default)))
            return self._branches(found)
        if is_literal(node):
            value = literal_value(node)
            if value is not None and not isinstance(value, int | float):
                self.source.refuse(node, "a text in a sum is", "add numbers")
            return [Piece(None, (), np.array(np.nan if value is None else float(value)))]
        return [self._expression(node)]

    def _branches(self, found: list[tuple[LinearQuery, list[Piece]]]) -> list[Piece]:
        whole = []
        for keep, pieces in found:
            if keep.bounds[1] > 0:
                whole += [replace(p, keep=keep if p.keep is None else keep & p.keep) for p in pieces]
        return whole

    def _expression(self, node: Any) -> Piece:
        self.source.scalar(node)
        if isinstance(node, exp.Column):
            name = self.reader.column(node)
            column = self.schema[name]
            if column.size > ADDED:
                raise QueryError(
                    f"column {name!r} has {column.size:,} levels, more than the {ADDED:,} whose numbers add up",
                    advice="declare wider bins: a sum of a column with bins adds up the values themselves",
                )
            if column.midpoints is None:
                raise QueryError(
                    f"column {name!r} ({column.kind}) has no numbers to add", advice=f"use count(*) and GROUP BY {name}"
                )
            values = np.append(column.midpoints, np.nan) if column.nullable else column.midpoints
            return Piece(None, (name,), np.asarray(values, dtype=np.float64), weights.Hidden.by(column), plain=True)
        resolved = self.reader.resolved(node)
        if (found_ends := on_ends(self.schema, resolved)) is not None:
            names, least, largest = found_ends
            return Piece(None, names, (least + largest) / 2, weights.Hidden.between(least, largest))
        names, found = on_levels(self.schema, resolved, middle=True)
        refuse_nan(found)
        flat = [np.nan if value is None else value for value in found.reshape(-1)]
        if not all(isinstance(value, bool | int | float) for value in flat):
            self.source.refuse(node, "a sum of anything but numbers is", "add numbers")
        numbers = np.array(flat, dtype=np.float64).reshape(found.shape)
        if np.isinf(numbers).any():
            raise QueryError("the expression is infinite on some level", advice="divide by nullif(x, 0)")
        return Piece(None, names, numbers)

    def _sum(self, node: Any, keep: LinearQuery) -> Any:
        inner = searched(node.this)
        if isinstance(inner, exp.Distinct):
            self.source.refuse(node, f"{self.source.named(node)} of DISTINCT values is", "leave DISTINCT out")
        if (found := branches.valued(self, node, inner, keep)) is not None:
            return found
        by_branches = branches.added_up if isinstance(node, exp.Sum) else branches.averaged
        if (found := by_branches(self, inner, keep)) is not None:
            return found
        pieces = self.pieces(inner)
        added = self.whole if isinstance(node, exp.Sum) else self.mean
        if weights.hides(pieces) and weights.valued(self.schema, pieces, keep) is None:
            return call("mq_between", *(added(ends, keep) for ends in weights.ends(pieces)))
        return added(pieces, keep)

    def whole(self, pieces: list[Piece], keep: LinearQuery) -> Any:
        """A sum, of a column's own values where they are kept."""
        return self._summed(pieces, keep, own=True)

    def _identity(self, pieces: list[Piece], keep: LinearQuery) -> Any:
        parts = tuple(
            (
                p.keep.key if p.keep else "",
                p.columns,
                p.values.tobytes(),
                p.hidden and p.hidden.variances.tobytes(),
                p.plain,
            )
            for p in pieces
        )
        return (keep.key, parts)

    def _summed(self, pieces: list[Piece], keep: LinearQuery, centre: float = 0.0, *, own: bool = False) -> Any:
        """A sum; `own`: of a column's own values, where they are kept. Moments need the numbers that they square."""

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            measure = weights.total(self.schema, pieces, axes, keep, centre)
            return Output(title, "sum", measure=measure if own else replace(measure, values=None))

        identity = ("sum", self._identity(pieces, keep), centre, own)
        return self.number(identity, "sum", make, (pieces, keep, centre, 1))

    def _squared(self, pieces: list[Piece], keep: LinearQuery, centre: float, scale: Scale | None) -> Any:
        """A sum of squares; with a scale, of a column's own values where it has any."""

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            measure = weights.total(self.schema, pieces, axes, keep, centre, 2)
            values = multiplied(self.schema, [scale] * 2, axes, keep)
            return Output(title, "sum", measure=replace(measure, values=values))

        identity = ("squares", self._identity(pieces, keep), centre, scale)
        return self.number(identity, "sum", make, (pieces, keep, centre, 2))

    def _scales(self, keep: LinearQuery, *arguments: tuple[list[Piece], float]) -> list[Scale | None]:
        """How columns are multiplied by their values, from their centres; None for each if they are by their levels."""
        scales = [scale_of(self.schema, pieces, centre) for pieces, centre in arguments]
        valued = any(scale is not None and isinstance(scale.factor, ValueSteps) for scale in scales)
        own = self.context.values and keep.is_predicate and valued and None not in scales
        return scales if own else [None] * len(scales)

    def rows(self, keep: LinearQuery, *arguments: list[Piece]) -> LinearQuery:
        """The rows on which these arguments are not NULL."""
        for pieces in arguments:
            known = weights.known_rows(self.schema, pieces)
            keep = keep if known is None else keep & known
        return keep

    def mean(self, pieces: list[Piece], keep: LinearQuery) -> Any:
        """An average, from the middle of the range of a plain column; 0 or 1 are averaged from 0."""
        low, high = weights.extent(pieces)
        centre = 0.0 if low == 0.0 and not (len(pieces) == 1 and pieces[0].keep is None) else (low + high) / 2
        counted = self.rows(keep, pieces)

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            measure = weights.total(self.schema, pieces, axes, keep, centre)
            return Output(title, "avg", measure=measure, per=Marginal(self.schema, axes, counted))

        return self.number(("avg", self._identity(pieces, keep)), "avg", make)

    def _centred(self, pieces: list[Piece]) -> float:
        low, high = weights.extent(pieces)
        return (low + high) / 2

    def _spread(self, node: Any, keep: LinearQuery) -> Any:
        name, sample = _SPREAD[type(node)]
        scaled = affine(node.this)
        if scaled is not None and _moves(scaled):
            factor = abs(scaled.factor) if name == "mq_deviation" else scaled.factor**2
            return exp.Mul(this=exp.convert(factor), expression=self._spread(type(node)(this=scaled.column), keep))
        pieces = self.pieces(node.this)
        counted, centre = self.rows(keep, pieces), self._centred(pieces)
        (scale,) = self._scales(counted, (pieces, centre))
        parts = [
            self.counted(counted),
            self._summed(pieces, counted, centre, own=scale is not None),
            self._squared(pieces, counted, centre, scale),
        ]
        reach, *hidden = _known(pieces, scale)
        return call(name, *parts, reach, float(sample), *hidden)

    def _pair(self, node: Any, keep: LinearQuery) -> Any:
        scaled = [affine(argument) for argument in (node.this, node.expression)]
        if (factor := math.prod(found.factor for found in scaled if found)) and any(map(_moves, scaled)):
            factor = math.copysign(1.0, factor) if isinstance(node, exp.Corr) else factor
            one, two = (
                found.column if found else given
                for found, given in zip(scaled, (node.this, node.expression), strict=True)
            )
            return exp.Mul(this=exp.convert(factor), expression=self._pair(type(node)(this=one, expression=two), keep))
        first, second = (self._plain(argument) for argument in (node.this, node.expression))
        counted = self.rows(keep, [first], [second])
        one, two = self._centred([first]), self._centred([second])
        scales = self._scales(counted, ([first], one), ([second], two))
        own = None not in scales

        def make(title: str, axes: tuple[Axis, ...]) -> Output:
            measure = weights.product(self.schema, first, second, axes, counted, (one, two))
            values = multiplied(self.schema, scales, axes, counted)
            return Output(title, "sum", measure=replace(measure, values=values))

        identity = ("product", self._identity([first], counted), self._identity([second], counted), own)
        parts = [
            self.counted(counted),
            self._summed([first], counted, one, own=own),
            self._summed([second], counted, two, own=own),
            self.number(identity, "sum", make),
        ]
        (a, *hidden), (b, *others) = _known([first], scales[0]), _known([second], scales[1])
        if isinstance(node, exp.Corr):
            parts.append(self._squared([first], counted, one, scales[0]))
            parts.append(self._squared([second], counted, two, scales[1]))
            return call("mq_correlation", *parts, a, b, *hidden, *others)
        sample = float(isinstance(node, exp.CovarSamp))
        return call("mq_covariance", *parts, a, b, sample, *hidden, *others)

    def _plain(self, node: Any) -> Piece:
        (piece, *more) = self.pieces(node)
        if more or piece.keep is not None:
            self.source.refuse(node, "a CASE in covar or corr is", "use columns, or expressions on one column")
        return piece


def _moves(found: Affine | None) -> bool:
    """Whether an expression is a column that is multiplied or moved."""
    return found is not None and (found.factor, found.offset) != (1, 0)


def _known(pieces: list[Piece], scale: Scale | None) -> tuple[float, float, float, float]:
    """What formulas of moments know of an argument.

    How far its numbers reach from the centre, how far a value may lie from the number that is multiplied, the largest
    variance that was added for that, and how far its sum over n rows may be off that of these numbers, by n.
    """
    if scale is None:
        return weights.reach(pieces), *weights.hidden(pieces), 0.0
    return scale.reach, scale.hidden, 0.0, scale.hidden


__all__ = ["Aggregates", "is_aggregate", "named"]
