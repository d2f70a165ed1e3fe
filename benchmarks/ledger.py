"""How fast the ledger is: `python benchmarks/ledger.py`.

A request is a reservation and an answer: two durable transactions, or two places in shared ones.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from maquette.privacy.ledger import Request, SqliteLedger, Terms, Ticket
from maquette.privacy.units import MAX_UNITS

TERMS = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=MAX_UNITS)
DESCRIPTION = '{"door": "measure", "mechanism": "discrete gaussian", "variance": "12/7"}'
ENTRIES = 100_000


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ask(ledger: SqliteLedger, name: str, count: int) -> None:
    for number in range(count):
        request = Request(id=f"{name}.{number}", analyst=name, digest="00" * 32, units=1_000, description=DESCRIPTION)
        ticket = ledger.reserve(request)
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, bytes(40))


def ask_together(ledger: SqliteLedger, clients: int, count: int) -> None:
    threads = [threading.Thread(target=ask, args=(ledger, f"client{n}", count // clients)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    print(f"{'requests per second':44}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ledger = SqliteLedger(directory / "one", TERMS)
        print(f"  {'on disk, 1 client':40}{500 / seconds(lambda: ask(ledger, 'one', 500)):>12,.0f}")
        ledger.close()
        ledger = SqliteLedger(directory / "anchored", TERMS, anchor=directory / "anchor")
        print(f"  {'on disk with an anchor, 1 client':40}{500 / seconds(lambda: ask(ledger, 'one', 500)):>12,.0f}")
        ledger.close()
        ledger = SqliteLedger(directory / "many", TERMS)
        count = ENTRIES // 64 * 64
        print(f"  {'on disk, 64 clients':40}{count / seconds(lambda: ask_together(ledger, 64, count)):>12,.0f}")
        memory = SqliteLedger(None, TERMS)
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
