"""Every engine on random tables: counts, sums, contributions, look-ups and distances are exactly those of memory.

Spark itself is in `test_spark.py`, where a session is at hand; here its executors run in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine_checks import SCHEMA, UNIT, rows, same
from servers import postgresql
from spark_frames import frame

import maquette as mq
from gate_tools import patched
from maquette.curator import PrivateTable
from maquette.curator.engines import encoded, kernels
from maquette.curator.engines.planes import PlaneFile
from maquette.errors import MaquetteError

Opener = Callable[[pa.Table, Path, dict[str, Any]], PrivateTable]


def _planes(table: pa.Table, folder: Path, unit: dict[str, Any]) -> PrivateTable:
    return mq.open_table(table, SCHEMA, memory_limit=0, planes=folder / "planes", **unit)


def _kept(table: pa.Table, folder: Path, unit: dict[str, Any]) -> PrivateTable:
    mq.open_table(table, SCHEMA, memory_limit=0, planes=folder / "planes", keep_planes=True, **unit)
    return mq.open_table(folder / "planes", SCHEMA, **unit)


OPENERS: dict[str, Opener] = {
    "encoded again": lambda table, _, unit: mq.open_table(table, SCHEMA, memory_limit=0, **unit),
    "planes": _planes,
    "kept planes": _kept,
    "executors": lambda table, _, unit: mq.open_table(frame(table), SCHEMA, **unit),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
@pytest.mark.parametrize("name", OPENERS)
def test_engines_have_the_numbers_of_memory(name: str, unit: dict[str, Any], tmp_path: Path) -> None:
    table = rows(seed=1)
    same(OPENERS[name](table, tmp_path, unit), mq.open_table(table, SCHEMA, **unit))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 5))
@pytest.mark.parametrize("name", OPENERS)
def test_engines_agree_on_tables_of_few_rows(name: str, seed: int, tmp_path: Path) -> None:
    table = rows(count=[1, 7, 200][seed - 2], seed=seed)
    same(OPENERS[name](table, tmp_path, UNIT), mq.open_table(table, SCHEMA, **UNIT))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as address:
        yield address


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
def test_postgresql_has_the_numbers_of_memory(server: str, unit: dict[str, Any]) -> None:
    import psycopg

    table = rows(seed=1)
    with psycopg.connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (a int, b int, c int, d text, e double precision, who int)")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    same(mq.open_table(f"{server}&table=t", SCHEMA, **unit), mq.open_table(table, SCHEMA, **unit))


def _another_plane() -> Any:
    codes = PlaneFile.codes
    return patched(
        PlaneFile,
        "codes",
        lambda self, chunk, planes, first, last: codes(self, chunk, planes, first, last)[::-1].copy(),
    )


def _a_record_lost() -> Any:
    codes = PlaneFile.codes
    return patched(
        PlaneFile,
        "codes",
        lambda self, chunk, planes, first, last: codes(self, chunk, planes, first, last)[:, 1:].copy(),
    )


def _missing_counts() -> Any:
    return patched(encoded, "clamped", lambda values, amount: np.clip(values, amount.low, amount.high) - amount.centre)


def _a_chunk_twice() -> Any:
    pieces = kernels._pieces
    return patched(kernels, "_pieces", lambda chunks, first, last: [*pieces(chunks, first, last)] * 2)


MUTANTS: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "planes are read in another order": ("planes", _another_plane),
    "a record is counted in place of another": ("planes", _a_record_lost),
    "a missing value is added": ("planes", _missing_counts),
    "a chunk is counted twice": ("encoded again", _a_chunk_twice),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_plane_mutant_is_killed(name: str, tmp_path: Path) -> None:
    engine, broken = MUTANTS[name]
    table = rows(count=400, seed=1)
    held = mq.open_table(table, SCHEMA)
    opened = OPENERS[engine](table, tmp_path, {})
    with pytest.raises((AssertionError, MaquetteError, IndexError, ValueError)):
        _compared(opened, held, broken)


def _compared(opened: PrivateTable, held: PrivateTable, broken: Callable[[], AbstractContextManager[Any]]) -> None:
    from maquette.curator import Amount, ValueEngine
    from maquette.curator.table import engine_of

    amount, memory, engine = Amount("c", 5, 60), engine_of(held), engine_of(opened)
    assert isinstance(memory, ValueEngine)
    assert isinstance(engine, ValueEngine)
    counts, sums = memory.counts(["d", "b"]), memory.sums(["d"], amount)
    with broken():
        assert np.array_equal(engine.counts(["d", "b"]), counts)
        assert np.array_equal(engine.sums(["d"], amount), sums)
