"""Answering: turns what a session knows into the answer to a question, with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from maquette.answers import Answered, AnswerTable, OutputColumn, Source, report, tabulate
from maquette.bounded import PAGE
from maquette.estimates import Columns, spread
from maquette.privacy import DiscreteGaussian, Loss, sum_half_width
from maquette.query import LinearQuery, OfValues, Output, Program, Statement
from maquette.session.guard_policy import guessed
from maquette.session.model import Model
from maquette.session.own import Direct, Guarded, Own, Rented, Slice
from maquette.session.precision.bare_view import BareView, wholes_of
from maquette.session.precision.bases import ANCHOR
from maquette.session.precision.reading import Bounds, Reading, corners, fieller, narrower, ratio, total
from maquette.session.precision.view import NOTHING, Component, Mixture, Values, View
from maquette.session.precision.whole_view import WholeView
from maquette.session.precision.width import STEP, Known, Widths, mixture_of
from maquette.session.question import Goal, Question, goals_of, unit_of
from maquette.session.record import Record
from maquette.session.transcript import Transcript


@dataclass(frozen=True)
class Settled:
    """Since which moment a goal is known, and by what if not by the bought parts alone."""

    moment: int
    own: Own | Slice | None = None
    whole: WholeView | None = None  # the whole table that it is read from, if it is


class Look(NamedTuple):
    """What the parts say of a goal: its numbers and variances; weights of the bases; what is known of each part."""

    values: Values
    variances: Values
    mixed: Mixture
    known: Mapping[Columns, Known]


Looks = dict[tuple[str, int | None], Look]  # by goal and moment


class Numbers:
    """The numbers of one question: measured as asked, derived as of a moment, or given by the public model."""

    def __init__(
        self,
        record: Record,
        widths: Widths,
        *,
        view: Callable[[Goal], View | None],
        settled: Mapping[str, Settled | None],
        model: Callable[[], Model],
        rows: Callable[[], float],
        looks: Looks,
    ) -> None:
        """`looks` are kept for goals about all rows, which many questions need as of the same moment."""
        self._transcript = record.transcript
        self._own, self._wholes = record.own, record.wholes
        self.most = record.curator.most_rows
        self.widths = widths
        self._view = view
        self._settled = settled
        self._model = model
        self._rows = rows
        self._looks: Looks = {}
        self._of_all = looks

    def at(self, beta: float) -> Numbers:
        """The same numbers at another failure probability."""
        if beta == self.widths.beta:
            return self
        other = copy(self)
        other.widths = replace(self.widths, beta=beta)
        return other

    def guessed(self, goal: Goal) -> bool:
        """Whether a goal is answered by the public model."""
        settled = self._settled[goal.key]
        if settled is not None:
            return isinstance(settled.own, Guarded)
        return self._complete(goal) is None and self._wider(goal) is None and self._loose(goal) is None

    def _derivable(self, goal: Goal) -> View | None:
        """The view of a goal that can be derived from the parts, including parts rented for it."""
        view, settled = self._view(goal), self._settled[goal.key]
        if settled is not None and settled.whole is not None:
            return None if self.widths.simultaneous else settled.whole
        if settled is not None:
            return view if settled.own is None or isinstance(settled.own, Rented) else None
        if self._wider(goal) is not None or self._loose(goal) is not None:
            return None
        return self._complete(goal)

    def _complete(self, goal: Goal) -> View | None:
        """The view of a goal, if all its parts are known."""
        view = self._view(goal)
        return view if view is not None and self._transcript.complete(view) is not None else None

    def _wider(self, goal: Goal) -> Direct | None:
        """The measurement from which a goal that is not known within the tolerance is read: the narrowest of its own.

        None if there is none, or the parts tell more. Widths are fixed before the noise, so choosing by them is public.
        """
        if self._settled[goal.key] is not None:
            return None
        now = self._transcript.moment
        kept = [own for own in self._own.get(goal.key, ()) if isinstance(own, Direct) and own.moment <= now]
        if not kept:
            return None
        width, _, best = min((_width(own, self.widths), own.number, own) for own in kept)
        view = self._complete(goal)
        return best if view is None or width < self.widths.of(view, self._transcript.known_of(view)) else None

    def _loose(self, goal: Goal) -> WholeView | None:
        """The whole table from which a goal that is not known within the tolerance is read, if that tells most."""
        if self._settled[goal.key] is not None or not self._wholes:
            return None
        found = [(self._whole_width(whole), whole.key, whole) for whole in wholes_of(self._view(goal), self._wholes)]
        width, _, best = min(found, default=(math.inf, (), None))
        wider, view = self._wider(goal), self._complete(goal)
        if wider is not None and _width(wider, self.widths) <= width:
            return None
        if view is not None and self.widths.of(view, self._transcript.known_of(view)) <= width:
            return None
        return best if math.isfinite(width) else None

    def _whole_width(self, whole: WholeView) -> float:
        known = self._transcript.known_of(whole)
        return whole_width(whole, known, self._transcript, self.widths, self._wholes[whole.key])

    def _read_whole(self, whole: WholeView, moment: int | None) -> Reading:
        values, variances = whole.look(self._transcript.reader(moment))
        known, number = self._transcript.known_of(whole, moment), self._wholes[whole.key]
        if isinstance(whole, BareView) and self.widths.simultaneous:
            widths = _of_bare(whole, known, self._transcript, self.widths, number)
        else:
            widths = self.widths.whole(whole, known[whole.key], number).of(variances)
        return Reading(values, variances, widths + np.minimum(STEP, widths))

    def _rented(self, goal: Goal) -> Mapping[Columns, Component]:
        settled = self._settled[goal.key]
        return settled.own.components if settled and isinstance(settled.own, Rented) else NOTHING

    def reading(self, goal: Goal) -> Reading:
        """The numbers of a goal as of the moment it became known, or the best known now."""
        settled, view = self._settled[goal.key], self._derivable(goal)
        if settled is not None and settled.whole is not None:
            return self._read_whole(settled.whole, settled.moment)
        if (loose := self._loose(goal)) is not None:
            return self._read_whole(loose, None)
        if settled is not None and isinstance(settled.own, Direct):
            return measured(settled.own, self.widths)
        if settled is not None and isinstance(settled.own, Slice):
            return sliced(settled.own, self.widths)
        if (wider := self._wider(goal)) is not None:
            return measured(wider, self.widths)
        if settled is not None and isinstance(settled.own, Guarded):
            width = np.full(settled.own.values.shape, settled.own.tolerance)
            return Reading(settled.own.values, width**2, width)
        if view is None:
            return self._guess(goal)
        moment, rented = settled.moment if settled else None, self._rented(goal)
        values, variances, _, parts = self._looked(goal, view, moment, rented)
        known = known_with(view, parts, rented)
        if self.widths.mixed(view) and view.shape:
            read = self._transcript.reader(moment)
            sizes = self.widths.of_cells(view, known, lambda key: view.sizes(key, read(key)[1].shape))
            return Reading(values, variances, sizes)
        if self.widths.gaussian and view.gains and not self.widths.mixed(view):
            widths = self.widths.multiplier(view, known) * np.sqrt(variances)
            return Reading(values, variances, widths + np.minimum(STEP, widths))
        return Reading(values, variances, np.full(view.shape, self.widths.of(view, known)))

    def _looked(self, goal: Goal, view: View, moment: int | None, rented: Mapping[Columns, Component]) -> Look:
        """What the parts say of a goal as of a moment, the weights of their bases, and how well they are known.

        A share of the rows needs it twice, for its interval and for those of both numbers.
        """
        looks = self._looks if moment is None or goal.marginal.columns else self._of_all
        found = looks.get((goal.key, moment))
        if found is None:
            known = self._transcript.known_of(view, moment)
            mixed = mixture_of(known)
            values, variances = view.look(self._transcript.reader(moment), rented, mixed)
            found = Look(values, variances, mixed, known)
            looks[goal.key, moment] = found
        return found

    def _guess(self, goal: Goal) -> Reading:
        """The public model's numbers: nothing is promised about them, except that counts are not negative."""
        rows = self._rows()
        values = guessed(goal, self._model(), rows)
        if goal.signed:
            values = values[..., 1] - values[..., 0]
        return Reading(values * goal.scale, np.full(values.shape, rows**2), np.full(values.shape, rows))

    def ratio(self, top: Goal, bottom: Goal) -> tuple[Reading, Reading, Bounds]:
        """Two numbers and the range of their ratio.

        Fieller's interval where both are derived from Gaussian noise, read at one moment; otherwise the range of the
        ratio over all pairs of values in the two intervals.
        """
        above, below = self._derivable(top), self._derivable(bottom)
        if not self.widths.gaussian or above is None or below is None or self._rented(bottom):
            numbers = self.reading(top), self.reading(bottom)
            return *numbers, corners(*numbers)
        both = [settled for goal in (top, bottom) if (settled := self._settled[goal.key]) is not None]
        moment = max(settled.moment for settled in both) if len(both) == 2 else None
        read, rented = self._transcript.reader(moment), self._rented(top)
        one, two = self._looked(top, above, moment, rented), self._looked(bottom, below, moment, NOTHING)
        mixed, known = (one.mixed, two.mixed), {**two.known, **one.known}
        upper = Reading(one.values, one.variances, np.zeros(above.shape))
        lower = Reading(two.values, two.variances, np.zeros(below.shape))
        pieces = known_with(above, known, rented)
        for part in rented:
            if part in below.gains:  # one number has the rented noise, the other the noise of the part
                pieces[part] = pieces[part]._replace(pieces=1 + known[part].pieces)
        multiplier = self.widths.multiplier(above, pieces, per=below)
        joint = fieller(upper, lower, above.covariance(below, read, rented, mixed), multiplier)
        if not self.widths.mixed(above):
            return upper, lower, joint
        return upper, lower, narrower(joint, corners(self.reading(top), self.reading(bottom)), upper, lower)


