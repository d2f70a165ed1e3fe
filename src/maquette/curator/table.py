"""PrivateTable: a handle to rows that only the curator can read, and the Engine protocol of those who read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError
from maquette.schema import Schema

MAX_ROWS = 2**32  # of every table: integer statistics behind the wall are bounded by it


class Engine(Protocol):
    """Reads rows; never leaves `curator/`. Everything it returns is exact, hence private."""

    @property
    def schema(self) -> Schema:
        """The public universe."""

    @property
    def rows(self) -> int:
        """How many records were kept."""

    @property
    def fingerprint(self) -> str:
        """A digest of the encoded records as a multiset, the schema and the contribution bound."""

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """How many records fall in every cell of `columns`: axes in the order asked, read-only."""

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks, one column per schema column, for questions over too many cells."""

    def prefetch(self, column_sets: Iterable[Sequence[str]]) -> None:
        """Count many column sets in few passes, so that `counts` finds them; a hint, bounded in memory."""


class PrivateTable:
    """An opaque handle: what it is a table of, and nothing computed from its rows, not even how many there are."""

    __slots__ = ("__weakref__", "_max_contributions", "_privacy_unit", "_schema")

    def __init__(self, schema: Schema, privacy_unit: str | None, max_contributions: int) -> None:
        self._schema = schema
        self._privacy_unit = privacy_unit
        self._max_contributions = max_contributions

    @property
    def schema(self) -> Schema:
        """The public universe."""
        return self._schema

    @property
    def privacy_unit(self) -> str | None:
        """The column that says whose row it is; None when every row is a unit of its own."""
        return self._privacy_unit

    @property
    def max_contributions(self) -> int:
        """At most so many rows of one unit are kept."""
        return self._max_contributions

    def __repr__(self) -> str:
        unit = "row" if self.privacy_unit is None else f"{self.privacy_unit!r}, at most {self.max_contributions} rows"
        return f"PrivateTable({len(self.schema)} columns, privacy unit: {unit})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PrivateTable cannot be pickled or copied: its rows stay in this process; open it again")


_engines: WeakKeyDictionary[PrivateTable, Engine] = WeakKeyDictionary()


def private_table(engine: Engine, privacy_unit: str | None = None, max_contributions: int = 1) -> PrivateTable:
    """A handle for an engine; the engine lives as long as the handle."""
    table = PrivateTable(engine.schema, privacy_unit, max_contributions)
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
