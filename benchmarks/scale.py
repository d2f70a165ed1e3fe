"""What rows cost: 1e6, 1e7, 1e8 rows of 12 columns, opened, asked and released, beside the usual ways to count.

    python benchmarks/scale.py [--rows 1e6 1e7 1e8] [--without spark] [--record]
    python benchmarks/scale.py --chart

Rows are generated in chunks into a Parquet file in a temporary directory (set TMPDIR to choose the disk). Every
contestant runs in a process of its own. Times are CPU seconds of that process and, for Spark, of its Java and Python
processes: they hardly depend on what else the machine does. "resident" is the peak of the process, with imports; other
libraries map files, so that theirs includes pages of the Parquet file.

maquette      open_table with a directory for planes and a memory limit of 0, so that the file is counted at every size;
              the first answer; 50 answers about column sets never asked before; all pairs
limited       the same with 600 MB for the data of the process (RLIMIT_DATA), half of what the planes of 1e8 rows take
release       a release of all pairs, epsilon 1
growth        one count, by the cells of its table; fresh questions, one after the other
duckdb        all pairs by GROUPING SETS over the Parquet file
polars        all pairs by its streaming engine
spark sql     all pairs by GROUPING SETS in local mode, the second of two passes
spark         all pairs by Maquette's executors in local mode, once planes are cached; also the second pass

From 1e7 rows on, GROUPING SETS and Polars count every eleventh pair and are scaled up; those of Spark at 1e8 rows
every 33rd.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import scale_page
from recording import record

SIZES = [2, 2, 3, 5, 6, 7, 9, 15, 16, 32, 42, 100]
NAMES = [f"c{i}" for i in range(len(SIZES))]
PAIRS = list(itertools.combinations(NAMES, 2))
RESULTS = Path(__file__).resolve().parent / "results" / "scale.json"
STEP = 11
LIMIT = 600 * 10**6  # bytes of the data of a process that shows tables larger than memory
Figures = dict[str, Any]


def generate(path: Path, rows: int, chunk: int = 2_000_000) -> None:
    """Columns that depend on one another: each is a noisy function of the one before."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.uint8()) for name in NAMES])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, chunk):
            count = min(chunk, rows - start)
            columns, last = [], np.zeros(count, dtype=np.uint8)
            for size in SIZES:
                fresh = (rng.random(count, dtype=np.float32) ** 2 * size).astype(np.uint8)
                keep = rng.random(count, dtype=np.float32) < 0.4
                last = np.where(keep, last % size, fresh).astype(np.uint8)
                columns.append(pa.array(last))
            writer.write_table(pa.table(columns, schema=schema))


def universe() -> Any:
    import maquette as mq

    return mq.Schema([mq.Integer(name, 0, size - 1) for name, size in zip(NAMES, SIZES, strict=True)])


def questions(count: int) -> list[str]:
    """Conditions about sets of three columns, of which none contains another."""
    triples = list(itertools.combinations(NAMES, 3))
    np.random.default_rng(1).shuffle(triples)
    return [f"SELECT count(*) FROM t WHERE {a} = 1 AND {b} >= 1 AND {c} <= 1" for a, b, c in triples[:count]]


def clocked(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def resident() -> float:
    """The peak of this process in MB; `ru_maxrss` would include its parent's."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def maquette(path: str, rows: int) -> Figures:
    import maquette as mq
    from maquette.curator.engines import kernels
    from maquette.curator.table import engine_of

    schema = universe()
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        os.chmod(folder, 0o700)
        opened, table = clocked(lambda: mq.open_table(path, schema, planes=folder, memory_limit=0))
        engine: Any = engine_of(table)
        disk = engine._file._state[0] / 1e6
        found: Figures = {"open": opened, "disk": disk, "resident open": resident()}
        with mq.Curator(table, mq.Budget(epsilon=1e4, delta=1e-9)) as curator:
            found["first"], _ = clocked(lambda: mq.answer(curator, questions(1)[0], epsilon=0.1))
            kernels.load()
            asks = [clocked(lambda q=q: mq.answer(curator, q, epsilon=0.1))[0] for q in questions(51)[1:]]
            found |= {"ask": statistics.median(asks), "slowest ask": max(asks), "resident asks": resident()}
            engine._tables.clear()
            engine._counted.clear()
            found["pairs"], _ = clocked(lambda: engine.prefetch(PAIRS))
            assert all(int(engine.counts(pair).sum()) == rows for pair in PAIRS)
        found["resident"] = resident()
    return found


def limited(path: str, rows: int) -> Figures:
    """The same under a limit that the system enforces; it counts stacks and all private memory, read or not."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    return {**maquette(path, rows), "limit": LIMIT / 1e6}


def release(path: str, _: int) -> Figures:
    import maquette as mq

    schema = universe()
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        os.chmod(folder, 0o700)
        table = mq.open_table(path, schema, planes=folder, memory_limit=0)
        with mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9)) as curator:
            cpu, _ = clocked(lambda: mq.release(curator, mq.marginals(schema, k=2)))
    return {"release": cpu, "resident": resident()}


