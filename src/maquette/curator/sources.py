"""Sources of rows: files, data frames and databases, all as a DuckDB relation whose columns have known names.

Nothing is inferred from the data: CSV is read as text with a declared delimiter, and the schema turns text into codes.
Messages never quote a row; the engine's own errors may, so they are not passed on.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from maquette.errors import SchemaError, UnreadableSource
from maquette.schema import (
    CSV,
    DELIMITERS,
    PARQUET,
    SHEETS,
    FileFormat,
    Group,
    RowStream,
    as_arrow,
    column_names,
    complaint,
    files_of,
    grouped,
    kind_of,
    nothing_at,
    quoted,
    read_group,
)

if TYPE_CHECKING:
    import duckdb

    from maquette.curator import postgresql, sqlite

    Stream = postgresql.Stream | sqlite.Stream

T = TypeVar("T")
_ADDRESSES = "duckdb://file.db, sqlite://file.db or postgresql://host/database"
_KINDS = (
    "a CSV (.csv, .tsv, .txt, also .gz), Excel (.xlsx) or Parquet path, glob or directory, an Arrow table, dataset or "
    "stream, a pandas or polars frame, duckdb://file.db?table=name, a DuckDB relation or connection with query=, "
    "postgresql://host/database or sqlite://file.db with query=, or a Spark frame or SparkTable"
)


@dataclass(frozen=True)
class Source:
    """Rows: a relation, and the names its columns have in the source, in order; a stream can be read only once."""

    relation: duckdb.DuckDBPyRelation
    names: Sequence[str]
    once: bool = False
    server: Stream | None = None
    streams: Sequence[RowStream] = ()
    apart: Sequence[duckdb.DuckDBPyRelation] = ()

    @property
    def parts(self) -> Sequence[duckdb.DuckDBPyRelation]:
        """The rows in parts whose columns have one type each, to be encoded apart: `relation` unites their types."""
        return self.apart or (self.relation,)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        if self.server is not None:
            self.server.hang_up()
            if self.server.failure is not None:  # better than what the engine made of a stream that broke off
                raise UnreadableSource(
                    f"cannot read from {self.server.product}: {self.server.failure}", advice="Open it again"
                )

    @property
    def failure(self) -> str | None:
        """Why reading one of the files ended early, in words that quote no row."""
        return next((stream.failure for stream in self.streams if stream.failure is not None), None)

    def identifiers(self, needed: Sequence[str]) -> dict[str, str]:
        """The SQL identifier of each needed column; DuckDB may rename columns that differ in case only."""
        check_columns(needed, self.names)
        engine_names = dict(zip(self.names, self.relation.columns, strict=True))
        return {name: _identifier(engine_names[name]) for name in needed}


@contextmanager
def looked_at(source: Any, needed: Sequence[str], file: FileFormat, query: str | None = None) -> Iterator[Source]:
    """The rows, in an engine of their own: for exact numbers that the custodian's terminal alone is told."""
    import duckdb

    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        with reading("the rows", lambda: read_source(engine, source, needed, query, file)) as read:
            yield read


def read_source(
    engine: duckdb.DuckDBPyConnection, source: Any, needed: Sequence[str], query: str | None, file: FileFormat
) -> Source:
    """Open any supported source; `engine` is our own connection, for sources without one of their own."""
    import duckdb

    if isinstance(source, str) and source.startswith("duckdb://"):
        return _database(engine, source, query)
    if isinstance(source, str) and source.startswith(("postgresql://", "postgres://", "sqlite://")):
        return _streamed(engine, source, needed, query)
    if isinstance(source, duckdb.DuckDBPyConnection):
        return _query(source, query)
    if isinstance(source, str) and "://" in source:
        raise _no_such_address(source)
    if query is not None:
        raise UnreadableSource(
            "query= is for databases only",
            advice="give duckdb://file.db, sqlite://file.db, postgresql://host/database or a DuckDB connection",
        )
    if isinstance(source, duckdb.DuckDBPyRelation):
        return Source(source, source.columns)
    if isinstance(source, str | Path):
        return _files(engine, str(source), needed, file)
    return _frame(engine, source, needed)


def _no_such_address(source: str) -> UnreadableSource:
    """The refusal of an address that nothing here reads; it may hold a password, so only its kind is quoted."""
    kind = source.partition("://")[0]
    kind = kind if kind.isidentifier() and len(kind) <= 20 else "other"
    product = {"mysql": "MySQL", "mariadb": "MariaDB"}.get(kind)
    if product is not None:
        return UnreadableSource(
            f"{product} cannot be read by its address",
            expected=_ADDRESSES,
            advice=f"ATTACH the database in a DuckDB connection whose mysql extension is installed, and give that "
            f"connection with query='SELECT ...'; or export the {product} table to Parquet",
        )
    return UnreadableSource(
        f"addresses that begin with {kind}:// cannot be read",
        expected=_ADDRESSES,
        advice="copy the file here, or give the rows as Arrow record batches",
    )


