"""Spark as a source: rows are encoded, bounded and counted by executors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.curator import executors
from maquette.curator.engines.encoding import Fingerprint
from maquette.curator.engines.reading import Declared, check_read, check_rows
from maquette.curator.engines.spark import SparkEngine, asked, refuse_failures
from maquette.curator.sources import check_columns
from maquette.errors import UnreadableSource

if TYPE_CHECKING:
    import pyarrow as pa

_BUCKETS = 32  # per partition, so that partitions are of about equal size


@dataclass(frozen=True, repr=False)
class SparkTable:
    """Rows in Spark, for `open_table`: a DataFrame, the name of a table, or a path (with a slash or a suffix in it).

    `spark` is the session; by default that of the frame, or the active one (also of Spark Connect). A path is read in
    `format`; names of partitioned directories have the types that Spark gives them. With a privacy unit, rows are sent
    to one of `partitions` places by their unit (by default `spark.sql.shuffle.partitions`).

    Executors need Maquette and DuckDB in the versions that are here, and `PYSPARK_PYTHON` must name their Python.
    Planes are cached in their memory and, where that is too small, on their disks (`spark.io.encryption.enabled`
    encrypts them).
    """

    source: Any
    spark: Any = None
    format: str = "parquet"
    partitions: int | None = None

    def __repr__(self) -> str:
        return f"SparkTable({self.source!r})" if isinstance(self.source, str | os.PathLike) else "SparkTable(DataFrame)"


def is_frame(source: object) -> bool:
    """Whether a source is a DataFrame of Spark, which is not imported for the test."""
    return type(source).__name__ == "DataFrame" and type(source).__module__.startswith("pyspark.sql.")


def open_spark(table: SparkTable, declared: Declared, needed: Sequence[str], missing: Sequence[str]) -> SparkEngine:
    """Encode, bound and check the rows once, in the cluster; their planes stay there.

    Privacy: as `open_table`. All rows of a unit are bounded in one place: units are sent by the MD5 of the unit as the
    encoder reads it, and the driver checks that no bucket of units was met in two partitions.
    """
    rows = _frame(table)
    check_columns(needed, rows.columns)
    chosen = asked("naming columns", lambda: rows.select(*("`" + name.replace("`", "``") + "`" for name in needed)))
    places = 1 if declared.privacy_unit is None else _places(table, chosen.sparkSession)
    recipe = executors.Recipe(declared, tuple(needed), tuple(missing), executors.versions(), _BUCKETS * places)
    planes = asked("encoding", lambda: _planes(chosen.toDF(*(f"c{i}" for i in range(len(needed)))), recipe, places))
    engine = None
    try:
        told = asked("encoding", lambda: _facts(planes))
        engine = SparkEngine(declared, *_checked(told, declared), planes, len(set(told["part"].to_pylist())))
    finally:
        if engine is None:
            asked("forgetting planes", planes.unpersist)
    return engine


def _planes(rows: Any, recipe: executors.Recipe, places: int) -> Any:
    """The cached frame of chunks."""
    if recipe.declared.privacy_unit is None:
        chunks = rows.mapInArrow(partial(executors.encode, recipe), recipe.chunk_ddl)
    else:
        encoded = rows.mapInArrow(partial(executors.encode_rows, recipe), recipe.row_ddl)
        together = encoded.repartition(places, "bucket")
        chunks = together.mapInArrow(partial(executors.bound, recipe), recipe.chunk_ddl)
    return _kept(chunks)


def _kept(chunks: Any) -> Any:
    """Kept in memory, and on disk where memory is full."""
    from pyspark import StorageLevel

    return chunks.persist(StorageLevel.MEMORY_AND_DISK)


def _facts(planes: Any) -> pa.Table:
    names = ["part", "rows", "first", "second", "failure", "lost", "invalid", "buckets"]
    return planes.select(*names).mapInArrow(executors.facts, planes.select(*names).schema).toArrow()


def _checked(told: pa.Table, declared: Declared) -> tuple[Fingerprint]:
    """The fingerprint of all chunks, once nothing in them must be refused."""
    refuse_failures(told)
    seen, lost, homes = Fingerprint(), 0, dict[int, int]()
    invalid = np.zeros(len(declared.schema), dtype=np.int64)
    for row in told.to_pylist():
        seen.merge(row["rows"], (row["first"], row["second"]))
        lost += row["lost"]
        invalid += np.frombuffer(row["invalid"], dtype=np.int64)
        for bucket in np.frombuffer(row["buckets"], dtype=np.int32).tolist():
            if homes.setdefault(bucket, row["part"]) != row["part"]:
                raise UnreadableSource(
                    "Spark sent the rows of a privacy unit to two places, so their number cannot be bounded"
                )
    check_rows(seen.rows)
    check_read(declared.schema, declared.privacy_unit, seen.rows, lost, invalid.tolist())
    return (seen,)


def _places(table: SparkTable, spark: Any) -> int:
    if table.partitions is not None:
        return table.partitions
    return int(asked("its settings", lambda: spark.conf.get("spark.sql.shuffle.partitions")))


def _frame(table: SparkTable) -> Any:
    if is_frame(table.source):
        return table.source
    if not isinstance(table.source, str | os.PathLike):
        raise UnreadableSource(
            f"the source of a SparkTable is of type {type(table.source).__name__}",
            expected="a DataFrame, the name of a table, or a path",
        )
    spark = table.spark if table.spark is not None else _session()
    name = os.fspath(table.source)
    if isinstance(table.source, os.PathLike) or "/" in name or name.endswith(f".{table.format}"):
        return asked("opening the path", lambda: spark.read.format(table.format).load(name))
    return asked("opening the table", lambda: spark.table(name))


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnreadableSource("pyspark is not installed", advice="pip install 'maquette[spark]'") from None
    session = SparkSession.getActiveSession()
    if session is None:
        raise UnreadableSource("no Spark session is active", advice="pass one: SparkTable(name, spark=session)")
    return session
