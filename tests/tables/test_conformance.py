"""One encoder: every source and every engine gives every kind of column and type of value the same codes."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from servers import postgresql

import maquette as mq
from maquette.curator.table import engine_of
from maquette.errors import OutOfDomain
from maquette.schema import INVALID, Column

TEXTS = [
    *("1", "1_000", "1 000", "+1", "1e0", "1.00", "1,5", "0x1", "inf", "-Infinity", "NaN", "1e400", "true", "Yes", "f"),
    *("2024-03-05", "2024-03-31T23:30:00-05", "05/03/2024", "0044-03-15 (BC)", "epoch", "infinity", "20240305"),
    *("\u00a01\u2009", "\u3000 2024-03-05\u00a0", "a,b", 'say "x"', "two\nlines", "\\N", "\\x31", "x" * 3000, "🦊"),
    *("", "  ", "\u3000", None),
]
ROWS = len(TEXTS)


def spread(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values again and again, one for each row."""
    return pa.array([values[i % len(values)] for i in range(ROWS)], kind)


DAYS = [dt.date(2024, 3, 5), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
TIMES = [dt.datetime(2024, 3, 31, 23, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]
ODD = [0.0, -0.0, 1.0, 1.5, 9.999999, 1e99, float("nan"), float("inf"), float("-inf"), None]
TYPES: dict[str, tuple[pa.Array, str]] = {  # values of a type, and its name in PostgreSQL
    "text": (pa.array(TEXTS, pa.string()), "text"),
    "boolean": (spread([True, False, None], pa.bool_()), "boolean"),
    "small": (spread([0, 1, -1, 32767, None], pa.int16()), "smallint"),
    "whole": (spread([0, 1, 9, -(2**31), None], pa.int32()), "integer"),
    "big": (spread([0, 1, 2**62, -(2**63), None], pa.int64()), "bigint"),
    "float": (spread([v for v in ODD if v != 1e99], pa.float32()), "real"),
    "double": (spread(ODD, pa.float64()), "double precision"),
    "decimal": (spread([*map(Decimal, ("1.00", "1.50", "-7.25")), None], pa.decimal128(10, 2)), "numeric(10,2)"),
    "date": (spread(DAYS, pa.date32()), "date"),
    "time": (spread(TIMES, pa.timestamp("us")), "timestamp"),
    "instant": (spread([t and t.replace(tzinfo=dt.UTC) for t in TIMES], pa.timestamp("us", "UTC")), "timestamptz"),
}  # fmt: skip
KINDS: dict[str, Callable[[str], Column]] = {
    "integer": lambda name: mq.Integer(name, 0, 9, nullable=True),
    "binned": lambda name: mq.Integer(name, -3, 300, width=10, nullable=True, missing=["-1"]),
    "number": lambda name: mq.Number(name, 0, 10, bins=10, nullable=True),
    "comma": lambda name: mq.Number(name, 0, 10, bins=10, nullable=True, decimal=","),
    "boolean": lambda name: mq.Boolean(name, nullable=True),
    "category": lambda name: mq.Category(name, ["1", "2", "true", "a,b"], other="other", nullable=True),
    "digits": lambda name: mq.Category(name, ["0", "1", "9"], nullable=True),
    "many": lambda name: mq.Category(name, [f"l{i}" for i in range(300)] + ["1"], other="other", nullable=True),
    "month": lambda name: mq.Date(name, "2024-01-01", "2024-12-31", unit="month", nullable=True),
    "day first": lambda name: mq.Date(name, "1900-01-01", "2024-12-31", unit="year", nullable=True, order="dmy"),
}
PAIRS = [(kind, name) for kind in KINDS for name in TYPES]
SCHEMA = mq.Schema([KINDS[kind](f"{kind}/{name}") for kind, name in PAIRS])
WHOLE = pa.table({f"{kind}/{name}": TYPES[name][0] for kind, name in PAIRS})


@cache
def valid() -> pa.Table:
    """The same rows, with nothing in place of what fits no level."""
    columns = {}
    for column in SCHEMA:
        fits = [code != INVALID for code in column.encode(WHOLE[column.name])]
        values = WHOLE[column.name].combine_chunks()
        columns[column.name] = pa.array(
            [v if ok else None for v, ok in zip(values.to_pylist(), fits, strict=True)], values.type
        )
    return pa.table(columns)


def parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet"


def partitioned(table: pa.Table, folder: Path) -> Any:
    for i in range(3):
        (folder / f"part={i}").mkdir()
        pq.write_table(table.slice(i * 12, 12 if i < 2 else None), folder / f"part={i}" / "data.parquet")
    return folder


def database(table: pa.Table, folder: Path) -> Any:
    with duckdb.connect(str(folder / "t.db")) as engine:
        engine.from_arrow(table).create("people")
    return f"duckdb://{folder}/t.db?table=people"


def handed_in(table: pa.Table, folder: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A connection with settings of its owner's, over a file whose statistics leave NaN out."""
    pq.write_table(table, folder / "t.parquet", row_group_size=7)
    return duckdb.connect(), {"query": f"SELECT * FROM '{folder}/t.parquet'", **options}


CARRIERS: dict[str, Callable[[pa.Table, Path], tuple[Any, dict[str, Any]]]] = {
    "arrow": lambda table, _: (table, {}),
    "polars": lambda table, _: (polars.from_arrow(table), {}),
    "stream": lambda table, _: (table.to_reader(max_chunksize=5), {}),
    "parquet": lambda table, folder: (parquet(table, folder), {}),
    "partitioned parquet": lambda table, folder: (partitioned(table, folder), {}),
    "duckdb file": lambda table, folder: (database(table, folder), {}),
    "duckdb connection": handed_in,
    "duckdb connection, encoded again": lambda table, folder: handed_in(table, folder, memory_limit=0),
    "encoded again": lambda table, _: (table, {"memory_limit": 0}),
    "planes": lambda table, folder: (table, {"memory_limit": 0, "planes": folder / "p"}),
    "kept planes": lambda table, folder: (table, {"memory_limit": 0, "planes": folder / "p", "keep_planes": True}),
}


def csv_file(table: pa.Table, folder: Path) -> tuple[Any, dict[str, Any]]:
    pyarrow.csv.write_csv(table, folder / "t.csv")
    return folder / "t.csv", {}


def sqlite_file(table: pa.Table, folder: Path) -> tuple[Any, dict[str, Any]]:
    names = ", ".join(f'"{name}" TEXT' for name in table.column_names)
    with closing(sqlite3.connect(folder / "t.db")) as connection, connection:
        connection.execute(f"CREATE TABLE t ({names})")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * table.num_columns)})", rows)
    return f"sqlite://{folder}/t.db", {"query": "SELECT * FROM t"}


