"""From text to trees: a condition or a SELECT that passed the grammar, with its names resolved against a schema."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
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
    OnLevels,
    Or,
    Truth,
    located,
    plain,
)
from maquette.query.sql.grammar import COMPARISONS, Source, instead, named
from maquette.query.sql.levels import MIXED, on_levels
from maquette.query.sql.words import tokens_of, written
from maquette.schema import Comparison, Schema, nearest, quoted

_MIRRORED: dict[Comparison, Comparison] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_TRUTHS = (
    *COMPARISONS,
    *(
        exp.Is,
        exp.In,
        exp.Between,
        exp.Like,
        exp.ILike,
        exp.Escape,
        exp.RegexpLike,
        exp.RegexpILike,
        exp.SimilarTo,
        exp.Glob,
    ),
    *(exp.StartsWith, exp.EndsWith, exp.Contains, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Case, exp.If, exp.Coalesce),
    *(exp.Anonymous, exp.Cast),
)


UNIT_WORDS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "WEEKDAY", "DAYOFWEEK", "DW", "HOUR", "MINUTE", "SUNDAY"}
_WEEKS = "a week begins on Monday, dayofweek(x) is 0 on Sunday"


def is_select(text: str) -> bool:
    """Whether a text begins with SELECT or WITH, ignoring comments and parentheses."""
    kinds = [token.token_type for token in tokens_of(text)]
    while kinds and kinds[0] == TokenType.L_PAREN:
        kinds.pop(0)
    return bool(kinds) and kinds[0] in (TokenType.SELECT, TokenType.WITH)


def predicate(schema: Schema, text: str, *, between: bool = False) -> Expression:
    """The text of a condition as an expression; column names are resolved against the schema."""
    source = Source(text, statement=False, names=schema.names)
    with source.explained(statement=False):
        return Reader(schema, source, between=between).condition(source.tree)


class Reader:
    """Turns sqlglot's tree of a condition into ours."""

    def __init__(self, schema: Schema, source: Source, *, between: bool = False, unit: str | None = None) -> None:
        """With `between`, a condition that cuts through a bin is read with that bin left open; `unit` is no column."""
        self.schema = schema
        self.unit = unit
        self.between = between
        self.text = source.text
        self.at = source.at
        self.refuse = source.refuse

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
                return Truth(self.column(node), at=self.at(node))
            case exp.Is() if isinstance(node.expression, exp.Null) and isinstance(node.this.unnest(), exp.Column):
                return IsNull(self.column(node.this.unnest()), at=self.at(node))
            case exp.In() if isinstance(node.this.unnest(), exp.Column) and not self._among_columns(node):
                literals = tuple(self._literal(item) for item in node.expressions)
                return In(self.column(node.this.unnest()), literals, at=self.at(node))
            case exp.Between() if self._literals(node.this, node.args["low"], node.args["high"]):
                low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
                return Between(self.column(node.this.unnest()), low, high, at=self.at(node))
        if type(node) in COMPARISONS and (found := self._comparison(node)) is not None:
            return found
        return self._on_levels(node)

    def _among_columns(self, node: Any) -> bool:
        """Whether IN has a list with a column of the table or an expression, or a subquery."""
        values = [value.unnest() for value in node.expressions]
        unknown = [value for value in values if isinstance(value, exp.Column) and self.match(value.this) is None]
        return bool(node.args.get("query")) or not (unknown or all(map(is_literal, values)))

    def _comparison(self, node: Any) -> Compare | None:
        """A comparison of a column with a literal; None if it compares anything else."""
        comparison = COMPARISONS[type(node)]
        left, right = node.this.unnest(), node.expression.unnest()
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, comparison = right, left, _MIRRORED[comparison]
        if isinstance(right, exp.Column) and self.match(right.this) is None:
            self._literal(right)  # a text in the wrong quotes
        if not self._literals(left, right):
            return None
        return Compare(self.column(left), comparison, self._literal(right), at=self.at(node))

    def _literals(self, subject: Any, *values: Any) -> bool:
        """Whether a column is compared with literals."""
        return isinstance(subject.unnest(), exp.Column) and all(is_literal(v) for v in values)

    def _on_levels(self, node: Any) -> Expression:
        """Any other condition on columns, evaluated on their levels."""
        if not isinstance(node, _TRUTHS):
            what = named(node) if instead(node) else f"{named(node)} as a condition"
            self.refuse(node, f"{what} is", instead(node))
        resolved = self.resolved(node)
        error = None
        with located(self.at(node)):
            try:
                columns, values = on_levels(self.schema, resolved)
            except QueryError as refused:
                if not self.between:
                    raise
                error = refused
                columns, values = on_levels(self.schema, resolved, mixed=True)
        if not columns and isinstance(values.item(), bool):
            return Always(values.item())
        through = np.array([value is MIXED for value in values.reshape(-1)], dtype=bool).reshape(values.shape)
        if not all(value is None or value is MIXED or isinstance(value, bool) for value in values.reshape(-1)):
            self.refuse(node, f"{named(node)} as a condition is")
        holds, fails = (np.array(np.equal(values, wanted), dtype=bool) for wanted in (True, False))
        if not columns:
            self.refuse(node, f"{named(node)} without a column is", "compare a column with literals")
        return OnLevels(columns, holds, fails, through if through.any() else None, error, at=self.at(node))

    def resolved(self, node: Any) -> Any:
        """A copy of an expression in which every column has its declared name, and today is a date."""
        node = node.copy()
        for column in list(node.find_all(exp.Column)):
            column.set("table", None)
            column.set("this", exp.to_identifier(self.column(column), quoted=True))
        for now in list(node.find_all(exp.CurrentDate)):
            today = exp.Cast(this=exp.Literal.string(dt.date.today().isoformat()), to=exp.DataType.build("DATE"))
            today.meta["today"] = True  # a day that is not written by anyone need not be a declared one
            node = today if now is node else (now.replace(today), node)[1]
        return node

    def column(self, node: Any) -> str:
        """The declared name of a column."""
        name = self.match(node.this)
        if name is None:
            close = [written(known) for known in nearest(node.name, self.schema.names)]
            every = ", ".join(map(written, self.schema.names))
            text = f"a text takes single quotes: {quoted(node.name)}; " if _is_value(node) else ""
            hint = f"did you mean {' or '.join(close)}?" if close else f"{text}columns are {every}"
            if node.name.upper() in UNIT_WORDS and isinstance(node.parent, exp.Func):
                hint = f"a unit stands first, in quotes: date_part('month', x), date_trunc('month', x); {_WEEKS}"
            with located(self.at(node)):
                if self.unit is not None and node.name.casefold() == self.unit.casefold():
                    raise QueryError(
                        f"{self.unit} says whose row it is: it is neither shown nor compared",
                        advice=f"count(DISTINCT {written(self.unit)}) counts them; columns are {every}",
                    )
                raise QueryError(f"there is no column {node.name!r}", advice=hint)
        return name

    def match(self, identifier: Any) -> str | None:
        """The column with this name; without quotes, also the only column whose name differs just by case."""
        if identifier.name in self.schema:
            return str(identifier.name)
        wanted = identifier.name.casefold()
        alike = (
            [] if identifier.args.get("quoted") else [name for name in self.schema.names if name.casefold() == wanted]
        )
        if len(alike) > 1:
            listed = ", ".join(f'"{name}"' for name in alike)
            self.refuse(identifier, f"{identifier.name}, which may be {listed}, is", "quote the one you mean")
        return alike[0] if alike else None

    def _literal(self, node: Any) -> Literal:
        node = node.unnest()
        with located(self.at(node)):
            match node:
                case exp.Literal():
                    return str(node.this) if node.is_string else number_of(node.this)
                case exp.Neg(this=exp.Literal(is_string=False)):
                    return -number_of(node.this.this)
                case exp.Boolean():
                    return bool(node.this)
                case exp.Cast(this=exp.Literal(is_string=True)) if node.to.this == exp.DataType.Type.DATE:
                    return _date(node.this.this)
                case exp.Null():
                    return plain(None)
                case exp.Column():
                    text = node.this.args.get("quoted") or self.match(node.this) is None
                    hint = f"text takes single quotes: {quoted(node.name)}" if text else None
                    raise QueryError(
                        f"a column can only be compared with a literal, not with {node.name!r}", advice=hint
                    )
        self.refuse(node, f"{named(node)} as a value is", "write a number, 'text', true, false or DATE 'YYYY-MM-DD'")


def _is_value(node: Any) -> bool:
    """Whether a name stands where a column is compared with a value."""
    around = node.parent
    if isinstance(around, exp.In):
        return node is not around.this
    return type(around) in COMPARISONS and all(
        isinstance(side, exp.Column) for side in (around.this, around.expression)
    )


def is_literal(node: Any) -> bool:
    """Whether a node is a value written out: a number, a text, a truth value, NULL or a date."""
    node = node.unnest()
    if node.meta.get("today"):
        return False
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    if isinstance(node, exp.Cast):
        text = isinstance(node.this, exp.Literal) and node.this.is_string
        return text and type(node) is exp.Cast and node.to.this == exp.DataType.Type.DATE
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def number_of(text: str) -> int | float:
    """The number that a text writes; a whole one as an integer."""
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


def title_of(node: Any) -> str:
    """The text of an unnamed item, as the title of its column."""
    return str(node.sql(dialect="duckdb", comments=False, normalize_functions="lower"))
