"""Record: the durable side of a session: every charge, with a public note from which a restart rebuilds the state.

Several charges may be in flight: begun in order under the lock, measured at the same time without it (the ledger writes
those that wait together in one commit), and taken into the transcript in the order in which they began. A restart takes
them in the same order, by their numbers, so what is known does not depend on which thread was faster.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from maquette.bounded import Bounded
from maquette.curator import Curator, Deadline, Measurement
from maquette.errors import BudgetExceeded, DeadlineMissed, LedgerCorrupted, RequestConflict
from maquette.estimates import Columns
from maquette.privacy import MAX_UNITS, Loss, recorded_price
from maquette.privacy.ledger import BookLedger, Charge, Overtaken, SharedLedger
from maquette.query import Contrasts, Marginal
from maquette.session import checkpoint
from maquette.session.ahead import Ahead, Layered
from maquette.session.order import Directs, Flight, Named, Order, Owned, components
from maquette.session.own import Guarded, Own
from maquette.session.question import Goal, as_json, from_json, restored, stored
from maquette.session.sequence import IN_FLIGHT, in_order, is_shared, number_of
from maquette.session.taking import keep, take
from maquette.session.transcript import Transcript, part_question

DOORS = ("measure", "guard.test", "guard")  # through which a session charges
REBUILT = (
    "begun", "before", "transcript", "own", "wholes", "requests", "directs", "guards", "cells", "following", "_digests",
    "_meant", "_covered",
)  # fmt: skip
CHECKPOINT = 512  # charges after the last checkpoint, or a quarter of all, after which another is written
PATIENCE = 0.2  # seconds after which a waiting thread looks again: an interrupted one may not have said goodbye


class Record:
    """All measurements of one named session on one ledger, replayed when it opens.

    A replayed request is one the ledger already answered: it returns the recorded numbers and charges nothing. Every
    note holds the digest of the transcript that it was planned on, so a restart that reaches a different state is
    refused. `transcript` and `own` only grow, and what a charge adds is seen at once or not at all: reading them as of
    a moment takes no lock.
    """

    shared = False  # whether other processes charge for the same session
    own: dict[str, list[Own]] | Layered[str, Own]
    wholes: dict[Columns, int]  # whole tables: which number measured as asked each was
    directs: int
    guards: int
    following: int  # the number of the next charge
    _covered: int  # the moment of the last checkpoint

    def __init__(self, curator: Curator, name: str) -> None:
        self.curator = curator
        self.name = f"session:{name}"
        self.lock = threading.RLock()
        self.cells: bool | None = None  # whether questions use the cells of one histogram; None until decided
        self.settings: dict[str, float | None] = {}  # of the session that opened it: recorded with the first charge
        self._meant: tuple[Any, Owned] = None, ([], [])  # the last note read, and its content
        self._line: deque[Flight] = deque()
        self._moved = threading.Condition(self.lock)
        self._ahead: Ahead | None = None
        self._interrupted = True
        self._veiled: int | None = None  # the thread that has taken what is not released yet
        self.refresh()

    @contextmanager
    def alone(self, deadline: Deadline | None) -> Iterator[None]:
        """A block under a deadline, with nothing else in flight: what it takes is released, and shown, at its end.

        Evaluations of others would use up its time, and be seen in it.
        """
        with self.lock:
            self._drain_own()
            self.ready()
            try:
                with self.curator.within(deadline):
                    yield
            finally:
                self._veiled = None

    def see(self) -> None:
        """Wait until what is here is released; whoever took it sees it at once."""
        if self._veiled not in (None, threading.get_ident()):
            with self.lock:
                pass

    def refresh(self) -> None:
        """Rebuild everything from the ledger, when the session opens and after an interrupted charge.

        Ctrl-C may come between the commit of a charge and its return. The charge is then in the ledger, so it must be
        here before the next one. What was known until then can be read meanwhile.
        """
        if not self._interrupted:
            return
        self.drain()
        self._ahead = None
        fresh = copy(self)
        fresh._begin_anew()
        covered = checkpoint.restore(fresh, self._replayed)
        fresh._digests[fresh.transcript.moment] = fresh.transcript.digest
        fresh._covered = fresh.transcript.moment
        fresh._follow(covered)
        for kept in REBUILT:
            setattr(self, kept, getattr(fresh, kept))
        self._interrupted = False
        self._save()

    def _follow(self, covered: int) -> None:
        """Take the charges after an event of the ledger, in order."""
        for charge, note in in_order(self._notes(*DOORS, after=covered)):
            self._recover(charge, note)

    def _replayed(self) -> Record:
        """A copy that the ledger alone tells, without a checkpoint; for reading."""
        fresh = copy(self)
        fresh._begin_anew()
        fresh._follow(0)
        return fresh

    def _save(self) -> None:
        """Write a checkpoint, if enough was charged since the last one; called with the lock, with nothing in flight.

        Numbers that are in the file need not be in memory any longer.
        """
        since, timed = self.transcript.moment - self._covered, self._veiled is not None or self.curator.deadline
        if since < max(CHECKPOINT, self._covered // 4) or timed or self._line:
            return
        self._covered = self.transcript.moment  # also if it could not be written: not again at once
        if checkpoint.write(self):
            fresh = copy(self)
            fresh._begin_anew()
            if checkpoint.restore(fresh, self._replayed):
                self.own = fresh.own
                self.transcript.shelve(dict(fresh.transcript.every_state()))

    def _begin_anew(self) -> None:
        self.transcript = Transcript(self.curator.schema)
        if self.curator.relation.rows_are_public:
            self.transcript.fix_rows(self.curator.count_rows())
        self.own, self.wholes = {}, dict[Columns, int]()
        self.requests: dict[str, tuple[str, str, str]] = {}  # by the caller's name: charge, analyst, asked
        self.directs = self.guards = self.following = self._covered = 0
        self.begun: dict[str, float | None] | None = None  # the settings with which it began; None before any charge
        self.before: int | None = None  # numbers measured as asked before the first parts; None until there are any
        self._digests: Bounded[int, str] = Bounded(4 * IN_FLIGHT)  # of the transcript, by moment
        self._digests[0] = self.transcript.digest

    def _recover(self, charge: Charge, note: Any) -> None:
        if note is None:
            self.guards += 1
        elif "values" in note:
            self._restore(charge, note)
        else:
            if not is_shared(charge):
                self.following = max(self.following, number_of(charge) + 1)
            if "request" in note:
                self.requests[note["request"]["name"]] = charge.id, charge.analyst, note["request"]["asked"]
            if charge.state == "answered":
                self._replay(charge, note)

    @classmethod
    def of(cls, curator: Curator, name: str) -> Record:
        """The record of this name; sessions of one name on one curator share it."""
        with _OPENING:
            known = _RECORDS.get((id(curator), name))
            if known is None:
                _RECORDS[id(curator), name] = known = _kind_of(curator)(curator, name)
            return known

    @property
    def interrupted(self) -> bool:
        """Whether the ledger may hold a charge that is not here."""
        return self._interrupted or any(flight.outcome == "unknown" for flight in list(self._line))

    @property
    def empty(self) -> bool:
        """Whether nothing but the number of rows was bought."""
        return not self.own and self.transcript.sets <= 1

    def _notes(self, *doors: str, after: int = 0) -> Iterator[tuple[Charge, Any]]:
        """This session's charges through the given doors after an event, oldest first, with their notes."""
        ledger = self.curator.ledger
        for charge in ledger.charges(after) if isinstance(ledger, BookLedger) and after else ledger.charges():
            if charge.id.startswith(f"{self.name}:"):
                described = charge.described
                if described.door in doors:
                    yield charge, described.note

    def settle_request(self, name: str, analyst: str, asked: str) -> bool:
        """Whether a request by this name was charged before; refused if it cannot be answered or asked something else.

        A request that was charged and answered passes: what it bought is known, so asking again is free. One that was
        interrupted or late raises RequestLost or DeadlineMissed, and nothing more is charged. One in flight is waited
        for.
        """
        while any(flight.name == name for flight in self._line):
            self._wait()
        known = self.requests.get(name)
        if known is None:
            return False
        charge, by, before = known
        if (by, before) != (analyst, asked):
            raise RequestConflict(
                f"request {name!r} was used before by another analyst or for another question",
                advice="nothing was charged. Use a fresh name for each question.",
            )
        if self.curator.ledger.lookup(charge) is None:
            described = next(one.described for one in self.curator.ledger.charges() if one.id == charge)
            self._measure(charge, described.note, by)  # the ledger refuses, and says why
        return True

    def charge(
        self,
        order: Order | Flight,
        *,
        analyst: str,
        named: Named | None = None,
    ) -> Loss:
        """Measure what was ordered, as one charge; `named` is the caller's name of the request, and what it asked.

        An order that has begun is measured without the lock, unless it is in a block under a deadline (`alone`).
        """
        flight = Flight() if isinstance(order, Order) else order
        try:
            if isinstance(order, Order):
                with self.lock:
                    self.begin(flight, order, analyst=analyst, named=named)
            flight.measured = self._measure(flight.request, flight.note, analyst, flight.owned)
            flight.outcome = "measured"
        except (BudgetExceeded, DeadlineMissed, Overtaken) as refused:  # nothing was charged, or will ever be known
            flight.outcome = "nothing"
            if not isinstance(refused, DeadlineMissed):
                self._forget(flight)
            raise
        finally:
            self.give_up(flight)
            self._land(flight)
        return self.curator.cost_of(flight.measured)

    def begin(self, flight: Flight, order: Order, *, analyst: str, named: Named | None = None) -> None:
        """Give a charge its number and its place in the line; called with the lock, which planning the order took."""
        self._refuse_more_than_ever(order)
        rents = [(goal, parts) for goal, parts in order.rents.values()]
        note = {
            "parts": [list(part) for part in order.parts],
            "direct": [{**stored(goal), "halved": goal.halved} for goal, _ in order.directs.values()],
            "rent": [
                {**as_json(goal.marginal), "signed": goal.signed, "parts": [list(part) for part in parts]}
                for goal, parts in rents
            ],
            "units": [
                *order.parts.values(),
                *(units for _, units in order.directs.values()),
                *(units for _, parts in rents for units in parts.values()),
            ],
            "cells": self.cells,
            "state": self.transcript.digest,
            "chained": True,
            **({"account": self.settings} if self.begun is None else {}),
            **({"since": self.transcript.moment} if self._crowded else {}),
            **({} if named is None else {"request": named.note}),
        }
        request = self._new_id()
        if named is not None:
            self.requests[named.text] = request, analyst, named.asked
        directs: Directs = [(goal, goal.as_asked) for goal, _ in order.directs.values()]
        flight.owned = directs, [(goal, components(goal, parts)) for goal, parts in rents]
        flight.number, flight.request, flight.note = self.following, request, note
        flight.name, flight.ahead = named and named.text, self._crowded
        self.following += 1  # the request's name is used up even if the request fails
        self._line.append(flight)

    @property
    def _crowded(self) -> bool:
        """Whether charges may come before the one that is about to begin which are not in the transcript yet."""
        return bool(self._line)

    def _new_id(self) -> str:
        """The id of the next charge."""
        return f"{self.name}:{self.following}"

    def give_up(self, flight: Flight) -> None:
        """Say that nobody knows what became of a flight, unless that is known; it may have begun or not."""
        if flight.outcome == "flying":
            flight.outcome = "unknown"

    def ready(self) -> None:
        """Wait until another charge may begin, with everything here that the ledger holds; called with the lock."""
        while True:
            while self._line and self.following - self._line[0].number >= IN_FLIGHT:
                self._wait()
            self._drop()
            if not self._interrupted:
                return
            self.refresh()

    def drain(self) -> None:
        """Wait until nothing is in flight; called with the lock."""
        self._drain_own()

    def _drain_own(self) -> None:
        """Wait until this process has nothing in flight."""
        while self._line:
            self._wait()

    def ahead(self) -> Ahead | None:
        """What will be known when everything in flight is measured; None if nothing is. Called with the lock."""
        if not self._line:
            self._ahead = None
            return None
        if self._ahead is None or self._ahead.long:
            self._ahead = Ahead(self)
        for flight in self._line:
            self._ahead.include(flight)
        return self._ahead

    def _wait(self) -> None:
        self._moved.wait(PATIENCE)
        self._drop()

    def _drop(self) -> None:
        """Remove flights at the head of the line that were interrupted while they waited for their turn."""
        while self._line and self._line[0].outcome == "unknown":
            self._interrupted, self._ahead = True, None
            self._advance()

    def _advance(self) -> None:
        """The first in the line leaves it; the next is woken, and those who wait for something else, but no others."""
        self._line.popleft()
        if self._line and (turn := self._line[0].turn) is not None:
            turn.notify_all()
        self._moved.notify_all()

    def _land(self, flight: Flight) -> None:
        """Take what was measured, in turn."""
        try:
            with self.lock:
                while flight.outcome != "unknown" and flight in self._line and self._line[0] is not flight:
                    flight.turn = flight.turn or threading.Condition(self.lock)
                    flight.turn.wait(PATIENCE)
                    self._drop()
                self._drop()
                if flight not in self._line or flight.outcome == "unknown":
                    return
                if flight.outcome == "measured" and not self._interrupted:
                    if self._ahead is not None and flight not in self._ahead:
                        self._ahead = None
                    self._interrupted = True
                    self._veiled = flight.veiled
                    self._take(flight.measured, flight.note, flight.owned)
                    self._interrupted = False
                else:
                    self._ahead = None
                self._advance()
                if flight.outcome == "measured" and not self._interrupted:
                    self._save()
        except BaseException:
            flight.outcome = "unknown"  # committed perhaps, and not here: the next one rebuilds
            self._interrupted = True
            raise

    def _forget(self, flight: Flight) -> None:
        """A charge that was refused leaves no trace; its number is free again unless a later one was given out."""
        with self.lock:
            if self.following == flight.number + 1:
                self.following -= 1
            if flight.name is not None and self.requests.get(flight.name, ("",))[0] == flight.request:
                del self.requests[flight.name]

    def _refuse_more_than_ever(self, order: Order) -> None:
        """Refuse a price above the whole budget here: it may be larger than a ledger can count."""
        budget = self.curator.budget
        if order.units > budget.limit:
            wanted = budget.accountant.loss(min(order.units, MAX_UNITS), budget.delta).epsilon
            raise BudgetExceeded(
                f"this would take epsilon {wanted:.4g}, more than the whole budget of {budget.epsilon:.4g}",
                advice="Nothing was charged. Ask for a larger alpha, or about fewer columns",
                requested=wanted,
                remaining=self.curator.remaining.epsilon,
            )

    def accept(self, goal: Goal, note: Any) -> None:
        """Keep the model's numbers for a goal that a guard accepted, as recorded in the note."""
        promise = (note["tolerance"], note["beta"], note["simultaneous"])
        keep(self.own, goal, Guarded(self.transcript.moment, np.array(note["values"]), *promise))

    def _restore(self, charge: Charge, note: Any) -> None:
        """Restore a test that a guard accepted before a restart."""
        recorded = self.curator.recall(charge.id)
        if recorded is not None and not recorded[0][0]:
            self.accept(Goal(from_json(self.curator.schema, note["need"])), note)

    def _replay(self, charge: Charge, note: Any) -> None:
        self._check_state(charge, note)
        self._take(self._measure(charge.id, note, charge.analyst), note)

    def _check_state(self, charge: Charge, note: Any) -> None:
        """Refuse a charge that was planned on another state than the one reached here."""
        if note["state"] != self._digests.get(note.get("since", self.transcript.moment)):
            raise LedgerCorrupted(
                f"{self.name!r} does not reach the state it had before charge {charge.id!r}",
                advice="The ledger verifies, so "
                "the program has changed: open the session with the version that wrote it, or under another name",
            )

    def _own(self, note: Any) -> Owned:
        """What a note says was measured for single goals; each note is read once."""
        known, owned = self._meant
        if known is not note:
            goals = [(self._goal(facts), facts["parts"]) for facts in note["rent"]]
            rented = [(goal, components(goal, map(tuple, parts))) for goal, parts in goals]
            owned = [self.direct(facts) for facts in note["direct"]], rented
            self._meant = note, owned
        return owned

    def _measure(self, request: str, note: Any, analyst: str, owned: Owned | None = None) -> tuple[Measurement, ...]:
        return self.curator.measure_many(
            self.questions(note, owned),
            **recorded_price(self.curator.budget, sum(note["units"])),
            shares=note["units"],
            request=request,
            analyst=analyst,
            note=note,
        )

    def expected(self, flight: Flight) -> tuple[Measurement, ...]:
        """What a flight will bring, with zeros for its numbers."""
        units = flight.note["units"]
        return self.curator.expected(
            self.questions(flight.note, flight.owned), **recorded_price(self.curator.budget, sum(units)), shares=units
        )

    def questions(self, note: Any, owned: Owned | None = None) -> list[Marginal | Contrasts]:
        """What a charge measures."""
        directs, rented = owned or self._own(note)
        return [
            *(part_question(self.curator.schema, tuple(part)) for part in note["parts"]),
            *(asked for _, asked in directs),
            *(contrast for _, components in rented for _, contrast, _ in components),
        ]

    def direct(self, facts: Any) -> tuple[Goal, Marginal | Contrasts]:
        """A goal and what was measured for it; notes of version 0.1 are about both halves of a signed sum."""
        goal = self._goal(facts)
        return goal, goal.marginal if facts.get("halved", goal.signed) else goal.as_asked

    def _goal(self, facts: Any) -> Goal:
        return restored(self.curator.schema, facts)

    def _take(self, measured: Sequence[Measurement], note: Any, owned: Owned | None = None) -> None:
        take(self, measured, note, owned or self._own(note))
        self._digests[self.transcript.moment] = self.transcript.digest


def _kind_of(curator: Curator) -> type[Record]:
    if not isinstance(curator.ledger, SharedLedger):
        return Record
    from maquette.session.shared import SharedRecord

    return SharedRecord


_RECORDS: WeakValueDictionary[tuple[int, str], Record] = WeakValueDictionary()  # a record keeps its curator alive
_OPENING = threading.Lock()
