"""Draft a schema by reading the data: a start for a custodian's review, never a private release."""

from __future__ import annotations

import datetime as dt
import glob
import gzip
import math
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import PrivacyWarning, SchemaError, UnreadableSource
from maquette.schema.columns import NULL_LABEL, Boolean, Category, Column, identifier
from maquette.schema.dates import Date
from maquette.schema.ordered import EXACT, Integer, Number
from maquette.schema.schema import Schema, as_arrow

if TYPE_CHECKING:
    import duckdb

_LEVELS = 50  # more distinct texts than this are not levels
_SEEN = 3  # a level seen less often may tell of one person
_BINS = 32
_OTHER = "other"
_OWNER = "if it says whose row it is, pass it as privacy_unit"
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
_SIMPLE = ("BOOLEAN", "DATE", "DOUBLE", "FLOAT", '"NULL"')


class _Skipped(Exception):
    """Why a column is left out of a draft."""


def guess(source: object) -> Schema:
    """Draft a schema from a CSV or Parquet path, an Arrow table, a data frame or a mapping of columns.

    Columns that cannot be drafted are left out and listed with the reason, as `skipped` and in the draft's file.
    """
    import duckdb

    warnings.warn(
        "Schema.guess read the data: its bounds and levels are not private. Review and replace them before use.",
        PrivacyWarning,
        stacklevel=3,
    )
    drafted: list[Column] = []
    skipped: list[str] = []
    with duckdb.connect() as engine:
        try:
            relation = _relation(engine, source)
            for name, kind in zip(relation.columns, relation.types, strict=True):
                try:
                    drafted.append(_draft(relation, name, str(kind)))
                except _Skipped as reason:
                    skipped.append(f"{name if name.isprintable() else repr(name)} ({reason})")
        except duckdb.Error as error:
            raise _unreadable(source, error) from None
    if not drafted:
        raise SchemaError(f"no column could be drafted: {'; '.join(skipped)}. Write the schema by hand")
    return Schema(drafted, guessed=True, skipped=skipped)


def _relation(engine: duckdb.DuckDBPyConnection, source: object) -> duckdb.DuckDBPyRelation:
    if not isinstance(source, str | Path):
        return engine.from_arrow(as_arrow(source))
    path = Path(source)
    if path.is_dir():
        raise UnreadableSource(f"{str(source)!r} is a directory; expected a CSV or Parquet file")
    files = [str(path)] if path.is_file() else sorted(glob.glob(str(source)))
    if not files:
        raise UnreadableSource(f"there is no file {str(source)!r}; expected a CSV or Parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return engine.read_parquet(files)
    header = _header(files[0])
    # Types are taken from all rows, not from the first few: one bad value further down must not stop the draft.
    relation = engine.read_csv(
        files, delimiter=max(",;\t|", key=header.count), quotechar='"', escapechar='"', sample_size=-1
    )
    if relation.columns[0] == "column0" and "column0" not in header:  # the engine's own name for what has none
        raise UnreadableSource(
            f"the first line of {files[0]!r} looks like data, not a header; add one with the column names"
        )
    return relation


def _header(path: str) -> str:
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            header = next((line for line in file if line.strip()), b"")
    except (OSError, EOFError):
        raise UnreadableSource(f"cannot read {path!r}: it cannot be opened, or is not what its name says") from None
    if not header:
        raise UnreadableSource(f"{path!r}: the file is empty; expected a header line with the column names")
    return header.decode("utf-8-sig", errors="replace")


def _unreadable(source: object, error: Exception) -> UnreadableSource:
    """The engine's complaint without what it quotes from the rows: at most a line number."""
    what = repr(str(source)) if isinstance(source, str | Path) else f"rows from {type(source).__name__}"
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    where = f" at line {line[1]}" if line else ""
    why = "it is not UTF-8 text" if "unicode" in str(error).lower() else "it is not a well-formed table"
    return UnreadableSource(f"cannot read {what}{where}: {why}. Check it with the tool that wrote it")


def _draft(relation: duckdb.DuckDBPyRelation, name: str, kind: str) -> Column:
    value = identifier(name)
    if kind in ("DOUBLE", "FLOAT"):
        value = f"CASE WHEN isfinite({value}) THEN {value} END"
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return _category(relation, name, f"nullif(trim(CAST({value} AS VARCHAR)), '')")
    if kind not in (*_NUMBERS, *_SIMPLE) and not kind.startswith(("DECIMAL", "TIMESTAMP")):
        raise _Skipped(f"no kind of column holds {kind.partition('(')[0]}")
    low, high, nullable = _facts(relation, f"min({value}), max({value}), count({value}) < count(*)")
    if low is None:
        raise _Skipped("no values")
    if kind == "BOOLEAN":
        return Boolean(name, nullable=nullable)
    if kind in _NUMBERS:
        return _integer(name, int(low), int(high), nullable)
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return _date(name, low, high, nullable)
    return _number(name, float(low), float(high), nullable)


def _facts(relation: duckdb.DuckDBPyRelation, aggregates: str) -> tuple[Any, ...]:
    (facts,) = relation.aggregate(aggregates).fetchall()
    return tuple(facts)


def _category(relation: duckdb.DuckDBPyRelation, name: str, text: str) -> Category:
    distinct, known, numbers, nullable = _facts(
        relation,
        f"approx_count_distinct({text}), count({text}), count(TRY_CAST({text} AS DOUBLE)), count({text}) < count(*)",
    )
    if not known:
        raise _Skipped("no values")
    if distinct > _LEVELS and numbers > known / 2:
        raise _Skipped("numbers mixed with other text; mend the text, or declare it by hand")
    if distinct > _LEVELS:
        raise _Skipped(f"text with more than {_LEVELS} different values; {_OWNER}")
    counted = relation.project(f"{text} AS level").aggregate("level, count(level) AS seen")
    levels = {str(level) for level, _ in counted.filter(f"seen >= {_SEEN}").fetchall()} - {_OTHER, NULL_LABEL}
    if not levels:
        raise _Skipped(f"text with no value seen {_SEEN} times or more")
    return Category(name, sorted(levels), other=_OTHER, nullable=nullable)


def _integer(name: str, low: int, high: int, nullable: bool) -> Integer:
    if max(abs(low), abs(high)) > EXACT / 2:
        raise _Skipped(f"whole numbers too large for exact bins; {_OWNER}")
    step = _nice((high - low) / 100)
    width = max(1, int(step))
    start = math.floor(low / width) * width if low < 0 or low > 10 * width else 0
    end = math.ceil((high + 1) / width) * width - 1
    return Integer(name, start, max(end, start), width=width, nullable=nullable)


def _number(name: str, low: float, high: float, nullable: bool) -> Number:
    step = _nice((high - low) / _BINS) or 1.0
    start = math.floor(low / step) * step
    bins = max(1, math.ceil((high - start) / step))
    return Number(name, start, start + bins * step, bins=bins, nullable=nullable)


def _date(name: str, low: Any, high: Any, nullable: bool) -> Date:
    first, last = (d.date() if isinstance(d, dt.datetime) else d for d in (low, high))
    return Date(name, first.replace(month=1, day=1), last.replace(month=12, day=31), unit="month", nullable=nullable)


def _nice(step: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten: rounder bounds tell less."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step)