def growth(path: str, rows: int) -> Figures:
    """What one count takes by the cells of its table, and how the time of fresh questions adds up."""
    import maquette as mq
    from maquette.curator.engines import kernels
    from maquette.curator.table import engine_of

    schema = universe()
    table = mq.open_table(path, schema)
    kernels.load()
    engine: Any = engine_of(table)
    found: Figures = {}
    for sets in (NAMES[:2], NAMES[:4], NAMES[2:5], NAMES[4:8], NAMES[7:10], NAMES[6:10], NAMES[8:12]):
        engine._tables.clear()
        engine._counted.clear()
        found[f"cells {schema.cells(sets)}"], _ = clocked(lambda sets=sets: engine.counts(sets))
    with mq.Curator(table, mq.Budget(epsilon=1e4, delta=1e-9)) as curator:
        total = 0.0
        for done, question in enumerate(questions(200), start=1):
            total += clocked(lambda question=question: mq.answer(curator, question, epsilon=0.1))[0]
            if done in (1, 10, 50, 100, 200):
                found[f"questions {done}"] = total
    return found


def sampled(rows: int, step: int = STEP) -> tuple[list[tuple[str, str]], float]:
    chosen = PAIRS if rows < 10**7 else PAIRS[::step]
    return chosen, len(PAIRS) / len(chosen)


def duckdb(path: str, rows: int) -> Figures:
    import duckdb as engine

    chosen, scale = sampled(rows)
    sets = ", ".join(f"({a}, {b})" for a, b in chosen)
    with engine.connect() as connection:
        named = ", ".join(sorted({name for pair in chosen for name in pair}))
        statement = f"SELECT {named}, count(*) AS n FROM '{path}' GROUP BY GROUPING SETS ({sets})"
        cpu, counted = clocked(lambda: connection.sql(statement).to_arrow_table())
    assert sum(counted["n"].to_pylist()) == rows * len(chosen)
    return {"pairs": cpu * scale, "scaled": scale, "resident": resident()}


def polars(path: str, rows: int) -> Figures:
    import polars as pl

    chosen, scale = sampled(rows)
    lazy = pl.scan_parquet(path)
    frames = [lazy.group_by(pair).len() for pair in chosen]
    cpu, counted = clocked(lambda: pl.collect_all(frames, engine="streaming"))
    assert all(int(frame["len"].sum()) == rows for frame in counted)
    return {"pairs": cpu * scale, "scaled": scale, "resident": resident()}


def _session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
    for name, value in {**settings, "spark.sql.shuffle.partitions": "4"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tree_time(session: Any) -> float:
    """CPU seconds of this process, of Java and of its Python workers, also of those that have ended."""
    import psutil

    java = psutil.Process(session.sparkContext._gateway.proc.pid)
    total = time.process_time()
    for process in [java, *java.children(recursive=True)]:
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def spark_sql(path: str, rows: int) -> Figures:
    chosen, scale = sampled(rows, 3 * STEP if rows > 10**7 else STEP)
    session = _session()
    session.read.parquet(path).createOrReplaceTempView("t")
    sets = ", ".join(f"({a}, {b})" for a, b in chosen)
    named = ", ".join(sorted({name for pair in chosen for name in pair}))
    found: Figures = {"scaled": scale}
    for when in ("first pairs", "pairs"):
        start = tree_time(session)
        counted = session.sql(f"SELECT {named}, count(*) AS n FROM t GROUP BY GROUPING SETS ({sets})").toArrow()
        found[when] = (tree_time(session) - start) * scale
        assert sum(counted["n"].to_pylist()) == rows * len(chosen)
    session.stop()
    return found


def spark(path: str, rows: int) -> Figures:
    import maquette as mq
    from maquette.curator.table import engine_of

    session = _session()
    start = tree_time(session)
    table = mq.open_table(mq.SparkTable(path, spark=session), universe())
    opened = tree_time(session) - start
    engine: Any = engine_of(table)
    found: Figures = {"open": opened}
    for when in ("first pairs", "pairs"):
        engine._tables.clear()
        engine._counted.clear()
        start = tree_time(session)
        engine.prefetch(PAIRS)
        found[when] = tree_time(session) - start
        assert all(int(engine.counts(pair).sum()) == rows for pair in PAIRS)
    del table, engine
    session.stop()
    return found


CASES: dict[str, Callable[[str, int], Figures]] = {
    "maquette": maquette,
    "limited": limited,
    "release": release,
    "growth": growth,
    "duckdb": duckdb,
    "polars": polars,
    "spark sql": spark_sql,
    "spark": spark,
}


def run(case: str, path: Path, rows: int) -> Figures | None:
    """One contestant in a process of its own; None if it did not finish."""
    command = [sys.executable, __file__, "--case", case, "--path", str(path), "--rows", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{case} did not finish:", done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="What rows cost.")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--without", nargs="+", choices=CASES, default=[])
    parser.add_argument("--record", action="store_true", help="keep the figures in results/scale.json")
    parser.add_argument(
        "--chart", action="store_true", help="only make docs/costs.md and its charts of what is recorded"
    )
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chart:
        scale_page.write()
        return
    if given.case:
        print(json.dumps(CASES[given.case](given.path, int(given.rows[0]))))
        return
    for rows in map(int, given.rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            generate(path, rows)
            size = path.stat().st_size / 1e6
            print(f"{rows:,} rows, {size:.0f} MB of Parquet", flush=True)
            together: Figures = {}
            for case in given.only:
                found = None if case in given.without else run(case, path, rows)
                if found is None:
                    continue
                print(f"  {case:<10}", json.dumps(found), flush=True)
                together |= {case: found["pairs"]} if "pairs" in found else {}
                if given.record:
                    record(f"{rows:.0e} {case}", {"rows": rows, "source": size, **found}, RESULTS)
            together.setdefault("maquette", together.get("limited"))
            if given.record and "spark sql" in together:
                record(f"{rows:.0e} one run", {"rows": rows, **together}, RESULTS)


if __name__ == "__main__":
    main()
