"""Bounds: the interval of an answer of a release, and of which kind it is.

*measured*: from unbiased estimates with known noise, at the confidence asked for, widened to hold the answer.
*certified*: from the check of the frozen model; all certified intervals of a release hold together. *logical*: what
cannot be otherwise: no count is below 0 or above the number of rows, no average leaves the declared range.

Where a question is measured and checked, the interval is the part that both allow. Of the failure probability the check
then gets a twentieth and the measurements the rest, so that both hold at the confidence asked for; the check holds for
all tables together, so a small share costs it little. A question over columns that were not measured together lies
between two that were: for every set A of measured columns, between the questions that weigh each cell of A by the least
and by the largest weight inside it; a conjunction is also at least P(A) + P(B) - P(what A and B share), and a
disjunction at most that (Frechet). Each of these candidates gets an equal part of the failure probability.

A value outside of its interval at 95% moves to the nearer end, for whichever confidence it is asked: where the interval
holds, that is nearer to the truth. So intervals of 95% and more need not be widened. All of it is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.answers import BoundKind
from maquette.estimates import Check, Columns, Estimate, Evidence, Reach, estimate_sum, rounded, ties
from maquette.privacy import sum_half_width
from maquette.query import LinearQuery
from maquette.releases.averages import POINTS, Excess, Seen, averaged, points, seen

if TYPE_CHECKING:
    from maquette.releases.artifact import Model

Values = NDArray[np.float64]
Interval = tuple[float, float]

CERTAIN = 1e-9  # failure probability of the number of rows in a logical interval
MOVED = 0.95  # confidence of the interval into which every value is moved
CHECKED = 0.05  # share of the failure probability for the check, where a question is also measured
GROUP = 0.3  # share for the number of rows of a group, where an average needs it by itself
ROWS = 0.1  # share for the number of rows, where an estimate needs it by itself
STEPS = 50  # halvings of an interval
PARTS = 4  # maximum number of smaller tables that bound a larger one
KEPT = 2**22  # maximum cells of the cached tables
ROUNDING = 1e-12  # of weights
EVERYTHING = (-math.inf, math.inf)

Piece = tuple[int, Columns, Values]  # a sign, columns, and weights over their cells


@dataclass(frozen=True)
class Bound:
    """An interval, and where each of its ends comes from."""

    low: float
    high: float
    of_low: BoundKind
    of_high: BoundKind

    @property
    def kind(self) -> BoundKind:
        """That of both ends."""
        return joined_kind(self.of_low, self.of_high)

    def scaled(self, scale: float, start: float = 0.0) -> Bound:
        """In another unit, measured from another number."""
        return Bound(start + scale * self.low, start + scale * self.high, self.of_low, self.of_high)


def joined_kind(*kinds: BoundKind) -> BoundKind:
    """Measured if an end is, since it holds by itself only; certified if an end is, and nothing else is needed."""
    return "measured" if "measured" in kinds else "certified" if "certified" in kinds else "logical"


def logical(low: float, high: float) -> Bound:
    """What cannot be otherwise."""
    return Bound(low, high, "logical", "logical")


@dataclass(frozen=True)
class Asked:
    """A total of `weights` over the rows, divided by the total of `per` if there is one; over cells of `columns`.

    Each weight is its `per` (1 without one) times a number in `between`.
    """

    columns: Columns
    weights: Values
    per: Values | None = None
    between: Interval = (0.0, 1.0)

    @property
    def simple(self) -> bool:
        """Whether it is a total, or a fraction of all rows."""
        return self.per is None or bool((self.per == 1.0).all())

    @property
    def least(self) -> float:
        """The least weight, below the line, of a row that counts at all."""
        return 1.0 if self.per is None else float(self.per.min(where=self.per > 0, initial=1.0))

    def through(self, part: Columns) -> tuple[Seen, Seen]:
        """An average through some of its columns: as it is, and with its numbers mirrored."""
        assert self.per is not None, "an average has a total below the line"
        return seen(self.columns, self.weights, self.per, part, self.between)


class Bounds:
    """The intervals of one release."""

    def __init__(self, model: Model, evidence: Evidence, check: Check | None) -> None:
        self._model, self._evidence, self._check = model, evidence, check
        self._tables: dict[tuple[Columns, Columns], tuple[Values, int]] = {}
        self._rows: dict[float, Interval] = {}
        self._latest: tuple[Asked, float, tuple[Interval, Interval]] | None = None

    def of(self, asked: Asked, confidence: float, value: float) -> Bound:
        """The interval of a question whose answer is `value`."""
        return self._joined(asked, *self._ends(asked, confidence), value)

    def nearest(self, asked: Asked, value: float) -> float:
        """The value, or the nearer end of the interval at 95%; the same for every confidence asked for.

        An interval in which nothing is possible has failed: then the value is the nearest that is possible.
        """
        low, high = _both(*self._ends(asked, MOVED))
        least, most = self._possible(asked, value)
        possible = max(low, least), min(high, most)
        return _within(value, *(possible if possible[0] <= possible[1] else (least, most)))

    def _ends(self, asked: Asked, confidence: float) -> tuple[Interval, Interval]:
        """What the evidence says, and what the check says; of the latest question, as they were."""
        latest = self._latest
        if latest is None or latest[0] is not asked or latest[1] != confidence:
            latest = self._latest = asked, confidence, self._found(asked, confidence)
        return latest[2]

    def _found(self, asked: Asked, confidence: float) -> tuple[Interval, Interval]:
        doubt = 1.0 - confidence
        if not asked.simple:
            return self._averaged(asked, doubt)
        checked = self._checked(asked, 1.0 - CHECKED * doubt)
        share = 1.0 if checked == EVERYTHING else 1.0 - CHECKED
        measured = self._measured(asked, 1.0 - share * doubt)
        if measured == EVERYTHING:
            checked = self._checked(asked, confidence)
        return measured, checked

    def _averaged(self, asked: Asked, doubt: float) -> tuple[Interval, Interval]:
        """What the evidence says of an average, alone or with the check; and what the check says alone."""
        group, ratio = _counted(asked), self._fieller(asked)
        parts = [] if ratio else self._useful(asked)
        checked = CHECKED * doubt if ratio or parts else doubt
        rest = doubt - checked if self._check is not None else doubt
        excesses = self._excesses(asked, checked)
        certain = self._checked(group, 1.0 - checked)[0]
        alone = averaged(asked.between, max(certain, asked.least), [], excesses) if excesses else EVERYTHING
        if ratio:
            return ratio.interval(1.0 - rest), alone
        if not parts:
            return EVERYTHING, alone
        fewest = max(certain, self._fewest(group, GROUP * rest), asked.least)
        each = (1.0 - GROUP) * rest / (2 * len(parts) * len(POINTS))
        known = [
            (self._known(part, asked.between, each), self._known(other, asked.between, each)) for part, other in parts
        ]
        return averaged(asked.between, fewest, known, excesses), alone

    def _fieller(self, asked: Asked) -> Fieller | None:
        """The ratio of two estimates; None if there are none whose noise is all that is unknown."""
        assert asked.per is not None, "an average has a total below the line"
        if not self._evidence.covers(asked.columns):
            return None
        total, per, difference = (
            self._evidence.estimate(weights, asked.columns)
            for weights in (asked.weights, asked.per, asked.weights - asked.per)
        )
        if type(total) is not Estimate or type(per) is not Estimate:
            return None
        return Fieller.of(total, per, difference, asked.between)

    def _useful(self, asked: Asked) -> list[tuple[Seen, Seen]]:
        """An average through the largest sets of its columns that were measured, and through single columns."""
        whole, covers = asked.columns, self._evidence.covers
        parts = [whole] if covers(whole) else _parts(whole, covers)
        parts += [(name,) for name in whole if (name,) not in parts and covers((name,))]
        found = [asked.through(part) for part in parts]
        return [sides for sides in found if sides[0].useful]

    def _known(self, part: Seen, between: Interval, doubt: float) -> dict[float, float]:
        """For some numbers, the largest excess over each that noise allows."""
        found: dict[float, float] = {}
        for s in points(between):
            weights = part.excess(s)
            scale = max(float(np.abs(weights).max()), ROUNDING)
            estimate = self._evidence.estimate(weights / scale, part.columns)
            found[s] = scale * (estimate.total + estimate.half_width(1.0 - 2.0 * doubt))
        return found

    def _excesses(self, asked: Asked, doubt: float) -> list[tuple[Excess, Excess]]:
        """The largest excess that the check allows, of each of its tables that helps."""
        found = []
        for size in range(len(asked.columns), 0, -1):
            for part in itertools.combinations(asked.columns, size):
                if (table := self._table(part)) is not None:
                    sides = asked.through(part)
                    reach = self._reach(table, part, 1.0 - doubt)
                    found += [(sides[0].checked(reach), sides[1].checked(reach))] if sides[0].useful else []
        return found

    def of_sum(self, query: LinearQuery, confidence: float, value: float) -> Bound | None:
        """The interval of the fraction of an additive question, from its single columns; None if it has none."""
        total = estimate_sum(self._evidence, query.sum)
        if total is None:
            return None
        low, high = self._corners(total, self._evidence.estimate(np.ones(()), ()), confidence)
        return Bound(max(0.0, min(low, value)), min(1.0, max(high, value)), "measured", "measured")

    def rows(self, confidence: float) -> Interval:
        """Bounds on the number of rows, from the measurement with the least noise."""
        known = self._rows.get(confidence)
        if known is None:
            known = self._rows[confidence] = self._rows_at(confidence)
        return known

    def _rows_at(self, confidence: float) -> Interval:
        found = []
        if self._evidence.covers(()):
            estimate = self._evidence.estimate(np.ones(()), ())
            found.append((estimate.total, estimate.half_width(confidence)))
        if self._check is not None:
            found.append((self._check.counted, self._check.rows_width(confidence)))
        if not found:
            return 0.0, math.inf
        total, width = min(found, key=lambda each: each[1])
        return max(0.0, total - width), total + width

    def _joined(self, asked: Asked, measured: Interval, checked: Interval, value: float) -> Bound:
        """What both allow, with the answer, within what is possible."""
        low, high = _both(measured, checked)
        least, most = self._possible(asked, value)
        first = _origin(low, measured[0], says=low > least)
        last = _origin(high, measured[1], says=high < most)
        return Bound(_within(min(low, value), least, most), _within(max(high, value), least, most), first, last)

    def _possible(self, asked: Asked, value: float) -> Interval:
        """What cannot be otherwise; where the noise of the number of rows is not known, about so."""
        if asked.per is not None:
            return asked.between
        rows = self.rows(1.0 - CERTAIN)[1]
        rows = self._evidence.rows + abs(value) if math.isinf(rows) else rows
        least, most = min(0.0, float(asked.weights.min())), max(0.0, float(asked.weights.max()))
        return least * rows, most * rows

    def _checked(self, asked: Asked, confidence: float) -> Interval:
        """What the check says; everything if it says nothing. Its bounds hold together, so the best one is taken."""
        if self._check is None:
            return EVERYTHING
        table = self._check.table(asked.columns)
        if table is not None:
            return self._certified(asked, table, confidence)
        parts = _parts(asked.columns, lambda part: self._table(part) is not None)
        if not parts or not asked.simple:
            return EVERYTHING

        def ends(piece: Asked) -> Interval:
            held = self._table(piece.columns)
            assert held is not None, "parts are parts of a table"
            return self._certified(piece, held, confidence)

        lows = [_sum(asked, each, ends)[0] for each in _candidates(asked, parts, upper=False)]
        highs = [_sum(asked, each, ends)[1] for each in _candidates(asked, parts, upper=True)]
        return max(lows, default=-math.inf), min(highs, default=math.inf)

    def _table(self, columns: Columns) -> Columns | None:
        return None if self._check is None else self._check.table(columns)

    def _certified(self, asked: Asked, table: Columns, confidence: float) -> Interval:
        """The check of the table seen through the question's columns: the distance holds for them too."""
        reach = self._reach(table, asked.columns, confidence)
        if asked.per is None:
            return reach.total(asked.weights)
        return reach.ratio(asked.weights, asked.per, asked.between)

    def _reach(self, table: Columns, columns: Columns, confidence: float) -> Reach:
        assert self._check is not None, "there is a table"
        cells, ties = self._checked_cells(table, columns)
        rows = self.rows(1.0 - 2.0 * self._check.doubt(confidence))
        return Reach(cells, self._check.farthest(table, confidence) + ties, rows)

    def _checked_cells(self, table: Columns, columns: Columns) -> tuple[Values, int]:
        assert self._check is not None, "there is a table"
        known = self._tables.get((table, columns))
        if known is None:
            probabilities = self._model.marginal(table)
            axes = tuple(axis for axis, name in enumerate(table) if name not in columns)
            cells = np.asarray(rounded(probabilities, self._check.rows).sum(axis=axes))
            known = cells, ties(probabilities, self._check.rows)
            if sum(each.size for each, _ in self._tables.values()) + cells.size > KEPT:
                self._tables.clear()
            self._tables[table, columns] = known
        return known

    def _measured(self, asked: Asked, confidence: float) -> Interval:
        """What the evidence says; everything if it says nothing."""
        if self._evidence.covers(asked.columns):
            return self._covered(asked, confidence)
        parts = _parts(asked.columns, self._evidence.covers)
        if not parts or not asked.simple:
            return EVERYTHING
        return self._between(asked, parts, confidence)

    def _fewest(self, asked: Asked, doubt: float) -> float:
        """A total is below this with probability `doubt` at most: the best of some bounds that share it.

        Besides the largest known sets, each column is taken by itself, beside the others: who has a value is known best
        from the column alone.
        """
        whole, covers = asked.columns, self._evidence.covers
        found: list[list[Piece]] = [[(1, whole, asked.weights)]] if covers(whole) else []
        if not found or type(self._evidence.estimate(asked.weights, whole)) is not Estimate:
            splits = [[tuple(other for other in whole if other != name), (name,)] for name in whole if len(whole) > 1]
            splits += [] if found else [_parts(whole, covers)]
            for parts in splits:
                found += _candidates(asked, parts, upper=False) if all(map(covers, parts)) else ()
        each = doubt / max(1, len(found))

        def low(candidate: list[Piece]) -> float:
            confidence = 1.0 - 2.0 * each / len(candidate)
            return _sum(asked, candidate, lambda piece: self._covered(piece, confidence))[0]

        return max(map(low, found), default=-math.inf)

    def _covered(self, asked: Asked, confidence: float) -> Interval:
        """From one estimate, or from the ratio of two."""
        total = self._evidence.estimate(asked.weights, asked.columns)
        if asked.per is None:
            width = total.half_width(confidence)
            return total.total - width, total.total + width
        if type(total) is not Estimate and asked.simple:
            return self._corners(total, self._evidence.estimate(np.ones(()), ()), confidence)
        per = self._evidence.estimate(asked.per, asked.columns)
        if type(total) is not Estimate or type(per) is not Estimate:
            return self._corners(total, per, confidence)
        difference = self._evidence.estimate(asked.weights - asked.per, asked.columns)
        return Fieller.of(total, per, difference, asked.between).interval(confidence)

    @staticmethod
    def _corners(total: Estimate, per: Estimate, confidence: float) -> Interval:
        """The range of a ratio while both totals stay within their own intervals."""
        doubt = 1.0 - confidence
        width, slack = total.half_width(1.0 - (1.0 - ROWS) * doubt), per.half_width(1.0 - ROWS * doubt)
        if per.total - slack <= 0:
            return EVERYTHING
        ends = [(total.total + side) / (per.total + other) for side in (-width, width) for other in (-slack, slack)]
        return min(ends), max(ends)

    def _between(self, asked: Asked, parts: list[Columns], confidence: float) -> Interval:
        """Between the questions about the parts that weigh no more and no less."""
        below, above = (list(_candidates(asked, parts, upper)) for upper in (False, True))
        doubt = (1.0 - confidence) / max(1, len(below) + len(above))

        def ends(candidate: list[Piece]) -> Interval:
            return _sum(asked, candidate, lambda piece: self._covered(piece, 1.0 - 2.0 * doubt / len(candidate)))

        return max((ends(each)[0] for each in below), default=-math.inf), min(
            (ends(each)[1] for each in above), default=math.inf
        )


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _origin(end: float, measured: float, *, says: bool) -> BoundKind:
    return "logical" if not says else "measured" if end == measured else "certified"


