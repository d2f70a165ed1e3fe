"""Knowledge: what a session knows about a goal, since which moment, and from what; a function of its record alone."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from maquette.estimates import Columns
from maquette.session.answering import Numbers, Settled, known_with, measured
from maquette.session.model import Model, model_of
from maquette.session.precision.view import NOTHING, Component, View
from maquette.session.precision.width import Widths
from maquette.session.question import Goal, everyone
from maquette.session.record import Direct, Guarded, Own, Record, Rented
from maquette.session.transcript import Transcript

ROUNDING = 2e-6  # relative precision that splitting a charge may lose


class Knowledge:
    """What was measured, seen through the views of questions and compared with one tolerance."""

    def __init__(self, record: Record, widths: Widths, tolerance: float) -> None:
        self.record = record
        self.widths = widths
        self.tolerance = tolerance
        self._lenses: dict[str, View | None] = {}
        self._settled: dict[str, Settled] = {}
        self._fitted: tuple[int, Model | None] = (-1, None)

    @property
    def transcript(self) -> Transcript:
        """Everything measured until now."""
        return self.record.transcript

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        view = self.view(everyone(self.transcript.schema))
        assert view is not None, "the number of rows has a view"
        values, _ = view.look(self.transcript.reader())
        return max(1.0, float(values))

    def view(self, goal: Goal) -> View | None:
        """How a goal depends on what can be measured; None where that would be too large."""
        if goal.key not in self._lenses:
            self._lenses[goal.key] = goal.view(cells=bool(self.record.cells))
        return self._lenses[goal.key]

    def state(self, goal: Goal) -> Settled | None:
        """Since which moment, and from what, a goal is known within the tolerance; None if it is not."""
        if goal.key not in self._settled:
            settled = self._earliest(goal)
            if settled is None:
                return None
            self._settled[goal.key] = settled
        return self._settled[goal.key]

    def _earliest(self, goal: Goal) -> Settled | None:
        view, found = self.view(goal), list[Settled]()
        if view is not None:
            moment = self._first_fit(view)
            found += [] if moment is None else [Settled(moment)]
        found += [Settled(own.moment, own) for own in self.record.own.get(goal.key, []) if self._fits(view, own)]
        return min(found, key=lambda settled: settled.moment, default=None)

    def _first_fit(self, view: View) -> int | None:
        """The first moment at which the parts alone answer a question within the tolerance.

        More pieces can widen a simultaneous interval, so the moments are tried in order. For single questions with
        Gaussian noise, every piece narrows the interval, so bisection finds the same moment.
        """

        def fits(moment: int) -> bool:
            return self.width(view, moment) <= self.tolerance

        complete = self.transcript.complete(view)
        if complete is None or fits(complete):
            return complete
        if self.widths.simultaneous or not self.widths.gaussian:
            return next(filter(fits, self.transcript.changes(view, complete)), None)
        if not fits(self.transcript.moment):
            return None
        moments = self.transcript.changes(view, complete)
        return moments[bisect_left(moments, True, key=fits)]

    def _fits(self, view: View | None, own: Own) -> bool:
        """Whether a goal's own measurements are within the tolerance, up to rounding."""
        match own:
            case Guarded():
                sure = own.beta <= self.widths.beta and own.simultaneous >= self.widths.simultaneous
                width = own.tolerance if sure else math.inf
            case Direct():
                width = float(measured(own, self.widths).widths.max(initial=0.0))
            case Rented():
                width = math.inf if view is None else self.width(view, own.moment, own.components)
        return width <= self.tolerance * (1 + ROUNDING)

    def width(self, view: View, moment: int, rented: Mapping[Columns, Component] = NOTHING) -> float:
        """The half-width of the noisiest cell as of a moment, in counts; infinite where a part is not known."""
        known = known_with(view, self.transcript.known(view.gains, moment), rented)
        return self.widths.of(view, known) if len(known) == len(view.gains) else math.inf

    def width_after(self, goal: Goal) -> float:
        """Half-width of a goal now, or once it is paid for, in counts."""
        if self.state(goal) is None:
            return self.tolerance
        return float(self.numbers([goal]).reading(goal).widths.max(initial=0.0))

    def model(self, *, stale: int = 1) -> Model:
        """The public model of what is known now; `stale` is how many times charges may have grown since its fit."""
        moment, model = self._fitted
        if model is None or self.transcript.moment > stale * moment:
            moment, model = self.transcript.moment, model_of(self.transcript)
            self._fitted = moment, model
        return model

    def numbers(self, goals: Iterable[Goal]) -> Numbers:
        """The numbers of these goals, each as of the moment it was first precise enough, or else the best known now."""
        settled = {goal.key: self.state(goal) for goal in goals}
        return Numbers(self.record, self.widths, view=self.view, settled=settled, model=self.model)
