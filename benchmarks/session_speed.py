"""How fast one session is: repeated texts, new conditions, derived and fresh questions, by one thread and by sixteen.

    python benchmarks/session_speed.py [--baseline CHECKOUT] [--fresh 64] [--record]

Everything runs on a generated table of 43 columns with a ledger file in a temporary directory. With `--baseline`
the same questions are put to another checkout of the library, in turn with this one, so that both see the same machine;
ratios between the two are what counts on a busy one. The time of a sync is measured beside each run: a fresh question
waits for four of them (two commits, each of a log and of a head file).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

THREADS = 16
COLUMNS = 40
ROWS = 20_000
REGIONS = ("north", "east", "south", "west")
SYNCS = 4  # of one fresh question


def fresh_questions() -> Iterator[str]:
    """Questions on ever new columns, so that each has to be measured."""
    for a, b, c in combinations(range(COLUMNS), 3):
        yield f"SELECT count(*) FROM t WHERE c{a} AND c{b} AND c{c}"


def derived_questions() -> Iterator[str]:
    """Conditions that one table of three columns answers, no two of them alike."""
    for i in range(4 * 20 * 20):
        yield f"d0 = {i // 4 % 20} AND d1 = {i // 80} AND region = '{REGIONS[i % 4]}'"


def timed(work: Callable[[], int]) -> dict[str, float]:
    """Milliseconds of wall and of CPU time, each per question."""
    wall, cpu = time.perf_counter(), time.process_time()
    count = work()
    return {"ms": 1e3 * (time.perf_counter() - wall) / count, "CPU ms": 1e3 * (time.process_time() - cpu) / count}


def by_threads(ask: Callable[[str], object], questions: list[str]) -> int:
    def some(texts: list[str]) -> None:
        for text in texts:
            ask(text)

    threads = [threading.Thread(target=some, args=(questions[i::THREADS],)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(questions)


def in_turn(ask: Callable[[str], object], questions: list[str]) -> int:
    for text in questions:
        ask(text)
    return len(questions)


def figures(fresh: int) -> dict[str, dict[str, float]]:
    """All figures of the library that is imported here."""
    import numpy as np

    import maquette as mq

    rng = np.random.default_rng(1)
    yes = [mq.Boolean(f"c{i}") for i in range(COLUMNS)]
    schema = mq.Schema([*yes, mq.Integer("d0", 0, 19), mq.Integer("d1", 0, 19), mq.Category("region", REGIONS)])
    columns = {f"c{i}": rng.random(ROWS) < 0.5 for i in range(COLUMNS)}
    columns |= {name: rng.integers(0, 20, ROWS) for name in ("d0", "d1")} | {"region": rng.choice(REGIONS, ROWS)}
    table = mq.open_table(columns, schema)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        found["a sync"] = {"ms": sync(Path(folder))}
        with mq.Curator(table, mq.Budget(epsilon=500.0, delta=1e-9), ledger=Path(folder) / "ledger") as curator:
            session = mq.online(curator, alpha=0.05, simultaneous=False, rows=ROWS)
            asked = fresh_questions()
            in_turn(session.ask, [next(asked) for _ in range(8)])
            found["fresh, one thread"] = timed(lambda: in_turn(session.ask, [next(asked) for _ in range(fresh)]))
            found["fresh, 16 threads"] = timed(lambda: by_threads(session.ask, [next(asked) for _ in range(2 * fresh)]))
            found["a sync, again"] = {"ms": sync(Path(folder))}
            session.ask("SELECT d0, d1, region, count(*) FROM t GROUP BY d0, d1, region")
            session.ask("SELECT count(*) FROM t")
            questions = derived_questions()
            in_turn(session.ask, [next(questions) for _ in range(40)])
            some = [next(questions) for _ in range(300)]
            found["derived, new conditions"] = timed(lambda: in_turn(session.ask, some))
            found["repeated text"] = timed(lambda: in_turn(session.ask, some))
            found["derived while 16 threads pay"] = beside(session, asked, questions, fresh)
    return found


def beside(session: Any, asked: Iterator[str], questions: Iterator[str], fresh: int) -> dict[str, float]:
    """The time of derived questions, the middle of them, while other threads measure."""
    paying = threading.Thread(target=by_threads, args=(session.ask, [next(asked) for _ in range(2 * fresh)]))
    paying.start()
    times = []
    while paying.is_alive():
        began = time.perf_counter()
        session.ask(next(questions))
        times.append(time.perf_counter() - began)
        time.sleep(0.01)
    return {"ms": 1e3 * statistics.median(times), "slowest ms": 1e3 * max(times), "asked": float(len(times))}


def sync(folder: Path) -> float:
    """Milliseconds of one durable write."""
    with open(folder / "written", "wb") as file:
        began = time.perf_counter()
        for _ in range(40):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return 1e3 * (time.perf_counter() - began) / 40


def elsewhere(checkout: Path, fresh: int) -> dict[str, dict[str, float]]:
    """The same figures of another checkout, in a process of its own."""
    command = [sys.executable, __file__, "--fresh", str(fresh), "--json"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout / "src")}, capture_output=True, text=True, check=True
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--fresh", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(figures(given.fresh)))
        return
    rows = {"now": elsewhere(Path(__file__).resolve().parents[1], given.fresh)}
    if given.baseline is not None:
        rows["before"] = elsewhere(given.baseline.resolve(), given.fresh)
    for which, found in rows.items():
        for name, numbers in found.items():
            print(f"{which:7} {name:30}", "  ".join(f"{word} {value:,.3g}" for word, value in numbers.items()))
    if given.record:
        from recording import RESULTS, record

        record("session speed", rows, RESULTS.with_name("session_speed.json"))


if __name__ == "__main__":
    main()
