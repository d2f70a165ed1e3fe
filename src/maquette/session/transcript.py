"""Transcript: everything a session has measured, in order, and its estimates as of any moment.

Every measured piece (one set of columns in one charge) adds to what is known of that set by inverse variance. The
state after each charge is kept, so that a question can be answered from the earliest moment at which enough was known:
that answer is a function of the question and the ledger, the same whenever it is asked, before and after a restart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.estimates import Columns, Residuals, spread, subsets
from maquette.query import Contrasts, Marginal, orthonormal, residual
from maquette.schema import Schema
from maquette.session.ahead import Layered
from maquette.session.course import Course, as_of
from maquette.session.precision.bases import inverse, is_plain, plain, question_of, scale, summed, whole_kind
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
    if not is_plain(part):
        return question_of(schema, part)
    return residual(schema, part) if part else Marginal(schema)


@lru_cache(KEPT)
def _norms(schema: Schema, part: Columns) -> Values:
    """The norms of the contrasts that measure a part, in the shape of the part."""
    question, norms = part_question(schema, part), np.ones(())
    assert isinstance(question, Contrasts)
    for matrix in question.matrices:
        norms = np.multiply.outer(norms, np.linalg.norm(matrix, axis=1))
    return norms


def _as_parts(schema: Schema, key: Columns, values: Values, variances: Values, part: Columns) -> Part:
    """Numbers of another basis as Helmert coefficients of a part, with their variances; dependence is left out."""
    for name in plain(key):  # the first axis is replaced by a new last one, or added up
        rows = orthonormal(schema[name].size)[1:] if name in part else np.ones(schema[name].size)
        turn = np.atleast_2d(rows) @ inverse(schema, key, name)
        values = np.tensordot(values, turn, axes=(0, 1))
        variances = np.tensordot(variances, turn**2, axes=(0, 1))
    shape = tuple(schema[name].size - 1 for name in part)
    return np.asarray(values).reshape(shape), np.asarray(variances).reshape(shape)


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


States = dict[Columns, list[State]] | Layered[Columns, State]


class Transcript:
    """Parts by set of columns, each with its states, oldest first."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.moment = 0  # charges added; whatever has a later moment is not there yet
        self._next = 0
        self._exact_rows = False
        self._states: States = {}
        self._mixed = False  # whether anything was measured in a basis that is not a part's own
        self._digest = hashlib.sha256(schema.digest.encode())
        self._resumed: str | None = None  # the digest of a checkpoint, until a charge follows

    @property
    def digest(self) -> str:
        """A hash of all numbers released until now: replaying the ledger must give the same one."""
        return self._digest.hexdigest() if self._resumed is None else self._resumed

    @property
    def rows_are_public(self) -> bool:
        """Whether the number of rows is public, so that it has no noise."""
        return self._exact_rows

    def states(self, part: Columns) -> list[State]:
        """What was known of a part, oldest first."""
        return self._states[part]

    def every_state(self) -> list[tuple[Columns, list[State]]]:
        """All parts with their states."""
        return [(part, self._states[part]) for part in list(self._states)]

    def resume(self, moment: int, digest: str, states: dict[Columns, list[State]]) -> None:
        """Go on from a checkpoint; the charges that follow must be chained."""
        self.moment, self._states = moment, states
        self._mixed = not all(map(is_plain, states))
        self._resumed, self._digest = digest, hashlib.sha256()

    def shelve(self, states: dict[Columns, list[State]]) -> None:
        """Read the states from elsewhere from now on; they are the same."""
        self._states = states

    def fork(self) -> Transcript:
        """A copy to which charges can be added; this one stays as it is."""
        other = copy(self)
        other._states = Layered(self._states)
        other._digest = self._digest.copy()
        return other

    def add(
        self,
        measured: Iterable[Measurement],
        *,
        cells: bool = False,
        keys: Sequence[Columns] = (),
        beside: Iterable[Measurement] = (),
        chained: bool = False,
    ) -> None:
        """Add one charge: pieces as `part_question` defines them, or whole tables; `cells`: a table of the universe.

        `keys` name the first of them; what is measured in another basis is known by its key alone. What is kept
        elsewhere (`beside`) counts for the digest alone. The charge has its moment last: until then nobody reads it.
        `chained`: the digest follows from the one before and this charge alone, so a checkpoint can go on with it.
        """
        self._next = self.moment + 1
        if chained:
            self._digest = hashlib.sha256(bytes.fromhex(self.digest))
        assert chained or self._resumed is None, "a checkpoint is followed by chained charges"
        self._resumed = None
        for i, measurement in enumerate(measured):
            self._digest.update(measurement.question.key.encode() + measurement.values.tobytes())
            if i < len(keys) and not is_plain(keys[i]):
                unit = scale(self.schema, keys[i])
                equal = np.full(measurement.values.shape, (unit / spread(measurement)) ** 2)
                self._append(keys[i], measurement.values / unit * equal, equal)
                continue
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
        for measurement in beside:
            self._digest.update(measurement.question.key.encode() + measurement.values.tobytes())
        self.moment = self._next

    def _append(self, part: Columns, sums: Values, precisions: Values) -> None:
        if self._exact_rows and not part:
            return
        self._mixed |= not is_plain(part)
        states = self._states.setdefault(part, [])
        state = State.of(self._next, sums, precisions)
        if states:
            state = states[-1].and_then(state)
        if states and states[-1].moment == self._next:
            states[-1] = state
        else:
            states.append(state)

    def fix_rows(self, rows: float) -> None:
        """Set the public number of rows, before anything else: no measurement can add to it."""
        self._exact_rows = True
        self._states.setdefault((), []).append(State.of(0, np.array(rows * EXACT), np.array(EXACT)))

    def known(self, parts: Iterable[Columns], moment: int | None = None) -> dict[Columns, Known]:
        """What is known of these parts, now or at a moment; parts not measured are left out."""
        states = {part: self._at(part, moment) for part in parts}
        return {part: state.known for part, state in states.items() if state is not None}

    def course(self, view: View) -> Course:
        """How well a question is known, from one moment to the next, until now."""
        return Course(self._states, view, self.moment, mixed=self._mixed)

    def known_of(self, view: View, moment: int | None = None) -> dict[Columns, Known]:
        """What is known of the parts of a question, in terms of its gains; parts not measured are left out."""
        return self.course(view).known(moment)

    def first(self, key: Columns) -> int | None:
        """The moment at which something was first measured under a key; None if that is not there."""
        states = self._states.get(key)
        return states[0].moment if states and states[0].moment <= self.moment else None

    def latest(self, key: Columns) -> Known | None:
        """What is known now under one key."""
        return self._known_at(key, None)

    def _known_at(self, key: Columns, moment: int | None) -> Known | None:
        state = self._at(key, moment)
        return None if state is None else state.known

    def complete(self, view: View) -> int | None:
        """The first moment at which all parts of a question were known; None if they are not."""
        first, now = 0, self.moment
        for part in view.gains:
            keys = (part, *view.others.get(part, ())) if self._mixed else (part,)
            moments = [states[0].moment for key in keys if (states := self._states.get(key))]
            if not moments:
                return None
            first = max(first, min(moments))
        return first if first <= now else None

    def changes(self, view: View, after: int) -> list[int]:
        """The moments after this one at which what is known about a question changed."""
        return self.course(view).changes(after)

    def reader(self, moment: int | None = None) -> Read:
        """Reads every part as of a moment (default: now)."""

        def read(part: Columns) -> Part:
            state = self._at(part, moment)
            assert state is not None, "only covered questions are read"
            return state.part

        return read

    def _at(self, part: Columns, moment: int | None) -> State | None:
        return as_of(self._states.get(part), self.moment if moment is None else moment)

    def has(self, part: Columns) -> bool:
        """Whether a part was measured at all."""
        return self._at(part, None) is not None

    def histogram(self) -> Values:
        """The cells of the universe, if they were measured as one histogram."""
        read = self.reader()
        return read(CELLS)[0] + read(())[0] / self.schema.size

    def residuals(self) -> Residuals:
        """Everything known now about sets of columns, for a fit."""
        gathered, now = Residuals(self.schema), self.moment
        for key in list(self._states):
            state = self._at(key, now)
            if state is None or summed(key) is not None:
                continue  # one direction of a column; a fit knows levels only
            values, variances = state.part
            if whole_kind(key) is not None:
                for part in filter(None, subsets(plain(key))):
                    gathered.combine(part, *_as_parts(self.schema, key, values, variances, part))
                continue
            if not is_plain(key):
                values, variances = _as_parts(self.schema, key, values, variances, plain(key))
            gathered.combine(plain(key), values, variances)
        return gathered

    @property
    def sets(self) -> int:
        """How many parts were measured, the number of rows among them."""
        return len(self._states)

    def __repr__(self) -> str:
        cells = sum(math.prod(states[-1].sums.shape) for states in self._states.values())
        return f"Transcript({self.moment} charges, {self.sets} sets of columns, {cells:,} numbers)"
