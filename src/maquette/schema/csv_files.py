"""CSV files and spreadsheets: values as text, the delimiter from the header, a bad line named by its number."""

from __future__ import annotations

import csv
import glob
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.errors import UnreadableSource
from maquette.schema.encodings import opened
from maquette.schema.file_format import UTF8, FileFormat
from maquette.schema.row_streams import Row, RowStream, csv_rows, wrong_fields
from maquette.schema.spreadsheets import SHEETS, Sheet

if TYPE_CHECKING:
    import duckdb

DELIMITERS = ",;\t|"
CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
_NOT_OPENED = "it cannot be opened, or is not the kind of file that its name suggests"
NAMED = "CSV (.csv, .tsv, .txt, also .gz), Excel (.xlsx) nor Parquet"


@dataclass(frozen=True)
class Group:
    """Files with the same header."""

    header: tuple[str, ...]
    delimiter: str
    paths: tuple[str, ...]

    @property
    def sheets(self) -> bool:
        """Whether the files are spreadsheets."""
        return kind_of(self.paths[0]) in SHEETS


def kind_of(path: str) -> str:
    """The ending of a file's name, in small letters, without .gz."""
    return Path(path.removesuffix(".gz")).suffix.lower()


def files_of(pattern: str) -> list[str]:
    """The files that a path, a glob or a directory stands for, in order of name, without hidden ones."""
    root = Path(pattern)
    if root.is_file():
        return [pattern]
    if not root.is_dir():
        return [path for path in sorted(glob.glob(pattern, recursive=True)) if Path(path).is_file()]
    below = (path for path in root.rglob("*") if path.is_file())
    data = [p for p in below if not any(part.startswith((".", "_")) for part in p.relative_to(root).parts)]
    return sorted(map(str, data))


def nothing_at(pattern: str) -> str:
    """What to say of a path at which there is no file."""
    if Path(pattern).is_dir():
        return f"{pattern!r} is a folder without files"
    return f"no file matches {pattern!r}" if glob.has_magic(pattern) else f"there is no file {pattern!r}"


def grouped(paths: Sequence[str], file: FileFormat, *, detect: bool = False) -> list[Group]:
    """Files by header, so that the order of columns may differ; `detect` finds the delimiter in each header."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for path in paths:
        groups.setdefault(_header(path, file, detect=detect), []).append(path)
    return [Group(header, delimiter, tuple(files)) for (header, delimiter), files in groups.items()]


def _header(path: str, file: FileFormat, *, detect: bool) -> tuple[tuple[str, ...], str]:
    if kind_of(path) in SHEETS:
        return Sheet(path, file).header, ""
    if file.sheet is not None:
        raise UnreadableSource(
            f"{path!r} is no spreadsheet, so it has no sheet {file.sheet!r}",
            advice="leave out `sheet` (in a schema it stands under [file]), or name the spreadsheet",
        )
    delimiter = file.delimiter or ("\t" if kind_of(path) == ".tsv" else ",")
    if detect and file.delimiter is None:
        delimiter = delimiter_of(header_line(path, file))
    if file.names is not None:
        return tuple(file.names), delimiter
    header = next(csv.reader(lines_of(path, file), delimiter=delimiter), None)
    if not header:
        raise UnreadableSource(f"{path!r} is empty", expected="a header line with the column names")
    return tuple(name.strip() for name in header), delimiter


def lines_of(path: str, form: FileFormat) -> Iterator[str]:
    """The lines of a file from its header on, decoded one by one: a fault further down is not in the header."""
    with opened(path) as file:
        if form.encoding in (None, UTF8):
            yield from (line.decode("utf-8-sig") for line in itertools.islice(file, form.skip, None))
        else:
            decoded = io.TextIOWrapper(file, encoding=form.encoding, newline="")
            yield from itertools.islice(decoded, form.skip, None)


def read_group(
    engine: duckdb.DuckDBPyConnection, group: Group, file: FileFormat
) -> tuple[duckdb.DuckDBPyRelation, RowStream | None]:
    """The rows of files with one header as text columns c0, c1, ...; the stream that they come from, if they do."""
    if not group.sheets and file.encoding in (None, UTF8):
        return texts(engine, group, file), None

    def rows() -> Iterator[Row]:
        for path in group.paths:
            if group.sheets:
                yield from Sheet(path, file).rows()
            else:
                width = len(file.names or ())
                yield from csv_rows(path, file.encoding or UTF8, group.delimiter, skip=file.skip or 0, width=width)

    stream = RowStream(len(group.header), rows)
    return engine.from_arrow(stream.reader()), stream


def read_draft(
    engine: duckdb.DuckDBPyConnection, paths: Sequence[str], file: FileFormat
) -> tuple[duckdb.DuckDBPyRelation, tuple[str, ...], str]:
    """The rows of files as a table of texts c0, c1, ..., the column names, and the delimiter of CSV files.

    Files may differ in the order of their columns, not in the columns.
    """
    first, *others = grouped(paths, file, detect=True)
    for other in others:
        if sorted(other.header) != sorted(first.header):
            raise UnreadableSource(
                f"{other.paths[0]!r} and {first.paths[0]!r} have different headers",
                advice="draft the schema from one of them, or give both the same header",
            )
    for group in (first, *others):
        relation, stream = read_group(engine, group, file)
        chosen = ", ".join(f"c{group.header.index(name)} AS c{i}" for i, name in enumerate(first.header))
        part = relation if group.header == first.header else relation.project(chosen)
        try:
            if group is first:
                part.create("rows")  # read once: every column is used several times
            else:
                part.insert_into("rows")
        finally:
            if stream is not None and stream.failure is not None:
                raise UnreadableSource(f"cannot read {stream.failure}")
    return engine.table("rows"), first.header, first.delimiter


def texts(engine: duckdb.DuckDBPyConnection, group: Group, file: FileFormat) -> duckdb.DuckDBPyRelation:
    """The rows of files with the same header as text columns c0, c1, ...; no types are inferred."""
    return engine.read_csv(
        list(group.paths),  # type: ignore[arg-type]  # several files at once, which the stub does not allow
        header=file.names is None,
        skiprows=file.skip or 0,
        auto_detect=False,
        columns={f"c{i}": "VARCHAR" for i in range(len(group.header))},
        delimiter=group.delimiter,
        quotechar='"',
        escapechar='"',
    )


def delimiter_of(header: str) -> str:
    """The delimiter of a header: the most frequent of comma, semicolon, tab and vertical bar."""
    return max(DELIMITERS, key=header.count)


def header_line(path: str, form: FileFormat) -> str:
    """The line of a CSV file that names its columns, or the first row where the columns are declared."""
    try:
        header = next(lines_of(path, form), "").strip("\r\n")
    except (OSError, EOFError):
        raise UnreadableSource(f"cannot read {path!r}: {_NOT_OPENED}") from None
    if not header.strip():
        what = f"{path!r}: line {form.skip + 1} is empty" if form.skip else f"{path!r}: the file is empty"
        raise UnreadableSource(what, expected="a header line with the column names")
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
            'it is not UTF-8 text. Declare its encoding under [file] in the schema, for example encoding = "cp1252"; '
            "`maquette schema guess` detects it. Or save it as UTF-8 (spreadsheet programs call it CSV UTF-8)"
        )
    elif isinstance(error, OSError | EOFError):
        why = _NOT_OPENED
    elif fields:
        why = wrong_fields(int(fields[2]), int(fields[1]))
    else:
        why = "it is not a well-formed table. Check it with the tool that wrote it"
    return f"{where}: {why}"
