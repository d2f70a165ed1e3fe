"""Three `maquette serve` processes on one table, and kill -9 of one of them under load, again and again."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import httpx

import maquette as mq
from maquette.privacy.ledger import PostgresLedger

MAIN = [sys.executable, "-c", "from maquette.cli import main; main()"]
SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 99, width=5), mq.Boolean("smoker"), mq.Integer("rooms", 0, 9), mq.Boolean("a")]
)
EPSILON, DELTA, ALPHA, ROWS = 20.0, 1e-9, 0.02, 4_000
AGAIN = (409, 429, 500, 502, 503)  # statuses after which a client asks again, under the same key


def questions() -> list[str]:
    cuts = [f"age >= {5 * age} AND rooms < {rooms}" for age, rooms in product(range(1, 20), range(1, 10))]
    flags = [f"{cut} AND {flag}" for cut, flag in product(cuts, ("smoker", "a", "NOT a"))]
    return [*cuts, *flags]


@dataclass
class Outcome:
    """What clients were told, and what the ledger says when everyone is gone; all counts of faults must be 0."""

    kills: int = 0
    asked: int = 0
    answered: int = 0
    lost: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class Servers:
    """Processes of one configuration, each on a port of its own."""

    def __init__(self, folder: Path, address: str, count: int) -> None:
        rows: dict[str, list[int] | list[bool]] = {
            "age": [i * 7 % 100 for i in range(ROWS)],
            "smoker": [i % 3 == 0 for i in range(ROWS)],
            "rooms": [i * 3 % 10 for i in range(ROWS)],
            "a": [i % 7 < 3 for i in range(ROWS)],
        }
        names = list(rows)
        lines = [",".join(names), *(",".join(str(rows[name][i]).lower() for name in names) for i in range(ROWS))]
        (folder / "people.csv").write_text("\n".join(lines) + "\n")
        (folder / "people.schema.toml").write_text(SCHEMA.dumps())
        self.config = folder / "maquette.toml"
        self.config.write_text(
            'port = 0\nlog_level = "error"\n[limits]\nasks_per_minute = 100000000\n[[table]]\nname = "people"\n'
            f'source = "people.csv"\nschema = "people.schema.toml"\nepsilon = {EPSILON}\ndelta = {DELTA}\n'
            f'alpha = {ALPHA}\nrows = {ROWS}\nledger = "{address}"\nshared = true\ndeadline = "none"\n'
        )
        self.key = folder / "people.key"
        self.processes: list[subprocess.Popen[str]] = []
        self.urls: list[str] = []
        self.token = ""
        for _ in range(count):
            process, url = self._started()
            self.processes.append(process)
            self.urls.append(url)

    def _started(self) -> tuple[subprocess.Popen[str], str]:
        command = [*MAIN, "serve", "--config", str(self.config), "--json", "--pg-port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.config.parent)
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        self.token = told["token"]
        return process, told["url"]

    def kill(self, number: int) -> None:
        """End one process without a word, and start its successor."""
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()
        self.processes[number], self.urls[number] = self._started()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


class Clients:
    """Threads that ask until they are told to stop; each keeps its key until it has an answer or a final refusal."""

    def __init__(self, servers: Servers, seed: int) -> None:
        self.servers = servers
        self.told: dict[str, tuple[str, float, bool]] = {}  # by key: the question, the value, whether it is promised
        self.final: dict[str, tuple[str, str]] = {}  # by key: the question, and the code of a final refusal
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
            try:
                got = self._client.post(
                    f"{url}/v1/tables/people/ask",
                    json={"where": question},
                    headers={**headers, "Idempotency-Key": key},
                    timeout=120,
                )
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            if got.status_code not in AGAIN:
                return got.status_code, got.json()
            time.sleep(0.02)


def torture(folder: Path, address: str, *, kills: int, clients: int = 4, answers: int = 10, seed: int = 1) -> Outcome:
    """Kill one of three servers `kills` times, each after so many further answers; then ask every key again."""
    servers = Servers(folder, address, 3)
    asking = Clients(servers, seed)
    threads = [threading.Thread(target=asking.run, args=(number,), daemon=True) for number in range(clients)]
    rng, outcome = random.Random(seed), Outcome()
    try:
        for thread in threads:
            thread.start()
        for _ in range(kills):
            until = len(asking.told) + answers
            while len(asking.told) < until and any(thread.is_alive() for thread in threads):
                time.sleep(0.005)
            servers.kill(rng.randrange(3))
            outcome.kills += 1
        asking.stop.set()
        for thread in threads:
            thread.join()
        _again(asking, rng, outcome)
    finally:
        asking.stop.set()
        servers.stop()
    outcome.asked, outcome.answered = len(asking.told) + len(asking.final), len(asking.told)
    outcome.lost = len(asking.final)
    outcome.refusals.update(code for _, code in asking.final.values())
    _judge(address, servers.key, asking, outcome)
    return outcome


def _again(asking: Clients, rng: random.Random, outcome: Outcome) -> None:
    """Every client can fetch its answer by its key, from any process, and hears the same."""
    for key in rng.sample(sorted(asking.told), min(200, len(asking.told))):
        question, value, _ = asking.told[key]
        status, body = asking.ask(key, question, rng)
        outcome.faults["answer that cannot be fetched"] += status != 200
        outcome.faults["conflicting replay"] += status == 200 and body["value"] != value


def _judge(address: str, key: Path, asking: Clients, outcome: Outcome) -> None:
    """Open the ledger alone, when every process has ended, and compare what was told with what it holds."""
    budget = mq.Budget(epsilon=EPSILON, delta=DELTA)
    table = mq.open_table(str(key.parent / "people.csv"), SCHEMA)
    kept = lambda terms: PostgresLedger(address, terms, name="people", key_path=key)  # noqa: E731
    with mq.Curator(table, budget, ledger=kept) as curator:
        curator.ledger.verify()
        charges = list(curator.ledger.charges())
        outcome.states.update(charge.state for charge in charges)
        outcome.faults["overspending"] += sum(charge.units for charge in charges) > budget.limit
        outcome.faults["spent differs from charges"] += curator.ledger.spent() != sum(one.units for one in charges)
        names = Counter(charge.described.note.get("request", {}).get("name") for charge in charges)
        names.pop(None, None)
        outcome.faults["key that paid twice"] += sum(count > 1 for count in names.values())
        session = mq.online(curator, alpha=ALPHA, rows=ROWS, table="people")
        promised: dict[str, set[float]] = {}
        for question, value, sure in asking.told.values():
            if sure:
                promised.setdefault(question, set()).add(value)
        spent = curator.ledger.spent()
        for question, values in promised.items():
            outcome.faults["two answers to one question"] += len(values) > 1
            outcome.faults["unbacked answer"] += session.ask(question).value not in values
        outcome.faults["answer that the ledger does not hold"] += curator.ledger.spent() != spent
