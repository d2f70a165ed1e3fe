"""Parities: for every set of s two-level columns, the sum over rows of (-1)^(number of columns of the set that hold).

They are contrasts of the columns' joint table, one signed sum for each set, asked as one question. Rows are packed into
bits, and a parity is one exclusive-or and a count of ones. So millions of parities take seconds, even over hundreds of
columns, whose joint table is far too large to list.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.classes.boolean import two_level_columns
from maquette.query.contrasts import Contrasts
from maquette.query.forms import Form, ParitySums
from maquette.query.marginal import Marginal
from maquette.schema import Schema

MAX_PARITIES = 2**23


class Parities(Contrasts):
    """All parities of exactly `level` of these columns, the sets in lexicographic order of the columns given.

    Privacy: one row adds +1 or -1 to every parity. So adding or removing a row changes one value by 1, and all m values
    by m in L1 and by m in squared L2; this is `gains`. `Relation` doubles it for "replace", where one row leaves and
    another enters, and accounts for the rows of a unit. Values are whole numbers.
    """

    def __init__(self, schema: Schema, columns: Sequence[str], level: int) -> None:
        names = two_level_columns(schema, columns)
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= len(names):
            raise QueryError(
                f"level is {level!r}", expected=f"a whole number from 1 to the number of columns, {len(names)}"
            )
        if (count := math.comb(len(names), level)) > MAX_PARITIES:
            raise QueryError(
                f"{count:,} parities of {level} columns are more than {MAX_PARITIES:,}", advice="use fewer columns"
            )
        self._columns = names
        self.level = level
        # The joint table of all columns is never built; no product of one matrix per axis describes these sums.
        self.marginal = Marginal(schema, names[:1])
        self.matrices = (np.zeros((0, 2), dtype=np.int64),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column they depend on."""
        return self._columns

    @property
    def shape(self) -> tuple[int, ...]:
        """One value for each set."""
        return (math.comb(len(self._columns), self.level),)

    @property
    def form(self) -> Form:
        """The question as data, for the wall."""
        return ParitySums(self._columns, self.level)

    @cached_property
    def key(self) -> str:
        """The canonical digest of the question."""
        return hashlib.sha256("\0".join([f"parities of {self.level}", *self._columns]).encode()).hexdigest()

    @cached_property
    def gains(self) -> tuple[int, int, int]:
        """How far one row moves one value, all values in L1, and all in squared L2: 1, m and m for m parities."""
        return 1, self.cells, self.cells

    def of_records(self, records: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The parities of encoded records, one column for each schema column."""
        positions = [self.schema.position(name) for name in self._columns]
        bits = np.packbits(np.asarray(records)[:, positions].T == 1, axis=1)
        padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : bits.shape[1]] = bits
        return len(records) - 2 * _odd(padded.view(np.uint64), self.level)

    def combine(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The parities of a table over `columns`: a Walsh-Hadamard transform, in whole numbers if the table is."""
        values = cells
        for axis in range(cells.ndim):
            no, yes = np.take(values, 0, axis), np.take(values, 1, axis)
            values = np.stack([no + yes, no - yes], axis)
        flat = values.reshape(-1)
        bits = [1 << (cells.ndim - 1 - place) for place in range(cells.ndim)]
        return np.asarray(flat[[sum(chosen) for chosen in itertools.combinations(bits, self.level)]])

    def __repr__(self) -> str:
        return f"Parities({self.cells:,} of {self.level} of {len(self._columns)} columns)"


def _odd(bits: NDArray[np.uint64], level: int) -> NDArray[np.int64]:
    """For every set of `level` rows of bits, in lexicographic order, the number of places with oddly many ones."""
    if level == 1:
        return _ones(bits)
    found = []
    for first in itertools.combinations(range(len(bits) - 1), level - 1):
        joined = np.bitwise_xor.reduce(bits[list(first)], axis=0)
        found.append(_ones(bits[first[-1] + 1 :] ^ joined))
    return np.concatenate(found)


def _ones(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return total
