"""The contract of a counting engine, which reads rows for the doors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maquette.schema import Schema

MAX_ROWS = 2**32  # maximum rows of a table: bounds all integer statistics behind the wall


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
