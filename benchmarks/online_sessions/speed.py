"""How fast a session answers, by route, with a ledger on disk; its memory; and a ledger of a million entries."""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import maquette as mq
from maquette.errors import BudgetExceeded
from maquette.privacy.ledger import Request, SqliteLedger, Terms, Ticket
from online_sessions.strategies import BETA
from online_sessions.workloads import load

ENTRIES = 1_000_000
CLIENTS = 64
DESCRIPTION = '{"door": "measure", "mechanism": "discrete gaussian", "variance": "12/7"}'


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def session_speed(name: str, data: str, patience: float) -> dict[str, Any]:
    """Answers per second of a session on disk, in this process, which should be fresh; so many seconds of new ones."""
    workload = load(name, data)
    stream = workload.stream(100_000, 1.0, 0)
    questions = [workload.question(int(number)) for number in stream.numbers[:5_000]]
    with tempfile.TemporaryDirectory() as folder:
        curator = workload.curator(Path(folder) / "ledger")
        curator.measure(questions[0], epsilon=1e-3)  # imports and first calls
        before = peak()
        session = mq.online(curator, alpha=0.05, beta=BETA, simultaneous=False)
        answers, seconds = Counter[str](), defaultdict[str, float](float)
        start = time.perf_counter()
        for question in questions:
            asked = time.perf_counter()
            source = session.ask(question).source
            answers[source] += 1
            seconds[source] += time.perf_counter() - asked
            if asked - start > patience:
                break
        known = questions[: answers.total()]
        asked = time.perf_counter()
        for question in known:
            session.ask(question)
        answers["cache"], seconds["cache"] = len(known), time.perf_counter() - asked
        curator.close()
    rates = {route: answers[route] / seconds[route] for route in answers}
    return {"answers": dict(answers), "rates": rates, "memory": peak() - before, "seconds": sum(seconds.values())}


def ledger_speed(entries: int) -> dict[str, float]:
    """Milliseconds of a check, a charge and a refusal with so many entries recorded, on disk."""
    limit = 1_000 * (entries + 10_000)
    terms = Terms(table="00" * 32, schema="00" * 32, relation="add-remove", currency="zcdp", limit=limit)
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger", terms)
        start = time.perf_counter()
        each = entries // CLIENTS
        threads = [threading.Thread(target=_charge, args=(ledger, f"client{n}", each)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        filled = time.perf_counter() - start
        result = {
            "entries": float(each * CLIENTS),
            "entries per second": each * CLIENTS / filled,
            "spent": _milliseconds(lambda _: ledger.spent(), 1_000),
            "reserve and commit": _milliseconds(lambda i: _charge(ledger, f"late{i}", 1), 300),
            "refuse": _milliseconds(lambda i: _refused(ledger, i, limit), 300),
        }
        ledger.close()
    return result


def _charge(ledger: SqliteLedger, name: str, count: int) -> None:
    for number in range(count):
        request = Request(id=f"{name}.{number}", analyst=name, digest="00" * 32, units=1_000, description=DESCRIPTION)
        ticket = ledger.reserve(request)
        assert isinstance(ticket, Ticket)
        ledger.commit(ticket, bytes(40))


def _refused(ledger: SqliteLedger, number: int, units: int) -> None:
    request = Request(id=f"no.{number}", analyst="no", digest="00" * 32, units=units, description=DESCRIPTION)
    try:
        ledger.reserve(request)
    except BudgetExceeded:
        return
    raise AssertionError("a charge beyond the limit was granted")


def _milliseconds(work: Any, times: int) -> float:
    start = time.perf_counter()
    for i in range(times):
        work(i)
    return (time.perf_counter() - start) / times * 1e3
