"""The service under load, on this machine alone: fresh, derived and cached answers, and the PostgreSQL ledger.

    python benchmarks/serve.py [--clients 64] [--seconds 5 | --requests 1000] [--repeats 300000] [--record]

Starts `maquette serve` on a generated table in a process of its own, and asks it from this one over loopback. A figure
stands beside the same questions asked of a session in one process, in the same run; the first of each only warm up.
Rates are per second of wall time. The CPU time of the server says more on a machine that others use too, and how much
they took is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, cycle, islice, product
from pathlib import Path
from typing import Any

import psutil

CPU = "CPU ms"
WARM = 200  # questions that come before those that count
ASK, MANY = "/v1/tables/survey/ask", "/v1/tables/survey/ask-many"
REGIONS = ("north", "east", "south", "west", "islands")
SCHOOLS = ("primary", "secondary", "college", "university")
SOURCES = {name: f'"source":"{name}"'.encode() for name in ("measured", "derived", "cache")}
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
    for age, region, sex, flag in product(range(19, 97), REGIONS, ("female", "male"), ("smoker", "diabetes")):
        yield f"age >= {age} AND region = '{region}' AND sex = '{sex}' AND {flag}"


class Client:
    """One connection that asks, and hardly reads the reply: so little that the machine is left to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def opened(cls, url: str, token: str) -> Client:
        """A connection to the server at `url`."""
        host, _, port = url.partition("//")[2].rpartition(":")
        head = f"HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        return cls(*await asyncio.open_connection(host, int(port)), head)

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Send a body, wait for the whole reply: its status, and the reply."""
        content = json.dumps(body).encode()
        self._writer.write(f"POST {path} {self._head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, _, length = head.partition(b"\r\ncontent-length:")
        reply = await self._reader.readexactly(int(length.partition(b"\r\n")[0]))
        return int(head.split(b" ", 2)[1]), reply

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def load(
    url: str, token: str, bodies: Iterator[tuple[str, Any]], clients: int, seconds: float
) -> dict[str, float]:
    """Ask from `clients` connections for so many seconds: the rate, the latencies, and where answers came from."""
    times: list[float] = []
    failed = 0
    sources = dict.fromkeys(SOURCES, 0)
    connections = [await Client.opened(url, token) for _ in range(clients)]
    began = time.perf_counter()
    until = began + seconds

    async def one(client: Client) -> None:
        nonlocal failed
        while time.perf_counter() < until and (asked := next(bodies, None)) is not None:
            sent = time.perf_counter()
            status, reply = await client.post(*asked)
            times.append(time.perf_counter() - sent)
            failed += status != 200
            for source, sign in SOURCES.items():
                sources[source] += reply.count(sign)

    await asyncio.gather(*map(one, connections))
    elapsed = time.perf_counter() - began
    for client in connections:
        client.close()
    times.sort()
    found = {"rate": len(times) / elapsed, "p50 ms": 1e3 * times[len(times) // 2]}
    found |= {"p99 ms": 1e3 * times[int(0.99 * (len(times) - 1))], "failed": failed, "requests": len(times)}
    return found | {name: count for name, count in sources.items() if count}


def measured(process: psutil.Process, work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The figures of a load, with the server's CPU seconds per request, and what other programs took meanwhile."""
    before, busy, began = _spent(process), _busy(), time.perf_counter()
    own = time.process_time()
    figures = work()
    used = _spent(process) - before
    others = _busy() - busy - used - (time.process_time() - own)
    figures[CPU] = 1e3 * used / max(1.0, figures["requests"])
    figures["others %"] = max(0.0, 100 * others / (time.perf_counter() - began) / (psutil.cpu_count() or 1))
    return figures


