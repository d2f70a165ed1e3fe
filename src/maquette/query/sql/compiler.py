"""Compiler: one SELECT as measured statements and a program of free post-processing over their answers.

A SELECT about the private table becomes one statement for each grouping set, with the aggregates it needs; everything
else (HAVING, ORDER BY, LIMIT, DISTINCT, arithmetic, windows, CTEs, subqueries in FROM, UNION ALL, joins of answered
groups) becomes relations over them. Where nothing is left to compute, the statement alone is the result.

| file | what it compiles |
|---|---|
| tables | FROM, WITH and JOIN |
| rows | expressions on rows: WHERE, and columns of subqueries and lookups |
| grouping | GROUP BY, ROLLUP, CUBE, GROUPING SETS |
| aggregates | count, sum, avg, moments, quantiles |
| private | a SELECT about rows, from these |
| answered | a SELECT about answered groups, and UNION |
| body, windows | the select list, HAVING, QUALIFY, ORDER BY, LIMIT, DISTINCT, OVER |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.sql import program as p
from maquette.query.sql.answered import framed, union
from maquette.query.sql.context import NOTHING, Context
from maquette.query.sql.grammar import Source
from maquette.query.sql.lists import write_lists
from maquette.query.sql.private import private
from maquette.query.sql.statement import Output, Statement
from maquette.query.sql.tables import named_queries, source_of
from maquette.query.sql.work import Columns, Found, Names, View, Work
from maquette.schema import Schema

_AFTER = ("having", "order", "limit", "offset", "distinct", "qualify", "with_")  # parts that are computed afterwards
_PARTS = {"expressions", "from_", "joins", "where", "group", *_AFTER}


def compiled(schema: Schema, text: str, context: Context = NOTHING) -> Statement | p.Program:
    """Read one SELECT against a schema; anything outside the grammar is refused with its place in the text."""
    source = Source(text, statement=True, names=schema.names)
    with source.explained():
        try:
            return Compiler(schema, source, context).whole()
        except (AttributeError, TypeError, ValueError, KeyError, IndexError, RecursionError):
            # A damaged text can give a tree that no statement has; nothing was charged, and its own error says nothing.
            raise QueryError("cannot be read", expected=source.expected, line=1, column=1) from None


class Compiler:
    """Compiles one text."""

    def __init__(self, schema: Schema, source: Source, context: Context) -> None:
        self.schema, self.source = schema, source
        for node in source.tree.find_all(exp.Anonymous):
            if str(node.this).lower().startswith("mq_"):
                source.refuse(node, f"the function {str(node.this)[:30]} is")
        self.work = Work(schema, source, context)
        self.work.query = self.query

    def whole(self) -> Statement | p.Program:
        """The whole text."""
        tree = self.source.tree
        write_lists(self.work, tree)
        if self.source.top is not None:
            tree = tree.limit(self.source.top)
        simple = self._simple(tree)
        if simple is not None:
            return simple
        self.work.forget()
        relation, columns = self.query(tree, {})
        titles = [title for _, title in columns]
        repeated = sorted({title for title in titles if titles.count(title) > 1})
        if repeated:
            raise QueryError(
                f"two columns of the answer would be called {', '.join(repeated)}", advice="name them apart with AS"
            )
        each = max((len(self.work.uses.get(name, ())) for name, _ in columns), default=1)
        work = self.work
        measured, shown = tuple(work.statements), tuple(columns)
        return p.Program(self.schema, self.source.text, work.table, measured, relation, shown, work.together, each)

    def query(self, tree: Any, names: Names) -> Found:
        """A SELECT, or a UNION of them."""
        tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        names = {**names, **named_queries(self.work, tree, names)}
        if isinstance(tree, exp.Union) and not isinstance(tree, exp.Except | exp.Intersect):
            return union(self.work, tree, names)
        if not isinstance(tree, exp.Select):
            self.source.refuse(tree, f"{type(tree).__name__.upper()} is")
        self._check_parts(tree)
        scope = source_of(self.work, tree, names)
        if isinstance(scope, View):
            return private(self.work, tree, scope, names)
        return framed(self.work, tree, scope, names)

    def _check_parts(self, tree: Any) -> None:
        chosen = tree.args.get("distinct")
        if chosen is not None and chosen.args.get("on") is not None:
            self.source.refuse(chosen, "DISTINCT ON is", "use QUALIFY row_number() OVER (...) = 1")
        for part, value in tree.args.items():
            if part not in _PARTS and value not in (None, False, [], ()):
                self.source.refuse(tree, f"{part.strip('_').replace('_', ' ').upper()} is")

    def _simple(self, tree: Any) -> Statement | None:
        """A SELECT whose items are its groups and plain aggregates, with nothing left to compute."""
        if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _AFTER):
            return None
        relation, columns = self.query(tree, {})
        if not isinstance(relation, p.Pick) or not isinstance(relation.child, p.Core) or len(self.work.statements) != 1:
            return None
        return self._alone(relation, relation.child, columns)

    def _alone(self, picked: p.Pick, core: p.Core, columns: Columns) -> Statement | None:
        """The statement with the titles of the select list, if every measured number is selected as it is."""
        statement = self.work.statements[0]
        measured = {output.title: output for output in statement.outputs}
        outputs, used = [], set()
        for new, old in picked.columns:
            title = dict(columns)[new]
            if old in core.groups:
                outputs.append(Output(title, "group", axis=core.groups.index(old)))
            elif old in measured:
                used.add(old)
                outputs.append(Output(title, measured[old].kind, measure=measured[old].measure, per=measured[old].per))
            else:
                return None
        titles = {output.title for output in outputs}
        axes = [output.axis for output in outputs if output.kind == "group"]
        if len(set(axes)) < len(axes):  # a group that is shown twice
            return None
        if len(used) < len(measured) or not used or len(titles) < len(outputs):
            return None
        return replace(statement, outputs=tuple(outputs))
