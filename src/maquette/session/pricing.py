"""Pricing: the cheapest precision to buy so that a question meets its tolerance.

A question needs variance sum_A gain_A / precision_A below a target. Precision of part A costs rate_A per unit (for
Laplace noise, per root of a unit) and will serve later questions that share A, about `reuse_A` of them; so the
effective price is rate_A / reuse_A. Minimising the effective price gives precision_A = sqrt(gain_A reuse_A / rate_A)
times a constant (Lagrange), where that exceeds the precision already there. Small sets of columns serve most questions
and are bought precisely, large ones cheaply: this costs far less than one marginal for each column set.

Reference: the allocation of Xiao, He, Zhang and Kifer, ResidualPlanner (2023), made sequential. Public inputs only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.bounded import Bounded
from maquette.curator import Curator
from maquette.estimates import Columns
from maquette.privacy import MAX_UNITS, UNITS_PER_ONE, sum_half_width
from maquette.query import Contrasts, Marginal, hardest_of
from maquette.session.bound import Bound, Line, bound_of
from maquette.session.offer import TOO_DEAR, Basis, Offer, Purchase
from maquette.session.precision.anchor import K, own_variance
from maquette.session.precision.bare_family import Doubt, bare_variance
from maquette.session.precision.bases import is_plain, plain, scale, summed, whole_kind
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.least import least_precision
from maquette.session.precision.view import CELLS, Outline, View
from maquette.session.precision.width import STEP, Known, Widths
from maquette.session.question import Goal
from maquette.session.transcript import part_question

SLACK = 1e-6  # bought in excess of the target, so that rounding does not miss it
ROUNDS = 12
CLOSE = 1e-3  # share of the tolerance: a half-width this close to it is not worth another round
LEAST_VARIANCE = 1 / 3  # smallest variance of discrete Gaussian noise whose cost is known under gdp accounting
ROUNDING = 2  # units that splitting a charge may lose
MORE_ROWS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # relative precisions to add to the row count
KEPT = 1_000  # numbers of questions that share a part
RECENT = 64  # questions of which more is kept: a plan prices the same one in several ways
_ROOT = math.sqrt(2)
FIRST_RANGES = 8  # ranges expected of the same columns, once there is one
RANGES_MORE = 1.6  # a range is measured in the basis of ranges up to this price, relative to the other
FIRST_SETS = 16  # column sets expected at first; doubled when more are asked about


class _Sheet(NamedTuple):
    """Of a question: how each part is measured, and units per unit of precision in terms of the question's gain."""

    bases: dict[Columns, Basis]
    rates: dict[Columns, float]


class _Quote(NamedTuple):
    """Of a part: units per unit of precision, its least row norm, and movement of contrasts per unit of gain."""

    rate: float
    norm: float
    moved: int