def measured(direct: Direct, widths: Widths) -> Reading:
    """The numbers of a goal that was measured exactly as asked."""
    measurement = direct.measurement
    unit = unit_of(measurement.question)
    values, each, numbers = measurement.values / unit, spread(measurement) / unit, 1
    if direct.halved:
        values, numbers = values[..., 1] - values[..., 0], 2
    elif direct.signed and not isinstance(measurement.question, OfValues):
        values = values[..., 0]
    gaussian = isinstance(measurement.event, DiscreteGaussian)
    if (rows := direct.centre) is not None:
        return _from_half(direct, rows, widths)
    doubt = widths.fresh(measurement.question.cells, direct.number)
    width = sum_half_width(each * math.sqrt(numbers), each, 1 - doubt, gaussian=gaussian)
    full = np.full(values.shape, width + (STEP / unit if gaussian else 0.0))
    return Reading(values, np.full(values.shape, numbers * each**2), full)


def _from_half(direct: Direct, rows: Component, widths: Widths) -> Reading:
    """A count that was measured from half of the rows."""
    value, own = (rows.value + direct.measurement.values[..., 0]) / 2, spread(direct.measurement) ** 2 / 4
    full = np.full(value.shape, widths.centred(rows.variance, own, direct.number) + STEP)
    return Reading(value, np.full(value.shape, rows.variance / 4 + own), full)


