"""The closed grammar of questions: sqlglot parses a text, and only what is listed here is accepted.

There are three checks, each public and fast. The first two, in `words`, limit the length and nesting of the text and
refuse words that begin something unsupported. The third lists every node of a scalar expression that may occur, and the
compiler every part of a statement; anything else that sqlglot understands, now or in a later version, is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from maquette.errors import QueryError
from maquette.query.expression import Place
from maquette.query.sql.advice import (
    FUNCTIONS,
    TIMES,
    misspelt_function,
    misspelt_keyword,
    unreadable,
)
from maquette.query.sql.dialects import translated
from maquette.query.sql.joins import MOST_LOOSE, loose_join
from maquette.query.sql.parts import unread
from maquette.query.sql.words import (
    DIALECT,
    INNER,
    MAX_NESTING,
    NAMES,
    SELECTS,
    checked,
    near_advice,
    place_of,
    refusal,
    unfinished,
)
from maquette.schema import Comparison, identifier

CONDITIONS = "=, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT between expressions on columns and literals"


class _Parser(DIALECT.parser_class):  # type: ignore[name-defined,misc]
    """DuckDB's grammar; the length of VARCHAR(3) is kept, which DuckDB reads past and `dialects` does not."""

    TYPE_CONVERTERS: ClassVar = {
        kind: rule for kind, rule in DIALECT.parser_class.TYPE_CONVERTERS.items() if kind != exp.DType.TEXT
    }


_NESTED = (
    "write sum(count(*)) OVER () beside GROUP BY, or aggregate the groups of a subquery: SELECT avg(n) AS mean FROM "
    "(SELECT x, count(*) AS n FROM t GROUP BY x) AS g"
)
# Signs and words whose meaning only the syntax tree shows.
_NODES: dict[type[Any], tuple[str, str | None]] = {
    exp.Star: ("*", "name columns, GROUP BY them and add count(*)"),
    exp.Neg: ("a minus sign", None),
    exp.DPipe: ("||", "use OR"),
    exp.Subquery: ("SELECT here", INNER),
    exp.Select: ("SELECT here", INNER),
    exp.Exists: ("EXISTS", INNER),
    exp.Tuple: ("a list in parentheses", None),
    exp.Alias: ("AS here", None),
    exp.Window: ("OVER here", None),
    exp.Order: ("ORDER BY here", None),
    exp.Dot: ("a dot here", None),
    exp.Bracket: ("[ ]", "write substring(x, 1, 1) for a letter of a text"),
    exp.Array: ("[ ]", None),
    exp.Struct: ("{ }", None),
    exp.Lambda: ("->", None),
    exp.JSONExtract: ("->", None),
    exp.Collate: ("COLLATE", "write lower(x) = 'a', or ORDER BY lower(x)"),
    exp.BitwiseNot: ("~", None),
    exp.BitwiseAnd: ("&", "use AND"),
    exp.BitwiseOr: ("|", "use OR"),
    exp.BitwiseXor: ("a bitwise exclusive OR", None),
    exp.BitwiseLeftShift: ("<<", None),
    exp.BitwiseRightShift: (">>", None),
    exp.PositionalColumn: ("#", "name the column"),
    exp.RawString: ("a text with a letter or dollar signs before it", "write it in single quotes alone"),
    exp.ByteString: ("a text with a letter before it", "write it in single quotes alone"),
    exp.HexString: ("a text with a letter before it", "write it in single quotes alone"),
}

