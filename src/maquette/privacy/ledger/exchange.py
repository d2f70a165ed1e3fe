"""Exchange: a ledger as a file of lines that can be kept, verified and brought into PostgreSQL.

An export holds every event with its MAC, so the ledger's key signs it, and a last line with the head under a seal
of its own, so a shortened file is seen. Bringing it into PostgreSQL keeps the chain, every charge and every answer. The
source must not be used again: the same budget would be spent twice.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.files import beside, check_place, load_key
from maquette.privacy.ledger.head import Head
from maquette.privacy.ledger.replay import Replay, Row, replayed
from maquette.privacy.ledger.witnesses import Witnesses

BATCH = 1_000


def export_ledger(path: str | Path, out: str | Path, *, key: bytes | None = None) -> Receipt:
    """Verify the ledger file at `path` and write all its events to `out`; returns its head."""
    home = Path(path).resolve()
    if not home.is_file():
        raise LedgerError(f"there is no ledger at {str(path)!r}")
    check_place(home)
    chain = Chain(load_key(beside(home, ".key")) if key is None else key)
    try:
        witnesses = Witnesses.read(Head(home, chain), None)
        with closing(sqlite3.connect(f"{home.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            receipt = witnesses.verify(connection, chain).receipt
            with open(out, "x", encoding="ascii", opener=_private) as file:
                for row in connection.execute("SELECT seq, kind, facts, content, mac FROM event ORDER BY seq"):
                    file.write(_line(row) + "\n")
                last = f"{receipt.seq} {receipt.head}"
                file.write(json.dumps({"end": last, "seal": chain.seal(last)}) + "\n")
    except (OSError, *store.BROKEN) as failure:
        raise store.explain(failure) from None
    return receipt


def read_export(path: str | Path, chain: Chain) -> tuple[Replay, list[Row]]:
    """Verify an export: its chain, and that it is complete."""
    rows: list[Row] = []
    end: dict[str, str] = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                found = json.loads(line)
                if isinstance(found, dict):
                    end = found
                    break
                seq, kind, facts, content, mac = found
                rows.append((seq, kind, facts, base64.b64decode(content), bytes.fromhex(mac)))
    except (OSError, ValueError, TypeError) as error:
        raise LedgerCorrupted(f"the export cannot be read ({type(error).__name__})") from None
    replay = replayed(_batches(rows), chain)
    last = f"{replay.seq} {replay.receipt.head}"
    if end != {"end": last, "seal": chain.seal(last)}:
        raise LedgerCorrupted("the export is not complete: its last line does not seal its last event")
    return replay, rows


def import_to_postgres(path: str | Path, address: str, *, name: str, key: bytes) -> Receipt:
    """Bring an export into a PostgreSQL ledger that does not exist yet; its next opening boots it."""
    from maquette.privacy.ledger.postgres import adopt

    replay, rows = read_export(path, Chain(key))
    adopt(address, name, replay, rows)
    return replay.receipt


def _line(row: Sequence[object]) -> str:
    seq, kind, facts, content, mac = row
    assert isinstance(content, bytes)
    assert isinstance(mac, bytes)
    return json.dumps([seq, kind, facts, base64.b64encode(content).decode(), mac.hex()])


def _batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
