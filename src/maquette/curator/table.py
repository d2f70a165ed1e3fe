"""PrivateTable: a handle to rows that only the curator can read, and `table_of`, which makes one from an engine."""

from __future__ import annotations

from typing import NoReturn
from weakref import WeakKeyDictionary

from maquette.curator.engines.api import MAX_ROWS, Engine
from maquette.errors import DataError, SchemaError
from maquette.schema import Schema


class PrivateTable:
    """An opaque handle: it shows schema and privacy unit, but nothing computed from rows, not even their number."""

    __slots__ = ("__weakref__", "_max_contributions", "_name", "_privacy_unit", "_schema")

    def __init__(
        self, schema: Schema, privacy_unit: str | None, max_contributions: int, name: str | None = None
    ) -> None:
        self._name = name
        self._schema = schema
        self._privacy_unit = privacy_unit
        self._max_contributions = max_contributions

    @property
    def schema(self) -> Schema:
        """The public universe."""
        return self._schema

    @property
    def name(self) -> str | None:
        """The table's name in SQL, from its source; None if the source has none."""
        return self._name

    @property
    def privacy_unit(self) -> str | None:
        """The column that names the privacy unit; None if every row is a unit."""
        return self._privacy_unit

    @property
    def max_contributions(self) -> int:
        """Maximum rows kept per privacy unit."""
        return self._max_contributions

    def __repr__(self) -> str:
        unit = "row" if self.privacy_unit is None else f"{self.privacy_unit!r}, at most {self.max_contributions} rows"
        return f"PrivateTable({len(self.schema)} columns, privacy unit: {unit})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PrivateTable cannot be pickled or copied: its rows stay in this process; open it again")


_engines: WeakKeyDictionary[PrivateTable, Engine] = WeakKeyDictionary()


def table_of(engine: Engine, *, privacy_unit: str | None = None, max_contributions: int = 1) -> PrivateTable:
    """A table for a `Curator` from your own counting engine; the engine lives as long as the table.

    Privacy: the engine is trusted code inside the wall. `privacy_unit` and `max_contributions` are only declared here:
    the engine itself must keep at most `max_contributions` rows of every unit, and nothing checks that it did.
    `open_table` bounds the rows itself, for every source that it reads.
    """
    if not isinstance(engine, Engine) or not isinstance(engine.schema, Schema):
        raise DataError(
            f"a table must be counted by an engine, got {type(engine).__name__}",
            expected="an object with schema, rows, fingerprint, counts, blocks and prefetch",
        )
    if type(engine.rows) is not int or not 0 < engine.rows <= MAX_ROWS:
        raise DataError(
            "an engine does not say how many rows it holds", expected=f"a whole number from 1 to {MAX_ROWS:,}"
        )
    if not isinstance(engine.fingerprint, str) or not engine.fingerprint:
        raise DataError("an engine has no fingerprint of its records", expected="the text that fingerprint_of returns")
    check_unit(privacy_unit, max_contributions)
    return private_table(engine, privacy_unit, max_contributions)


def check_unit(privacy_unit: str | None, max_contributions: int) -> None:
    """Refuse a contribution bound that is not a whole number, or that has no privacy unit."""
    if type(max_contributions) is not int or max_contributions < 1:
        raise SchemaError(f"max_contributions is {max_contributions!r}", expected="a whole number of at least 1")
    if privacy_unit is None and max_contributions != 1:
        raise SchemaError(
            f"max_contributions is {max_contributions} but there is no privacy_unit, so each row is its own unit",
            advice="name the column that identifies the unit of a row, or leave max_contributions at 1",
        )


def private_table(
    engine: Engine, privacy_unit: str | None = None, max_contributions: int = 1, name: str | None = None
) -> PrivateTable:
    """A handle for an engine; the engine lives as long as the handle."""
    table = PrivateTable(engine.schema, privacy_unit, max_contributions, name)
    _engines[table] = engine
    return table


def engine_of(table: PrivateTable) -> Engine:
    """The engine behind a handle. Only `curator/` may call it."""
    engine = _engines.get(table) if isinstance(table, PrivateTable) else None
    if engine is None:
        raise DataError(
            f"the table is of type {type(table).__name__}", expected="a table made by open_table in this process"
        )
    return engine