def _spent(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _busy() -> float:
    """CPU seconds of the whole machine."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def in_process(seconds: float, most: int | None) -> dict[str, dict[str, float]]:
    """The same questions, asked of a session in this process by one thread."""
    import maquette as mq
    from maquette.demo import SCHEMA, survey

    def asked(questions: Iterator[str]) -> dict[str, float]:
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        for question in islice(questions, most):
            session.ask(question)
            count += 1
            if time.perf_counter() - began > seconds:
                break
        elapsed, used = time.perf_counter() - began, time.process_time() - cpu
        return {"rate": count / elapsed, "requests": count, CPU: 1e3 * used / count}

    with tempfile.TemporaryDirectory() as folder:
        table = mq.open_table(survey(), SCHEMA)
        with mq.Curator(table, mq.Budget(epsilon=200.0, delta=1e-9), ledger=Path(folder) / "l") as curator:
            session = mq.online(curator, alpha=0.01)
            fresh = fresh_questions()
            asked(islice(fresh, WARM))
            rows = {"one process, one thread, fresh": asked(fresh)}
            derived = derived_questions()
            for some in bought(derived):
                session.ask_many(some)
            return rows | {"one process, one thread, derived": asked(derived)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--requests", type=int, help="Ask so many of each instead, however long that takes.")
    parser.add_argument(
        "--repeats", type=int, default=0, help="Then ask known questions so often, and read the memory."
    )
    parser.add_argument("--record", action="store_true", help="Keep the figures for docs/reliability.md.")
    given = parser.parse_args()
    most, seconds = given.requests, given.seconds if given.requests is None else 3_600.0
    rows = in_process(seconds, most)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "maquette.toml"
        config.write_text(
            'port = 0\nlog_level = "warning"\n[limits]\nasks_per_minute = 100000000\n'
            '[[table]]\nname = "survey"\nsource = "demo://survey"\nepsilon = 200.0\ndelta = 1e-9\nalpha = 0.01\n'
        )
        command = [*MAIN, "serve", "--config", str(config), "--json", "--pg-port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            rows |= over_http(psutil.Process(server.pid), first_line(server), given.clients, seconds, most)
            memory = growth(psutil.Process(server.pid), rows.pop("told"), given.repeats)
        finally:
            server.terminate()
            server.wait(30)
    for name, figures in rows.items():
        print(f"{name:34}", "  ".join(f"{word} {value:,.4g}" for word, value in figures.items()))
    print("MB after so many known answers:", memory)
    if given.record:
        from recording import record

        kept = ("rate", "p50 ms", "p99 ms", "failed", "requests", "measured", "derived", "others %", CPU)
        shown = {name: {word: round(row[word], 2) for word in kept if word in row} for name, row in rows.items()}
        record("serve", {"clients": given.clients, "cores": psutil.cpu_count(), "rows": shown, "memory": memory})


def over_http(
    process: psutil.Process, told: dict[str, Any], clients: int, seconds: float, most: int | None
) -> dict[str, Any]:
    """The same questions to the server: fresh, derived, and known ones many at a time."""

    def run(bodies: Iterator[tuple[str, Any]], clients: int = clients, most: int | None = most) -> dict[str, float]:
        return asyncio.run(load(told["url"], told["token"], islice(bodies, most), clients, seconds))

    rows: dict[str, Any] = {}
    fresh = ((ASK, {"where": question}) for question in fresh_questions())
    run(fresh, most=WARM)  # modules are imported, routes and threads made
    rows["HTTP, fresh"] = measured(process, lambda: run(fresh))
    questions = derived_questions()
    run(((MANY, {"questions": some}) for some in bought(questions)), 1)
    derived = ((ASK, {"where": where}) for where in questions)
    rows["HTTP, derived"] = measured(process, lambda: run(derived))
    known = [f"age >= {age}" for age in range(19, 97)]
    run(iter([(MANY, {"questions": known})]), 1)
    cached = ((MANY, {"questions": known}) for _ in iter(int, 1))
    rows["HTTP, cached (78 in a request)"] = measured(process, lambda: run(cached, 8))
    rows["told"] = told
    return rows


def growth(process: psutil.Process, told: dict[str, Any], repeats: int) -> dict[str, float]:
    """The server's memory, in MB, after so many known answers, each asked for by itself."""
    known = cycle([(ASK, {"where": where}) for where in islice(derived_questions(), 4_000)])
    found, asked = {"0": round(process.memory_info().rss / 2**20, 1)}, 0
    while asked < repeats:
        asked += repeats // 6
        asyncio.run(load(told["url"], told["token"], islice(known, repeats // 6), 16, 3_600))
        found[str(asked)] = round(process.memory_info().rss / 2**20, 1)
    return found


def bought(questions: Iterator[str]) -> Iterator[list[str]]:
    """The first thousand questions, in few requests: what they buy answers nearly all of the others."""
    return iter([list(islice(questions, 125)) for _ in range(8)])


def derived_questions() -> Iterator[str]:
    """Different questions, 8,740 of them, about a range of ages and a set of levels."""
    ages = [f"age >= {low} AND age < {high}" for low, high in combinations(range(20, 97, 4), 2)]
    sets = [*_sets("region", REGIONS), *_sets("education", SCHOOLS)]
    every = [f"{range_} AND {levels}" for range_, levels in product(ages, sets)]
    random.Random(1).shuffle(every)
    return iter(every)


def _sets(column: str, levels: Sequence[str]) -> Iterator[str]:
    for number in range(1, 1 << len(levels)):
        chosen = [repr(level) for i, level in enumerate(levels) if number >> i & 1]
        yield f"{column} IN ({', '.join(chosen)})"


if __name__ == "__main__":
    main()
