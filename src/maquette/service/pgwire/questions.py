"""Questions: a SELECT of counts, sums and averages, answered by a table's session or by a release.

Describe plans: it reads the columns from what is known already (`Session.peek`), which charges nothing and stores
nothing. Execute asks, once; the rows of a portal are kept until it is closed. What was asked before is answered from
the record, free, so a statement that is sent again after a broken connection gets the answer that was paid for.

An analyst has a cap on what may be spent on a table through this door (`purse`). It is tested against the public price
of a question before that is asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from maquette.service.pgwire.binding import with_literals
from maquette.service.pgwire.catalogue import DATABASE, pg_name
from maquette.service.pgwire.plans import Result, notice
from maquette.service.pgwire.purse import Purse
from maquette.service.pgwire.script import Piece, parsed, pieces
from maquette.service.pgwire.settings import Settings
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import BOOL, DATE, FLOAT8, INT8, TEXT, Column

if TYPE_CHECKING:
    from maquette.answers import Answered, Rowset, RowsetColumn
    from maquette.releases import Release
    from maquette.service import Principal, ServedTable

_OIDS = {"text": TEXT, "boolean": BOOL, "integer": INT8, "number": FLOAT8, "date": DATE}
_ENDS = ("low", "high")
_ROUNDED: dict[str, Callable[[float], int]] = {"value": round, "low": math.floor, "high": math.ceil}


@dataclass(frozen=True)
class Shown:
    """One column of the result: which column of the answer it shows, and what of it (value, low or high)."""

    name: str
    source: int
    part: str
    whole: bool


@dataclass(frozen=True)
class Question:
    """A question as it will be asked, and how its answer is laid out."""

    text: str
    shown: tuple[Shown, ...] | None  # None: as the answer itself has it
    counts: tuple[bool, ...] = ()
    names: tuple[str, ...] = ()


def question(piece: Piece, tree: Any, values: Sequence[Any]) -> Question:
    """The question of a statement: parameters written in, our schema's name taken away, low() and high() apart."""
    select = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    items = list(select.expressions) if isinstance(select, exp.Select) else []
    text = with_literals(piece, values) if piece_has_parameters(piece) else piece.text
    tables = {node.name.lower() for node in tree.find_all(exp.Table)}
    text = without_arrays(without_table(without_schema(text), tables))
    if any(_end(item) for item in items):
        return _with_ends(text)
    return Question(text, None, tuple(_counts(item) for item in items), tuple(pg_name(item) for item in items))


def outline(piece: Piece, tree: Any, types: Sequence[int]) -> Piece:
    """The statement without the conditions that have parameters, for Describe: its columns do not depend on them."""
    if not piece_has_parameters(piece):
        return piece
    tree = tree.copy()
    for node in list(tree.find_all(exp.Where, exp.Having, exp.Limit, exp.Offset, exp.Filter)):
        if node.find(exp.Parameter) is None:
            continue
        if isinstance(node, exp.Filter):
            node.replace(node.this)
        else:
            node.pop()
    for node in list(tree.find_all(exp.Parameter)):
        oid = types[int(node.name) - 1] if node.name.isdecimal() and 0 < int(node.name) <= len(types) else TEXT
        node.replace(exp.Literal.string("") if oid == TEXT else exp.Literal.number(1))
    (plain,) = pieces(tree.sql(dialect="postgres", comments=False))
    return plain


def piece_has_parameters(piece: Piece) -> bool:
    """Whether a statement has parameters."""
    return any(token.token_type == TokenType.PARAMETER for token in piece.tokens)


def without_schema(text: str) -> str:
    """The text with spaces in the place of `public.` and `maquette.public.`, so that places in it stay the same."""
    (piece,) = pieces(text)
    tokens, letters, at = piece.tokens, list(piece.text), 0
    while at + 2 < len(tokens):
        long = _names(tokens[at], DATABASE) and tokens[at + 1].token_type == TokenType.DOT
        first = at + 2 if long and _names(tokens[at + 2], "public") else at
        begins = at == 0 or tokens[at - 1].token_type != TokenType.DOT
        if begins and _names(tokens[first], "public") and first + 1 < len(tokens) and tokens[first + 1].text == ".":
            start, end = tokens[at].start, tokens[first + 1].end + 1
            letters[start:end] = " " * (end - start)
            at = first + 2
        else:
            at += 1
    return "".join(letters)


