"""Record: the durable side of a session: every charge, with a public note from which a restart rebuilds the state.

Several charges may be in flight: begun in order under the lock, measured at the same time without it (the ledger writes
those that wait together in one commit), and taken into the transcript in the order in which they began. A restart takes
them in the same order, by their numbers, so what is known does not depend on which thread was faster.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from maquette.bounded import Bounded
from maquette.curator import Curator, Deadline, Measurement
from maquette.errors import BudgetExceeded, DeadlineMissed, LedgerCorrupted, RequestConflict
from maquette.estimates import Columns, spread
from maquette.privacy import MAX_UNITS, DiscreteGaussian, Loss, recorded_price
from maquette.privacy.ledger import Charge, Overtaken, SharedLedger
from maquette.query import Contrasts, Marginal, ValueSums
from maquette.session.ahead import Ahead
from maquette.session.precision.view import Component
from maquette.session.question import Goal, as_json, from_json, restored, stored
from maquette.session.transcript import Transcript, part_question

IN_FLIGHT = 64  # charges at the same time
DOORS = ("measure", "guard.test", "guard")  # through which a session charges
REBUILT = (
    "begun", "before", "transcript", "own", "requests", "directs", "guards", "cells", "_next", "_digests", "_meant",
)  # fmt: skip
PATIENCE = 0.2  # seconds after which a waiting thread looks again: an interrupted one may not have said goodbye


@dataclass(frozen=True)
class Guarded:
    """The public model's numbers for a goal, in counts, that a guard accepted as within `tolerance`."""

    moment: int
    values: NDArray[np.float64]
    tolerance: float
    beta: float
    simultaneous: bool


@dataclass(frozen=True)
class Direct:
    """A goal measured exactly as asked, by the charge `moment`; such measurements are numbered from 1."""

    moment: int
    measurement: Measurement
    signed: bool
    number: int

    @property
    def halved(self) -> bool:
        """Whether the two halves of a signed sum were measured."""
        question = self.measurement.question
        return self.signed and isinstance(question, Marginal) and not isinstance(question, ValueSums)


@dataclass(frozen=True)
class Rented:
    """What some parts contribute to one goal, measured for it alone by the charge `moment`."""

    moment: int
    components: Mapping[Columns, Component]


Own = Guarded | Direct | Rented
Components = list[tuple[Columns, Contrasts, float]]
Directs = list[tuple[Goal, Marginal | Contrasts]]
Owned = tuple[Directs, list[tuple[Goal, Components]]]  # measured as asked, and rented


@dataclass(frozen=True)
class Order:
    """What one charge buys: units by part; goals measured as asked; parts rented for a goal."""

    parts: dict[Columns, int]
    directs: dict[str, tuple[Goal, int]]
    rents: dict[str, tuple[Goal, dict[Columns, int]]]

    @property
    def units(self) -> int:
        """The total price."""
        rents = sum(sum(parts.values()) for _, parts in self.rents.values())
        return sum(self.parts.values()) + sum(units for _, units in self.directs.values()) + rents

    @property
    def undone(self) -> Order:
        """The same with negative prices, for whoever counted an order that was then refused."""
        return Order(
            {part: -units for part, units in self.parts.items()},
            {key: (goal, -units) for key, (goal, units) in self.directs.items()},
            {key: (goal, {part: -units for part, units in parts.items()}) for key, (goal, parts) in self.rents.items()},
        )

    def __bool__(self) -> bool:
        return bool(self.parts or self.directs or self.rents)


@dataclass(eq=False)
class Flight:
    """One charge on its way: its number in the session, its note, and what became of it.

    It is made before it begins, so that whoever made it can give it up at any moment (`Record.give_up`).
    """

    number: int = -1
    request: str = ""
    note: Any = None
    owned: Owned = field(default_factory=lambda: ([], []))
    name: str | None = None
    veiled: int | None = None  # the thread whose block under a deadline it belongs to
    ahead: bool = False  # whether it was planned on charges that were in flight themselves
    seen: tuple[int, int] = (0, 0)  # in a shared ledger: the events up to which charges were read, and taken
    measured: tuple[Measurement, ...] = ()
    outcome: Literal["flying", "measured", "nothing", "unknown"] = "flying"


