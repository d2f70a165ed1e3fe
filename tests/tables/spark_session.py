"""Spark for the tests: two workers on this machine, in processes of their own, which end with the tests."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",  # a time without a zone stays one
}


def need() -> None:
    """Skip where Spark cannot run."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'maquette[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")


@contextmanager
def cluster(master: str) -> Iterator[tuple[Any, Path]]:
    """A session, and the folder in which its workers write their logs."""
    need()
    import pyspark
    from pyspark.sql import SparkSession

    home = Path(tempfile.mkdtemp(prefix="spark-"))
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":  # where workers write
            (home / part.name).symlink_to(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("SPARK_LOCAL_DIRS", str(home / "local"))
        builder = SparkSession.builder.master(master).appName("maquette tests")
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(home / "tables")}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        gateway = session.sparkContext._gateway
        try:
            session.sparkContext.setLogLevel("OFF")
            yield session, home / "work"
        finally:
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(60)
            shutil.rmtree(home, ignore_errors=True)


def executors_of(session: Any) -> list[int]:
    """The process numbers of the executors."""
    import psutil

    children = psutil.Process(session.sparkContext._gateway.proc.pid).children(recursive=True)
    return [c.pid for c in [*children] if _is_executor(c)]


def _is_executor(process: Any) -> bool:
    import psutil

    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "java" in os.path.basename(words[0]) and any("CoarseGrainedExecutorBackend" in word for word in words)