def without_table(text: str, tables: Set[str]) -> str:
    """The text with spaces in the place of `people.` before a column: a question is about one table."""
    (piece,) = pieces(text)
    tokens, letters = piece.tokens, list(piece.text)
    for at, (token, after) in enumerate(itertools.pairwise(tokens)):
        begins = at == 0 or tokens[at - 1].token_type != TokenType.DOT
        if begins and after.token_type == TokenType.DOT and any(_names(token, name) for name in tables):
            letters[token.start : after.end + 1] = " " * (after.end + 1 - token.start)
    return "".join(letters)


def without_arrays(text: str) -> str:
    """The text with `IN (...)` in the place of `= ANY (ARRAY[...])`, which drivers write for a list."""
    (piece,) = pieces(text)
    tokens = piece.tokens
    edits: list[tuple[int, int, str]] = []
    for at in range(len(tokens)):
        if [token.text.upper() for token in tokens[at : at + 5]] != ["=", "ANY", "(", "ARRAY", "["]:
            continue
        end = next((i for i in range(at + 5, len(tokens)) if tokens[i].text == "]"), len(tokens))
        last = next((i for i in range(end + 1, len(tokens)) if tokens[i].text == ")"), None)
        if last is None or any(token.text in "([" for token in tokens[at + 5 : end]):
            continue
        inner = piece.text[tokens[at + 4].end + 1 : tokens[end].start]
        edits.append((tokens[at].start, tokens[last].end + 1, f"IN ({inner})"))
    for start, stop, new in reversed(edits):
        text = text[:start] + new + text[stop:]
    return text


def _names(token: Any, name: str) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.IDENTIFIER) and token.text.lower() == name


def _end(item: Any) -> str | None:
    """low or high, for an item that is one of these functions."""
    inner = item.unalias()
    called = isinstance(inner, exp.Anonymous) and len(inner.expressions) == 1
    return inner.name.lower() if called and inner.name.lower() in _ENDS else None


def _counts(item: Any) -> bool:
    inner = item.unalias()
    return isinstance(inner, exp.Count) or (isinstance(inner, exp.Filter) and isinstance(inner.this, exp.Count))


def _with_ends(text: str) -> Question:
    """A select list with low(x) and high(x): x is asked once, under a name, and shown as often as it is named."""
    tree = parsed(pieces(text)[0])
    if not isinstance(tree, exp.Select):
        raise Problem("0A000", "low() and high() stand in the list of a plain SELECT")
    asked = [item for item in tree.expressions if not _end(item)]
    shown: list[Shown] = []
    for item in tree.expressions:
        part, inner = _end(item), item.unalias()
        target = inner.expressions[0] if part else item
        known = _position(asked, target)
        if known is None:
            asked.append(target)
            known = len(asked) - 1
        name = item.alias if isinstance(item, exp.Alias) else pg_name(item)
        shown.append(Shown(name, known, part or "value", _counts(asked[known])))
    tree.set("expressions", [one.copy() for one in asked])
    return Question(tree.sql(dialect="duckdb", comments=False), tuple(shown))


def _position(asked: Sequence[Any], target: Any) -> int | None:
    wanted = target.unalias()
    for i, one in enumerate(asked):
        if one.unalias() == wanted or (
            isinstance(wanted, exp.Column) and one.alias == wanted.name and not wanted.table
        ):
            return i
    return None


def layout(asked: Question, rowset: Rowset, *, intervals: bool) -> tuple[Shown, ...]:
    """The columns of the result of a question."""
    if asked.shown is not None:
        return asked.shown
    fits = len(asked.names) == len(rowset.columns)
    shown = []
    for i, column in enumerate(rowset.columns):
        name = asked.names[i] if fits and asked.names[i] != "?column?" else column.name
        whole = fits and asked.counts[i]
        shown.append(Shown(name, i, "value", whole))
        if intervals and column.noisy:
            shown += [Shown(f"{name}_{part}", i, part, whole) for part in _ENDS]
    return tuple(shown)


