"""How fast all 1-, 2- and 3-way marginals are counted, against the usual ways to count them.

    python benchmarks/counting.py [--quick]

Case A: 50,000 x 15 from CSV (the real table in $MAQUETTE_DATA/adult if there is one, else generated). Case B:
10,000,000 x 10 from Parquet, generated into a temporary directory. Every contestant runs in a process of its own, so
that peak memory is its own, with the libraries of all contestants imported before the clock starts. Loading the
compiled kernel is inside the clock of "maquette" and outside that of "maquette, kernel loaded". In case B the others
count every few sets and are scaled up, marked ~; Maquette counts all. Only Maquette's load checks every value against
the declared universe and fingerprints the table; the others read codes and trust them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ADULT = {"education": 16, "age": 32, "workclass": 9, "fnlwgt": 32, "education-num": 16, "marital-status": 7} | {
    "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "capital-gain": 32, "capital-loss": 32,
    "hours-per-week": 32, "native-country": 42, "income>50K": 2,
}  # fmt: skip
WIDE = {f"c{i}": size for i, size in enumerate([2, 2, 5, 6, 7, 9, 15, 16, 32, 42])}
SAMPLED = 24  # sets a slow contestant counts

Sets = Sequence[tuple[str, ...]]
Counts = Callable[[tuple[str, ...]], int]


def all_sets(sizes: dict[str, int]) -> list[tuple[str, ...]]:
    return [s for k in (1, 2, 3) for s in itertools.combinations(sizes, k)]


def maquette(path: str, sizes: dict[str, int], *, loaded: bool) -> dict[str, float]:
    from maquette.curator import open_table
    from maquette.curator.engines import kernels
    from maquette.curator.table import engine_of
    from maquette.schema import Integer, Schema

    schema = Schema([Integer(name, 0, size - 1) for name, size in sizes.items()])
    if loaded:
        kernels._compiled_counts([(np.zeros((1, 1), np.uint8), 0, 1)], [kernels.Layout((0,), (1,), 1)], np.int32)
    start = time.perf_counter()
    table = open_table(path, schema)
    opened = time.perf_counter()
    engine = engine_of(table)
    engine.prefetch(all_sets(sizes))
    check = sum(int(engine.counts(s).max()) for s in all_sets(sizes))
    return {"load": opened - start, "count": time.perf_counter() - opened, "share": 1.0, "check": check}


def timed(load: Callable[[], Counts], sizes: dict[str, int], every: int) -> dict[str, float]:
    start = time.perf_counter()
    count = load()
    opened = time.perf_counter()
    sets = all_sets(sizes)[::every]
    check = sum(count(s) for s in sets)
    share = len(sets) / len(all_sets(sizes))
    return {"load": opened - start, "count": (time.perf_counter() - opened) / share, "share": share, "check": check}


def frame(path: str) -> Any:
    import pandas as pd

    return pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)


def with_pandas(path: str) -> Counts:
    rows = frame(path)
    return lambda s: int(rows.groupby(list(s), sort=False).size().max())


def with_numpy(path: str, sizes: dict[str, int]) -> Counts:
    rows = frame(path)
    codes = {name: rows[name].to_numpy() for name in sizes}

    def count(s: tuple[str, ...]) -> int:
        shape = [sizes[name] for name in s]
        flat = np.ravel_multi_index([codes[name] for name in s], shape)
        return int(np.bincount(flat, minlength=int(np.prod(shape))).max())

    return count


def with_duckdb(path: str) -> Counts:
    import duckdb

    engine = duckdb.connect()
    engine.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")

    def count(s: tuple[str, ...]) -> int:
        keys = ", ".join(f'"{name}"' for name in s)
        groups = engine.execute(f"SELECT {keys}, count(*) AS n FROM t GROUP BY {keys}").fetchnumpy()
        return int(groups["n"].max())

    return count


def contest(name: str, path: str, sizes: dict[str, int], every: int) -> dict[str, float]:
    """Run one contestant; what anyone needs is imported before the clock starts, for all alike."""
    import duckdb  # noqa: F401
    import pandas as pd  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    match name:
        case "maquette":
            return maquette(path, sizes, loaded=False)
        case "maquette, kernel loaded":
            return maquette(path, sizes, loaded=True)
        case "numpy bincount":
            return timed(lambda: with_numpy(path, sizes), sizes, every)
        case "pandas groupby":
            return timed(lambda: with_pandas(path), sizes, every)
        case _:
            return timed(lambda: with_duckdb(path), sizes, every)


CONTESTANTS = ("maquette", "maquette, kernel loaded", "numpy bincount", "duckdb group by", "pandas groupby")


def generate(path: Path, sizes: dict[str, int], rows: int) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {
        n: np.minimum(rng.random(rows, np.float32) ** 2 * size, size - 1).astype(np.int32) for n, size in sizes.items()
    }
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(pa.table(columns), path)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=10**6)


def run(title: str, path: str, sizes: dict[str, int], *, slow: bool) -> None:
    print(f"\n{title}: {len(all_sets(sizes))} marginals")
    print(f"{'':26}{'load s':>9}{'count s':>10}{'total s':>10}{'peak MB':>9}")
    checks = set()
    for name in CONTESTANTS:
        every = max(1, len(all_sets(sizes)) // SAMPLED) if slow and not name.startswith("maquette") else 1
        job = json.dumps([name, path, sizes, every])
        done = subprocess.run([sys.executable, __file__, "--job", job], check=True, capture_output=True, text=True)
        result = json.loads(done.stdout)
        mark = "~" if result["share"] < 1 else ""
        if result["share"] == 1:
            checks.add(result["check"])
        count, total = f"{mark}{result['count']:.3f}", f"{mark}{result['load'] + result['count']:.3f}"
        print(f"{name:26}{result['load']:>9.3f}{count:>10}{total:>10}{result['peak']:>9.0f}")
    if len(checks) > 1:
        sys.exit("the contestants disagree on the counts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="case B with 1,000,000 records")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        result = contest(*json.loads(arguments.job))
        print(json.dumps(result | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    with tempfile.TemporaryDirectory() as folder:
        real = Path(os.environ.get("MAQUETTE_DATA", folder)) / "adult" / "adult.csv"
        small = real if real.is_file() else Path(folder) / "small.csv"
        if not real.is_file():
            generate(small, ADULT, 50_000)
        run(f"A. {'adult' if real.is_file() else 'generated, 50,000 x 15'}, CSV", str(small), ADULT, slow=False)
        rows = 10**6 if arguments.quick else 10**7
        generate(Path(folder) / "large.parquet", WIDE, rows)
        run(f"B. {rows:,} x {len(WIDE)}, Parquet", str(Path(folder) / "large.parquet"), WIDE, slow=True)


if __name__ == "__main__":
    main()
