"""Sources of rows: files, data frames and databases, all as a DuckDB relation whose columns have known names.

Nothing is inferred from the data: CSV is read as text with a declared delimiter, and the schema turns text into codes.
Messages never quote a row; the engine's own errors may, so they are not passed on.
"""

from __future__ import annotations

import csv
import difflib
import glob
import gzip
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from maquette.errors import SchemaError, UnreadableSource
from maquette.schema import DELIMITERS, as_arrow, column_names, complaint, quoted, texts

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
_CSV = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_KINDS = (
    "a CSV (.csv, .tsv, .txt, also .gz) or Parquet path, an Arrow table or dataset, a pandas or polars frame, "
    "duckdb://file.db?table=name, a DuckDB relation, or a DuckDB connection with query="
)


@dataclass(frozen=True)
class Source:
    """Rows that can be read again: a relation, and the names its columns have in the source, in order."""

    relation: duckdb.DuckDBPyRelation
    names: Sequence[str]

    def identifiers(self, needed: Sequence[str]) -> dict[str, str]:
        """The SQL identifier of each needed column; DuckDB may rename columns that differ in case only."""
        check_columns(needed, self.names)
        engine_names = dict(zip(self.names, self.relation.columns, strict=True))
        return {name: _identifier(engine_names[name]) for name in needed}


def read_source(
    engine: duckdb.DuckDBPyConnection, source: Any, needed: Sequence[str], query: str | None, delimiter: str | None
) -> Source:
    """Open any supported source; `engine` is our own connection, for sources without one of their own."""
    import duckdb

    if isinstance(source, str) and source.startswith("duckdb://"):
        return _database(engine, source, query)
    if isinstance(source, duckdb.DuckDBPyConnection):
        return _query(source, query)
    if query is not None:
        raise UnreadableSource(
            "query= is for DuckDB sources only", advice="give duckdb://file.db or a DuckDB connection"
        )
    if isinstance(source, duckdb.DuckDBPyRelation):
        return Source(source, source.columns)
    if isinstance(source, str | Path):
        return _files(engine, str(source), needed, delimiter)
    return _frame(engine, source, needed)


def check_columns(needed: Sequence[str], present: Sequence[str]) -> None:
    """Refuse a source that lacks a needed column or has it twice; the error suggests similar names."""
    twice = [name for name in needed if list(present).count(name) > 1]
    if twice:
        raise UnreadableSource(f"the source has several columns named {', '.join(twice)}", advice="rename all but one")
    missing = [name for name in needed if name not in present]
    if missing:
        hints = [(name, difflib.get_close_matches(name, present, n=1)) for name in missing]
        nearest = "; ".join(f"{name!r} is near {close[0]!r}" for name, close in hints if close)
        raise UnreadableSource(
            f"the source lacks {', '.join(map(repr, missing))}; it has {', '.join(map(repr, present)) or 'no columns'}"
            + (f" ({nearest})" if nearest else ""),
            advice="Rename columns in the schema or in the source",
        )


