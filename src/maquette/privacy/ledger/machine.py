"""The rules of every ledger, independent of its storage.

The current books decide an operation: `reserve`, `commit`, `withhold`, `open_guard` and `limit_analyst` return the
entry to append to the chain, or refuse. `follow` applies an appended event to the books. Nothing here reads or writes a
file: the same code applies events in a ledger in use and in the verification of a stored one.

The state of a request is not stored; it follows from the books. It is lost if it was withheld, answered if it has an
answer, reserved if its charge is newer than the last boot and its owner has not left, and otherwise lost.

A ledger that several processes use at once has *members*: a process joins, the number of that event is its epoch, and
its charges and guards carry the epoch as their owner. When it leaves, or is found dead, its reservations are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DeadlineMissed,
    GuardSealed,
    LedgerCorrupted,
    LedgerError,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger.api import Request, State, Ticket
from maquette.privacy.ledger.chain import Kind
from maquette.privacy.units import UNITS_PER_ONE

TABLE_SCOPE = "table"
WITHHELD = 0  # instead of the number of an answer: the request will never have one

Place = tuple[int, int | None]
"""For a request: the event numbers of its charge and of its answer."""
Spending = tuple[int, int]
"""For the table or an analyst: the limit, and the units spent."""
Hits = tuple[int, int, int]
"""For a guard: the event number of its opening, its hits, and the hits used."""
Membership = tuple[int | None]
"""For a member: the event number of its leaving; None while it is one."""
OWNER = 5  # place of the owner in the facts of a charge, which only members write

Key_contra = TypeVar("Key_contra", contravariant=True)
Row = TypeVar("Row")


class Table(Protocol[Key_contra, Row]):
    """Rows by key; a dict is one."""

    def get(self, key: Key_contra, /) -> Row | None:
        """The row of this key, if there is one."""

    def __setitem__(self, key: Key_contra, row: Row, /) -> None:
        """Write the row of this key, new or not."""


class Books(Protocol):
    """The current state after all events, in three tables, so that every check is one look-up."""

    limit: int
    boot: int

    @property
    def requests(self) -> Table[str, Place]:
        """By request id."""

    @property
    def budgets(self) -> Table[str, Spending]:
        """By scope: the table, or one analyst."""

    @property
    def guards(self) -> Table[str, Hits]:
        """By guard id."""

    def facts(self, seq: int) -> Sequence[Any]:
        """The facts of the charge or answer with this event number."""


class SharedBooks(Books, Protocol):
    """The books of a ledger that has, or once had, members."""

    @property
    def members(self) -> Table[int, Membership]:
        """By epoch."""


class Entry(NamedTuple):
    """An entry that an operation adds to the chain."""

    kind: Kind
    facts: Any
    content: bytes = b""


def analyst_scope(analyst: str) -> str:
    """The key of one analyst's budget row; no analyst's name can collide with the table's own row."""
    return f"analyst {analyst}"


def scopes(books: Books, analyst: str) -> tuple[str, ...]:
    """Whose budgets a charge of this analyst takes from: the analyst's, the table's, and that of a limited group.

    The analyst `team/ada` belongs to the group `team/` once that name, with its slash, has been given a limit.
    """
    own = (analyst_scope(analyst), TABLE_SCOPE)
    group, slash, member = analyst.partition("/")
    if slash and member and books.budgets.get(shared := analyst_scope(group + slash)) is not None:
        return (own[0], shared, own[1])
    return own


def spending(books: Books, scope: str) -> Spending:
    """The limit and the units spent; an analyst without a separate limit has the table's."""
    return books.budgets.get(scope) or (books.limit, 0)


def state(charged: int, answered: int | None, boot: int, *, left: bool = False) -> State:
    """The state of a request, from the event numbers of its charge, its answer and the last boot.

    `left`: its owner, a member, is one no more.
    """
    if answered is not None:
        return "lost" if answered == WITHHELD else "answered"
    return "reserved" if charged > boot and not left else "lost"


def left(books: Books, charge: Sequence[Any]) -> bool:
    """Whether the owner of a charge, given by its facts, was a member and is one no more."""
    return len(charge) > OWNER and not is_member(books, charge[OWNER])


