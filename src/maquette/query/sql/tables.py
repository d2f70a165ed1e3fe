"""Tables: what FROM and JOIN bring into sight.

A table's name is the private one; a subquery or a query of WITH is a view of it if it only picks rows and columns, and
answered groups otherwise. Answered groups join on public columns; a public lookup joins the private table on its key.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from maquette.errors import QueryError
from maquette.query.expression import located
from maquette.query.sql import program as p
from maquette.query.sql.aggregates import is_aggregate
from maquette.query.sql.levels import evaluated, on_levels
from maquette.query.sql.parser import title_of
from maquette.query.sql.public import PublicTable
from maquette.query.sql.rows import public_value, rowwise
from maquette.query.sql.work import Found, Frame, Names, View, Work, column
from maquette.schema import nearest

SECOND = "ask about one private table; a public lookup can be given as public={name: PublicTable(...)} and joined"
_NO_TABLE = "a SELECT without FROM and the name of a table is"
_TYPES = {"integer": "DOUBLE", "number": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
_ROWWISE = ("group", "having", "distinct", "qualify", "order", "limit")  # parts that a view does not have


def source_of(work: Work, tree: Any, names: Names) -> View | Frame:
    """What FROM and its joins name."""
    clause = tree.args.get("from_")
    if clause is None:
        work.source.refuse(tree, _NO_TABLE)
    scope = _table(work, clause.this, names)
    for join in tree.args.get("joins") or ():
        scope = _join(work, scope, join, names)
    return scope


def named_queries(work: Work, tree: Any, outer: Names) -> Names:
    """The queries of WITH, by name, with those of the query around it."""
    known = dict(outer)
    clause = tree.args.get("with_")
    if clause is not None and clause.args.get("recursive"):
        work.source.refuse(clause, "WITH RECURSIVE is", "write the steps out")
    for cte in clause.expressions if clause is not None else ():
        known[cte.alias.casefold()] = _derived(work, cte.this, dict(known))
    return known


def _derived(work: Work, tree: Any, names: Names) -> View | Found:
    """A query in FROM: a view of the private table if it only picks rows and columns, else answered groups."""
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if isinstance(inner, exp.Select):
        scope = source_of(work, inner, {**names, **named_queries(work, inner, names)})
        grouping = any(inner.args.get(part) for part in _ROWWISE)
        aggregates = any(is_aggregate(node) or isinstance(node, exp.Window) for node in inner.walk())
        if isinstance(scope, View) and not grouping and not aggregates:
            return _view(work, inner, scope)
    return work.query(tree, names)


def _view(work: Work, tree: Any, scope: View) -> View:
    keep = [*scope.keep]
    if tree.args.get("where") is not None:
        keep.append(rowwise(work, tree.args["where"].this, scope))
    columns: dict[str, Any] = {}
    for node in tree.expressions:
        if isinstance(node, exp.Star):
            columns |= {name.casefold(): column(name) for name in work.schema.names}
            columns |= {} if scope.columns is None else scope.columns
        else:
            inner = node.this if isinstance(node, exp.Alias) else node
            columns[(node.alias or inner.name or title_of(inner)).casefold()] = rowwise(work, inner, scope)
    return View(set(), columns, keep)


def _table(work: Work, node: Any, names: Names) -> View | Frame:
    alias = node.alias or node.name
    if isinstance(node, exp.Subquery):
        return _seen(work, _derived(work, node.this, names), alias)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        work.source.refuse(node, _NO_TABLE)
    _check_plain(work, node)
    if node.name.casefold() in names:
        return _seen(work, names[node.name.casefold()], alias)
    public = {name.casefold(): table for name, table in work.context.public.items()}
    if node.name.casefold() in public:
        return _listed(work, node, public[node.name.casefold()])
    if not work.context.knows(node.name):
        _unknown_table(work, node)
    if work.table and node.name.casefold() != work.table.casefold() and work.context.table is None:
        work.source.refuse(node, f"a second private table, {node.name!r}, is", SECOND)
    work.table = work.table or node.name
    return View({alias.casefold(), node.name.casefold()})


def _check_plain(work: Work, node: Any) -> None:
    """Refuse whatever stands beside the name of a table."""
    if work.source.text.startswith("'", node.this.meta.get("start", 0)):
        work.source.refuse(node, _NO_TABLE)
    odd = next((k for k, v in node.args.items() if v and k not in ("this", "alias", "db", "catalog", "joins")), None)
    if odd is not None:
        work.source.refuse(node, f"{odd.strip('_').upper()} after a table is", "name the table alone")
    if node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
        work.source.refuse(node, "new names of columns after a table are", "name columns with AS in a subquery")
    if node.args.get("catalog") is not None or str(node.db).casefold() not in ("", "public"):
        work.source.refuse(node, "a schema before the table is", "write the name of the table alone")


def _unknown_table(work: Work, node: Any) -> None:
    known = [str(work.context.table), *work.context.public]
    close = nearest(node.name, known)
    with located(work.reader.at(node)):
        raise QueryError(
            f"there is no table {node.name!r}",
            advice=f"did you mean {close[0]}?" if close else f"this is about {work.context.table!r}",
        )


def _seen(work: Work, found: View | Found, alias: str) -> View | Frame:
    """A query under the name that FROM gives it."""
    if isinstance(found, View):
        return View({alias.casefold()}, found.columns, list(found.keep), dict(found.public))
    relation, columns = found
    renamed = [(work.fresh(), name, title) for name, title in columns]
    for new, name, _ in renamed:
        if name in work.uses:
            work.uses[new] = work.uses[name]
    picked = p.Pick(relation, tuple((new, name) for new, name, _ in renamed))
    return Frame(picked, [(alias.casefold(), title, new) for new, _, title in renamed])


def named(work: Work, scope: Frame, node: Any) -> str:
    """The column of a relation that a name means."""
    qualifier, wanted = node.table.casefold(), node.name.casefold()
    found = [name for alias, title, name in scope.names if title.casefold() == wanted and qualifier in ("", alias)]
    if len(found) == 1:
        return found[0]
    with located(work.reader.at(node)):
        if found:
            raise QueryError(f"the column {node.name!r} is in two tables", advice="write table.column")
        close = nearest(node.name, [title for _, title, _ in scope.names])
        every = ", ".join(title for _, title, _ in scope.names)
        raise QueryError(
            f"there is no column {node.name!r}",
            advice=f"did you mean {close[0]}?" if close else f"columns are {every}",
        )


# joins


def _join(work: Work, scope: View | Frame, join: Any, names: Names) -> View | Frame:
    node = join.this
    public = {name.casefold(): table for name, table in work.context.public.items()}
    if isinstance(scope, View):
        if not isinstance(node, exp.Table) or node.name.casefold() not in public:
            work.source.refuse(node, "a second table is", SECOND)
        return _lookup(work, scope, join, public[node.name.casefold()])
    lookup = public.get(node.name.casefold()) if isinstance(node, exp.Table) else None
    if lookup is not None and node.name.casefold() not in names:
        other: View | Frame = _listed(work, node, lookup)
    else:
        other = _table(work, node, names)
    if not isinstance(other, Frame):
        first = isinstance(scope.relation, p.Listed)
        what = "a public table before the private one" if first else "joining answered groups with rows"
        instead = "begin FROM with the private table and JOIN the public one"
        work.source.refuse(node, f"{what} is", instead if first else "aggregate the table in a subquery first")
    side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
    if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
        work.source.refuse(join, f"{side or kind} JOIN is", "use JOIN, LEFT JOIN or CROSS JOIN")
    pairs = _equalities(work, scope, other, join)
    if any(name in work.uses for pair in pairs for name in pair):
        work.source.refuse(join, "joining on a noisy number is", "join on group columns")
    work.together = True
    using = {name.name.casefold() for name in join.args.get("using") or ()}
    every = [*scope.names, *(n for n in other.names if n[1].casefold() not in using)]
    return Frame(p.Join(scope.relation, other.relation, tuple(pairs), side == "LEFT"), every)


def _listed(work: Work, node: Any, table: PublicTable) -> Frame:
    """A public table as rows beside answered groups."""
    _check_plain(work, node)
    alias = (node.alias or node.name).casefold()
    named = [(alias, title, work.fresh()) for title in table.names]
    columns = tuple(table.column(title) for title in table.names)
    return Frame(p.Listed(tuple(name for _, _, name in named), columns, table.digest), named)


def _equalities(work: Work, scope: Frame, other: Frame, join: Any) -> list[tuple[str, str]]:
    """The pairs of columns that USING or ON makes equal, ours first."""
    keys = [exp.column(name.name) for name in join.args.get("using") or ()]
    pairs = [(named(work, scope, key), named(work, other, key)) for key in keys]
    if join.args.get("on") is None:
        return pairs
    joined = Frame(scope.relation, [*scope.names, *other.names])
    mine = {name for _, _, name in scope.names}
    condition = join.args["on"].unnest()
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if not isinstance(part, exp.EQ) or not all(isinstance(e, exp.Column) for e in (part.this, part.expression)):
            work.source.refuse(part, "joining ON anything but equal columns is", "write ON a.key = b.key")
        one, two = (named(work, joined, side) for side in (part.this, part.expression))
        pairs.append((one, two) if one in mine else (two, one))
    return pairs


def _lookup(work: Work, scope: View, join: Any, table: PublicTable) -> View:
    """JOIN of a public table: its columns become expressions on the levels of the private key.

    A LEFT JOIN keeps every row; any other keeps those whose key is in the table.
    """
    alias = (join.this.alias or join.this.name).casefold()
    side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        work.source.refuse(join, f"{side or kind} JOIN of a public table is", "write JOIN or LEFT JOIN")
    condition = join.args.get("on")
    condition = None if condition is None else condition.unnest()
    using = join.args.get("using") or ()
    if len(using) > 1:
        work.source.refuse(join, "USING with several columns is", f"join on its key alone, {table.key}")
    if using:
        ours, theirs = exp.column(using[0].name), using[0].name
    elif isinstance(condition, exp.EQ):
        sides = [condition.this.unnest(), condition.expression.unnest()]
        theirs_ = next((s for s in sides if isinstance(s, exp.Column) and s.table.casefold() == alias), None)
        theirs_ = theirs_ or next((s for s in sides if _only_theirs(work, s, table)), None)
        if theirs_ is None:
            work.source.refuse(
                join, "this ON is", f"write ON table.column = {join.this.alias or join.this.name}.{table.key}"
            )
        ours, theirs = next(s for s in sides if s is not theirs_), theirs_.name
    else:
        work.source.refuse(join, "a JOIN without one equality is", "write ON table.column = lookup.key")
    if theirs.casefold() != table.key.casefold():
        work.source.refuse(join, f"joining on {theirs} is", f"join on its key, {table.key}")
    key = rowwise(work, ours, scope)
    _check_keys(work, join, key, table)
    scope.public[alias] = table, key
    if side != "LEFT":
        found = public_value(table, key, [1] * len(table.column(table.key)))
        scope.keep.append(exp.EQ(this=found, expression=exp.Literal.number(1)))
    return scope


def _check_keys(work: Work, join: Any, key: Any, table: PublicTable) -> None:
    """Refuse keys that differ as texts and are one value to the private key: a row would join both of them."""
    kind = _TYPES.get(work.schema[str(key.name)].kind) if isinstance(key, exp.Column) else _type_of(work, key)
    if kind is None:
        return
    listed = table.column(table.key)
    found = evaluated(f'TRY_CAST(CAST("k" AS VARCHAR) AS {kind})', {"k": list(map(str, listed))}, len(listed))
    known = [value for value in found if value is not None]
    if len(set(known)) < len(known):
        with located(work.reader.at(join.this)):
            raise QueryError(
                f"keys of the public table are the same to {key.sql(dialect='duckdb')[:60]}, as 1 and 01 are",
                advice="keep one row for each value of the key",
            )


def _type_of(work: Work, key: Any) -> str | None:
    """DOUBLE if an expression is a number on every level that has a value."""
    try:
        values = on_levels(work.schema, key)[1].reshape(-1)
    except QueryError:  # refused where it is used
        return None
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values if value is not None
    )
    return "DOUBLE" if numbers else None


def _only_theirs(work: Work, node: Any, table: PublicTable) -> bool:
    """Whether a name without a table before it is a column of the public table alone."""
    known = {name.casefold() for name in table.names}
    return isinstance(node, exp.Column) and not node.table and node.name.casefold() in known - _own(work)


def _own(work: Work) -> set[str]:
    return {name.casefold() for name in work.schema.names}
