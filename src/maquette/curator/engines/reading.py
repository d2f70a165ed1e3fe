"""One pass over the codes of a source: every record is checked and fingerprinted while it goes by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.curator.contributions import NOTED
from maquette.curator.engines.api import MAX_ROWS
from maquette.curator.engines.encoding import Codes, Fingerprint, code_batches, invalid_counts, planes_of
from maquette.curator.engines.kernels import Planes
from maquette.curator.engines.values import Values, valued
from maquette.errors import DataError, EmptyTable, OutOfDomain
from maquette.schema import Schema, refuse_invalid

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Declared:
    """What the custodian declares about the rows; it is part of their fingerprint."""

    schema: Schema
    privacy_unit: str | None = None
    max_contributions: int = 1

    def digest(self, fingerprint: Fingerprint) -> str:
        """The fingerprint of a table: of its records, and of what is declared about them."""
        return fingerprint.digest(self.schema.digest, self.privacy_unit, self.max_contributions)


@dataclass
class Seen:
    """What one pass has met so far: records for the fingerprint, rows without a unit, codes that fit no level.

    Parts of a table add up, so executors can each see their own part.
    """

    schema: Schema
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    lost: int = 0
    invalid: NDArray[np.int64] = field(init=False)
    left_out: NDArray[np.int64] = field(init=False)
    """How many units had 1, 2, ... rows left out; exact, hence private."""

    def __post_init__(self) -> None:
        self.invalid = np.zeros(len(self.schema), dtype=np.int64)
        self.left_out = np.zeros(NOTED + 1, dtype=np.int64)

    def add(self, columns: Sequence[Codes]) -> tuple[Planes, Values]:
        """A batch of a relation k0, k1, ..., v0, v1, ..., and with a privacy unit `lost`, ...: as planes and values."""
        width, kept = len(self.schema), len(valued(self.schema))
        codes, beside, more = columns[:width], columns[width:][:kept], columns[width + kept :]
        self.invalid += invalid_counts(codes)
        self.lost += sum(int(column.sum()) for column in more[:1])
        for over in more[1:2]:  # rows of a unit that were left out, on its first kept row
            self.left_out += np.bincount(over[over > 0], minlength=len(self.left_out))
        beside = [*beside, *more[2:]]  # the number of the unit, where a unit may have several rows
        planes = planes_of(self.schema, codes)
        self.fingerprint.update(planes)
        return planes, np.array(beside, dtype=np.int32).reshape(len(beside), len(codes[0]))

    @property
    def refused(self) -> bool:
        """Whether something was met that no table may hold."""
        return bool(self.lost or self.invalid.any())


@dataclass
class Pass:
    """Reads a relation of codes k0, k1, ..., values v0, v1, ..., and with a privacy unit `lost`, as `bounded` makes it.

    After the last chunk, rows without a unit, values that fit no level and an empty table are refused; at once if
    the table was read before (`again`), because such codes must not be counted.
    """

    declared: Declared
    relation: duckdb.DuckDBPyRelation
    again: bool = False
    seen: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.seen = Seen(self.declared.schema)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the records read so far."""
        return self.seen.fingerprint

    @property
    def digest(self) -> str:
        """The fingerprint of the table, once all of it was read."""
        return self.declared.digest(self.fingerprint)

    def __iter__(self) -> Iterator[tuple[Planes, Values]]:
        for columns in code_batches(self.relation):
            chunk = self.seen.add(columns)
            if self.again and self.seen.refused:
                break
            check_rows(self.fingerprint.rows)
            yield chunk
        schema, unit = self.declared.schema, self.declared.privacy_unit
        check_read(schema, unit, self.fingerprint.rows, self.seen.lost, self.seen.invalid.tolist())


def check_rows(rows: int) -> None:
    """Refuse a table of more rows than sums behind the wall can hold."""
    if rows > MAX_ROWS:
        raise DataError(
            "the source holds too many rows", expected=f"at most {MAX_ROWS:,} rows", advice="Open a part of it"
        )


def check_read(schema: Schema, unit: str | None, rows: int, lost: int, invalid: list[int]) -> None:
    """Refuse what a whole table must not hold: rows without an owner, values without a level, nothing at all."""
    if lost:
        assert unit is not None
        raise OutOfDomain(
            f"{lost} rows have no value in the privacy unit {unit!r}, so they belong to no unit. "
            "Fill in the values, or remove these rows from the source",
            {unit: lost},
        )
    refuse_invalid(schema, invalid)
    if not rows:
        raise EmptyTable("the source holds no rows", expected="at least one", advice="Check the path, or the query")
