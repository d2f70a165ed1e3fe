"""recover: continue with a ledger after a loss, once everything that may have been spent is charged."""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.chain import Chain
from maquette.privacy.ledger.description import Description
from maquette.privacy.ledger.machine import TABLE_SCOPE, Entry
from maquette.privacy.ledger.replay import FORMAT, Replay
from maquette.privacy.ledger.verification import verify

if TYPE_CHECKING:
    from maquette.privacy.ledger.files import Anchor
    from maquette.privacy.ledger.head import Head
    from maquette.privacy.ledger.store import Mark

ANALYST = "lost before a recovery"


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """The result of a recovery, in units: `charged` as lost, and then `spent` of `limit`."""

    currency: str
    charged: int
    spent: int
    limit: int
    receipt: Receipt


def recover(
    path: str | Path,
    *,
    key: bytes | None = None,
    key_path: str | Path | None = None,
    anchor: str | Path | None = None,
) -> Recovery:
    """Accept the ledger at `path` in its present state, although its head file or `anchor` remembers later events.

    It must not be open elsewhere, and its chain must verify: a changed database is not accepted. A ledger that lacks
    nothing is left unchanged.

    Privacy: spending that the ledger no longer knows of is charged first. If the head file is intact and the anchor is
    not ahead of it, the amount is known: the head file remembers what was spent when the last answer was returned.
    Otherwise the rest of the budget is charged: recorded answers are still found, but no new question can be asked. An
    answer that is no longer in the ledger is charged again if it is asked again.
    """
    from maquette.privacy.ledger.files import Anchor, Lock, beside, check_place, load_key, settle
    from maquette.privacy.ledger.head import Head

    home = Path(path).resolve()
    if not home.is_file():
        raise LedgerError(
            f"there is no ledger at {str(path)!r}", advice="give the file that the curator was opened with"
        )
    check_place(home)
    anchoring = Anchor(Path(anchor)) if anchor else None
    try:
        with closing(Lock(home, shared=False)) as lock, lock.arrival():
            settle(beside(home, ".head"))
            chain = Chain(load_key(Path(key_path) if key_path else beside(home, ".key")) if key is None else key)
            with closing(store.connect(home)) as connection:
                return _recover(connection, chain, Head(home, chain), anchoring)
    except (OSError, *store.BROKEN) as failure:
        raise store.explain(failure) from None


def _recover(connection: sqlite3.Connection, chain: Chain, head: Head, anchor: Anchor | None) -> Recovery:
    connection.execute("BEGIN IMMEDIATE")
    try:
        replay = verify(connection, chain, None)
        content = head.read()
        known = head.newest(content) if content else None
        torn = content is not None and head.torn(content)  # a torn record may have remembered a later event
        anchored = anchor.last() if anchor else None
        missing = _missing(connection, replay, known, anchored, torn=torn, headless=content is None)
        if missing is not None:
            _charge(connection, chain, replay, missing, [place.head for place in (known, anchored) if place])
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    mark = store.standing(connection)
    if missing is not None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if anchor:
            anchor.replace(Receipt(mark.seq, mark.head))
        head.replace(mark)  # last: until then the ledger is refused, and a second recovery charges nothing more
    return Recovery(
        currency=replay.terms["currency"],
        charged=missing or 0,
        spent=mark.spent,
        limit=replay.terms["limit"],
        receipt=Receipt(mark.seq, mark.head),
    )


def _missing(
    connection: sqlite3.Connection,
    replay: Replay,
    known: Mark | None,
    anchored: Receipt | None,
    *,
    torn: bool,
    headless: bool,
) -> int | None:
    """The units that were or may have been spent and that the ledger does not know of; None if it lacks nothing."""
    limit, spent = replay.budgets[TABLE_SCOPE]
    foreign = None if anchored is None or store.holds(connection, anchored.seq, anchored.head) else anchored
    if known and store.holds(connection, known.seq, known.head) and not (torn and known.seq == replay.seq):
        return None if foreign is None else limit - spent
    if known and not torn:
        if _covered(connection, known, foreign):
            return 0
        if spent <= known.spent and not _unknown(replay, known, foreign):
            return known.spent - spent
    if headless and not replay.headed and replay.boot:
        raise LedgerCorrupted(
            "this is a ledger of version 0.1, which has no head file yet and lacks nothing that could be noticed",
            advice="Open it as usual: it gets its head file then",
        )
    return limit - spent


def _unknown(replay: Replay, known: Mark, foreign: Receipt | None) -> bool:
    """Whether answers may have been returned after `known`. The chain lacks `known` and the anchor's event `foreign`.

    An anchor ahead of the head file remembers more. Two different events with one number come from two copies that
    continued separately; neither counts what the other spent.
    """
    if known.seq <= replay.seq:
        return True
    if foreign is None:
        return False
    differs = foreign.seq == known.seq and foreign.head != known.head
    return foreign.seq > known.seq or foreign.seq <= replay.seq or differs


def _covered(connection: sqlite3.Connection, known: Mark, foreign: Receipt | None) -> bool:
    """Whether a recovery, perhaps interrupted before it replaced the head file, already charged for these events."""
    query = "SELECT content FROM event WHERE kind = 'charge' AND json_extract(facts, '$[1]') = ?"
    described = [Description.of(content) for (content,) in connection.execute(query, (ANALYST,))]
    wanted = {place.head for place in (known, foreign) if place}
    return any(each.door == "recover" and wanted <= set(each.facts["covers"]) for each in described)


def _charge(connection: sqlite3.Connection, chain: Chain, replay: Replay, units: int, covers: list[str]) -> None:
    """Append one charge that is never answered; it appears in the books like any other.

    It `covers` the events that the head file and the anchor remember.
    """
    storage = store.SqliteStorage(connection, limit=replay.terms["limit"], boot=replay.boot)
    book = Book(storage, chain, replay.terms["currency"])
    if not replay.headed:
        book.add(Entry("terms", {**replay.terms, "format": FORMAT}))
    id = f"recovery:{secrets.token_hex(8)}"  # noqa: A001
    note = "spent, as far as is known, and lost from the ledger"
    description = json.dumps({"door": "recover", "note": note, "covers": covers})
    book.add(Entry("charge", [id, ANALYST, "", units, None], description.encode()))
    book.add(Entry("boot", []))
