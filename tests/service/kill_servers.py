"""Three servers on one table in PostgreSQL, and kill -9 of one of them under load, again and again.

Each of three places is kept by a thread that starts a server, sees it die and starts its successor. A server dies at a
random moment, or ends itself with SIGKILL at a chosen place of the program (see `nursery.py`): before and after the
commit of a charge, between the draw and its recording, between recording and reply.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
from nursery import PLACES

import maquette as mq
from maquette.privacy.ledger import LedgerSource, PostgresLedger

FLAGS = [f"f{number}" for number in range(16)]
SCHEMA = mq.Schema([mq.Boolean(name) for name in FLAGS])
EPSILON, DELTA, ALPHA, ROWS = 50.0, 1e-9, 0.1, 1_000
AGAIN = (409, 429, 500, 502, 503)  # statuses after which a client asks again, under the same key
LOST = "ledger.request-lost"
CUT = 0.1  # share of requests whose connection the client cuts after a moment, with the answer perhaps on its way
PATIENCE = 10.0  # seconds until a server that does not reach its place is killed where it is


def questions() -> list[str]:
    """Questions that no other one answers: each of them is charged."""
    return [" AND ".join(chosen) for chosen in itertools.combinations(FLAGS, 3)]


@dataclass
class Outcome:
    """What clients were told, and what the ledger says when everyone is gone; all counts of faults must be 0."""

    kills: Counter[str] = field(default_factory=Counter)  # by place
    asked: int = 0
    answered: int = 0
    cut: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def write_table(folder: Path, name: str) -> None:
    """Rows and their schema, in files."""
    rng = random.Random(name)
    lines = [",".join(FLAGS), *(",".join(rng.choice(("true", "false")) for _ in FLAGS) for _ in range(ROWS))]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.schema.toml").write_text(SCHEMA.dumps())


def settings(table: str, ledger: str, service: str = "") -> str:
    """A settings file for a table of these rows."""
    return (
        f'port = 0\npg_port = 0\nlog_level = "error"\n{service}[limits]\nasks_per_minute = 100000000\n'
        f'[[table]]\nname = "{table}"\nsource = "people.csv"\nschema = "people.schema.toml"\n'
        f"epsilon = {EPSILON}\ndelta = {DELTA}\nalpha = {ALPHA}\nrows = {ROWS}\n{ledger}"
        'deadline = "none"\n'
    )


class Server(Protocol):
    """What clients and the judge need to know of servers."""

    urls: list[str]
    token: str
    table: str
    folder: Path
    ledger: LedgerSource

    def stop(self) -> None:
        """End all of them, in order."""


class Nursery:
    """The process that forks servers; may be used for several tables, one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("nursery.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._told: dict[int, Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, config: Path, place: str | None = None, passages: int = 1) -> dict[str, Any]:
        """A new server: where it is reached, its process and the custodian's token."""
        number, told = next(self._numbers), Future[dict[str, Any]]()
        self._told[number] = told
        order = {"id": number, "config": str(config), "place": place, "passages": passages}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        found = told.result(120)
        if "failed" in found:
            raise RuntimeError("a server did not start")
        return found

    def close(self) -> None:
        """Start no more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            waiting = self._told.pop(told["id"], None)
            if "failed" in told:
                print(told["failed"], file=sys.stderr)
            if waiting is not None:
                waiting.set_result(told)
        for waiting in self._told.values():
            waiting.set_exception(RuntimeError("the process that forks servers has ended"))


class Servers:
    """Processes of one configuration, each on a port of its own."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        address: str,
        *,
        table: str = "people",
        count: int = 3,
        state: str | None = None,
    ) -> None:
        write_table(folder, table)
        self.config = folder / "maquette.toml"
        service = "" if state is None else f'state = "{state}"\n'
        self.config.write_text(settings(table, f'ledger = "{address}"\nshared = true\n', service))
        self.table, self.folder = table, folder
        key = folder / f"{table}.key"
        self.ledger: LedgerSource = lambda terms: PostgresLedger(address, terms, name=table, key_path=key)
        self.nursery = nursery
        self.token = ""
        self.pids = [0] * count
        self.urls = [""] * count
        for number in range(count):
            self.start(number)

    def start(self, number: int, place: str | None = None, passages: int = 1) -> None:
        """Start the server of one place."""
        told = self.nursery.start(self.config, place, passages)
        self.pids[number], self.urls[number], self.token = told["pid"], told["url"], told["token"]

    def kill(self, number: int, *, after: float = 0.0, name: signal.Signals = signal.SIGKILL) -> bool:
        """End a server without a word after a number of seconds, unless it ends before; whether it did."""
        watched = os.pidfd_open(self.pids[number])
        try:
            died = bool(select.select([watched], [], [], after)[0])
            if not died:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(watched, name)
                select.select([watched], [], [])
        finally:
            os.close(watched)
        return died

    def stop(self) -> None:
        for number in range(len(self.pids)):
            with suppress(ProcessLookupError):
                self.kill(number, name=signal.SIGTERM)


