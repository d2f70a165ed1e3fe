"""Idle connections to one server: its memory and open files, and whether it still answers.

    python benchmarks/serve_idle.py [--count 2000] [--record]

Starts `maquette serve` on a generated table, opens connections that have each asked once and then wait (HTTP with a
token; PostgreSQL clients that have logged in), and asks known and fresh questions beside them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "pgwire"), str(Path(__file__).resolve().parent)]


def main() -> None:
    from recording import record
    from serve import MAIN, allow_files, first_line

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2_000, help="Connections of each kind.")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    allow_files()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "maquette.toml"
        config.write_text(
            f"port = 0\n[limits]\nidle_seconds = 3600\nconnections = {given.count + 100}\n"
            '[[table]]\nname = "survey"\nsource = "demo://survey"\nepsilon = 20.0\ndelta = 1e-9\nalpha = 0.02\n'
        )
        command = [*MAIN, "serve", "--config", str(config), "--json", "--pg-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                figures = measured(first_line(server), psutil.Process(server.pid), given.count)
            finally:
                server.terminate()
    print(json.dumps(figures))
    if given.record:
        record("serve_idle", figures)


def measured(told: dict[str, Any], process: psutil.Process, count: int) -> dict[str, Any]:
    """Memory, files and latencies without connections, with those of HTTP, and with those of PostgreSQL as well."""
    port = int(told["postgres"].rpartition(":")[2].partition("/")[0])
    client = httpx.Client(base_url=told["url"], headers={"Authorization": f"Bearer {told['token']}"}, timeout=60)

    def ask(question: str) -> float:
        began = time.perf_counter()
        got = client.post("/v1/tables/survey/ask", json={"where": question})
        assert got.status_code == 200, got.text
        return 1e3 * (time.perf_counter() - began)

    def state(fresh: str) -> dict[str, float]:
        known = sorted(ask("smoker") for _ in range(51))[25]
        cpu = sum(process.cpu_times()[:2])
        time.sleep(5)
        cpu = sum(process.cpu_times()[:2]) - cpu
        return {
            "megabytes": round(process.memory_info().rss / 2**20, 1),
            "files": process.num_fds(),
            "known_ms": round(known, 1),
            "fresh_ms": round(ask(fresh), 1),
            "idle_cpu_percent": round(20 * cpu, 1),
        }

    for question in ("smoker", "age >= 30 AND sex = 'female'"):
        ask(question)
    found: dict[str, Any] = {"connections": count, "none": state("age >= 31 AND diabetes")}
    held = [_http(told) for _ in range(count)]
    found["http"] = state("age >= 32 AND diabetes")
    held += [_postgres(port, told["token"]) for _ in range(count)]
    found["http_and_postgres"] = state("age >= 33 AND diabetes")
    assert all(again() for again in held), "a connection was lost"
    return found


def _http(told: dict[str, Any]) -> Callable[[], bool]:
    """A connection that has asked once; called, it asks again."""
    connection = http.client.HTTPConnection(told["url"].partition("//")[2], timeout=60)

    def ask() -> bool:
        connection.request("GET", "/v1/me", headers={"Authorization": f"Bearer {told['token']}"})
        got = connection.getresponse()
        got.read()
        return got.status == 200

    assert ask()
    return ask


def _postgres(port: int, token: str) -> Callable[[], bool]:
    from pg_client import RawClient

    client = RawClient(port, timeout=60).login("custodian", token)
    return lambda: bool(client.query("SELECT 1"))


if __name__ == "__main__":
    main()