TEXT_CARRIERS = {"csv": csv_file, "sqlite": sqlite_file}  # they hold texts alone
TEXT_SCHEMA = mq.Schema([SCHEMA[f"{kind}/text"] for kind in KINDS])


@cache
def reference(names: tuple[str, ...]) -> tuple[dict[str, int], str, dict[str, list[int]]]:
    """What is refused, the fingerprint of the rest, and its counts."""
    schema = mq.Schema([SCHEMA[name] for name in names])
    with pytest.raises(OutOfDomain) as refused:
        mq.open_table(WHOLE, schema)
    engine = engine_of(table := mq.open_table(valid(), schema))
    assert engine.rows == ROWS, table
    return refused.value.counts, engine.fingerprint, {name: engine.counts([name]).tolist() for name in names}


def agree(source: Callable[[pa.Table], tuple[Any, dict[str, Any]]], schema: mq.Schema = SCHEMA) -> None:
    """All values have the codes of the reference: as many are refused in each column, and the others are equal."""
    refused, fingerprint, counts = reference(tuple(schema.names))
    found, options = source(WHOLE.select(schema.names))
    with pytest.raises(OutOfDomain) as caught:
        mq.open_table(found, schema, **options)
    assert caught.value.counts == refused
    found, options = source(valid().select(schema.names))
    table = mq.open_table(found, schema, **options)
    engine_of(table).prefetch([name] for name in schema.names)
    assert {name: engine_of(table).counts([name]).tolist() for name in schema.names} == counts
    assert engine_of(table).fingerprint == fingerprint


def in_folders(carrier: Callable[[pa.Table, Path], tuple[Any, dict[str, Any]]], root: Path) -> Any:
    """A carrier that has a new folder for each of the two tables."""
    folders = iter(("whole", "valid"))

    def source(table: pa.Table) -> tuple[Any, dict[str, Any]]:
        folder = root / next(folders)
        folder.mkdir(mode=0o700)
        return carrier(table, folder)

    return source


@pytest.mark.thorough
@pytest.mark.parametrize("name", CARRIERS)
def test_every_kind_and_type_has_the_codes_of_the_reference(name: str, tmp_path: Path) -> None:
    agree(in_folders(CARRIERS[name], tmp_path))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", TEXT_CARRIERS)
def test_every_kind_has_the_codes_of_the_reference_for_texts(name: str, tmp_path: Path) -> None:
    agree(in_folders(TEXT_CARRIERS[name], tmp_path), TEXT_SCHEMA)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as address:
        yield address


@pytest.mark.thorough
def test_postgresql_has_the_codes_of_the_reference(server: str) -> None:
    import psycopg

    def source(table: pa.Table) -> tuple[Any, dict[str, Any]]:
        types = ", ".join(f'"{kind}/{name}" {TYPES[name][1]}' for kind, name in PAIRS)
        with psycopg.connect(server) as connection:
            connection.execute("SET timezone = 'UTC'")
            connection.execute("DROP TABLE IF EXISTS people")
            connection.execute(f"CREATE TABLE people ({types})")
            with connection.cursor().copy("COPY people FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
        return server, {"query": "SELECT * FROM people"}

    agree(source)
