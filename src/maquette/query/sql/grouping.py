"""Grouping: GROUP BY, ROLLUP, CUBE and GROUPING SETS as keys and the sets of keys by which to group."""

from __future__ import annotations

import itertools
from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import located
from maquette.query.marginal import Axis
from maquette.query.sql.aggregates import is_aggregate
from maquette.query.sql.axes import axis_of
from maquette.query.sql.parser import title_of
from maquette.query.sql.rows import rowwise
from maquette.query.sql.work import View, Work

Items = list[tuple[Any, str]]  # the select list: expressions and titles


class Grouping:
    """The keys of one SELECT, and the sets of them (as positions) by which it groups."""

    def __init__(self, work: Work, tree: Any, items: Items, scope: View) -> None:
        self.work, self.items, self.scope = work, items, scope
        self.keys: list[Any] = []
        self.texts: list[str] = []  # of the keys
        self.sets = [list(dict.fromkeys(one)) for one in self._sets(tree)]

    def _sets(self, tree: Any) -> list[list[int]]:
        group = tree.args.get("group")
        if group is None:
            plain = not any(is_aggregate(n) for i, _ in self.items for n in i.walk())
            if tree.args.get("distinct") is not None and plain:
                return [[self._position(inner) for inner, _ in self.items]]
            return [[]]
        if group.args.get("all"):
            if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
                self.work.source.refuse(tree, "GROUP BY ALL with ROLLUP or CUBE is", "write GROUP BY ROLLUP (a, b)")
            every = [inner for inner, _ in self.items if not any(is_aggregate(n) for n in inner.walk())]
            return [[self._position(inner) for inner in every]]
        entries = [group.expressions, *(group.args.get(part) or () for part in ("rollup", "cube", "grouping_sets"))]
        sets: list[list[int]] = [[]]
        for node in itertools.chain.from_iterable(entries):
            chosen = self._chosen(node, sets)
            self.work.limited(node, len(sets) * len(chosen))
            sets = [[*one, *other] for one in sets for other in chosen]
        return sets

    def _chosen(self, node: Any, before: list[list[int]]) -> list[list[int]]:
        """The sets of one entry."""
        if not isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            position = self._position(node)
            if position in before[0]:
                with located(self.work.reader.at(node)):
                    raise QueryError(f"GROUP BY names {title_of(node)} twice", advice="name it once")
            return [[position]]
        if not node.expressions:
            self.work.source.refuse(node, "ROLLUP or CUBE of nothing is", "write GROUP BY ROLLUP (a, b)")
        parts = [[self._position(n) for n in _listed(e)] for e in node.expressions]
        if isinstance(node, exp.GroupingSets):
            return parts
        if len({i for part in parts for i in part}) < sum(map(len, parts)):
            with located(self.work.reader.at(node)):
                raise QueryError("ROLLUP or CUBE names an entry twice", advice="name it once")
        if isinstance(node, exp.Rollup):
            return [[i for part in parts[:length] for i in part] for length in range(len(parts), -1, -1)]
        self.work.limited(node, 2 ** len(parts))
        subsets = (itertools.combinations(parts, size) for size in range(len(parts), -1, -1))
        return [[i for part in subset for i in part] for subset in itertools.chain.from_iterable(subsets)]

    def _position(self, node: Any) -> int:
        resolved = self._key(node)
        text = resolved.sql(dialect="duckdb")
        if text in self.texts:
            return self.texts.index(text)
        if not list(resolved.find_all(exp.Column)):
            self.work.source.refuse(
                node, "grouping by a constant is", "group by a column, a CASE or an expression on columns"
            )
        self.keys.append(resolved)
        self.texts.append(text)
        return len(self.keys) - 1

    def _key(self, node: Any) -> Any:
        """An entry of GROUP BY: a number or a title points at the select list, anything else is an expression."""
        node, items, source = node.unnest(), self.items, self.work.source
        if isinstance(node, exp.Literal) and not node.is_string:
            if not str(node.this).isdecimal() or not 1 <= int(node.this) <= len(items):
                source.refuse(node, f"GROUP BY {node.this} is", f"the select list has items 1 to {len(items)}")
            node = items[int(node.this) - 1][0].unnest()
        elif isinstance(node, exp.Column) and not node.table and no_column(self.work, node, self.scope):
            titles = [title.casefold() for _, title in items]
            if node.name.casefold() in titles:
                node = items[titles.index(node.name.casefold())][0].unnest()
        bad = next((part for part in node.walk() if is_aggregate(part)), None)
        if bad is not None:
            with located(self.work.reader.at(node)):
                raise QueryError(
                    f"GROUP BY points at {title_of(node)}", advice="group by columns or a CASE, not by an aggregate"
                )
        source.scalar(node)
        return rowwise(self.work, node, self.scope)

    def same_case(self, node: Any) -> int | None:
        """The key that means the same as a CASE written in other words."""
        cases = [i for i, key in enumerate(self.keys) if isinstance(key.unnest(), exp.Case)]
        if not cases:
            return None
        schema, reader = self.work.schema, self.work.reader
        wanted = axis_of(schema, reader, rowwise(self.work, node, self.scope), "case")
        for i in cases:
            axis = axis_of(schema, reader, self.keys[i], "case")
            if isinstance(axis, str) or isinstance(wanted, str):
                continue
            if axis.labels == wanted.labels and axis.parts == wanted.parts:
                return i
        return None

    def axes(self, titles: dict[str, str]) -> list[Axis]:
        """The axes of the keys; `titles` are those of the select list, by text."""
        axes: list[Axis] = []
        for key, text in zip(self.keys, self.texts, strict=True):
            title = titles[text] if text in titles else title_of(key)
            while any(title == (a if isinstance(a, str) else a.name) for a in axes) or (
                title in self.work.schema and not isinstance(key, exp.Column)
            ):
                title += "'"
            axes.append(axis_of(self.work.schema, self.work.reader, key, title))
        return axes


def no_column(work: Work, node: Any, scope: View) -> bool:
    """Whether a name without a table before it is no column of a view, so that it may be a title."""
    if work.context.unit is not None and node.name.casefold() == work.context.unit.casefold():
        return False
    if scope.columns is not None:
        return node.name.casefold() not in scope.columns
    public = {name.casefold() for table, _ in scope.public.values() for name in table.names}
    return work.reader.match(node.this) is None and node.name.casefold() not in public


def _listed(node: Any) -> list[Any]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.unnest()]