_MOMENT = {"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "EPOCH"}
COMPARISONS: dict[type[Any], Comparison] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Scalar expressions: what DuckDB may be asked to compute on public values (levels and answered groups).
SCALARS: tuple[type[Any], ...] = (
    *COMPARISONS,
    *(exp.And, exp.Or, exp.Not, exp.Neg, exp.Paren, exp.Is, exp.In, exp.Between, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Var, exp.Cast, exp.TryCast, exp.DataType),
    *(exp.DataTypeParam, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Abs, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Trunc, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Sign),
    *(exp.Like, exp.ILike, exp.Escape, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob),
    *(
        exp.StartsWith,
        exp.EndsWith,
        exp.Contains,
        exp.Lower,
        exp.Upper,
        exp.Trim,
        exp.Substring,
        exp.Left,
        exp.Right,
        exp.Length,
        exp.Concat,
    ),
    *(
        exp.ConcatWs,
        exp.Replace,
        exp.StrPosition,
        exp.DPipe,
        exp.Reverse,
        exp.Initcap,
        exp.SplitPart,
        exp.RegexpExtract,
    ),
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek),
    *(exp.DayOfWeekIso, exp.DayOfYear, exp.Monthname, exp.Dayname, exp.Extract, exp.TimestampTrunc, exp.DateTrunc),
    *(exp.DateDiff, exp.DateAdd, exp.DateSub, exp.Interval, exp.CurrentDate, exp.LastDay, exp.TimeToStr),
)
# Most nodes are of these kinds, and their kind is all there is to check.
_DATED = (exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.TimeToStr)
_WEEKDAYS = {"DOW", "DAYOFWEEK", "WEEKDAY"}
_CHECKED = (
    exp.In,
    exp.DataType,
    exp.Column,
    exp.Sub,
    exp.Between,
    exp.Anonymous,
    exp.SimilarTo,
    exp.DayOfWeek,
    *_DATED,
)
_PLAIN = frozenset(kind for kind in SCALARS if not issubclass(kind, _CHECKED))
_COPYING = (exp.In, exp.Between, exp.Case, exp.Nullif)
_NESTING = (*COMPARISONS, exp.Is, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between)
_NAMED = {"date_part", "datepart", "weekday", "prefix", "suffix", "yearweek", "isoyear", "decade", "century", "era"}
MOST_NODES = 10_000  # of one expression, with the columns of a subquery written out
MOST_GROWTH = 1_000  # times that replace may lengthen a text
MOST_COPIES = 256  # of a part, by lists and CASE inside one another; DuckDB writes the part out for each value
_TYPES = {"BOOLEAN", "INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL", "VARCHAR", "TEXT", "DATE"}
_TYPES |= {"CHAR", "NCHAR", "NVARCHAR"}