def reading(what: str, read: Callable[[], T]) -> T:
    """Replace an engine's error by ours, which quotes no row: it has at most a line number of a CSV.

    Ours is raised outside the handler of the engine's error, so that no exception in its chain holds the engine's text.
    """
    import duckdb
    import pyarrow as pa

    try:
        return read()
    except (duckdb.Error, pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        refusal = UnreadableSource(f"cannot read {what}{complaint(error)}")
    raise refusal


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _files(engine: duckdb.DuckDBPyConnection, pattern: str, needed: Sequence[str], delimiter: str | None) -> Source:
    paths = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
    paths = [path for path in paths if Path(path).is_file()]
    if not paths:
        raise UnreadableSource(f"no file matches {pattern!r}", expected=_KINDS)
    suffixes = {Path(path.removesuffix(".gz")).suffix.lower() for path in paths}
    if suffixes <= set(_PARQUET):
        return _parquet(engine, paths)
    if suffixes <= set(_CSV):
        return _csv(engine, paths, needed, delimiter)
    raise UnreadableSource(f"{pattern!r} is neither CSV nor Parquet by its name", expected=_KINDS)


def _parquet(engine: duckdb.DuckDBPyConnection, paths: list[str]) -> Source:
    import pyarrow.parquet as pq

    return reading(
        f"{paths[0]!r} as Parquet",
        lambda: Source(engine.read_parquet(paths, hive_partitioning=False), pq.read_schema(paths[0]).names),
    )


def _csv(engine: duckdb.DuckDBPyConnection, paths: list[str], needed: Sequence[str], delimiter: str | None) -> Source:
    """Files are grouped by header, and each group is read with its own header, so that column order may differ."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for path in paths:
        tabs = Path(path.removesuffix(".gz")).suffix.lower() == ".tsv"
        separator = delimiter or ("\t" if tabs else ",")
        groups.setdefault((_header(path, separator), separator), []).append(path)
    relation = None
    for (header, separator), files in groups.items():
        _check_header(needed, header, files[0])
        chosen = ", ".join(f"c{header.index(name)} AS c{i}" for i, name in enumerate(needed))
        part = texts(engine, files, len(header), separator).project(chosen)
        relation = part if relation is None else relation.union(part)
    assert relation is not None
    return Source(relation, needed)


def _header(path: str, delimiter: str) -> tuple[str, ...]:
    opened = gzip.open if path.endswith(".gz") else open

    def first_line() -> list[str] | None:
        with opened(path, "rb") as file:
            lines = (line.decode("utf-8-sig") for line in file)  # line by line: a fault below is not in the header
            return next(csv.reader(lines, delimiter=delimiter), None)

    header = reading(f"the header of {path!r}", first_line)
    if not header:
        raise UnreadableSource(f"{path!r} is empty", expected="a header line with the column names")
    return tuple(name.strip() for name in header)


def _check_header(needed: Sequence[str], header: Sequence[str], path: str) -> None:
    """Refuse a header that lacks needed columns. A line with none of them may be a row, so it is not quoted."""
    if set(needed).isdisjoint(header):
        hint = "does it have a header? Names must agree, in upper and lower case too"
        if len(header) == 1 and (likely := [mark for mark in DELIMITERS if mark in header[0]]):
            hint = f"is the delimiter {likely[0]!r}? pass delimiter={likely[0]!r}"
        raise UnreadableSource(f"none of the schema's columns is in the first line of {path!r}", advice=hint)
    check_columns(needed, header)


def _frame(engine: duckdb.DuckDBPyConnection, source: Any, needed: Sequence[str]) -> Source:
    import pyarrow as pa

    datasets = sys.modules.get("pyarrow.dataset")  # importing it would import pandas; a dataset's owner has imported it
    if datasets is not None and isinstance(source, datasets.Dataset):
        return Source(engine.from_arrow(source), source.schema.names)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    table = None
    with suppress(SchemaError):
        check_columns(needed, column_names(source))
        table = as_arrow(source, needed)
    if table is None:
        raise UnreadableSource(f"cannot read rows from {type(source).__name__}", expected=_KINDS)
    chosen = table.select(list(needed)).rename_columns([f"c{i}" for i in range(len(needed))])
    return Source(engine.from_arrow(chosen), needed)


def _database(engine: duckdb.DuckDBPyConnection, url: str, query: str | None) -> Source:
    import duckdb

    parts = urlsplit(url)
    path = unquote(parts.netloc + parts.path)
    if not Path(path).is_file():
        raise UnreadableSource(
            f"there is no database file {path!r}", expected="duckdb://file.db or duckdb:///abs/file.db"
        )
    attached = False
    with suppress(duckdb.Error):
        engine.execute(f"ATTACH {quoted(path)} AS source (READ_ONLY)")
        engine.execute("USE source")
        attached = True
    if not attached:
        raise UnreadableSource(
            f"cannot open {path!r} as a DuckDB database", advice="close other connections that write to it"
        )
    table = parse_qs(parts.query).get("table", [None])[0]
    if (table is None) == (query is None):
        raise UnreadableSource("name one thing to read: duckdb://file.db?table=name, or query='SELECT ...'")
    if table is not None:
        tables = [row[0] for row in engine.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        if table not in tables:
            raise UnreadableSource(
                f"{path!r} has no table {table!r}", advice=f"it has {', '.join(sorted(tables)) or 'none'}"
            )
        query = f"SELECT * FROM {_identifier(table)}"
    return _query(engine, query)


def _query(engine: duckdb.DuckDBPyConnection, query: str | None) -> Source:
    import duckdb

    if query is None:
        raise UnreadableSource("a DuckDB connection needs query='SELECT ...' to say which rows")
    refusal = None
    try:
        relation = engine.sql(query)
    except duckdb.Error as error:
        refusal = str(error).splitlines()[0]
    if refusal is not None:
        raise UnreadableSource(f"DuckDB refuses the query: {refusal}")
    if relation is None:
        raise UnreadableSource("the query returns no rows", expected="one SELECT statement")
    return Source(relation, relation.columns)
