"""Does the time of a reply over HTTP tell two tables apart, or tell the noise? With and without a deadline.

    python benchmarks/serve_timing.py [--pairs 2000] [--deadline 0.02] [--only neighbours] [--record]

Starts `maquette serve` with two tables, and asks both the same fresh questions over one loopback connection, in random
order. The number of rows is declared as public and the same for both, so both sessions plan alike. AUC is the chance
that a reply about the second table took longer (0.5: time tells nothing; its standard error is 0.41 / sqrt(pairs));
rho is Spearman's correlation of time and size of the noise, over the replies of the first table.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recording import record, recorded
from serve import MAIN, first_line
from timing import Times

COLUMNS, LEVELS = 12, 4
SIZES = {"neighbours": (10_000, 10_001), "extreme": (1, 1_000_000)}
WARM = 50  # pairs thrown away
LATE = 410  # the status of a reply that was withheld because it was late

Codes = np.ndarray[Any, np.dtype[np.int8]]


def rows(count: int) -> Codes:
    """Rows by number alone, so that a longer table begins with the shorter one."""
    places = np.arange(count, dtype=np.int64)[:, None] * 7 + np.arange(COLUMNS) * 3
    return ((places * places // 11) % LEVELS).astype(np.int8)


def configured(folder: Path, sizes: tuple[int, int], deadline: float | None) -> Path:
    """Both tables, their schema and the settings of a service, in a folder."""
    names = [f"c{number}" for number in range(COLUMNS)]
    blocks = [f'[[column]]\nname = "{name}"\nkind = "integer"\nlow = 0\nhigh = {LEVELS - 1}\n' for name in names]
    (folder / "table.schema.toml").write_text("\n".join(blocks))
    text = 'port = 0\nlog_level = "warning"\n[limits]\nasks_per_minute = 100000000\nquestion_days = 1\n'
    for side, size in zip(("first", "second"), sizes, strict=True):
        codes = rows(size)
        pq.write_table(pa.table({name: codes[:, i] for i, name in enumerate(names)}), folder / f"{side}.parquet")
        text += (
            f'[[table]]\nname = "{side}"\nsource = "{side}.parquet"\nschema = "table.schema.toml"\nepsilon = 9000.0\n'
            f'delta = 1e-9\nalpha = 0.01\nrows = 1000000\nmax_rows = 1000001\npromise = "each"\n'
            f"deadline = {json.dumps(deadline or 'none')}\n"
        )
    config = folder / "maquette.toml"
    config.write_text(text)
    return config


def question(rng: np.random.Generator) -> tuple[str, list[tuple[int, list[int]]]]:
    """A condition on five columns that was most likely never asked, and its parts."""
    chosen = sorted(rng.choice(COLUMNS, 5, replace=False).tolist())
    parts = [(column, sorted(rng.choice(LEVELS, 2, replace=False).tolist())) for column in chosen]
    return " AND ".join(f"c{column} IN ({a}, {b})" for column, (a, b) in parts), parts


class Asking:
    """One connection to the server; how long a reply took, its status and its content."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection(told["url"].partition("//")[2].rstrip("/"))
        self._head = {"Authorization": f"Bearer {told['token']}", "Content-Type": "application/json"}

    def __call__(self, table: str, where: str) -> tuple[float, int, dict[str, Any]]:
        body = json.dumps({"where": where})
        gc.collect(0)
        start = perf_counter()
        self._connection.request("POST", f"/v1/tables/{table}/ask", body, self._head)
        reply = self._connection.getresponse()
        content = reply.read()
        return perf_counter() - start, reply.status, json.loads(content)


def measured(sizes: tuple[int, int], deadline: float | None, pairs: int) -> tuple[Times, int]:
    """Ask both tables so many questions; and how many pairs were left out, since a side knew the answer."""
    rng = np.random.default_rng()
    codes = rows(sizes[0])
    times: tuple[list[float], list[float]] = [], []
    noise: list[float] = []
    missed, known = [0, 0], 0
    with tempfile.TemporaryDirectory() as name:
        command = [*MAIN, "serve", "--config", str(configured(Path(name), sizes, deadline)), "--json", "--pg-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                ask = Asking(first_line(server))
                for number in range(-WARM, pairs):
                    where, parts = question(rng)
                    first = secrets.randbelow(2)
                    replies = {side: ask(("first", "second")[side], where) for side in (first, 1 - first)}
                    if number < 0:
                        continue
                    if any(status == 200 and told["cost"]["units"] == 0 for _, status, told in replies.values()):
                        known += 1
                        continue
                    for side, (taken, status, told) in replies.items():
                        if status not in (200, LATE):
                            raise SystemExit(f"{status}: {told}")
                        times[side].append(taken)
                        missed[side] += status == LATE
                    _, status, told = replies[0]
                    truth = np.logical_and.reduce([np.isin(codes[:, column], levels) for column, levels in parts]).sum()
                    noise.append(told["count"] - float(truth) if status == 200 else float("nan"))
            finally:
                server.terminate()
    return Times(np.array(times[0]), np.array(times[1]), np.array(noise), (missed[0], missed[1])), known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--deadline", type=float, default=0.02, help="seconds")
    parser.add_argument("--only", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--without", type=int, default=1_000, help="pairs without a deadline, at most")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page")
    asked = parser.parse_args()
    figures: dict[str, str] = {}
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; a quiet run has hardly any, and misses none")
    for name in asked.only:
        for deadline, pairs in ((None, min(asked.pairs, asked.without)), (asked.deadline, asked.pairs)):
            if not pairs:
                continue
            found, known = measured(SIZES[name], deadline, pairs)
            length = "no deadline" if deadline is None else f"{1e3 * deadline:g} ms"
            rho = "" if found.rho is None else f", rho {found.rho:+.4f}"
            late = f"{sum(found.missed)} missed"
            facts = f"AUC {found.auc:.4f}{rho} over {len(found.first):,} pairs, {late}"
            medians = ", ".join(f"{1e3 * float(np.median(side)):.3f}" for side in (found.first, found.second))
            print(f"{name}, {length}: {facts}; medians {medians} ms; {known} pairs known", flush=True)
            figures[f"{name}, {length}"] = facts
    if asked.record:
        before = {key: value for key, value in recorded().get("serve_timing", {}).items() if key != "version"}
        record("serve_timing", {**before, **figures})


if __name__ == "__main__":
    main()
