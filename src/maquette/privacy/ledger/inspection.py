"""inspect: read and verify a ledger without the table it belongs to; nothing is written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from maquette.errors import LedgerError
from maquette.privacy.ledger import machine, store
from maquette.privacy.ledger.api import Charge, Receipt, protection_text, read_protection
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.places import Place, read_ledger
from maquette.privacy.ledger.replay import Replay
from maquette.privacy.ledger.witnesses import Witnesses

CHARGES = "SELECT seq, facts, content FROM event WHERE kind = 'charge' ORDER BY seq"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The content of a verified ledger: its terms, its sums in units, and every charge, oldest first.

    `unit` and `max_contributions` are those of the ledger's `Terms`.
    """

    schema: str
    relation: str
    unit: str | None
    max_contributions: int
    currency: str
    limit: int
    spent: int
    charges: tuple[Charge, ...]
    receipt: Receipt

    @property
    def protects(self) -> str:
        """The relation with its unit, as the ledger stores it."""
        return protection_text(self.relation, self.unit, self.max_contributions)

    @property
    def by_analyst(self) -> dict[str, int]:
        """Units charged to each analyst."""
        spent: dict[str, int] = {}
        for charge in self.charges:
            spent[charge.analyst] = spent.get(charge.analyst, 0) + charge.units
        return spent


def inspect(path: str | Path | Place, *, key: bytes | None = None, anchor: str | Path | None = None) -> Account:
    """The account of the ledger at `path`; its whole chain is checked with its key. The ledger may be open meanwhile.

    A `Place` can be in PostgreSQL.

    The ledger must hold the event that its head file remembers, and that of its `anchor` if given. Nothing here touches
    rows: a ledger holds public descriptions and released answers.
    """
    from maquette.privacy.ledger.files import Anchor, check_place
    from maquette.privacy.ledger.head import Head

    place = path if isinstance(path, Place) else Place(str(path))
    if place.in_postgres:
        replay, rows = read_ledger(place, None if anchor is None else Path(anchor))
        return _account(((seq, facts, content) for seq, kind, facts, content, _ in rows if kind == "charge"), replay)
    home = place.path
    if not home.is_file():
        raise LedgerError(
            f"there is no ledger at {place.where!r}", advice="give the file that the curator was opened with"
        )
    check_place(home)
    chain = place.chain() if key is None else Chain(key)
    try:
        witnesses = Witnesses.read(Head(home, chain), Anchor(Path(anchor)) if anchor else None)
        with closing(sqlite3.connect(f"{home.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            replay = witnesses.verify(connection, chain)
            return _account(connection.execute(CHARGES), replay)
    except (OSError, *store.BROKEN) as failure:
        raise store.explain(failure) from None


def _account(events: Iterable[tuple[int, str, bytes]], replay: Replay) -> Account:
    charges = []
    for seq, facts, description in events:
        id, analyst, digest, units, *_ = charged = json.loads(facts)  # noqa: A001
        left = machine.left(replay, charged)
        state = machine.state(seq, replay.requests[id][1], replay.boot, left=left)
        charges.append(Charge(seq, id, analyst, digest, units, state, description.decode()))
    limit, spent = replay.budgets[machine.TABLE_SCOPE]
    relation, unit, rows = read_protection(replay.terms["relation"])
    return Account(
        schema=replay.terms["schema"],
        relation=relation,
        unit=unit,
        max_contributions=rows,
        currency=replay.terms["currency"],
        limit=limit,
        spent=spent,
        charges=tuple(charges),
        receipt=replay.receipt,
    )
