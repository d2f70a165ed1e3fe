"""Places: a ledger in a file or in PostgreSQL, read whole, written whole, restored from a copy, given a new key.

Reading verifies everything and changes nothing. Writing keeps the chain, every charge and every answer. What is moved
must be retired: two places with the same events would spend the same budget twice.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import Receipt
from maquette.privacy.ledger.chain import GENESIS, KEY_BYTES, Chain
from maquette.privacy.ledger.files import (
    Anchor,
    Lock,
    beside,
    check_place,
    load_key,
    partial,
    put_in_place,
    settle,
    write_new,
    write_partial,
)
from maquette.privacy.ledger.head import Head
from maquette.privacy.ledger.machine import TABLE_SCOPE
from maquette.privacy.ledger.recovery import ANALYST, Recovery, recover
from maquette.privacy.ledger.replay import Replay, Row, replayed
from maquette.privacy.ledger.verification import verify as verify_database
from maquette.privacy.ledger.witnesses import Witnesses

EVENTS = "SELECT seq, kind, facts, content, mac FROM event ORDER BY seq"


@dataclass(frozen=True)
class Place:
    """Where a ledger is: a file, or `name` in a database at `where` (postgresql://...), with the file of its key."""

    where: str
    name: str | None = None
    key: Path | None = None

    @property
    def in_postgres(self) -> bool:
        """Whether it is in a database."""
        return self.where.startswith(("postgresql:", "postgres:"))

    @property
    def path(self) -> Path:
        """The ledger's file."""
        return Path(self.where).resolve()

    @property
    def key_path(self) -> Path:
        """The file of the key: beside a ledger file, unless another is named."""
        if self.key is not None:
            return self.key.resolve()
        if self.in_postgres:
            raise LedgerError(
                "the key of a ledger in PostgreSQL is not named",
                expected="the file of its key (--key), which is NAME.key in the directory of a service",
            )
        return beside(self.path, ".key")

    @property
    def ledger(self) -> str:
        """The ledger's name in its database."""
        if self.name is None:
            raise LedgerError(
                "the ledger in PostgreSQL is not named", expected="the table's name in the settings (--name)"
            )
        return self.name

    def secret(self) -> bytes:
        """The key."""
        return load_key(self.key_path)

    def chain(self) -> Chain:
        """The chain under the place's key."""
        return Chain(self.secret())


def read_ledger(place: Place, anchor: Path | None = None) -> tuple[Replay, list[Row]]:
    """Verify a ledger, which may be open meanwhile, and return all its events."""
    if place.in_postgres:
        from maquette.privacy.ledger.postgres import read_all

        return read_all(place.where, place.ledger, place.chain(), Anchor(anchor).read() if anchor else None)
    home = place.path
    if not home.is_file():
        raise LedgerError(f"there is no ledger at {place.where!r}")
    check_place(home)
    chain = place.chain()
    try:
        witnesses = Witnesses.read(Head(home, chain), Anchor(anchor) if anchor else None)
        with closing(sqlite3.connect(f"{home.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            replay = witnesses.verify(connection, chain)
            return replay, connection.execute(EVENTS).fetchall()
    except (OSError, *store.BROKEN) as failure:
        raise store.explain(failure) from None


def write_ledger(place: Place, replay: Replay, rows: Sequence[Row], key: bytes) -> None:
    """Write verified events, and the books that follow from them, to a place where there is no ledger yet."""
    if place.in_postgres:
        from maquette.privacy.ledger.postgres import adopt

        adopt(place.where, place.ledger, replay, rows)
        return
    home = place.path
    check_place(home)
    if home.exists():
        raise LedgerError(f"there is a ledger at {place.where!r} already", advice="Name a file that does not exist")
    if not place.key_path.exists():
        write_partial(place.key_path, key)
    with closing(_database(replay, rows)) as connection:
        Head(home, Chain(key)).prepare(store.standing(connection))
        write_new(home, connection.serialize())
    settle(beside(home, ".head"))
    load_key(place.key_path)


@contextmanager
def moving(place: Place) -> Iterator[None]:
    """Own a ledger alone during the block, and retire it at its end: it is renamed, and no program finds it."""
    if place.in_postgres:
        from maquette.privacy.ledger.postgres import retired

        with retired(place.where, place.ledger):
            yield
        return
    home = place.path
    with closing(Lock(home, shared=False)) as lock, lock.arrival():
        with closing(sqlite3.connect(home)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield
        for suffix in (".head", ""):
            if (old := beside(home, suffix)).exists():
                old.rename(beside(home, f"{suffix}.moved"))


def restore_ledger(
    copy: tuple[Replay, Sequence[Row]], place: Place, key: bytes, anchor: Path | None = None
) -> Recovery:
    """Bring a copy back as the ledger, after charging everything that may have been spent since it was made.

    Privacy: answers given after the copy was made are not in it. For a file whose head file survived in its place,
    exactly what it remembers is charged. If `anchor` remembers the copy's last event, nothing is missing. Otherwise the
    rest of the budget is charged as lost: recorded answers are found, and no new question can be asked.
    """
    replay, rows = copy
    last = Anchor(anchor).last() if anchor else None
    complete = last is not None and last == replay.receipt
    if not place.in_postgres:
        if place.path.exists():
            raise LedgerError(f"there is a ledger at {place.where!r} already", advice="Move it away first")
        if not place.key_path.exists():
            write_new(place.key_path, key)
        with closing(_database(replay, rows)) as connection:
            if complete and not beside(place.path, ".head").exists():
                Head(place.path, Chain(key)).prepare(store.standing(connection))
            write_new(place.path, connection.serialize())
        return recover(place.path, key=key, anchor=anchor)
    from maquette.privacy.ledger.postgres import adopt

    limit, spent = replay.budgets[TABLE_SCOPE]
    charged = 0 if complete else limit - spent
    extended = list(rows) if complete else _charged(rows, Chain(key), replay, charged)
    if not complete:
        replay = replayed([extended], Chain(key))
    adopt(place.where, place.ledger, replay, extended)
    if anchor is not None:
        Anchor(anchor).replace(replay.receipt)
    return Recovery(
        currency=replay.terms["currency"], charged=charged, spent=spent + charged, limit=limit, receipt=replay.receipt
    )


def rotate_key(place: Place, anchor: Path | None = None) -> Receipt:
    """Give a ledger that nobody has open a new key: the same events, linked and sealed anew. Returns its new head.

    The new key is written first, beside the old one; then all events change in one transaction; then the new key takes
    the old one's place, which is kept as `.old` for backups made under it. After an interruption, rotate again: it goes
    on where it stopped. The part of the key that hides the data's digest stays, since nobody could compute it anew.
    """
    path = place.key_path
    old = load_key(path)
    begun = partial(path).exists()
    if not begun:
        write_partial(path, secrets.token_bytes(KEY_BYTES) + old[-KEY_BYTES:])
    new = partial(path).read_bytes()
    if place.in_postgres:
        from maquette.privacy.ledger.postgres import relink

        receipt = relink(place.where, place.ledger, Chain(old), Chain(new), begun=begun)
    else:
        receipt = _relink_file(place.path, Chain(old), Chain(new), begun=begun)
    if anchor is not None:
        Anchor(anchor).replace(receipt)
    shutil.copy2(path, beside(path, ".old"))
    put_in_place(path)
    return receipt


def linked(rows: Sequence[Row], chain: Chain) -> list[Row]:
    """The same events under another key."""
    previous, again = GENESIS, []
    for seq, kind, facts, content, _ in rows:
        previous = chain.link(previous, seq, kind, facts, content)
        again.append((seq, kind, facts, content, previous))
    return again


def _relink_file(home: Path, old: Chain, new: Chain, *, begun: bool) -> Receipt:
    try:
        with closing(Lock(home, shared=False)) as lock, lock.arrival(), closing(store.connect(home)) as connection:
            head, before = Head(home, new), Head(home, old)
            connection.execute("BEGIN IMMEDIATE")
            try:
                if begun and _verifies(connection, new):
                    _check_resumed(connection, before)
                else:
                    Witnesses.read(before, None).verify(connection, old)
                    rows = connection.execute(EVENTS).fetchall()
                    macs = [(mac, seq) for seq, _, _, _, mac in linked(rows, new)]
                    connection.executemany("UPDATE event SET mac = ? WHERE seq = ?", macs)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            mark = store.standing(connection)
            head.replace(mark)
            return Receipt(mark.seq, mark.head)
    except (OSError, *store.BROKEN) as failure:
        raise store.explain(failure) from None


def _verifies(connection: sqlite3.Connection, chain: Chain) -> bool:
    try:
        verify_database(connection, chain, None)
    except LedgerCorrupted:
        return False
    return True


def _check_resumed(connection: sqlite3.Connection, before: Head) -> None:
    """After an interrupted rotation the head file is still sealed by the old key: the ledger must end where it says."""
    content = before.read()
    known = before.newest(content) if content else None
    standing = store.standing(connection)
    if known is not None and (known.seq, known.spent) != (standing.seq, standing.spent):
        raise LedgerCorrupted(
            f"the ledger ends at event {standing.seq}, and its head file remembers event {known.seq}",
            advice="Put the newest files back in place",
        )


def _database(replay: Replay, rows: Sequence[Row]) -> sqlite3.Connection:
    """The database of a ledger file, in memory."""
    connection = store.connect(None)
    store.create(connection)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)
    books: tuple[tuple[str, int, Mapping[str, tuple[Any, ...]]], ...] = (
        ("request", 3, replay.requests),
        ("budget", 3, replay.budgets),
        ("guard", 4, replay.guards),
    )
    for name, width, book in books:
        places = ", ".join("?" * width)
        connection.executemany(f"INSERT INTO {name} VALUES ({places})", [(key, *kept) for key, kept in book.items()])
    connection.execute("COMMIT")
    return connection


def _charged(rows: Sequence[Row], chain: Chain, replay: Replay, units: int) -> list[Row]:
    """The events with one more: a charge that is never answered; it appears in the books like any other."""
    facts = json.dumps([f"recovery:{secrets.token_hex(8)}", ANALYST, "", units, None], separators=(",", ":"))
    note = "spent, as far as is known, and lost from the ledger"
    content = json.dumps({"door": "recover", "note": note, "covers": []}).encode()
    seq = replay.seq + 1
    return [*rows, (seq, "charge", facts, content, chain.link(replay.head, seq, "charge", facts, content))]
