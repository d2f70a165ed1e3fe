"""Account: what one piece of work charges, apart from everything else that is asked of the same table meanwhile.

`with curator.account("monthly report") as account:` opens one. Every charge that a door makes inside the block is an
entry of the account. Inside means this context (`contextvars`): another thread, or an asyncio task that was started
before the block, charges to accounts of its own. What runs in a copy of the context (an asyncio task started in the
block, `asyncio.to_thread`) is inside for as long as the block is open. Accounts nest: a charge is an entry of each
account it is inside of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from maquette.errors import LedgerError
from maquette.privacy import Loss
from maquette.privacy.ledger import Charge, Description, Request

Outcome = Literal["charged", "replayed", "refused"]
_State = Literal["pending", "charged", "replayed"]


@dataclass(frozen=True)
class AccountEntry:
    """One request of an account: what it cost, and whether it was charged here.

    `new` is False where nothing more was charged: a recorded answer was given again, or a guard was tested that had
    been paid for before. `description` is the public JSON text that the ledger keeps with the charge.
    """

    request: str
    analyst: str
    units: int
    description: str
    new: bool

    @property
    def described(self) -> Description:
        """What was charged for."""
        return Description.of(self.description)


class ScopedAccount:
    """The requests of one `with curator.account(purpose)` block, in the order in which they were first asked.

    `units` and `loss` count everything that the block relied on, each request once, recorded answers included: that is
    what publishing the result of the block reveals. `charged_units` and `charged_loss` count only what was charged in
    the block. What refused to answer and charged nothing is no entry. An interrupted charge counts if it is on the
    ledger, or if the ledger cannot say. Numbers that the block kept from an earlier one, without asking a door, are not
    seen.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Boolean("smoker")])
    >>> curator = mq.Curator(mq.open_table({"smoker": [True, False]}, schema), mq.Budget(epsilon=1.0))
    >>> with curator.account("smokers") as account:
    ...     _ = curator.measure(["smoker"], epsilon=0.25)
    >>> _ = curator.measure(["smoker"], epsilon=0.5)
    >>> account.loss.epsilon, len(account.entries)
    (0.25, 1)
    """

    def __init__(self, purpose: str, owner: Accounts, loss: Callable[[int], Loss]) -> None:
        self.purpose = purpose
        self.owner = owner
        self.open = True
        self._loss = loss
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Request, _State]] = {}

    @property
    def entries(self) -> tuple[AccountEntry, ...]:
        """Every request that counts, oldest first."""
        with self._lock:
            kept = list(self._kept.values())
        pending = {asked.id for asked, state in kept if state == "pending"}
        missing = pending - self.owner.on_ledger(pending) if pending else pending
        return tuple(
            AccountEntry(asked.id, asked.analyst, asked.units, asked.description, state != "replayed")
            for asked, state in kept
            if asked.id not in missing
        )

    @property
    def units(self) -> int:
        """Ledger units of everything the block relied on."""
        return sum(entry.units for entry in self.entries)

    @property
    def loss(self) -> Loss:
        """The loss of everything the block relied on, at the budget's delta."""
        return self._loss(self.units)

    @property
    def charged_units(self) -> int:
        """Ledger units charged in the block."""
        return sum(entry.units for entry in self.entries if entry.new)

    @property
    def charged_loss(self) -> Loss:
        """The loss charged in the block, at the budget's delta."""
        return self._loss(self.charged_units)

    def expect(self, asked: Request) -> None:
        """Enter a request that is about to be charged: it counts from here on, unless it is refused."""
        with self._lock:
            self._kept.setdefault(asked.id, (asked, "pending"))

    def settle(self, asked: Request, outcome: Outcome) -> None:
        """Say what became of a request; one that was charged here stays so, whatever a repetition of it came to."""
        with self._lock:
            _, before = self._kept.get(asked.id, (asked, "pending"))
            if outcome == "charged":
                self._kept[asked.id] = asked, "charged"
            elif before == "pending" and outcome == "replayed":
                self._kept[asked.id] = asked, "replayed"
            elif before == "pending":
                self._kept.pop(asked.id, None)

    def __repr__(self) -> str:
        return f"ScopedAccount({self.purpose!r}, {len(self.entries):,} requests, {self.loss})"


_OPEN: ContextVar[tuple[ScopedAccount, ...]] = ContextVar("open accounts", default=())


class Accounts:
    """The open accounts of one table's doors, as seen from the present context."""

    def __init__(self, loss: Callable[[int], Loss], charges: Callable[[], Iterable[Charge]]) -> None:
        self._loss = loss
        self._charges = charges

    def on_ledger(self, requests: Set[str]) -> Set[str]:
        """Those of these requests that are charged; all of them where the ledger cannot be read."""
        try:
            return {charge.id for charge in self._charges() if charge.id in requests}
        except LedgerError:
            return requests

    @contextmanager
    def open(self, purpose: str) -> Iterator[ScopedAccount]:
        """An account of what is charged until the block ends, by whatever way it ends."""
        account = ScopedAccount(purpose, self, self._loss)
        _OPEN.set((*_OPEN.get(), account))
        try:
            yield account
        finally:
            account.open = False
            _OPEN.set(tuple(other for other in _OPEN.get() if other is not account))

    @property
    def here(self) -> tuple[ScopedAccount, ...]:
        """Those that a charge made now belongs to; a copied context may still hold some that have ended."""
        return tuple(account for account in _OPEN.get() if account.open and account.owner is self)
