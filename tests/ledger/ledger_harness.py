"""Processes that are killed, race or fork: run as a program, it prints one JSON report that the tests judge.

It runs apart from the tests because it forks, which a process with threads must not do. Children talk to it in lines:
`charged id` before a request is evaluated, `told id answer` when an answer is released.
"""

from __future__ import annotations

import json
import os
import random
import resource
import secrets
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ledger_checks import TERMS, request

from maquette.errors import BudgetExceeded, LedgerError, RequestBusy, RequestLost
from maquette.privacy.ledger import Receipt, Recorded, Request, SqliteLedger, Ticket, head as heads, inspect, machine
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.files import write_new
from maquette.privacy.ledger.head import Head
from maquette.privacy.ledger.machine import Entry
from maquette.privacy.ledger.store import Mark, SqliteStorage

T = TypeVar("T")

THREADS = 4
Say = Callable[[str], object]


class TellsBeforeCommit(SqliteLedger):
    """Broken on purpose: an answer is released while its commit is under way."""

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool = True) -> Receipt:
        threading.Thread(target=super().commit, args=(ticket, answer), kwargs={"hit": hit}, daemon=True).start()
        return Receipt(0, "")


class ForgetsToSweep(SqliteLedger):
    """Broken on purpose: what a crash interrupted is evaluated again."""

    def _run(self, operation: Callable[[Book], T]) -> T:
        def never_booted(connection: sqlite3.Connection) -> T:
            storage = SqliteStorage(connection, limit=self.terms.limit, boot=0)
            return operation(Book(storage, self._chain, self.terms.currency))

        return self._writer.run(never_booted)

    def reserve(self, request: Request) -> Ticket | Recorded:
        try:
            return super().reserve(request)
        except RequestBusy:
            return next(Ticket(request, charge.seq) for charge in self.charges() if charge.id == request.id)


class ChecksThenActs(SqliteLedger):
    """Broken on purpose: it looks at the budget in one transaction and charges in the next."""

    def reserve(self, request: Request) -> Ticket | Recorded:
        if self.spent() + request.units > self.terms.limit:
            raise BudgetExceeded("spent", requested=0.0, remaining=0.0)
        return self._run(partial(self._charged, request))

    def _charged(self, request: Request, book: Book) -> Ticket:
        for scope in (machine.analyst_scope(request.analyst), machine.TABLE_SCOPE):
            limit, spent = machine.spending(book._storage, scope)
            book._storage.budgets[scope] = (max(limit, spent + request.units), spent)
        facts = [request.id, request.analyst, request.digest, request.units, None]
        return Ticket(request, book.add(Entry("charge", facts)).seq)


VARIANTS = {kind.__name__: kind for kind in (SqliteLedger, TellsBeforeCommit, ForgetsToSweep, ChecksThenActs)}


