"""What runs on the executors of a cluster, partition by partition: encode, bound, evaluate, add up.

The same DuckDB encoder and the same kernel as on one machine. An executor answers with numbers that are added up:
counts, sums, the values of a compiled question. Codes stay in the cluster, as chunks of planes in a cached frame. Every
chunk carries the part that it adds to the fingerprint of the table, made in the same pass as its planes. Errors may
quote a row, and a cluster logs them, so no error leaves an executor: it reports a sentence of this file, as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.curator.contributions import bounded
from maquette.curator.encoder import encoded
from maquette.curator.engines.counting import Positions
from maquette.curator.engines.encoding import code_batches, layout_of, plane_bytes
from maquette.curator.engines.kernels import Planes, histograms
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.engines.reading import Declared, Seen
from maquette.curator.engines.values import Values, valued
from maquette.schema import Schema, settle
from maquette.version import __version__

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

CHUNK = 2**17  # rows that are encoded together
RESULT = "part int, rows bigint, first bigint, second bigint, failure string, total binary"
_FACTS = (
    "part int, rows bigint, first bigint, second bigint, failure string, lost bigint, invalid binary, buckets binary"
)

Batches = Iterator["pa.RecordBatch"]


@dataclass(frozen=True)
class Recipe:
    """All that an executor needs to encode rows: columns arrive as c0, c1, ... in the order of `needed`."""

    declared: Declared
    needed: tuple[str, ...]
    missing: tuple[str, ...]
    versions: tuple[str, str]
    buckets: int = 1

    @property
    def chunk_ddl(self) -> str:
        """The columns of a frame of chunks: facts, then the planes of each column, then its values."""
        schema = self.declared.schema
        return ", ".join([_FACTS, *(f"{name} binary" for name in [*code_names(schema), *value_names(schema)])])

    @property
    def row_ddl(self) -> str:
        """The columns of a frame of encoded rows that are not bounded yet."""
        schema = self.declared.schema
        kinds = ["tinyint" if c.size <= 2**7 else "smallint" if c.size <= 2**15 else "int" for c in schema]
        codes = [f"{name} {kind}" for name, kind in zip(code_names(schema), kinds, strict=True)]
        return ", ".join(
            [*codes, *(f"{name} int" for name in value_names(schema)), "u string, bucket int, failure string"]
        )


def code_names(schema: Schema) -> list[str]:
    """The names of columns with codes."""
    return [f"k{i}" for i in range(len(schema))]


def value_names(schema: Schema) -> list[str]:
    """The names of columns with values."""
    return [f"v{i}" for i in valued(schema)]


def versions() -> tuple[str, str]:
    """What must be equal on all machines: the library and the engine that encodes."""
    import duckdb

    return __version__, str(duckdb.__version__)


def encode(recipe: Recipe, batches: Batches) -> Batches:
    """Rows to chunks of planes, where every row is its own unit."""
    return _guarded(lambda: _encode(recipe, batches), lambda why: _chunk_failed(recipe, why))


def encode_rows(recipe: Recipe, batches: Batches) -> Batches:
    """Rows to encoded rows with their unit, and the bucket by which they are sent to one place."""
    return _guarded(lambda: _encode_rows(recipe, batches), lambda why: _row_failed(recipe, why))


def bound(recipe: Recipe, batches: Batches) -> Batches:
    """Encoded rows of whole units to chunks of planes, with at most `max_contributions` rows of each unit.

    Privacy: the bound holds if all rows of a unit are here. A unit is in one bucket, by the MD5 of its text; each chunk
    names the buckets of its partition, and the driver refuses a bucket that is in two partitions.
    """
    return _guarded(lambda: _bound(recipe, batches), lambda why: _chunk_failed(recipe, why))


@dataclass(frozen=True)
class Visit:
    """Numbers to compute from every chunk and to add up: `evaluate` sees a chunk as a table of `schema`.

    The codes of the chunk are those of `stored`, which has the same columns, some perhaps with narrower levels.
    """

    schema: Schema
    stored: Schema
    codes: tuple[str, ...]
    values: tuple[str, ...]
    size: int
    evaluate: Callable[[MemoryEngine], NDArray[np.int64]]


@dataclass(frozen=True)
class Histograms:
    """The counts of several column sets, one after the other."""

    sets: tuple[Positions, ...]

    def __call__(self, part: MemoryEngine) -> NDArray[np.int64]:
        """Counted by the kernel, in one thread: a task has one core."""
        layouts = [layout_of(part.schema, positions) for positions in self.sets]
        return np.concatenate(histograms(part._to_count(), layouts, threads=1))


def visit(job: Visit, batches: Batches) -> Batches:
    """One row of RESULT for a partition of chunks."""
    return _guarded(lambda: _visit(job, batches), lambda why: _result(-1, 0, (0, 0), why, None))


def add(batches: Batches) -> Batches:
    """Rows of RESULT added up to one; sums of 64-bit integers are exact."""
    return _guarded(lambda: _add(batches), lambda why: _result(-1, 0, (0, 0), why, None))


def facts(batches: Batches) -> Batches:
    """The facts of a partition of chunks, as one row per chunk: its planes stay behind."""
    return ((batch.set_column(0, "part", _parts(batch.num_rows))) for batch in batches if batch.num_rows)


def _guarded(run: Callable[[], Batches], failed: Callable[[str], pa.RecordBatch]) -> Batches:
    import duckdb

    try:
        yield from run()
        return
    except _OtherVersion:
        why = "an executor has another version of Maquette or of DuckDB than the driver"
    except MemoryError:
        why = "an executor ran out of memory"
    except duckdb.Error:
        why = "an executor's encoder cannot read the rows"
    except Exception:  # not even its kind: that may depend on the rows
        why = "an executor failed"
    yield failed(why)


class _OtherVersion(Exception):
    pass


def _connected(recipe: Recipe) -> duckdb.DuckDBPyConnection:
    import duckdb

    if versions() != recipe.versions:
        raise _OtherVersion
    engine = duckdb.connect(config={"threads": 1})
    settle(engine)
    return engine


def _grouped(batches: Batches) -> Iterator[pa.Table]:
    """Few large tables from many small batches."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _codes(recipe: Recipe, engine: duckdb.DuckDBPyConnection, table: pa.Table) -> duckdb.DuckDBPyRelation:
    names = [f"c{i}" for i in range(len(recipe.needed))]
    identifiers = {name: f'"{name_here}"' for name, name_here in zip(recipe.needed, names, strict=True)}
    return encoded(engine.from_arrow(table.rename_columns(names)), identifiers, recipe.declared, recipe.missing)


