"""A text as its statements: tokens, and the limits that keep a parser from being overrun."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from maquette.query import loose_join
from maquette.service.pgwire.sqlstate import Problem

MAX_TEXT = 131_072
MAX_TOKENS = 12_000
MAX_NESTING = 60
MAX_STATEMENTS = 200
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.TILDE, TokenType.PLUS, TokenType.DCOLON, TokenType.DOT}


class _Spoken(Postgres):
    """PostgreSQL's dialect, with the words of SHOW, FETCH and EXPLAIN kept apart."""

    class Tokenizer(Postgres.Tokenizer):
        """Without statements that are kept as one text."""

        COMMANDS: ClassVar[set[TokenType]] = set()


_POSTGRES = _Spoken()
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it would warn of what it does not know


@dataclass(frozen=True)
class Piece:
    """One statement: its text, and its tokens with places in that text."""

    text: str
    tokens: tuple[Token, ...]
    start: int  # of the text in the whole script

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens in capitals; texts and quoted names as they are."""
        return tuple(
            token.text if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()
            for token in self.tokens
        )


def pieces(text: str) -> list[Piece]:
    """The statements of a text, in order; empty ones are left out."""
    if len(text) > MAX_TEXT:
        raise Problem("54000", f"the statement has {len(text):,} characters, more than {MAX_TEXT:,}")
    try:
        tokens = _POSTGRES.tokenize(text)
    except Exception:  # sqlglot may raise any exception on hostile text
        raise Problem("42601", "the statement cannot be read: a quote or a comment is not closed") from None
    if len(tokens) > MAX_TOKENS:
        raise Problem("54000", f"the statement has {len(tokens):,} words, more than {MAX_TOKENS:,}")
    found, current, begin = list[Piece](), list[Token](), 0
    for token in [*tokens, None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            current.append(token)
            continue
        end = len(text) if token is None else token.start
        if current:
            found.append(_piece(text[begin:end], begin))
            current = []
        begin = end + 1
    if len(found) > MAX_STATEMENTS:
        raise Problem("54000", f"the text has {len(found)} statements, more than {MAX_STATEMENTS}")
    return found


def _piece(text: str, start: int) -> Piece:
    tokens = tuple(_POSTGRES.tokenize(text))
    _check_nesting(tokens)
    if loose_join(tokens) is not None:
        raise Problem("54001", "the statement has too many JOINs without ON or USING")
    return Piece(text, tokens, start)


def _check_nesting(tokens: tuple[Token, ...]) -> None:
    depth = run = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIXES else (run if kind in (TokenType.VAR, TokenType.TEXT) else 0)
        if depth + run > MAX_NESTING:
            raise Problem("54001", f"the statement nests more than {MAX_NESTING} deep")


def parsed(piece: Piece) -> Any:
    """The tree of a statement."""
    try:
        trees = _POSTGRES.parser().parse(_written_out(piece), piece.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        near = str(detail.get("highlight") or "")[:40]
        raise Problem("42601", f'syntax error at or near "{near}"', position=_place(piece.text, detail)) from None
    except Exception:  # a deep or odd text may crash the parser itself
        raise Problem("42601", "the statement cannot be read") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        raise Problem("42601", "the statement cannot be read")
    return trees[0]


def _written_out(piece: Piece) -> list[Token]:
    """The tokens, with SELECT * FROM for TABLE, which sqlglot reads only since 30.30."""
    first, *others = piece.tokens
    return [*_POSTGRES.tokenize("SELECT * FROM"), *others] if first.token_type == TokenType.TABLE else [first, *others]


def _place(text: str, detail: dict[str, Any]) -> int | None:
    line, column = detail.get("line"), detail.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    lines = text.split("\n")
    before = sum(len(one) + 1 for one in lines[: line - 1])
    width = len(str(detail.get("highlight") or "")) - 1
    return max(1, before + column - max(width, 0))