def sliced(one: Slice, widths: Widths) -> Reading:
    """The numbers of a goal that are cells of a measured table; a number that counts nothing is zero for sure."""
    table = measured(one.table, widths)
    parts = (np.append(part.reshape(-1), 0.0)[one.places] for part in (table.values, table.variances, table.widths))
    return Reading(*parts)


def _width(direct: Direct, widths: Widths) -> float:
    return float(measured(direct, widths).widths.max(initial=0.0))


def whole_width(
    whole: WholeView, known: Mapping[Columns, Known], transcript: Transcript, widths: Widths, number: int
) -> float:
    """The half-width of the noisiest cell of a question read from a whole table; infinite if that is not there."""
    if whole.key not in known or len(known) < len(whole.gains):
        return math.inf
    if isinstance(whole, BareView) and widths.simultaneous:
        width = float(_of_bare(whole, known, transcript, widths, number).max(initial=0.0))
        return width + min(STEP, width)
    variance = sum(gain * known[part].variance for part, gain in whole.gains.items())
    width = float(widths.whole(whole, known[whole.key], number).of(np.array(variance)))
    return width + min(STEP, width)


def _of_bare(
    whole: BareView, known: Mapping[Columns, Known], transcript: Transcript, widths: Widths, number: int
) -> Values:
    """Half-widths of a question read from a bare table; infinite where that answers nothing.

    It answers nothing where it was measured before the number of rows that it was to share.
    """
    shared, table = transcript.first(ANCHOR), transcript.first(whole.key)
    if shared is not None and table is not None and shared <= table:
        within = widths.bare(whole, known, number, after=shared < table)
        if within is not None:
            return within.of(whole.own(known[whole.key].variance), whole.of_rows)
    return np.full(whole.shape, math.inf)


