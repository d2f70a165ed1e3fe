"""Spark itself, with two workers in processes of their own: the numbers of one machine, even if one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_checks import SCHEMA, UNIT, rows, same
from spark_session import SETTINGS, cluster, executors_of, need
from test_conformance import agree

import maquette as mq
from maquette.curator.table import engine_of
from maquette.errors import UnreadableSource

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[Any, Path]]:
    with cluster("local-cluster[2,1,1024]") as found:
        yield found


@pytest.fixture
def spark(workers: tuple[Any, Path]) -> Any:
    return workers[0]


def test_every_kind_and_type_has_the_codes_of_the_reference(spark: Any) -> None:
    agree(lambda table: (spark.createDataFrame(table), {}))


@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
def test_spark_has_the_numbers_of_memory(spark: Any, unit: dict[str, Any]) -> None:
    table = rows(seed=1)
    found = spark.createDataFrame(table).repartition(3)
    same(mq.open_table(mq.SparkTable(found), SCHEMA, **unit), mq.open_table(table, SCHEMA, **unit))


def test_a_name_and_a_path_are_opened_and_what_is_absent_is_refused(spark: Any, tmp_path: Path) -> None:
    table = rows(count=500)
    pq.write_table(table, tmp_path / "t.parquet")
    spark.createDataFrame(table).createOrReplaceTempView("people")
    held = mq.open_table(table, SCHEMA)
    for source in ("people", str(tmp_path / "t.parquet"), tmp_path / "t.parquet"):
        opened = mq.open_table(mq.SparkTable(source, spark=spark), SCHEMA)
        assert engine_of(opened).fingerprint == engine_of(held).fingerprint
    with pytest.raises(UnreadableSource, match="TABLE_OR_VIEW_NOT_FOUND"):
        mq.open_table(mq.SparkTable("absent", spark=spark), SCHEMA)


def test_an_executor_killed_in_the_middle_changes_no_count(spark: Any) -> None:
    table = rows(count=4_000)
    opened = mq.open_table(spark.createDataFrame(table).repartition(8), SCHEMA, **UNIT)
    held = mq.open_table(table, SCHEMA, **UNIT)
    engine: Any = engine_of(opened)
    before = executors_of(spark)
    assert len(before) == 2

    def slow(part: Any) -> np.ndarray:
        time.sleep(1.0)
        return np.array([part.rows])

    killer = threading.Timer(1.5, lambda: os.kill(before[0], signal.SIGKILL))
    killer.start()
    total = engine.spread(slow, (1,))
    killer.join()
    assert before[0] not in executors_of(spark)
    assert int(total[0]) == engine.rows == engine_of(held).rows
    for names in (["a", "b"], ["d", "c"]):  # half of the planes were lost, and are encoded again
        assert np.array_equal(engine.counts(names), engine_of(held).counts(names))


def test_a_cancelled_query_is_an_error_that_was_charged(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = mq.open_table(spark.createDataFrame(rows(count=300)), SCHEMA)
    engine: Any = engine_of(opened)
    visited = type(engine)._visited

    def slow(self: Any, chosen: Any, evaluate: Any, size: int, *, values: bool) -> Any:
        def late(part: Any) -> Any:
            time.sleep(5.0)
            return evaluate(part)

        return visited(self, chosen, late, size, values=values)

    monkeypatch.setattr(type(engine), "_visited", slow)
    ender = threading.Timer(1.5, spark.sparkContext.cancelAllJobs)
    ender.start()
    with mq.Curator(opened, mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(UnreadableSource, match="did not finish counting"):
            mq.answer(curator, "SELECT count(*) FROM t WHERE a", epsilon=0.25)
        ender.join()
        assert curator.spent.epsilon == pytest.approx(0.25)
        monkeypatch.undo()
        mq.answer(curator, "SELECT count(*) FROM t WHERE b > 7", epsilon=0.25)  # the table can still be asked
        assert curator.spent.epsilon == pytest.approx(0.5)


def test_logs_of_workers_hold_no_row(workers: tuple[Any, Path]) -> None:
    spark, logs = workers
    secret = pa.table(rows(count=50)).set_column(3, "d", pa.array(["SECRETVALUE"] * 50))
    for schema in (SCHEMA, mq.Schema([mq.Category("d", ["x"])]), mq.Schema([mq.Integer("d", 0, 3)])):
        with suppress(mq.DataError):
            engine_of(mq.open_table(spark.createDataFrame(secret), schema)).counts(["d"])
    written = [path for path in logs.rglob("std*") if path.is_file()]
    assert written
    assert not any("SECRETVALUE" in path.read_text(errors="replace") for path in written)


CONNECTED = """
import sys
sys.path[:0] = sys.argv[1:]
from engine_checks import SCHEMA, UNIT, rows
from pyspark.sql import SparkSession
import maquette as mq
from maquette.curator import Amount
from maquette.curator.table import engine_of
session = SparkSession.builder.remote("local[*]").getOrCreate()
session.conf.set("spark.sql.shuffle.partitions", "3")
table = rows(count=400)
frame = session.createDataFrame(table)
assert "connect" in type(frame).__module__
spread, held = (mq.open_table(source, SCHEMA, **UNIT) for source in (frame, table))
one, other = engine_of(spread), engine_of(held)
assert one.fingerprint == other.fingerprint
assert (one.counts(["a", "d"]) == other.counts(["a", "d"])).all()
assert (one.sums(["d"], Amount("c", 5, 60)) == other.sums(["d"], Amount("c", 5, 60))).all()
print("as in memory")
session.stop()
"""


def test_spark_connect_has_the_numbers_of_memory(tmp_path: Path) -> None:
    need()
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    here = Path(__file__).parent
    settings = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items() if name != "spark.driver.memory")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory 768m {settings} pyspark-shell",
        "SPARK_LOCAL_DIRS": str(tmp_path),
    }
    command = [sys.executable, "-c", CONNECTED, str(here), str(here.parent)]
    done = subprocess.run(
        command, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert "as in memory" in done.stdout, done.stderr[-3000:]
