"""The words of a text, before anything parses it: how many there are, how deep they nest, and which are refused.

A refusal here has its place and what to type instead; what only the syntax tree shows is refused by `grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from maquette.errors import QueryError
from maquette.query.expression import Place
from maquette.query.sql.advice import statement_instead
from maquette.query.sql.top import without_top
from maquette.schema import identifier, nearest, writable

MAX_TEXT = 6_000
MAX_WORDS = 2_500
MAX_NESTING = 24

SELECTS = (
    "SELECT columns, count(*), count(x), sum(x), avg(x), median(x), stddev(x) FROM table [WHERE condition] "
    "[GROUP BY columns] [HAVING ...] [ORDER BY ...] [LIMIT n]"
)

DIALECT = Dialect.get_or_raise("duckdb")


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's words and signs; names may also stand in backticks, as MySQL and BigQuery have them."""

    IDENTIFIERS: ClassVar = ['"', "`"]


_TOKENIZER = _Tokenizer(dialect=DIALECT)
WRITE = "write the value into the text"
INNER = "ask two questions: what an inner one answers can be written as a number, as in age > 40 or IN (1, 2)"
_ALREADY = "write the condition alone, as it would follow WHERE"
NAMES = "a name takes double quotes, a text single ones"
_REFUSED = {
    "EXCEPT": "ask each SELECT by itself",
    "INTERSECT": "ask each SELECT by itself",
    "DAMP": "use AND",
    "AMP": "use AND",
    "PIPE": "use OR",
    "FARROW": "use >=",
    "PLACEHOLDER": WRITE,
    "PARAMETER": WRITE,
    "COLON": "write values into the text and names after AS",
    "UNKNOWN": "use IS NULL",
}
_HINTS = {kind: _REFUSED[kind.name] for kind in TokenType if kind.name in _REFUSED}

