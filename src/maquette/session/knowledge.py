"""Knowledge: what a session knows about a goal, since which moment, and from what; a function of its record alone."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from maquette.bounded import Bounded
from maquette.estimates import Columns
from maquette.releases import Start
from maquette.session.ahead import Ahead
from maquette.session.answering import Looks, Numbers, Settled, known_with, measured, whole_width
from maquette.session.model import Model, model_of
from maquette.session.own import Direct, Guarded, Own, Rented, Slice
from maquette.session.precision.account import Account
from maquette.session.precision.bare_view import wholes_of
from maquette.session.precision.bases import ANCHOR
from maquette.session.precision.shares import DIVISION, DIVISIONS
from maquette.session.precision.view import NOTHING, Component, View
from maquette.session.precision.whole_view import WholeView
from maquette.session.precision.width import Known, Widths, deviation
from maquette.session.pricing import Pricing
from maquette.session.question import Goal, everyone, places_of
from maquette.session.record import Record
from maquette.session.transcript import Transcript

GRID = 2  # scales to each factor of two
VIEWS, SETTLED = 4_000, 200_000  # kept at a time; all of it can be computed again
ROUNDING = 2e-6  # relative precision that splitting a charge may lose


class Knowledge:
    """What was measured, seen through the views of questions and compared with one tolerance."""

    def __init__(
        self,
        record: Record,
        widths: Widths | Callable[[], Widths],
        tolerance: float,
        *,
        start: Start | None = None,
        given: int | None = None,
    ) -> None:
        self.start = start
        self.record = record
        self._widths = widths
        self.tolerance = tolerance
        self._given = given  # the approximate number of rows, where it is public
        self._lenses: Bounded[str, View | None] = Bounded(VIEWS, lambda view: view.weight if view else 0)
        self._settled: Bounded[str, Settled] = Bounded(SETTLED)
        self._unknown: Bounded[str, tuple[Transcript, int, int, Widths]] = Bounded(VIEWS)  # goals, as of which record
        self._looks: tuple[Transcript | None, Looks] = None, {}  # what a transcript says of all rows, by moment
        self._fitted: tuple[int, Model | None] = (-1, None)
        self._fitting = threading.Lock()

    @property
    def widths(self) -> Widths:
        """How wide intervals are, by what the record has spent of its doubt."""
        return self._widths() if callable(self._widths) else self._widths

    @property
    def transcript(self) -> Transcript:
        """Everything measured until now."""
        return self.record.transcript

    @property
    def rows(self) -> float:
        """The estimated number of rows; before it was measured, the public one."""
        if not self.transcript.has(()):
            return float(self._given or 1)
        view = self.view(everyone(self.transcript.schema))
        assert view is not None, "the number of rows has a view"
        values, _ = view.look(self.transcript.reader())
        return max(1.0, float(values))

    def view(self, goal: Goal) -> View | None:
        """How a goal depends on what can be measured; None where that would be too large."""
        try:
            return self._lenses[goal.key]
        except KeyError:
            self._lenses[goal.key] = view = goal.view(cells=bool(self.record.cells))
            return view

    def state(self, goal: Goal) -> Settled | None:
        """Since which moment, and from what, a goal is known within the tolerance; None if it is not."""
        settled = self._settled.get(goal.key)
        if settled is None:
            settled = self._found(goal)
        return settled

    def _found(self, goal: Goal) -> Settled | None:
        """The same, looked for; a goal that was not found is looked for again once the record or the widths change."""
        transcript, widths, before = self.transcript, self.widths, self._unknown.get(goal.key)
        now = transcript.moment, len(self.record.own.get(goal.key, ()))
        if before is not None and before[0] is transcript and before[1:3] == now and before[3] is widths:
            return None
        if (settled := self._earliest(goal)) is None:
            self._unknown[goal.key] = transcript, *now, widths
        else:
            self._settled[goal.key] = settled
        return settled

    def _earliest(self, goal: Goal) -> Settled | None:
        view, found, now = self.view(goal), list[Settled](), self.transcript.moment
        if view is not None:
            moment = self._first_fit(view)
            found += [] if moment is None else [Settled(moment)]
            wholes = [(self._first_fit(whole), whole) for whole in wholes_of(view, self.record.wholes)]
            found += [Settled(moment, whole=whole) for moment, whole in wholes if moment is not None]
        # Of equals the first counts, so what comes next is only looked at where it is earlier.
        before = min((settled.moment for settled in found), default=now + 1)
        kept = [own for own in self.record.own.get(goal.key, ()) if own.moment < before]
        found += [Settled(own.moment, own) for own in kept if self._fits(view, own)]
        before = min((settled.moment for settled in found), default=now + 1)
        found += [Settled(one.moment, one) for one in self._slices(goal, before)]
        return min(found, key=lambda settled: settled.moment, default=None)

    def _slices(self, goal: Goal, before: int) -> Iterator[Slice]:
        """A goal as cells of tables that were measured within the tolerance before a moment.

        Sessions that version 0.1 began, whose first charge has no settings, keep the answers that they gave.
        """
        for key, order in () if self.record.begun == {} else goal.tables:
            for own in self.record.own.get(key, ()) if key != goal.key else ():
                if isinstance(own, Direct) and own.moment < before and self._fits(None, own):
                    places = places_of(goal, order)
                    yield from [] if places is None else [Slice(own, places)]

    def _first_fit(self, view: View) -> int | None:
        """The first moment at which the parts alone answer a question within the tolerance.

        More pieces can widen a simultaneous interval, so the moments are tried in order. For single questions with
        Gaussian noise, every piece narrows the interval, so bisection finds the same moment.
        """

        complete = self.transcript.complete(view)
        if complete is None:
            return None
        course = self.transcript.course(view)
        widths = self.widths  # no older than the course
        least = widths.fewest(view) if widths.mixed(view) and not isinstance(view, WholeView) else 0.0

        def fits(moment: int) -> bool:
            return self._width(view, course.known(moment), widths) <= self.tolerance

        def possible(moment: int) -> bool:
            return not least or deviation(view, course.known(moment)) * least <= self.tolerance

        if possible(complete) and fits(complete):
            return complete
        if widths.simultaneous or not widths.gaussian:
            moments = course.changes(complete)
            return next(filter(fits, moments[bisect_left(moments, True, key=possible) :]), None)
        if not fits(course.now):
            return None
        moments = course.changes(complete)
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
        return self._width(view, known_with(view, self.transcript.known_of(view, moment), rented), self.widths)

    def _width(self, view: View, known: Mapping[Columns, Known], widths: Widths) -> float:
        if isinstance(view, WholeView):
            return whole_width(view, known, self.transcript, widths, self.record.wholes[view.key])
        return widths.of(view, known) if len(known) == len(view.gains) else math.inf

    def width_after(self, goal: Goal) -> float:
        """Half-width of a goal now, or once it is paid for, in counts."""
        if self.state(goal) is None:
            return self.tolerance
        return float(self.numbers([goal]).reading(goal).widths.max(initial=0.0))

    def measured_alone(self, goal: Goal) -> bool:
        """Whether a goal was measured as asked, at whatever precision."""
        return any(isinstance(own, Direct) for own in self.record.own.get(goal.key, ()))

    def width_now(self, goal: Goal) -> float:
        """Half-width of a goal by what was measured until now, in counts; infinite where the model would answer."""
        numbers = self.numbers([goal])
        return math.inf if numbers.guessed(goal) else float(numbers.reading(goal).widths.max(initial=0.0))

    def model(self, *, stale: int = 1) -> Model:
        """The public model of what is known now; `stale` is how many times charges may have grown since its fit.

        A fit takes long: it holds up nobody but those who want the model too.
        """
        moment, model = self._fitted
        if model is None or self.transcript.moment > stale * moment:
            with self._fitting:
                moment, model = self._fitted
                if model is None or self.transcript.moment > stale * moment:
                    moment, model = self.transcript.moment, model_of(self.transcript, self.start)
                    self._fitted = moment, model
        return model

    def at(self, tolerance: float, beta: float) -> Knowledge:
        """The same record, compared with another tolerance at another failure probability."""

        def widths() -> Widths:  # by what is spent when they are read
            return replace(self.widths, beta=beta)

        other = Knowledge(self.record, widths, tolerance, start=self.start, given=self._given)
        other._lenses = self._lenses
        return other

    def foreseen(self, ahead: Ahead) -> Knowledge:
        """What will be known when everything in flight is measured; for plans, not for answers."""
        return _Foreseen(self, ahead)

    def numbers(self, goals: Iterable[Goal]) -> Numbers:
        """The numbers of these goals, each as of the moment it was first precise enough, or else the best known now."""
        settled = {goal.key: self.state(goal) for goal in goals}
        if self._looks[0] is not self.transcript:
            self._looks = self.transcript, Bounded(VIEWS)
        return Numbers(
            self.record,
            self.widths,
            view=self.view,
            settled=settled,
            model=self.model,
            rows=lambda: self.rows,
            looks=self._looks[1],
        )


class _Foreseen(Knowledge):
    """Knowledge on charges whose numbers are not known yet; `Ahead` has all of a record that plans read."""

    def __init__(self, now: Knowledge, ahead: Ahead) -> None:
        super().__init__(
            cast("Record", ahead),
            lambda: now.widths.spent(ahead.before).anchored(ahead.wholes.get(ANCHOR)),
            now.tolerance,
            start=now.start,
            given=now._given,
        )
        self._now = now
        self._lenses = now._lenses

    def state(self, goal: Goal) -> Settled | None:
        """Since which moment a goal is known; what is known now stays known."""
        return self._now.state(goal) or super().state(goal)


class Doubts:
    """The widths of a session, by the settings with which its record began and what it spent of its doubt.

    What precisions to expect (`maquette.session.precision.account`) must be fixed before any noise. So the settings of
    the session that makes the first charge are recorded with it, and all sessions of the record use them. A record that
    began without settings keeps the account it began with. `public`: the tolerance follows from public facts alone.
    """

    def __init__(self, record: Record, pricing: Pricing, plain: Widths, *, alpha: float, public: bool) -> None:
        self._record = record
        self._pricing = pricing
        self._plain = plain
        self._alpha = alpha
        self._public = public
        self._tolerance: float | None = None
        self._settings: dict[str, float | None] = {
            "alpha": alpha,
            "beta": plain.beta,
            "scale": None,
            "division": DIVISION,
        }
        self._known: tuple[object, Widths] | None = None

    def tolerate(self, tolerance: float) -> None:
        """Set the tolerance; where it follows from public facts, it is the scale of what to expect."""
        self._tolerance, self._known = tolerance, None
        if self._public:
            self._settings["scale"] = tolerance

    def widths(self) -> Widths:
        """The widths as of now."""
        record = self._record
        if record.begun is None:
            record.settings = self._settings  # whoever pays first
        anchor = record.wholes.get(ANCHOR)
        state = record.before, anchor, record.cells, record.begun
        if self._known is None or self._known[0] != state:
            settings = self._settings if record.begun is None else record.begun
            state = (*state[:3], None if record.begun is None else dict(record.begun))
            self._known = state, replace(self._plain, account=self._account(settings) if settings else None)
        return self._known[1]

    def _account(self, settings: Mapping[str, float | None]) -> Account:
        record, beta = self._record, settings["beta"]
        assert beta is not None, "every session has a beta"
        schema, pricing = record.curator.schema, self._pricing
        scales = self._scales(settings)
        division = DIVISIONS[settings.get("division")]
        spent = record.before, record.wholes.get(ANCHOR)
        return Account(schema, pricing.rate, pricing.reuse, beta, bool(record.cells), scales, *spent, division)

    def _scales(self, settings: Mapping[str, float | None]) -> tuple[float, ...]:
        """The tolerance with which the session began; or all it may have been, by what is known of the rows.

        It then is alpha times the true number of rows, on a grid. The number of rows is at least what the tolerance is
        a share of, and at most so much more that the half-width is alpha of the estimate.
        """
        scale, alpha = settings["scale"], settings["alpha"]
        if self._tolerance is None or alpha is None:
            return ()
        if scale is not None:
            return (scale,)
        fewest, share = self._tolerance / self._alpha, min(self._alpha * (1 + 1e-6), 1 - 1e-6)
        most = fewest * (1 + share) / (1 - share)
        first, last = (round(GRID * math.log2(alpha * rows)) for rows in (fewest, most))
        return tuple(2.0 ** (place / GRID) for place in range(first, last + 1))
