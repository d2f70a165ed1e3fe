"""From raw rows to codes: one streamed pass that encodes, checks and fingerprints a table.

DuckDB returns codes in the smallest signed type that holds them and `INVALID`. They are kept as byte planes (see
`kernels`): a column of up to 256 levels takes one byte per record.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.curator.engines.kernels import Layout, Planes
from maquette.schema import INVALID, Column, Schema, among_sql

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Codes = NDArray[np.signedinteger[Any]]
BATCH = 2**20
_TOGETHER, _LEAST = 2**26, 2**13  # most cells, and least records, of one batch: bounded memory for hundreds of columns
_HASHED = 2**13  # records hashed together: their state stays in the first-level cache
_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of pi, as are the odd multipliers
_MULTIPLIERS = (0xA4093822299F31D1, 0x082EFA98EC4E6C89)


def present_sql(identifier: str, missing: Sequence[str]) -> str:
    """A raw value; NULL if its text is one of `missing`."""
    if not missing:
        return identifier
    absent = among_sql(identifier, [marker.strip() for marker in missing])
    return f"CASE WHEN {absent} THEN NULL ELSE {identifier} END"


def codes_sql(schema: Schema, identifiers: Mapping[str, str]) -> str:
    """The select list k0, k1, ... of codes, from the SQL identifier of every column."""
    return ", ".join(
        f"CAST({column.code_sql(identifiers[column.name])} AS {_sql_type(column)}) AS k{i}"
        for i, column in enumerate(schema)
    )


def _sql_type(column: Column) -> str:
    if column.size <= 2**7:
        return "TINYINT"
    return "SMALLINT" if column.size <= 2**15 else "INTEGER"


def code_batches(relation: duckdb.DuckDBPyRelation) -> Iterator[list[Codes]]:
    """The codes of a relation k0, k1, ..., in batches: one array per column."""
    for batch in relation.to_arrow_reader(max(_LEAST, min(BATCH, _TOGETHER // len(relation.columns)))):
        if batch.num_rows:
            yield [as_numpy(column) for column in batch.columns]


def as_numpy(array: pa.Array) -> Codes:
    """Whole numbers without nulls, without a copy; `to_numpy` would import pandas."""
    return cast(Codes, np.from_dlpack(array))


def invalid_counts(codes: Sequence[Codes]) -> NDArray[np.int64]:
    """The number of codes of each column that fit no level."""
    return np.array([np.count_nonzero(column == INVALID) for column in codes], dtype=np.int64)


def _bytes(column: Column) -> int:
    return max(1, math.ceil((column.size - 1).bit_length() / 8))


def plane_bytes(schema: Schema) -> list[int]:
    """The number of byte planes of each column."""
    return [_bytes(column) for column in schema]


def plane_count(schema: Schema) -> int:
    """The number of byte planes of a schema."""
    return sum(plane_bytes(schema))


def planes_of(schema: Schema, codes: Sequence[Codes]) -> Planes:
    """Codes as byte planes, low bytes first."""
    planes = np.empty((plane_count(schema), len(codes[0])), dtype=np.uint8)
    plane = 0
    for column, values in zip(schema, codes, strict=True):
        for byte in range(_bytes(column)):
            planes[plane] = (values >> (8 * byte)).astype(np.uint8)
            plane += 1
    return planes


def records_of(schema: Schema, planes: Planes) -> NDArray[np.int32]:
    """Byte planes as records: one row per record, one column per schema column."""
    records = np.zeros((planes.shape[1], len(schema)), dtype=np.int32)
    plane = 0
    for i, column in enumerate(schema):
        for byte in range(_bytes(column)):
            records[:, i] |= planes[plane].astype(np.int32) << (8 * byte)
            plane += 1
    return records


def layout_of(schema: Schema, positions: Sequence[int]) -> Layout:
    """The planes of the columns at `positions`, and the stride of each byte in their joint histogram."""
    first = _first_planes(schema)
    planes, strides = [], []
    cells = 1
    for position in reversed(positions):
        for byte in range(_bytes(schema.columns[position])):
            planes.append(first[position] + byte)
            strides.append(cells << (8 * byte))
        cells *= schema.columns[position].size
    return Layout(tuple(planes), tuple(strides), cells)


_PLANES: dict[int, tuple[Schema, tuple[int, ...]]] = {}  # for the latest schemas
_SCHEMAS = 8


def _first_planes(schema: Schema) -> tuple[int, ...]:
    """The first plane of each column; cached by object identity, because an equal object may differ in fact."""
    known, planes = _PLANES.get(id(schema), (None, ()))
    if known is not schema:
        planes = tuple(accumulate(map(_bytes, schema), initial=0))
        if len(_PLANES) >= _SCHEMAS:
            _PLANES.clear()
        _PLANES[id(schema)] = (schema, planes)
    return planes


class Fingerprint:
    """A digest of the records as a multiset, so that file format and row order do not matter.

    A record is hashed to two 64-bit words by steps that are one-to-one in every cell; the words are added up modulo
    2^64. One changed cell always changes the sums; other changes are missed with probability about 2^-128. It detects
    accidental changes of the data, not those of an adversary who can rewrite the table.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sums = [0, 0]

    def update(self, planes: Planes) -> None:
        """Add the records in these planes."""
        self.rows += planes.shape[1]
        for start in range(0, planes.shape[1], _HASHED):
            words = list(_words(planes[:, start : start + _HASHED]))
            for lane, seed in enumerate(_SEEDS):
                total = int(_mixed(words, seed).sum(dtype=np.uint64))
                self._sums[lane] = (self._sums[lane] + total) % 2**64

    @property
    def sums(self) -> tuple[int, int]:
        """The two sums, each below 2^64."""
        return self._sums[0], self._sums[1]

    def merge(self, rows: int, sums: Sequence[int]) -> None:
        """Add the records of another part of the table, by their number and sums."""
        self.rows += rows
        self._sums = [(own + other) % 2**64 for own, other in zip(self._sums, sums, strict=True)]

    def digest(self, *declared: object) -> str:
        """The digest of the records together with the declared facts about them."""
        parts = [*declared, self.rows, *self._sums]
        return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()


def fingerprint_of(
    schema: Schema,
    blocks: Iterable[NDArray[np.int32]],
    *,
    privacy_unit: str | None = None,
    max_contributions: int = 1,
) -> str:
    """The fingerprint of encoded records, one row per record, as `open_table` computes it.

    It does not depend on the engine: a ledger recognises the same rows behind another engine.
    """
    fingerprint = Fingerprint()
    for block in blocks:
        fingerprint.update(planes_of(schema, list(block.T)))
    return fingerprint.digest(schema.digest, privacy_unit, max_contributions)


def _words(planes: Planes) -> Iterator[NDArray[np.uint64]]:
    """Eight planes at a time, packed into 64-bit words."""
    for first in range(0, len(planes), 8):
        word = np.zeros(planes.shape[1], dtype=np.uint64)
        for byte, plane in enumerate(planes[first : first + 8]):
            word |= plane.astype(np.uint64) << np.uint64(8 * byte)
        yield word


def _mixed(words: Sequence[NDArray[np.uint64]], seed: int) -> NDArray[np.uint64]:
    state = np.full(len(words[0]), seed, dtype=np.uint64)
    for word in words:
        state ^= word
        for multiplier in _MULTIPLIERS:
            state *= np.uint64(multiplier)
            state ^= state >> np.uint64(29)
    return state
