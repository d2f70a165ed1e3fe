"""Transcript: everything a session has measured, in order, and its estimates as of any moment.

Every measured piece (one set of columns in one charge) adds to what is known of that set by inverse variance. The
state after each charge is kept, so that a question can be answered from the earliest moment at which enough was known:
that answer is a function of the question and the ledger, the same whenever it is asked, before and after a restart.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates import Columns, Residuals, spread
from maquette.query import Contrasts, Marginal, residual
from maquette.schema import Schema
from maquette.session.precision.view import CELLS, Part, Read, View
from maquette.session.precision.width import Known

Values = NDArray[np.float64]

EXACT = 1e30  # the precision of a number that is public
KEPT = 2**13  # questions kept, each of them small


@lru_cache(KEPT)
def part_question(schema: Schema, part: Columns) -> Marginal | Contrasts:
    """The question whose answer is a part: the number of rows, or what a set of columns says beyond its subsets."""
    if part == CELLS:
        return Marginal(schema, schema.names)
    return residual(schema, part) if part else Marginal(schema)


@lru_cache(KEPT)
def _norms(schema: Schema, part: Columns) -> Values:
    """The norms of the contrasts that measure a part, in the shape of the part."""
    question, norms = part_question(schema, part), np.ones(())
    assert isinstance(question, Contrasts)
    for matrix in question.matrices:
        norms = np.multiply.outer(norms, np.linalg.norm(matrix, axis=1))
    return norms


@dataclass(frozen=True)
class State:
    """What was known of a part after the charge `moment`."""

    moment: int
    sums: Values
    spreads: Values
    weight: float
    pieces: int

    @classmethod
    def of(cls, moment: int, sums: Values, precisions: Values) -> State:
        """One piece, given its coefficients times their precisions; its weight is its lowest precision."""
        weight = float(precisions.min())
        return cls(moment, weight * sums / precisions, weight**2 / precisions, weight, 1)

    def and_then(self, later: State) -> State:
        """Combine with a later piece.

        A piece has one weight for all its coefficients: the share of its noise in an answer must be proportional to the
        question's direction, whatever else was bought (`maquette.session.precision.width`).
        """
        weight, pieces = self.weight + later.weight, self.pieces + later.pieces
        return State(later.moment, self.sums + later.sums, self.spreads + later.spreads, weight, pieces)

    @cached_property
    def part(self) -> Part:
        """Coefficients, and their variances."""
        return self.sums / self.weight, self.spreads / self.weight**2

    @cached_property
    def known(self) -> Known:
        """The largest variance of a coefficient, and the number of pieces."""
        return Known(1.0 / self.weight, self.pieces)


_moment = attrgetter("moment")


class Transcript:
    """Parts by set of columns, each with its states, oldest first."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.moment = 0
        self._exact_rows = False
        self._states: dict[Columns, list[State]] = {}
        self._digest = hashlib.sha256(schema.digest.encode())

    @property
    def digest(self) -> str:
        """A hash of all numbers released until now: replaying the ledger must give the same one."""
        return self._digest.hexdigest()

    def add(self, measured: Iterable[Measurement], *, cells: bool = False) -> None:
        """Add one charge: pieces as `part_question` defines them, or whole tables; `cells`: a table of the universe."""
        self.moment += 1
        for measurement in measured:
            self._digest.update(measurement.question.key.encode() + measurement.values.tobytes())
            if cells and isinstance(measurement.question, Marginal) and measurement.question.axes:
                precision = np.full(measurement.values.size, spread(measurement) ** -2)
                counts = measurement.values.reshape(-1)
                self._append(CELLS, (counts - counts.mean()) * precision, precision)
                continue
            question = measurement.question
            part = question.columns if isinstance(question, Contrasts) else ()
            if part and question is part_question(self.schema, part):
                norms = _norms(self.schema, part)
                precision = 1.0 / (spread(measurement) ** 2 / norms**2)
                self._append(part, measurement.values / norms * precision, precision)
                continue
            gathered = Residuals(self.schema)
            gathered.add(measurement)
            for part, sums, precisions in gathered.stored():
                self._append(part, sums, precisions)

    def note(self, key: str, values: Values) -> None:
        """Add numbers that are kept elsewhere, for the digest alone."""
        self._digest.update(key.encode() + values.tobytes())

    def _append(self, part: Columns, sums: Values, precisions: Values) -> None:
        if self._exact_rows and not part:
            return
        states = self._states.setdefault(part, [])
        state = State.of(self.moment, sums, precisions)
        if states:
            state = states[-1].and_then(state)
        if states and states[-1].moment == self.moment:
            states[-1] = state
        else:
            states.append(state)

    def fix_rows(self, rows: float) -> None:
        """Set the public number of rows, before anything else: no measurement can add to it."""
        self._exact_rows = True
        self._states[()] = [State.of(0, np.array(rows * EXACT), np.array(EXACT))]

    def known(self, parts: Iterable[Columns], moment: int | None = None) -> dict[Columns, Known]:
        """What is known of these parts, now or at a moment; parts not measured are left out."""
        states = {part: self._at(part, moment) for part in parts}
        return {part: state.known for part, state in states.items() if state is not None}

    def complete(self, view: View) -> int | None:
        """The first moment at which all parts of a question were known; None if they are not."""
        needed = [self._states.get(part) for part in view.gains]
        return max((states[0].moment for states in needed if states), default=0) if all(needed) else None

    def changes(self, view: View, after: int) -> list[int]:
        """The moments after this one at which what is known about a question changed."""
        needed = [self._states.get(part, []) for part in view.gains]
        return sorted({state.moment for states in needed for state in states if state.moment > after})

    def reader(self, moment: int | None = None) -> Read:
        """Reads every part as of a moment (default: now)."""

        def read(part: Columns) -> Part:
            state = self._at(part, moment)
            assert state is not None, "only covered questions are read"
            return state.part

        return read

    def _at(self, part: Columns, moment: int | None) -> State | None:
        states = self._states.get(part)
        if not states:
            return None
        if moment is None:
            return states[-1]
        if states[-1].moment <= moment:
            return states[-1]
        place = bisect_right(states, moment, key=_moment)
        return states[place - 1] if place else None

    def has(self, part: Columns) -> bool:
        """Whether a part was measured at all."""
        return part in self._states

    def histogram(self) -> Values:
        """The cells of the universe, if they were measured as one histogram."""
        read = self.reader()
        return read(CELLS)[0] + read(())[0] / self.schema.size

    def residuals(self) -> Residuals:
        """Everything known now about sets of columns, for a fit."""
        gathered = Residuals(self.schema)
        for part, states in self._states.items():
            gathered.combine(part, *states[-1].part)
        return gathered

    @property
    def sets(self) -> int:
        """How many parts were measured, the number of rows among them."""
        return len(self._states)

    def __repr__(self) -> str:
        cells = sum(math.prod(states[-1].sums.shape) for states in self._states.values())
        return f"Transcript({self.moment} charges, {self.sets} sets of columns, {cells:,} numbers)"