def _both(measured: Interval, checked: Interval) -> Interval:
    """What both allow; the narrower if one of the two has failed."""
    low, high = max(measured[0], checked[0]), min(measured[1], checked[1])
    return (low, high) if low <= high else min(measured, checked, key=lambda ends: ends[1] - ends[0])


def _parts(columns: Columns, known: Callable[[Columns], bool]) -> list[Columns]:
    """The largest known sets of these columns, at most PARTS."""
    found: list[Columns] = []
    for size in range(len(columns) - 1, 0, -1):
        for part in itertools.combinations(columns, size):
            if len(found) < PARTS and not any(set(part) <= set(other) for other in found) and known(part):
                found.append(part)
    return found


def _sum(asked: Asked, candidate: list[Piece], ends_of: Callable[[Asked], Interval]) -> Interval:
    """The ends of a sum of questions about parts, each within its own interval."""
    low = high = 0.0
    for sign, columns, weights in candidate:
        per = None if asked.per is None else np.ones(weights.shape)
        between = float(weights.min()), float(weights.max())
        ends = ends_of(Asked(columns, weights, per, between))
        low, high = low + min(sign * end for end in ends), high + max(sign * end for end in ends)
    return low, high


def _candidates(asked: Asked, parts: list[Columns], upper: bool) -> Iterator[list[Piece]]:
    """Sums of questions about the parts that weigh no less than the question in any cell (no more, if not `upper`).

    For each part, the largest weight in each of its cells (the least). For two parts A and B, the sum of the least
    weights of both minus that of what they share (of the largest weights), if that holds in every cell, as it does for
    disjunctions (for conjunctions): the bounds of Frechet. What they share is a question about B, so it is taken from
    that of B, and the noise of both is that of one.
    """
    outer, inner = (np.maximum, np.minimum) if upper else (np.minimum, np.maximum)
    side = 1.0 if upper else -1.0
    for part in parts:
        weights = _seen(asked, part, outer)
        if weights.min() < weights.max():
            yield [(1, part, weights.reshape(_shape(asked, part)))]
    for one, other in itertools.combinations(parts, 2):
        if set(one) | set(other) != set(asked.columns):
            continue
        shared = tuple(name for name in one if name in other)
        first, second = _seen(asked, one, inner), _seen(asked, other, inner) - _seen(asked, shared, inner)
        if (side * (first + second - asked.weights) >= -ROUNDING).all():
            yield [(1, one, first.reshape(_shape(asked, one))), (1, other, second.reshape(_shape(asked, other)))]


