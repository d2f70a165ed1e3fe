"""Rows: expressions on the private table's rows, written over the columns of the schema.

A column of a subquery is replaced by what it stands for, and one of a public table by a CASE on the levels of its key,
so that what is left is a function of declared levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import located
from maquette.query.linear import LinearQuery
from maquette.query.sql.aggregates import is_aggregate
from maquette.query.sql.grammar import MOST_NODES
from maquette.query.sql.keeping import Kept, kept_by
from maquette.query.sql.parser import title_of
from maquette.query.sql.public import PublicTable
from maquette.query.sql.work import ROWS, Frame, View, Work
from maquette.schema import writable


def rowwise(work: Work, node: Any, scope: View) -> Any:
    """An expression on the rows of a view, over the columns of the schema."""
    if isinstance(node, exp.Column):
        return private_column(work, node, scope)
    node = node.copy()
    for column in [c for c in node.find_all(exp.Column) if c is not node]:
        column.replace(private_column(work, column, scope))
    work.source.bounded(node)
    return work.reader.resolved(node) if not list(node.find_all(exp.AggFunc, exp.Window, exp.Subquery)) else node


def private_column(work: Work, node: Any, scope: View) -> Any:
    """What a column of a view stands for."""
    if isinstance(node.this, exp.Star):
        work.source.refuse(node, "* here is", ROWS)
    qualifier = node.table.casefold()
    if qualifier in scope.public:
        return _public_column(work, node, *scope.public[qualifier])
    if qualifier and qualifier not in scope.aliases:
        alone = "use the name or alias of the table in FROM; a subquery does not see the rows around it"
        work.source.refuse(node, f"{node.table} before a column is", alone)
    if scope.columns is not None:
        found = scope.columns.get(node.name.casefold())
        if found is None:
            with located(work.reader.at(node)):
                raise QueryError(f"there is no column {node.name!r}", advice=f"columns are {', '.join(scope.columns)}")
        return exp.Paren(this=found.copy()) if not isinstance(found, exp.Column) else found.copy()
    if work.reader.match(node.this) is None and not qualifier:
        for table, key in scope.public.values():
            if node.name.casefold() in {name.casefold() for name in table.names}:
                return _public_column(work, node, table, key)
    fresh = exp.column(work.reader.column(node), quoted=True)
    fresh.this.meta.update(node.this.meta)
    return fresh


def _public_column(work: Work, node: Any, table: PublicTable, key: Any) -> Any:
    with located(work.reader.at(node)):
        return public_value(table, key, table.column(node.name))


def public_value(table: PublicTable, key: Any, values: Sequence[Any]) -> Any:
    """The value beside each key of a public table, as an expression on the private key; NULL where there is none."""
    keys = table.column(table.key)
    ifs = [exp.If(this=literal_of(one), true=literal_of(value)) for one, value in zip(keys, values, strict=True)]
    return exp.Case(this=key.copy(), ifs=ifs)


def row_text(work: Work, node: Any, scope: View) -> str:
    """An expression on rows as canonical text; empty if it is none."""
    if any(is_aggregate(part) or isinstance(part, exp.Window | exp.Subquery) for part in node.walk()):
        return ""
    try:
        return str(rowwise(work, node.unnest(), scope).sql(dialect="duckdb"))
    except QueryError:
        return ""


def kept(work: Work, condition: Any | None, scope: View) -> Kept:
    """The rows that WHERE keeps, here and in the subqueries of FROM."""
    nodes = [*scope.keep]
    if condition is not None:
        bad = next((node for node in condition.walk() if is_aggregate(node)), None)
        if bad is not None and condition.find(exp.Select) is None:
            work.source.refuse(bad, "an aggregate in WHERE is", "put it after HAVING")
        _check_lists(work, condition)
        work.source.scalar(condition)
        nodes.append(rowwise(work, condition, scope))
    keep = Kept(LinearQuery.constant(work.schema))
    for node in nodes:
        work.source.scalar(node)
        keep &= kept_by(work.schema, work.reader, work.reader.condition(node))
    return keep


def _check_lists(work: Work, condition: Any) -> None:
    """Refuse IN of a subquery about a public table, which is a JOIN of it."""
    public = {name.casefold(): (name, table) for name, table in work.context.public.items()}
    for node in condition.find_all(exp.In):
        named = None if node.args.get("query") is None else node.args["query"].find(exp.Table)
        if named is None or named.name.casefold() not in public:
            continue
        name, table = public[named.name.casefold()]
        ours = node.this.sql(dialect="duckdb", comments=False)
        joined = f"JOIN {name} ON {ours} = {name}.{table.key}, and put its conditions after WHERE"
        work.source.refuse(node, "IN with a subquery about a public table is", joined)


def item(work: Work, node: Any, scope: View | Frame) -> tuple[Any, str]:
    """An entry of the select list, and its title."""
    inner = node.this if isinstance(node, exp.Alias) else node
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        work.source.refuse(node, "* in the select list is", ROWS)
    if isinstance(inner, exp.EQ) and isinstance(inner.this, exp.Column) and inner.expression.find(exp.AggFunc):
        named = inner.this.name
        work.source.refuse(node, f"{named} = before an aggregate is", f"a title stands after it: ... AS {named}")
    if isinstance(node, exp.Alias):
        if not writable(node.alias):
            work.source.refuse(node, "a title with a NUL is", "name the column by letters")
        return inner, str(node.alias)
    if isinstance(inner, exp.Column):
        if isinstance(scope, View) and scope.columns is None and not inner.table and work.reader.match(inner.this):
            return inner, work.reader.column(inner)
        return inner, str(inner.name)
    return inner, title_of(inner)


def lateral(work: Work, items: list[tuple[Any, str]], known: Callable[[Any], bool]) -> list[tuple[Any, str]]:
    """The select list with the titles of earlier items written out where later ones use them; a column goes first."""
    found: list[tuple[Any, str]] = []
    for inner, title in items:
        found.append((spelled(work, inner, found, known), title))
    return found


def spelled(work: Work, node: Any, items: list[tuple[Any, str]], known: Callable[[Any], bool]) -> Any:
    """An expression with titles written out as what they name, unless a column has that name."""
    named = {title.casefold(): inner for inner, title in items}
    holder = exp.Paren(this=node.copy())
    used = [part for part in holder.find_all(exp.Column) if not part.table and part.name.casefold() in named]
    used = [part for part in used if not known(part)]
    sizes = {name: sum(1 for _ in named[name].walk()) for name in {part.name.casefold() for part in used}}
    if sum(sizes[part.name.casefold()] for part in used) > MOST_NODES:
        work.source.refuse(node, f"an expression of more than {MOST_NODES:,} parts is", "ask it in parts")
    for part in used:
        inner = named[part.name.casefold()].copy()
        part.replace(inner if part.parent is holder else exp.Paren(this=inner))
    return holder.this


def not_grouped(work: Work, node: Any) -> None:
    """Refuse a column that is neither grouped by nor aggregated."""
    window = node.find_ancestor(exp.Window)
    advice = "add it to GROUP BY, or take count, sum or avg of it"
    if window is not None and node.find_ancestor(exp.AggFunc) is not None:
        advice = f"OVER is computed from answered groups: take sum(sum({node.name})) OVER (...), with GROUP BY"
    with located(work.reader.at(node)):
        raise QueryError(f"{node.name} is selected but not grouped by", advice=advice)


def literal_of(value: Any) -> Any:
    """A plain value of a public table as it would be written."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, float) and math.isinf(value):
        raise QueryError(
            "a public table holds an infinite number", advice="leave the cell empty, or write a finite one"
        )
    if isinstance(value, int | float):
        return exp.Literal.number(value)
    return exp.Literal.string(str(value))