class Record:
    """All measurements of one named session on one ledger, replayed when it opens.

    A replayed request is one the ledger already answered: it returns the recorded numbers and charges nothing. Every
    note holds the digest of the transcript that it was planned on, so a restart that reaches a different state is
    refused. `transcript` and `own` only grow, and what a charge adds is seen at once or not at all: reading them as of
    a moment takes no lock.
    """

    shared = False  # whether other processes charge for the same session

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
        for charge, note in in_order(self._notes(*DOORS)):
            fresh._recover(charge, note)
        for kept in REBUILT:
            setattr(self, kept, getattr(fresh, kept))
        self._interrupted = False

    def _begin_anew(self) -> None:
        self.transcript = Transcript(self.curator.schema)
        if self.curator.relation.rows_are_public:
            self.transcript.fix_rows(self.curator.count_rows())
        self.own: dict[str, list[Own]] = {}
        self.requests: dict[str, tuple[str, str, str]] = {}  # by the caller's name: charge, analyst, asked
        self.directs = self.guards = self._next = 0
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
                self._next = max(self._next, _number(charge) + 1)
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

    def _notes(self, *doors: str) -> Iterator[tuple[Charge, Any]]:
        """This session's charges through the given doors, oldest first, with their notes."""
        for charge in self.curator.ledger.charges():
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
        named: tuple[str, str] | None = None,
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

    def begin(self, flight: Flight, order: Order, *, analyst: str, named: tuple[str, str] | None = None) -> None:
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
            **({"account": self.settings} if self.begun is None else {}),
            **({"since": self.transcript.moment} if self._crowded else {}),
            **({} if named is None else {"request": {"name": named[0], "asked": named[1]}}),
        }
        request = self._new_id()
        if named is not None:
            self.requests[named[0]] = request, analyst, named[1]
        directs: Directs = [(goal, goal.as_asked) for goal, _ in order.directs.values()]
        flight.owned = directs, [(goal, _components(goal, parts)) for goal, parts in rents]
        flight.number, flight.request, flight.note = self._next, request, note
        flight.name, flight.ahead = named and named[0], self._crowded
        self._next += 1  # the request's name is used up even if the request fails
        self._line.append(flight)

    @property
    def _crowded(self) -> bool:
        """Whether charges may come before the one that is about to begin which are not in the transcript yet."""
        return bool(self._line)

    def _new_id(self) -> str:
        """The id of the next charge."""
        return f"{self.name}:{self._next}"

    def give_up(self, flight: Flight) -> None:
        """Say that nobody knows what became of a flight, unless that is known; it may have begun or not."""
        if flight.outcome == "flying":
            flight.outcome = "unknown"

    def ready(self) -> None:
        """Wait until another charge may begin, with everything here that the ledger holds; called with the lock."""
        while True:
            while self._line and self._next - self._line[0].number >= IN_FLIGHT:
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
            self._line.popleft()
            self._interrupted, self._ahead = True, None
            self._moved.notify_all()

    def _land(self, flight: Flight) -> None:
        """Take what was measured, in turn."""
        try:
            with self.lock:
                while flight.outcome != "unknown" and flight in self._line and self._line[0] is not flight:
                    self._wait()
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
                self._line.popleft()
                self._moved.notify_all()
        except BaseException:
            flight.outcome = "unknown"  # committed perhaps, and not here: the next one rebuilds
            self._interrupted = True
            raise

    def _forget(self, flight: Flight) -> None:
        """A charge that was refused leaves no trace; its number is free again unless a later one was given out."""
        with self.lock:
            if self._next == flight.number + 1:
                self._next -= 1
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
        _keep(self.own, goal, Guarded(self.transcript.moment, np.array(note["values"]), *promise))

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
            rented = [(goal, _components(goal, map(tuple, parts))) for goal, parts in goals]
            owned = [self._direct(facts) for facts in note["direct"]], rented
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

    def _direct(self, facts: Any) -> tuple[Goal, Marginal | Contrasts]:
        """A goal and what was measured for it; notes of version 0.1 are about both halves of a signed sum."""
        goal = self._goal(facts)
        return goal, goal.marginal if facts.get("halved", goal.signed) else goal.as_asked

    def _goal(self, facts: Any) -> Goal:
        return restored(self.curator.schema, facts)

    def _take(self, measured: Sequence[Measurement], note: Any, owned: Owned | None = None) -> None:
        take(self, measured, note, owned or self._own(note))
        self._digests[self.transcript.moment] = self.transcript.digest


