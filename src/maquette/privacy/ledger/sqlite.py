"""The ledger in one SQLite database, on disk or in memory: the same code, the same checks."""

from __future__ import annotations

import html
import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DeadlineMissed,
    GuardSealed,
    LedgerError,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import store
from maquette.privacy.ledger.api import (
    Charge,
    Receipt,
    Recorded,
    Request,
    State,
    Terms,
    Ticket,
    check_units,
)
from maquette.privacy.ledger.home import Home, in_memory, keyed, on_disk
from maquette.privacy.ledger.writer import Writer
from maquette.privacy.units import UNITS_PER_ONE

PAGE = 1_000


class SqliteLedger:
    """A ledger at `path`, or in memory when it is None.

    Privacy: it enforces `terms.limit` as a filter, in integers: the charge that would pass the limit is refused before
    any row is read. A charge is durable before its ticket is given, an answer before its receipt is. Opening verifies
    everything, then turns what a crash left reserved into lost charges, which are never evaluated again.

    The key (default: a file beside the ledger, made with it) should live elsewhere than the backups. A head file beside
    the ledger is written with every commit and betrays a lost log or an older copy; `anchor`, a file best on another
    disk, also betrays an older copy restored together with its head file. `recover` is the way on after such a loss.
    One process owns the ledger, or with `shared=True` several; then a boot, and its sweep, happens only when nobody
    else has it open.
    """

    def __init__(
        self,
        path: str | Path | None,
        terms: Terms,
        *,
        key: bytes | None = None,
        key_path: str | Path | None = None,
        anchor: str | Path | None = None,
        shared: bool = False,
    ) -> None:
        self._path = path
        try:
            self._home = self._open(
                terms,
                key=key,
                key_path=Path(key_path) if key_path else None,
                anchor=Path(anchor) if anchor else None,
                shared=shared,
            )
        except (*store.BROKEN, OSError) as failure:
            cause = store.explain(failure)
            raise type(cause)(f"the ledger {path} cannot be opened: {cause}") from failure
        self.terms = keyed(terms, self._home.chain)
        self._writer = Writer(self._home.transaction, threaded=path is not None)

    def _open(
        self, terms: Terms, *, key: bytes | None, key_path: Path | None, anchor: Path | None, shared: bool
    ) -> Home:
        if self._path is None:
            if anchor is not None or key_path is not None or shared:
                raise LedgerError(
                    "an anchor, a key file and sharing are for a ledger on disk, and no ledger file was named",
                    advice="nothing "
                    "was opened. Name the ledger's file, or leave these settings out: a ledger in memory is forgotten "
                    "with its process.",
                )
            return in_memory(terms, key)
        return on_disk(Path(self._path), terms, key=key, key_path=key_path, anchor=anchor, shared=shared)

    def __repr__(self) -> str:
        where = "memory" if self._path is None else str(self._path)
        return f"SqliteLedger({where!r}, {self.terms.currency}, limit {self.terms.limit / UNITS_PER_ONE:g})"

    def _repr_html_(self) -> str:
        spent = self.spent()
        facts = {
            "kept in": "memory" if self._path is None else str(self._path),
            "protects": self.terms.protects,
            "accounting": self.terms.currency,
            "spent": f"{spent / UNITS_PER_ONE:.4g} of {self.terms.limit / UNITS_PER_ONE:.4g}",
            "charges": f"{sum(1 for _ in self.charges()):,}",
        }
        rows = "".join(f"<tr><th>{word}</th><td>{html.escape(fact)}</td></tr>" for word, fact in facts.items())
        return f"<table><caption>Ledger</caption>{rows}</table>"

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request durably, or return what it was answered before."""
        return self._writer.run(partial(self._reserve, request=request))

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool = True) -> Receipt:
        """Record the answer durably; only then may it be released."""
        return self._writer.run(partial(self._commit, ticket=ticket, answer=answer, hit=hit))

    def withhold(self, ticket: Ticket) -> Receipt:
        """Give the request up durably, answered or not: nobody is ever told an answer."""
        return self._writer.run(partial(self._withhold, ticket=ticket))

    def open_guard(self, id: str, *, hits: int) -> None:  # noqa: A002
        """Open a guard with so many hits; it closes for ever when the ledger next boots."""
        check_units("number of hits", hits)
        self._writer.run(partial(self._open_guard, id=id, hits=hits))

    def hits_left(self, guard: str) -> int:
        """Hits this guard can still take: none once it is closed."""
        return self._writer.run(partial(self._hits_left, guard=guard))

    def limit_analyst(self, analyst: str, units: int) -> None:
        """Give one analyst a limit of their own, under the table's."""
        check_units(f"limit of analyst {analyst!r}", units)
        self._writer.run(partial(self._limit_analyst, analyst=analyst, units=units))

    def spent(self, analyst: str | None = None) -> int:
        """Units charged to the table, or to one analyst; reserved and lost requests count."""
        scope = store.TABLE_SCOPE if analyst is None else store.analyst_scope(analyst)
        return self._writer.look(partial(self._account, scope=scope), self._home.reading)[1]

    def charges(self) -> Iterator[Charge]:
        """Every charge, oldest first, read page by page so that nobody waits for the whole list."""
        last = 0
        while page := self._writer.run(partial(self._page, after=last)):
            yield from page
            last = page[-1].seq

    def lookup(self, id: str) -> Recorded | None:  # noqa: A002
        """The recorded answer of a request, if it has one."""
        return self._writer.run(partial(self._lookup, id=id))

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""
        return self._writer.run(self._home.verify)

    def close(self) -> None:
        """Release the ledger; pending requests are finished first."""
        self._writer.close()
        if self._writer.inherited:
            self._home.leave()
        else:
            self._home.close()

    def _reserve(self, connection: sqlite3.Connection, request: Request) -> Ticket | Recorded:
        if known := _find(connection, request.id):
            return self._replay(connection, request, *known)
        for scope in (store.analyst_scope(request.analyst), store.TABLE_SCOPE):
            self._charge(connection, scope, request.units)
        if request.guard is not None:
            self._take_hit(connection, request.guard)
        facts = [request.id, request.analyst, request.digest, request.units, request.guard]
        receipt = store.append(connection, self._home.chain, "charge", facts, request.description.encode())
        connection.execute("INSERT INTO request VALUES (?, ?, NULL)", (request.id, receipt.seq))
        return Ticket(request, receipt.seq)

    def _replay(self, connection: sqlite3.Connection, request: Request, charged: int, answered: int | None) -> Recorded:
        _, analyst, digest, *_ = json.loads(store.event(connection, charged).facts)
        if (analyst, digest) != (request.analyst, request.digest):
            raise RequestConflict(
                f"request id {request.id!r} was used before by another analyst or for another question",
                advice="nothing was charged. Use a fresh id for each question.",
            )
        if answered == store.WITHHELD:
            raise DeadlineMissed
        if self._state(charged, answered) == "lost":
            raise RequestLost(
                f"request {request.id!r} was charged and then interrupted",
                advice="its charge is kept and it is never "
                "evaluated again. Ask under a fresh id, which is charged anew.",
            )
        if answered is None:
            raise RequestBusy(
                f"request {request.id!r} is being evaluated",
                advice="nothing more was charged. Ask again later, under the same id.",
            )
        return _recorded(connection, answered)

    def _state(self, charged: int, answered: int | None) -> State:
        return store.state(charged, answered, self._home.boot_seq)

    def _charge(self, connection: sqlite3.Connection, scope: str, units: int) -> None:
        connection.execute("INSERT INTO budget VALUES (?, ?, 0) ON CONFLICT DO NOTHING", (scope, self.terms.limit))
        # Subtracting from the limit cannot overflow, as adding to what is spent could.
        guarded = 'UPDATE budget SET spent = spent + ? WHERE scope = ? AND spent <= "limit" - ?'
        if store.guarded_update(connection, guarded, (units, scope, units)):
            return
        limit, spent = self._account(connection, scope)
        requested, remaining = units / UNITS_PER_ONE, (limit - spent) / UNITS_PER_ONE
        difference = (units - limit + spent) / UNITS_PER_ONE
        raise BudgetExceeded(
            f"the {scope} budget cannot pay: requested {requested:.6g}, remaining {remaining:.6g}, short by "
            f"{difference:.6g} ({self.terms.currency})",
            advice="nothing was charged. Ask for at most what remains.",
            requested=requested,
            remaining=remaining,
        )

    def _account(self, connection: sqlite3.Connection, scope: str) -> tuple[int, int]:
        """An account's limit and what it spent; analysts without a limit of their own have the table's."""
        row = connection.execute('SELECT "limit", spent FROM budget WHERE scope = ?', (scope,)).fetchone()
        return row or (self.terms.limit, 0)

    def _limit_analyst(self, connection: sqlite3.Connection, analyst: str, units: int) -> None:
        scope = store.analyst_scope(analyst)
        limit, spent = self._account(connection, scope)
        if units < spent:
            raise BudgetError(
                f"analyst {analyst!r} has spent {spent} units, more than the limit of {units}",
                advice=f"the limit stays {limit}. To let them spend nothing more, set it to {spent}.",
            )
        upsert = 'INSERT INTO budget VALUES (?, ?, 0) ON CONFLICT DO UPDATE SET "limit" = excluded."limit"'
        if units != limit:
            store.append(connection, self._home.chain, "limit", [analyst, units])
            connection.execute(upsert, (scope, units))

    def _open_guard(self, connection: sqlite3.Connection, id: str, hits: int) -> None:  # noqa: A002
        if connection.execute("SELECT 1 FROM guard WHERE id = ?", (id,)).fetchone():
            raise RequestConflict(f"guard id {id!r} was used before", advice="Open each guard under a fresh id")
        receipt = store.append(connection, self._home.chain, "guard", [id, hits])
        connection.execute("INSERT INTO guard VALUES (?, ?, ?, 0)", (id, receipt.seq, hits))

    def _take_hit(self, connection: sqlite3.Connection, guard: str) -> None:
        guarded = "UPDATE guard SET used = used + 1 WHERE id = ? AND opened > ? AND used < hits"
        if not store.guarded_update(connection, guarded, (guard, self._home.boot_seq)):
            raise GuardSealed(
                f"guard {guard!r} takes no more hits: all are used, or it was closed by a restart",
                advice="nothing was charged. Open a new guard, which is charged anew, or go on without one.",
            )

    def _hits_left(self, connection: sqlite3.Connection, guard: str) -> int:
        row = connection.execute("SELECT opened, hits - used FROM guard WHERE id = ?", (guard,)).fetchone()
        if row is None:
            raise LedgerError(f"there is no guard {guard!r}", advice="Open it first")
        opened, left = row
        return left if opened > self._home.boot_seq else 0

    def _commit(self, connection: sqlite3.Connection, ticket: Ticket, answer: bytes, hit: bool) -> Receipt:
        request = ticket.request
        charged, answered = _find(connection, request.id) or (None, None)
        if charged != ticket.seq or self._state(ticket.seq, answered) != "reserved":
            raise LedgerError(
                f"request {request.id!r} is not waiting for an answer: it has one already, or its reservation is from "
                "before the last boot",
                advice="Commit each ticket once, in the session that reserved it",
            )
        receipt = store.append(connection, self._home.chain, "answer", [ticket.seq, hit], answer)
        connection.execute("UPDATE request SET answered = ? WHERE id = ?", (receipt.seq, request.id))
        if request.guard is not None and not hit:
            connection.execute("UPDATE guard SET used = used - 1 WHERE id = ?", (request.guard,))
        return receipt

    def _withhold(self, connection: sqlite3.Connection, ticket: Ticket) -> Receipt:
        """Without an answer the guard's hit is still taken; where an answer gave it back, it is taken again."""
        request = ticket.request
        charged, answered = _find(connection, request.id) or (None, None)
        old = ticket.seq <= self._home.boot_seq
        if old or charged != ticket.seq or self._state(ticket.seq, answered) == "lost":
            raise LedgerError(
                f"request {request.id!r} is lost already, or from before the last boot",
                advice="Withhold each ticket once, in the session that reserved it",
            )
        again = "UPDATE guard SET used = used + 1 WHERE id = ? AND used < hits"
        returned = request.guard is not None and answered is not None and not _was_hit(connection, answered)
        hit_again = returned and store.guarded_update(connection, again, (request.guard,))
        receipt = store.append(connection, self._home.chain, "withheld", [ticket.seq, hit_again])
        connection.execute("UPDATE request SET answered = ? WHERE id = ?", (store.WITHHELD, request.id))
        return receipt

    def _lookup(self, connection: sqlite3.Connection, id: str) -> Recorded | None:  # noqa: A002
        _, answered = _find(connection, id) or (None, None)
        return _recorded(connection, answered) if answered else None

    def _page(self, connection: sqlite3.Connection, after: int) -> list[Charge]:
        query = "SELECT seq, facts, content FROM event WHERE seq > ? AND kind = 'charge' ORDER BY seq LIMIT ?"
        page = []
        for seq, facts, description in connection.execute(query, (after, PAGE)).fetchall():
            id, analyst, digest, units, _ = json.loads(facts)  # noqa: A001
            charged, answered = _find(connection, id) or (seq, None)
            state = self._state(charged, answered)
            page.append(Charge(seq, id, analyst, digest, units, state, description.decode()))
        return page


def _find(connection: sqlite3.Connection, id: str) -> tuple[int, int | None] | None:  # noqa: A002
    """The numbers of a request's charge and of its answer."""
    found: tuple[int, int | None] | None = connection.execute(
        "SELECT charged, answered FROM request WHERE id = ?", (id,)
    ).fetchone()
    return found


def _was_hit(connection: sqlite3.Connection, answered: int) -> bool:
    _, hit = json.loads(store.event(connection, answered).facts)
    return bool(hit)


def _recorded(connection: sqlite3.Connection, answered: int) -> Recorded:
    event = store.event(connection, answered)
    return Recorded(event.content, Receipt(event.seq, event.mac.hex()))