class Source:
    """A text and sqlglot's tree of it, every node of which is in the grammar."""

    def __init__(self, text: str, *, statement: bool, names: Sequence[str] = ()) -> None:
        """`names` are the names that a text can use; an error points at a name that needs quotes and has none."""
        self.text = text
        self.expected = SELECTS if statement else CONDITIONS
        self.names = names
        with self.explained(statement):
            tokens, self.top = checked(text, statement, self.expected, names)
            self.tree = self._parsed(tokens, exp.Query if statement else exp.Condition)
            if not statement:
                self.scalar(self.tree)

    @contextmanager
    def explained(self, statement: bool = True) -> Iterator[None]:
        """Add advice to an error about a text with a name that needs quotes, or a condition with an aggregate."""
        try:
            yield
        except QueryError as error:
            more = _unquoted(self.text, self.names) or ("" if statement else _aggregates(self.text))
            if not more or error.line is None or error.advice == NAMES:
                raise
            error.advice = more if error.advice is None else f"{error.advice}; {more}"
            raise

    def _parsed(self, tokens: list[Token], root: type[Any]) -> Any:
        if (join := loose_join(tokens)) is not None:
            what = f"more than {MOST_LOOSE} JOINs without ON or USING"
            raise refusal(f"{what} are", place_of(self.text, join.start), None, "write ON after each JOIN")
        try:
            parser = _Parser(dialect=DIALECT)
            whole = root is exp.Query
            trees = parser.parse(tokens, self.text) if whole else parser.parse_into(root, tokens, self.text)
        except ParseError as error:
            detail = error.errors[0] if error.errors else {}
            near = str(detail.get("highlight") or "")
            line, column = detail.get("line") or 1, (detail.get("col") or 1) - len(near) + 1
            problem = unfinished(tokens) or f"cannot be read at {near[:40]!r}"
            words = [token.text for token in tokens if token.token_type in (TokenType.VAR, TokenType.XOR)]
            advice = unreadable(words) or near_advice(near, tokens, detail) or misspelt_keyword(words, self.names)
            raise QueryError(problem, expected=self.expected, advice=advice, line=line, column=max(column, 1)) from None
        except Exception:  # a deep or odd text may crash the parser itself; its own error is hidden
            raise QueryError("cannot be read", expected=self.expected, line=1, column=1) from None
        if len(trees) != 1 or trees[0] is None or (whole and not isinstance(trees[0], exp.Query)):
            raise QueryError("more than one statement", expected=self.expected, line=1, column=1)
        try:
            tree = translated(trees[0])
            past = unread(tree)
        except (AttributeError, TypeError, ValueError, KeyError, IndexError, RecursionError):  # a damaged tree
            raise QueryError("cannot be read", expected=self.expected, line=1, column=1) from None
        if past is not None:
            self.refuse(*past)
        return tree

    def scalar(self, tree: Any) -> None:
        """Refuse whatever is not a scalar expression on columns and literals."""
        nodes = list(tree.walk(bfs=False))
        for node in nodes:
            if type(node) not in _PLAIN:
                self._scalar_node(node)
        self._small(tree, nodes)

    def _scalar_node(self, node: Any) -> None:
        if isinstance(node, exp.In) and (node.args.get("query") or node.args.get("unnest")):
            self.refuse(node, "IN with anything but a list of values is", INNER)
        if isinstance(node, exp.DataType) and node.this.name not in _TYPES:
            kind = node.sql(dialect="duckdb").lower()[:30]
            self.refuse(node, f"the type {kind} is", "write CAST(x AS DOUBLE), INTEGER, VARCHAR or DATE")
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Identifier | exp.Star):
            self.refuse(node, "a dot here is", "write the name of a column alone")
        if isinstance(node, exp.Sub) and _is_date(node):
            self.refuse(node, "a date without quotes is", f"a date takes single quotes, as in '{_date_text(node)}'")
        if isinstance(node, exp.Between) and node.args.get("symmetric"):
            self.refuse(node, "BETWEEN SYMMETRIC is", "write the smaller value first, without SYMMETRIC")
        self._ambiguous(node)
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in _NAMED:
            self._dated(node, _first_text(node))
            return
        if isinstance(node, exp.Extract):
            self._dated(node, node.name)
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            self._dated(node, node.args["unit"].name)
        if isinstance(node, exp.TimeToStr) and re.search("%[HIMSfpcXT]", str(node.args["format"].this)):
            self._dated(node, "HOUR")
        if isinstance(node, exp.Count | exp.Sum | exp.Avg):
            self.refuse(node, f"{self.named(node)} inside an aggregate or a group is", _NESTED)
        if not isinstance(node, SCALARS):
            self.refuse(node, f"{self.named(node)} is", instead(node))

    def _dated(self, node: Any, unit: str) -> None:
        """Refuse the time of a day, which no column has."""
        if unit.upper() in _MOMENT:
            self.refuse(node, "the time of a day is", TIMES)

    def _ambiguous(self, node: Any) -> None:
        """Refuse what is written in the same way in several databases, means different things, and looks answered."""
        if isinstance(node, exp.SimilarTo) and re.search(r"[%_.^$\\]", str(node.expression.this)):
            what = "SIMILAR TO with % _ . ^ $ in its pattern, which databases read in different ways,"
            self.refuse(node, f"{what} is", "write LIKE 'a%', or regexp_matches(x, '^a.*b$')")
        weekday = isinstance(node, exp.DayOfWeek) or (isinstance(node, exp.Extract) and node.name.upper() in _WEEKDAYS)
        if isinstance(node, exp.Anonymous):
            weekday = "WEEKDAY" in (str(node.this).upper(), _first_text(node).upper()) or (
                _first_text(node).upper() in _WEEKDAYS and str(node.this).lower() in _NAMED
            )
        if weekday:
            self._weekday(node)

    def _weekday(self, node: Any) -> None:
        """Refuse to look for a seventh day where days of the week run from 0 to 6: other databases begin at 1."""
        around = node.parent
        while isinstance(around, exp.Paren | exp.Cast):
            around = around.parent
        if isinstance(around, exp.In):
            values = around.expressions
        elif isinstance(around, exp.Between):
            values = [around.args["low"], around.args["high"]]
        else:
            values = [around.this, around.expression] if isinstance(around, exp.EQ | exp.NEQ) else []
        if any(isinstance(value, exp.Literal) and str(value.this) == "7" for value in values):
            days = "dayofweek runs from 0 on Sunday to 6 on Saturday; isodow from 1 on Monday to 7 on Sunday"
            self.refuse(node, "a weekday of 7 is", days)

    def bounded(self, tree: Any) -> None:
        """Refuse an expression that is large once columns of a subquery are written out, or whose texts grow large."""
        self._small(tree, list(itertools.islice(tree.walk(), MOST_NODES + 1)))

    def _small(self, tree: Any, nodes: Sequence[Any]) -> None:
        if len(nodes) > MOST_NODES:
            self.refuse(tree, f"an expression of more than {MOST_NODES:,} parts is", "ask it in parts")
        growth = 1
        for node in nodes:
            if not isinstance(node, exp.Replace):
                continue
            new = node.args.get("replacement")
            if new is not None and not isinstance(new, exp.Literal):
                self.refuse(node, "replace with anything but a literal text is", "write the new text in single quotes")
            growth *= max(1, len(str(new.this)) if new is not None else 1)
        if growth > MOST_GROWTH:
            self.refuse(tree, f"replace that lengthens a text more than {MOST_GROWTH:,} times is", "ask it in parts")
        if any(isinstance(node, _COPYING) for node in nodes):
            self._few_copies(tree)
        if sum(isinstance(node, _NESTING) for node in nodes) > MAX_NESTING:
            self._shallow(tree, nodes)

    def _shallow(self, tree: Any, nodes: Sequence[Any]) -> None:
        """Refuse comparisons of comparisons that would need too many parentheses to be written again."""
        depths: dict[int, int] = {}
        for node in nodes:  # parents first
            depths[id(node)] = depths.get(id(node.parent), 0) + isinstance(node, _NESTING)
        if max(depths.values()) > MAX_NESTING:
            self.refuse(tree, f"nesting more than {MAX_NESTING} deep is", "ask it in parts")

    def _few_copies(self, tree: Any) -> None:
        """Refuse IN, BETWEEN, CASE and nullif of one another so deep that DuckDB's copies would fill the memory."""
        pending = [(tree, 1)]
        while pending:
            node, times = pending.pop()
            more = times * _copies(node)
            if more > MOST_COPIES and times > 1 and more > times:
                what = "IN, BETWEEN, CASE or nullif of one another, as deep as here, is"
                self.refuse(node, what, "compare a column, not a comparison")
            for key, value in node.args.items():
                inner = more if key == "this" else times
                parts = value if isinstance(value, list) else [value]
                pending += [(part, inner) for part in parts if isinstance(part, exp.Expression)]

    def named(self, node: Any) -> str:
        """The name of a node in a message; a function as the user wrote it."""
        if isinstance(node, exp.Func) and type(node) not in (*_NODES, exp.Anonymous):
            word = self.text[node.meta["start"] : node.meta["end"] + 1] if "end" in node.meta else ""
            if word.isidentifier():
                return f"the function {word[:30]}"
            written_as = {str(name).lower() for name in node.sql_names()} | {_shown(node).split("(")[0].lower()}
            used = [word for word in re.findall(r"(\w+)\s*\(", self.text) if word.lower() in written_as]
            if used:
                return f"the function {used[0][:30]}"
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            start = min(starts, default=None)
            before = (
                None
                if start is None
                else re.search(r"(\w+)\s*\(\s*(?:distinct\s+)?$", self.text[:start], re.IGNORECASE)
            )
            if before is not None:
                return f"the function {before[1][:30]}"
        return named(node)

    def at(self, node: Any) -> Place:
        """Where a node begins, if sqlglot knows: the first place inside it, or else around it."""
        while node is not None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            if starts:
                return place_of(self.text, min(starts))
            node = node.parent
        return 1, 1

    def refuse(self, node: Any, what: str, instead: str | None = None, besides: str | None = None) -> NoReturn:
        """Raise an error: what is not supported, where it is, and what to write instead or what is expected."""
        raise refusal(what, self.at(node), None if instead else self.expected, instead or besides)


