"""open_table: from raw rows to an opaque handle."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.curator.contributions import bounded
from maquette.curator.encoder import encoded
from maquette.curator.engines.api import Engine
from maquette.curator.engines.duckdb import DuckDBEngine
from maquette.curator.engines.encoded import EncodedEngine
from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.engines.reading import Declared, Pass
from maquette.curator.engines.shelf import PlaneWriter, Shelf, changed_since, manifest_of, opened
from maquette.curator.engines.values import Values, valued
from maquette.curator.sources import Source, content_of, name_of, read_source, reading_rows
from maquette.curator.spark import SparkTable, is_frame, open_spark
from maquette.curator.table import PrivateTable, check_unit, private_table
from maquette.errors import DataError, PrivacyWarning, SchemaError
from maquette.schema import Date, FileFormat, Schema, connection, settle

if TYPE_CHECKING:
    import duckdb

_GIGABYTE = 2**30
_SMALL = 2**28  # bytes that are held in memory although a directory for planes is named


def open_table(
    source: object,
    schema: Schema,
    *,
    privacy_unit: str | None = None,
    max_contributions: int = 1,
    query: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    missing: Sequence[str] = (),
    memory_limit: int | None = None,
    planes: str | Path | None = None,
    keep_planes: bool = False,
) -> PrivateTable:
    """Read, encode and check a private table once; the returned handle gives no access to its rows.

    `source` is a CSV (with a header; `delimiter` defaults to a comma, or a tab for .tsv, `encoding` to UTF-8), Excel
    (.xlsx, its first sheet or `sheet`) or Parquet path, glob or directory (also partitioned), an Arrow table, dataset
    or stream, a pandas or polars frame, `duckdb://file.db?table=name`, `duckdb:///abs/file.db` or a DuckDB connection
    with `query`, a DuckDB relation, `postgresql://host/database` or `sqlite://file.db` with `query` or `?table=name`,
    or a Spark frame or `SparkTable` (executors then encode and count; the settings below are for rows outside Spark).
    Columns that the schema does not name are ignored. `missing` lists texts that mean a missing value in any column,
    such as ["?"]. A schema file may declare delimiter, encoding and sheet itself, under [file], as drafts do.

    Codes take about one byte per record and column, and four more for a column of binned numbers. A table of more than
    `memory_limit` bytes (8 GiB) is written once as code planes into the directory `planes`, if you name one; from then
    on it costs little memory (the limit is then 256 MiB) and the source is not read again. Planes hold every record.
    They are deleted at once, unless `keep_planes`: a later opening of the same files then reads planes instead of
    encoding again, and `open_table(directory, schema)` opens planes without their source. Without a directory, a large
    table stays in its source and every count encodes it again. No table may have more than 3 * 2^32 rows.

    Privacy: bounds and levels come from the schema alone; numbers and dates outside the declared range are clamped to
    its ends and unknown categories go to `other`. With `privacy_unit`, a column that need not be in the schema, at most
    `max_contributions` rows per unit are kept, so removing one unit changes the table by at most `max_contributions`
    rows; both may stand under [unit] of the schema file instead. The other rows of the unit are dropped. A hash of the
    unit's own rows decides which: a fair sample, the same at every opening (see `contributions`). Errors raised here
    are for the custodian, before any budget exists.
    """
    if isinstance(schema, Schema) and schema.unit is not None and privacy_unit is None and max_contributions == 1:
        privacy_unit, max_contributions = schema.unit.column, schema.unit.max_contributions
    _check_declared(schema, privacy_unit, max_contributions, missing)
    if keep_planes and planes is None:
        raise DataError("no directory was given for code planes", advice="name one, for example planes='people.planes'")
    declared = Declared(schema, privacy_unit, max_contributions)
    if isinstance(source, str | Path) and (kept := _planes_alone(Path(source), declared)) is not None:
        return private_table(kept, privacy_unit, max_contributions, name_of(source))
    needed = [*schema.names, *([] if privacy_unit is None or privacy_unit in schema else [privacy_unit])]
    if is_frame(source) or isinstance(source, SparkTable):
        spread = source if isinstance(source, SparkTable) else SparkTable(source)
        _check_spark(query=query, delimiter=delimiter, memory_limit=memory_limit, planes=planes)
        return private_table(open_spark(spread, declared, needed, missing), privacy_unit, max_contributions)
    file = schema.file.changed(delimiter=delimiter, encoding=encoding, sheet=sheet)
    facts = _facts(declared, query, file, missing)
    shelf = None if planes is None else Shelf(planes, keep=keep_planes, facts=facts)
    content = content_of(source) if keep_planes else None
    known = None if shelf is None else shelf.kept(schema, content)
    if known is not None:
        return private_table(known, privacy_unit, max_contributions, name_of(source))
    limit = memory_limit if memory_limit is not None else 8 * _GIGABYTE if planes is None else _SMALL
    with ExitStack() as stack:
        engine = _connected(stack, source, shelf)
        sources: list[Source] = []

        def load() -> Engine:
            rows = stack.enter_context(read_source(engine, source, needed, query, file))
            sources.append(rows)
            names = rows.identifiers(needed)
            codes = reduce(
                lambda one, other: one.union(other), (encoded(part, names, declared, missing) for part in rows.parts)
            )
            if privacy_unit is not None:
                codes = bounded(codes, schema, max_contributions, numbered=True)
            read = Pass(declared, codes)
            found = _load(read, rows, limit, shelf, content)
            if privacy_unit is not None and isinstance(found, EncodedEngine):
                found.left_out = read.seen.left_out
            return found

        loaded = reading_rows(load, sources)
        if content is not None and content_of(source) != content:
            raise DataError("the source changed while it was read", advice="Open it again when nobody writes to it")
        if isinstance(loaded, DuckDBEngine):
            stack.pop_all()  # the engine keeps reading through this connection
    return private_table(loaded, privacy_unit, max_contributions, None if query else name_of(source))


def _check_spark(**settings: object) -> None:
    """Refuse settings that mean nothing to rows in Spark."""
    given = [name for name, value in settings.items() if value is not None]
    if given:
        raise DataError(
            f"{given[0]} does not apply to rows in Spark",
            advice="Spark itself reads and stores them: use spark.sql, spark.read and Spark's own memory settings",
        )


def _planes_alone(directory: Path, declared: Declared) -> Engine | None:
    """The engine over kept planes that are opened without their source; None if the path is not such a directory."""
    manifest = manifest_of(directory) if directory.is_dir() else None
    if manifest is None:
        return None
    told = _facts(declared, None, FileFormat(), ())
    for name in ("schema", "privacy_unit", "max_contributions"):
        if manifest["facts"].get(name) != told[name]:
            raise DataError(
                f"the planes in {str(directory)!r} were written with another {name}",
                advice="Open them with the settings they were written with, or open the source again",
            )
    return opened(directory, declared.schema, manifest)


def _facts(declared: Declared, query: str | None, file: FileFormat, missing: Sequence[str]) -> dict[str, object]:
    """What kept planes are bound to; a query may hold names that a manifest should not, so it is hashed."""
    return {
        "schema": declared.schema.digest,
        "privacy_unit": declared.privacy_unit,
        "max_contributions": declared.max_contributions,
        "query": None if query is None else hashlib.sha256(query.encode()).hexdigest(),
        "delimiter": None,
        **file.as_dict(),
        "missing": sorted(missing),
    }


def _connected(stack: ExitStack, source: object, shelf: Shelf | None) -> duckdb.DuckDBPyConnection:
    """Our own connection. What does not fit in its memory goes to the custodian's directory, or nowhere.

    Files and databases get a DuckDB of their own: what it keeps of them (attached names, pages) ends with it.
    """
    import duckdb

    if shelf is None and not isinstance(source, str | Path):
        return stack.enter_context(connection())
    engine = stack.enter_context(duckdb.connect())
    spill = "" if shelf is None else tempfile.mkdtemp(dir=shelf.directory, prefix="spill-")
    if spill:
        stack.callback(shutil.rmtree, spill, ignore_errors=True)
    settle(engine, spill)
    return engine


def _check_declared(schema: Schema, privacy_unit: str | None, max_contributions: int, missing: Sequence[str]) -> None:
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"the schema is of type {type(schema).__name__}",
            expected="a Schema",
            advice="load one with Schema.load(path)",
        )
    check_unit(privacy_unit, max_contributions)
    texts = isinstance(missing, Sequence) and not isinstance(missing, str)
    if not (texts and all(isinstance(text, str) for text in missing)):
        raise SchemaError(f"missing is {missing!r}", expected="a list of texts, such as missing=['?']")
    if schema.guessed:
        warnings.warn(
            "this schema was drafted by reading data: its bounds and levels are not private. Review them, then delete "
            "`guessed = true`",
            PrivacyWarning,
            stacklevel=3,
        )
    for column in schema:
        if isinstance(column, Date) and column.remark:  # follows from the declaration: no row is looked at
            warnings.warn(f"column {column.name!r}: {column.remark}", PrivacyWarning, stacklevel=3)


def _load(read: Pass, rows: Source, limit: int, shelf: Shelf | None, content: str | None) -> Engine:
    """One pass over the codes: check, fingerprint, and hold them in memory, on the shelf or nowhere."""
    schema = read.declared.schema
    held: list[tuple[Planes, Values]] = []
    size, beside = 0, len(valued(schema))
    with ExitStack() as stack:
        writer = None if shelf is None or not shelf.keep else _writer(stack, shelf)
        for chunk in read:
            size += sum(part.nbytes for part in chunk)
            if writer is None and shelf is not None and size > limit:
                writer = _writer(stack, shelf)
                for planes, values in held:
                    writer.add(planes, values[:beside])
            if writer is not None:
                writer.add(chunk[0], chunk[1][:beside])
            if size > limit:
                held.clear()
            else:
                held.append(chunk)
        digest, count = read.digest, read.fingerprint.rows
        if shelf is not None and (manifest := shelf.manifest()) is not None and manifest["fingerprint"] != digest:
            raise changed_since(shelf.directory)
        written = None if writer is None else writer.finish(schema, count, digest, content)
    if size <= limit:
        return MemoryEngine(schema, count, digest, [codes for codes, _ in held], [values for _, values in held])
    if written is not None:
        return written
    if rows.once:
        raise DataError(
            f"the table needs more than the {limit:,} bytes of memory_limit, and its source can be read only once",
            advice="name a directory for code planes, for example planes='people.planes'",
        )
    relation, declared = read.relation, read.declared
    # A relation keeps its last result, which threads must not share: every pass has a relation of its own.
    return DuckDBEngine(schema, count, digest, lambda: Pass(declared, relation.project("*"), again=True))


def _writer(stack: ExitStack, shelf: Shelf) -> PlaneWriter:
    writer = shelf.writer()
    stack.callback(writer.discard)
    return writer
