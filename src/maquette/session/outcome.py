"""Outcome: what will be known once an order is carried out; a plan adds to it what it would buy."""

from __future__ import annotations

from collections.abc import Mapping

from maquette.estimates import Columns, subsets
from maquette.session.offer import Offer
from maquette.session.precision.view import View
from maquette.session.precision.width import Known, known_of
from maquette.session.pricing import after
from maquette.session.question import Goal
from maquette.session.transcript import Transcript


class Outcome:
    """What will be known once an order is carried out."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._parts: dict[Columns, Known] = {}
        self._rented: dict[str, dict[Columns, Known]] = {}
        self._found: dict[str, dict[Columns, Known]] = {}  # by goal, until something is added

    def fork(self) -> Outcome:
        """The same, to which more is added while this one stays as it is; for one to which nothing was added."""
        other = Outcome(self._transcript)
        other._found = self._found
        return other

    def known(self, view: View, goal: Goal) -> dict[Columns, Known]:
        """What will be known of the parts of a goal, including parts rented for it."""
        if (found := self._found.get(goal.key)) is None:
            found = self._found[goal.key] = known_of(view, self._look)
        return {**found, **self._rented.get(goal.key, {})}

    def _look(self, key: Columns) -> Known | None:
        return self._parts[key] if key in self._parts else self._transcript.latest(key)

    def take(self, goal: Goal, offer: Offer) -> None:
        """Include an offer."""
        bases = [(offer.precisions[part], offer.bases[part]) for part in offer.prices]
        self._add({key: ratio * precision for precision, (key, ratio) in bases})
        rented = {part: Known(1.0 / offer.precisions[part], 1, lumped=True) for part in offer.rents}
        if rented:
            self._rented[goal.key] = rented

    def learn(self, goal: Goal, precision: float) -> None:
        """Include a whole table whose cells are measured with this precision: one more piece of each of its parts."""
        schema, columns = goal.marginal.schema, goal.marginal.columns
        wide = tuple(name for name in columns if schema[name].size > 1)
        cells = schema.cells(wide)
        self._add({part: precision * schema.cells(part) / cells for part in subsets(wide)})

    def give_up(self, goal: Goal) -> None:
        """Remove what was to be rented for a goal."""
        self._rented.pop(goal.key, None)

    def _add(self, precisions: Mapping[Columns, float]) -> None:
        self._found = {}
        for key, precision in precisions.items():
            self._parts[key] = after(self._look(key), precision)
