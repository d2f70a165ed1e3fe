"""Width: how far noise can move an answer, for one question or for all questions at once.

Each: for a question that was not chosen by looking at the noise that answers it, the error exceeds the half-width
with probability at most beta. The noise is a sum of independent parts, Gaussian or Laplace.

Simultaneous: with probability 1 - beta, every interval that a session ever states holds, however questions were chosen,
and however the precision of the measurements followed from earlier answers. Argument, for Gaussian noise: let a
question be answered from m pieces. For each piece, let h_i be the projection of its noise on the question, divided by
its standard deviation; h_i is sub-Gaussian with parameter 1, whatever happened before the piece was drawn. The error is
sum c_i h_i. The coefficients depend on the precisions bought, now or later, hence perhaps on earlier noise; but the sum
is at most its standard deviation times the length of h. By the moment generating function of h_i^2, Pr[|h|^2 >= q] is
at most (q / m)^(m/2) exp((m - q) / 2). Questions share the failure probability by `Description`, and numbers of pieces
m by 6 / (pi m)^2. The bound uses the first m pieces of a question, so it holds for any rule that decides when to buy
more. A ratio is within its interval when the numerator minus the true ratio times the denominator is; that is one more
fixed question. Laplace noise is not rotation invariant; there each of the m pieces is bounded with failure probability
1/m of the question's, and the bounds are added.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.privacy import sum_half_width
from maquette.schema import Schema
from maquette.session.precision import shares
from maquette.session.precision.account import OWN, Account, Noise
from maquette.session.precision.anchor import K, half_width, least
from maquette.session.precision.bare_family import BareWithin, Doubt, bare_within
from maquette.session.precision.bare_view import BareView
from maquette.session.precision.bases import ANCHOR, plain
from maquette.session.precision.description import KIND, Description
from maquette.session.precision.family import Within, places_of, within
from maquette.session.precision.naming import OTHER
from maquette.session.precision.view import View
from maquette.session.precision.whole_view import WholeView

RENTED = "rented"  # begins the key of what was rented
NOISELESS = 1e-20  # variance of a public number of rows
STEP = 0.5  # a normal law rounded to whole counts is at least as wide as the discrete one, also at twice the scale
DERIVED, FRESH, GUARDED = 0.75, 0.125, 0.125  # shares of beta for answers derived, measured as asked, and guarded
LEAST = 1e-15  # smallest failure probability a float resolves; a million of them still add up to almost nothing
_RATIOS = tuple(i / 64 for i in range(1, 64))  # grid for Chernoff's bound
_GRID = (*(2.0**-i for i in range(14, 6, -1)), *_RATIOS)  # small ratios are best for sums of very many noises
_FARTHEST = 60  # standard deviations
_COARSE = -math.log1p(-math.exp(-4.0))  # log of the factor by which discrete noise exceeds a bound more often


class Known(NamedTuple):
    """What is known of a part: largest variance of a coefficient, number of pieces, whether it is one rented number."""

    variance: float
    pieces: int
    lumped: bool = False
    bases: tuple[tuple[Columns, float], ...] = ()  # keys and variances, where it is not known under its own name alone


Values = NDArray[np.float64]
Look = Callable[[Columns], Known | None]


def known_of(view: View, look: Look) -> dict[Columns, Known]:
    """What is known of the parts of a question, in terms of its gains; parts not measured are left out."""
    found = {}
    for part, keys in view.bases:
        if known := [(key, ratio, one) for key, ratio in keys if (one := look(key)) is not None]:
            found[part] = together(part, known)
    return found


def together(part: Columns, known: Sequence[tuple[Columns, float, Known]]) -> Known:
    """What is known of a part in several bases, each with its gain relative to the part's own: precisions add up."""
    if len(known) == 1 and known[0][0] == part:
        return known[0][2]
    bases = tuple([(key, one.variance if key == part else ratio * one.variance) for key, ratio, one in known])
    precision, pieces = sum([1.0 / variance for _, variance in bases]), sum([one.pieces for _, _, one in known])
    return Known(1.0 / precision, pieces, bases=bases)


