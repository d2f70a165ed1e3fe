"""Draft a schema by reading the data: a starting point for a custodian's review, never a private release."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import PrivacyWarning, SchemaError, UnreadableSource
from maquette.schema.columns import INVALID, Boolean, Category, Column
from maquette.schema.csv_files import CSV, NAMED, PARQUET, files_of, kind_of, nothing_at, read_draft, unreadable
from maquette.schema.encodings import detect
from maquette.schema.file_format import FileFormat
from maquette.schema.guess_notes import notes_of
from maquette.schema.guess_text import Skipped, draft_date, draft_text, tally
from maquette.schema.raw_values import arrow_array, identifier
from maquette.schema.schema import Schema, as_arrow
from maquette.schema.spreadsheets import SHEETS
from maquette.schema.titles import with_titles

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


def guess(source: object, file: FileFormat | None = None) -> Schema:
    """Draft a schema from a CSV, Excel or Parquet path, glob or directory, an Arrow table, a frame or columns.

    The draft always fits the table it was made from. Columns that cannot be drafted are left out; `skipped` and the
    draft's file list them with the reason, and `notes` say of every other column what was seen and why it was chosen.
    Delimiter and encoding of text files are detected, unless `file` declares them, and are part of the draft.
    """
    import duckdb

    warnings.warn(
        "Schema.guess read the data: its bounds and levels are not private. Review and replace them before use.",
        PrivacyWarning,
        stacklevel=3,
    )
    drafted: list[Column] = []
    skipped: list[str] = []
    notes: dict[str, list[str]] = {}
    form = FileFormat() if file is None else file
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")  # dates must not depend on the machine
        try:
            relation, names, form = _relation(engine, source, form)
            empty = not relation.limit(1).fetchall()
            for place, name in enumerate(names):
                try:
                    column, remarks = _draft(relation, place, names)
                except Skipped as reason:
                    shown = f"column {place + 1}" if not name else name if name.isprintable() else repr(name)
                    skipped.append(f"{shown} ({reason})")
                else:
                    drafted.append(column)
                    notes[name] = notes_of(column, *remarks)
        except (duckdb.Error, UnicodeDecodeError, csv.Error, OSError, EOFError) as error:
            raise unreadable(source, error) from None
    if _is_text(source) and form.names is None and _is_data(names, drafted):
        raise UnreadableSource(
            f"the first line of {str(source)!r} looks like data, not a header",
            expected=f"a header that names its {len(names)} columns",
            advice="name the columns in order: --names age,sex,... (in Python FileFormat(names=[...])), or add a "
            "header to the file",
        )
    if empty:
        raise UnreadableSource(f"{str(source)!r} has a header but no rows", advice="check that it is the right file")
    if not drafted:
        raise SchemaError(f"no column could be drafted: {'; '.join(skipped)}", advice="Write the schema by hand")
    return Schema(drafted, guessed=True, skipped=skipped, notes=notes, file=form)


def _relation(
    engine: duckdb.DuckDBPyConnection, source: object, form: FileFormat
) -> tuple[duckdb.DuckDBPyRelation, Sequence[str], FileFormat]:
    """Rows, the names of their columns, and how the file is written."""
    if not isinstance(source, str | Path):
        relation = engine.from_arrow(as_arrow(source, read=arrow_array))
        return relation, relation.columns, form
    files = files_of(str(source))
    if not files:
        raise UnreadableSource(nothing_at(str(source)), expected="a CSV, Excel (.xlsx) or Parquet file")
    kinds = set(map(kind_of, files))
    if kinds <= set(PARQUET):
        relation = engine.read_parquet(files)
        return relation, relation.columns, form
    if not (kinds <= set(CSV) or kinds <= set(SHEETS)):
        raise UnreadableSource(
            f"judging by its name, {str(source)!r} is neither {NAMED}",
            advice="export it as one of them (spreadsheets: save as CSV UTF-8)",
        )
    if kinds <= set(CSV) and form.encoding is None and not (found := detect(files)).usual:
        form = form.changed(encoding=found.encoding)
    form = with_titles(files[0], form)
    relation, names, delimiter = read_draft(engine, files, form)
    usual = "\t" if kinds == {".tsv"} else ","
    return relation, names, form if delimiter in ("", usual) else form.changed(delimiter=delimiter)


def _is_text(source: object) -> bool:
    """Whether the source is made of CSV files, whose first line may be no header."""
    return isinstance(source, str | Path) and set(map(kind_of, files_of(str(source)))) <= set(CSV)


def _draft(relation: duckdb.DuckDBPyRelation, place: int, names: Sequence[str]) -> tuple[Column, list[str]]:
    """The column and remarks about it."""
    name, value, kind = names[place], identifier(relation.columns[place]), str(relation.types[place])
    if not name:
        raise Skipped("it has no name; give it one in the header")
    if list(names).count(name) > 1:
        raise Skipped("several columns have this name; rename all but one")
    remarks: list[str] = []
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        column, remarks = draft_text(relation, name, value)
        relation, value = tally(relation, value), "text"
    elif kind in (*_NUMBERS, "DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        finite = f"CASE WHEN isfinite(CAST({value} AS DOUBLE)) THEN {value} END"
        column, remarks = draft_text(relation.project(f"CAST({finite} AS VARCHAR) AS number"), name, "number")
    else:
        column = _typed(relation, name, value, kind)
    if relation.filter(f"{column.code_sql(value)} = {INVALID}").limit(1).fetchall():
        raise Skipped(
            f"some values do not fit a column of kind {column.kind}; correct them, or declare the column by hand"
        )
    return column, remarks


def _typed(relation: duckdb.DuckDBPyRelation, name: str, value: str, kind: str) -> Column:
    """Draft a column of truth values or dates by the type that its source declares."""
    if kind not in ("BOOLEAN", "DATE") and not kind.startswith("TIMESTAMP"):
        raise Skipped("no values" if kind == '"NULL"' else f"no kind of column can hold {kind.partition('(')[0]}")
    facts: list[tuple[Any, ...]] = relation.aggregate(
        f"min({value}), max({value}), count({value}) < count(*)"
    ).fetchall()
    ((low, high, nullable),) = facts
    if low is None:
        raise Skipped("no values")
    if kind == "BOOLEAN":
        return Boolean(name, nullable=nullable)
    return draft_date(name, low, high, nullable=nullable)


def _is_data(names: Sequence[str], drafted: Sequence[Column]) -> bool:
    """Whether the header is a row of data: in every column that is not a category, the column name is a valid value."""
    typed = [column for column in drafted if not isinstance(column, Category)]
    return bool(typed) and all(column.encode([column.name])[0] != INVALID for column in typed)
