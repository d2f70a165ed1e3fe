"""SharedRecord: the durable side of a session whose ledger other processes write at the same time.

What is known is a fold over the ledger: all charges of the session, in the order in which they were charged, whoever
made them. A process takes the charges of others before it plans, and plans on what they have in flight as if it were
there, exactly as for its own threads. Its own charges enter at their place in the ledger too: after all that were
charged before them. So every process, and every restart, reaches the same state at the same charge, and gives the same
answer to the same question.

Between a plan and its charge another process may charge for the same thing, or under the same request's name. The
ledger looks for that inside the transaction that would charge (`SharedLedger.unless`): then nothing is charged, and the
question is planned again on what is there now.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from maquette.curator import Curator, Measurement
from maquette.privacy.ledger import Charge, SharedLedger
from maquette.session.ahead import Ahead
from maquette.session.order import Flight, Named, Order, Owned
from maquette.session.record import DOORS, REBUILT, Record
from maquette.session.sequence import IN_FLIGHT, in_order

POLL = 0.02  # seconds between two looks at what another process has in flight
BEHIND = 2 * IN_FLIGHT  # charges that may come between a plan's state and its charge; fewer than digests are kept


class SharedRecord(Record):
    """A record on a ledger with several members."""

    shared = True

    def __init__(self, curator: Curator, name: str) -> None:
        assert isinstance(curator.ledger, SharedLedger), "`Record.of` chooses"
        self._ledger: SharedLedger = curator.ledger
        self._folded = 0  # the event up to which all charges are settled and taken
        self._listed = 0  # the event up to which charges were read
        self._flying: list[tuple[Charge, Any]] = []  # of all processes, from the first charge that is not settled
        self._mine: dict[str, Flight] = {}  # by id: begun here and not taken yet
        self._others: dict[str, Flight] = {}
        self._ids = self._foreign = 0
        self._next_look = 0.0  # when a waiting thread looks again; it decides nothing but that
        super().__init__(curator, name)

    def refresh(self) -> None:
        """Rebuild everything from the ledger."""
        if not self._interrupted:
            return
        self._drain_own()
        self._ahead = None
        fresh = copy(self)
        fresh._begin_anew()
        fresh._folded, fresh._mine, fresh._others = 0, {}, {}
        fresh._fold()
        for kept in (*REBUILT, "_folded", "_listed", "_flying", "_mine", "_others"):
            setattr(self, kept, getattr(fresh, kept))
        self._interrupted = False

    def ready(self) -> None:
        """Wait until another charge may begin, with everything here that the ledger holds; called with the lock."""
        super().ready()
        self._fold()

    def drain(self) -> None:
        """Wait until everything that is in flight now is settled; called with the lock."""
        super().drain()
        self._fold()
        until = self._listed
        while self._flying and self._flying[0][0].seq <= until:
            self._look_again()

    def ahead(self) -> Ahead | None:
        """What will be known when everything in flight is measured; None if nothing is. Called with the lock."""
        flying = [self._flight(charge, note) for charge, note in self._flying]
        flying += [flight for flight in self._line if flight not in flying]
        if not flying:
            self._ahead = None
            return None
        if self._ahead is None or self._ahead.long:
            self._ahead = Ahead(self)
        for flight in flying:
            self._ahead.include(flight)
        return self._ahead

    def settle_request(self, name: str, analyst: str, asked: str) -> bool:
        """Whether a request by this name was charged before, by any process; one in flight is waited for."""
        self._fold()
        while any(_request_of(note) == name for _, note in self._flying):
            self._look_again()
        return super().settle_request(name, analyst, asked)

    def begin(self, flight: Flight, order: Order, *, analyst: str, named: Named | None = None) -> None:
        """Give a charge its id; it gets its place in the ledger's order when it is charged."""
        super().begin(flight, order, analyst=analyst, named=named)
        flight.seen = self._listed, self._folded
        self._mine[flight.request] = flight

    @property
    def _crowded(self) -> bool:
        return True  # another process may charge at any moment

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.name}:{self._ledger.epoch}.{self._ids}"

    def _measure(self, request: str, note: Any, analyst: str, owned: Owned | None = None) -> tuple[Measurement, ...]:
        flight = self._mine.get(request)
        if flight is None or owned is not flight.owned:  # a recorded answer
            return super()._measure(request, note, analyst, owned)
        _, folded = flight.seen
        with self._ledger.unless(lambda later: self._clash(flight, later), after=folded):
            return super()._measure(request, note, analyst, owned)

    def _clash(self, flight: Flight, later: Sequence[Charge]) -> bool:
        """Whether what was charged since a plan was made stands against it; called inside the transaction.

        What is measured as asked is numbered in the ledger's order, and the number decides its share of the doubt. So
        a plan with such measurements stands only if nothing came before it that it was not made on.
        """
        ours = [charge for charge in later if charge.id.startswith(f"{self.name}:")]
        listed, _ = flight.seen
        new = [charge for charge in ours if charge.seq > listed and not self._planned_on(flight, charge)]
        alone = bool(flight.note["direct"] or flight.note["rent"])
        if len(ours) > BEHIND or (alone and new):
            return True
        return any(overlap(flight.note, charge.described.note) for charge in new)

    def _planned_on(self, flight: Flight, charge: Charge) -> bool:
        """Whether a charge is one of this process that began before the flight."""
        own, _, number = charge.id.rpartition(".")
        return own == flight.request.rpartition(".")[0] and int(number) < int(flight.request.rpartition(".")[2])

    def _fold(self) -> None:
        """Take every settled charge, in the ledger's order, up to the first that is not settled."""
        self._interrupted = True  # what is half taken is rebuilt
        for charge, note in in_order(self._settled()):
            self._recover(charge, note)
            self._landed(charge)
        self._interrupted = False

    def _settled(self) -> Iterator[tuple[Charge, Any]]:
        flying: list[tuple[Charge, Any]] = []
        last = self._folded
        while page := self._ledger.charges_since(last):
            for charge in page:
                last = charge.seq
                note = self._note(charge)
                if note is not None:
                    if flying or charge.state == "reserved":
                        flying.append((charge, note[0]))
                    else:
                        yield charge, note[0]
                if not flying:
                    self._folded = last
        self._listed, self._flying = last, flying

    def _note(self, charge: Charge) -> tuple[Any] | None:
        """The note of a charge of this session; None if it is another's."""
        if not charge.id.startswith(f"{self.name}:"):
            return None
        described = charge.described
        return (described.note,) if described.door in DOORS else None

    def _replay(self, charge: Charge, note: Any) -> None:
        flight = self._mine.get(charge.id)
        if flight is None or flight.outcome != "measured":
            super()._replay(charge, note)
            return
        self._check_state(charge, note)
        self._veiled = flight.veiled
        self._take(flight.measured, flight.note, flight.owned)

    def _landed(self, charge: Charge) -> None:
        flight = self._mine.pop(charge.id, None) or self._others.pop(charge.id, None)
        if self._ahead is not None and (charge.state != "answered" or flight is None or flight not in self._ahead):
            self._ahead = None
        if flight is not None and flight in self._line:
            self._line.remove(flight)
            self._moved.notify_all()

    def _land(self, flight: Flight) -> None:
        """Wait until a charge was taken, at its place; one that was refused leaves at once."""
        try:
            with self.lock:
                if flight.request in self._mine and flight.outcome != "unknown" and not self._interrupted:
                    self._fold()
                while flight.request in self._mine and flight.outcome != "unknown" and not self._interrupted:
                    self._look_again()
                if self._mine.pop(flight.request, None) is not None:
                    self._interrupted, self._ahead = True, None
                if flight in self._line:
                    self._line.remove(flight)
                    self._moved.notify_all()
        except BaseException:
            flight.outcome = "unknown"
            self._interrupted = True
            raise

    def _forget(self, flight: Flight) -> None:
        with self.lock:
            self._ahead = None
            self._mine.pop(flight.request, None)
            if flight.name is not None and self.requests.get(flight.name, ("",))[0] == flight.request:
                del self.requests[flight.name]

    def _look_again(self) -> None:
        """Wait a moment for other processes; what a dead one had in flight is settled.

        One thread looks for all that wait, which it wakes if it has found what they wait for.
        """
        self._moved.wait(POLL)
        self._drop()
        if self._interrupted:
            if not self._line:
                self.refresh()
        elif time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + POLL
            self._ledger.settle()
            self._fold()

    def _flight(self, charge: Charge, note: Any) -> Flight:
        known = self._mine.get(charge.id) or self._others.get(charge.id)
        if known is None:
            self._foreign -= 1
            known = Flight(number=self._foreign, request=charge.id, note=note, owned=self._own(note))
            self._others[charge.id] = known
        return known


def overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two charges, by their notes, buy some of the same numbers or are for one request."""
    if "parts" not in other:
        return False
    named = _request_of(one)
    return (named is not None and named == _request_of(other)) or not _bought(one).isdisjoint(_bought(other))


def _bought(note: Mapping[str, Any]) -> set[str]:
    return {json.dumps([kind, item], sort_keys=True) for kind in ("parts", "direct", "rent") for item in note[kind]}


def _request_of(note: Any) -> str | None:
    found: str | None = (note or {}).get("request", {}).get("name")
    return found
