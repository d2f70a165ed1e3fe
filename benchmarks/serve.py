"""The service under load, on this machine alone: fresh, derived and cached answers, and the PostgreSQL ledger.

    python benchmarks/serve.py [--clients 64] [--seconds 5 | --requests 1000] [--record]

Starts `maquette serve` on a generated table in a process of its own, and asks it from this one over loopback. A figure
stands beside the same questions asked of a session in one process, in the same run. Rates are per second of wall time;
the CPU seconds of the server say what an idle machine with more cores could do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import psutil

CPU = "server CPU ms"
MAIN = [sys.executable, "-c", "from maquette.cli import main; main()"]


def first_line(server: subprocess.Popen[str]) -> dict[str, Any]:
    """Where a server that was just started is reached, with its token; if it ended instead, how."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        code = server.wait(30)
        killed = f", killed by signal {-code}: perhaps the machine had no memory left" if code < 0 else ""
        raise SystemExit(f"the server ended before it could be reached, with {code}{killed}")
    found: dict[str, Any] = json.loads(line)
    return {**found, "token": Path(found["token_file"]).read_text(encoding="ascii").strip()}


def allow_files() -> None:
    """As many open files as this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def fresh_questions() -> Iterator[str]:
    """Questions that differ in their columns or bounds, so that most of them must be measured."""
    regions = ("north", "east", "south", "west", "islands")
    for age, region, sex, flag in product(range(19, 97), regions, ("female", "male"), ("smoker", "diabetes")):
        yield f"age >= {age} AND region = '{region}' AND sex = '{sex}' AND {flag}"


class Client:
    """One connection that asks, and reads only the status: so little that the machine is left to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def opened(cls, url: str, token: str) -> Client:
        """A connection to the server at `url`."""
        host, _, port = url.partition("//")[2].rpartition(":")
        head = f"HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        return cls(*await asyncio.open_connection(host, int(port)), head)

    async def post(self, path: str, body: Any) -> int:
        """Send a body, wait for the whole reply: its status."""
        content = json.dumps(body).encode()
        self._writer.write(f"POST {path} {self._head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, _, length = head.partition(b"\r\ncontent-length:")
        await self._reader.readexactly(int(length.partition(b"\r\n")[0]))
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def load(
    url: str, token: str, bodies: Iterator[tuple[str, Any]], clients: int, seconds: float
) -> dict[str, float]:
    """Ask from `clients` connections for so many seconds: the rate, and the latencies."""
    times: list[float] = []
    failed = 0
    connections = [await Client.opened(url, token) for _ in range(clients)]
    began = time.perf_counter()
    until = began + seconds

    async def one(client: Client) -> None:
        nonlocal failed
        while time.perf_counter() < until and (asked := next(bodies, None)) is not None:
            sent = time.perf_counter()
            status = await client.post(*asked)
            times.append(time.perf_counter() - sent)
            failed += status != 200

    await asyncio.gather(*map(one, connections))
    elapsed = time.perf_counter() - began
    for client in connections:
        client.close()
    times.sort()
    found = {"rate": len(times) / elapsed, "p50 ms": 1e3 * times[len(times) // 2]}
    return {**found, "p99 ms": 1e3 * times[int(0.99 * (len(times) - 1))], "failed": failed, "requests": len(times)}


def measured(process: psutil.Process, work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The figures of a load, with the server's CPU seconds per request."""
    before = sum(process.cpu_times()[:2])
    figures = work()
    figures[CPU] = 1e3 * (sum(process.cpu_times()[:2]) - before) / max(1.0, figures["requests"])
    return figures


def in_process(seconds: float, most: int | None) -> dict[str, float]:
    """The same fresh questions, asked of a session in this process by one thread."""
    import maquette as mq
    from maquette.demo import SCHEMA, survey

    with tempfile.TemporaryDirectory() as folder:
        table = mq.open_table(survey(), SCHEMA)
        with mq.Curator(table, mq.Budget(epsilon=200.0, delta=1e-9), ledger=Path(folder) / "l") as curator:
            session = mq.online(curator, alpha=0.01)
            session.ask("smoker")
            began, cpu, count = time.perf_counter(), time.process_time(), 0
            for question in fresh_questions():
                session.ask(question)
                count += 1
                if time.perf_counter() - began > seconds or count == most:
                    break
            elapsed, used = time.perf_counter() - began, time.process_time() - cpu
    return {"rate": count / elapsed, "requests": count, CPU: 1e3 * used / count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--requests", type=int, help="Ask so many instead, and read the CPU times.")
    parser.add_argument(
        "--record", action="store_true", help="Keep the CPU times, which a busy machine changes little."
    )
    given = parser.parse_args()
    most, seconds = given.requests, given.seconds if given.requests is None else 3_600.0
    rows = {"one process, one thread, fresh": in_process(seconds, most)}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "maquette.toml"
        config.write_text(
            'port = 0\nlog_level = "warning"\n[limits]\nasks_per_minute = 100000000\n'
            '[[table]]\nname = "survey"\nsource = "demo://survey"\nepsilon = 200.0\ndelta = 1e-9\nalpha = 0.01\n'
        )
        command = [*MAIN, "serve", "--config", str(config), "--json", "--pg-port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            told = first_line(server)
            process = psutil.Process(server.pid)
            ask, many = "/v1/tables/survey/ask", "/v1/tables/survey/ask-many"
            known = [f"age >= {age}" for age in range(19, 97)]
            tables = [{"sql": f"SELECT count(*) FROM survey GROUP BY {a}, {b}"} for a, b in PAIRS]

            def run(bodies: Iterator[tuple[str, Any]], clients: int = given.clients) -> dict[str, float]:
                return asyncio.run(load(told["url"], told["token"], islice(bodies, most), clients, seconds))

            rows["HTTP, fresh"] = measured(process, lambda: run((ask, {"where": q}) for q in fresh_questions()))
            asyncio.run(load(told["url"], told["token"], iter((ask, body) for body in tables), 1, 60))
            derived = ((ask, {"where": where}) for where in derived_questions())
            rows["HTTP, derived"] = measured(process, lambda: run(derived))
            asyncio.run(load(told["url"], told["token"], iter([(many, {"questions": known})]), 1, 60))
            cached = ((many, {"questions": known}) for _ in iter(int, 1))
            rows["HTTP, cached (78 in a request)"] = measured(process, lambda: run(cached, 8))
            rows["HTTP, cached (78 in a request)"]["answers/s"] = 78 * rows["HTTP, cached (78 in a request)"]["rate"]
            rows["memory"] = {"MB": process.memory_info().rss / 2**20}
        finally:
            server.terminate()
            server.wait(30)
    for name, figures in rows.items():
        print(f"{name:34}", "  ".join(f"{word} {value:,.4g}" for word, value in figures.items()))
    if given.record:
        from recording import record

        spent = {name: round(figures[CPU], 2) for name, figures in rows.items() if CPU in figures}
        megabytes, requests = round(rows["memory"]["MB"]), int(rows["HTTP, fresh"]["requests"])
        record("serve", {"cpu_ms": spent, "clients": given.clients, "requests": requests, "megabytes": megabytes})


PAIRS = [("sex", "region"), ("sex", "education"), ("region", "education"), ("region", "smoker"), ("sex", "smoker")]


def derived_questions() -> Iterator[str]:
    """Questions that the tables of two columns answer."""
    regions, schools = ("north", "east", "south", "west", "islands"), ("primary", "secondary", "college", "university")
    for number in range(1 << 20):
        chosen = [region for i, region in enumerate(regions) if number >> i & 1] or ["north"]
        taught = [school for i, school in enumerate(schools) if number >> (5 + i) & 1] or ["primary"]
        yield f"region IN ({', '.join(map(repr, chosen))}) AND education IN ({', '.join(map(repr, taught))})"
        yield f"sex = 'male' AND education IN ({', '.join(map(repr, taught))})"


if __name__ == "__main__":
    main()
