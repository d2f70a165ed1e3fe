"""Draft a schema by reading the data: a start for a custodian's review, never a private release."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import PrivacyWarning, SchemaError
from maquette.schema.columns import Boolean, Category, Column
from maquette.schema.dates import Date
from maquette.schema.ordered import Integer, Number
from maquette.schema.schema import Schema, as_arrow

if TYPE_CHECKING:
    import duckdb

_LEVELS = 50  # more distinct texts than this are not levels
_BINS = 32
_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
)


def guess(source: object) -> Schema:
    """Draft a schema from a CSV or Parquet path, an Arrow table, a data frame or a mapping of columns."""
    import duckdb

    warnings.warn(
        "Schema.guess read the data: its bounds and levels are not private. Review and replace them before use.",
        PrivacyWarning,
        stacklevel=3,
    )
    with duckdb.connect() as engine:
        relation = _relation(engine, source)
        columns = [
            _draft(relation, name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)
        ]
    drafted = [column for column in columns if column is not None]
    if not drafted:
        raise SchemaError("no column could be drafted: every one is empty or free text; write the schema by hand")
    return Schema(drafted, guessed=True)


def _relation(engine: duckdb.DuckDBPyConnection, source: object) -> duckdb.DuckDBPyRelation:
    if not isinstance(source, str | Path):
        return engine.from_arrow(as_arrow(source))
    import duckdb

    try:
        if str(source).lower().endswith((".parquet", ".pq")):
            return engine.read_parquet(str(source))
        return engine.read_csv(str(source))
    except duckdb.Error as error:
        raise SchemaError(f"cannot read {str(source)!r}: {str(error).splitlines()[0]}") from None


def _draft(relation: duckdb.DuckDBPyRelation, name: str, kind: str) -> Column | None:
    quoted = '"' + name.replace('"', '""') + '"'
    facts = relation.aggregate(
        f"min({quoted}), max({quoted}), count({quoted}) < count(*), approx_count_distinct({quoted})"
    ).fetchall()
    low, high, nullable, distinct = facts[0]
    if low is None:
        return None
    if kind == "BOOLEAN":
        return Boolean(name, nullable=nullable)
    if kind in _NUMBERS:
        return _integer(name, int(low), int(high), nullable)
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        return _number(name, float(low), float(high), nullable)
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return _date(name, low, high, nullable)
    if distinct > _LEVELS:
        return None
    levels = relation.project(f"trim({quoted}) AS level").distinct().fetchall()
    return Category(name, sorted({str(v) for (v,) in levels if v}), other="other", nullable=nullable)


def _integer(name: str, low: int, high: int, nullable: bool) -> Integer:
    step = _nice((high - low) / 100)
    width = max(1, int(step))
    start = math.floor(low / width) * width if low < 0 or low > 10 * width else 0
    end = math.ceil((high + 1) / width) * width - 1
    return Integer(name, start, max(end, start), width=width, nullable=nullable)


def _number(name: str, low: float, high: float, nullable: bool) -> Number:
    step = _nice((high - low) / _BINS) or 1.0
    start = math.floor(low / step) * step
    bins = max(1, math.ceil((high - start) / step))
    return Number(name, low=start, high=start + bins * step, bins=bins, nullable=nullable)


def _date(name: str, low: Any, high: Any, nullable: bool) -> Date:
    first, last = (d.date() if isinstance(d, dt.datetime) else d for d in (low, high))
    return Date(name, first.replace(month=1, day=1), last.replace(month=12, day=31), unit="month", nullable=nullable)


def _nice(step: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten: rounder bounds tell less."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step)