class Clients:
    """Threads that ask until they are told to stop; each keeps its key until it has an answer or a final refusal."""

    def __init__(self, servers: Server, seed: int) -> None:
        self.servers = servers
        self.told: dict[str, tuple[str, float, bool]] = {}  # by key: the question, the value, whether it is promised
        self.final: dict[str, tuple[str, str]] = {}  # by key: the question, and the code of a final refusal
        self.cut = 0
        self.wrong: Counter[str] = Counter()  # what no trouble excuses
        self.stop = threading.Event()
        self._seed = seed
        self._texts = questions()
        self._client = httpx.Client()  # for all threads; making one for each question costs more than asking it

    def run(self, number: int) -> None:
        rng, count = random.Random(self._seed + number), 0
        while not self.stop.is_set():
            count += 1
            key, question = f"{number}-{count}", rng.choice(self._texts)
            status, body = self.ask(key, question, rng)
            self.note(key, question, status, body)

    def note(self, key: str, question: str, status: int, body: Any) -> None:
        if status == 200:
            self.told[key] = question, body["value"], body["guarantee"] is not None
        else:
            self.final[key] = question, body["code"]

    def ask(self, key: str, question: str, rng: random.Random) -> tuple[int, Any]:
        """Ask any of the servers until there is an answer or a final refusal."""
        while True:
            url, headers = rng.choice(self.servers.urls), {"Authorization": f"Bearer {self.servers.token}"}
            patience = rng.uniform(0.001, 0.05) if rng.random() < CUT else 120.0
            try:
                got = self._client.post(
                    f"{url}/v1/tables/{self.servers.table}/ask",
                    json={"where": question},
                    headers={**headers, "Idempotency-Key": key},
                    timeout=patience,
                )
            except httpx.HTTPError as error:
                self.cut += isinstance(error, httpx.ReadTimeout)
                time.sleep(0.02)
                continue
            problem = got.headers.get("Content-Type") == "application/problem+json"
            self.wrong["internal error"] += got.status_code == 500
            self.wrong["refusal that is no problem"] += got.status_code != 200 and not problem
            if got.status_code not in AGAIN:
                return got.status_code, got.json()
            time.sleep(0.02)