def deviation(view: View, known: Mapping[Columns, Known]) -> float:
    """The standard deviation of the noisiest cell."""
    return math.sqrt(sum([gain * known[part].variance for part, gain in view.gains.items()]))


def mixture_of(known: Mapping[Columns, Known]) -> dict[Columns, dict[Columns, float]]:
    """The weight of each basis of a part, where it is not read from its own alone: by inverse variance."""
    found = {}
    for part, one in known.items():
        if one.bases:
            total = sum([1.0 / variance for _, variance in one.bases])
            found[part] = {key: 1.0 / variance / total for key, variance in one.bases}
    return found


@dataclass(frozen=True)
class Widths:
    """Half-widths at failure probability `beta`, for each question or for all together."""

    beta: float
    simultaneous: bool
    gaussian: bool
    account: Account | None = None  # None: that of sessions which version 0.1 began

    def of(self, view: View, known: Mapping[Columns, Known]) -> float:
        """The half-width of the noisiest cell, in counts."""
        if not view.gains:
            return 0.0
        if self.mixed(view):
            width = self._mixed(view, known)
            return width + min(STEP, width)
        variance = sum(gain * known[part].variance for part, gain in view.gains.items())
        if self.gaussian:
            width = self.multiplier(view, known) * math.sqrt(variance)
            return width + min(STEP, width)
        if not self.simultaneous:
            noises = [
                (gain * known[part].variance, _peak(view, part, known[part]) * known[part].variance)
                for part, gain in view.gains.items()
            ]
            # One whole count of noise moves an answer by a share of norm at most 1 in its part.
            step = math.sqrt(sum(view.gains.values()))
            return laplace_sum(noises, math.log(self.beta), step=step)
        pieces = sum(known[part].pieces for part in view.gains)
        bits = self._bits(view.description, known)
        each = self._log_doubt(bits) + _log_share(pieces) - math.log(pieces)
        return sum(
            laplace_half_width(
                math.sqrt(gain * known[part].variance * known[part].pieces),
                math.sqrt(_peak(view, part, known[part]) * known[part].variance * known[part].pieces),
                each,
            )
            for part, gain in view.gains.items()
        )

    def multiplier(self, view: View, known: Mapping[Columns, Known], *, per: View | None = None) -> float:
        """The half-width in standard deviations of Gaussian noise; for a ratio, `known` holds the parts of both views.

        The denominator `per` is the number of rows, or the count that an average divides by.
        """
        if not self.simultaneous:
            return _normal(self.beta)
        description = view.description
        if per is not None:
            below = per.description
            description = below.averaged(description, len(view.schema)) if per.columns else description.over_rows
        pieces = [part.pieces for part in known.values()] or [1]
        named = _chi(self._log_doubt(self._bits(description, known)), sum(pieces))
        if any(part.lumped for part in known.values()):
            return named  # a question's own measurement has noise that no other direction shares
        return min(named, self._in_any_direction(description, max(pieces)))

    def _in_any_direction(self, description: Description, pieces: int) -> float:
        """Deviations for all questions about the same columns at once, which need no name."""
        bits = description.set_bits + KIND if self.account is None else description.direction
        return _chi(self._log_doubt(bits), description.cells * pieces)

    def _bits(self, description: Description, known: Mapping[Columns, Known]) -> float:
        """The bits of a question; more if it has rented noise of its own."""
        rented = any(part.lumped for part in known.values())
        if self.account is None:
            return description.bits + (KIND if rented else 0.0)
        return description.name + (OTHER + len(known) if rented else 0.0)  # a bit for each part: rented or not

    def spent(self, before: int | None) -> Widths:
        """The same after `before` numbers measured as asked before the first part."""
        if self.account is None or self.account.before == before:
            return self
        return replace(self, account=replace(self.account, before=before))

    def anchored(self, anchor: int | None) -> Widths:
        """The same if the number of rows is measured after `anchor` places."""
        if self.account is None or self.account.anchor == anchor:
            return self
        return replace(self, account=replace(self.account, anchor=anchor))

    def mixed(self, view: View) -> bool:
        """Whether the width is that of an account: for a question with a name about some columns."""
        return (
            self.simultaneous
            and self.gaussian
            and self.account is not None
            and bool(self.account.scales)
            and bool(view.columns)
            and math.isfinite(view.description.name)
        )

    def whole(self, view: WholeView, known: Known, number: int) -> Within:
        """How far a question read from a whole table can be off, which took places from the given number on.

        The table is bought for a family of questions that is fixed before its noise is drawn, so they share the doubt
        of its places. Infinite for any other question, or where more of the table was measured later, if all answers
        hold together.
        """
        if not self.simultaneous:
            return Within(_normal(self.beta))
        if view.family is None or known.pieces > 1:
            return Within(math.inf)
        if self.account is None or not self.account.division.weighs:
            return Within(sum_half_width(1.0, 1.0, 1 - self.fresh(view.family, number), gaussian=True))
        doubt = self.fresh(1, number, self.places(view.schema, view.key))
        return within(view.schema, view.key, view.family, doubt, known.variance)

    def bare(self, view: BareView, known: Mapping[Columns, Known], number: int, *, after: bool) -> BareWithin | None:
        """The same for a bare table, if all answers hold together; None where it answers nothing.

        `after`: it was measured after the number of rows that it shares, not in the same charge.
        """
        if len(known) < len(view.gains) or view.family is None or any(one.pieces > 1 for one in known.values()):
            return None
        told = self.bare_doubt(view, number, after=after)
        return bare_within(view.schema, view.key, told, known[ANCHOR].variance, known[view.key].variance)

    def bare_doubt(self, view: BareView, number: int, *, after: bool) -> Doubt:
        """The doubt of a bare table that takes places from the given number on."""
        share = self.fresh(1, number, self.places(view.schema, view.key), centred=True)
        return Doubt(share, self.k, after)

    def centred(self, rows: float, own: float, number: int) -> float:
        """The half-width of a count measured from half of the rows, by the variances of these and of its own noise."""
        if self.simultaneous:
            return half_width(rows, own, self.fresh(1, number, centred=True), self.k)
        return sum_half_width(math.sqrt(rows / 4 + own), 1.0, 1 - self.beta, gaussian=True)

    @property
    def shares_rows(self) -> bool:
        """Whether tables of one column may be read together with the number of rows."""
        return self.simultaneous and self.account is not None and self.account.division.bare

    @property
    def k(self) -> float:
        """How fast what may go wrong grows with the noise of the number of rows (`anchor`)."""
        return K if self.account is None else self.account.division.k

    def hardest(self, view: WholeView, number: int) -> float:
        """Deviations that bound the hardest question of a whole table which takes places from the given number on."""
        one = self.whole(view, Known(1.0, 1), number)
        return min(one.deviations, one.most / math.sqrt(view.hardest))

    def places(self, schema: Schema, key: Columns) -> int:
        """How many places of the series of shares a whole table takes."""
        return places_of(schema, key) if self.account is not None and self.account.division.weighs else 1

    def fewest(self, view: View) -> float:
        """No half-width of Gaussian noise is fewer standard deviations than this; 0 where that is not known."""
        if self.mixed(view) and self.account is not None:
            direction = self._in_any_direction(view.description, 1)
            return min(math.sqrt(2 * self.account.nats(view.description.name, beta=self.beta)), direction)
        return _normal(self.beta) if self.gaussian and not self.simultaneous else 0.0

    def deviations(self, view: View) -> float | None:
        """About how many standard deviations the width of an account is; None where there is none."""
        return math.sqrt(2.4 * self.account.nats(view.description.name)) if self.mixed(view) and self.account else None

    def _mixed(self, view: View, known: Mapping[Columns, Known]) -> float:
        assert self.account is not None
        noises = _noises(view, known)
        if not noises:
            return 0.0
        width = self.account.width(view.columns, noises, self._bits(view.description, known), self.beta)
        if view.description.name > view.description.cells and not any(one.lumped for one in known.values()):
            pieces = max([one.pieces for one in known.values()])
            width = min(width, deviation(view, known) * self._in_any_direction(view.description, pieces))
        return width

    def of_cells(self, view: View, known: Mapping[Columns, Known], sizes: Callable[[Columns], Values]) -> Values:
        """The half-width of every cell of a table; `sizes` are the squared weights of the cells under a key."""
        assert self.account is not None
        noises, most = _noises(view, known), self.of(view, known)
        if not noises:
            return np.zeros(view.shape)
        part_of = {key: plain(key) for key in noises}
        shares = {key: sizes(key) / (view.gains[part] * _ratio(view, part, key)) for key, part in part_of.items()}
        bits = self._bits(view.description, known)
        widths = self.account.widths(view.columns, noises, bits, self.beta, shares)
        return np.minimum(widths + np.minimum(STEP, widths), most)

    def fresh(self, cells: int, number: int, places: int = 1, *, centred: bool = False) -> float:
        """Failure probability of each of `cells` numbers measured as asked: their noise is drawn after the choice.

        Of one that is `centred`, measured from half of the rows: before it is multiplied by psi (`anchor`).
        """
        if not self.simultaneous:
            return self.beta
        if self.account is not None:
            account, anchor = self.account, self.account.anchor
            share = account.division.fresh(number, account.before, places, anchor)
            apart = not centred and anchor is not None and number > anchor
            return max(LEAST, self.beta * share * (least(account.division.k) if apart else 1.0) / cells)
        return max(LEAST, self.beta * FRESH * 6 / (math.pi * number) ** 2 / cells)

    def _log_doubt(self, bits: float) -> float:
        """Log of the failure probability of a question whose description has `bits` bits, for any number of pieces."""
        share = DERIVED if self.account is None else self.account.derived
        return math.log(self.beta * share) - bits * math.log(2)

    def guard(self, number: int) -> float:
        """Failure probability of the given guard, threshold and tests together."""
        share = GUARDED * 6 / (math.pi * number) ** 2 if self.account is None else shares.guard(number)
        return self.beta * share


