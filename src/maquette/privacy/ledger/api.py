"""The ledger's contract: every access to rows is charged before it happens, and its answer is recorded before release.

A door of the curator calls `reserve` (durable charge), evaluates, draws noise, calls `commit` (durable answer), and
only then returns the answer. A crash can waste a charge, but it cannot leak; a repeated request gets the recorded
bytes. Amounts are integers, so no floating-point sum decides whether a charge is within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from maquette.errors import BudgetError, RequestBusy
from maquette.privacy.ledger.description import Description
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE

if TYPE_CHECKING:
    from maquette.privacy.relation import Kind

State = Literal["reserved", "answered", "lost"]


def check_units(what: str, units: int) -> None:
    """Refuse an amount that is not an integer in 0..MAX_UNITS."""
    if type(units) is not int or not 0 <= units <= MAX_UNITS:
        raise BudgetError(
            f"the {what} is {units!r} units",
            expected=f"an integer from 0 to {MAX_UNITS} (1 of epsilon, rho or mu squared is {UNITS_PER_ONE} units)",
            advice="Choose an amount in that range",
        )


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a ledger is bound to when it is created; every later opening must bring the same terms.

    `table` is a hex digest of the data. The plain digest of a small table would allow guessing, so it is kept out of
    `repr`, and a ledger stores and shows it only as a MAC under its key. `unit` is the column that names the privacy
    units, None if every row is one; a unit has at most `max_contributions` rows.
    """

    table: str = field(repr=False)
    schema: str
    relation: Kind
    unit: str | None = None
    max_contributions: int = 1
    currency: str
    limit: int

    def __post_init__(self) -> None:
        check_units("limit", self.limit)

    @property
    def protects(self) -> str:
        """The relation with its unit, as ledgers store it."""
        return protection_text(self.relation, self.unit, self.max_contributions)

    @property
    def facts(self) -> dict[str, Any]:
        """The terms as a ledger stores them."""
        return {
            "table": self.table,
            "schema": self.schema,
            "relation": self.protects,
            "currency": self.currency,
            "limit": self.limit,
        }


def protection_text(relation: str, unit: str | None, max_contributions: int) -> str:
    """Relation, unit and its maximum rows as one text, signed by the ledger's chain; the format of version 0.1."""
    return f"{relation}, unit={unit or 'row'}, max_contributions={max_contributions}"


def read_protection(text: str) -> tuple[str, str | None, int]:
    """The relation, the unit and its maximum rows, read from what `protection_text` wrote.

    A column named "row" is stored in the same way as no column, and is read as None.
    """
    relation, _, rest = text.partition(", unit=")
    unit, _, rows = rest.rpartition(", max_contributions=")  # the name may contain commas, the number cannot
    return relation, None if unit in ("", "row") else unit, int(rows) if rows.isdecimal() else 1


@dataclass(frozen=True, kw_only=True)
class Request:
    """One access to be charged: analyst, question and units.

    `digest` identifies the canonical question; `description` is public JSON text for people and certificates. With
    `guard`, the id of an open guard, the request also takes one of that guard's hits.
    """

    id: str
    analyst: str
    digest: str
    units: int
    description: str
    guard: str | None = None

    def __post_init__(self) -> None:
        check_units("charge", self.units)


@dataclass(frozen=True)
class Receipt:
    """A place in the chain: an event's number and its MAC, which fixes every event up to it."""

    seq: int
    head: str


@dataclass(frozen=True)
class Ticket:
    """A durable reservation: its holder may evaluate the request once and then commit the answer."""

    request: Request
    seq: int


@dataclass(frozen=True)
class Recorded:
    """The recorded answer of the same request: the same bytes, without a charge."""

    answer: bytes = field(repr=False)
    receipt: Receipt


class Overtaken(RequestBusy):
    """Another process has just charged what this one was about to; nothing was charged here. Look, then plan again."""


@dataclass(frozen=True)
class Charge:
    """One line of the account: the charge, its analyst, and the state of its request.

    `description` is the stored JSON text; `described` is the same, parsed.
    """

    seq: int
    id: str
    analyst: str
    digest: str
    units: int
    state: State
    description: str

    @property
    def described(self) -> Description:
        """The parsed description: what was charged."""
        return Description.of(self.description)


@runtime_checkable
class Ledger(Protocol):
    """A durable account of one table's budget. All methods may be called from many threads."""

    @property
    def terms(self) -> Terms:
        """What this ledger is bound to; `table` is the digest under its key."""

    def check(self, terms: Terms) -> None:
        """Raise LedgerMismatch unless this ledger was made for exactly these terms, with the data's plain digest."""

    def reserve(self, request: Request) -> Ticket | Recorded:
        """Charge the request durably, or return its recorded answer.

        Raises BudgetExceeded, GuardSealed (nothing is charged), RequestConflict, RequestBusy, RequestLost or, for a
        withheld request, DeadlineMissed.
        """

    def commit(self, ticket: Ticket, answer: bytes, *, hit: bool = True) -> Receipt:
        """Record the answer durably; only then may it be released. `hit=False` returns the guard's hit."""

    def withhold(self, ticket: Ticket) -> Receipt:
        """Give up the request durably, answered or not: charge and hit are kept, and no answer is ever released."""

    def open_guard(self, id: str, *, hits: int) -> None:  # noqa: A002
        """Open a guard with `hits` hits. It closes forever when the ledger next boots."""

    def hits_left(self, guard: str) -> int:
        """Hits this guard can still take; 0 once it is closed."""

    def limit_analyst(self, analyst: str, units: int) -> None:
        """Give one analyst a separate limit, in addition to the table's."""

    def spent(self, analyst: str | None = None) -> int:
        """Units charged to the table, or to one analyst; reserved and lost requests count."""

    def charges(self) -> Iterator[Charge]:
        """Every charge, oldest first."""

    def lookup(self, id: str) -> Recorded | None:  # noqa: A002
        """The recorded answer of a request, if it has one."""

    def verify(self) -> Receipt:
        """Check the whole chain and recompute every sum and state from it; return its head."""

    def close(self) -> None:
        """Release the ledger; pending requests are finished first."""


@runtime_checkable
class SharedLedger(Ledger, Protocol):
    """A ledger that several processes use at once; each is a member with an epoch, which names its requests."""

    epoch: int

    def charges_since(self, seq: int) -> list[Charge]:
        """The next charges after this event, of all processes, oldest first; a page of them."""

    def unless(self, clash: Callable[[Sequence[Charge]], bool], *, after: int) -> AbstractContextManager[None]:
        """Within the block a new charge of this thread is refused (Overtaken) if those of others since then clash."""

    def settle(self) -> None:
        """End the membership of processes that have died: what they had reserved is lost."""
