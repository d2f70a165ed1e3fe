"""open_table: from raw rows to an opaque handle."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from maquette.curator.contributions import bounded, unit_sql
from maquette.curator.engines.api import MAX_ROWS, Engine
from maquette.curator.engines.duckdb import DuckDBEngine
from maquette.curator.engines.encoding import (
    Fingerprint,
    code_batches,
    codes_sql,
    invalid_counts,
    planes_of,
    present_sql,
)
from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.sources import read_source, reading
from maquette.curator.table import PrivateTable, check_unit, private_table
from maquette.errors import DataError, EmptyTable, PrivacyWarning, SchemaError
from maquette.schema import Schema, refuse_invalid

if TYPE_CHECKING:
    import duckdb

_GIGABYTE = 2**30


def open_table(
    source: object,
    schema: Schema,
    *,
    privacy_unit: str | None = None,
    max_contributions: int = 1,
    query: str | None = None,
    delimiter: str | None = None,
    missing: Sequence[str] = (),
    memory_limit: int = 8 * _GIGABYTE,
) -> PrivateTable:
    """Read, encode and check a private table once; the returned handle gives no access to its rows.

    `source` is a CSV (with a header; `delimiter` defaults to a comma, or a tab for .tsv) or Parquet path or glob, an
    Arrow table or dataset, a pandas or polars frame, `duckdb://file.db?table=name`, `duckdb:///abs/file.db` or a
    DuckDB connection with `query`, or a DuckDB relation. Columns that the schema does not name are ignored. `missing`
    lists texts that mean a missing value in any column, such as ["?"]. Tables whose codes take more than `memory_limit`
    bytes (about one per record and column) stay in their source and are counted by DuckDB; no table may have more than
    2^32 rows.

    Privacy: bounds and levels come from the schema alone; numbers and dates outside the declared range are clamped to
    its ends and unknown categories go to `other`. With `privacy_unit`, a column that need not be in the schema, at most
    `max_contributions` rows per unit are kept, so removing one unit changes the table by at most `max_contributions`
    rows. The other rows of the unit are dropped. A hash of the unit's own rows decides which: a fair sample, the same
    at every opening (see `contributions`). Errors raised here are for the custodian, before any budget exists.
    """
    _check_declared(schema, privacy_unit, max_contributions, missing)
    import duckdb

    needed = [*schema.names, *([] if privacy_unit is None or privacy_unit in schema else [privacy_unit])]
    with ExitStack() as stack:
        engine = stack.enter_context(duckdb.connect())
        engine.execute("SET TimeZone = 'UTC'")  # dates must not depend on the machine

        def load() -> Engine:
            rows = read_source(engine, source, needed, query, delimiter)
            relation = _encoded(rows.relation, rows.identifiers(needed), schema, privacy_unit, missing)
            if privacy_unit is not None:
                relation = bounded(relation, schema, privacy_unit, max_contributions)
            return _load(relation, schema, (schema.digest, privacy_unit, max_contributions), memory_limit)

        loaded = reading("the rows", load)
        if isinstance(loaded, DuckDBEngine):
            stack.pop_all()  # the engine keeps reading through this connection
    return private_table(loaded, privacy_unit, max_contributions)


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


def _encoded(
    rows: duckdb.DuckDBPyRelation,
    identifiers: Mapping[str, str],
    schema: Schema,
    privacy_unit: str | None,
    missing: Sequence[str],
) -> duckdb.DuckDBPyRelation:
    """The relation of codes k0, k1, ..., and the unit u if there is one."""
    values = {name: f"v{i}" for i, name in enumerate(identifiers)}
    present = rows.project(
        ", ".join(f"{present_sql(identifiers[name], missing)} AS {value}" for name, value in values.items())
    )
    unit = "" if privacy_unit is None else f", {unit_sql(values[privacy_unit])}"
    return present.project(codes_sql(schema, values) + unit)


def _load(relation: duckdb.DuckDBPyRelation, schema: Schema, declared: tuple[object, ...], memory_limit: int) -> Engine:
    """One pass over the codes: check, fingerprint, and keep them unless they exceed the limit."""
    fingerprint = Fingerprint()
    invalid = np.zeros(len(schema), dtype=np.int64)
    chunks: list[Planes] = []
    size = 0
    for codes in code_batches(relation):
        invalid += invalid_counts(codes)
        planes = planes_of(schema, codes)
        fingerprint.update(planes)
        if fingerprint.rows > MAX_ROWS:
            raise DataError(
                "the source holds too many rows", expected=f"at most {MAX_ROWS:,} rows", advice="Open a part of it"
            )
        size += planes.nbytes
        if size <= memory_limit:
            chunks.append(planes)
        else:
            chunks.clear()
    refuse_invalid(schema, invalid)
    if not fingerprint.rows:
        raise EmptyTable("the source holds no rows", expected="at least one", advice="Check the path, or the query")
    digest = fingerprint.digest(*declared)
    if size <= memory_limit:
        return MemoryEngine(schema, fingerprint.rows, digest, chunks)
    return DuckDBEngine(schema, fingerprint.rows, digest, relation)