def fork(work: Callable[[Say], object]) -> tuple[int, int]:
    """Start a child; returns its process id and the pipe on which it speaks, one whole line per write."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    code = 1
    try:
        work(lambda line: os.write(writer, f"{line}\n".encode()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def hear(reader: int) -> list[list[str]]:
    with open(reader, encoding="utf-8") as pipe:
        return [line.split() for line in pipe]


def hear_and_kill(child: int, reader: int, *, after: int, delay: float) -> list[list[str]]:
    """Kill the child a moment after its so many-th line; after none, it dies somewhere in opening the ledger."""
    with open(reader, encoding="utf-8") as pipe:
        lines = [pipe.readline().split() for _ in range(after)]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
            raise RuntimeError("a child failed by itself")
        return lines + [line.split() for line in pipe]


def client(ledger: SqliteLedger, say: Say, rng: random.Random, name: str, first: int) -> None:
    """Ask for ever, often what was asked before; the answer is fresh noise, so a second evaluation would show."""
    while True:
        asked = request(f"{name}-{first + rng.randrange(40)}", units=1)
        try:
            outcome = ledger.reserve(asked)
        except (RequestBusy, RequestLost, BudgetExceeded) as refusal:
            say(f"refused {refusal.code}")
            continue
        if isinstance(outcome, Ticket):
            say(f"charged {asked.id}")
            answer = secrets.token_hex(8).encode()
            ledger.commit(outcome, answer)
        else:
            answer = outcome.answer
        say(f"told {asked.id} {answer.decode()}")


def crash(directory: Path, variant: str, crashes: int, seed: int) -> dict[str, int]:
    """Kill a process with several clients again and again, then hold the ledger against what they said."""
    rng = random.Random(seed)
    terms = replace(TERMS, limit=6 * crashes)
    lines: list[list[str]] = []
    unnoticed = 0

    def serve(say: Say, round: int) -> None:  # noqa: A002
        ledger = VARIANTS[variant](directory / "ledger", terms, anchor=directory / "anchor")
        for number in range(THREADS):
            arguments = (ledger, say, random.Random(round * THREADS + number), f"c{number}", 4 * round)
            threading.Thread(target=client, args=arguments, daemon=True).start()
        signal.pause()

    for number in range(crashes):
        child, reader = fork(partial(serve, round=number))
        lines += hear_and_kill(child, reader, after=rng.randrange(25), delay=rng.uniform(0.0, 0.01))
        if number % 5 == 0:
            unnoticed += not notices_a_lost_log(directory, {line[1] for line in lines if line[0] == "told"})

    told: dict[str, set[str]] = {}
    for line in lines:
        if line[0] == "told":
            told.setdefault(line[1], set()).add(line[2])
    evaluated = Counter(line[1] for line in lines if line[0] == "charged")
    ledger = SqliteLedger(directory / "ledger", terms, anchor=directory / "anchor")
    charges = list(ledger.charges())
    answers = {charge.id: recorded.answer.decode() for charge in charges if (recorded := ledger.lookup(charge.id))}
    spent = ledger.spent()
    ledger.close()
    return {
        "spent": spent,
        "overspent": max(0, sum(evaluated.values()) - spent, spent - terms.limit, len(charges) - spent),
        "conflicts": sum(len(values) > 1 for values in told.values()) + sum(n > 1 for n in evaluated.values()),
        "unnoticed": unnoticed,
        "unbacked": sum(answers.get(key) not in values for key, values in told.items()),
        "told": len(told),
        "replayed": sum(line[0] == "told" for line in lines) - len(told),
        "lost": sum(charge.state == "lost" for charge in charges),
    }


def notices_a_lost_log(directory: Path, told: set[str]) -> bool:
    """Whether the ledger that a kill left, without its log, is refused unless it holds all that was told."""
    copy = directory / "copy"
    copy.mkdir(exist_ok=True)
    for name in ("ledger", "ledger.key", "ledger.head"):
        (copy / name).unlink(missing_ok=True)
        if (directory / name).exists():
            (copy / name).write_bytes((directory / name).read_bytes())
    try:
        account = inspect(copy / "ledger")
    except LedgerError:
        return True
    return told <= {charge.id for charge in account.charges if charge.state == "answered"}


def create(directory: Path, crashes: int) -> dict[str, int]:
    """Kill processes while they create a ledger; each ledger must then open as if nothing had happened."""

    def found(say: Say, path: Path) -> None:
        SqliteLedger(path, TERMS)
        say("created")

    start = time.perf_counter()
    SqliteLedger(directory / "warm-up", TERMS).close()
    usual = time.perf_counter() - start
    finished = 0
    for number in range(crashes):
        path = directory / f"ledger{number}"
        child, reader = fork(partial(found, path=path))
        finished += bool(hear_and_kill(child, reader, after=0, delay=usual * number / crashes))
        ledger = SqliteLedger(path, TERMS)
        ledger.reserve(request())
        ledger.verify()
        ledger.close()
    return {"opened": crashes, "finished": finished}


def race(directory: Path, variant: str, processes: int, limit: int) -> dict[str, int]:
    """Several processes with several threads each reserve one unit at a time until the budget is gone."""
    terms = replace(TERMS, limit=limit)

    def spend(say: Say, process: int) -> None:
        ledger = VARIANTS[variant](directory / "ledger", terms, shared=True)

        def reserve_all(thread: int) -> None:
            for number in range(limit):
                try:
                    ledger.reserve(request(f"{process}.{thread}.{number}", units=1, analyst=f"ann{thread}"))
                except BudgetExceeded:
                    return
                say("granted")

        threads = [threading.Thread(target=reserve_all, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ledger.close()

    children = [fork(partial(spend, process=process)) for process in range(processes)]
    granted = [len(hear(reader)) for _, reader in children]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child, _ in children)
    return {"granted": sum(granted), "failed": failed, "least": min(granted)}


def fill(directory: Path, room: int) -> dict[str, int]:
    """Write until the operating system refuses to let files grow; what was acknowledged must be there afterwards."""
    terms = replace(TERMS, limit=100_000)

    def write(say: Say) -> None:
        ledger = SqliteLedger(directory / "ledger", terms)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        for number in range(100_000):
            ticket = ledger.reserve(request(f"r{number}", units=1))
            assert isinstance(ticket, Ticket)
            ledger.commit(ticket, secrets.token_bytes(100))
            say(f"told r{number}")

    def watch(say: Say) -> None:
        try:
            write(say)
        except LedgerError as refusal:
            say(f"stopped {refusal}")

    child, reader = fork(watch)
    lines = hear(reader)
    os.waitpid(child, 0)
    told = {line[1] for line in lines if line[0] == "told"}
    ledger = SqliteLedger(directory / "ledger", terms)
    answered = {charge.id for charge in ledger.charges() if charge.state == "answered"}
    ledger.close()
    return {"told": len(told), "unbacked": len(told - answered), "stopped": sum(line[0] == "stopped" for line in lines)}


class NoHead(Head):
    """Broken on purpose: the head file stays as it was made."""

    def advance(self, mark: Mark, connection: sqlite3.Connection) -> None:
        pass


class LateHead(Head):
    """Broken on purpose: the head file is written when the next transaction ends, after this one's outcome was told."""

    pending: Mark | None = None

    def advance(self, mark: Mark, connection: sqlite3.Connection) -> None:
        if self.pending is not None:
            super().advance(self.pending, connection)
        self.pending = mark


