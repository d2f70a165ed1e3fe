"""Body: the select list, HAVING, QUALIFY, ORDER BY, LIMIT and DISTINCT of one SELECT, over a relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.sql import program as p, windows
from maquette.query.sql.aggregates import is_aggregate
from maquette.query.sql.axes import literal_value
from maquette.query.sql.grouping import Items
from maquette.query.sql.parser import is_literal
from maquette.query.sql.work import Found, Names, Work, column

Leaf = Callable[[Any], Any | None]


class Body:
    """What is computed from the relation of one SELECT: read first, then finished."""

    def __init__(self, work: Work, tree: Any, names: Names, items: Items) -> None:
        self.work, self.tree, self.names, self.items = work, tree, names, items
        self.distinct = tree.args.get("distinct") not in (None, False) and not isinstance(tree, exp.Union)
        self.columns: list[tuple[str, Any]] = []
        self.windows: list[windows.Described] = []
        self.subqueries: list[tuple[str, p.Answers, str]] = []
        self.having: Any = None
        self.qualify: Any = None
        self.keys: list[tuple[Any, bool, bool]] = []

    def read(self, leaf: Leaf) -> None:
        """Read every expression; `leaf` says what an aggregate, a group or a column is in the relation."""
        self.leaf = leaf
        self.columns = [(self.work.fresh(), self._rewritten(inner)) for inner, _ in self.items]
        having, qualify = self.tree.args.get("having"), self.tree.args.get("qualify")
        if having is not None:
            self.having = self._aliased(having.this, alone=False)
        if qualify is not None:
            self.qualify = self._aliased(qualify.this, alone=False)
        order = self.tree.args.get("order")
        for key in order.expressions if order is not None else ():
            every = isinstance(key.this, exp.Var) and key.this.name.upper() == "ALL"
            sorted_by = [made.copy() for _, made in self.columns] if every else [self._aliased(key.this)]
            falling, first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
            self.keys += [(one, falling, first) for one in sorted_by]

    def _aliased(self, node: Any, *, alone: bool = True) -> Any:
        """An expression that may use titles or positions of the select list.

        A group's column goes before a title, except where the title is all of an entry of ORDER BY (`alone`).
        """
        titles = {title.casefold(): i for i, (_, title) in enumerate(self.items)}
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
            place, most = int(node.this), len(self.items)
            if not 1 <= place <= most:
                self.work.source.refuse(node, f"ORDER BY {place} is", f"the select list has items 1 to {most}")
            return self.columns[place - 1][1].copy()
        if alone and isinstance(node, exp.Column) and not node.table and node.name.casefold() in titles:
            return self.columns[titles[node.name.casefold()]][1].copy()
        holder = exp.Paren(this=node.copy())
        for part in list(holder.find_all(exp.Column)):
            if part.name.casefold() in titles and not (part.table or _inside_aggregate(part) or self._grouped(part)):
                inner = self.items[titles[part.name.casefold()]][0]
                if not (isinstance(inner, exp.Column) and inner.name.casefold() == part.name.casefold()):
                    part.replace(exp.Paren(this=inner.copy()))
        return self._rewritten(holder.this)

    def _grouped(self, node: Any) -> bool:
        """Whether a name is a column of the relation."""
        try:
            return self.leaf(node) is not None
        except QueryError:
            return False

    def _rewritten(self, node: Any) -> Any:
        """An expression over the relation: windows and subqueries become columns of their own."""
        if isinstance(node, exp.Window):
            self.windows.append(windows.described(self.work, node, self._rewritten))
            return column(self.windows[-1][0])
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        if not (isinstance(node, exp.Column) and str(node.name).startswith("\0")):
            found = self.leaf(node)
            if found is not None:
                return found
        copy = node.copy()
        holder = exp.Paren(this=copy)
        for key, value in list(copy.args.items()):
            if isinstance(value, exp.Expression):
                copy.set(key, self._rewritten(value))
            elif isinstance(value, list):
                copy.set(key, [self._rewritten(v) if isinstance(v, exp.Expression) else v for v in value])
        return holder.this

    def _subquery(self, node: Any) -> Any:
        relation, columns = self.work.query(node.this, self.names)
        if len(columns) != 1:
            self.work.source.refuse(node, "a subquery of several columns here is", "select one number")
        name = self.work.fresh()
        self.subqueries.append((name, relation, columns[0][0]))
        self.work.mark(name, column(columns[0][0]))
        self.work.together = True
        return column(name)

    def finish(self, relation: p.Answers) -> Found:
        """The relation of the whole SELECT, and its columns."""
        relation = self._before(relation)
        extended: list[tuple[str, Any]] = []
        picked = []
        for (name, expression), (_, title) in zip(self.columns, self.items, strict=True):
            old = self._computed(expression, extended)
            self.work.mark(name, expression)
            picked.append((name, old, title))
        keys = [p.Key(self._computed(expression, extended), falling, first) for expression, falling, first in self.keys]
        if extended:
            relation = p.Extend(relation, tuple(extended))
        if self.distinct:
            return self._distinct(relation, picked, keys)
        relation = self._limited(self._sorted(relation, keys))
        relation = p.Pick(relation, tuple((name, old) for name, old, _ in picked))
        return relation, [(name, title) for name, _, title in picked]

    def _before(self, relation: p.Answers) -> p.Answers:
        """Subqueries, HAVING, windows and QUALIFY, in this order."""
        for name, other, value in self.subqueries:
            relation = p.Attach(relation, name, other, value)
        if self.having is not None:
            relation = self.work.filtered(relation, self.having)
        for name, window, computed in self.windows:
            if computed:
                relation = p.Extend(relation, tuple(computed))
            relation = p.Windowed(relation, name, tuple(sorted(window.items())))
        if self.qualify is not None:
            relation = self.work.filtered(relation, self.qualify)
        return relation

    def _computed(self, expression: Any, extended: list[tuple[str, Any]]) -> str:
        """The column of an expression; one that is not a column yet is added to `extended`."""
        self.work.checked(expression)
        if isinstance(expression, exp.Column):
            return str(expression.name)
        name = self.work.fresh()
        extended.append((name, expression))
        self.work.mark(name, expression)
        return name

    def _distinct(self, relation: p.Answers, picked: list[tuple[str, str, str]], keys: list[p.Key]) -> Found:
        self.work.together |= any(old in self.work.uses for _, old, _ in picked)
        renamed = {old: name for name, old, _ in picked}
        relation = p.Pick(relation, tuple((name, old) for name, old, _ in picked), distinct=True)
        if any(key.column not in renamed for key in keys):
            self.work.source.refuse(self.tree, "ORDER BY a column that SELECT DISTINCT leaves out is", "select it too")
        keys = [p.Key(renamed[key.column], key.descending, key.nulls_first) for key in keys]
        return self._limited(self._sorted(relation, keys)), [(name, title) for name, _, title in picked]

    def _sorted(self, relation: p.Answers, keys: list[p.Key]) -> p.Answers:
        if not keys:
            return relation
        self.work.together |= any(key.column in self.work.uses for key in keys)
        return p.Sort(relation, tuple(keys))

    def _limited(self, relation: p.Answers) -> p.Answers:
        count, offset = self._whole("limit"), self._whole("offset")
        return relation if count is None and not offset else p.Limit(relation, count, offset or 0)

    def _whole(self, part: str) -> int | None:
        """The number after LIMIT or OFFSET."""
        node = self.tree.args.get(part)
        if node is None:
            return None
        inner = node.args.get("expression") or node.args.get("count")
        if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
            return None
        value = literal_value(inner) if inner is not None and is_literal(inner) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.work.source.refuse(node, f"{part.upper()} with anything but a number is", f"write {part.upper()} 10")
        return value


def _inside_aggregate(node: Any) -> bool:
    while node is not None:
        if is_aggregate(node):
            return True
        node = node.parent
    return False