def _encode(recipe: Recipe, batches: Batches) -> Batches:
    with _connected(recipe) as engine:
        for table in _grouped(batches):
            yield from _chunks(recipe, _codes(recipe, engine, table), ())


def _encode_rows(recipe: Recipe, batches: Batches) -> Batches:
    import pyarrow as pa

    with _connected(recipe) as engine:
        for table in _grouped(batches):
            bucket = f"CAST(coalesce(md5_number_lower(u) % {recipe.buckets}, 0) AS INTEGER) AS bucket"
            for batch in _codes(recipe, engine, table).project(f"*, {bucket}").to_arrow_reader(CHUNK):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns["u"] = columns["u"].cast(pa.string())
                yield pa.record_batch({**columns, "failure": pa.nulls(batch.num_rows, pa.string())})


def _bound(recipe: Recipe, batches: Batches) -> Batches:
    import pyarrow as pa
    import pyarrow.compute as pc

    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    table = pa.Table.from_batches(held)
    failure = pc.max(table["failure"]).as_py()
    if failure is not None:
        yield _chunk_failed(recipe, failure)
        return
    declared, buckets = recipe.declared, pc.unique(table["bucket"]).to_pylist()
    with _connected(recipe) as engine:
        rows = engine.from_arrow(table.drop_columns(["bucket", "failure"]))
        yield from _chunks(recipe, bounded(rows, declared.schema, declared.max_contributions), buckets)


def _chunks(recipe: Recipe, codes: duckdb.DuckDBPyRelation, buckets: Sequence[int]) -> Batches:
    for columns in code_batches(codes):
        seen = Seen(recipe.declared.schema)
        planes, values = seen.add(columns)
        yield _chunk(recipe, seen, planes, values, buckets)


