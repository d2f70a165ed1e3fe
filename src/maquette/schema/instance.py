"""The DuckDB that reads rows which are already in memory: one instance for a process, one connection for each use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_instances: list[duckdb.DuckDBPyConnection] = []  # at most one


def connection() -> duckdb.DuckDBPyConnection:
    """A connection to close after use; a DuckDB of its own for each use would take about 30 ms to start.

    Uses share threads, the memory limit and the settings below, and nothing else: they read Arrow data of their own
    through relations, and none creates, attaches or registers anything by name. An instance that fails is replaced.
    """
    import duckdb

    for instance in _instances:
        try:
            opened = instance.cursor()
            opened.execute("SELECT 1").fetchall()
            return opened
        except duckdb.Error:  # an internal error ends an instance for all its connections
            _instances.clear()
    instance = duckdb.connect()
    settle(instance)
    _instances[:] = [instance]
    return instance.cursor()


def settle(instance: duckdb.DuckDBPyConnection, spill: str = "") -> None:
    """Settings of our own instances. What does not fit in memory goes to the directory `spill`, or nowhere."""
    instance.execute("SET GLOBAL TimeZone = 'UTC'")  # dates must not depend on the machine
    instance.execute("SET disabled_optimizers = 'statistics_propagation'")  # of NaN they are wrong
    instance.execute("SET temp_directory = $directory", {"directory": spill})


# A fork would inherit the instance without its threads, and closing it waits for them.
os.register_at_fork(before=_instances.clear)
