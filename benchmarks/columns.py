"""What columns cost: releases of all pairs of 100, 200 and 500 columns, and of all triples of 100; and opening them.

    python benchmarks/columns.py [--columns 100 200 500] [--kinds yes-no mixed] [--k 2] [--record]

Tables are generated, 100,000 rows each: "yes-no" columns are driven by eight hidden numbers, "mixed" columns of 2 to 20
levels depend on one of the columns before them or on a hidden class. "scattered" is held back: no setting was chosen by
it. Its columns have 2 to 15 levels and depend on others anywhere in the table, in chains or by one of three hidden
classes. Every release has epsilon 1 and delta 1e-9 and
runs in a process of its own. Times are CPU seconds of that process; "2-way" is the mean half L1 distance of at most 300
tables from the rows, as a fraction of them, and "independent" the same of the true columns taken as independent;
"bought" is that of columns measured for the whole price of the release. "progress" is how far the bar was, at most,
from the part of the CPU time that was spent.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recording import record
from releases.distance import counted, some
from releases.families import drawn, given, numbered

ROWS = 100_000
LEVELS = [2, 2, 3, 4, 2, 5, 8, 2, 6, 12, 3, 2, 20, 4, 2, 10]
OTHER_LEVELS = [3, 2, 5, 7, 2, 4, 9, 2, 15, 6]
CLASSES = 12
RESULTS = Path(__file__).resolve().parent / "results" / "columns.json"
Codes = NDArray[np.int32]
Values = NDArray[np.float64]


def yes_no(columns: int) -> tuple[list[int], Codes]:
    """Yes/no columns driven by hidden numbers: many weak dependences, some rare columns."""
    rng = np.random.default_rng(columns)
    hidden = rng.normal(size=(ROWS, 8)).astype(np.float32)
    loads = (rng.normal(size=(8, columns)) * (rng.random((8, columns)) < 0.3)).astype(np.float32)
    made = np.empty((ROWS, columns), dtype=np.int32)
    for i, threshold in enumerate(rng.uniform(-0.5, 2.0, columns)):
        made[:, i] = hidden @ loads[:, i] + rng.normal(size=ROWS) > threshold
    return [2] * columns, made


def mixed(columns: int) -> tuple[list[int], Codes]:
    """Columns of 2 to 20 levels: half depend on a column shortly before, a quarter on a class, a quarter on nothing."""
    rng = np.random.default_rng(columns + 1)
    sizes = [LEVELS[i % len(LEVELS)] for i in range(columns)]
    hidden = drawn(np.tile(rng.dirichlet(np.full(CLASSES, 2.0)), (ROWS, 1)), rng)
    made = np.zeros((ROWS, columns), dtype=np.int32)
    for i, size in enumerate(sizes):
        kind = rng.random()
        if i and kind < 0.5:
            parent = int(rng.integers(max(0, i - 5), i))
            made[:, i] = given(made[:, parent], sizes[parent], size, rng, 1.0)
        elif kind < 0.75:
            made[:, i] = given(hidden, CLASSES, size, rng, 1.0)
        else:
            made[:, i] = drawn(np.tile(rng.dirichlet(np.ones(size)), (ROWS, 1)), rng)
    return sizes, made


def scattered(columns: int) -> tuple[list[int], Codes]:
    """Held back: half of the columns are chains of eight, a quarter depend on one of three classes; in any order."""
    rng = np.random.default_rng(columns + 2)
    sizes = [OTHER_LEVELS[i % len(OTHER_LEVELS)] for i in range(columns)]
    classes = [(n, drawn(np.tile(rng.dirichlet(np.full(n, 2.0)), (ROWS, 1)), rng)) for n in (5, 9, 17)]
    made = np.zeros((ROWS, columns), dtype=np.int32)
    order = [int(i) for i in rng.permutation(columns)]
    for place, i in enumerate(order):
        if place < columns // 2 and place % 8:
            before = order[place - 1]
            made[:, i] = given(made[:, before], sizes[before], sizes[i], rng, 1.5)
        elif columns // 2 <= place < 3 * columns // 4:
            number, hidden = classes[place % 3]
            made[:, i] = given(hidden, number, sizes[i], rng, 1.0)
        else:
            made[:, i] = drawn(np.tile(rng.dirichlet(np.ones(sizes[i])), (ROWS, 1)), rng)
    return sizes, made


TABLES = {"yes-no": yes_no, "mixed": mixed, "scattered": scattered}


def product(ones: list[Values], columns: tuple[int, ...]) -> Values:
    """The table of these columns, if they were independent."""
    made = np.ones(())
    for i in columns:
        made = np.multiply.outer(made, ones[i])
    return made


def bought(table: Any) -> list[Values]:
    """Every column, measured for the price of a release, by shares that make the sum of errors least."""
    import maquette as mq
    from maquette.query import Marginal

    with mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9)) as curator:
        asked = [Marginal(curator.schema, [name]) for name in curator.schema.names]
        shares = [question.cells ** (2 / 3) for question in asked]
        found = curator.measure_many(asked, units=curator.budget.limit, shares=shares)
    columns = [np.maximum(np.asarray(each.values, dtype=np.float64), 1e-9) for each in found]
    return [each / each.sum() for each in columns]


def errors(model: Any, noisy: list[Values], sizes: list[int], codes: Codes, k: int) -> dict[str, float]:
    """Mean half L1 distances from the rows, of a model and of independent columns, true and noisy."""
    ones = [counted(codes, sizes, (i,)) / len(codes) for i in range(len(sizes))]
    apart: dict[str, list[float]] = {f"{k}-way": [], f"{k}-way independent": [], f"{k}-way bought": []}
    for columns in some(sizes, k):
        true = counted(codes, sizes, columns) / len(codes)
        made = np.asarray(model.marginal(*(f"c{i}" for i in columns)))
        for found, table in zip(apart.values(), (made, product(ones, columns), product(noisy, columns)), strict=True):
            found.append(float(np.abs(table - true).sum() / 2))
    return {name: float(np.mean(found)) for name, found in apart.items()}


def astray(told: list[tuple[float, float]], cpu: float) -> float:
    """How far a bar was at most from the part of the time that was spent, also just before each step of it."""
    before = [0.0, *(done for _, done in told)]
    assert before == sorted(before), "the bar went back"
    assert told[-1][1] == 1.0, "the bar did not reach its end"
    parts = [spent / cpu for spent, _ in told]
    shown = (*zip(parts, before[1:], strict=True), *zip(parts, before[:-1], strict=True))
    return max(abs(part - done) for part, done in shown)


def case(kind: str, columns: int, k: int, *, explain: bool) -> dict[str, Any]:
    """One release, and opening a session on the same table."""
    import maquette as mq
    from maquette.releases import watch_progress

    sizes, codes = TABLES[kind](columns)
    schema = numbered(sizes)
    names = list(schema.names)
    data = {n: codes[:, i].astype(bool) if sizes[i] == 2 else codes[:, i] for i, n in enumerate(names)}
    table = mq.open_table(data, schema)
    begun = time.process_time()
    told: list[tuple[float, float]] = []
    curator = mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9))
    with curator, watch_progress(lambda _, done, steps: told.append((time.process_time() - begun, done / steps))):
        made = mq.release(curator, mq.marginals(schema, k=k), progress=explain)
    found: dict[str, Any] = {"cpu": time.process_time() - begun}
    found["progress"] = astray(told, found["cpu"])
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if explain:
        print(*made.explanation, sep="\n", file=sys.stderr)
    noisy = bought(table)
    for size in (1, 2, 3)[: max(2, k)]:
        found |= errors(made, noisy, sizes, codes, size)
    begun = time.process_time()
    with mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9)) as curator:
        mq.online(curator, alpha=0.05)
        found["session"] = time.process_time() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What columns cost.")
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 200, 500])
    parser.add_argument("--kinds", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--k", type=int, default=2, help="columns of each table of the workload")
    parser.add_argument("--explain", action="store_true", help="say what each release decided")
    parser.add_argument("--record", action="store_true", help="keep the figures in results/columns.json")
    parser.add_argument("--case", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(case(asked.kinds[0], asked.columns[0], asked.k, explain=asked.explain)))
        return
    for columns in asked.columns:
        for kind in asked.kinds:
            command = [sys.executable, __file__, "--case", "--columns", str(columns), "--kinds", kind]
            command += ["--k", str(asked.k), *(["--explain"] if asked.explain else [])]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = {n: round(value, 5) for n, value in json.loads(done.stdout.strip().splitlines()[-1]).items()}
            print(f"{columns} {kind}, k = {asked.k}:", json.dumps(found), flush=True)
            if asked.record:
                record(f"{columns} {kind} k={asked.k}", {"columns": columns, "k": asked.k, **found}, RESULTS)


if __name__ == "__main__":
    main()
