"""Answered: a SELECT about groups that were answered already, and UNION of them. Nothing here touches rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from maquette.query.sql import program as p
from maquette.query.sql.aggregates import is_aggregate
from maquette.query.sql.body import Body
from maquette.query.sql.grouping import Items
from maquette.query.sql.rows import item, lateral, not_grouped
from maquette.query.sql.tables import named
from maquette.query.sql.work import Found, Frame, Names, Work, column

FUNCTIONS = {"count", "sum", "avg", "min", "max"}


def framed(work: Work, tree: Any, scope: Frame, names: Names) -> Found:
    """The relation of a SELECT about answered groups, and its columns."""
    relation = scope.relation
    titles = {title.casefold() for _, title, _ in scope.names}
    items = [item(work, node, scope) for node in _expanded(tree, scope)]
    items = lateral(work, items, lambda part: part.name.casefold() in titles)

    def resolve(node: Any) -> Any:
        node = node.copy()
        if isinstance(node, exp.Column):
            return column(named(work, scope, node))
        for part in list(node.find_all(exp.Column)):
            part.replace(column(named(work, scope, part)))
        return node

    if tree.args.get("where") is not None:
        relation, condition = _attached(work, relation, exp.Paren(this=tree.args["where"].this.copy()), names, resolve)
        relation = work.filtered(relation, condition.this)
    body = Body(work, tree, names, items)
    parts = (n for i, _ in items for n in i.walk(prune=lambda node: isinstance(node, exp.Subquery)))
    aggregates = any(is_aggregate(n) and not isinstance(n.parent, exp.Window) for n in parts)
    if tree.args.get("group") is None and not aggregates:
        body.read(_columns_of(work, scope))
        return body.finish(relation)
    totals = _Totals(work, tree, items, resolve)
    body.read(totals.read)
    work.together = True
    return body.finish(totals.over(relation))


def _attached(
    work: Work, relation: p.Answers, condition: Any, names: Names, resolve: Callable[[Any], Any]
) -> tuple[p.Answers, Any]:
    """A condition whose subqueries, each of one number, are columns of the relation."""
    inside = [part for part in condition.walk(prune=lambda n: isinstance(n, exp.Subquery)) if _number_of(part)]
    columns = [part for part in condition.walk(prune=_number_of) if isinstance(part, exp.Column)]
    for part in columns:
        part.replace(resolve(part))
    for part in inside:
        found, shown = work.query(part.this, names)
        if len(shown) != 1:
            work.source.refuse(part, "a subquery of several columns here is", "select one number")
        name = work.fresh()
        relation = p.Attach(relation, name, found, shown[0][0])
        work.mark(name, column(shown[0][0]))
        work.together = True
        part.replace(column(name))
    return relation, condition


def _number_of(node: Any) -> bool:
    """Whether a node is a subquery that stands for one number."""
    return isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In)


def _expanded(tree: Any, scope: Frame) -> list[Any]:
    """The select list with every * written out."""
    expanded: list[Any] = []
    for node in tree.expressions:
        qualified = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        if not isinstance(node, exp.Star) and not qualified:
            expanded.append(node)
            continue
        expanded += [
            exp.alias_(exp.column(title, table=alias or None, quoted=True), title, quoted=True)
            for alias, title, _ in scope.names
            if not qualified or alias == node.table.casefold()
        ]
    return expanded


def _columns_of(work: Work, scope: Frame) -> Callable[[Any], Any | None]:
    def leaf(node: Any) -> Any | None:
        return column(named(work, scope, node)) if isinstance(node, exp.Column) else None

    return leaf


class _Totals:
    """Aggregates of answered groups: their keys, and the numbers of each total."""

    def __init__(self, work: Work, tree: Any, items: Items, resolve: Callable[[Any], Any]) -> None:
        self.work, self.resolve = work, resolve
        self.computed: list[tuple[str, Any]] = []
        self.keys: dict[str, str] = {}  # the name of each key, by its text
        self.numbers: dict[tuple[str, str], tuple[str, str, str | None]] = {}
        group = tree.args.get("group")
        for node in group.expressions if group is not None else ():
            self._key(node, items)

    def _key(self, node: Any, items: Items) -> None:
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and str(inner.this).isdecimal() and 1 <= int(inner.this) <= len(items):
            inner = items[int(inner.this) - 1][0]
        elif isinstance(inner, exp.Column) and inner.name.casefold() in {t.casefold() for _, t in items}:
            inner = next(i for i, title in items if title.casefold() == inner.name.casefold())
        expression = self.resolve(inner)
        if self.work.noisy(expression):
            self.work.source.refuse(node, "grouping by a noisy number is", "group by columns that are public")
        self.work.source.scalar(expression)
        name = self.work.fresh()
        self.computed.append((name, expression))
        self.keys[expression.sql(dialect="duckdb")] = name

    def read(self, node: Any) -> Any | None:
        """The column of a part, or None if its own parts are to be read."""
        if is_aggregate(node):
            return column(self._number(node))
        if isinstance(node, exp.Literal | exp.Window | exp.Subquery):
            return None
        if list(node.find_all(exp.Column)) and not any(map(is_aggregate, node.walk())):
            name = self.keys.get(self.resolve(node).sql(dialect="duckdb"))
            if name is not None:
                return column(name)
            if isinstance(node, exp.Column):
                not_grouped(self.work, node)
        return None

    def _number(self, node: Any) -> str:
        node = _chosen(node)
        function = type(node).__name__.lower()
        if function not in FUNCTIONS or isinstance(node.this, exp.Distinct):
            source = self.work.source
            source.refuse(node, f"{source.named(node)} of answered groups is", "use count, sum, avg, min or max")
        argument = None
        if not isinstance(node.this, exp.Star):
            argument = self.work.fresh()
            self.computed.append((argument, self.work.checked(self.resolve(node.this))))
        text = (function, node.this.sql(dialect="duckdb"))
        if text not in self.numbers:
            name = self.work.fresh()
            self.numbers[text] = name, function, argument
            self.work.uses[name] = frozenset([name])
        return self.numbers[text][0]

    def over(self, relation: p.Answers) -> p.Answers:
        """The totals of a relation."""
        if self.computed:
            relation = p.Extend(relation, tuple(self.computed))
        return p.Total(relation, tuple(self.keys.values()), tuple(self.numbers.values()))


def _chosen(node: Any) -> Any:
    """sum(x) FILTER (WHERE c) as sum(CASE WHEN c THEN x END)."""
    if not isinstance(node, exp.Filter) or type(node.this).__name__.lower() not in FUNCTIONS:
        return node
    inner = exp.Literal.number(1) if isinstance(node.this.this, exp.Star) else node.this.this
    if isinstance(inner, exp.Distinct):
        return node
    case = exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=inner.copy())])
    return type(node.this)(this=case)


def union(work: Work, tree: Any, names: Names) -> Found:
    """The rows of two queries, one after the other."""
    parts = [work.query(side, names) for side in (tree.this, tree.expression)]
    if len({len(columns) for _, columns in parts}) != 1:
        work.source.refuse(tree, "a UNION of different numbers of columns is", "select the same columns in each")
    new = tuple(work.fresh() for _ in parts[0][1])
    for i, name in enumerate(new):
        work.mark(name, *(column(columns[i][0]) for _, columns in parts))
    both = tuple(tuple(name for name, _ in columns) for _, columns in parts)
    relation: p.Answers = p.Stack(tuple(relation for relation, _ in parts), both, new)
    if tree.args.get("distinct"):
        if any(name in work.uses for name in new):
            work.source.refuse(tree, "UNION of noisy numbers is", "write UNION ALL")
        relation = p.Pick(relation, tuple((name, name) for name in new), distinct=True)
    titles = [title for _, title in parts[0][1]]
    frame = Frame(relation, [("", title, name) for title, name in zip(titles, new, strict=True)])
    body = Body(work, tree, names, [(column(title), title) for title in titles])
    body.read(_columns_of(work, frame))
    return body.finish(relation)