def check_columns(needed: Sequence[str], present: Sequence[str]) -> None:
    """Refuse a source that lacks a needed column or has it twice; the error suggests similar names."""
    twice = [name for name in needed if list(present).count(name) > 1]
    if twice:
        raise UnreadableSource(f"the source has several columns named {', '.join(twice)}", advice="rename all but one")
    missing = [name for name in needed if name not in present]
    if missing:
        hints = [(name, difflib.get_close_matches(name, present, n=1)) for name in missing]
        nearest = "; ".join(f"{name!r} is similar to {close[0]!r}" for name, close in hints if close)
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


def reading_rows(read: Callable[[], T], sources: Sequence[Source]) -> T:
    """`reading`, where `read` opens sources: a stream of rows that broke off says better than the engine why."""
    failure = None
    try:
        return reading("the rows", read)
    except UnreadableSource:
        failure = next((source.failure for source in sources if source.failure is not None), None)
        if failure is None:
            raise
    raise UnreadableSource(f"cannot read {failure}")


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def name_of(source: object) -> str | None:
    """The name of a table in SQL: that of its file, or of the table in a database; None where it has no plain name."""
    if not isinstance(source, str | Path):
        return None
    address = urlsplit(str(source)) if "://" in str(source) else None
    name = Path(source).stem if address is None else dict(parse_qsl(address.query)).get("table", "")
    return name if name.isidentifier() else None


def content_of(source: object) -> str | None:
    """A digest of the bytes of a source of files; None if the source is not made of files.

    The log of a lake decides which of its files count, so that files alone do not tell whether its rows are the same.
    """
    if not isinstance(source, str | Path) or "://" in str(source) or _lake_kind(Path(source)) is not None:
        return None
    digest = hashlib.sha256()

    def add(path: str) -> None:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())

    for path in files_of(str(source)):
        reading(f"{path!r}", partial(add, path))
    return digest.hexdigest()


def _files(engine: duckdb.DuckDBPyConnection, pattern: str, needed: Sequence[str], file: FileFormat) -> Source:
    if (lake := _lake(engine, Path(pattern))) is not None:
        return lake
    paths = files_of(pattern)
    if not paths:
        raise UnreadableSource(nothing_at(pattern), expected=_KINDS)
    suffixes = set(map(kind_of, paths))
    if suffixes <= set(PARQUET):
        return _parquet(engine, paths, needed)
    if suffixes <= set(CSV) or suffixes <= set(SHEETS):
        return _texts(engine, paths, needed, file)
    raise UnreadableSource(
        f"judging by its name, {pattern!r} is neither CSV, Excel (.xlsx) nor Parquet", expected=_KINDS
    )


def _lake_kind(root: Path) -> str | None:
    """Whether a path is a Delta or an Iceberg table, or the metadata file of one; None for anything else."""
    if root.name.endswith(".metadata.json") and root.is_file():
        return "iceberg"
    marks = {"delta": root / "_delta_log", "iceberg": root / "metadata"}
    return next((kind for kind, mark in marks.items() if root.is_dir() and mark.is_dir()), None)


def _lake(engine: duckdb.DuckDBPyConnection, root: Path) -> Source | None:
    """A Delta or Iceberg table, whose files alone would include rows that were deleted; None for anything else."""
    kind = _lake_kind(root)
    if kind is None:
        return None
    if not _loaded(engine, kind):
        raise UnreadableSource(
            f"{str(root)!r} is a table in {kind.capitalize()} format, and DuckDB has no extension here to read it",
            advice=f"run INSTALL {kind} in DuckDB once, or export the table to Parquet",
        )
    if kind == "iceberg" and root.is_dir() and not (root / "metadata" / "version-hint.text").is_file():
        raise UnreadableSource(
            f"the Iceberg table {str(root)!r} does not say which of its versions is the current one",
            expected="a file metadata/version-hint.text",
            advice="give the file that its catalog names as current, metadata/....metadata.json",
        )

    def read() -> Source:
        relation = engine.sql(f"SELECT * FROM {kind}_scan({quoted(str(root))})")
        return Source(relation, relation.columns)

    return reading(f"{str(root)!r} as a table in {kind.capitalize()} format", read)


def _loaded(engine: duckdb.DuckDBPyConnection, extension: str) -> bool:
    """Whether DuckDB has an extension here; nothing is downloaded."""
    import duckdb

    try:
        engine.execute(f"LOAD {extension}")
    except duckdb.Error:
        return False
    return True


