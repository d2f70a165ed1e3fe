"""Lines above the header of a file: a title, a date of export, or Excel's `sep=;`. For drafts, which read the data.

A table is opened with the declared number of lines to skip, so that no row can change how others are read.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Sequence

from maquette.schema.csv_files import DELIMITERS, kind_of, lines_of
from maquette.schema.file_format import FileFormat
from maquette.schema.row_streams import Row
from maquette.schema.spreadsheets import SHEETS, Sheet

LOOKED_AT = 40  # lines from which the width of the table is read
_SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d.,\s]*\d[\d.,\s]*%?")


def with_titles(path: str, form: FileFormat) -> FileFormat:
    """The format of a file with the lines to skip above its header, unless they or the columns are declared."""
    if form.skip is not None or form.names is not None:
        return form
    if kind_of(path) in SHEETS:
        skip = title_lines(list(itertools.islice(Sheet(path, form).lines(), LOOKED_AT)))
        return form.changed(skip=skip) if skip else form
    lines = list(itertools.islice(lines_of(path, form), LOOKED_AT))
    named = _SEPARATOR.fullmatch(lines[0]) if lines else None
    if named is not None:
        return form.changed(skip=1, delimiter=form.delimiter or named[1])
    read = {each: _split(lines, each) for each in (DELIMITERS if form.delimiter is None else form.delimiter)}
    delimiter = max(read, key=lambda each: _columns(read[each]))  # decimal commas also divide lines, into fewer parts
    skip = title_lines(read[delimiter])
    return form.changed(skip=skip, delimiter=None if delimiter == "," else delimiter) if skip else form


def _split(lines: Sequence[str], delimiter: str) -> list[Row]:
    return [row or [None] for row in csv.reader(lines, delimiter=delimiter)]


def title_lines(rows: Sequence[Row]) -> int:
    """How many lines are above the header: those that fill at most half of the columns which most lines have.

    The header must fill every column, and with words; otherwise nothing is skipped.
    """
    columns = _columns(rows)
    if columns < 2:
        return 0
    for place, row in enumerate(rows):
        filled = [cell.strip() for cell in row if cell and cell.strip()]
        if len(filled) * 2 > columns or (len(filled) > 1 and columns < 3):
            whole = len(filled) == _width(row) >= columns and not any(map(_NUMBER.fullmatch, filled))
            return place if whole else 0
    return 0


def _columns(rows: Sequence[Row]) -> int:
    """The width that most lines have."""
    usual = Counter(_width(row) for row in rows if any(row)).most_common(1)
    return usual[0][0] if usual else 0


def _width(row: Row) -> int:
    """The number of cells up to the last that is filled."""
    return max((place for place, cell in enumerate(row, 1) if cell and cell.strip()), default=0)
