"""What the ledger's tests share: terms, requests, and everything a reader can see in a ledger."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maquette.privacy.ledger import Ledger, Request, SqliteLedger, Terms, Ticket

TERMS = Terms(
    table="5ca1ab1e" * 8,
    schema="ab" * 32,
    relation="add-remove",
    currency="zcdp",
    limit=1_000,
)


def request(id: str = "r", *, units: int = 10, analyst: str = "ann", digest: str = "d", **more: Any) -> Request:  # noqa: A002
    return Request(id=id, analyst=analyst, digest=digest, units=units, description='{"door": "measure"}', **more)


def ask(ledger: Ledger, id: str, answer: bytes = b"42", **more: Any) -> None:  # noqa: A002
    ticket = ledger.reserve(request(id, **more))
    assert isinstance(ticket, Ticket)
    ledger.commit(ticket, answer)


@contextmanager
def opened(path: Path | None, terms: Terms = TERMS, **settings: Any) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(path, terms, **settings)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A directory in memory where there is one: syncs take no time there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


def snapshot(path: Path) -> dict[Path, bytes]:
    """Everything that lies beside a ledger and matters to it: a copy of the whole directory at one moment."""
    return {file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}


def restore(copy: dict[Path, bytes]) -> None:
    """Put such a copy back, and nothing else."""
    for directory in {file.parent for file in copy}:
        for file in directory.iterdir():
            file.unlink()
    for file, data in copy.items():
        file.write_bytes(data)


def contents(ledger: Ledger) -> object:
    charges = list(ledger.charges())
    analysts = sorted({charge.analyst for charge in charges})
    answers = [recorded and (recorded.answer, recorded.receipt) for recorded in (ledger.lookup(c.id) for c in charges)]
    return charges, answers, ledger.spent(), [(name, ledger.spent(name)) for name in analysts]
