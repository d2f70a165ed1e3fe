"""The closed grammar of questions: sqlglot parses a text, and only what is listed here is accepted.

There are three checks, each public and fast. The first limits the length and nesting of the text. The second refuses
words that begin something unsupported, with their place and an alternative. The third lists every node, and every part
of a node, that may occur; anything else that sqlglot understands, now or in a later version, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from maquette.errors import QueryError
from maquette.query.expression import Place
from maquette.schema import Comparison, identifier, nearest, writable

MAX_TEXT = 6_000
MAX_WORDS = 2_500
MAX_NESTING = 24

SELECTS = "SELECT columns, count(*), count(x), sum(x), avg(x) FROM table [WHERE condition] [GROUP BY columns]"
CONDITIONS = "=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL, AND, OR, NOT between a column and literals"

_DIALECT = Dialect.get_or_raise("duckdb")
_AFTERWARDS = "every declared group is always returned; leave it out, then sort or filter answer.to_pandas() yourself"
_ALONE = "compare a column alone with a literal"
_OUTSIDE = _ALONE + ", and {} the answers yourself"
_LEVELS = "use = or IN with declared levels"
_WRITE = "write the value into the text"
_INNER = "ask one SELECT about one table; what an inner one answers can be written as a number"
_ALREADY = "write the condition alone, as it would follow WHERE"
_NAMES = "a name takes double quotes, a text single ones"
_REFUSED = {
    "JOIN": "ask about one table",
    "WITH": "write one SELECT about one table",
    "UNION": "ask each SELECT by itself",
    "EXCEPT": "ask each SELECT by itself",
    "INTERSECT": "ask each SELECT by itself",
    "DISTINCT": "use GROUP BY {after} with count(*)",
    "HAVING": _AFTERWARDS,
    "ORDER_BY": _AFTERWARDS,
    "LIMIT": _AFTERWARDS,
    "OFFSET": _AFTERWARDS,
    "FETCH": _AFTERWARDS,
    "QUALIFY": _AFTERWARDS,
    "OVER": "use GROUP BY",
    "LIKE": _LEVELS,
    "ILIKE": _LEVELS,
    "RLIKE": _LEVELS,
    "SIMILAR_TO": _LEVELS,
    "GLOB": _LEVELS,
    "DAMP": "use AND",
    "AMP": "use AND",
    "DPIPE": "use OR",
    "PIPE": "use OR",
    "FARROW": "use >=",
    "PLUS": _OUTSIDE.format("add"),
    "SLASH": _OUTSIDE.format("divide"),
    "MOD": _ALONE,
    "PLACEHOLDER": _WRITE,
    "PARAMETER": _WRITE,
    "COLON": "write values into the text and names after AS",
    "ALL": "name the columns",
    "UNKNOWN": "use IS NULL",
}
_HINTS = {kind: _REFUSED[kind.name] for kind in TokenType if kind.name in _REFUSED}

# Signs that are supported elsewhere, so only the syntax tree shows their meaning here.
_NODES: dict[type[Any], tuple[str, str | None]] = {
    exp.Star: ("*", "rows are never shown; name columns, GROUP BY them and add count(*)"),
    exp.Mul: ("multiplication", _OUTSIDE.format("multiply")),
    exp.Sub: ("subtraction", _OUTSIDE.format("subtract")),
    exp.Neg: ("a minus sign", None),
}
_SPREADS = (exp.Min, exp.Max, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.Mode)

_PARTS = {
    "joins": ("a second table is", "ask about one table"),
    "table": ("a table before a column is", "write the name of the column alone"),
    "db": ("a schema before the table is", "write the name of the table alone"),
    "alias": ("another name for the table is", "leave it out"),
}

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.TILDE}
_COMMA = TokenType.COMMA
_CONNECTIVES = {"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "ILIKE", "SIMILAR", "GLOB"}
_VERBS = {"ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "FROM", "GRANT"}
_VERBS |= {"INSERT", "LOAD", "MERGE", "PRAGMA", "SET", "SHOW", "TABLE", "TRUNCATE", "UPDATE", "USE"}
# A text that ends with one of these was cut short.
_PENDING = {
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.AND, TokenType.OR, TokenType.IN, TokenType.IS, TokenType.BETWEEN),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
    *(_OPENING | _PREFIX),
}
# sqlglot accepts these; a text with something missing may not mean what its author meant.
_GAPS = {
    *((before, _COMMA) for before in (TokenType.SELECT, TokenType.L_PAREN, TokenType.GROUP_BY, _COMMA)),
    *((_COMMA, after) for after in (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.R_PAREN, None)),
    (TokenType.GROUP_BY, None),
}

COMPARISONS: dict[type[Any], Comparison] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_BINARY = {"this", "expression"}
_CONDITION: dict[type[Any], set[str]] = {
    **dict.fromkeys(COMPARISONS, _BINARY),
    exp.And: _BINARY,
    exp.Or: _BINARY,
    exp.Is: _BINARY,
    exp.Not: {"this"},
    exp.Neg: {"this"},
    exp.Paren: {"this"},
    exp.In: {"this", "expressions"},
    exp.Between: {"this", "low", "high"},
    exp.Column: {"this"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    exp.Cast: {"this", "to"},
    exp.DataType: {"this"},
}
_STATEMENT: dict[type[Any], set[str]] = {
    **_CONDITION,
    exp.Select: {"expressions", "from_", "where", "group"},
    exp.From: {"this"},
    exp.Table: {"this"},
    exp.Where: {"this"},
    exp.Group: {"expressions"},
    exp.Alias: {"this", "alias"},
    exp.Count: {"this", "big_int"},
    exp.Sum: {"this"},
    exp.Avg: {"this"},
    exp.Star: set(),
    exp.Filter: _BINARY,
    exp.Case: {"ifs", "default"},
    exp.If: {"this", "true"},
}


class Source:
    """A text and sqlglot's tree of it, every node of which is in the grammar."""

    def __init__(self, text: str, *, statement: bool, names: Sequence[str] = ()) -> None:
        """`names` are the names that a text can use; an error points at a name that needs quotes and has none."""
        self.text = text
        self.expected = SELECTS if statement else CONDITIONS
        try:
            self.tree = self._parsed(
                _checked(text, int(statement), self.expected), exp.Select if statement else exp.Condition
            )
            self._close(_STATEMENT if statement else _CONDITION)
        except QueryError as error:
            more = _unquoted(text, names) or ("" if statement else _aggregates(text))
            if not more or error.line is None or error.advice == _NAMES:
                raise
            error.advice = more if error.advice is None else f"{error.advice}; {more}"
            raise

    def _parsed(self, tokens: list[Token], root: type[Any]) -> Any:
        try:
            trees = _DIALECT.parser().parse_into(root, tokens, self.text)
        except ParseError as error:
            detail = error.errors[0] if error.errors else {}
            near = str(detail.get("highlight") or "")
            line, column = detail.get("line") or 1, (detail.get("col") or 1) - len(near) + 1
            problem = _unfinished(tokens) or f"cannot be read at {near[:40]!r}"
            raise QueryError(problem, expected=self.expected, line=line, column=max(column, 1)) from None
        except Exception:  # a deep or odd text may crash the parser itself; its own error is hidden
            raise QueryError("cannot be read", expected=self.expected, line=1, column=1) from None
        if len(trees) != 1 or trees[0] is None:
            raise QueryError("more than one statement", expected=self.expected, line=1, column=1)
        return trees[0]

    def _close(self, grammar: dict[type[Any], set[str]]) -> None:
        for node in self.tree.walk(bfs=False):
            allowed = grammar.get(type(node))
            if allowed is None:
                self.refuse(node, f"{named(node)} is", instead(node), self._functions(node))
            for part, value in node.args.items():
                if part not in allowed and value not in (None, False, [], ()):
                    self.refuse(node, *_PARTS.get(part, (f"{part.strip('_')} in {named(node)} is", None)))

    def _functions(self, node: Any) -> str | None:
        """Advice for an unsupported function."""
        if not isinstance(node, exp.Func):
            return None
        if isinstance(node, _SPREADS):
            return "GROUP BY the column with count(*) to see where its values lie"
        if node.find_ancestor(exp.Group):
            return "group by the column, which has declared bins, or by a CASE"
        condition = not isinstance(self.tree, exp.Select) and not isinstance(node, exp.AggFunc)
        if condition or node.find_ancestor(exp.Where):
            return _ALONE
        return None

    def at(self, node: Any) -> Place:
        """Where a node begins, if sqlglot knows: the first place inside it, or else around it."""
        while node is not None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            if starts:
                return _place(self.text, min(starts))
            node = node.parent
        return 1, 1

    def refuse(self, node: Any, what: str, instead: str | None = None, besides: str | None = None) -> NoReturn:
        """Raise an error: what is not supported, where it is, and what to write instead or what is expected."""
        raise _refusal(what, self.at(node), None if instead else self.expected, instead or besides)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text; a text that is too long is refused."""
    if len(text) > MAX_TEXT:
        raise QueryError(f"the text has {len(text):,} characters, more than {MAX_TEXT:,}", advice="ask it in parts")
    if not writable(text):
        raise QueryError(
            "the text holds a NUL or half a surrogate pair, which no name or value has", advice="remove it"
        )
    try:
        tokens = _DIALECT.tokenize(text)
    except Exception:  # sqlglot may raise any exception on hostile text
        raise QueryError("the text cannot be read: a quote or a comment is not closed", line=1, column=1) from None
    if len(tokens) > MAX_WORDS:
        raise QueryError(
            f"the text has {len(tokens):,} words and signs, more than {MAX_WORDS:,}", advice="ask it in parts"
        )
    return tokens


def _checked(text: str, selects: int, expected: str) -> list[Token]:
    """The tokens of one statement, refused if it nests too deeply or holds a word of something unsupported."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise QueryError("the text is empty", expected=expected, line=1, column=1)
    depth = run = 0
    following = [*(token.token_type for token in tokens[1:]), None]
    words = [*(token.text for token in tokens[1:]), ""]
    problem: tuple[str, str | None]
    for index, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIX else 0
        if kind == TokenType.SEMICOLON:
            problem = ("more than one statement is", "ask one at a time")
        elif kind == TokenType.SELECT and index >= selects:
            problem = ("SELECT here is", _INNER if index else _ALREADY)
        elif kind == TokenType.UNKNOWN and token.text.upper() != "UNKNOWN":
            problem = (f"{token.text[:20]} is", _NAMES)
        elif kind in _HINTS:
            after = words[index][:40] if following[index] == TokenType.VAR else "the columns"
            problem = (f"{token.text.upper()} is", _HINTS[kind].format(after=after))
        elif (kind, following[index]) in _GAPS:
            problem = (f"{token.text.upper()!r} with nothing on one side is", None)
        elif kind == TokenType.NOT and token.text == "!":
            problem = ("! is", "write NOT")
        elif index == 0 and kind != TokenType.SELECT and (selects or _is_statement(token.text, words[0])):
            problem = (f"{token.text[:20]!r} at the start is", _select_instead(token.text))
        elif depth + run > MAX_NESTING:
            problem = (f"nesting more than {MAX_NESTING} deep is", "ask it in parts")
        else:
            continue
        what, instead = problem
        raise _refusal(what, _place(text, token.start), None if instead else expected, instead)
    return tokens