def is_member(books: Books, epoch: int) -> bool:
    """Whether the process with this epoch may still write."""
    found = cast(SharedBooks, books).members.get(epoch)
    return epoch > books.boot and found is not None and found[0] is None


def reserve(books: Books, request: Request, currency: str, owner: int | None = None) -> Entry | int:
    """The charge of a new request, or the event number of the answer if it was already answered."""
    for text in (request.id, request.analyst, request.guard or ""):
        text.encode()  # text that cannot be encoded cannot be stored
    if known := books.requests.get(request.id):
        return _answer_of(books, request, *known)
    for scope in scopes(books, request.analyst):
        _check_budget(books, scope, request.units, currency)
    if request.guard is not None:
        _check_guard(books, request.guard, owner)
    facts = [request.id, request.analyst, request.digest, request.units, request.guard, *_signed(owner)]
    return Entry("charge", facts, request.description.encode())


def commit(books: Books, ticket: Ticket, answer: bytes, *, hit: bool) -> Entry:
    """The answer of a reserved request."""
    charged, answered = books.requests.get(ticket.request.id) or (None, None)
    if charged != ticket.seq or state(ticket.seq, answered, books.boot) != "reserved":
        raise LedgerError(
            f"request {ticket.request.id!r} is not waiting for an answer: it has one already, or its reservation is "
            "from before the last boot",
            advice="Commit each ticket once, in the session that reserved it",
        )
    return Entry("answer", [ticket.seq, hit], answer)


def withhold(books: Books, ticket: Ticket) -> Entry:
    """The end of a request reserved since the last boot, answered or not.

    Without an answer the guard's hit stays taken; if an answer returned the hit, it is taken again.
    """
    request = ticket.request
    charged, answered = books.requests.get(request.id) or (None, None)
    old = ticket.seq <= books.boot
    if old or charged != ticket.seq or state(ticket.seq, answered, books.boot) == "lost":
        raise LedgerError(
            f"request {request.id!r} is lost already, or from before the last boot",
            advice="Withhold each ticket once, in the session that reserved it",
        )
    hits, used = 0, 0
    if request.guard is not None and answered is not None and not books.facts(answered)[1]:
        _, hits, used = books.guards.get(request.guard) or (0, 0, 0)
    return Entry("withheld", [ticket.seq, used < hits])


def open_guard(books: Books, id: str, hits: int, owner: int | None = None) -> Entry:  # noqa: A002
    """The opening of a guard under a fresh id."""
    if books.guards.get(id):
        raise RequestConflict(f"guard id {id!r} was used before", advice="Open each guard under a fresh id")
    return Entry("guard", [id, hits, *_signed(owner)])


def leave(books: Books, epoch: int) -> Entry | None:
    """The end of a membership: what its process has reserved is lost; None if it has ended already."""
    return Entry("left", [epoch]) if is_member(books, epoch) else None


def hits_left(books: Books, guard: str, owner: int | None = None) -> int:
    """Hits this guard can still take; 0 once it is closed, and for every member but its owner."""
    found = books.guards.get(guard)
    if found is None:
        raise LedgerError(f"there is no guard {guard!r}", advice="Open it first")
    opened, hits, used = found
    return hits - used if _is_open(books, opened, owner) else 0


def limit_analyst(books: Books, analyst: str, units: int) -> Entry | None:
    """A new limit for one analyst; None if the limit does not change."""
    limit, spent = spending(books, analyst_scope(analyst))
    if units < spent:
        raise BudgetError(
            f"analyst {analyst!r} has spent {spent} units, more than the limit of {units}",
            advice=f"the limit stays {limit}. To let them spend nothing more, set it to {spent}.",
        )
    return Entry("limit", [analyst, units]) if units != limit else None


def _answer_of(books: Books, request: Request, charged: int, answered: int | None) -> int:
    facts = books.facts(charged)
    _, analyst, digest, *_ = facts
    if (analyst, digest) != (request.analyst, request.digest):
        raise RequestConflict(
            f"request id {request.id!r} was used before by another analyst or for another question",
            advice="nothing was charged. Use a fresh id for each question.",
        )
    if answered == WITHHELD:
        raise DeadlineMissed
    if state(charged, answered, books.boot, left=left(books, facts)) == "lost":
        raise RequestLost(
            f"request {request.id!r} was charged and then interrupted",
            advice="its charge is kept and it is never evaluated again. Ask under a fresh id, which is charged anew.",
        )
    if answered is None:
        raise RequestBusy(
            f"request {request.id!r} is being evaluated",
            advice="nothing more was charged. Ask again later, under the same id.",
        )
    return answered