HEADS = {"kept": Head, "none": NoHead, "late": LateHead}


def work(directory: Path, synchronous: str, head: str, start: str) -> dict[str, int]:
    """Three boots of several clients each, with many checkpoints; what is told goes to a file that a recorder sees."""
    heads.Head = HEADS[head]  # type: ignore[misc]
    told = os.open(directory / "told", os.O_WRONLY | os.O_CREAT, 0o600)
    if start != "new":  # the files of an older version, which has never heard of an anchor
        old = Path(__file__).with_name("files")
        write_new(directory / "ledger", (old / f"{start}.bin").read_bytes())
        write_new(directory / "ledger.key", bytes(range(32)))
        write_new(directory / "anchor", b"")
    os.write(told, b"\n")
    for boot in range(3):
        ledger = SqliteLedger(directory / "ledger", TERMS, anchor=directory / "anchor")
        ledger._home.connection.execute("PRAGMA wal_autocheckpoint = 40")
        ledger._home.connection.execute(f"PRAGMA synchronous = {synchronous}")

        def ask(thread: int, ledger: SqliteLedger = ledger, boot: int = boot) -> None:
            for number in range(15):
                asked = request(f"{boot}.{thread}.{number}", units=1)
                ticket = ledger.reserve(asked)
                assert isinstance(ticket, Ticket)
                answer = secrets.token_hex(50)
                ledger.commit(ticket, answer.encode())
                os.write(told, f"{asked.id} {answer}\n".encode())

        threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ledger.close()
    return {}


def inherit(directory: Path) -> dict[str, str | int]:
    """Use and close a ledger in a fork; the parent must not notice."""
    ledger = SqliteLedger(directory / "ledger", TERMS)

    def use(say: Say) -> None:
        try:
            ledger.reserve(request("child"))
        except LedgerError as refusal:
            say(f"refused {refusal}")
        ledger.close()

    child, reader = fork(use)
    refusal = " ".join(word for line in hear(reader) for word in line)
    os.waitpid(child, 0)
    ledger.reserve(request("parent"))
    locked = 0
    try:
        SqliteLedger(directory / "ledger", TERMS)
    except LedgerError:
        locked = 1
    spent = ledger.spent()
    ledger.close()
    return {"refusal": refusal, "spent": spent, "locked": locked}


if __name__ == "__main__":
    scene, where, *rest = sys.argv[1:]
    arguments = [int(word) if word.isdigit() else word for word in rest]
    print(json.dumps(globals()[scene](Path(where), *arguments)))