def _parquet(engine: duckdb.DuckDBPyConnection, paths: list[str], needed: Sequence[str]) -> Source:
    """Columns may also be in the names of directories, as in year=2024. Files of other types are encoded apart.

    Read together, all files would be converted to the types of the first: 1.5 would be 2 or 1.5, as one row of that
    file has a value or none.
    """
    import pyarrow.parquet as pq

    def read() -> Source:
        groups: dict[tuple[tuple[str, ...], tuple[str | None, ...]], list[str]] = {}
        for path in paths:
            schema = pq.read_schema(path)
            keys = [part.partition("=")[0] for part in Path(path).parts[:-1] if "=" in part]
            keys = [key for key in keys if key in needed and key not in schema.names]
            check_columns(needed, [*schema.names, *keys])
            types = tuple(None if name in keys else str(schema.field(name).type) for name in needed)
            groups.setdefault((tuple(schema.names), types), []).append(path)
        parts = [_part(engine, files, names, needed, keyed=None in types) for (names, types), files in groups.items()]
        return Source(reduce(lambda one, other: one.union(other), parts), needed, apart=parts)

    return reading(f"{paths[0]!r} as Parquet", read)


def _part(
    engine: duckdb.DuckDBPyConnection, paths: list[str], names: Sequence[str], needed: Sequence[str], *, keyed: bool
) -> duckdb.DuckDBPyRelation:
    """The needed columns of Parquet files with the same names and types, as c0, c1, ...; if `keyed`, of directories."""
    listed = ", ".join(map(quoted, paths))
    options = f"hive_partitioning = {keyed}, hive_types_autocast = false"  # directories are texts, too
    files = engine.sql(f"SELECT * FROM read_parquet([{listed}], {options})")
    engine_names = dict(zip(names, files.columns, strict=False))  # directories come last, under their own names
    return files.project(", ".join(f"{_identifier(engine_names.get(n, n))} AS c{i}" for i, n in enumerate(needed)))


def _texts(engine: duckdb.DuckDBPyConnection, paths: list[str], needed: Sequence[str], file: FileFormat) -> Source:
    """CSV files and spreadsheets. Those with another header are read by their own, so that column order may differ."""
    groups = [group for path in paths for group in reading(f"the header of {path!r}", partial(grouped, [path], file))]
    relation, streams = None, []
    for header, delimiter in dict.fromkeys((group.header, group.delimiter) for group in groups):
        same = [
            path for group in groups if (group.header, group.delimiter) == (header, delimiter) for path in group.paths
        ]
        _check_header(needed, header, same[0])
        chosen = ", ".join(f"c{header.index(name)} AS c{i}" for i, name in enumerate(needed))
        rows, stream = read_group(engine, Group(header, delimiter, tuple(same)), file)
        streams += [] if stream is None else [stream]
        part = rows.project(chosen)
        relation = part if relation is None else relation.union(part)
    assert relation is not None
    return Source(relation, needed, once=bool(streams), streams=tuple(streams))


def _check_header(needed: Sequence[str], header: Sequence[str], path: str) -> None:
    """Refuse a header that lacks needed columns. A line with none of them may be a row, so it is not quoted."""
    if set(needed).isdisjoint(header):
        hint = (
            "check that it has a header and that names agree, in upper and lower case too. For two lines above the "
            "header, write skip = 2 under [file] in the schema; for a file without a header, names = [...]"
        )
        if len(header) == 1 and (likely := [mark for mark in DELIMITERS if mark in header[0]]):
            hint = (
                f"is the delimiter {likely[0]!r}? pass delimiter={likely[0]!r} (on the command line --delimiter), or "
                "write it under [file] of the schema"
            )
        raise UnreadableSource(f"none of the schema's columns is in the header of {path!r}", advice=hint)
    check_columns(needed, header)


def _frame(engine: duckdb.DuckDBPyConnection, source: Any, needed: Sequence[str]) -> Source:
    import pyarrow as pa

    datasets = sys.modules.get("pyarrow.dataset")  # importing it would import pandas; a dataset's owner has imported it
    if datasets is not None and isinstance(source, datasets.Dataset):
        return Source(engine.from_arrow(source), source.schema.names)
    if isinstance(source, pa.RecordBatchReader):
        return Source(engine.from_arrow(source), source.schema.names, once=True)
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


def _streamed(engine: duckdb.DuckDBPyConnection, address: str, needed: Sequence[str], query: str | None) -> Source:
    from maquette.curator import postgresql, sqlite

    kind: type[postgresql.Stream] | type[sqlite.Stream] = (
        sqlite.Stream if address.startswith("sqlite://") else postgresql.Stream
    )
    stream = kind(address, needed, query)
    try:
        check_columns(needed, stream.names)
        return Source(engine.from_arrow(stream.reader()), needed, once=True, server=stream)
    except BaseException:
        stream.hang_up()
        raise


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
    table = dict(parse_qsl(parts.query)).get("table")
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
