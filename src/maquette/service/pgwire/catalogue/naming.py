"""Names of columns and types as PostgreSQL gives them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from maquette.service.pgwire.catalogue.relations import type_named, types

UNNAMED = "?column?"


def name_columns(tree: exp.Expression) -> None:
    """Give every unnamed column of the result the name that PostgreSQL gives it."""
    select = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select):
        return
    for item in list(select.expressions):
        if isinstance(item, exp.Alias):
            item.set("alias", exp.to_identifier(pg_name(item), quoted=True))
        if isinstance(item, exp.Alias | exp.Column | exp.Star) or item.is_star:
            if isinstance(item, exp.Column) and not item.is_star and not item.table and not item.this.quoted:
                name = pg_name(item)
                if name != item.name:
                    item.replace(exp.alias_(item.copy(), name, quoted=True))
            continue
        item.replace(exp.alias_(item.copy(), pg_name(item), quoted=True))


def pg_name(node: Any) -> str:
    """The name of an unnamed column: that of its function or column, else ?column?."""
    fixed = next((name for kind, name in _FIXED if isinstance(node, kind)), None)
    if fixed is not None:
        return fixed
    if isinstance(node, _AROUND):
        return pg_name(node.this)
    match node:
        case exp.Alias():
            return str(node.alias if node.args["alias"].args.get("quoted") else node.alias.lower())
        case exp.Column():
            return str(node.name if node.this.quoted else node.name.lower())
        case exp.Dot():
            return pg_name(node.expression)
        case exp.Identifier():
            return str(node.name)
        case exp.Cast():
            inner = pg_name(node.this)
            return inner if inner != UNNAMED else _type_name(node.to)
        case exp.Subquery():
            return pg_name(node.this.expressions[0]) if isinstance(node.this, exp.Select) else UNNAMED
        case exp.Case():
            return pg_name(node.args["default"]) if isinstance(node.args.get("default"), exp.Column) else "case"
        case exp.Anonymous():
            return str(node.name).lower()
        case exp.Func():
            return _FUNCTION_NAMES.get(type(node).__name__, str(node.sql_name()).lower())
    return UNNAMED


_AROUND = (exp.Paren, exp.Collate, exp.Bracket, exp.Window, exp.Filter, exp.WithinGroup)
_FIXED: tuple[tuple[type[Any], str], ...] = (
    (exp.Array, "array"),
    (exp.Explode, "unnest"),
    (exp.And, "?column?"),
    (exp.Or, "?column?"),
    (exp.Xor, "?column?"),
)
_FUNCTION_NAMES = {
    "GroupConcat": "string_agg",
    "LogicalAnd": "bool_and",
    "LogicalOr": "bool_or",
    "CurrentTimestamp": "now",
    "ExplodingGenerateSeries": "generate_series",
    "ArrayAgg": "array_agg",
    "StrPosition": "position",
    "CurrentVersion": "version",
    "TimestampTrunc": "date_trunc",
    "Pow": "power",
    "Trim": "btrim",
}


def _type_name(kind: Any) -> str:
    oid = type_named(bare_type(kind))
    return types()[oid].name if oid is not None else bare_type(kind)


def bare_type(kind: Any) -> str:
    """The name of a type as it was written, without its schema and quotes, in lower case."""
    if isinstance(kind, exp.DataType) and kind.args.get("kind") is not None:
        inner = kind.args["kind"]
        text = inner.expression.name if isinstance(inner, exp.Dot) else getattr(inner, "name", str(inner))
    else:
        text = str(kind.sql(dialect="postgres"))
    return text.lower().removeprefix("pg_catalog.").replace('"', "")
