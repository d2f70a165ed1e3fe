"""Draft a schema by reading the data: a starting point for a custodian's review, never a private release."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import PrivacyWarning, SchemaError, UnreadableSource
from maquette.schema.columns import INVALID, Boolean, Category, Column, identifier
from maquette.schema.csv_files import read_csv, unreadable
from maquette.schema.guess_text import Skipped, draft_date, draft_integer, draft_number, draft_text, tally
from maquette.schema.schema import Schema, as_arrow

if TYPE_CHECKING:
    import duckdb

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
KINDS = {"csv", "tsv", "txt", "parquet", "pq"}
_SIMPLE = ("BOOLEAN", "DATE", "DOUBLE", "FLOAT", '"NULL"')


def guess(source: object) -> Schema:
    """Draft a schema from a CSV or Parquet path, an Arrow table, a data frame or a mapping of columns.

    The draft always fits the table it was made from. Columns that cannot be drafted are left out; `skipped` and the
    draft's file list them with the reason.
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
        engine.execute("SET TimeZone = 'UTC'")  # dates must not depend on the machine
        try:
            relation, names = _relation(engine, source)
            for place, name in enumerate(names):
                try:
                    drafted.append(_draft(relation, place, names))
                except Skipped as reason:
                    skipped.append(f"{name if name.isprintable() else repr(name)} ({reason})")
        except duckdb.Error as error:
            raise unreadable(source, error) from None
    if _is_csv(source) and _is_data(names, drafted):
        raise UnreadableSource(
            f"the first line of {str(source)!r} looks like data, not a header", advice="add one with the column names"
        )
    if not drafted:
        raise SchemaError(f"no column could be drafted: {'; '.join(skipped)}", advice="Write the schema by hand")
    return Schema(drafted, guessed=True, skipped=skipped)


def _relation(engine: duckdb.DuckDBPyConnection, source: object) -> tuple[duckdb.DuckDBPyRelation, Sequence[str]]:
    """Rows, and the names of their columns."""
    if not isinstance(source, str | Path):
        relation = engine.from_arrow(as_arrow(source))
        return relation, relation.columns
    path = Path(source)
    if path.is_dir():
        raise UnreadableSource(f"{str(source)!r} is a directory", expected="a CSV or Parquet file")
    files = [str(path)] if path.is_file() else sorted(glob.glob(str(source)))
    if not files:
        raise UnreadableSource(f"there is no file {str(source)!r}", expected="a CSV or Parquet file")
    if not set(files[0].lower().removesuffix(".gz").rsplit(".", 1)[1:]) & KINDS:
        raise UnreadableSource(
            f"{str(source)!r} is neither CSV (.csv, .tsv, .txt, also .gz) nor Parquet by its name",
            advice="export it as one of them (spreadsheets: save as CSV UTF-8)",
        )
    if _is_csv(source):
        return read_csv(engine, files)
    relation = engine.read_parquet(files)
    return relation, relation.columns


def _is_csv(source: object) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix.lower() not in (".parquet", ".pq")


def _draft(relation: duckdb.DuckDBPyRelation, place: int, names: Sequence[str]) -> Column:
    name, value, kind = names[place], identifier(relation.columns[place]), str(relation.types[place])
    if not name:
        raise Skipped(f"column {place + 1} has no name; give it one in the header")
    if list(names).count(name) > 1:
        raise Skipped("several columns have this name; rename all but one")
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        column = draft_text(relation, name, value)
        relation, value = tally(relation, value), "text"
    else:
        column = _typed(relation, name, value, kind)
    if relation.filter(f"{column.code_sql(value)} = {INVALID}").limit(1).fetchall():
        raise Skipped(f"some values do not fit a column of kind {column.kind}; correct them, or declare it by hand")
    return column


def _typed(relation: duckdb.DuckDBPyRelation, name: str, value: str, kind: str) -> Column:
    """Draft a column whose source declares its type."""
    if kind in ("DOUBLE", "FLOAT"):
        value = f"CASE WHEN isfinite({value}) THEN {value} END"
    if kind not in (*_NUMBERS, *_SIMPLE) and not kind.startswith(("DECIMAL", "TIMESTAMP")):
        raise Skipped(f"no kind of column holds {kind.partition('(')[0]}")
    facts: list[tuple[Any, ...]] = relation.aggregate(
        f"min({value}), max({value}), count({value}) < count(*)"
    ).fetchall()
    ((low, high, nullable),) = facts
    if low is None:
        raise Skipped("no values")
    if kind == "BOOLEAN":
        return Boolean(name, nullable=nullable)
    if kind in _NUMBERS:
        return draft_integer(name, int(low), int(high), nullable=nullable)
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return draft_date(name, low, high, nullable=nullable)
    return draft_number(name, float(low), float(high), nullable=nullable)


def _is_data(names: Sequence[str], drafted: Sequence[Column]) -> bool:
    """Whether the header is a row of data: in every column that is not a category, the column name is a valid value."""
    typed = [column for column in drafted if not isinstance(column, Category)]
    return bool(typed) and all(column.encode([column.name])[0] != INVALID for column in typed)
