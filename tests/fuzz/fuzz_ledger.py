"""Ledger files: bytes of the database and its key changed, cut, copied; and rows edited through SQLite.

Either the ledger is refused, or it says exactly what it said before: nothing more to spend, no other answer.
"""

from __future__ import annotations

import functools
import random
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import fuzz_words as words
from fuzz_runner import Broken, Target, memory_folder

from maquette.errors import LedgerError
from maquette.privacy.ledger import Charge, Receipt, Request, SqliteLedger, Terms, Ticket
from maquette.privacy.ledger.book import Book

CANARY = b"77345112"
TERMS = Terms(
    table="5ca1ab1e" * 8,
    schema="ab" * 32,
    relation="add-remove",
    currency="zcdp",
    limit=1_000,
)
NAME = "people.ledger"


@functools.cache
def folder() -> Path:
    """A place in memory for the files."""
    return memory_folder("ledger-fuzz-")


def contents(ledger: SqliteLedger) -> object:
    """All that a reader can see."""
    charges, answers = ledger._run(_answered)
    analysts = sorted({charge.analyst for charge in charges})
    return charges, answers, ledger.spent(), [(name, ledger.spent(name)) for name in analysts]


def _answered(book: Book) -> tuple[list[Charge], list[tuple[bytes, Receipt] | None]]:
    """Every charge and its answer, in one transaction: one of its own for each costs more than reading it."""
    charges = book.all_charges(0)
    recorded = [book.lookup(charge.id) for charge in charges]
    return charges, [None if found is None else (found.answer, found.receipt) for found in recorded]


@functools.cache
def seed() -> tuple[dict[str, bytes], object]:
    """The files of a small ledger that was closed, and what it says."""
    place = folder() / "seed"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    ledger = SqliteLedger(place / NAME, TERMS)
    ledger.open_guard("g", hits=3)
    for number in range(8):
        asked = Request(
            id=f"r{number}",
            analyst=f"ann{number % 2}",
            digest="d" * 64,
            units=10 + number,
            description='{"door": "measure"}',
            guard="g" if number == 5 else None,
        )
        ticket = ledger.reserve(asked)
        assert isinstance(ticket, Ticket)
        if number != 7:
            ledger.commit(ticket, CANARY + bytes([number]), hit=number == 5)
    ledger.close()
    ledger = SqliteLedger(place / NAME, TERMS)
    said = contents(ledger)
    ledger.close()
    files = {file.name: file.read_bytes() for file in place.iterdir()}
    return {name: data for name, data in files.items() if not name.endswith((".lock", "-shm"))}, said


EDITS = (
    "UPDATE budget SET spent = spent - 1",
    "UPDATE budget SET spent = 0",
    'UPDATE budget SET "limit" = 9000',
    "DELETE FROM request WHERE id = 'r1'",
    "UPDATE request SET answered = NULL WHERE id = 'r2'",
    "UPDATE request SET charged = charged + 1",
    "UPDATE guard SET used = 0",
    "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
    "DELETE FROM event WHERE seq > 3",
    "UPDATE event SET facts = replace(facts, '1', '2') WHERE seq = {}",
    "UPDATE event SET content = x'00' WHERE seq = {}",
    "UPDATE event SET content = zeroblob(100000) WHERE seq = {}",
    "UPDATE event SET facts = '[' || facts WHERE seq = {}",
    "UPDATE event SET kind = 'boot' WHERE seq = {}",
    "UPDATE event SET mac = randomblob(32) WHERE seq = {}",
    "INSERT INTO event SELECT seq + 1, kind, facts, content, mac FROM event ORDER BY seq DESC LIMIT 1",
    "CREATE TABLE t (x)",
    "CREATE TRIGGER t AFTER UPDATE ON budget BEGIN UPDATE budget SET spent = 0; END",
    "CREATE VIEW v AS SELECT 1",
    "DROP TABLE guard",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 7",
    "PRAGMA auto_vacuum = 1",
    "VACUUM",
)


def make(rng: random.Random) -> tuple[dict[str, bytes], str | None]:
    """Files, and maybe an edit to make through SQLite."""
    files = dict(seed()[0])
    draw = rng.random()
    if draw < 0.15:
        return files, rng.choice(EDITS).format(rng.randrange(1, 20))
    if draw < 0.25:
        key = f"{NAME}.key"
        files[key] = words.bites(rng, files[key])
    else:
        data = files[NAME]
        if draw < 0.45:  # the header and the roots, where every byte matters
            start = rng.choice((0, 0, 4096, 8192))
            changed = words.bites(rng, data[start : start + 100])
            data = data[:start] + changed + data[start + 100 :]
        elif draw < 0.55:  # whole pages copied, swapped, dropped
            pages = [data[i : i + 4096] for i in range(0, len(data), 4096)]
            one, two = rng.randrange(len(pages)), rng.randrange(len(pages))
            pages[one], pages[two] = (pages[two], pages[one]) if rng.random() < 0.5 else (pages[one], pages[one])
            data = b"".join(pages[: rng.choice((len(pages), len(pages), one + 1))])
        else:
            data = words.bites(rng, data)
        files[NAME] = data
    return files, None


def run(given: tuple[dict[str, bytes], str | None]) -> str:
    """Put the files there and open the ledger."""
    files, statement = given
    place = folder() / "input"
    place.mkdir(exist_ok=True)
    for file in place.iterdir():
        file.unlink()
    for name, data in files.items():
        (place / name).write_bytes(data)
    if statement is not None:
        connection = sqlite3.connect(place / NAME, isolation_level=None)
        with suppress(sqlite3.Error):
            connection.execute(statement)
        connection.close()
    ledger = SqliteLedger(place / NAME, TERMS)
    try:
        if contents(ledger) != seed()[1]:
            raise Broken("the ledger was accepted and says something else")
    finally:
        ledger.close()
    return "the same"


def check(_: Any, error: BaseException) -> None:
    """No refusal quotes an answer or a question."""
    if CANARY.decode() in str(error) or CANARY.hex() in str(error) or "d" * 64 in str(error):
        raise Broken("a refusal quotes what is recorded")


LEDGER = Target("ledger", make, run, (LedgerError,), check)
