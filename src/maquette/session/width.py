"""Width: how far the noise can have moved an answer, for one question or for all questions at once.

Each: for a question that was not chosen by looking at the noise of what answers it, the error exceeds the half-width
with probability at most beta. The noise is a sum of independent parts, Gaussian or Laplace.

Simultaneous: with probability 1 - beta, every interval a session ever states holds, however questions were chosen,
and however the precision of the measurements followed from earlier answers. Argument, for Gaussian noise: let a
question be answered from m pieces. For each piece, the projection of its noise on the question, divided by its
deviation, is h_i, sub-Gaussian with parameter 1 whatever happened before the piece was drawn. The error is sum c_i h_i
with coefficients that depend on the precisions bought, now or later, hence perhaps on earlier noise; but it is never
more than its deviation times the length of h. By the moment generating function of h_i^2, Pr[|h|^2 >= q] is at most
(q / m)^(m/2) exp((m - q) / 2). Questions share the doubt by `Description`, numbers of pieces by 6 / (pi m)^2; of a
question its first m pieces count, so it does not matter who decides when to buy more. A ratio is within its interval
when the number above minus the true ratio times the number below is, which is one more fixed question. Laplace noise
has no such rotation; there each of the m pieces is bounded with an m-th of the doubt, and the bounds are added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from maquette.release.residuals import Columns
from maquette.session.description import KIND
from maquette.session.lens import Lens

STEP = 0.5  # a normal law rounded to whole counts is no narrower than the discrete one, nor is one of twice the size
DERIVED, FRESH, GUARDED = 0.75, 0.125, 0.125  # of the doubt, for answers derived, measured as asked, and guarded
LEAST = 1e-15  # a smaller doubt is none to a float; a million such numbers still add up to next to nothing
_RATIOS = tuple(i / 64 for i in range(1, 64))  # where Chernoff's bound is tried


class Known(NamedTuple):
    """What is known of a part: the variance of a coefficient, at most, from how many pieces, or all in one number."""

    variance: float
    pieces: int
    lumped: bool = False


@dataclass(frozen=True)
class Widths:
    """Half-widths at doubt `beta`, for each question or for all."""

    beta: float
    simultaneous: bool
    gaussian: bool

    def of(self, lens: Lens, known: Mapping[Columns, Known]) -> float:
        """The half-width of the noisiest cell, in counts."""
        if not lens.gains:
            return 0.0
        variance = sum(gain * known[part].variance for part, gain in lens.gains.items())
        if self.gaussian:
            width = self.multiplier(lens, known) * math.sqrt(variance)
            return width + min(STEP, width)
        if not self.simultaneous:
            noises = [
                (gain * known[part].variance, _peak(lens, part, known[part]) * known[part].variance)
                for part, gain in lens.gains.items()
            ]
            return laplace_sum(noises, math.log(self.beta))
        pieces = sum(known[part].pieces for part in lens.gains)
        bits = lens.description.bits + _kind(known)
        each = self._log_doubt(bits) + _log_share(pieces) - math.log(pieces)
        return sum(
            laplace_half_width(
                math.sqrt(gain * known[part].variance * known[part].pieces),
                math.sqrt(_peak(lens, part, known[part]) * known[part].variance * known[part].pieces),
                each,
            )
            for part, gain in lens.gains.items()
        )

    def multiplier(self, lens: Lens, known: Mapping[Columns, Known], *, per: Lens | None = None) -> float:
        """How many deviations of Gaussian noise the half-width is; of a ratio, `known` holds the parts of both lenses.

        The number below is that of all rows, or what an average of a column divides by.
        """
        if not self.simultaneous:
            return _normal(self.beta)
        description = lens.description
        if per is not None:
            below = per.description
            description = below.averaged(description, len(lens.schema)) if per.columns else description.over_rows
        pieces = [part.pieces for part in known.values()] or [1]
        named = _chi(self._log_doubt(description.bits + _kind(known)), sum(pieces))
        if any(part.lumped for part in known.values()):
            return named  # a number of one question's own is noise that no other direction shares
        return min(named, _chi(self._log_doubt(description.set_bits + KIND), description.cells * max(pieces)))

    def fresh(self, cells: int, number: int) -> float:
        """The doubt of each of so many numbers measured as asked: their noise is drawn after the choice."""
        if not self.simultaneous:
            return self.beta
        return max(LEAST, self.beta * FRESH * 6 / (math.pi * number) ** 2 / cells)

    def _log_doubt(self, bits: float) -> float:
        """The share of a question with so long a name, whatever the number of its pieces."""
        return math.log(self.beta * DERIVED) - bits * math.log(2)


def laplace_sum(noises: Sequence[tuple[float, float]], log_doubt: float) -> float:
    """How far a sum of independent Laplace noises can be from zero, given groups of them; the better of two bounds.

    Each group has a total variance and the largest variance of a single noise, 2 b^2. The logarithm of a noise's moment
    generating function, -ln(1 - b^2 s^2), also a bound for the discrete law, is convex in b^2: so a group's is at most
    its total over its largest times that of the largest. Chernoff's bound, the least over a grid of s.

    Of variance 2 B^2 in all, the tail is also at most that of one noise, 2 exp(-t / B). For the sum is log-concave: up
    to 3 B by Gauss' inequality; from 2.4 B on because a heavier tail, concave in the logarithm, would have a larger
    variance.
    """
    steepest = math.sqrt(max(largest for _, largest in noises) / 2)
    surprise = math.log(2) - log_doubt
    best = math.sqrt(sum(total for total, _ in noises) / 2) * surprise
    for ratio in _RATIOS if steepest else ():
        s = ratio / steepest
        moment = -sum(total / largest * math.log1p(-largest / 2 * s**2) for total, largest in noises if largest)
        best = min(best, (moment + surprise) / s)
    return best


def _kind(known: Mapping[Columns, Known]) -> float:
    """Bits that say that a question has rented noise of its own."""
    return KIND if any(part.lumped for part in known.values()) else 0.0


def _peak(lens: Lens, part: Columns, known: Known) -> float:
    """How much of its variance one noise value of a part passes on."""
    return lens.gains[part] if known.lumped else lens.peak(part)


def laplace_half_width(deviation: float, largest: float, log_doubt: float) -> float:
    """`sum_half_width` of Laplace noise, for a doubt that may be too small to be told from none."""
    if math.isinf(log_doubt):
        return math.inf
    square, scale, surprise = deviation**2 / 2, largest / math.sqrt(2), math.log(2) - log_doubt
    return min(square * r / (scale * (1 - r**2)) + surprise * scale / r for r in _RATIOS)


def _log_share(pieces: int) -> float:
    """Of the doubt of a question, the share of so many pieces: they add up to one."""
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