def _first_text(node: Any) -> str:
    """The name or text of the first argument of a function."""
    return str(node.expressions[0].name) if node.expressions else ""


def _copies(node: Any) -> int:
    """How often DuckDB writes out what a node compares."""
    match node:
        case exp.In():
            return max(1, len(node.expressions))
        case exp.Case() if node.this is not None:
            return max(1, len(node.args.get("ifs") or ()))
        case exp.Between() | exp.Nullif():
            return 2
    return 1


def _unquoted(text: str, names: Sequence[str]) -> str:
    """Advice for a text that cannot be read because a name needs quotes and has none."""
    folded = text.casefold()
    signed = [name for name in names if name.casefold() in folded and not re.fullmatch(r"\w+", name)]
    bare = [identifier(name) for name in signed if identifier(name) not in text and f"`{name}`" not in text]
    return f"a name with spaces or signs takes double quotes: {', '.join(bare[:3])}" if bare else ""


def _aggregates(text: str) -> str:
    """Advice for a condition that begins with an aggregate function."""
    begins = re.match(r"\s*(count|sum|avg)\s*\(", text, re.IGNORECASE)
    return f"begin with SELECT, as in SELECT {begins[1].lower()}(...) FROM t WHERE ..." if begins else ""


def named(node: Any) -> str:
    """The name of a sqlglot node in a message."""
    if type(node) in _NODES:
        return _NODES[type(node)][0]
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else _shown(node).split("(")[0]
        return f"the function {str(name)[:30].lower()}"
    if type(node) in COMPARISONS:
        return "a comparison"
    if isinstance(node, exp.Literal):
        return "a literal"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def _shown(node: Any) -> str:
    """A node as DuckDB would have it; what it cannot say is left out without a word."""
    return str(node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE))


def _is_date(node: Any) -> bool:
    """Whether a difference of three numbers was meant as a date, as in 2024-03-01."""
    parts = [node.this.this, node.this.expression, node.expression] if isinstance(node.this, exp.Sub) else []
    numbers = [str(part.this) for part in parts if isinstance(part, exp.Literal) and not part.is_string]
    return [len(number) for number in numbers] == [4, 2, 2] and all(map(str.isdecimal, numbers))


def _date_text(node: Any) -> str:
    return "-".join(str(part.this) for part in (node.this.this, node.this.expression, node.expression))


def instead(node: Any) -> str | None:
    """What to write instead of a sqlglot node, if there is specific advice."""
    name = str(node.this) if isinstance(node, exp.Anonymous) else type(node).__name__
    known = FUNCTIONS.get(name.lower().replace("_", "")) or _NODES.get(type(node), (None, None))[1]
    return known or (misspelt_function(name) if isinstance(node, exp.Anonymous) else None)
