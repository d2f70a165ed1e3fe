"""Private: a SELECT about the private table, as one measured statement for each grouping set.

Aggregates become formulas over measured numbers, keys become axes; what is left of the select list, HAVING and ORDER BY
is computed from the answers.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from sqlglot import exp

from maquette.query.linear import LinearQuery
from maquette.query.sql import program as p
from maquette.query.sql.aggregates import Aggregates, is_aggregate
from maquette.query.sql.body import Body
from maquette.query.sql.grouping import Grouping, no_column
from maquette.query.sql.rows import item, kept, lateral, not_grouped, private_column, row_text, rowwise, spelled
from maquette.query.sql.statement import Statement
from maquette.query.sql.work import ROWS, Found, Names, View, Work, column


def private(work: Work, tree: Any, scope: View, names: Names) -> Found:
    """The relation of a SELECT about rows, and its columns."""
    known = lambda node: not no_column(work, node, scope)  # noqa: E731
    items = lateral(work, [item(work, node, scope) for node in tree.expressions], known)
    of_groups = {title.casefold() for inner, title in items if any(map(is_aggregate, inner.walk()))}
    where, plain = tree.args.get("where"), [item for item in items if not any(map(is_aggregate, item[0].walk()))]
    for part in () if where is None else where.find_all(exp.Column):
        if not part.table and part.name.casefold() in of_groups and no_column(work, part, scope):
            work.source.refuse(part, f"{part.name}, which is computed from groups, in WHERE is", "put it after HAVING")
    keep = kept(work, None if where is None else spelled(work, where.this, plain, known), scope)
    work.limited(tree, 1)
    grouping = Grouping(work, tree, items, scope)
    found = Aggregates(work.schema, work.reader, work.source, work.context, keep, work.fresh)
    parts = tree.walk(prune=lambda part: isinstance(part, exp.From | exp.Join | exp.Where | exp.Subquery))
    rows_only = not grouping.keys and not any(map(is_aggregate, parts))
    leaves = _Leaves(work, scope, grouping, found, rows_only)
    body = Body(work, tree, names, items)
    body.read(leaves.read)
    if not grouping.keys and not found.makers and not body.distinct:
        work.source.refuse(tree, "a list of rows is", ROWS)
    titles = {row_text(work, inner, scope): title for inner, title in reversed(items)}
    return body.finish(_measured(work, leaves, titles, keep.outer or keep.inner))


class _Leaves:
    """What the parts of an expression are in the measured table: keys, markers of grouping sets, and aggregates."""

    def __init__(self, work: Work, scope: View, grouping: Grouping, found: Aggregates, rows_only: bool) -> None:
        self.work, self.scope, self.grouping, self.found = work, scope, grouping, found
        self.names = [work.fresh() for _ in grouping.keys]
        self.markers = [work.fresh() for _ in grouping.keys]  # 1 where a key is not in the grouping set
        self.texts = grouping.texts
        self.rows_only = rows_only  # neither groups nor numbers of them

    def read(self, node: Any) -> Any | None:
        """The column of a part, or None if its own parts are to be read."""
        if isinstance(node, exp.Grouping):
            return self._marked(node.expressions or [node.this])
        if is_aggregate(node):
            return self._aggregate(node)
        if isinstance(node, exp.Literal | exp.Window | exp.Subquery):
            return None
        if not isinstance(node, exp.Column) and any(map(is_aggregate, node.walk())):
            return None
        if isinstance(node, exp.Anonymous):
            self.work.source.scalar(node)  # a function that is unknown is told before its columns are
        if list(node.find_all(exp.Column)) and not list(node.find_all(exp.Window)):
            text = self._text(node)
            if not text:
                return None
            if text in self.texts:
                return column(self.names[self.texts.index(text)])
            if isinstance(node, exp.Case) and (same := self.grouping.same_case(node)) is not None:
                return column(self.names[same])
        if isinstance(node, exp.Column):
            private_column(self.work, node, self.scope)
            if self.rows_only:
                self.work.source.refuse(node, "a list of rows is", ROWS)
            not_grouped(self.work, node)
        return None

    def _marked(self, listed: list[Any]) -> Any:
        """GROUPING of some keys: a binary number with a digit for each, 1 where the grouping set leaves it out."""
        digits = []
        for node in listed:
            text = self._text(node.unnest())
            if text not in self.texts:
                self.work.source.refuse(node, "GROUPING of anything but an entry of GROUP BY is", "name such an entry")
            digits.append(column(self.markers[self.texts.index(text)]))
        doubled = lambda a, b: exp.Add(this=exp.Mul(this=exp.convert(2), expression=a), expression=b)  # noqa: E731
        return exp.Paren(this=reduce(doubled, digits)) if len(digits) > 1 else digits[0]

    def _text(self, node: Any) -> str:
        if isinstance(node, exp.Column):
            return str(rowwise(self.work, node, self.scope).sql(dialect="duckdb"))
        return row_text(self.work, node, self.scope)

    def _aggregate(self, node: Any) -> Any:
        inner = node.copy()
        for part in list(inner.find_all(exp.Column)):
            if not self._is_unit(part):
                part.replace(private_column(self.work, part, self.scope))
        formula = self.found.formula(inner)
        for name in self.found.makers:
            self.work.uses.setdefault(name, frozenset([name]))
        return formula

    def _is_unit(self, node: Any) -> bool:
        unit = self.work.context.unit
        return (
            unit is not None
            and node.name.casefold() == unit.casefold()
            and node.find_ancestor(exp.Distinct) is not None
        )


def _measured(work: Work, leaves: _Leaves, titles: dict[str, str], keep: LinearQuery) -> p.Answers:
    """One statement for each grouping set."""
    axes, makers, relations = leaves.grouping.axes(titles), leaves.found.makers, []
    for chosen in leaves.grouping.sets:
        ours = tuple(axes[i] for i in chosen)
        outputs = tuple(make(name, ours) for name, make in makers.items())
        work.statements.append(Statement(work.schema, work.source.text, work.table, ours, outputs, keep))
        missing = [(name, None) for i, name in enumerate(leaves.names) if i not in chosen]
        marked = [(marker, int(i not in chosen)) for i, marker in enumerate(leaves.markers)]
        groups = tuple(leaves.names[i] for i in chosen)
        numbers = tuple((name, name) for name in makers)
        relations.append(p.Core(len(work.statements) - 1, groups, numbers, (*missing, *marked)))
    if len(relations) == 1:
        return relations[0]
    every = (*leaves.names, *leaves.markers, *makers)
    return p.Stack(tuple(relations), tuple(every for _ in relations), every)
