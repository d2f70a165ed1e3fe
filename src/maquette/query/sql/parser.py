"""From text to trees: a condition or a SELECT that passed the grammar, with its names resolved against a schema."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from maquette.errors import QueryError
from maquette.query.expression import (
    LARGEST,
    Always,
    And,
    Between,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Truth,
    located,
    plain,
)
from maquette.query.sql.grammar import COMPARISONS, Source, instead, named, tokens_of, written
from maquette.query.sql.tree import Aggregate, Case, Item, Select
from maquette.schema import Comparison, Schema, nearest, quoted

_MIRRORED: dict[Comparison, Comparison] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FUNCTIONS: dict[type[Any], Any] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg"}


def is_select(text: str) -> bool:
    """Whether a text begins with SELECT, ignoring comments."""
    tokens = tokens_of(text)
    return bool(tokens) and tokens[0].token_type == TokenType.SELECT


def predicate(schema: Schema, text: str) -> Expression:
    """The text of a condition as an expression; column names are resolved against the schema."""
    source = Source(text, statement=False, names=schema.names)
    return _Reader(schema, source).condition(source.tree)


def select(schema: Schema, text: str) -> Select:
    """The text of a SELECT as a tree; column names are resolved against the schema."""
    source = Source(text, statement=True, names=schema.names)
    return _Reader(schema, source).select(source.tree)


class _Reader:
    """Turns sqlglot's tree of one text into ours."""

    def __init__(self, schema: Schema, source: Source) -> None:
        self.schema = schema
        self.text = source.text
        self.at = source.at
        self.refuse = source.refuse

    def select(self, tree: Any) -> Select:
        """A whole statement."""
        source = tree.find(exp.From)
        table = source.this.this if source else None
        if not isinstance(table, exp.Identifier) or self.text.startswith("'", table.meta.get("start", 0)):
            self.refuse(table or tree, "a SELECT without FROM and the name of a table is")
        items = tuple(self._item(node) for node in tree.expressions)
        keep = tree.args.get("where")
        group = tree.args.get("group")
        return Select(
            items=items,
            table=table.name,
            where=Always(True) if keep is None else self.condition(keep.this),
            group=tuple(self._key(node, items) for node in (group.expressions if group else ())),
        )

    def _item(self, node: Any) -> Item:
        inner = node.this if isinstance(node, exp.Alias) else node
        body = self._body(inner.unnest())
        title = node.alias if isinstance(node, exp.Alias) else body if isinstance(body, str) else _shown(inner)
        return Item(body, title, self.at(node))

    def _body(self, node: Any) -> str | Case | Aggregate:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Case():
                return self._case(node)
            case exp.Filter():
                return self._aggregate(node.this, self.condition(node.expression.this))
            case _:
                return self._aggregate(node, Always(True))

    def _aggregate(self, node: Any, keep: Expression) -> Aggregate:
        function = _FUNCTIONS.get(type(node))
        if function is None:
            self.refuse(node, f"{named(node)} in the select list is", instead(node))
        if isinstance(node.this, exp.Star) and function == "count":
            return Aggregate("count", None, keep)
        if not isinstance(node.this, exp.Column):
            chosen = "count(*) FILTER (WHERE condition)" if isinstance(node.this, exp.Case) else "count(*)"
            self.refuse(node, f"{function} of this is", f"write {chosen} or {function}(column)")
        return Aggregate(function, self._column(node.this), keep)

    def _case(self, node: Any) -> Case:
        branches = tuple((self.condition(branch.this), self._label(branch.args["true"])) for branch in node.args["ifs"])
        default = node.args.get("default")
        return Case(branches, None if default is None else self._label(default))

    def _label(self, node: Any) -> str:
        if not isinstance(node, exp.Literal) or not node.is_string:
            self.refuse(node, "a CASE that yields something else than text is", "write THEN 'label' and ELSE 'label'")
        return str(node.this)

    def _key(self, node: Any, items: tuple[Item, ...]) -> Item | int:
        """An entry of GROUP BY: a column, a CASE, or the index of the select item given by number or alias."""
        node = node.unnest()
        if isinstance(node, exp.Literal):
            if not str(node.this).isdecimal() or not 1 <= int(node.this) <= len(items):
                self.refuse(node, f"GROUP BY {node.this} is", f"the select list has items 1 to {len(items)}")
            return int(node.this) - 1
        if isinstance(node, exp.Column):
            aliases = [item.title.casefold() for item in items]
            if self._match(node.this) is None and node.name.casefold() in aliases:
                return aliases.index(node.name.casefold())
            name = self._column(node)
            return Item(name, name, self.at(node))
        if isinstance(node, exp.Case):
            return Item(self._case(node), _shown(node), self.at(node))
        self.refuse(node, f"GROUP BY {named(node)} is", "group by columns, a CASE, or the number of a select item")

    def condition(self, node: Any) -> Expression:
        """A condition; a chain of AND or OR of any length is read without recursion."""
        node = node.unnest()
        match node:
            case exp.And():
                return And(tuple(self.condition(part) for part in node.flatten()))
            case exp.Or():
                return Or(tuple(self.condition(part) for part in node.flatten()))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Column():
                return Truth(self._column(node), at=self.at(node))
            case exp.Is():
                if not isinstance(node.expression, exp.Null):
                    self.refuse(node, "IS with anything but NULL is", "use = or the column alone")
                return IsNull(self._subject(node.this), at=self.at(node))
            case exp.In():
                literals = tuple(self._literal(item) for item in node.expressions)
                return In(self._subject(node.this), literals, at=self.at(node))
            case exp.Between():
                low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
                return Between(self._subject(node.this), low, high, at=self.at(node))
        if type(node) in COMPARISONS:
            return self._comparison(node)
        self.refuse(node, f"{named(node)} as a condition is")

    def _comparison(self, node: Any) -> Compare:
        comparison = COMPARISONS[type(node)]
        left, right = node.this.unnest(), node.expression.unnest()
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, comparison = right, left, _MIRRORED[comparison]
        return Compare(self._subject(left), comparison, self._literal(right), at=self.at(node))

    def _subject(self, node: Any) -> str:
        node = node.unnest()
        if not isinstance(node, exp.Column):
            self.refuse(node, f"comparing {named(node)} is", "compare a column with literals")
        return self._column(node)

    def _column(self, node: Any) -> str:
        name = self._match(node.this)
        if name is None:
            close = [written(known) for known in nearest(node.name, self.schema.names)]
            every = ", ".join(map(written, self.schema.names))
            hint = f"did you mean {' or '.join(close)}?" if close else f"columns are {every}"
            with located(self.at(node)):
                raise QueryError(f"there is no column {node.name!r}", advice=hint)
        return name

    def _match(self, identifier: Any) -> str | None:
        """The column with this name; without quotes, also the only column whose name differs just by case."""
        if identifier.name in self.schema:
            return str(identifier.name)
        wanted = identifier.name.casefold()
        alike = [] if identifier.quoted else [name for name in self.schema.names if name.casefold() == wanted]
        if len(alike) > 1:
            listed = ", ".join(f'"{name}"' for name in alike)
            self.refuse(identifier, f"{identifier.name}, which may be {listed}, is", "quote the one you mean")
        return alike[0] if alike else None

    def _literal(self, node: Any) -> Literal:
        node = node.unnest()
        with located(self.at(node)):
            match node:
                case exp.Literal():
                    return str(node.this) if node.is_string else _number(node.this)
                case exp.Neg(this=exp.Literal(is_string=False)):
                    return -_number(node.this.this)
                case exp.Boolean():
                    return bool(node.this)
                case exp.Cast(this=exp.Literal(is_string=True)) if node.to.this == exp.DataType.Type.DATE:
                    return _date(node.this.this)
                case exp.Null():
                    return plain(None)
                case exp.Column():
                    text = node.this.quoted or self._match(node.this) is None
                    hint = f"text takes single quotes: {quoted(node.name)}" if text else None
                    raise QueryError(
                        f"a column can only be compared with a literal, not with {node.name!r}", advice=hint
                    )
        self.refuse(node, f"{named(node)} as a value is", "write a number, 'text', true, false or DATE 'YYYY-MM-DD'")


def _number(text: str) -> int | float:
    try:
        number = float(text) if text.isascii() else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise QueryError(f"{text[:20]!r} is not a number that can be compared", advice="write it as 12, 12.5 or 1.25e1")
    return int(text) if text.isdecimal() and number < LARGEST else number


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{text!r} is not a date", expected="DATE 'YYYY-MM-DD'") from None


def _shown(node: Any) -> str:
    """The text of an unnamed item, as the title of its column."""
    return str(node.sql(dialect="duckdb", comments=False, normalize_functions="lower"))
