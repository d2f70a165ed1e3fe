"""Unpacking: how much an uploaded file becomes once it is unpacked, found before anything reads it as a table.

A file of kilobytes can hold gigabytes: compressed lines, a column of one value repeated, a spreadsheet with one cell in
its first and one in its last corner, between which the reader keeps every cell, or one long text that many cells name.
Everything here is read piece by piece.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from xml.parsers import expat

from maquette.errors import UnreadableSource

_BLOCK = 2**18
_CELL = 32  # bytes of a cell of a spreadsheet as its reader keeps it
_PLACE = re.compile(r"([A-Za-z]{1,9})([0-9]{1,18})")
_SHEET, _XML = b"sheetData", (".xml", ".rels")


def refuse_large(path: Path, most: int) -> None:
    """Refuse a file that becomes more than `most` bytes."""
    if path.name.endswith(".gz"):
        with suppress(OSError, EOFError, zlib.error), gzip.open(path, "rb") as file:  # told by whoever reads the table
            _count(file, most)
    elif path.name.endswith(".parquet"):
        _refuse_parquet(path, most)
    elif path.name.endswith(".xlsx"):
        try:
            _refuse_sheets(path, most)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError, expat.ExpatError):
            raise _spoilt(path) from None


def _count(file: gzip.GzipFile, most: int) -> None:
    read = 0
    while block := file.read(_BLOCK):
        read += len(block)
        if read > most:
            raise _large(most)


def _refuse_parquet(path: Path, most: int) -> None:
    """By what the file says of itself; each value takes at least a byte once the table is open."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(pa.ArrowException, OSError):
        facts = pq.read_metadata(path)
        packed = (facts.row_group(place).total_byte_size for place in range(facts.num_row_groups))
        if max(facts.num_rows * max(1, facts.num_columns), sum(packed)) > most:
            raise _large(most)


def _refuse_sheets(path: Path, most: int) -> None:
    with zipfile.ZipFile(path) as book:
        sizes: list[int] = []
        read = 0
        for looked_at in ("texts", "cells"):  # what cells may name comes first, wherever it stands
            for part in book.infolist():
                texts = _Texts()
                for block in _parsed(book, part, texts if looked_at == "texts" else _Cells(most, sizes)):
                    read += len(block)
                    if read > 2 * most:  # read twice
                        raise _large(most)
                sizes = [max(pair) for pair in zip_longest(sizes, texts.sizes, fillvalue=0)]


def _parsed(book: zipfile.ZipFile, part: zipfile.ZipInfo, reader: _Reader) -> Iterator[bytes]:
    """The blocks of a part, each given to a reader; what is no XML and holds no sheet is only counted."""
    parser, kept, broken = reader.parser(), b"", False
    with book.open(part) as file:
        while block := file.read(_BLOCK):
            yield block
            try:
                if not broken:
                    parser.Parse(block)
            except expat.ExpatError:
                broken = True
            if broken and (part.filename.lower().endswith(_XML) or _SHEET in kept + block):
                raise expat.ExpatError
            kept = block[-len(_SHEET) :]


class _Reader:
    """Handlers of one pass over XML; names without their prefix."""

    def parser(self) -> expat.XMLParserType:
        """A parser that calls these handlers."""
        made = expat.ParserCreate()
        made.buffer_text = True
        made.StartElementHandler = lambda name, facts: self.start(name.rpartition(":")[2], facts)
        made.EndElementHandler = lambda name: self.end(name.rpartition(":")[2])
        made.CharacterDataHandler = self.text
        return made

    def start(self, name: str, facts: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, content: str) -> None:
        """Text inside of an element."""


class _Texts(_Reader):
    """The sizes of the texts that cells may name."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def start(self, name: str, facts: dict[str, str]) -> None:
        if name == "si":
            self.sizes.append(0)

    def text(self, content: str) -> None:
        if self.sizes:
            self.sizes[-1] += len(content)


class _Cells(_Reader):
    """The corners of a sheet's cells, and the texts that they name."""

    def __init__(self, most: int, sizes: list[int]) -> None:
        self._most, self._sizes = most, sizes
        self._row = self._column = self._named = 0
        self._shared = self._inside = False
        self._number = ""
        self._ends: tuple[int, int, int, int] | None = None

    def start(self, name: str, facts: dict[str, str]) -> None:
        if name == "row":
            self._row, self._column = int(facts["r"][:18]) if facts.get("r", "").isdecimal() else self._row + 1, 0
        elif name == "c":
            place = _PLACE.fullmatch(facts.get("r", ""))
            self._column += 1
            if place is not None:
                self._column, self._row = _column(place[1]), int(place[2])
            self._shared = facts.get("t") == "s"
        elif name in {"v", "is", "f"}:
            self._inside, self._number = name == "v", ""
            self._held()

    def text(self, content: str) -> None:
        if self._inside and len(self._number) < _BLOCK:
            self._number += content

    def end(self, name: str) -> None:
        if name == "v":
            self._inside = False
            if self._shared and self._number.strip().isdecimal():
                self._named += self._size(int(self._number.strip()[:18]))
                if self._named > self._most:
                    raise _large(self._most)

    def _size(self, place: int) -> int:
        return self._sizes[place] if place < len(self._sizes) else 0

    def _held(self) -> None:
        row, column = self._row, self._column
        top, left, bottom, right = self._ends or (row, column, row, column)
        top, left, bottom, right = self._ends = min(top, row), min(left, column), max(bottom, row), max(right, column)
        if (bottom - top + 1) * (right - left + 1) * _CELL > self._most:
            raise _large(self._most)


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - 64
    return number


def _large(most: int) -> UnreadableSource:
    return UnreadableSource(
        f"the file becomes more than {most:,} bytes once it is unpacked",
        expected="at most `unpacked_bytes` of the service's limits",
        advice="Leave out columns, save a spreadsheet without far cells, or open the table from the service's settings",
    )


def _spoilt(path: Path) -> UnreadableSource:
    return UnreadableSource(
        f"{path.name!r} cannot be read as a spreadsheet",
        advice="It may be protected by a password, or not be an Excel file. Save it again, or save it as CSV UTF-8",
    )
