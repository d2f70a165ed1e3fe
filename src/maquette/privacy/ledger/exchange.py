"""Exchange: a ledger as a file of lines that can be kept, verified, and made a ledger again.

An export holds every event with its MAC, so the ledger's key signs it, and a last line with the head under a seal of
its own, so a shortened file is seen.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from maquette.errors import LedgerCorrupted
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.places import Place, read_ledger
from maquette.privacy.ledger.replay import Replay, Row, replayed

BATCH = 1_000


def export_ledger(place: str | Path | Place, out: str | Path, *, anchor: Path | None = None) -> Receipt:
    """Verify a ledger, which may be open meanwhile, and write all its events to `out`; returns its head.

    The file is durable when this returns, and was read back and verified.
    """
    place = place if isinstance(place, Place) else Place(str(place))
    replay, rows = read_ledger(place, anchor)
    chain, receipt = place.chain(), replay.receipt
    try:
        with open(out, "x", encoding="ascii", opener=_private) as file:
            for row in rows:
                file.write(_line(row) + "\n")
            last = f"{receipt.seq} {receipt.head}"
            file.write(json.dumps({"end": last, "seal": chain.seal(last)}) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as failure:
        raise store.explain(failure) from None
    if read_export(out, chain)[0].receipt != receipt:
        raise LedgerCorrupted("the export was not written as it should be", advice="Write it to another disk")
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
