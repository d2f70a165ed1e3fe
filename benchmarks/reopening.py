"""Opening a session again after many charges, with its checkpoint and without: CPU seconds and memory.

`python benchmarks/reopening.py 10000 --at /dev/shm` makes a ledger with so many charges (single conditions and small
tables, each measured as asked) and opens it in new processes: the curator, which verifies the whole chain; the session
by replaying the ledger; and the session from its checkpoint. Memory is what opening adds to the largest resident size.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

import maquette as mq
from maquette.query import Marginal, question
from maquette.session import checkpoint
from maquette.session.order import Order
from maquette.session.question import Goal

ROWS = 20_000
UNITS = 10**6
SCHEMA = mq.Schema(
    [
        mq.Integer("a", 0, 99, width=2),
        mq.Category("b", [f"b{i}" for i in range(20)]),
        mq.Integer("c", 0, 63),
        mq.Category("d", [f"d{i}" for i in range(12)]),
        mq.Boolean("e"),
    ]
)


def opened(ledger: Path) -> mq.Curator:
    """The curator of a made-up table."""
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.integers(0, 100, ROWS),
        "b": [f"b{i}" for i in rng.integers(0, 20, ROWS)],
        "c": rng.integers(0, 64, ROWS),
        "d": [f"d{i}" for i in rng.integers(0, 12, ROWS)],
        "e": rng.random(ROWS) < 0.5,
    }
    return mq.Curator(mq.open_table(columns, SCHEMA), mq.Budget(rho=1000.0, delta=1e-9), ledger=ledger)


def session_of(curator: mq.Curator) -> mq.Session:
    """The session on it."""
    return mq.online(curator, alpha=0.02, rows=ROWS, guard="never", warm_start="none")


def make(ledger: Path, charges: int) -> None:
    """A ledger with so many charges."""
    rng = np.random.default_rng(1)
    with opened(ledger) as curator:
        record = session_of(curator)._record
        while record.transcript.moment < charges:
            text = f"a < {2 * rng.integers(1, 50)} AND c >= {rng.integers(64)} AND d = 'd{rng.integers(12)}'"
            text += " AND e" if rng.random() < 0.5 else f" AND b = 'b{rng.integers(20)}'"
            goal = Goal(Marginal(SCHEMA, (), question(SCHEMA, text)))
            if rng.random() < 0.02:
                goal = Goal(Marginal(SCHEMA, [str(rng.choice(["a", "b", "c", "d"])), "e"]))
            record.charge(Order({}, {goal.key: (goal, UNITS)}, {}), analyst="a")
        checkpoint.write(record)


def measure(ledger: Path, way: str) -> None:
    """Open it and print what that took."""
    began, size = time.process_time(), _size()
    curator = opened(ledger)
    verified, then = time.process_time(), _size()
    patches = [mock.patch.object(checkpoint, "write", return_value=False)]
    patches += [mock.patch.object(checkpoint, "restore", return_value=0)] if way == "replay" else []
    for patch in patches:
        patch.start()
    session = session_of(curator)
    done = time.process_time()
    print(
        f"{way}: table and ledger {verified - began:.2f} s, {then - size:.0f} MB; session {done - verified:.2f} s, "
        f"{_size() - then:.0f} MB; {session._record.transcript.moment:,} charges, in all {_size():.0f} MB"
    )


def _size() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Make a ledger and open it in both ways, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("charges", type=int)
    parser.add_argument("--at", type=Path, default=None, help="a directory, for instance in memory")
    parser.add_argument("--open", choices=["replay", "checkpoint"], default=None)
    given = parser.parse_args()
    if given.open is not None:
        measure(given.at / "ledger", given.open)
        return
    place = Path(tempfile.mkdtemp(dir=given.at))
    try:
        began = time.process_time()
        make(place / "ledger", given.charges)
        sizes = {file.name.rpartition(".")[2]: file.stat().st_size / 2**20 for file in place.iterdir()}
        print(f"made in {time.process_time() - began:.0f} s;", {name: f"{size:.1f} MB" for name, size in sizes.items()})
        for way in ("checkpoint", "replay"):
            subprocess.run([sys.executable, __file__, "0", "--at", str(place), "--open", way], check=True)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
