"""Lists: IN (SELECT code FROM regions WHERE ...) of a public table, written out as the list that it stands for."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import located
from maquette.query.sql.levels import evaluated, single
from maquette.query.sql.public import PublicTable
from maquette.query.sql.rows import literal_of
from maquette.query.sql.work import Work

_READ = {"expressions", "from_", "where", "distinct"}


def write_lists(work: Work, tree: Any) -> None:
    """Replace every such subquery in place; one that is more than a choice of rows is left, and refused later."""
    public = {name.casefold(): table for name, table in work.context.public.items()}
    named = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    for node in list(tree.find_all(exp.In)) if public else ():
        query = node.args.get("query")
        inner = None if query is None else query.unnest()
        if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or not _plain(inner):
            continue
        table = inner.args["from_"].this
        if not isinstance(table, exp.Table) or table.args.get("joins") or table.name.casefold() in named:
            continue
        if table.name.casefold() in public:
            _write(work, node, inner, public[table.name.casefold()])


def _plain(inner: Any) -> bool:
    said = {part for part, value in inner.args.items() if value not in (None, False, [])}
    return (
        "from_" in said and said <= _READ and not list(inner.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Star))
    )


def _write(work: Work, node: Any, inner: Any, table: PublicTable) -> None:
    wanted, where = inner.expressions[0].unalias(), inner.args.get("where")
    condition = exp.Boolean(this=True) if where is None else where.this
    columns = {name: table.column(name) for name in table.names}
    values = []
    for one in (wanted, condition):
        work.source.scalar(one)
        found = _named(work, one, inner, table)
        values.append(evaluated(found.sql(dialect="duckdb"), columns, len(table.column(table.key))))
    chosen = list(dict.fromkeys(value for value, kept in zip(*values, strict=True) if kept is True))
    if None in chosen:
        work.source.refuse(node, "IN of a list with NULL is", f"add WHERE {wanted.name} IS NOT NULL to the subquery")
    column = node.this.unnest()
    name = work.reader.match(column.this) if isinstance(column, exp.Column) else None
    if chosen and name is not None and single(work.schema[name]):  # other values are those of no row
        levels = set(work.schema[name].values)
        chosen = [value for value in chosen if value in levels]
        if not chosen:  # no value is in the list, and of NULL that is not known, so NOT IN leaves it out
            node.replace(exp.NEQ(this=column.copy(), expression=column.copy()))
            return
    if chosen:
        node.set("query", None)
        node.set("expressions", [literal_of(value) for value in chosen])
    else:
        node.replace(exp.Boolean(this=False))


def _named(work: Work, node: Any, inner: Any, table: PublicTable) -> Any:
    """The expression with the names of the public table's columns."""
    source, names = inner.args["from_"].this, {name.casefold(): name for name in table.names}
    holder = exp.Paren(this=node.copy())
    for part in list(holder.find_all(exp.Column)):
        if part.table.casefold() not in ("", source.alias_or_name.casefold()):
            alone = "a subquery does not see the rows around it"
            work.source.refuse(part, f"{part.table} before a column here is", alone)
        if part.name.casefold() not in names:
            with located(work.reader.at(part)):
                raise QueryError(f"there is no column {part.name!r}", advice=f"columns are {', '.join(table.names)}")
        part.replace(exp.column(names[part.name.casefold()], quoted=True))
    return holder