def _noises(view: View, known: Mapping[Columns, Known]) -> dict[Columns, Noise]:
    """The noise of a question by key; expectations are for a precision of one."""
    found = {}
    for part, gain in view.gains.items():
        one = known[part]
        if one.lumped:  # a number of the question's own, whose weight is one
            found[(RENTED, *part)] = Noise(gain * one.variance, 1.0, gain * one.variance, OWN)
            continue
        for key, variance in one.bases or ((part, one.variance),):
            if variance > NOISELESS:
                found[key] = Noise(gain * variance, one.variance / variance, gain * _ratio(view, part, key))
    return found


def _ratio(view: View, part: Columns, key: Columns) -> float:
    return 1.0 if key == part else view.others[part][key]


def laplace_sum(noises: Sequence[tuple[float, float]], log_doubt: float, *, step: float = math.inf) -> float:
    """Bound on a sum of independent Laplace noises, given in groups; the best of several bounds.

    Each group has a total variance and the largest variance of a single noise, 2 b^2. The log moment generating
    function of one noise, -ln(1 - b^2 s^2), which also bounds that of the discrete law, is convex in b^2. So that of
    the group is at most (total / largest) times that of the largest noise. First bound: Chernoff's, the least over a
    grid of s.

    Second: with total variance 2 B^2, the tail is at most that of one noise, 2 exp(-t / B), because the sum is
    log-concave: up to 3 B by Gauss' inequality; from 2.4 B on because a heavier tail, concave in the logarithm, would
    have a larger variance.

    Two more, for the continuous law. A tail that is exp(-L) at t and concave in the logarithm is at least
    exp(-L u / t) at every u below t, so the variance is at least 2 (t / L)^2 (1 - (1 + L) exp(-L)), which bounds t.
    And Laplace noise is normal noise whose variance is 2 b^2 times an exponential variable. Given those, the sum is
    normal with some variance V, and exceeds t with probability g(V) = 2 Q(t / sqrt V), Q the normal tail. ln g is
    concave in V, so g(V) <= g(v) exp(c (V - v)) with c its slope at any v; and E exp(c V) is the moment above at
    c = s^2 / 2. With x = t / sqrt v and h the normal hazard, c = h x^3 / (2 t^2): the bound holds at t = `_reach` / s.
    In the normal limit it is exact; Chernoff's bound is a fifth wider at a failure probability of 1e-3.

    Discrete Laplace noise is continuous noise minus an independent difference U of two numbers in [0, 1), the fractions
    of two exponential variables. Let `step` be the norm of the changes of the sum when each noise changes by one. All U
    together move the sum up by more than 2 `step` with probability at most exp(-4) (Hoeffding). So a sum of discrete
    noises exceeds t + 2 `step` at most 1 / (1 - exp(-4)) times as often as one of continuous noises exceeds t.
    """
    steepest = math.sqrt(max(largest for _, largest in noises) / 2)
    surprise = math.log(2) - log_doubt
    scale = math.sqrt(sum(total for total, _ in noises) / 2)
    best = scale * surprise
    if not steepest:
        return best
    nats = _COARSE - log_doubt
    best = min(best, scale * nats / math.sqrt(1 - (1 + nats) * math.exp(-nats)) + 2 * step)
    groups = [(total / largest, largest / 2) for total, largest in noises if largest]

    def bound(place: int) -> float:
        s = _GRID[place] / steepest
        square = s**2
        moment = -sum(times * math.log1p(-half * square) for times, half in groups)
        smooth = _reach(moment + nats) / s + 2 * step
        return min((moment + surprise) / s, smooth)

    return min(best, _least(bound, len(_GRID)))