def _check_budget(books: Books, scope: str, units: int, currency: str) -> None:
    limit, spent = spending(books, scope)
    if units <= limit - spent:
        return
    requested, remaining = units / UNITS_PER_ONE, (limit - spent) / UNITS_PER_ONE
    difference = (units - limit + spent) / UNITS_PER_ONE
    raise BudgetExceeded(
        f"the {scope} budget cannot pay: requested {requested:.6g}, remaining {remaining:.6g}, short by "
        f"{difference:.6g} ({currency})",
        advice="nothing was charged. Ask for at most what remains.",
        requested=requested,
        remaining=remaining,
    )


def _signed(owner: int | None) -> tuple[int, ...]:
    return () if owner is None else (owner,)


def _is_open(books: Books, opened: int, owner: int | None) -> bool:
    """Whether a guard is open here: its threshold is known to the process that opened it alone."""
    return opened > books.boot and (owner is None or books.facts(opened)[2] == owner)


def _check_guard(books: Books, guard: str, owner: int | None) -> None:
    opened, hits, used = books.guards.get(guard) or (0, 0, 0)
    if used >= hits or not _is_open(books, opened, owner):
        raise GuardSealed(
            f"guard {guard!r} takes no more hits: all are used, or it was closed by a restart",
            advice="nothing was charged. Open a new guard, which is charged anew, or go on without one.",
        )


def follow(books: Books, seq: int, kind: str, facts: Any) -> None:
    """Apply one event of the chain to the books."""
    if kind == "charge":
        _charged(books, seq, facts)
    elif kind == "answer":
        _answered(books, seq, *facts)
    elif kind == "withheld":
        _withheld(books, *facts)
    elif kind == "boot":
        books.boot = seq
    elif kind == "guard":
        books.guards[facts[0]] = (seq, facts[1], 0)
    elif kind == "join":
        cast(SharedBooks, books).members[seq] = (None,)
    elif kind == "left":
        cast(SharedBooks, books).members[facts[0]] = (seq,)
    elif kind == "limit":
        scope = analyst_scope(facts[0])
        books.budgets[scope] = (facts[1], spending(books, scope)[1])
    elif kind == "terms" and books.budgets.get(TABLE_SCOPE) is None:
        books.budgets[TABLE_SCOPE] = (facts["limit"], 0)


def _charged(books: Books, seq: int, facts: Sequence[Any]) -> None:
    id, analyst, _, units, guard, *_ = facts  # noqa: A001
    for scope in scopes(books, analyst):
        _spend(books, scope, units)
    if guard is not None:
        _use_hits(books, guard, 1)
    books.requests[id] = (seq, None)


def _answered(books: Books, seq: int, charged: int, hit: bool) -> None:
    id, _, _, _, guard, *_ = books.facts(charged)  # noqa: A001
    books.requests[id] = (charged, seq)
    if guard is not None and not hit:
        _use_hits(books, guard, -1)


def _withheld(books: Books, charged: int, hit_again: bool) -> None:
    id, _, _, _, guard, *_ = books.facts(charged)  # noqa: A001
    books.requests[id] = (charged, WITHHELD)
    if guard is not None and hit_again:
        _use_hits(books, guard, 1)


def _spend(books: Books, scope: str, units: int) -> None:
    limit, spent = spending(books, scope)
    if not 0 <= spent + units <= limit:
        raise _impossible(f"spends {spent + units} units of the {scope} limit of {limit}")
    books.budgets[scope] = (limit, spent + units)


def _use_hits(books: Books, guard: str, more: int) -> None:
    opened, hits, used = books.guards.get(guard) or (0, -1, 0)
    if not 0 <= used + more <= hits:
        raise _impossible(f"uses {used + more} of {max(hits, 0)} hits of guard {guard!r}")
    books.guards[guard] = (opened, hits, used + more)


def _impossible(what: str) -> LedgerCorrupted:
    """The error for an impossible event. A second line of defence: no operation above creates such an event."""
    return LedgerCorrupted(f"an event {what}", advice="Restore the ledger from a backup that verifies")