def columns_of(shown: Sequence[Shown], rowset: Rowset) -> tuple[Column, ...]:
    """Names and types of the columns of a result."""
    return tuple(Column(one.name, _oid(one, rowset.columns[one.source])) for one in shown)


def _oid(one: Shown, column: RowsetColumn) -> int:
    if one.part != "value" and not column.noisy:
        raise Problem("42883", f"{one.part}({column.name}) is about a number that was measured, and this is public")
    if one.whole:
        return INT8
    return FLOAT8 if one.part != "value" else _OIDS[column.type]


def rows_of(shown: Sequence[Shown], rowset: Rowset, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """The rows of a result, each value as the type of its column needs it."""
    cells = [_cells(one, rowset.columns[one.source], column) for one, column in zip(shown, columns, strict=True)]
    return list(zip(*cells, strict=True)) if cells else []


def _cells(one: Shown, column: RowsetColumn, to: Column) -> list[Any]:
    found = {"value": column.values, "low": column.low, "high": column.high}[one.part] or ()
    return [_fitted(value, to.oid, one) for value in found]


def _fitted(value: Any, oid: int, one: Shown) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if oid == INT8:
        return _ROUNDED[one.part](value) if math.isfinite(value) else None
    if oid == FLOAT8:
        return float(value)
    return str(value) if oid == TEXT else value


def ask(table: ServedTable, principal: Principal, asked: Question, settings: Settings, purse: Purse) -> Answered:
    """Ask the session, within the cap of the analyst."""
    given = {"alpha": settings.alpha, "confidence": settings.confidence}
    price = table.explain(principal, asked.text, **given).cost
    left = purse.left(table, settings.max_cost) if price.units else None
    if left is not None and price.units > left:
        cap = table.curator.budget.accountant.loss(left, table.curator.budget.delta)
        raise Problem(
            "53400",
            f"this question costs up to {price}, more than is left of your cap on {table.name!r} here",
            detail=f"{cap} is left of what you may spend on PostgreSQL connections, all together; nothing was charged",
            hint="SET maquette.max_cost = a larger epsilon, or 'unlimited'; SHOW maquette.budget tells what remains",
        )
    answer = table.ask(
        principal,
        asked.text,
        request=settings.take_request(),
        **{name: value for name, value in given.items() if value is not None},
    )
    if price.units:  # an answer that is told again under a request's name tells its old cost again
        purse.pay(table, answer.cost.units)
    return answer


def result_of(
    asked: Question, answer: Answered, *, intervals: bool, columns: tuple[Column, ...] | None, release: Release | None
) -> Result:
    """An answer as a result; with the columns that Describe has told, if it was called."""
    rowset = answer.rowset
    shown = layout(asked, rowset, intervals=intervals)
    if columns is None or len(columns) != len(shown):
        columns = columns_of(shown, rowset)
    rows = rows_of(shown, rowset, columns)
    return Result(f"SELECT {len(rows)}", columns, rows, notices=[told(answer, release)])


def told(answer: Answered, release: Release | None) -> Any:
    """What an answer has cost, where it comes from, and what is promised."""
    routes = {
        "cache": "answered before",
        "derived": "derived from what was measured before",
        "hypothesis": "answered by the public model",
        "measured": "measured",
    }
    how = "answered by a release" if release is not None else routes[answer.source]
    price = f"cost {answer.cost}" if answer.cost.units else "free"
    # A recorded answer remembers what remained when it was bought, which is not what remains now.
    left = f"; {answer.remaining} remains" if answer.cost.units and answer.remaining is not None else ""
    from maquette.answers import WIDER

    guess = "NOT PROMISED: what is known and the public model say so, and they may be wrong"
    promise = answer.guarantee or (WIDER if any(one.wider for one in answer.numbers) else guess)
    return notice(f"{how}: {price}{left}", detail=f"{promise} (intervals at {answer.confidence:.0%})")
