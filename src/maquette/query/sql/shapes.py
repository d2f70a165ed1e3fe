"""Shapes: conditions that differ only in their literals are parsed once.

A condition made of words, numbers, texts and comparison signs is read by one regular expression. Its shape is the
sequence of words and signs, with a mark in place of each literal; literals count only where a comparison, IN or BETWEEN
puts them. The second text of a shape goes through the whole grammar twice: as it is, and with literals that all differ,
which shows where each of them belongs in the expression. A later text of that shape is this expression with its own
literals. Whatever is written in another way, and whatever is refused, is left to the grammar, which words the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from maquette.bounded import Bounded
from maquette.errors import QueryError
from maquette.query.expression import Always, And, Between, Compare, Expression, In, IsNull, Literal, Not, Or, Truth
from maquette.schema import Schema

MAX_TEXT = 2_000
MAX_WORDS = 200
KEPT = 2_000  # shapes

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>\d{1,15}(?:\.\d{1,15})?)(?![\w.])"
    r"|'(?P<text>[^'\\\x00-\x1f\x7f\ud800-\udfff]*)'(?!')|(?P<sign><=|>=|<>|!=|=|<|>|\(|\)|,))",
    re.ASCII,
)
_SIGNS = {"=", "<>", "!=", "<", "<=", ">", ">="}
_WHOLE, _DECIMAL, _TEXT = "#", "#.", "'"  # marks; no word or sign looks like them
_STATEMENT = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "CASE", "CAST", "LIKE", "ILIKE", "INTERVAL"}

Shape = tuple[str, ...]


@dataclass(frozen=True)
class _Slot:
    """The place of one literal in the expression of a shape."""

    number: int


_NEW, _SEEN = Always(True), Always(False)  # never seen, and seen once; told apart from templates by identity
_SHAPES: Bounded[tuple[Schema, Shape], Expression | None] = Bounded(KEPT)


def shaped(schema: Schema, text: str) -> Expression | None:
    """The expression of a condition whose shape was seen before; None for any other text."""
    scanned = _scanned(text)
    if scanned is None:
        return None
    shape, literals = scanned
    if not literals:  # such a text is of its own shape alone
        return None
    known = _SHAPES.get((schema, shape), _NEW)
    if known is _NEW:
        _SHAPES[schema, shape] = _SEEN
        return None
    template = known
    if known is _SEEN:
        template = _SHAPES[schema, shape] = _template(schema, text, shape, literals)
    return None if template is None else _filled(template, literals)


def _scanned(text: str) -> tuple[Shape, list[Literal]] | None:
    """The shape of a text and its literals, in order; None if it is not written in the plain way."""
    if len(text) > MAX_TEXT:
        return None
    shape: list[str] = []
    literals: list[Literal] = []
    place, listing, between = 0, False, False
    end = len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or len(shape) >= MAX_WORDS:
            return None
        place, kind, token = found.end(), found.lastgroup, found[found.lastgroup or 0]
        if kind in ("number", "text"):
            before = shape[-1] if shape else ""
            if before not in _SIGNS and not listing and before != "BETWEEN" and not (between and before == "AND"):
                return None
            between = before == "BETWEEN"
            mark, literal = _literal(kind, token)
            shape.append(mark)
            literals.append(literal)
            continue
        word = token.upper() if kind == "word" and token.upper() in _WORDS else token
        if word in _STATEMENT:
            return None
        if word == "(":
            listing = bool(shape) and shape[-1] == "IN"
        elif word == ")" or (listing and word != ","):
            listing = False
        shape.append(word)
    return tuple(shape), literals


_WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "TRUE", "FALSE", *_STATEMENT}


def _literal(kind: str, token: str) -> tuple[str, Literal]:
    from maquette.query.sql.parser import number_of

    if kind == "text":
        return _TEXT, token
    return (_WHOLE if token.isdecimal() else _DECIMAL), number_of(token)


def _template(schema: Schema, text: str, shape: Shape, literals: list[Literal]) -> Expression | None:
    """The expression of a shape, with slots for literals; None if their places cannot be told."""
    from maquette.query.sql.parser import predicate

    probes = [_probe(mark, number) for number, mark in enumerate(mark for mark in shape if mark in _MARKS)]
    written = iter(probes)
    probe = " ".join(_written(next(written)) if token in _MARKS else token for token in shape)
    try:
        slots = _slotted(predicate(schema, probe), {_typed(value): i for i, value in enumerate(probes)})
        if [slot.number for slot in _slots(slots)] != list(range(len(probes))):
            return None
        return slots if _same(_filled(slots, literals), predicate(schema, text)) else None
    except (QueryError, KeyError):
        return None


_MARKS = (_WHOLE, _DECIMAL, _TEXT)


def _probe(mark: str, number: int) -> Literal:
    return f"probe {number}" if mark == _TEXT else number + 10_001 + (0.5 if mark == _DECIMAL else 0)


def _written(literal: Literal) -> str:
    return f"'{literal}'" if isinstance(literal, str) else str(literal)


def _typed(literal: object) -> tuple[type, object]:
    return type(literal), literal


def _slotted(node: Expression, numbers: dict[tuple[type, object], int]) -> Expression:
    """The expression with a slot instead of each literal; KeyError if it holds one that is not in the text."""

    def slot(literal: Literal) -> Any:
        return _Slot(numbers[_typed(literal)])

    return _mapped(node, slot)


def _filled(node: Expression, literals: list[Literal]) -> Expression:
    return _mapped(node, lambda slot: literals[slot.number])


def _mapped(node: Expression, change: Any) -> Expression:
    match node:
        case And(parts):
            return And(tuple([_mapped(part, change) for part in parts]))
        case Or(parts):
            return Or(tuple([_mapped(part, change) for part in parts]))
        case Not(part):
            return Not(_mapped(part, change))
        case Compare(column, comparison, literal):
            return Compare(column, comparison, literal if isinstance(literal, bool) else change(literal))
        case In(column, literals):
            return In(column, tuple([one if isinstance(one, bool) else change(one) for one in literals]))
        case Between(column, low, high):
            return Between(column, change(low), change(high))
        case Always() | IsNull() | Truth():
            return replace(node, at=None)
    raise KeyError(type(node).__name__)


def _slots(node: Expression) -> Iterator[Any]:
    """Everything that stands for a literal, in the order of the text."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _slots(part)
        case Not(part):
            yield from _slots(part)
        case Compare(_, _, literal):
            yield from () if isinstance(literal, bool) else (literal,)
        case In(_, literals):
            yield from (one for one in literals if not isinstance(one, bool))
        case Between(_, low, high):
            yield from (low, high)


def _same(one: Expression, other: Expression) -> bool:
    """Whether two expressions say the same, apart from their places in a text."""
    return repr(one) == repr(other)
