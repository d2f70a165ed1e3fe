"""Statements that are neither questions nor about the catalogue: settings, transactions, cursors.

They are read from their tokens by one small grammar; sqlglot does not know most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from maquette.service.pgwire.plans import Plan, Result, notice
from maquette.service.pgwire.script import Piece
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import TEXT, Column

if TYPE_CHECKING:
    from maquette.service.pgwire.desk import Desk

MAX_CURSORS = 100
_ENDS = ("COMMIT", "END", "ROLLBACK", "ABORT")
_WRITES = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "COMMENT"),
    *("VACUUM", "ANALYZE", "ANALYSE", "REINDEX", "CLUSTER", "REFRESH", "LOCK", "CALL", "DO", "IMPORT", "REASSIGN"),
    *("SECURITY", "NOTIFY", "LISTEN", "LOAD", "CHECKPOINT", "PREPARE", "EXECUTE"),
)


@dataclass
class Cursor:
    """An SQL cursor: rows that were answered once, and how many were fetched."""

    result: Result
    at: int = 0


class Words:
    """The words of a statement, one after the other."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.tokens = piece.tokens
        self.words = piece.words
        self.at = 0

    def peek(self) -> str:
        """The next word; empty at the end."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def next(self) -> str:
        """Take the next word."""
        word = self.peek()
        self.at += 1
        return word

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        if self.words[self.at : self.at + len(words)] == words:
            self.at += len(words)
            return True
        return False

    def name(self) -> str:
        """A name, which may have dots: as written if quoted, else in small letters."""
        parts = [self._part()]
        while self.accept("."):
            parts.append(self._part())
        return ".".join(parts)

    def _part(self) -> str:
        if self.at >= len(self.tokens):
            raise Problem("42601", "syntax error at end of input")
        token = self.tokens[self.at]
        self.at += 1
        return token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()

    def rest(self) -> str:
        """The text that is left."""
        if self.at >= len(self.tokens):
            return ""
        return self.piece.text[self.tokens[self.at].start :]

    def end(self) -> None:
        """Refuse what is left."""
        if self.at < len(self.words):
            raise Problem(
                "42601",
                f'syntax error at or near "{self.tokens[self.at].text[:40]}"',
                position=self.tokens[self.at].start + 1,
            )


def command(desk: Desk, piece: Piece) -> Plan | None:
    """The plan of a statement of this kind; None for any other."""
    words = Words(piece)
    first = words.next()
    reader = _READERS.get(first)
    if reader is not None:
        return reader(desk, words, piece)
    if first in _WRITES:
        raise Problem(
            "0A000" if first in ("PREPARE", "EXECUTE", "LISTEN", "NOTIFY") else "25006",
            f"{first} is not possible here: nothing can be written",
            hint="ask with SELECT; EXPLAIN SELECT tells the price first",
        )
    return None


def _done(tag: str) -> Callable[[Sequence[Any]], Result]:
    return lambda values: Result(tag)


def _begin(desk: Desk, words: Words, piece: Piece) -> Plan:
    if words.piece.words[0] == "START" and not words.accept("TRANSACTION"):
        raise Problem("42601", "syntax error: START TRANSACTION")

    def run(values: Sequence[Any]) -> Result:
        again = desk.transaction != "I"
        desk.transaction = "T"
        return Result("BEGIN", notices=[notice("there is already a transaction in progress")] if again else [])

    return Plan(piece.text, run)


def _finish(desk: Desk, words: Words, piece: Piece) -> Plan:
    word = piece.words[0]
    words.accept("TRANSACTION") or words.accept("WORK")
    if word == "ROLLBACK" and words.accept("TO"):
        return Plan(piece.text, _to_savepoint(desk), ends=True)

    def run(values: Sequence[Any]) -> Result:
        failed = desk.transaction == "E"
        desk.transaction = "I"
        desk.close_cursors()
        return Result("ROLLBACK" if failed or word in ("ROLLBACK", "ABORT") else "COMMIT")

    return Plan(piece.text, run, ends=True)


def _to_savepoint(desk: Desk) -> Callable[[Sequence[Any]], Result]:
    def run(values: Sequence[Any]) -> Result:
        if desk.transaction == "I":
            raise Problem("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
        desk.transaction = "T"
        return Result("ROLLBACK")

    return run


def _savepoint(desk: Desk, words: Words, piece: Piece) -> Plan:
    return Plan(piece.text, _done(piece.words[0]))


def _set(desk: Desk, words: Words, piece: Piece) -> Plan:
    words.accept("SESSION") or words.accept("LOCAL")
    if words.accept("TRANSACTION") or words.accept("CHARACTERISTICS"):
        return Plan(piece.text, _done("SET"))
    name = "timezone" if words.accept("TIME", "ZONE") else words.name()
    if not (words.accept("TO") or words.accept("=")) and name not in ("timezone", "names", "role", "session"):
        raise Problem("42601", f"syntax error: SET {name} = value")
    value = _value(words)

    def run(values: Sequence[Any]) -> Result:
        return Result("SET", changed=desk.settings.set(name, value))

    return Plan(piece.text, run)


def _value(words: Words) -> str | None:
    parts = []
    while words.at < len(words.tokens):
        token = words.tokens[words.at]
        words.at += 1
        if token.token_type == TokenType.COMMA:
            parts.append(", ")
        else:
            parts.append(token.text)
    if not parts:
        raise Problem("42601", "syntax error at end of input")
    joined = "".join(parts)
    return None if joined.upper() == "DEFAULT" and words.tokens[-1].token_type != TokenType.STRING else joined


def _reset(desk: Desk, words: Words, piece: Piece) -> Plan:
    name = "all" if words.accept("ALL") else words.name()
    words.end()

    def run(values: Sequence[Any]) -> Result:
        if name == "all":
            desk.settings.reset()
            return Result("RESET")
        return Result("RESET", changed=desk.settings.set(name, None))

    return Plan(piece.text, run)


def _show(desk: Desk, words: Words, piece: Piece) -> Plan:
    if words.accept("ALL"):
        columns = tuple(Column(name, TEXT) for name in ("name", "setting", "description"))
        return Plan(piece.text, lambda values: _all_settings(desk, columns), lambda: columns)
    if words.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        name = "transaction_isolation"
    elif words.accept("TIME", "ZONE"):
        name = "timezone"
    else:
        name = words.name()
    words.end()
    if name.lower() == "maquette.budget":
        return desk.budget_plan(piece)
    desk.settings.show(name)
    columns = (Column(name, TEXT),)
    return Plan(piece.text, lambda values: Result("SHOW", columns, [(desk.settings.show(name),)]), lambda: columns)


def _all_settings(desk: Desk, columns: tuple[Column, ...]) -> Result:
    from maquette.service.pgwire.settings import described

    rows = [(name, desk.settings.get(name), text) for name, (_, text) in sorted(described().items())]
    return Result("SHOW", columns, rows)


def _discard(desk: Desk, words: Words, piece: Piece) -> Plan:
    what = words.next()

    def run(values: Sequence[Any]) -> Result:
        if what == "ALL":
            desk.settings.reset()
            desk.close_cursors()
            desk.forget_statements(None)
        return Result(f"DISCARD {what}")

    return Plan(piece.text, run)


def _deallocate(desk: Desk, words: Words, piece: Piece) -> Plan:
    words.accept("PREPARE")
    name = None if words.accept("ALL") else words.name()

    def run(values: Sequence[Any]) -> Result:
        desk.forget_statements(name)
        return Result("DEALLOCATE ALL" if name is None else "DEALLOCATE")

    return Plan(piece.text, run)


def _declare(desk: Desk, words: Words, piece: Piece) -> Plan:
    name = words.name()
    while words.peek() in ("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"):
        words.next()
    if not words.accept("CURSOR"):
        raise Problem("42601", "syntax error: DECLARE name CURSOR FOR SELECT")
    hold = words.accept("WITH", "HOLD")
    words.accept("WITHOUT", "HOLD")
    if not words.accept("FOR"):
        raise Problem("42601", "syntax error: DECLARE name CURSOR FOR SELECT")
    inner = desk.plan_text(words.rest())
    if inner.columns is None:
        raise Problem("42601", "a cursor is for a SELECT")

    def run(values: Sequence[Any]) -> Result:
        if not hold and desk.transaction == "I":
            raise Problem("25P01", "DECLARE CURSOR can only be used in transaction blocks", hint="BEGIN first")
        if name in desk.cursors:
            raise Problem("42P03", f'cursor "{name}" already exists')
        if len(desk.cursors) >= MAX_CURSORS:
            raise Problem("54000", f"this connection has {MAX_CURSORS} cursors already")
        result = inner.run(values)
        desk.cursors[name] = Cursor(result)
        return Result("DECLARE CURSOR", notices=result.notices)

    return Plan(piece.text, run, types=inner.types)


def _fetch(desk: Desk, words: Words, piece: Piece) -> Plan:
    move = piece.words[0] == "MOVE"
    count = _how_many(words)
    words.accept("FROM") or words.accept("IN")
    name = words.name()
    words.end()
    held = desk.cursors.get(name)
    if held is None:
        raise Problem("34000", f'cursor "{name}" does not exist')

    def run(values: Sequence[Any]) -> Result:
        if desk.cursors.get(name) is not held:
            raise Problem("34000", f'cursor "{name}" does not exist')
        last = len(held.result.rows) if count is None else min(held.at + count, len(held.result.rows))
        rows, held.at = held.result.rows[held.at : last], last
        if move:
            return Result(f"MOVE {len(rows)}")
        return Result(f"FETCH {len(rows)}", held.result.columns, rows)

    return Plan(piece.text, run, lambda: None if move else held.result.columns)


def _how_many(words: Words) -> int | None:
    """How many rows a FETCH takes; None for all."""
    words.accept("FORWARD") or words.accept("NEXT")
    if words.accept("ALL"):
        return None
    if words.peek() in ("BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "-"):
        raise Problem("0A000", "a cursor only moves forward")
    if words.peek().isdecimal():
        return int(words.next()[:9])
    return 1


def _close(desk: Desk, words: Words, piece: Piece) -> Plan:
    name = None if words.accept("ALL") else words.name()

    def run(values: Sequence[Any]) -> Result:
        if name is not None and name not in desk.cursors:
            raise Problem("34000", f'cursor "{name}" does not exist')
        desk.close_cursors(name)
        return Result("CLOSE CURSOR")

    return Plan(piece.text, run)


def _unlisten(desk: Desk, words: Words, piece: Piece) -> Plan:
    return Plan(piece.text, _done("UNLISTEN"))


def _explain(desk: Desk, words: Words, piece: Piece) -> Plan:
    if words.accept("("):
        while words.peek() not in (")", ""):
            _no_analyze(words.next())
        words.accept(")")
    while words.peek() in ("ANALYZE", "ANALYSE", "VERBOSE"):
        _no_analyze(words.next())
    return desk.explain_plan(words.rest(), piece)


def _no_analyze(word: str) -> None:
    if word in ("ANALYZE", "ANALYSE"):
        raise Problem(
            "0A000",
            "EXPLAIN ANALYZE would ask the question",
            hint="EXPLAIN alone tells price and route, free of charge",
        )


def _copy(desk: Desk, words: Words, piece: Piece) -> Plan:
    return desk.copy_plan(words, piece)


_READERS: dict[str, Callable[[Any, Words, Piece], Plan]] = {
    "BEGIN": _begin,
    "START": _begin,
    **dict.fromkeys(_ENDS, _finish),
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": _close,
    "UNLISTEN": _unlisten,
    "EXPLAIN": _explain,
    "COPY": _copy,
}