def _least(bound: Callable[[int], float], count: int) -> float:
    """The least of some bounds that fall and then rise; for any other shape, one of the bounds."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if bound(middle) <= bound(middle + 1):
            high = middle
        else:
            low = middle + 1
    return bound(low)


@cache
def _reaches() -> tuple[list[float], list[float]]:
    """For x on a grid: x h / 2 - ln(2 Q(x)), and sqrt(h x^3); the second is convex in the first."""
    from scipy.special import log_ndtr

    x = np.linspace(0.0, _FARTHEST, 100 * _FARTHEST + 1)
    log_tail = log_ndtr(-x)
    hazard = np.exp(-(x**2) / 2 - math.log(2 * math.pi) / 2 - log_tail)
    return (x * hazard / 2 - math.log(2) - log_tail).tolist(), np.sqrt(hazard * x**3).tolist()


def _reach(nats: float) -> float:
    """t s for the third bound of `laplace_sum`; `nats` is the log moment minus the log failure probability."""
    places, reaches = _reaches()
    if not 0.0 < nats < places[-1]:
        return nats + math.log(2)  # Chernoff's
    i = bisect_right(places, nats)
    share = (nats - places[i - 1]) / (places[i] - places[i - 1])
    return reaches[i - 1] + share * (reaches[i] - reaches[i - 1])


def _peak(view: View, part: Columns, known: Known) -> float:
    """Share of a part's variance that comes from one noise value."""
    return view.gains[part] if known.lumped else view.peak(part)


def laplace_half_width(deviation: float, largest: float, log_doubt: float) -> float:
    """`sum_half_width` of Laplace noise, also for a failure probability too small for a float."""
    if math.isinf(log_doubt):
        return math.inf
    square, scale, surprise = deviation**2 / 2, largest / math.sqrt(2), math.log(2) - log_doubt
    return min(square * r / (scale * (1 - r**2)) + surprise * scale / r for r in _RATIOS)


def _log_share(pieces: int) -> float:
    """Log of the share of a question's failure probability for this number of pieces; the shares sum to one."""
    return math.log(6 / (math.pi * pieces) ** 2)


@cache
def _normal(beta: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - beta / 2))


@cache
def _chi(log_doubt: float, pieces: int) -> float:
    """The root of the least q with (q / m)^(m/2) exp((m - q) / 2) * (pi m)^2 / 6 <= doubt."""
    if math.isinf(log_doubt):
        return math.inf
    wanted = log_doubt + _log_share(pieces)
    low, high = float(pieces), pieces + 10.0 * (math.sqrt(-wanted * pieces) - wanted) + 10.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = pieces / 2 * (math.log(middle / pieces) + 1) - middle / 2
        low, high = (middle, high) if tail > wanted else (low, middle)
    return math.sqrt(high)
