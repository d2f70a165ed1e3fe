"""COPY ... TO STDOUT: rows as text, CSV or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from maquette.service.pgwire.commands import Words
from maquette.service.pgwire.plans import CopyFormat
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import Column, as_text, encode

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v"})
_OPTIONS = ("FORMAT", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "ENCODING", "FORCE_QUOTE", "CSV", "BINARY")


def read_format(words: Words) -> CopyFormat:
    """The options after TO STDOUT, in the new form (FORMAT csv, HEADER) or the old one (CSV HEADER)."""
    words.accept("WITH")
    bracketed = words.accept("(")
    given: dict[str, str] = {}
    while words.peek() not in ("", ")"):
        name = words.next()
        if name not in _OPTIONS:
            raise Problem("42601", f'COPY does not know the option "{name[:40]}"')
        if name in ("CSV", "BINARY"):
            given["FORMAT"] = name
        elif name == "HEADER":
            off = words.peek() in ("FALSE", "OFF", "0")
            given["HEADER"] = "" if off else "on"
            if words.peek() in ("TRUE", "ON", "1", "FALSE", "OFF", "0"):
                words.next()
        else:
            words.accept("AS")
            given[name] = words.next()
        words.accept(",")
    if bracketed:
        words.accept(")")
    words.end()
    return _format(given)


def _format(given: dict[str, str]) -> CopyFormat:
    form = given.get("FORMAT", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise Problem("22023", f'COPY format "{form[:40]}" not recognized', detail="expected text, csv or binary")
    delimiter = given.get("DELIMITER", "," if form == "csv" else "\t")
    quote = given.get("QUOTE", '"')
    if len(delimiter) != 1 or delimiter in '\n\r\\"' or len(quote) != 1 or quote == delimiter:
        raise Problem("22023", "a delimiter and a quote of COPY are one letter each, and differ")
    null = given.get("NULL", "" if form == "csv" else "\\N")
    return CopyFormat(form, delimiter, null, bool(given.get("HEADER")), quote)


def written(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]], form: CopyFormat) -> Iterator[bytes]:
    """The pieces of a COPY: one for each row."""
    if form.form == "binary":
        head = _SIGNATURE  # in one piece with the first row, as PostgreSQL sends it
        for row in rows:
            cells = [encode(value, column.oid, 1) for value, column in zip(row, columns, strict=True)]
            body = [b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
            yield head + struct.pack("!h", len(cells)) + b"".join(body)
            head = b""
        yield head + struct.pack("!h", -1)
        return
    if form.header:
        yield _line([column.name for column in columns], form)
    for row in rows:
        texts = [
            None if encode(value, column.oid, 0) is None else as_text(value, column.oid)
            for value, column in zip(row, columns, strict=True)
        ]
        yield _line(texts, form)


def _line(cells: Sequence[str | None], form: CopyFormat) -> bytes:
    wrap = _quoted if form.form == "csv" else _escaped
    return (form.delimiter.join(form.null if cell is None else wrap(cell, form) for cell in cells) + "\n").encode()


def _quoted(text: str, form: CopyFormat) -> str:
    plain = text != form.null and not any(sign in text for sign in (form.delimiter, form.quote, "\n", "\r"))
    return text if plain else form.quote + text.replace(form.quote, form.quote * 2) + form.quote


def _escaped(text: str, form: CopyFormat) -> str:
    escaped = text.translate(_ESCAPES)
    return escaped if form.delimiter == "\t" else escaped.replace(form.delimiter, "\\" + form.delimiter)
