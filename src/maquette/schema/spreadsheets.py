"""Spreadsheets (.xlsx): the first row of a sheet, or the one below those to skip, names the columns.

Every cell becomes the text that a CSV would hold.

A cell has a value and a format; the value is read. So a cell that shows 12.5 % holds 0.125, one that shows 1.234,50 €
holds 1234.5, and a date is year-month-day, whatever the sheet shows. An error of a formula, such as #N/A, is no value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maquette.errors import UnreadableSource
from maquette.schema.file_format import FileFormat
from maquette.schema.raw_values import text_of
from maquette.schema.row_streams import BadRow, wrong_width

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

SHEETS = (".xlsx",)


class Sheet:
    """One sheet of a spreadsheet file: its columns and rows."""

    def __init__(self, path: str, file: FileFormat | None = None) -> None:
        file = FileFormat() if file is None else file
        self.path = path
        self._sheet, self.name, self.others = _opened(path, file.sheet)
        self._first = (file.skip or 0) + (file.names is None)  # lines above the first row
        header = file.names or next(itertools.islice(self.lines(), file.skip or 0, None), None)
        if header is None:
            raise UnreadableSource(
                f"sheet {self.name!r} of {path!r} is empty",
                expected="a first row with the column names",
                advice='name another sheet under [file] in the schema: sheet = "..."',
            )
        self.header = tuple((name or "").strip() for name in header)

    def rows(self) -> Iterator[list[str | None]]:
        """The rows below the header; rows without any value are left out."""
        for line, row in enumerate(self.lines(), 1):
            if line > self._first and len(row) != len(self.header):
                raise BadRow(wrong_width(self.path, line, len(row), len(self.header)))
            if line > self._first and any(cell is not None for cell in row):
                yield row

    def lines(self) -> Iterator[list[str | None]]:
        """All lines of the sheet, from its first that is not empty."""
        # Before 0.9 the reader crashes on a sheet without cells.
        for row in self._sheet.iter_rows() if self._sheet.height else ():
            yield [text_of(cell) for cell in row]


def _opened(path: str, name: str | None) -> tuple[CalamineSheet, str, tuple[str, ...]]:
    """A sheet, its name, and the names of the others."""
    python_calamine = _library()
    refusal = UnreadableSource(
        f"cannot read {path!r} as a spreadsheet",
        advice="It may be protected by a password, or not be an Excel file. Save it again, or save it as CSV UTF-8",
    )
    names: list[str] = []
    with suppress(python_calamine.CalamineError, OSError):
        book = python_calamine.load_workbook(path)
        names = list(book.sheet_names)
        chosen = names[0] if name is None and names else name
        if chosen in names:
            return book.get_sheet_by_name(chosen), chosen, tuple(other for other in names if other != chosen)
        refusal = UnreadableSource(f"{path!r} has no sheet {name!r}", expected=f"one of {', '.join(map(repr, names))}")
    raise refusal  # outside of the handler: no exception in its chain holds the reader's own text


def _library() -> Any:
    with suppress(ImportError):
        import python_calamine

        return python_calamine
    raise UnreadableSource(
        "spreadsheets are read through python-calamine, which is not installed",
        advice="pip install 'maquette[excel]', or save the sheet as CSV UTF-8",
    )
