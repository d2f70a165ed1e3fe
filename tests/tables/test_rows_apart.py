"""How a row is read follows from that row and the declared types alone: no row changes the reading of another.

Sensitivity rests on it. Libraries infer types from all values of a column, so one person's odd value, or missing one,
would otherwise move the codes of everybody else.
"""

from __future__ import annotations

import datetime as dt
import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.curator.engines.encoding import records_of
from maquette.curator.table import engine_of
from maquette.errors import OutOfDomain
from maquette.schema import INVALID, Column, arrow_array, as_arrow
from maquette.schema.columns import encode_columns
from maquette.schema.raw_values import row_array

EASTERN = dt.timezone(dt.timedelta(hours=-5))
PLAIN: list[Any] = [
    *(1, 2, 1.0, 1.5, -1, 99, 2**53 + 1, 2**70, 1e300, 0.1, 1.234, True, "A", "1", "1.5", "1,5", "é", "", "x" * 3000),
    *(b"1", b"\xff", "\ud800", Decimal("1.5"), Decimal("1.25"), Decimal("1e60"), np.float32(1), np.int8(2), np.True_),
    *(dt.date(2024, 3, 5), dt.datetime(2024, 3, 5, 4), dt.datetime(2024, 3, 31, 23, 30, tzinfo=EASTERN), dt.time(1)),
    *(None, float("nan"), float("inf"), [1], {"a": 1}),
    *(-0.0, 2.0**53 + 2, 5e-324, 1e16, np.float32(0.1), np.float32(0.7), np.float16(0.1), np.uint64(2**64 - 1)),
    *(np.timedelta64(1, "D"), bytearray(b"A"), memoryview(b"A"), Decimal("1.234"), "1.2340"),
]
COLUMNS: list[Column] = [
    mq.Category("c", ["1", "2", "A", "1.5", "é", "true"], other="other", nullable=True),
    mq.Category("c", ["1.0", "2.0", "1.5"], other="other", nullable=True),
    mq.Category("c", ["1", "2", "99"], other="other", nullable=True),
    mq.Category("c", ["0", "0.1", "1.234", "9007199254740994", "5e-324", "1e+16", "A"], other="other", nullable=True),
    mq.Integer("c", 0, 9, nullable=True, missing=["1.234"]),
    mq.Number("c", edges=[0, 0.7, 1, 2], nullable=True),
    mq.Integer("c", -5, 120, width=5, nullable=True, missing=["-1", "99"]),
    mq.Integer("c", -5, 120, nullable=True, missing=["-1.0"]),
    mq.Number("c", edges=[0, 1.25, 2, 100, 2000], nullable=True, decimal=",", thousands="."),
    mq.Boolean("c", nullable=True),
    mq.Date("c", "2024-01-01", "2024-12-31", unit="month", nullable=True),
]


LANES: list[Any] = [1.5, 1, True, "x", Decimal("1.25"), dt.date(2024, 3, 5), b"\xff", 2**70, None, 2**53 + 1]


@functools.cache
def values() -> list[Any]:
    import pandas as pd

    return [*PLAIN, pd.NA, pd.NaT, pd.Timestamp("2024-03-05")]


def codes(lists: list[list[Any]]) -> list[tuple[int, ...]]:
    """The code of the first value of each list, none of which has a type, in each of COLUMNS."""
    import pandas as pd

    arrays = [as_arrow({"c": pd.Series(values, dtype=object)})["c"].combine_chunks() for values in lists]
    found: dict[int, tuple[int, ...]] = {}
    for kind in {array.type for array in arrays}:  # one query for each type that was found
        places = [i for i, array in enumerate(arrays) if array.type == kind]
        firsts = pa.concat_arrays([arrays[i].slice(0, 1) for i in places])
        found |= zip(places, zip(*encode_columns(COLUMNS, [firsts] * len(COLUMNS)), strict=True), strict=True)
    return [found[i] for i in range(len(lists))]


def objects() -> None:
    """A value has the same code alone and beside any other; or it fits no level, and then the table is refused."""
    pairs = [[value, other] for value in values() for other in LANES]
    alone = codes([[value] for value, _ in pairs])
    for pair, known, found in zip(pairs, alone, codes(pairs), strict=True):
        for column, one, two in zip(COLUMNS, known, found, strict=True):
            assert one == two or INVALID in (one, two), (column, pair)


