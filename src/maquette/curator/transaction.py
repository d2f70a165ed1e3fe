"""The transaction every door goes through: charge durably, then draw, then record, then answer."""

from __future__ import annotations

import hashlib
import io
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maquette.curator.account import Accounts
from maquette.curator.deadline import (
    Attempt,
    Clock,
    Deadline,
    Moments,
    Span,
    SystemClock,
    Work,
    check_deadline,
    seconds,
)
from maquette.curator.engines.kernels import load
from maquette.curator.plain import text, whole
from maquette.errors import (
    BudgetError,
    BudgetExceeded,
    DeadlineMissed,
    GuardSealed,
    LedgerCorrupted,
    QueryError,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy import MAX_UNITS, UNITS_PER_ONE, Budget, Composed, Event, Loss
from maquette.privacy.ledger import Description, Ledger, Recorded, Request, SharedLedger, Ticket

Arrays = list[NDArray[np.int64]]

KEPT = 1_000  # maximum cached shapes of recorded arrays, and cached prices
NOT_CHARGED = (BudgetExceeded, GuardSealed, RequestBusy, RequestConflict, RequestLost)  # refused: no new charge
_SPANS: ContextVar[Mapping[int, Span]] = ContextVar("spans by transaction", default={})  # noqa: B039


class Transaction:
    """The doors' access to one table's ledger. `evaluate` runs only after its charge is durable."""

    def __init__(
        self,
        ledger: Ledger,
        budget: Budget,
        *,
        deadline: Deadline | None = None,
        max_rows: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.ledger = ledger
        self.budget = budget
        self.max_rows = max_rows
        self._deadline = self._declared(deadline)
        self._clock = clock or SystemClock()
        self._one_at_a_time = threading.RLock()
        self.accounts = Accounts(self.loss, ledger.charges)
        self._shares: dict[tuple[float | None, float | None], int] = {}  # units of prices that were asked before
        self._prices: dict[tuple[Event, ...], int] = {}  # units of events that were charged before
        self._guards: dict[str, Request] = {}  # the request that opened each guard of this process
        self._unreleased: dict[str, int] = {}  # requests under a deadline, and the thread that asked each

    def through(
        self,
        door: str,
        *,
        events: Sequence[Event],
        public: Mapping[str, Any],
        evaluate: Callable[[], Arrays],
        request: str | None,
        analyst: str,
        guard: str | None = None,
        opens_guard: bool = False,
        hit: Callable[[Arrays], bool] = lambda _: True,
        work: Work = Work(),  # noqa: B008 -- frozen
    ) -> tuple[Arrays, Loss]:
        """Charge `events`, evaluate once, record the arrays, and return them as they were recorded.

        `public` holds everything else that defines the question; with the events, in order, it makes the digest by
        which a repeated request is recognised. A request already answered returns the recorded arrays and runs nothing.
        Under a deadline every other outcome is released at one moment, counted from here (`_on_time`); "auto" computes
        it from `work`. A request that is charged now, or whose recorded answer is returned, is an entry of the accounts
        that are open in this context.
        """
        span = _SPANS.get().get(id(self))
        moments = self._moments(span, work)
        units = self._units_of(tuple(events))
        description = Description.made(door, events, public).text
        asked = Request(
            id=text(request, "request") if request else uuid.uuid4().hex,
            analyst=text(analyst, "analyst"),
            digest=hashlib.sha256((description + repr(tuple(events))).encode()).hexdigest(),
            units=units,
            description=description,
            guard=guard,
        )
        cost = self.loss(units)
        self._check_released(asked.id)
        ticket = self._accounted(asked)
        if opens_guard:
            self._guards[asked.id] = asked
        if isinstance(ticket, Recorded):
            self._check_released(asked.id)
            return unpack(ticket.answer), cost

        def found() -> tuple[bytes, bool]:
            with np.errstate(all="ignore"):  # if a caller had set it to raise, rows would decide whether it does
                arrays = evaluate()
            return pack(arrays), hit(arrays)

        if moments is not None:
            return self._on_time(ticket, found, moments, span), cost
        with self._one_at_a_time:
            recorded, was_hit = found()
        self.ledger.commit(ticket, recorded, hit=was_hit)
        return unpack(recorded), cost

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of every request that has none of its own."""
        return self._deadline

    @contextmanager
    def within(self, deadline: Deadline | None) -> Iterator[None]:
        """All requests of this thread in the block have this deadline, counted from its start; None keeps ours.

        The block ends when all its results may be released, also if an exception ends it: processing inside the block
        does not change the time seen from outside. A further request in it begins when the previous one is released.
        """
        given = self._declared(deadline) or self._deadline
        if self._deadline is not None and given != self._deadline and not _longer(given, self._deadline):
            raise QueryError(
                f"deadline is {given!r}, and the curator's own is {self._deadline!r}: missing a shorter one would "
                "reveal how long an evaluation takes",
                advice="Leave it out, or give more seconds",
            )
        span = Span(given, self._clock.monotonic())
        token = _SPANS.set({**_SPANS.get(), id(self): span})
        try:
            yield
        finally:
            _SPANS.reset(token)
            if span.released is not None:
                self._clock.until(span.released)
            for request in span.requests:
                self._unreleased.pop(request, None)

    def _declared(self, deadline: Deadline | None) -> Deadline | None:
        if isinstance(deadline, float | int) and not isinstance(deadline, bool):
            deadline = float(deadline)
        check_deadline(deadline, self.max_rows)
        if deadline is not None:
            load()  # load it now; otherwise the number of rows would decide which question waits for it
        return deadline

    def _moments(self, span: Span | None, work: Work) -> Moments | None:
        deadline = self._deadline if span is None else span.deadline
        if deadline is None:
            return None
        length = seconds(deadline, self.max_rows, work)
        if span is None:
            return Moments.of(self._clock.monotonic(), length)
        if span.released is not None:
            self._clock.until(span.released)
        return Moments.of(span.begin(self._clock.monotonic(), length), length)

    def _on_time(
        self, ticket: Ticket, evaluate: Callable[[], tuple[bytes, bool]], moments: Moments, span: Span | None
    ) -> Arrays:
        """Evaluate, decide at a fixed moment, record, and release (or refuse) at a second fixed moment.

        An evaluation that is unfinished or failed at the first moment is withheld: for the ledger it is lost, so that
        neither a retry nor a restart reveals it. Recording always begins at the first moment, so its duration depends
        only on the disk; an answer whose recording ends too late is withheld too. In a shared ledger other processes
        may have taken such an answer, so there it stays recorded and only this caller is refused: that it was late
        depends on the disk alone. Within a span, the end of the span waits for the second moment.
        """
        request = ticket.request.id
        self._unreleased[request] = threading.get_ident()
        if span is not None:
            span.released = moments.released
            span.requests.append(request)
        found = Attempt(evaluate, self._clock, self._one_at_a_time).by(moments.decided)
        self._clock.until(moments.decided)
        try:
            if found is None:
                self.ledger.withhold(ticket)
                raise DeadlineMissed
            recorded, was_hit = found
            self.ledger.commit(ticket, recorded, hit=was_hit)
            if self._clock.monotonic() > moments.released:
                if not isinstance(self.ledger, SharedLedger):
                    self.ledger.withhold(ticket)
                raise DeadlineMissed
            arrays = unpack(recorded)
        finally:
            if span is None:
                self._clock.until(moments.released)
                self._unreleased.pop(request, None)
        return arrays

    def _check_released(self, request: str) -> None:
        """Refuse a request that is recorded but not yet released: another thread would learn its answer too early."""
        if self._unreleased.get(request, threading.get_ident()) != threading.get_ident():
            raise RequestBusy(
                f"request {request!r} is being evaluated",
                advice="nothing more was charged. Ask again later, under the same id.",
            )

    def _accounted(self, asked: Request) -> Ticket | Recorded:
        """Reserve a request, as an entry of the accounts that enclose it.

        It is entered first: a charge may be durable even if reserving it was interrupted. A test of a guard counts the
        charge of the guard itself, wherever that was made.
        """
        accounts = self.accounts.here
        for account in accounts:
            account.expect(asked)
        try:
            ticket = self._reserve(asked)
        except NOT_CHARGED:
            for account in accounts:
                account.settle(asked, "refused")
            raise
        for account in accounts:
            account.settle(asked, "replayed" if isinstance(ticket, Recorded) else "charged")
            if asked.guard in self._guards:
                account.settle(self._guards[asked.guard], "replayed")
        return ticket

    def _reserve(self, asked: Request) -> Ticket | Recorded:
        try:
            return self.ledger.reserve(asked)
        except BudgetExceeded as short:
            requested, remaining = self.loss(asked.units), self.loss(int(short.remaining * UNITS_PER_ONE))
            raise BudgetExceeded(
                f"this asks for {requested} but only {remaining} remains: {requested.epsilon - remaining.epsilon:.4g} "
                "of epsilon too much",
                advice="Nothing was charged. Ask for less",
                requested=requested.epsilon,
                remaining=remaining.epsilon,
            ) from None

    def units(self, *, epsilon: float | None, rho: float | None, units: int | None) -> int:
        """The ledger units of a price: exactly one of `epsilon` (at the budget's delta), `rho` and `units`.

        Units are used unchanged, so that parts of a budget add up without rounding; the others are rounded down.
        """
        if units is None:
            plain = all(amount is None or type(amount) is float for amount in (epsilon, rho))
            known = self._shares.get((epsilon, rho)) if plain else None
            if known is not None:
                return known
            found = self.budget.accountant.share(epsilon=epsilon, rho=rho, delta=self.budget.delta)
            if found < 1:
                raise BudgetError(
                    f"epsilon={epsilon}, rho={rho} is less than the ledger's smallest unit", advice="ask for more"
                )
            if plain and len(self._shares) < KEPT:
                self._shares[epsilon, rho] = found
            return found
        if epsilon is not None or rho is not None:
            raise BudgetError(
                f"Got epsilon={epsilon}, rho={rho} and units={units!r}", expected="exactly one of the three."
            )
        given = whole(units, "units")
        if not 1 <= given <= MAX_UNITS:
            raise BudgetError(f"units is {given}", expected=f"a whole number from 1 to {MAX_UNITS}")
        return given

    def _units_of(self, events: tuple[Event, ...]) -> int:
        """The cost of the events, computed once."""
        known = self._prices.get(events)
        if known is None:
            known = self.budget.accountant.units(Composed(events))
            if len(self._prices) < KEPT:
                self._prices[events] = known
        return known

    def loss(self, units: int) -> Loss:
        """Units as a loss at the budget's delta."""
        return self.budget.accountant.loss(units, self.budget.delta)


def _longer(one: Deadline | None, other: Deadline) -> bool:
    return isinstance(one, float) and isinstance(other, float) and one > other


def digest(arrays: Sequence[NDArray[np.int64]]) -> str:
    """A hash of public arrays, for the digest of a request."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def pack(arrays: Arrays) -> bytes:
    """Arrays as bytes in numpy's own format (no pickle), for the ledger."""
    pieces = []
    for array in (np.asarray(array, dtype=np.int64) for array in arrays):
        columns_first = array.flags.f_contiguous and not array.flags.c_contiguous
        pieces += [_header(array.shape, columns_first), array.tobytes("F" if columns_first else "C")]
    return b"".join(pieces)


def unpack(recorded: bytes) -> Arrays:
    """The arrays that `pack` wrote; anything else is refused."""
    try:
        return list(_arrays(recorded))
    except (ValueError, OverflowError):
        raise LedgerCorrupted(
            "a recorded answer does not read as arrays of whole numbers",
            advice="open the ledger with the version that wrote it",
        ) from None


def _arrays(recorded: bytes) -> Iterator[NDArray[np.int64]]:
    start = 0
    while start < len(recorded):
        end = start + _FIXED + int.from_bytes(recorded[start + _FIXED - 2 : start + _FIXED], "little")
        shape, columns_first = _layout(recorded[start:end])
        start, cells = end + 8 * math.prod(shape), recorded[end : end + 8 * math.prod(shape)]
        yield np.frombuffer(cells, dtype=np.int64).copy().reshape(shape, order="F" if columns_first else "C")


_FIXED = 10  # bytes of an array's header before its text: magic, version, and the length of the text


@lru_cache(KEPT)
def _header(shape: tuple[int, ...], columns_first: bool) -> bytes:
    stream = io.BytesIO()
    descr = npy.dtype_to_descr(np.dtype(np.int64))
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": columns_first, "shape": shape})
    return stream.getvalue()


@lru_cache(KEPT)
def _layout(header: bytes) -> tuple[tuple[int, ...], bool]:
    """The shape of an array of whole numbers, and whether it is in Fortran order."""
    stream = io.BytesIO(header)
    version = npy.read_magic(stream)
    shape, columns_first, dtype = npy.read_array_header_1_0(stream)
    if version != (1, 0) or dtype != np.int64 or min(shape, default=0) < 0:
        raise ValueError(f"version {version}, {dtype} of shape {shape}")
    return shape, columns_first
