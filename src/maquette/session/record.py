"""Record: the durable side of a session: every charge, with a public note from which a restart rebuilds the state."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.errors import BudgetExceeded, LedgerCorrupted
from maquette.estimates import Columns, spread
from maquette.privacy import MAX_UNITS, DiscreteGaussian, Loss, recorded_price
from maquette.privacy.ledger import Charge
from maquette.query import Contrasts
from maquette.session.precision.view import Component
from maquette.session.question import Goal, as_json, from_json
from maquette.session.transcript import Transcript, part_question


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


@dataclass(frozen=True)
class Rented:
    """What some parts contribute to one goal, measured for it alone by the charge `moment`."""

    moment: int
    components: Mapping[Columns, Component]


Own = Guarded | Direct | Rented
Components = list[tuple[Columns, Contrasts, float]]
Owned = tuple[list[Goal], list[tuple[Goal, Components]]]  # measured as asked, and rented


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

    def __bool__(self) -> bool:
        return bool(self.parts or self.directs or self.rents)


class Record:
    """All measurements of one named session on one ledger, replayed when it opens.

    A replayed request is one the ledger already answered: it returns the recorded numbers and charges nothing. Every
    note holds the digest of the transcript before it, so a restart that reaches a different state is refused.
    """

    def __init__(self, curator: Curator, name: str) -> None:
        self.curator = curator
        self.name = f"session:{name}"
        self.lock = threading.RLock()
        self.cells: bool | None = None  # whether questions use the cells of one histogram; None until decided
        self._meant: tuple[Any, Owned] = None, ([], [])  # the last note read, and its content
        self._interrupted = True
        self.refresh()

    def refresh(self) -> None:
        """Rebuild everything from the ledger, when the session opens and after an interrupted charge.

        Ctrl-C may come between the commit of a charge and its return. The charge is then in the ledger, so it must be
        here before the next one.
        """
        if not self._interrupted:
            return
        self.transcript = Transcript(self.curator.schema)
        if self.curator.relation.rows_are_public:
            self.transcript.fix_rows(self.curator.count_rows())
        self.own: dict[str, list[Own]] = {}
        self.directs = self.guards = self._next = 0
        for charge, note in self._notes("measure", "guard.test", "guard"):
            self._recover(charge, note)
        self._interrupted = False

    def _recover(self, charge: Charge, note: Any) -> None:
        if note is None:
            self.guards += 1
        elif "values" in note:
            self._restore(charge, note)
        else:
            self._next = int(charge.id.rpartition(":")[2]) + 1
            if charge.state == "answered":
                self._replay(charge, note)

    @classmethod
    def of(cls, curator: Curator, name: str) -> Record:
        """The record of this name; sessions of one name on one curator share it."""
        with _OPENING:
            known = _RECORDS.get((id(curator), name))
            if known is None:
                _RECORDS[id(curator), name] = known = cls(curator, name)
            return known

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

    def charge(self, order: Order, *, analyst: str) -> Loss:
        """Measure what was ordered, as one charge."""
        rents = [(goal, parts) for goal, parts in order.rents.values()]
        note = {
            "parts": [list(part) for part in order.parts],
            "direct": [{**as_json(goal.marginal), "signed": goal.signed} for goal, _ in order.directs.values()],
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
        }
        self._refuse_more_than_ever(order)
        request = f"{self.name}:{self._next}"
        self._next += 1  # the request's name is used up even if the request fails
        self._interrupted = True
        directs = [goal for goal, _ in order.directs.values()]
        self._meant = note, (directs, [(goal, _components(goal, parts)) for goal, parts in rents])
        try:
            measured = self._measure(request, note, analyst)
        except BudgetExceeded:
            self._next -= 1  # unless nothing was charged
            self._interrupted = False
            raise
        self._take(measured, note)
        self._interrupted = False
        return self.curator.cost_of(measured)

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
        self._keep(goal, Guarded(self.transcript.moment, np.array(note["values"]), *promise))

    def _restore(self, charge: Charge, note: Any) -> None:
        """Restore a test that a guard accepted before a restart."""
        recorded = self.curator.recall(charge.id)
        if recorded is not None and not recorded[0][0]:
            self.accept(Goal(from_json(self.curator.schema, note["need"])), note)

    def _replay(self, charge: Charge, note: Any) -> None:
        if note["state"] != self.transcript.digest:
            raise LedgerCorrupted(
                f"{self.name!r} does not reach the state it had before charge {charge.id!r}",
                advice="The ledger verifies, so "
                "the program has changed: open the session with the version that wrote it, or under another name",
            )
        self._take(self._measure(charge.id, note, charge.analyst), note)

    def _own(self, note: Any) -> Owned:
        """What a note says was measured for single goals; each note is read once."""
        known, owned = self._meant
        if known is not note:
            goals = [(self._goal(stored), stored["parts"]) for stored in note["rent"]]
            rented = [(goal, _components(goal, map(tuple, parts))) for goal, parts in goals]
            owned = [self._goal(stored) for stored in note["direct"]], rented
            self._meant = note, owned
        return owned

    def _measure(self, request: str, note: Any, analyst: str) -> tuple[Measurement, ...]:
        directs, rented = self._own(note)
        schema = self.curator.schema
        return self.curator.measure_many(
            [
                *(part_question(schema, tuple(part)) for part in note["parts"]),
                *(goal.marginal for goal in directs),
                *(contrast for _, components in rented for _, contrast, _ in components),
            ],
            **recorded_price(self.curator.budget, sum(note["units"])),
            shares=note["units"],
            request=request,
            analyst=analyst,
            note=note,
        )

    def _goal(self, stored: Any) -> Goal:
        return Goal(from_json(self.curator.schema, stored), stored["signed"])

    def _take(self, measured: Sequence[Measurement], note: Any) -> None:
        directs, rented = self._own(note)
        bought, asked = len(note["parts"]), len(note["parts"]) + len(note["direct"])
        self.cells = note["cells"]
        whole = [one for one, goal in zip(measured[bought:asked], directs, strict=True) if _tells_parts(one, goal)]
        self.transcript.add([*measured[:bought], *([] if self.cells else whole)], cells=bool(self.cells))
        moment = self.transcript.moment
        for measurement, goal in zip(measured[bought:asked], directs, strict=True):
            self.directs += 1
            self._keep(goal, Direct(moment, measurement, goal.signed, self.directs))
        owned = iter(measured[asked:])
        for goal, contrasts in rented:
            components = {}
            for part, _, factor in contrasts:
                measurement = next(owned)
                self.transcript.note(measurement.question.key, measurement.values)
                value = factor * float(measurement.values.reshape(-1)[0])
                components[part] = Component(value, (factor * spread(measurement)) ** 2)
            self._keep(goal, Rented(moment, components))
        for measurement in measured[bought:asked]:
            self.transcript.note(measurement.question.key, measurement.values)

    def _keep(self, goal: Goal, own: Own) -> None:
        self.own.setdefault(goal.key, []).append(own)


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
