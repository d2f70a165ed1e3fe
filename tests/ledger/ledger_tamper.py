"""Changed, older and forked files: what `judge` tries must be refused when the ledger is opened, or change nothing."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from ledger_checks import TERMS, ask, contents, opened, quick_directory, request, restore, snapshot

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import SqliteLedger

Copy = dict[Path, bytes]


def history(path: Path, rng: random.Random) -> tuple[list[Copy], Copy, object]:
    """Copies of a ledger from every moment of three boots, what a kill leaves at the end, and what it then holds."""
    copies: list[Copy] = []
    for boot in range(3):
        with opened(path) as ledger:
            ledger.limit_analyst(f"ann{boot}", 200)
            ledger.open_guard(f"g{boot}", hits=5)
            for number in range(6):
                ask(ledger, f"r{boot}.{number}", rng.randbytes(40), analyst=f"ann{number % 3}")
                copies.append(snapshot(path))
            ledger.reserve(request(f"lost{boot}", guard=f"g{boot}"))
            last = snapshot(path)
        copies.append(snapshot(path))
    restore(last)
    with opened(path) as ledger:
        return copies[:-1], last, contents(ledger)


def forks(path: Path, copies: list[Copy], rng: random.Random) -> list[Copy]:
    """Older copies, with their head files, that went on by themselves."""
    made = []
    for copy in rng.sample(copies, 6):
        restore(copy)
        with opened(path) as ledger:
            for number in range(rng.randrange(1, 9)):
                ask(ledger, f"fork{number}")
            made.append(snapshot(path))
        made.append(snapshot(path))
    return made


def judge(count: int, seed: int) -> Counter[str]:
    """Try so many changes: how many were refused, changed nothing, or (`bad`) were accepted and changed something."""
    rng = random.Random(seed)
    outcome: Counter[str] = Counter(tried=0, refused=0, harmless=0, bad=0)
    with quick_directory() as directory:
        path = directory / "ledger"
        copies, last, expected = history(path, rng)
        others = forks(path, copies, rng)
        for number in range(count):
            way = ("byte", "older copy", "fork")[number % 3]
            restore(_changed(way, last, copies if way == "older copy" else others, path, rng))
            outcome.update(tried=1)
            try:
                ledger = SqliteLedger(path, TERMS)
            except LedgerCorrupted:
                outcome.update({"refused": 1, f"refused: {way}": 1})
                continue
            except LedgerError:
                outcome.update(bad=1)
                continue
            same = contents(ledger) == expected
            ledger.close()
            outcome.update({"harmless": same, f"harmless: {way}": same, "bad": not same})
    return outcome


def _changed(way: str, last: Copy, copies: list[Copy], path: Path, rng: random.Random) -> Copy:
    """A byte of any file; or the database, its log or both from another copy, under the newest head file."""
    if way == "byte":
        file = rng.choice([each for each in last if last[each] and each.suffix != ".lock"])
        data = bytearray(last[file])
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        return {**last, file: bytes(data)}
    log, other = path.with_name("ledger-wal"), rng.choice(copies)
    changed = {**last, path: other[path]}
    changed.pop(log)
    if log in other and rng.random() < 0.7:
        changed[log] = other[log]
    return changed
