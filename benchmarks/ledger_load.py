"""A ledger under load and grown long: `python benchmarks/ledger_load.py [--seconds 5] [--charges 1000000] [--record]`.

Requests (a reservation and an answer, each durable before the next step) per second of 64 clients: one process on its
own PostgreSQL ledger, and four processes that share one. Then a ledger with many answered charges is opened, which
verifies all of it: the CPU time and the memory of a process that does nothing else, for a file and for PostgreSQL. The
PostgreSQL is one of its own on this machine; what it takes of the processor is told too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from maquette.privacy import MAX_UNITS
from maquette.privacy.ledger import (
    BookLedger,
    PostgresLedger,
    Request,
    SharedPostgresLedger,
    SqliteLedger,
    Terms,
    Ticket,
)
from maquette.privacy.ledger.book import Book

TERMS = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=MAX_UNITS)
DESCRIPTION = '{"door": "measure", "mechanism": "discrete gaussian", "variance": "12/7"}'
CLIENTS, PROCESSES = 64, 4
BATCH = 2_000


def requested(name: str, number: int) -> Request:
    """One request of a client."""
    return Request(id=f"{name}:{number}", analyst=name, digest="00" * 32, units=1_000, description=DESCRIPTION)


def ask(ledger: BookLedger, clients: int, seconds: float) -> dict[str, float]:
    """Requests of so many threads, for so long."""
    counts, until, began = [0] * clients, time.perf_counter() + seconds, time.process_time()

    def one(place: int) -> None:
        while time.perf_counter() < until:
            ticket = ledger.reserve(requested(f"{os.getpid()}.{place}", counts[place]))
            assert isinstance(ticket, Ticket)
            ledger.commit(ticket, bytes(136))
            counts[place] += 1

    threads = [threading.Thread(target=one, args=(place,)) for place in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"requests": sum(counts), "cpu": time.process_time() - began}


def made(path: Path, charges: int) -> None:
    """A ledger file with so many answered charges."""
    ledger = SqliteLedger(path, TERMS, key_path=path.with_suffix(".key"))

    def some(first: int) -> Callable[[Book], None]:
        def add(book: Book) -> None:
            for number in range(first, min(charges, first + BATCH)):
                ticket = book.reserve(requested(f"analyst{number % 10}", number))
                assert isinstance(ticket, Ticket)
                book.commit(ticket, bytes(136), hit=True)

        return add

    for first in range(0, charges, BATCH):
        ledger._run(some(first))
    ledger.close()


def copied(path: Path, address: str, name: str) -> None:
    """The same ledger in PostgreSQL, its tables filled at once."""
    import psycopg

    from maquette.privacy.ledger.postgres import connect, prepared

    connection = connect(address)
    prepared(connection, f"maquette_{name}")
    connection.close()
    with sqlite3.connect(path) as file, psycopg.connect(address) as raw:
        for table in ("event", "request", "budget"):
            with raw.cursor().copy(f"COPY maquette_{name}.{table} FROM STDIN") as copy:
                for row in file.execute(f"SELECT * FROM {table}"):
                    copy.write_row(row)
        raw.execute(f"UPDATE maquette_{name}.epoch SET boot = 2")


def opened(work: Callable[[], BookLedger]) -> dict[str, float]:
    """What opening takes: CPU seconds of this process, and its largest size in MB."""
    began, wall = time.process_time(), time.perf_counter()
    ledger = work()
    found = {"cpu": time.process_time() - began, "seconds": time.perf_counter() - wall}
    ledger.close()
    return {**found, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def apart(*given: str) -> subprocess.Popen[str]:
    """A process of its own that does one of these things and prints its figures."""
    return subprocess.Popen([sys.executable, __file__, "--apart", *given], stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> dict[str, float]:
    """The figures of such a process."""
    found: dict[str, float] = json.loads(process.communicate()[0])
    return found


def work_apart(what: str, place: str, *given: str) -> dict[str, float]:
    """What a process of its own does, given the name of a ledger, its key, and perhaps seconds and clients."""
    name, key, seconds, clients, *_ = (*given, "0", "0")
    if what == "file":
        return opened(lambda: SqliteLedger(Path(place), TERMS, key_path=Path(key)))
    kind = SharedPostgresLedger if what == "shared" else PostgresLedger
    if what == "open":
        return opened(lambda: kind(place, TERMS, name=name, key_path=key))
    ledger = kind(place, TERMS, name=name, key_path=key)
    try:
        return ask(ledger, int(clients), float(seconds))
    finally:
        ledger.close()


def load(address: str, folder: Path, seconds: float, kind: str, processes: int) -> dict[str, float]:
    """Requests per second of 64 clients in so many processes, and the CPU time of all of them for one."""
    key = str(folder / f"{kind}.key")
    if kind == "shared":
        SharedPostgresLedger(address, TERMS, name=kind, key_path=key).close()
    given = (kind, address, kind, key, str(seconds), str(CLIENTS // processes))
    every = [told(one) for one in [apart(*given) for _ in range(processes)]]
    requests = sum(one["requests"] for one in every)
    return {"rate": requests / seconds, "cpu_ms": 1e3 * sum(one["cpu"] for one in every) / requests}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--charges", type=int, default=100_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--apart", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.apart:
        print(json.dumps(work_apart(*given.apart)))
        return
    from postgres_server import running

    figures: dict[str, Any] = {"clients": CLIENTS, "processes": PROCESSES, "charges": given.charges}
    with tempfile.TemporaryDirectory() as name, running() as server:
        folder = Path(name)
        figures["alone"] = load(server.address, folder, given.seconds, "alone", 1)
        figures["shared"] = load(server.address, folder, given.seconds, "shared", PROCESSES)
        made(folder / "long", given.charges)
        figures["file"] = told(apart("file", str(folder / "long"), "-", str(folder / "long.key")))
        copied(folder / "long", server.address, "long")
        figures["postgres"] = told(apart("open", server.address, "long", str(folder / "long.key")))
    figures = {word: _rounded(value) for word, value in figures.items()}
    for word, value in figures.items():
        print(f"{word:12}", value)
    if given.record:
        from recording import record

        record("ledger_load", figures)


def _rounded(value: Any) -> Any:
    return {word: round(one, 2) for word, one in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    main()