def _is_statement(first: str, second: str) -> bool:
    """Whether the first two words begin a statement; a condition may begin with any column name."""
    word = second == "*" or (second[:1].isalpha() and second.upper() not in _CONNECTIVES)
    return word and (first.upper() in _VERBS or _misspelt(first))


def _misspelt(first: str) -> bool:
    return first.upper() not in _VERBS and bool(nearest(first, ["SELECT"], likeness=0.8))


def _select_instead(first: str) -> str:
    return "did you mean SELECT?" if _misspelt(first) else f"only SELECT is supported: {SELECTS}"


def _unfinished(tokens: list[Token]) -> str | None:
    """What is missing from a text that could not be read, if it was cut short or its parentheses do not match."""
    if tokens[-1].token_type in _PENDING:
        return f"ends too early after {tokens[-1].text[:20]}"
    kinds = [token.token_type for token in tokens]
    unclosed = kinds.count(TokenType.L_PAREN) - kinds.count(TokenType.R_PAREN)
    return f"a {')' if unclosed > 0 else '('} is missing" if unclosed else None


def written(name: str) -> str:
    """A name as it must be written in a text: in double quotes unless it is a plain word."""
    words = _DIALECT.tokenize(name) if re.fullmatch(r"\w+", name) else []
    plain = len(words) == 1 and words[0].token_type in _DIALECT.parser_class.ID_VAR_TOKENS
    return name if plain else identifier(name)