def _chunk(recipe: Recipe, seen: Seen, planes: Planes, values: Values, buckets: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = recipe.declared.schema
    made = _facts(seen.fingerprint.rows, seen.fingerprint.sums, None)
    made["lost"] = pa.array([seen.lost], pa.int64())
    made["invalid"] = pa.array([seen.invalid.tobytes()], pa.binary())
    made["buckets"] = pa.array([np.array(buckets, dtype=np.int32).tobytes()], pa.binary())
    first = 0
    for name, width in zip(code_names(schema), plane_bytes(schema), strict=True):
        made[name] = pa.array([planes[first : first + width].tobytes()], pa.binary())
        first += width
    for name, row in zip(value_names(schema), values, strict=True):
        made[name] = pa.array([row.tobytes()], pa.binary())
    return pa.record_batch(made)


def _visit(job: Visit, batches: Batches) -> Batches:
    total = np.zeros(job.size, dtype=np.int64)
    rows, sums = 0, (0, 0)
    for columns, i in _rows(batches):
        failure = columns["failure"][i].as_py()
        if failure is not None:
            yield _result(-1, 0, (0, 0), failure, None)
            return
        count = columns["rows"][i].as_py()
        np.add(total, job.evaluate(_part(job, columns, i, count)).reshape(-1), out=total)
        rows, sums = rows + count, _summed(sums, columns, i)
    if rows:
        yield _result(_partition(), rows, sums, None, total)


def _rows(batches: Batches) -> Iterator[tuple[dict[str, pa.Array], int]]:
    """The columns of each batch with the number of each of its rows."""
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for i in range(batch.num_rows):
            yield columns, i


def _part(job: Visit, columns: dict[str, pa.Array], i: int, rows: int) -> MemoryEngine:
    """One chunk as a table of its own."""
    read = [np.frombuffer(columns[name][i].as_buffer(), dtype=np.uint8).reshape(-1, rows) for name in job.codes]
    planes = np.concatenate(read) if read else np.zeros((0, rows), dtype=np.uint8)
    values = [np.frombuffer(columns[name][i].as_buffer(), dtype=np.int32) for name in job.values]
    held = np.array(values, dtype=np.int32).reshape(len(values), rows)
    stored = job.stored if read else job.schema
    part = MemoryEngine(stored, rows, "", [planes], [held])
    return part if stored == job.schema else cast(MemoryEngine, part.in_levels_of(job.schema))


def _add(batches: Batches) -> Batches:
    total: NDArray[np.int64] | None = None
    part, rows, sums = -1, 0, (0, 0)
    for columns, i in _rows(batches):
        failure = columns["failure"][i].as_py()
        if failure is not None:
            yield _result(-1, 0, (0, 0), failure, None)
            return
        counted = np.frombuffer(columns["total"][i].as_buffer(), dtype=np.int64)
        total = counted.copy() if total is None else np.add(total, counted, out=total)
        part, rows, sums = columns["part"][i].as_py(), rows + columns["rows"][i].as_py(), _summed(sums, columns, i)
    if total is not None:
        yield _result(part, rows, sums, None, total)


def _summed(sums: tuple[int, int], columns: dict[str, Any], i: int) -> tuple[int, int]:
    return sums[0] + columns["first"][i].as_py(), sums[1] + columns["second"][i].as_py()


def _partition() -> int:
    from pyspark import TaskContext

    here = TaskContext.get()
    assert here is not None  # otherwise the places of units could not be told apart
    return int(here.partitionId())


def _parts(rows: int) -> pa.Array:
    import pyarrow as pa

    return pa.array([_partition()] * rows, pa.int32())


def _facts(rows: int, sums: Sequence[int], failure: str | None) -> dict[str, pa.Array]:
    import pyarrow as pa

    first, second = ((value + 2**63) % 2**64 - 2**63 for value in sums)  # as signed numbers
    return {
        "part": pa.array([-1], pa.int32()),
        "rows": pa.array([rows], pa.int64()),
        "first": pa.array([first], pa.int64()),
        "second": pa.array([second], pa.int64()),
        "failure": pa.array([failure], pa.string()),
    }


def _result(
    part: int, rows: int, sums: Sequence[int], failure: str | None, total: NDArray[np.int64] | None
) -> pa.RecordBatch:
    import pyarrow as pa

    made = _facts(rows, sums, failure) | {"part": pa.array([part], pa.int32())}
    made["total"] = pa.array([None if total is None else total.tobytes()], pa.binary())
    return pa.record_batch(made)


def _chunk_failed(recipe: Recipe, why: str) -> pa.RecordBatch:
    import pyarrow as pa

    schema = recipe.declared.schema
    empty = {name: pa.nulls(1, pa.binary()) for name in [*code_names(schema), *value_names(schema)]}
    named = {
        "lost": pa.array([0], pa.int64()),
        "invalid": pa.nulls(1, pa.binary()),
        "buckets": pa.nulls(1, pa.binary()),
    }
    return pa.record_batch({**_facts(0, (0, 0), why), **named, **empty})


def _row_failed(recipe: Recipe, why: str) -> pa.RecordBatch:
    import pyarrow as pa

    schema = recipe.declared.schema
    kinds = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "string": pa.string()}
    empty = {}
    for item in recipe.row_ddl.split(", "):
        name, kind = item.split(" ")
        empty[name] = pa.nulls(1, kinds[kind])
    assert len(empty) == len(schema) + len(valued(schema)) + 3
    return pa.record_batch({**empty, "failure": pa.array([why], pa.string())})
