"""How fast the ledger is: `python benchmarks/ledger.py`.

A request is a reservation and an answer: two durable transactions, or two places in shared ones.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from maquette.privacy import MAX_UNITS
from maquette.privacy.ledger import Ledger, MemoryLedger, Request, SqliteLedger, Terms, Ticket
from maquette.privacy.ledger.head import Head

TERMS = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=MAX_UNITS)
DESCRIPTION = '{"door": "measure", "mechanism": "discrete gaussian", "variance": "12/7"}'
ENTRIES = 100_000


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ask(ledger: Ledger, name: str, count: int) -> None:
    for number in range(count):
        request = Request(id=f"{name}.{number}", analyst=name, digest="00" * 32, units=1_000, description=DESCRIPTION)
        ticket = ledger.reserve(request)
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, bytes(40))


def ask_together(ledger: Ledger, clients: int, count: int) -> None:
    threads = [threading.Thread(target=ask, args=(ledger, f"client{n}", count // clients)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def speed(directory: Path, name: str, clients: int, count: int, *, anchor: Path | None = None) -> float:
    """Requests per second of a new ledger."""
    ledger = SqliteLedger(directory / name, TERMS, anchor=anchor)
    taken = seconds(lambda: ask_together(ledger, clients, count))
    ledger.close()
    return count / taken


def without_head(work: Callable[[], float]) -> float:
    """The same without writing the head file, which no setting of the ledger offers: to see what it costs."""
    kept = Head.advance
    Head.advance = lambda *_: None  # type: ignore[method-assign]
    try:
        return work()
    finally:
        Head.advance = kept  # type: ignore[method-assign]


def compare_heads(directory: Path, clients: int, count: int, rounds: int = 5) -> None:
    """With and without the head file, in turns, so that a slow moment of the disk meets both; the medians."""
    kept, left_out = [], []
    for number in range(rounds):
        kept.append(speed(directory, f"kept{clients}.{number}", clients, count))
        left_out.append(without_head(lambda n=number: speed(directory, f"out{clients}.{n}", clients, count)))  # type: ignore[misc]
    who = f"{clients} client{'s' * (clients > 1)}"
    print(f"  {f'on disk, {who}':40}{median(kept):>12,.0f}")
    print(f"  {'  the same without the head file':40}{median(left_out):>12,.0f}")


def main() -> None:
    print(f"{'requests per second':44}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        compare_heads(directory, 1, 500)
        compare_heads(directory, 64, 64 * 100)
        anchored = speed(directory, "anchored", 1, 500, anchor=directory / "anchor")
        print(f"  {'on disk with an anchor too, 1 client':40}{anchored:>12,.0f}")
        ledger = SqliteLedger(directory / "many", TERMS)
        count = ENTRIES // 64 * 64
        many = seconds(lambda: ask_together(ledger, 64, count))
        print(f"  {f'on disk, 64 clients, {count:,} requests':40}{count / many:>12,.0f}")
        memory = MemoryLedger(TERMS)
        print(f"  {'in memory, 1 client':40}{10_000 / seconds(lambda: ask(memory, 'one', 10_000)):>12,.0f}")
        print(f"milliseconds with {count:,} requests recorded")
        print(f"  {'reserve and commit':40}{seconds(lambda: ask(ledger, 'late', 200)) / 200 * 1e3:>12.2f}")
        print(f"  {'spent':40}{seconds(lambda: [ledger.spent() for _ in range(200)]) / 200 * 1e3:>12.2f}")
        print(f"  {'verify':40}{seconds(ledger.verify) * 1e3:>12.0f}")
        ledger.close()
        print(f"  {'open':40}{seconds(lambda: SqliteLedger(directory / 'many', TERMS)) * 1e3:>12.0f}")
        print(f"bytes per request{(directory / 'many').stat().st_size / count:>37.0f}")


if __name__ == "__main__":
    main()
