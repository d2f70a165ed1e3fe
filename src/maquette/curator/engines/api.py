"""The contract of a counting engine, which reads rows for the doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maquette.schema import Schema

# Maximum rows of a table, about 1.3e10: bounds all integer statistics behind the wall. A row adds at most 2^28 to a
# number, so sums stay within 3 * 2^60; noise stays below 2^62; together they are below 7 * 2^60, within 64 bits.
MAX_ROWS = 3 * 2**32


class Amount(NamedTuple):
    """What a row adds to a sum: the value of a column, clamped to `low` to `high`, less `centre`; 0 if it is missing.

    All numbers are steps of the column's `value_grid`.
    """

    column: str
    low: int
    high: int
    centre: int = 0


@runtime_checkable
class Engine(Protocol):
    """Reads rows; never leaves `curator/`. Everything it returns is exact, hence private.

    Privacy: an engine is trusted. The doors' guarantees hold if every record is counted once, and if at most
    `max_contributions` records of one privacy unit are counted. Several threads may use it.
    """

    @property
    def schema(self) -> Schema:
        """The public universe."""

    @property
    def rows(self) -> int:
        """The number of records kept."""

    @property
    def fingerprint(self) -> str:
        """A digest of the encoded records as a multiset, the schema and the contribution bound: `fingerprint_of`."""

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """The number of records in every cell of `columns`: axes in the order asked, read-only."""

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """The encoded records in chunks, one column per schema column, for questions over too many cells."""

    def prefetch(self, column_sets: Iterable[Sequence[str]]) -> None:
        """Count many column sets in few passes, so that `counts` finds them; a hint, bounded in memory."""


@runtime_checkable
class UnitEngine(Engine, Protocol):
    """An engine that also knows which records belong to one privacy unit, so that units can be counted.

    Privacy: records of one unit have one number, and there are at most `max_contributions` of them.
    """

    @property
    def keeps_units(self) -> bool:
        """Whether it does."""

    def units(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """The encoded records in chunks, each with the number of every record's unit."""


@runtime_checkable
class ValueEngine(Engine, Protocol):
    """An engine that also keeps the values of binned numbers, so that sums are those of the values themselves.

    A value is a whole number of steps of the column's `value_grid`, as `Column.value_sql` reads it.

    Privacy: every record's amount is clamped to `low` to `high` of `Amount`, less its centre, before it is added up;
    the price of a sum is computed from these two numbers, and nothing above checks the clamp.
    """

    def sums(self, columns: Sequence[str], amount: Amount) -> NDArray[np.int64]:
        """The sum of the records' amounts in every cell of `columns`: axes in the order asked, read-only."""

    def amounts(self, *amounts: Amount) -> Iterator[tuple[NDArray[np.int32], tuple[NDArray[np.int64], ...]]]:
        """The encoded records in chunks, each with the amounts of every record: one array for each that was asked."""


@runtime_checkable
class LevelledEngine(Engine, Protocol):
    """An engine whose records can be seen in wider levels, for bins that are drawn after the table was opened.

    Privacy: a record's new level is a function of its old one, so a record stays a record, and the fingerprint is that
    of the levels in which the table was opened.
    """

    def in_levels_of(self, schema: Schema) -> Engine:
        """The same records in the levels of `schema`, in each of which the old levels lie whole."""


@runtime_checkable
class SpreadEngine(Engine, Protocol):
    """An engine whose records are on other machines and stay there: it has no `blocks`.

    Questions over too many cells are evaluated where the records are, part by part, and their values added up.
    """

    def spread(self, values: Callable[[Engine], NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """The sum of `values` over disjoint parts of the records, each as an engine of its own; exact."""