BEGINNINGS = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_MATCHES = {TokenType.TILDE, TokenType.IRLIKE}  # !~ and !~*
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.TILDE}
_COMMA = TokenType.COMMA
_CONNECTIVES = {"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "ILIKE", "SIMILAR", "GLOB"}
_VERBS = {"ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "FROM", "GRANT"}
_VERBS |= {"INSERT", "LOAD", "MERGE", "PIVOT", "PRAGMA", "SET", "SHOW", "SUMMARIZE", "TABLE", "TRUNCATE", "UNPIVOT"}
_VERBS |= {"UPDATE", "USE", "VALUES", "DESC", "DECLARE", "EXEC", "EXECUTE"}
# A text that ends with one of these was cut short.
_PENDING = {
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.AND, TokenType.OR, TokenType.IN, TokenType.IS, TokenType.BETWEEN),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
    *(_OPENING | _PREFIX),
}
# sqlglot accepts these; a text with something missing may not mean what its author meant.
_CLAUSES = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.ORDER_BY)
_GAPS = {
    *((before, _COMMA) for before in (TokenType.SELECT, TokenType.L_PAREN, TokenType.GROUP_BY, _COMMA)),
    *((_COMMA, after) for after in (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.R_PAREN, None)),
    *((clause, after) for clause in _CLAUSES for after in (*_CLAUSES, TokenType.LIMIT, TokenType.R_PAREN)),
    (TokenType.GROUP_BY, None),
}


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text; a text that is too long is refused."""
    if len(text) > MAX_TEXT:
        raise QueryError(f"the text has {len(text):,} characters, more than {MAX_TEXT:,}", advice="ask it in parts")
    if not writable(text):
        raise QueryError(
            "the text holds a NUL or half a surrogate pair, which no name or value has", advice="remove it"
        )
    try:
        tokens = _TOKENIZER.tokenize(text)
    except Exception:  # sqlglot may raise any exception on hostile text
        raise QueryError("the text cannot be read: a quote or a comment is not closed", line=1, column=1) from None
    if len(tokens) > MAX_WORDS:
        raise QueryError(
            f"the text has {len(tokens):,} words and signs, more than {MAX_WORDS:,}", advice="ask it in parts"
        )
    return tokens


def checked(text: str, statement: bool, expected: str, names: Sequence[str]) -> tuple[list[Token], int | None]:
    """The tokens of one statement and the number after TOP; refused if it nests too deeply or holds a bad word."""
    tokens = tokens_of(text)
    tokens, top = without_top(tokens) if statement else (tokens, None)
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
        elif kind == TokenType.SELECT and not statement:
            problem = ("SELECT here is", INNER if index else _ALREADY)
        elif kind == TokenType.UNKNOWN and token.text.upper() != "UNKNOWN":
            problem = (f"{token.text[:20]} is", NAMES)
        elif kind in _HINTS:
            problem = (f"{token.text.upper()} is", _HINTS[kind])
        elif (kind, following[index]) in _GAPS:
            problem = (f"{token.text.upper()!r} with nothing on one side is", None)
        elif kind == TokenType.NOT and token.text == "!" and following[index] not in _MATCHES:
            problem = ("! is", "write NOT")
        elif index == 0 and kind not in BEGINNINGS and (statement or _is_statement(token.text, words[0])):
            problem = (f"{token.text[:20]!r} at the start is", _select_instead(token.text, names))
        elif depth + run > MAX_NESTING:
            problem = (f"nesting more than {MAX_NESTING} deep is", "ask it in parts")
        else:
            continue
        what, instead = problem
        raise refusal(what, place_of(text, token.start), None if instead else expected, instead)
    return tokens, top


def _is_statement(first: str, second: str) -> bool:
    """Whether the first two words begin a statement; a condition may begin with any column name."""
    word = second == "*" or (second[:1].isalpha() and second.upper() not in _CONNECTIVES)
    return word and (first.upper() in _VERBS or _misspelt(first))


def _misspelt(first: str) -> bool:
    return first.upper() not in _VERBS and bool(nearest(first, ["SELECT"], likeness=0.8))


def _select_instead(first: str, names: Sequence[str]) -> str:
    if _misspelt(first):
        return "did you mean SELECT?"
    return statement_instead(first, list(map(written, names))) or f"only SELECT is supported: {SELECTS}"


def near_advice(near: str, tokens: list[Token], detail: dict[str, Any]) -> str | None:
    """Advice for a text that cannot be read, by what stands there."""
    if near in ("[", "#"):
        return NAMES if near == "[" else "a comment begins with --"
    place = [(token.line, token.col) for token in tokens]
    at = (detail.get("line"), detail.get("col"))
    before = tokens[place.index(at) - 1] if at in place[1:] else None
    if before is not None and near.startswith("'") and len(before.text) == 1 and before.token_type == TokenType.VAR:
        return f"write the text in single quotes alone, without {before.text} before it"
    return None


def unfinished(tokens: list[Token]) -> str | None:
    """What is missing from a text that could not be read, if it was cut short or its parentheses do not match."""
    if tokens[-1].token_type in _PENDING:
        return f"ends too early after {tokens[-1].text[:20]}"
    kinds = [token.token_type for token in tokens]
    unclosed = kinds.count(TokenType.L_PAREN) - kinds.count(TokenType.R_PAREN)
    return f"a {')' if unclosed > 0 else '('} is missing" if unclosed else None


def written(name: str) -> str:
    """A name as it must be written in a text: in double quotes unless it is a plain word."""
    words = DIALECT.tokenize(name) if re.fullmatch(r"\w+", name) else []
    plain = len(words) == 1 and words[0].token_type in DIALECT.parser_class.ID_VAR_TOKENS
    return name if plain else identifier(name)


def refusal(what: str, place: Place, expected: str | None, advice: str | None) -> QueryError:
    """The error about something that is not supported."""
    return QueryError(f"{what} not supported", expected=expected, advice=advice, line=place[0], column=place[1])


def place_of(text: str, offset: int) -> Place:
    """Line and column of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
