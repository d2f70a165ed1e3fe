"""Sessions that are killed again and again: `python tests/session/kill_sessions.py 500` prints a JSON report. Variants
may be named after the number: `plain`, `guarded` (a guard is armed in every life), and the broken `forgets`, `drifts`.

A child opens the ledger, goes on with the session, asks questions new and old for several analysts, and writes what it
was told, one whole line per answer, until it is killed. It runs apart from the tests because it forks, which a process
with threads must not do.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.curator import Curator
from maquette.errors import BudgetExceeded
from maquette.privacy import UNITS_PER_ONE
from maquette.session import Session
from maquette.session.own import Guarded

REGIONS = ["north", "east", "south", "west"]
YES_NO = tuple(f"q{i}" for i in range(8))
SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 99, width=10), mq.Category("region", REGIONS), *(mq.Boolean(name) for name in YES_NO)]
)
ROWS = 3_000
ANALYSTS = ("ann", "bob", "custodian")
PER_KILL = 1e-4  # rho: enough for most of a run; towards the end nothing can be paid any more
ANN = 5e-4  # rho: a limit that is soon used up

Say = Callable[[str], object]


@functools.cache
def table() -> mq.PrivateTable:
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {
        "age": rng.integers(0, 100, ROWS).tolist(),
        "region": rng.choice(REGIONS, ROWS).tolist(),
    }
    return mq.open_table(columns | {name: (rng.random(ROWS) < 0.3).tolist() for name in YES_NO}, SCHEMA)


def budget(kills: int, variant: str) -> mq.Budget:
    return mq.Budget(rho=(1 if variant == "plain" else 100) * (PER_KILL * min(kills, 60) + 1e-3), delta=1e-9)


def question(rng: random.Random) -> str:
    """One of very many questions, of every kind: products, others, distribution functions, groups and averages."""
    start = 10 * rng.randrange(8)
    age = f"age BETWEEN {start} AND {start + 10 * rng.randrange(1, 3) + 9}"
    region = f"region = '{rng.choice(REGIONS)}'"
    one, two, three = rng.sample(YES_NO, 3)
    kinds = [
        f"{age} AND {region}",
        f"SELECT count(*) FROM people WHERE age <= {start + 9}",
        f"{one} AND {two} AND NOT {three}",
        f"{one} AND {two} OR {region} AND {three}",
        f"SELECT region, count(*) FROM people WHERE {age} AND {one} GROUP BY region",
        f"SELECT avg(age) FROM people WHERE {one} AND {two}",
        f"SELECT {one}, sum(age), count(*) FROM people WHERE {region} GROUP BY {one}",
    ]
    return kinds[rng.randrange(len(kinds))]


def open_session(directory: Path, kills: int, variant: str = "plain", boot: int = 0) -> tuple[Curator, Session]:
    curator = Curator(table(), budget(kills, variant), ledger=directory / "ledger", anchor=directory / "anchor")
    name = f"boot{boot}" if variant == "forgets" else "online"
    session = mq.online(curator, alpha=0.05, simultaneous=False, name=name)
    if variant == "drifts":
        # Broken on purpose: an answer is taken from what is known now, and not from when it could first be given.
        def latest(goal: Any) -> Any:
            found = session._knowledge._earliest(goal)
            if found is None or found.own is not None:
                return found
            return dataclasses.replace(found, moment=session._record.transcript.moment)

        session._knowledge.state = latest  # type: ignore[method-assign]
        session._answers = _Nothing()  # type: ignore[assignment]
    return curator, session


class _Nothing(dict[str, Any]):
    """A memory that keeps nothing."""

    def __setitem__(self, key: str, value: Any) -> None:
        pass


def numbers(answer: mq.Answered) -> str:
    """A digest of all numbers of an answer, and whether they are promised."""
    rows = answer.numbers
    facts = [(one.value, one.low, one.high, one.count, one.guarantee) for one in rows]
    promised = all(one.guarantee is not None for one in rows)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16] if promised else "-"


def serve(say: Say, directory: Path, kills: int, variant: str, boot: int) -> None:
    """Ask for ever, often what was asked before."""
    rng = random.Random(boot)
    curator, session = open_session(directory, kills, variant, boot)
    say(f"spent {curator.ledger.spent()}")
    if boot == 0:
        session.limit("ann", rho=ANN)
    if variant == "guarded":
        session._policy._arm()
    while True:
        recent = random.Random(rng.randrange(max(0, 4 * boot - 40), 4 * boot + 4))
        asked = [question(recent) for _ in range(1 + (rng.random() < 0.2))]
        analyst = rng.choice(ANALYSTS)
        strict = rng.random() < 0.3
        try:
            answers = session.ask_many(asked, analyst=analyst, strict=strict)
        except BudgetExceeded:
            say("refused")
            continue
        for text, answer in zip(asked, answers, strict=True):
            say(f"told {numbers(answer)} {text}")
        say(f"spent {curator.ledger.spent()}")


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


def hear_and_kill(child: int, reader: int, *, after: int, delay: float) -> list[str]:
    """Kill the child a moment after its so many-th line; after none, it dies somewhere in opening the session."""
    with open(reader, encoding="utf-8") as pipe:
        lines = [pipe.readline() for _ in range(after)]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError("a child failed by itself")
        return [line.rstrip("\n") for line in lines + list(pipe) if line]


def play(directory: Path, kills: int, variant: str = "plain", seed: int = 1) -> dict[str, int]:
    """Kill, then hold the ledger and a last session against all that was told."""
    rng = random.Random(seed)
    lines: list[str] = []
    for boot in range(kills):
        work = functools.partial(serve, directory=directory, kills=kills, variant=variant, boot=boot)
        child, reader = fork(work)
        lines += hear_and_kill(child, reader, after=rng.randrange(12), delay=rng.uniform(0.0, 0.03))
    told: dict[str, set[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "told" and not rest.startswith("- "):
            digest, _, text = rest.partition(" ")
            told.setdefault(text, set()).add(digest)
    spent = [int(line.split()[1]) for line in lines if line.startswith("spent")]
    curator, session = open_session(directory, kills, variant, kills)
    charges = list(curator.ledger.charges())
    curator.ledger.verify()
    final, limit = curator.ledger.spent(), budget(kills, variant).limit
    wrong = sum(numbers(session.ask(text)) not in digests for text, digests in told.items())
    paid_again = curator.ledger.spent() - final
    ann = session.spent_by("ann").units
    curator.close()
    return {
        "kills": kills,
        "told": len(told),
        "repeated": sum(line.startswith("told") for line in lines) - len(told),
        "conflicts": sum(len(digests) > 1 for digests in told.values()),
        "not repeated at the end": wrong,
        "paid again": paid_again,
        "decreased": sum(later < earlier for earlier, later in itertools.pairwise(spent)),
        "overspent": max(0, final - limit, ann - int(ANN * UNITS_PER_ONE), sum(c.units for c in charges) - final),
        "unpromised": sum(line.startswith("told - ") for line in lines),
        "vouched": len([own for goals in session._record.own.values() for own in goals if isinstance(own, Guarded)]),
        "charges": len(charges),
        "spent": final,
        "limit": limit,
        "lost": sum(charge.state == "lost" for charge in charges),
    }


def main(kills: int, *variants: str) -> Iterator[dict[str, int]]:
    with mq.Curator(table(), mq.Budget(rho=1.0, delta=1e-9)) as curator:  # imports everything before the first fork
        session = mq.online(curator, alpha=0.05, simultaneous=False)
        rng = random.Random(0)
        for _ in range(12):
            session.ask(question(rng))
    for variant in variants or ("plain",):
        with tempfile.TemporaryDirectory() as directory:
            yield play(Path(directory), kills, variant)


if __name__ == "__main__":
    for report in main(int(sys.argv[1]), *sys.argv[2:]):
        print(json.dumps(report))