def _unquoted(text: str, names: Sequence[str]) -> str:
    """Advice for a text that cannot be read because a name needs quotes and has none."""
    folded = text.casefold()
    signed = [name for name in names if name.casefold() in folded and not re.fullmatch(r"\w+", name)]
    bare = [identifier(name) for name in signed if identifier(name) not in text]
    return f"a name with spaces or signs takes double quotes: {', '.join(bare[:3])}" if bare else ""


def _aggregates(text: str) -> str:
    """Advice for a condition that begins with an aggregate function."""
    begins = re.match(r"\s*(count|sum|avg)\s*\(", text, re.IGNORECASE)
    return f"begin with SELECT, as in SELECT {begins[1].lower()}(...) FROM t WHERE ..." if begins else ""


def _refusal(what: str, place: Place, expected: str | None, advice: str | None) -> QueryError:
    return QueryError(f"{what} not supported", expected=expected, advice=advice, line=place[0], column=place[1])


def _place(text: str, offset: int) -> Place:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def named(node: Any) -> str:
    """The name of a sqlglot node in a message."""
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        return f"the function {str(name)[:30].lower()}"
    if type(node) in COMPARISONS:
        return "a comparison"
    if type(node) in _NODES:
        return _NODES[type(node)][0]
    return "a literal" if isinstance(node, exp.Literal) else type(node).__name__.upper()


def instead(node: Any) -> str | None:
    """What to write instead of a sqlglot node, if there is specific advice."""
    if isinstance(node, exp.Sub) and all(isinstance(leaf, exp.Literal) for leaf in node.flatten()):
        return "write the number itself; a date takes single quotes, as in '2024-03-01'"
    return _NODES.get(type(node), (None, None))[1]