class Held(Protocol):
    """What charges add to: a record, or what it will be."""

    transcript: Transcript
    own: Any  # lists of `Own` by the key of their goal
    directs: int
    cells: bool | None
    begun: dict[str, float | None] | None
    before: int | None


def take(held: Held, measured: Sequence[Measurement], note: Any, owned: Owned) -> None:
    """Add one charge. What belongs to single goals is kept first: nobody reads it before its moment has come."""
    directs, rented = owned
    transcript, moment = held.transcript, held.transcript.moment + 1
    bought, asked = len(note["parts"]), len(note["parts"]) + len(note["direct"])
    held.cells = note["cells"]
    whole = [one for one, (goal, _) in zip(measured[bought:asked], directs, strict=True) if _tells_parts(one, goal)]
    keys = [tuple(key) for key in note["parts"]]
    if held.begun is None:
        held.begun = note.get("account", {})  # none in notes of versions that had one account only
    if held.before is None and (note["parts"] or note["rent"] or (whole and not held.cells)):
        held.before = held.directs + (0 if note["parts"] or note["rent"] else len(directs))
    for measurement, (goal, _) in zip(measured[bought:asked], directs, strict=True):
        held.directs += 1
        _keep(held.own, goal, Direct(moment, measurement, goal.signed, held.directs))
    single = iter(measured[asked:])
    for goal, contrasts in rented:
        components = {}
        for part, _, factor in contrasts:
            measurement = next(single)
            value = factor * float(measurement.values.reshape(-1)[0])
            components[part] = Component(value, (factor * spread(measurement)) ** 2)
        _keep(held.own, goal, Rented(moment, components))
    transcript.add(
        [*measured[:bought], *([] if held.cells else whole)],
        cells=bool(held.cells),
        keys=keys,
        beside=[*measured[asked:], *measured[bought:asked]],
    )


def _keep(kept: dict[str, list[Own]], goal: Goal, own: Own) -> None:
    kept.setdefault(goal.key, []).append(own)


def _kind_of(curator: Curator) -> type[Record]:
    if not isinstance(curator.ledger, SharedLedger):
        return Record
    from maquette.session.shared import SharedRecord

    return SharedRecord


def is_shared(charge: Charge) -> bool:
    """Whether a charge was made where several processes share the ledger: its place is that in the ledger."""
    return "." in charge.id.rpartition(":")[2]


def _number(charge: Charge) -> int:
    return int(charge.id.rpartition(":")[2])


def in_order(notes: Iterable[tuple[Charge, Any]]) -> Iterator[tuple[Charge, Any]]:
    """Charges by their number in the session; what guards did comes where it was, when nothing was in flight.

    So do charges of several processes, which have no numbers of their own.

    A number was given out only when all numbers `IN_FLIGHT` below it were settled, so few have to be held back.
    """
    held: list[tuple[int, int, Charge, Any]] = []
    for place, (charge, note) in enumerate(notes):
        if note is None or "values" in note or is_shared(charge):
            yield from ((one, its) for _, _, one, its in sorted(held))
            held = []
            yield charge, note
            continue
        heapq.heappush(held, (_number(charge), place, charge, note))
        if len(held) > IN_FLIGHT:
            *_, first, its = heapq.heappop(held)
            yield first, its
    yield from ((one, its) for _, _, one, its in sorted(held))


def _components(goal: Goal, parts: Iterable[Columns]) -> Components:
    """The contrasts rented for a goal, by part, and the factors that convert them to counts."""
    view = goal.view(cells=False)
    assert view is not None, "only a goal with a view is rented for"
    found = []
    for part in parts:
        component = view.component(part)
        assert component is not None, "only a part that has a component is rented"
        found.append((part, *component))
    return found


def _tells_parts(measurement: Measurement, goal: Goal) -> bool:
    return goal.tells_parts and isinstance(measurement.event, DiscreteGaussian)


_RECORDS: WeakValueDictionary[tuple[int, str], Record] = WeakValueDictionary()  # a record keeps its curator alive
_OPENING = threading.Lock()