def _seen(asked: Asked, columns: Columns, ufunc: np.ufunc) -> Values:
    """The least or the largest weight in each cell of some columns; the other axes have length one."""
    axes = tuple(axis for axis, name in enumerate(asked.columns) if name not in columns)
    return np.asarray(ufunc.reduce(asked.weights, axis=axes, keepdims=True)) if axes else asked.weights


def _shape(asked: Asked, columns: Columns) -> tuple[int, ...]:
    return tuple(size for name, size in zip(asked.columns, asked.weights.shape, strict=True) if name in columns)


def _counted(asked: Asked) -> Asked:
    """The rows of a group, over the columns that decide who is in it."""
    assert asked.per is not None, "only averages have a group"
    kept = [axis for axis in range(asked.per.ndim) if (asked.per != asked.per.take([0], axis=axis)).any()]
    places = tuple(slice(None) if axis in kept else 0 for axis in range(asked.per.ndim))
    return Asked(tuple(asked.columns[axis] for axis in kept), asked.per[places])


@dataclass(frozen=True)
class Fieller:
    """The ratio of two estimates with correlated noise: t is possible if the noise can explain total - t per.

    The total of weights - t per is one estimate, with variance V - 2 t C + t^2 P. Its interval holds zero at the true
    ratio with the confidence asked for, so the values of t for which it does are a confidence set (Fieller 1954), an
    interval where `per` is surely positive.
    """

    total: Estimate
    per: Estimate
    covariance: float
    between: Interval

    @classmethod
    def of(cls, total: Estimate, per: Estimate, difference: Estimate, between: Interval) -> Fieller:
        """The covariance from the variance of the difference."""
        return cls(total, per, (total.deviation**2 + per.deviation**2 - difference.deviation**2) / 2, between)

    def interval(self, confidence: float) -> Interval:
        """The values that noise can explain."""
        if self.per.total - self.per.half_width(confidence) <= 0:
            return EVERYTHING
        least, most = self.between
        middle = min(max(self.total.total / self.per.total, least), most)
        return self._end(middle, least, confidence), self._end(middle, most, confidence)

    def _end(self, inside: float, outside: float, confidence: float) -> float:
        if self._explained(outside, confidence):
            return outside
        for _ in range(STEPS):
            middle = (inside + outside) / 2
            if self._explained(middle, confidence):
                inside = middle
            else:
                outside = middle
        return outside

    def _explained(self, ratio: float, confidence: float) -> bool:
        square = self.total.deviation**2 - 2 * ratio * self.covariance + (ratio * self.per.deviation) ** 2
        deviation = math.sqrt(max(0.0, square))
        largest = min(deviation, self.total.largest + abs(ratio) * self.per.largest)
        gaussian = self.total.gaussian and self.per.gaussian
        width = sum_half_width(deviation, largest, confidence, gaussian=gaussian)
        step = (self.between[1] - self.between[0]) / 2 if gaussian and width else 0.0
        return abs(self.total.total - ratio * self.per.total) <= width + step
