"""Rows of files that the engine cannot read itself, as Arrow batches of texts: other encodings, spreadsheets.

A stream is read once, block by block. A fault becomes `failure`, in words that quote no row: the engine's own error
about a stream that broke off is not passed on.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from maquette.schema.encodings import opened

if TYPE_CHECKING:
    import pyarrow as pa

Row = Sequence[str | None]
_BLOCK = 16_384  # rows of one batch


class BadRow(Exception):
    """A row that cannot be read; the text says where and why, and quotes nothing."""


class RowStream:
    """Text columns c0, c1, ... of rows; `failure` says in words why reading ended early."""

    def __init__(self, columns: int, rows: Callable[[], Iterator[Row]]) -> None:
        self._columns = columns
        self._rows = rows
        self.failure: str | None = None

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        import pyarrow as pa

        schema = pa.schema([(f"c{i}", pa.string()) for i in range(self._columns)])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = self._rows()
        try:
            while block := list(itertools.islice(rows, _BLOCK)):
                columns = zip(*block, strict=True)
                yield pa.record_batch([pa.array(column, type=pa.string()) for column in columns], schema=schema)
        except BadRow as error:
            self.failure = str(error)
        if self.failure is not None:
            raise OSError("the rows cannot be read")

    def hang_up(self) -> None:
        """Nothing is left open: files close with their last row, or with the stream."""


def csv_rows(path: str, encoding: str, delimiter: str, *, skip: int = 0, width: int = 0) -> Iterator[list[str | None]]:
    """The rows of a CSV file below its header; an empty field is None. With a `width` the file has no header."""
    with opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as file:
        reader = csv.reader(itertools.islice(file, skip, None), delimiter=delimiter, strict=True)
        while True:
            try:
                row = next(reader, None)
            except UnicodeDecodeError:
                raise BadRow(
                    f"{path!r}, about line {skip + reader.line_num + 1}: bytes that are not valid {encoding}. "
                    "Declare the file's encoding under [file] in the schema, as encoding = ..."
                ) from None
            except csv.Error:
                raise BadRow(f"{path!r}, line {skip + reader.line_num}: a quotation mark is never closed") from None
            if row is None:
                return
            if not width:
                width = len(row)
            elif len(row) == width:
                yield [field or None for field in row]
            elif row:  # an empty line is no row
                raise BadRow(wrong_width(path, skip + reader.line_num, len(row), width))


def wrong_width(path: str, line: int, found: int, expected: int) -> str:
    """What to say about a line with too many or too few fields."""
    return f"{path!r}, line {line}: {wrong_fields(found, expected)}"


def wrong_fields(found: int, expected: int) -> str:
    """How the number of fields differs from the header's, and what to do."""
    more = "more" if found > expected else "fewer"
    return (
        f"the line has {more} fields than the header, which has {expected}. Correct it; text that contains the "
        "delimiter must be in quotes"
    )
