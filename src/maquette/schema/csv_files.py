"""CSV files: values as text, the delimiter from the header, a bad line named by its number."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.errors import UnreadableSource

if TYPE_CHECKING:
    import duckdb

DELIMITERS = ",;\t|"


def read_csv(
    engine: duckdb.DuckDBPyConnection, paths: Sequence[str]
) -> tuple[duckdb.DuckDBPyRelation, tuple[str, ...]]:
    """The rows of CSV files as text columns c0, c1, ..., and the column names of the header."""
    first = header_line(paths[0])
    delimiter = delimiter_of(first)
    for path in paths[1:]:
        if header_line(path) != first:
            raise UnreadableSource(
                f"{path!r} and {paths[0]!r} have different headers", advice="draft from one of the two"
            )
    names = tuple(name.strip() for name in next(csv.reader([first], delimiter=delimiter)))
    texts(engine, paths, len(names), delimiter).create("rows")  # read once: every column is used several times
    return engine.table("rows"), names


def texts(
    engine: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: int, delimiter: str
) -> duckdb.DuckDBPyRelation:
    """The rows of files with the same header as text columns c0, c1, ...; no types are inferred."""
    return engine.read_csv(
        list(paths),  # type: ignore[arg-type]  # several files at once, which the stub does not allow
        header=True,
        auto_detect=False,
        columns={f"c{i}": "VARCHAR" for i in range(columns)},
        delimiter=delimiter,
        quotechar='"',
        escapechar='"',
    )


def delimiter_of(header: str) -> str:
    """The delimiter of a header: the most frequent of comma, semicolon, tab and vertical bar."""
    return max(DELIMITERS, key=header.count)


def header_line(path: str | Path) -> str:
    """The first line of a CSV file."""
    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            line = file.readline()
    except (OSError, EOFError):
        raise UnreadableSource(
            f"cannot read {str(path)!r}: it cannot be opened, or is not what its name says"
        ) from None
    header = line.decode("utf-8-sig", errors="replace").strip("\r\n")
    if not header.strip():
        raise UnreadableSource(f"{str(path)!r}: the file is empty", expected="a header line with the column names")
    return header


def unreadable(source: object, error: Exception) -> UnreadableSource:
    """An error that reveals no row: at most a line number and its number of fields, never the engine's own text."""
    what = repr(str(source)) if isinstance(source, str | Path) else f"rows from {type(source).__name__}"
    return UnreadableSource(f"cannot read {what}{complaint(error)}")


def complaint(error: Exception) -> str:
    """Where the engine stopped reading, why, and what to do. The engine's own text is not used: it may quote a row."""
    told = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", told)
    where = f" at line {line[1]}" if line else ""
    fields = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", told)
    if isinstance(error, UnicodeDecodeError) or "unicode" in told.lower():
        why = (
            "it is not UTF-8 text. Save it as UTF-8 (spreadsheets call it CSV UTF-8), or convert it, as in "
            "iconv -f latin1 -t utf-8 old.csv > new.csv"
        )
    elif fields:
        more = "more" if int(fields[2]) > int(fields[1]) else "fewer"
        why = f"it has {more} fields than the {fields[1]} of the header. Correct it; text with a delimiter needs quotes"
    else:
        why = "it is not a well-formed table. Check it with the tool that wrote it"
    return f"{where}: {why}"
