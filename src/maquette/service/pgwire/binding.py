"""Bind parameters: $1, $2 in a statement, their types, and the literals that take their place.

A question keeps its text: each parameter becomes a literal of our own grammar where it stood, `x = ANY ($1)` becomes
`x IN (...)`, and a cast that follows a parameter (`$1::integer`, which drivers add) decides how its value is written.
In a statement for the catalogue parameters are replaced in the tree.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from maquette.service.pgwire.catalogue import type_named
from maquette.service.pgwire.script import Piece
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import (
    BOOL,
    DATE,
    ELEMENTS,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TEXTS,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    BadValue,
    as_text,
    decode,
)

MAX_PARAMETERS = 2_000
MAX_DIGITS = 300  # before or after the point of a number
_OPEN = (0, UNKNOWN)
_NUMBERS = {INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC}
_ARRAYS = {element: array for array, element in ELEMENTS.items() if array not in (1015, 1003)}
_DUCK = {BOOL: "BOOLEAN", INT2: "SMALLINT", INT4: "INTEGER", INT8: "BIGINT", OID: "UINTEGER", FLOAT4: "FLOAT"}
_DUCK |= {FLOAT8: "DOUBLE", NUMERIC: "DOUBLE", DATE: "DATE", TIMESTAMP: "TIMESTAMP", TIMESTAMPTZ: "TIMESTAMP"}


def count_parameters(piece: Piece) -> int:
    """The largest number of a parameter in a statement."""
    largest = 0
    for token, after in zip(piece.tokens, piece.tokens[1:], strict=False):
        if token.token_type == TokenType.PARAMETER and after.token_type == TokenType.NUMBER:
            largest = max(largest, _number(after))
    return largest


def _number(token: Token) -> int:
    if not token.text.isdecimal() or not 1 <= int(token.text) <= MAX_PARAMETERS:
        raise Problem(
            "42P02", f"there is no parameter ${token.text[:20]}", hint=f"parameters are $1 to ${MAX_PARAMETERS}"
        )
    return int(token.text)


def types_of(tree: Any, given: Sequence[int], count: int, column_type: Callable[[str], int | None]) -> tuple[int, ...]:
    """The type of every parameter: as the client says, else from its cast, else from the column it is compared with."""
    found = [given[i] if i < len(given) else 0 for i in range(count)]
    for node in tree.find_all(exp.Parameter):
        index = int(node.name) - 1 if node.name.isdecimal() else -1
        if 0 <= index < count and found[index] in _OPEN:
            found[index] = _inferred(node, column_type)
    return tuple(TEXT if oid in _OPEN else oid for oid in found)


def _inferred(node: Any, column_type: Callable[[str], int | None]) -> int:
    around = node.parent
    while isinstance(around, exp.Paren):
        node, around = around, around.parent
    if isinstance(around, exp.Cast):
        return type_named(around.to.sql(dialect="postgres")) or _user_type(around.to) or TEXT
    if isinstance(around, exp.Limit | exp.Offset | exp.Fetch):
        return INT8
    array = isinstance(around, exp.Any) or (isinstance(around, exp.Anonymous) and around.name.lower() in ("any", "all"))
    if array:
        around = around.parent
    if around is None:
        return 0
    columns = [part for part in around.find_all(exp.Column) if part.find_ancestor(type(around)) is around]
    kind = next((oid for column in columns if (oid := column_type(column.name)) is not None), None)
    if kind is None:
        return TEXTS if array else 0
    return _ARRAYS.get(kind, TEXTS) if array else kind


def _user_type(kind: Any) -> int | None:
    inner = kind.args.get("kind")
    name = inner.expression.name if isinstance(inner, exp.Dot) else getattr(inner, "name", None)
    return None if name is None else type_named(name)


def values_of(data: Sequence[bytes | None], formats: Callable[[int], int], types: Sequence[int]) -> tuple[Any, ...]:
    """The parameters as Python values."""
    if len(data) != len(types):
        raise Problem("08P01", f"the statement has {len(types)} parameters, and {len(data)} were sent")
    try:
        return tuple(decode(item, types[i], formats(i)) for i, item in enumerate(data))
    except BadValue as error:
        raise Problem("22P02", str(error)) from None


def with_literals(piece: Piece, values: Sequence[Any]) -> str:
    """The text of a question with a literal of our grammar in the place of each parameter."""
    edits: list[tuple[int, int, str]] = []
    tokens = piece.tokens
    for i, token in enumerate(tokens):
        if token.token_type != TokenType.PARAMETER or i + 1 >= len(tokens):
            continue
        number = _number(tokens[i + 1]) if tokens[i + 1].token_type == TokenType.NUMBER else 0
        if not 1 <= number <= len(values):
            raise Problem("42P02", f"there is no parameter ${number}")
        value, start, last = values[number - 1], token.start, i + 1
        last, oid = _after_cast(tokens, last)
        if isinstance(value, list):
            start, last = _any_around(tokens, i, last)
            edits.append((start, tokens[last].end + 1, f"IN ({', '.join(literal(item) for item in value) or 'NULL'})"))
        else:
            edits.append((start, tokens[last].end + 1, literal(value, oid)))
    text = piece.text
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def _after_cast(tokens: Sequence[Token], last: int) -> tuple[int, int | None]:
    """The last token of `::type`, `::type(n)` or `::type[]` after a parameter, and the type."""
    if last + 2 >= len(tokens) or tokens[last + 1].token_type != TokenType.DCOLON:
        return last, None
    end, name = last + 2, tokens[last + 2].text
    while end + 2 < len(tokens) and tokens[end + 1].token_type == TokenType.DOT:
        end, name = end + 2, tokens[end + 2].text
    if end + 1 < len(tokens) and tokens[end + 1].token_type == TokenType.L_PAREN:
        while end + 1 < len(tokens) and tokens[end].token_type != TokenType.R_PAREN:
            end += 1
    while end + 2 < len(tokens) and tokens[end + 1].token_type == TokenType.L_BRACKET:
        end += 2
    return end, type_named(name)


def _any_around(tokens: Sequence[Token], at: int, last: int) -> tuple[int, int]:
    """Where `= ANY (` before an array parameter begins, and the `)` after it."""
    kinds = [token.token_type for token in tokens[max(at - 3, 0) : at]]
    closes = last + 1 < len(tokens) and tokens[last + 1].token_type == TokenType.R_PAREN
    if kinds != [TokenType.EQ, TokenType.ANY, TokenType.L_PAREN] or not closes:
        raise Problem("0A000", "an array parameter is only known in x = ANY ($1)")
    return tokens[at - 3].start, last + 1


def literal(value: Any, oid: int | None = None) -> str:
    """A value as our grammar reads it."""
    if oid is not None and isinstance(value, str):
        try:
            value = decode(value.encode(), oid, 0)
        except BadValue as error:
            raise Problem("22P02", str(error)) from None
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() | Decimal():
            return _decimal(value)
        case dt.datetime():
            return f"DATE '{_day(value).isoformat()}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


def _day(moment: dt.datetime) -> dt.date:
    """The day that a moment begins; columns hold days, and no other moment is one of them."""
    try:
        plain = moment if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except OverflowError:
        raise Problem("22008", "a parameter is a moment beyond all dates") from None
    if plain.time() != dt.time():
        raise Problem("0A000", "a parameter is a time of a day, and columns hold days", hint="send a date, or midnight")
    return plain.date()


def _decimal(value: float | Decimal) -> str:
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= MAX_DIGITS:
        return str(int(value)) if value == int(value) else format(value, "f")  # every digit, as if it were written
    if isinstance(value, Decimal) or not math.isfinite(value):
        raise Problem("22P02", "a parameter is not a finite number, or has too many digits")
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def in_tree(tree: Any, values: Sequence[Any] | None, types: Sequence[int]) -> Any:
    """A copy of the tree with the values in the place of parameters; without values, with typed NULLs."""
    tree = tree.copy()
    for node in list(tree.find_all(exp.Parameter)):
        index = int(node.name) - 1 if node.name.isdecimal() else -1
        if not 0 <= index < (len(types) if values is None else min(len(types), len(values))):
            raise Problem("42P02", f"there is no parameter ${node.name[:20]}")
        oid = types[index]
        new = exp.cast(exp.Null(), _duck(oid), dialect="duckdb") if values is None else _node(values[index], oid)
        node.replace(new)
    return tree


def _node(value: Any, oid: int) -> Any:
    if value is None:
        return exp.cast(exp.Null(), _duck(oid), dialect="duckdb")
    if isinstance(value, list):
        items = [_node(item, ELEMENTS.get(oid, TEXT)) for item in value]
        return exp.cast(exp.Array(expressions=items), _duck(oid), dialect="duckdb")
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    text = as_text(value, oid)
    if oid in (INT2, INT4, INT8, OID) and not text.startswith("-"):
        return exp.Literal.number(text)
    plain = exp.Literal.string(text)
    return plain if oid not in _DUCK else exp.cast(plain, _DUCK[oid], dialect="duckdb")


def _duck(oid: int) -> str:
    return f"{_DUCK.get(ELEMENTS[oid], 'VARCHAR')}[]" if oid in ELEMENTS else _DUCK.get(oid, "VARCHAR")