class Killers:
    """A thread for each server that sees it die and starts its successor, until enough have died."""

    def __init__(self, servers: Servers, kills: int, outcome: Outcome, seed: int, *, most: int = 4) -> None:
        self._servers, self._outcome, self._left, self._most = servers, outcome, kills, most
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        rngs = [random.Random(f"{seed} {number}") for number in range(len(servers.pids))]
        self._threads = [threading.Thread(target=self._keep, args=item, daemon=True) for item in enumerate(rngs)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for failure in self._failures:
            raise failure

    def _keep(self, number: int, rng: random.Random) -> None:
        try:
            place: str | None = None
            while self._another():
                died = self._servers.kill(number, after=PATIENCE if place else rng.uniform(0.0, 0.5))
                with self._lock:
                    self._outcome.kills[place if place and died else "at random"] += 1
                place = rng.choice((*PLACES, None, None))
                self._servers.start(number, place, rng.randint(1, self._most))
            if place is not None:  # it would die when every key is asked again
                self._servers.kill(number)
                self._servers.start(number)
        except BaseException as failure:
            self._failures.append(failure)

    def _another(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0


def torture(servers: Servers, *, kills: int, clients: int = 4, seed: int = 1) -> Outcome:
    """Kill one of the servers `kills` times under load; then ask every key again, and judge."""
    asking, outcome = Clients(servers, seed), Outcome()
    threads = [threading.Thread(target=asking.run, args=(number,), daemon=True) for number in range(clients)]
    try:
        for thread in threads:
            thread.start()
        Killers(servers, kills, outcome, seed).join()
        asking.stop.set()
        for thread in threads:
            thread.join()
        fetch_again(asking, random.Random(seed), outcome)
    finally:
        asking.stop.set()
        servers.stop()
    judge(servers, asking, outcome)
    return outcome


def under_load(servers: Server, trouble: Callable[[Callable[[], None]], None], *, clients: int = 3) -> Outcome:
    """Ask while `trouble` happens, until it has and answers come again; then ask every key again, and judge.

    `trouble` is given a function that returns when a few more answers have come.
    """
    asking, outcome = Clients(servers, 1), Outcome()
    threads = [threading.Thread(target=asking.run, args=(number,), daemon=True) for number in range(clients)]

    def more() -> None:
        until, end = len(asking.told) + 2 * clients, time.monotonic() + PATIENCE * 12
        while len(asking.told) < until:
            assert time.monotonic() < end, "no more answers come"
            time.sleep(0.01)

    try:
        for thread in threads:
            thread.start()
        more()
        trouble(more)
        more()
        asking.stop.set()
        for thread in threads:
            thread.join()
        fetch_again(asking, random.Random(1), outcome)
    finally:
        asking.stop.set()
        servers.stop()
    judge(servers, asking, outcome)
    return outcome


def fetch_again(asking: Clients, rng: random.Random, outcome: Outcome) -> None:
    """Every client can fetch its answer by its key, from any process, and hears the same."""
    for key, (question, value, _) in asking.told.items():
        status, body = asking.ask(key, question, rng)
        outcome.faults["answer that cannot be fetched"] += status != 200
        outcome.faults["conflicting replay"] += status == 200 and body["value"] != value


def judge(servers: Server, asking: Clients, outcome: Outcome) -> None:
    """Open the ledger alone, when every process has ended, and compare what was told with what it holds."""
    outcome.asked, outcome.answered, outcome.cut = len(asking.told) + len(asking.final), len(asking.told), asking.cut
    outcome.refusals.update(code for _, code in asking.final.values())
    outcome.faults.update(asking.wrong)
    budget = mq.Budget(epsilon=EPSILON, delta=DELTA)
    table = mq.open_table(str(servers.folder / "people.csv"), SCHEMA)
    with mq.Curator(table, budget, ledger=servers.ledger) as curator:
        curator.ledger.verify()
        charges = list(curator.ledger.charges())
        outcome.states.update(charge.state for charge in charges)
        outcome.faults["overspending"] += sum(charge.units for charge in charges) > budget.limit
        outcome.faults["spent differs from charges"] += curator.ledger.spent() != sum(one.units for one in charges)
        named = [(charge.described.note.get("request", {}).get("name"), charge.state) for charge in charges]
        times = Counter(name for name, _ in named if name is not None)
        outcome.faults["key that paid twice"] += sum(count > 1 for count in times.values())
        # What a key buys a second time, under a name of its own: what a lost charge of another was to bring.
        rests = [i for i, (name, _) in enumerate(named) if name is not None and "\n" in name]
        outcome.states["of these, a rest"] += len(rests)
        unlost = [i for i in rests if not any(state == "lost" for _, state in named[:i])]
        outcome.faults["rest without a lost charge"] += len(unlost)
        lost = {name.partition("\n")[0] for name, state in named if name is not None and state == "lost"}
        own = {name for name, state in named if state == "lost"}
        outcome.faults["answer of a lost charge"] += sum(f"custodian:{key}" in own for key in asking.told)
        unbacked = [key for key, (_, code) in asking.final.items() if code != LOST or f"custodian:{key}" not in lost]
        outcome.faults["refusal without a lost charge"] += len(unbacked)
        session = mq.online(curator, alpha=ALPHA, rows=ROWS, table=servers.table)
        promised: dict[str, set[float]] = {}
        for question, value, sure in asking.told.values():
            if sure:
                promised.setdefault(question, set()).add(value)
        spent = curator.ledger.spent()
        for question, values in promised.items():
            outcome.faults["two answers to one question"] += len(values) > 1
            outcome.faults["unbacked answer"] += session.ask(question).value not in values
        outcome.faults["answer that the ledger does not hold"] += curator.ledger.spent() != spent