class Pricing:
    """Prices of precision under a curator's relation and accounting."""

    def __init__(self, curator: Curator) -> None:
        self._curator = curator
        self._schema = curator.schema
        self._quotes: dict[Columns, _Quote] = {}
        self._by_sizes: dict[tuple[str | int, ...], _Quote] = {}
        self._shared: Bounded[tuple[int, int, float], float] = Bounded(KEPT)
        self._sheets: Bounded[View, _Sheet] = Bounded(RECENT)
        self._reused: Bounded[tuple[View, float], dict[Columns, float]] = Bounded(RECENT)
        self._rentables: Bounded[Hashable, dict[Columns, float]] = Bounded(RECENT)
        self.pure = curator.budget.accountant.currency == "pure"
        self._half = 1 if curator.budget.accountant.currency == "gdp" else 2
        self._wide = sum(1 for column in self._schema.columns if column.size > 1)

    def rate(self, part: Columns) -> float:
        """Units per unit of precision (the inverse variance of an orthonormal coefficient, in counts)."""
        return self._quote(part).rate

    def _quote(self, part: Columns) -> _Quote:
        """The price of a part; it depends on the sizes of its columns only."""
        if part not in self._quotes:
            if not is_plain(part):  # which columns are ordered, or summed, matters as well
                self._quotes[part] = self._reckon(part_question(self._schema, part), scale(self._schema, part))
                return self._quotes[part]
            sizes = part if part == CELLS else self._schema.shape(part)
            if sizes not in self._by_sizes:
                self._by_sizes[sizes] = self._reckon(part_question(self._schema, part))
            self._quotes[part] = self._by_sizes[sizes]
        return self._quotes[part]

    def _basis(self, view: View, part: Columns) -> Basis:
        """The basis in which a part is cheaper for a question."""
        others = None if self.pure else view.others.get(part)
        if not others:
            return Basis(part, 1.0)
        found, least = Basis(part, 1.0), self.rate(part)
        for key, ratio in others.items():
            if whole_kind(key) is not None or (summed(key) is None and not view.ranged):
                continue  # a few levels here and there: what is bought for them serves ranges badly
            more = RANGES_MORE if summed(key) is None else 1.0
            if ratio * self.rate(key) < more * least:
                found, least = Basis(key, ratio), ratio * self.rate(key) / more
        return found

    def _bases(self, view: View) -> dict[Columns, Basis]:
        return self._sheet(view).bases

    def _sheet(self, view: View) -> _Sheet:
        if (found := self._sheets.get(view)) is None:
            bases = {part: self._basis(view, part) for part in view.gains}
            found = _Sheet(bases, {part: basis.ratio * self.rate(basis.key) for part, basis in bases.items()})
            self._sheets[view] = found
        return found

    def _reckon(self, question: Marginal | Contrasts, unit: float | None = None) -> _Quote:
        relation = self._curator.relation
        norm = math.prod(_norm(matrix) for matrix in question.matrices) if isinstance(question, Contrasts) else 1.0
        norm = norm if unit is None else unit
        _, most, square = question.gains if isinstance(question, Contrasts) else (1, 1, 1)
        if self.pure:  # variance 2 b^2
            moved = relation.l1(question)
            return _Quote(UNITS_PER_ONE * moved / norm * _ROOT, norm, moved // most)
        moved = relation.l2_squared(question)
        return _Quote(UNITS_PER_ONE * moved / norm**2 / self._half, norm, moved // square)

    def price(self, part: Columns, precision: float) -> int:
        """Units for adding `precision`."""
        return self._units((quote := self._quote(part)).rate, precision, quote.norm**2 / precision)

    def _units(self, rate: float, precision: float, variance: float) -> int:
        """Units for a precision, given the variance of the noise in whole numbers."""
        if self.pure:
            return math.ceil(rate * math.sqrt(precision)) + ROUNDING
        if self._half == 1:  # the discrete law costs as much as the normal one with about 1/12 less variance
            if variance < LEAST_VARIANCE:
                return MAX_UNITS
            precision *= 2 / (1 + math.sqrt(1 - 1 / (3 * variance)))
        return math.ceil(rate * precision) + ROUNDING

    def whole(self, key: Columns, tolerance: float, deviations: float, *, have: float = 0.0) -> int | None:
        """Units for a whole table of which `deviations` deviations of its hardest question are within the tolerance.

        `have` is the precision that is there. None if no precision is enough.
        """
        kind = whole_kind(key)
        assert kind is not None, "only a whole table is priced as one"
        deviation = max(0.0, tolerance - STEP) / deviations
        if deviation <= 0.0:
            return None
        wanted = hardest_of(self._schema, kind, plain(key)) / deviation**2 * (1 + SLACK) - have
        return self.price(key, wanted) if wanted > 0.0 else None

    def bare(self, key: Columns, tolerance: float, told: Doubt, rows: float) -> int | None:
        """Units for a bare table all questions of which are within the tolerance, given the variance of the rows."""
        within = max(0.0, tolerance - STEP)
        own = bare_variance(self._schema, key, told, rows / within**2) * within**2 if within else 0.0
        return self.price(key, (1 + SLACK) / own) if own > 0.0 else None

    def reuse(self, part: Columns, size: int, sets: float) -> float:
        """How many of `sets` column sets of this size share a part, if they are spread evenly over the columns."""
        known = self._shared.get((len(part), size, sets))
        if known is None:
            shared, possible = math.comb(size, len(part)), math.comb(max(self._wide, size), len(part))
            distinct = -possible * math.expm1(sets * math.log1p(-shared / possible)) if shared < possible else possible
            known = self._shared[len(part), size, sets] = max(1.0, sets * shared / max(distinct, 1.0))
        return known

    def shop(
        self,
        view: View,
        known: Mapping[Columns, Known],
        tolerance: float,
        widths: Widths,
        sets: float,
        *,
        rents: Mapping[Columns, float] = MappingProxyType({}),
        missed: Callable[[Purchase], bool] | None = None,
    ) -> Purchase | None:
        """What to buy so that the half-width is within the tolerance; None if nothing is precise enough.

        `rents` are parts to rent for this question instead, each with the factor by which renting is cheaper. `missed`
        is told of purchases that are not enough: what is enough costs more, each part of it. If that is too dear,
        nothing is found.
        """
        reuse, bases = self._reuses(view, sets, rents), self._bases(view)
        if len(known) == len(view.gains) and widths.of(view, known) <= tolerance:
            return Purchase({}, {}, {}, {})
        grain = STEP if widths.gaussian else 0.0  # no precision makes an interval narrower than this
        found, target = None, self._guess(view, known, tolerance - grain, widths)
        if target == 0.0:
            return None
        enough, short = 0.0, math.inf  # targets on either side
        before: tuple[float, float] | None = None  # square root of the last round's target, and its half-width
        fill = self._filling(view, known, reuse, bases)
        for _ in range(ROUNDS):
            bought = fill(target)
            # Every piece widens the interval, so a part that grows at least doubles.
            if widths.simultaneous and not widths.mixed(view):
                bought = {part: max(more, _precision(known.get(part))) for part, more in bought.items()}
            later = {
                part: after(known.get(part), bought.get(part, 0.0), part=part, key=bases[part].key)
                for part in view.gains
            }
            width = widths.of(view, later | {part: later[part]._replace(lumped=True) for part in rents})
            if width <= tolerance * (1 - SLACK):
                enough = target
                offer = self._purchase(bought, reuse, bases)
                found = offer if found is None or offer.burden < found.burden else found
                if width >= tolerance * (1 - CLOSE):
                    break
            else:
                short = target
                if missed is not None and missed(self._purchase(bought, reuse, bases)):
                    return None
            root, aim = math.sqrt(target), tolerance * (1 - 10 * SLACK)
            if (
                (widths.gaussian and not widths.mixed(view))
                or before is None
                or (width - before[1]) * (root - before[0]) <= 0
            ):
                target *= (_ungrained(aim, grain) / _ungrained(width, grain)) ** 2
            else:  # Laplace bounds have a constant offset: take the line through two rounds
                target = max(0.0, root + (aim - width) * (root - before[0]) / (width - before[1])) ** 2
            before = root, width
            if not enough < target < short:
                target = math.sqrt(enough * short) if enough else short / 4
            if found is not None and enough > short * (1 - CLOSE):
                break
        return found

    def offer(
        self,
        view: View,
        known: Mapping[Columns, Known],
        tolerance: float,
        widths: Widths,
        sets: float,
        *,
        rents: dict[Columns, float],
        worn: Callable[[Columns, int, Purchase], bool],
        dear: Callable[[int], bool] | None = None,
    ) -> Offer | None:
        """The cheapest mixture of parts to buy and to rent, where parts are bought that are `worn` by renting.

        It is not sought to the end once its price is known to be too `dear`. Of what is not enough that is known if no
        part is worn: renting then stays the cheaper way at any higher price, and what is found is all there is.
        """

        def used_up(offer: Offer, purchase: Purchase) -> list[Columns]:
            return [part for part, units in offer.rents.items() if worn(part, units, purchase)]

        hopeless = False

        def missed(purchase: Purchase) -> bool:
            nonlocal hopeless
            offer = self.split(view, purchase, rents)
            hopeless = dear is not None and dear(offer.units) and not used_up(offer, purchase)
            return hopeless

        while True:
            told = None if dear is None else missed
            purchase = self.shop(view, known, tolerance, widths, sets, rents=rents, missed=told)
            if purchase is None:
                return TOO_DEAR if hopeless else None
            offer = self.split(view, purchase, rents)
            bought = used_up(offer, purchase)
            if not bought:
                return offer
            rents = {part: times for part, times in rents.items() if part not in bought}

    def at_best(
        self,
        view: View,
        known: Mapping[Columns, Known],
        tolerance: float,
        widths: Widths,
        sets: float,
        *,
        rents: Mapping[Columns, float] = MappingProxyType({}),
    ) -> Bound | None:
        """A price that is no higher than that of `shop`, in burden and in units; None where none is known."""
        fewest = widths.fewest(view)
        if not fewest or len(known) == len(view.gains):
            return None
        shared, rates = self._shared_by(view, sets), self._sheet(view).rates
        lines = [
            Line(gain, rates[part], shared[part], _precision(known.get(part)), rents.get(part, 0.0))
            for part, gain in view.gains.items()
        ]
        return bound_of(lines, (tolerance / fewest) ** 2 * (1 + 10 * SLACK))

    def histogram(
        self, view: CellView, known: Mapping[Columns, Known], tolerance: float, widths: Widths, sets: float
    ) -> Purchase | None:
        """The first histogram of a small universe, precise enough that every question is within the tolerance.

        A second histogram would not reduce the first's noise by much, least of all under a pure budget. So the first is
        bought for the hardest questions. Those that hold more than half of the cells depend more on the noise of the
        row count; a more precise row count is bought where that makes the whole cheaper.
        """
        reuse, found = dict.fromkeys(((), CELLS), max(1.0, sets)), list[Purchase]()
        bases, hardest = {part: Basis(part, 1.0) for part in reuse}, view.hardest
        for more in MORE_ROWS:
            rows = more / known[()].variance
            precision = least_precision(
                lambda cells, rows=rows: all(  # type: ignore[misc]
                    widths.of(hard, {(): after(known[()], rows), CELLS: after(None, cells)}) <= tolerance * (1 - CLOSE)
                    for hard in hardest
                ),
                self._schema.size / tolerance**2,
            )
            if precision is not None:
                bought = {(): rows, CELLS: precision} if rows else {CELLS: precision}
                found.append(self._purchase(bought, reuse, bases))
        return min(found, key=lambda purchase: purchase.units, default=None)

    def _reuses(self, view: View, sets: float, rents: Mapping[Columns, float]) -> dict[Columns, float]:
        """How many questions share each part, or how much cheaper it is to rent."""
        found = self._shared_by(view, sets)
        return {**found, **{part: max(found[part], times) for part, times in rents.items()}}

    def _shared_by(self, view: View, sets: float) -> dict[Columns, float]:
        if (found := self._reused.get((view, sets))) is None:
            found = self._reused[view, sets] = self._sharing(view, sets)
        return found

    def _sharing(self, view: View, sets: float) -> dict[Columns, float]:
        if CELLS in view.gains:
            return dict.fromkeys(view.gains, max(1.0, sets))  # every question depends on the same two parts
        if sets == 0:
            return dict.fromkeys(view.gains, 1.0)
        possible = math.comb(max(self._wide, 1), min(self._wide, len(view.columns)))
        found = {part: self.reuse(part, len(view.columns), min(sets, possible)) for part in view.gains}
        keys = {part: basis.key for part, basis in self._bases(view).items()}
        ranges = [part for part, key in keys.items() if not is_plain(key) and summed(key) is None]
        return found | {part: max(found[part], FIRST_RANGES) for part in ranges}

    def hardness(self, view: View) -> float:
        """The price of a question in parts of which nothing is known, for a variance of one."""
        bases = self._bases(view)
        rates = {part: gain * (basis := bases[part]).ratio * self.rate(basis.key) for part, gain in view.gains.items()}
        return sum(map(math.sqrt, rates.values())) ** 2

    def rentable(self, view: View, known: Mapping[Columns, Known], sets: float) -> dict[Columns, float]:
        """Parts of which nothing is known yet and whose contribution to this one question is cheaper by itself.

        The value is the factor by which it is cheaper than the part, which later questions would share.
        """
        if (found := self._rentables.get((view, *known))) is None:
            found = self._rentables[view, *known] = self._cheaper_alone(view, known)
        reuse = self._shared_by(view, sets)
        return {part: times for part, times in found.items() if times > reuse[part]}

    def _cheaper_alone(self, view: View, known: Mapping[Columns, Known]) -> dict[Columns, float]:
        """For every part that can be rented, the factor by which that is cheaper than the part."""
        if math.isinf(view.description.bits):
            return {}  # only a question with a code gets a share of the failure probability for its own noise
        bases, found = self._bases(view), dict[Columns, float]()
        for part, gain in view.gains.items():
            if part not in known and (outline := view.outline(part)) is not None:
                key, ratio = bases[part]
                found[part] = self._times(part, gain, outline) * ratio * self.rate(key) / self.rate(part)
        return found

    def _times(self, part: Columns, gain: float, outline: Outline) -> float:
        """The factor by which one contrast is cheaper than the part: one row moves it by its largest entry."""
        rate, _, moved = self._quote(part)
        if self.pure:
            return rate * math.sqrt(gain) / (UNITS_PER_ONE * moved * outline.largest * abs(outline.factor) * _ROOT)
        return rate * gain * self._half / (UNITS_PER_ONE * moved * (outline.largest * outline.factor) ** 2)

    def split(self, view: View, purchase: Purchase, rents: Mapping[Columns, float]) -> Offer:
        """A purchase with some parts rented instead; the question gets the same precision."""
        rented = {}
        for part in rents:
            outline = view.outline(part)
            if part in purchase.precisions and outline is not None:
                rented[part] = self._rent(part, outline, view.gains[part] / purchase.precisions[part])
        kept = {part: units for part, units in purchase.prices.items() if part not in rented}
        own = sum(purchase.prices[part] / purchase.reuse[part] for part in rented)
        burden = purchase.burden - own + sum(rented.values())
        return Offer(purchase.precisions, kept, rented, burden, purchase.bases)

    def _rent(self, part: Columns, outline: Outline, variance: float) -> int:
        """Units to learn a part's contribution to one number with this variance."""
        (largest, factor), moved = outline, self._quote(part).moved
        rate = UNITS_PER_ONE * (moved * largest * _ROOT if self.pure else moved * largest**2 / self._half)
        return self._units(rate, factor**2 / variance * (1 + SLACK), variance / factor**2)

    def _guess(self, view: View, known: Mapping[Columns, Known], tolerance: float, widths: Widths) -> float:
        """First guess of the target variance: all parts bought, half-width proportional; 0 if none is small enough."""
        if tolerance <= 0:
            return 0.0
        if (deviations := widths.deviations(view)) is not None:
            return (tolerance / deviations) ** 2
        variance = (10 * tolerance) ** 2
        then = {part: Known(variance, after(known.get(part), 1.0).pieces) for part in view.gains}
        return variance * sum(view.gains.values()) * (tolerance / widths.of(view, then)) ** 2

    def _purchase(
        self, bought: dict[Columns, float], reuse: Mapping[Columns, float], bases: Mapping[Columns, Basis]
    ) -> Purchase:
        used = {part: bases[part] for part in bought}
        prices = {part: self.price(used[part].key, used[part].ratio * bought[part]) for part in bought}
        return Purchase(bought, prices, {part: reuse[part] for part in bought}, used)

    def direct(self, goal: Goal, tolerance: float, doubt: float, rows: float = 0.0, k: float = K) -> int:
        """Units for measuring a goal as asked, or from half of the rows with variance `rows`, missed with `doubt`."""
        relation, asked = self._curator.relation, goal.as_asked
        grid = asked.grid * goal.unit
        precision = self.fresh_precision(goal, tolerance, doubt)
        if goal.centred:
            size = max(0.0, tolerance - STEP) ** 2
            own = 4 * size * own_variance(rows / size, doubt, k) if size else 0.0
            precision = 1 / own if own else math.inf
        if math.isinf(precision):
            return MAX_UNITS
        if self.pure:
            rate = UNITS_PER_ONE * relation.l1(asked) / grid * math.sqrt(2)
        else:
            rate = UNITS_PER_ONE * relation.l2_squared(asked) / grid**2 / self._half
        return self._units(rate * (1 + SLACK), precision, grid**2 / precision)

    def fresh_precision(self, goal: Goal, tolerance: float, doubt: float) -> float:
        """The precision that every cell of a goal then has at least; infinite if no finite precision is enough."""
        return self.precision(tolerance, doubt, numbers=2 if goal.halved else 1)

    def precision(self, tolerance: float, doubt: float, *, numbers: int = 1) -> float:
        """The same for what is the sum of `numbers` numbers, each measured as asked."""
        deviation = tolerance / sum_half_width(1.0, 1.0 / math.sqrt(numbers), 1 - doubt, gaussian=not self.pure)
        if not self.pure:
            deviation *= max(0.0, 1 - STEP / tolerance)
        return numbers / deviation**2 if deviation > 0 else math.inf

    def _filling(
        self,
        view: View,
        known: Mapping[Columns, Known],
        reuse: Mapping[Columns, float],
        bases: Mapping[Columns, Basis],
    ) -> Callable[[float], dict[Columns, float]]:
        """For a target variance the precision to add; parts that are precise enough already are left alone.

        Sums are in the order of the parts, so that a plan does not depend on the seed of Python's hashes.
        """
        power = 2 / 3 if self.pure else 1 / 2
        have = {part: _precision(known.get(part)) for part in view.gains}
        rates = {part: bases[part].ratio * self.rate(bases[part].key) for part in view.gains}
        want = {part: (gain * reuse[part] / rates[part]) ** power for part, gain in view.gains.items()}
        shares = {part: gain / want[part] for part, gain in view.gains.items()}

        def fill(target: float) -> dict[Columns, float]:
            free, settled = list(view.gains), 0.0
            while free:  # a part left alone uses less variance than planned, so the scale only falls
                scale = sum(shares[part] for part in free) / (target - settled)
                less = [part for part in free if have[part] < want[part] * scale]
                if len(less) == len(free):
                    return {part: want[part] * scale * (1 + SLACK) - have[part] for part in free}
                free, kept = less, set(less)
                settled = sum(gain / have[part] for part, gain in view.gains.items() if part not in kept)
            return {}

        return fill


def _ungrained(width: float, grain: float) -> float:
    """The part of a half-width that shrinks with the noise: the grain adds at most as much again."""
    return max(width - grain, width / 2)


def _precision(known: Known | None) -> float:
    return 0.0 if known is None else 1.0 / known.variance


def after(known: Known | None, added: float, *, part: Columns = (), key: Columns = ()) -> Known:
    """What will be known of a part once `added` precision is bought, under `key`; both in terms of the question."""
    if known is None:
        variance = 1.0 / added if added > 0 else math.inf
        return Known(variance, 1, bases=() if key == part else ((key, variance),))
    if added <= 0:
        return known
    variances = dict(known.bases or ((part, known.variance),))
    variances[key] = 1.0 / (added + (1.0 / variances[key] if key in variances else 0.0))
    bases = () if variances.keys() == {part} else tuple(variances.items())
    return Known(1.0 / (1.0 / known.variance + added), known.pieces + 1, bases=bases)


def _norm(matrix: NDArray[np.int64]) -> float:
    """The least norm of a row: it bounds the precision of every coefficient."""
    return float(np.linalg.norm(matrix, axis=1).min())