def inferred(values: Any) -> Any:
    """An array whose type is inferred from all values, where a type can hold them."""
    with suppress(OverflowError, TypeError, UnicodeError, pa.ArrowNotImplementedError):
        array = arrow_array(values)
        if not pa.types.is_decimal256(array.type):
            return array
    return row_array(values)


def records(source: Any, column: Column) -> list[int]:
    """The codes of all rows of a table."""
    table = engine_of(mq.open_table(source, mq.Schema([column])))
    return [int(code) for planes, _ in table._chunks() for (code,) in records_of(table.schema, planes)]  # type: ignore[attr-defined]


def frames() -> None:
    """A row without a value makes floats of whole numbers: the other rows are read as before."""
    import pandas as pd

    for column in COLUMNS:
        whole, real = pd.DataFrame({"c": [1, 2, -1, 99]}), pd.DataFrame({"c": [1, 2, -1, 99, None]})
        assert whole["c"].dtype != real["c"].dtype
        if column.kind not in ("boolean", "date"):
            assert records(whole, column) == records(real, column)[:4], column
    units = [{"c": [0, 1, 2, 0, 1, 2], "id": ids} for ids in ([1, 1, 1, 2, 2, 2], [1, 1, 1, 2.0, 2, 2])]
    schema = mq.Schema([mq.Integer("c", 0, 2)])
    tables = [mq.open_table(pd.DataFrame(unit), schema, privacy_unit="id") for unit in units]
    assert len({engine_of(table).fingerprint for table in tables}) == 1


def units() -> None:
    """A text among the names of units, which have no type, does not change which rows of the others are kept."""
    import pandas as pd

    schema, rows = mq.Schema([mq.Integer("c", 0, 40)]), 40
    for unit in (1.234, -0.0, 2.0**53 + 2, 7.0):
        names: list[list[Any]] = [[unit] * rows, [unit] * rows + ["x"]]
        frames = [pd.DataFrame({"c": range(len(ids)), "id": pd.Series(ids, dtype=object)}) for ids in names]
        alone, beside = [mq.open_table(frame, schema, privacy_unit="id", max_contributions=5) for frame in frames]
        kept = [np.flatnonzero(engine_of(table).counts(["c"])[:rows]) for table in (alone, beside)]
        assert kept[0].tolist() == kept[1].tolist(), unit


def files() -> None:
    """One row decides the type of its own file, not how the rows of other files are read."""
    column, others = mq.Number("c", edges=[0, 1.25, 1.75, 2.5, 10], decimal=","), pa.array([1.5, 2.0, 7.5])
    firsts = [pa.array([1]), pa.array([1.0]), pa.array([True]), pa.array(["1"]), pa.array([1], pa.int8())]
    with tempfile.TemporaryDirectory() as folder:
        for first in firsts:
            pq.write_table(pa.table({"c": first}), Path(folder, "a.parquet"))
            pq.write_table(pa.table({"c": others}), Path(folder, "b.parquet"))
            assert sorted(records(folder, column)) == [0, 1, 2, 3]


GATES: list[Callable[[], None]] = [objects, frames, units, files]
MUTANTS = {
    "a whole number is written as its type": (
        "maquette.schema.raw_values._FRACTIONS",
        "no type",
        frames,
    ),
    "files are read by the types of the first": (
        "maquette.curator.sources.Source.parts",
        property(lambda source: (source.relation,)),
        files,
    ),
    "types are inferred from all values": ("maquette.schema.schema.row_array", inferred, objects),
}


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_no_row_changes_how_others_are_read(gate: Callable[[], None]) -> None:
    gate()


@pytest.fixture(params=MUTANTS)
def mutant(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    target, broken, gate = MUTANTS[request.param]
    with mock.patch(target, broken):
        yield gate


@pytest.mark.thorough(fast=2)
def test_reading_mutant_is_killed(mutant: Callable[[], None]) -> None:
    with pytest.raises((AssertionError, OutOfDomain, duckdb.Error)):  # or a column of a type that nobody reads
        mutant()
