"""A frame with the few methods of Spark's that Maquette calls, run in this process: what executors do, without Spark.

Functions are pickled, as for a cluster; `send` decides to which
partition a row goes when rows are sent to places by a column.
"""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc

from maquette.curator import executors, spark

_KINDS = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "string": pa.string(), "binary": pa.binary(),
}  # fmt: skip
Send = Callable[[int, int], int]


class DataFrame:
    """Partitions of rows, computed when they are asked for, unless they are kept."""

    def __init__(self, make: Callable[[], list[pa.Table]], schema: pa.Schema, send: Send = lambda v, n: v % n) -> None:
        self._make, self.schema, self._send = make, schema, send
        self._kept: list[pa.Table] | None = None
        self._keep = False

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def sparkSession(self) -> Any:
        return SimpleNamespace(conf=SimpleNamespace(get=lambda _: "4"))

    def parts(self) -> list[pa.Table]:
        if self._kept is not None:
            return self._kept
        made = self._make()
        if self._keep:
            self._kept = made
        return made

    def lose(self) -> None:
        """Forget what was kept: it is computed again."""
        self._kept = None

    def select(self, *names: str) -> DataFrame:
        plain = [name.strip("`") for name in names]
        schema = pa.schema([self.schema.field(name) for name in plain])
        return DataFrame(lambda: [part.select(plain) for part in self.parts()], schema, self._send)

    def toDF(self, *names: str) -> DataFrame:
        schema = pa.schema([field.with_name(name) for field, name in zip(self.schema, names, strict=True)])
        return DataFrame(lambda: [part.rename_columns(list(names)) for part in self.parts()], schema, self._send)

    def mapInArrow(self, run: Callable[[Iterator[pa.RecordBatch]], Any], ddl: Any) -> DataFrame:
        schema = ddl if isinstance(ddl, pa.Schema) else _schema(ddl)

        def mapped(place: int, part: pa.Table) -> pa.Table:
            there = pickle.loads(cloudpickle.dumps(run))
            with mock.patch.object(executors, "_partition", return_value=place):
                batches = list(there(iter(part.to_batches(max_chunksize=100))))
            return pa.Table.from_batches([batch.select(schema.names).cast(schema) for batch in batches], schema)

        return DataFrame(lambda: [mapped(*each) for each in enumerate(self.parts())], schema, self._send)

    def repartition(self, places: int, name: str) -> DataFrame:
        def sent() -> list[pa.Table]:
            whole = pa.concat_tables(self.parts())
            homes = pa.array([self._send(value or 0, places) for value in whole[name].to_pylist()], pa.int64())
            return [whole.filter(pc.equal(homes, place)) for place in range(places)]

        return DataFrame(sent, self.schema, self._send)

    def persist(self, _: Any) -> DataFrame:
        self._keep = True
        return self

    def unpersist(self) -> None:
        self._keep, self._kept = False, None

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self.parts())


DataFrame.__module__ = "pyspark.sql.imitated"
if importlib.util.find_spec("pyspark") is None:  # what says where Spark keeps rows is Spark's own
    setattr(spark, "_kept", lambda chunks: chunks.persist(None))  # noqa: B010


def frame(table: pa.Table, parts: int = 3, send: Send = lambda v, n: v % n) -> DataFrame:
    """Rows dealt out to partitions."""
    return changing([table], parts, send)


def changing(source: list[pa.Table], parts: int = 3, send: Send = lambda v, n: v % n) -> DataFrame:
    """The rows that are the last of the list when they are read."""
    size = -(-source[0].num_rows // parts)
    return DataFrame(lambda: [source[-1].slice(i * size, size) for i in range(parts)], source[0].schema, send)


def _schema(ddl: str) -> pa.Schema:
    return pa.schema([(name, _KINDS[kind]) for name, kind in (item.split(" ") for item in ddl.split(", "))])
