"""The passage every door goes through: charge durably, then draw, then record, then answer."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maquette.errors import BudgetExceeded
from maquette.privacy import UNITS_PER_ONE, Budget, Composed, Event, Loss
from maquette.privacy.ledger import Ledger, Recorded, Request, Ticket

Arrays = list[NDArray[np.int64]]

KEPT = 1_000  # losses


class Passage:
    """One table's ledger, seen from the doors. `evaluate` runs only after its charge is durable."""

    def __init__(self, ledger: Ledger, budget: Budget) -> None:
        self.ledger = ledger
        self.budget = budget
        self._one_at_a_time = threading.RLock()
        self._losses: dict[int, Loss] = {}

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
        hit: Callable[[Arrays], bool] = lambda _: True,
    ) -> tuple[Arrays, Loss]:
        """Charge `events`, evaluate once, record the arrays, and return them as they were recorded.

        `public` holds everything else that defines the question; with the events, in order, it makes the digest under
        which a repeated request is recognised. A request already answered returns the recorded arrays and runs nothing.
        """
        units = self.budget.accountant.units(Composed(tuple(events)))
        description = json.dumps({"door": door, "events": _grouped(events), **public}, sort_keys=True)
        asked = Request(
            id=request or uuid.uuid4().hex,
            analyst=analyst,
            digest=hashlib.sha256((description + repr(tuple(events))).encode()).hexdigest(),
            units=units,
            description=description,
            guard=guard,
        )
        cost = self.loss(units)
        ticket = self._reserve(asked)
        if isinstance(ticket, Recorded):
            return unpack(ticket.answer), cost
        with self._one_at_a_time:
            arrays = evaluate()
        recorded = pack(arrays)
        self.ledger.commit(ticket, recorded, hit=hit(arrays))
        return unpack(recorded), cost

    def _reserve(self, asked: Request) -> Ticket | Recorded:
        try:
            return self.ledger.reserve(asked)
        except BudgetExceeded as short:
            requested, remaining = self.loss(asked.units), self.loss(int(short.remaining * UNITS_PER_ONE))
            raise BudgetExceeded(
                f"this asks for {requested} but only {remaining} remains: {requested.epsilon - remaining.epsilon:.4g} "
                "of epsilon too much. Nothing was charged. Ask for less",
                requested=requested.epsilon,
                remaining=remaining.epsilon,
            ) from None

    def loss(self, units: int) -> Loss:
        """Units as a loss at the budget's delta; the latest are kept, as the conversion takes longer than a look-up."""
        if units not in self._losses:
            if len(self._losses) >= KEPT:
                self._losses.clear()
            self._losses[units] = self.budget.accountant.loss(units, self.budget.delta)
        return self._losses[units]


def _grouped(events: Sequence[Event]) -> list[dict[str, Any]]:
    counts = Counter(events)
    return [{**event.as_dict(), "times": times} for event, times in counts.items()]


def digest(arrays: Sequence[NDArray[np.int64]]) -> str:
    """A hash of public arrays, for the digest of a request."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def pack(arrays: Arrays) -> bytes:
    """Arrays as bytes (no pickle), for the ledger."""
    stream = io.BytesIO()
    for array in arrays:
        npy.write_array(stream, np.asarray(array, dtype=np.int64), allow_pickle=False)
    return stream.getvalue()


def unpack(recorded: bytes) -> Arrays:
    """The arrays that `pack` wrote."""
    stream = io.BytesIO(recorded)
    arrays: Arrays = []
    while stream.tell() < len(recorded):
        arrays.append(npy.read_array(stream, allow_pickle=False))
    return arrays