def known_with(view: View, known: Mapping[Columns, Known], rented: Mapping[Columns, Component]) -> dict[Columns, Known]:
    """What is known of the parts of a question, including parts rented for it."""
    own = {part: Known(one.variance / view.gains[part], 1, lumped=True) for part, one in rented.items()}
    return {**known, **own}


def answered(
    asked: Question,
    numbers: Numbers,
    *,
    guarantee: str | None,
    cost: Loss,
    source: Source,
    remaining: Loss,
    **facts: Any,
) -> Answered:
    """The answer to a question from its numbers, with other fields of an answer as they are given."""
    confidence = 1 - numbers.widths.beta
    if isinstance(asked.parsed, LinearQuery):
        top, rows, bounds = numbers.ratio(*asked.goals)
        column = ratio(top, rows, bounds, scale=1.0, centre=0.0, lowest=0.0, highest=1.0, guarantee=guarantee)
        (one,) = column.answers("fraction", confidence, cost, source)
        return one.noted(count=min(max(0.0, float(top.values)), numbers.most or math.inf)).settled(remaining, **facts)
    if isinstance(asked.parsed, Program):
        share = 1 if numbers.widths.simultaneous else asked.parsed.joint
        held = numbers.at(numbers.widths.beta / share)
        table = report(asked.parsed, lambda one: _columns(one, held, guarantee), confidence, cost, source)
    else:
        table = tabulate(asked.parsed, _columns(asked.parsed, numbers, guarantee), confidence, cost, source)
    if numbers.widths.simultaneous:  # as all answers of the session do
        table = table.joined()
    return table.settled(remaining, **facts)


def _columns(statement: Statement, numbers: Numbers, guarantee: str | None) -> dict[str, OutputColumn]:
    return {output.title: _column(output, numbers, guarantee) for output in statement.outputs if output.kind != "group"}


def _column(output: Output, numbers: Numbers, guarantee: str | None) -> OutputColumn:
    goals = goals_of(output)
    assert output.measure is not None
    measure, unit = output.measure.on_values(), goals[0].unit
    if len(goals) == 1:
        return total(numbers.reading(goals[0]), measure.scale * unit, measure.sides(numbers.most), guarantee)
    lowest, highest = measure.range
    top, rows, bounds = numbers.ratio(*goals)
    return ratio(
        top,
        rows,
        bounds,
        scale=measure.scale * unit,
        centre=measure.centre,
        lowest=lowest,
        highest=highest,
        guarantee=guarantee,
    )


def room_of(answer: Answered) -> int:
    """The numbers that an answer is kept as, about: a row of a table takes as much memory as an answer."""
    return PAGE * len(answer) if isinstance(answer, AnswerTable) else 0
