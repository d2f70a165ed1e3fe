"""Account: the charges of one piece of work, separate from other work on the same table at the same time.

`with curator.account("monthly report") as account:` opens one. Every charge that a door makes inside the block is an
entry of the account. Inside means this context (`contextvars`): another thread, or an asyncio task that was started
before the block, does not charge to this account. Code that runs in a copy of the context (an asyncio task started in
the block, `asyncio.to_thread`) is inside as long as the block is open. Accounts nest: a charge is an entry of every
account that encloses it.
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
    """One request of an account: its cost, and whether it was charged here.

    `new` is False if nothing more was charged: a recorded answer was returned again, or a guard was tested that had
    been charged before. `description` is the public JSON text that the ledger keeps with the charge.
    """

    request: str
    analyst: str
    units: int
    description: str
    new: bool

    @property
    def described(self) -> Description:
        """The parsed description: what was charged."""
        return Description.of(self.description)


class ScopedAccount:
    """The requests of one `with curator.account(purpose)` block, in the order in which they were first asked.

    `units` and `loss` count everything that the block relied on, each request once, including recorded answers: this is
    what publishing the result of the block reveals. `charged_units` and `charged_loss` count only what was charged in
    the block. A refused request that charged nothing is no entry. An interrupted charge counts if it is on the ledger,
    or if the ledger cannot say. Values that were computed earlier and are reused without a door are not counted.

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
        """Enter a request that is about to be charged: from now on it counts, unless it is refused."""
        with self._lock:
            self._kept.setdefault(asked.id, (asked, "pending"))

    def settle(self, asked: Request, outcome: Outcome) -> None:
        """Record the outcome of a request. A request charged here stays charged, whatever its repetitions return."""
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
        """An account of everything charged until the block ends, also by an exception."""
        account = ScopedAccount(purpose, self, self._loss)
        _OPEN.set((*_OPEN.get(), account))
        try:
            yield account
        finally:
            account.open = False
            _OPEN.set(tuple(other for other in _OPEN.get() if other is not account))

    @property
    def here(self) -> tuple[ScopedAccount, ...]:
        """The accounts to which a charge made now belongs; a copied context may still hold closed ones."""
        return tuple(account for account in _OPEN.get() if account.open and account.owner is self)
