"""Every random number behind the wall: exact discrete noise and exact private selection.

A float64 evaluation decides almost every draw. The rare draw within its error bound is decided by exact arithmetic on
further random bits (`exact.py`). So the distributions are exactly those of the theory, at the speed of numpy.
Randomness comes from the operating system; there is no seed and no state.

Reference: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, algorithms 2 and 3.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf, isqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.curator.exact import Uniform, below, floor_log, words
from maquette.errors import BudgetError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Bounds the error of every float64 evaluation here: a few roundings at 2^-53 and an exp or log within 64 ulp.
_SLACK = 2.0**-44
_BLOCK = 1 << 16
_LARGEST = 2**62 - 1


class NoiseSource(Protocol):
    """Everything random that a door may use."""

    def laplace(self, scale: Fraction, size: int) -> Integers:
        """Independent discrete Laplace values, P(z) proportional to exp(-|z| / scale)."""

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        """Independent discrete Gaussian values, P(z) proportional to exp(-z^2 / (2 variance))."""

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        """An index i with P(i) proportional to exp(scores[i] / scale)."""

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        """The first index, in random order, whose coin with probability exp((scores[i] - max) / scale) shows heads."""


class ExactNoise:
    """The production source: exact distributions, the operating system's randomness, no seed; forks share nothing.

    Privacy of an integer statistic of sensitivity D: `laplace(D/epsilon)` is epsilon-DP, `gaussian(D^2/(2 rho))` is
    rho-zCDP, `exponential(2D/epsilon)` is epsilon-DP and epsilon^2/8-zCDP, `permute_and_flip(2D/epsilon)` is
    epsilon-DP (D/epsilon suffices for both selections when scores are monotone). Values saturate at 2^62 - 1, which at
    the largest scale accepted, 2^50, has probability below exp(-4000).
    """

    def laplace(self, scale: Fraction, size: int) -> Integers:
        """See `NoiseSource.laplace`."""
        return self.laplaces([scale], [size])[0]

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        """See `NoiseSource.gaussian`."""
        return self.gaussians([variance], [size])[0]

    def laplaces(self, scales: Sequence[Fraction], sizes: Sequence[int]) -> list[Integers]:
        """`laplace` for many scales at once; every value is independent and has the same distribution as there."""
        for scale in scales:
            check_laplace(scale)
        return _fill(scales, sizes, _laplace)

    def gaussians(self, variances: Sequence[Fraction], sizes: Sequence[int]) -> list[Integers]:
        """`gaussian` for many variances at once; every value is independent and has the same distribution as there."""
        for variance in variances:
            check_gaussian(variance)
        return _fill(variances, sizes, _gaussian)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        """See `NoiseSource.exponential`; O(n) for n candidates."""
        return int(self.exponentials(scores, scale, 1)[0])

    def exponentials(self, scores: Integers, scale: Fraction, size: int) -> Integers:
        """Independent indices, each distributed as by `exponential`; O(n + size log n) for n candidates.

        Rejection sampling from integer weights slightly above the true ones: they are summed without rounding, an index
        is drawn in proportion to them, and accepted with the exact ratio of its true weight to its integer weight. The
        weights depend on the scores only, so every index uses fresh randomness.
        """
        check_selection(scale)
        bits = min(40, 62 - len(scores).bit_length())
        best, cumulative = _best(scores), np.empty(len(scores), dtype=np.int64)
        for start, deficits in _deficits(scores, best):
            weights = np.ldexp(np.exp(-_ratio(deficits, scale)), bits)
            # 2^bits * _SLACK < 1, so adding two after truncation covers the true weight for any float error.
            cumulative[start : start + len(deficits)] = weights.astype(np.int64) + 2
        np.cumsum(cumulative, out=cumulative)
        drawn: list[int] = []
        while len(drawn) < size:
            ticket = secrets.randbelow(int(cumulative[-1]))
            index = int(np.searchsorted(cumulative, ticket, side="right"))
            cover = int(cumulative[index]) - (int(cumulative[index - 1]) if index else 0)
            if below(Uniform.draw(), Fraction(2**bits, cover), (best - int(scores[index])) / scale):
                drawn.append(index)
        return np.array(drawn, dtype=np.int64)

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        """See `NoiseSource.permute_and_flip`; O(n) for n candidates.

        Every coin is flipped at most once, so all can be flipped in advance: the first heads in a random order is then
        a uniform choice among all heads.
        """
        check_selection(scale)
        best = _best(scores)
        heads = [
            start + np.flatnonzero(_coins(_ratio(deficits, scale), lambda i: (best - int(scores[i])) / scale, start))
            for start, deficits in _deficits(scores, best)
        ]
        candidates = np.concatenate(heads)
        return int(candidates[secrets.randbelow(len(candidates))])


def exponentials(noise: NoiseSource, scores: Integers, scale: Fraction, size: int) -> Integers:
    """Independent draws of one exponential mechanism, in one pass over the scores if the source supports it."""
    if isinstance(noise, ExactNoise):
        return noise.exponentials(scores, scale, size)
    return np.array([noise.exponential(scores, scale) for _ in range(size)], dtype=np.int64)


def round_scale_up(scale: float | Fraction) -> Fraction:
    """Round a noise scale or variance up to 21 significant bits, by at most one part in 2^20.

    More noise never costs privacy, and a ledger can print a short dyadic number that an auditor can retype.
    Pass a Fraction if the scale is a ratio: a float quotient may already have been rounded down.
    """
    if not 0 < scale < inf:
        raise BudgetError(f"a noise scale of {scale} is not usable", expected="a positive finite number")
    exact = Fraction(scale)
    above, below = exact.numerator, exact.denominator
    shift = above.bit_length() - below.bit_length() - 21
    if shift >= 0:
        return Fraction(-(-above // (below << shift)) << shift)
    return Fraction(-(-(above << -shift) // below), 1 << -shift)


def check_laplace(scale: Fraction) -> None:
    """Refuse a Laplace scale that cannot be drawn exactly; doors do so before they charge."""
    _check("Laplace scale", scale, 30, 50)


def check_gaussian(variance: Fraction) -> None:
    """Refuse a Gaussian variance that cannot be drawn exactly."""
    _check("Gaussian variance", variance, 60, 100)


def check_selection(scale: Fraction) -> None:
    """Refuse a selection scale that cannot be drawn exactly."""
    _check("selection scale", scale, 30, 50)


class _Each:
    """A number for each of many draws: as floats, which decide almost every draw, and exact, for the other draws."""

    def __init__(self, exact: Sequence[Fraction], owner: Integers | None, total: int) -> None:
        """The i-th of `total` draws has number `exact[owner[i]]`; without `owner` all draws have the only number."""
        self.exact = exact
        self.total = total
        self._owner = owner

    @classmethod
    def of(cls, exact: Sequence[Fraction], counts: Sequence[int]) -> _Each:
        """The i-th number for `counts[i]` consecutive draws."""
        return cls(exact, None if len(exact) == 1 else np.repeat(np.arange(len(exact)), counts), sum(counts))

    def like(self, exact: Sequence[Fraction]) -> _Each:
        """Other numbers in the same order, for the same draws."""
        return _Each(exact, self._owner, self.total)

    @property
    def floats(self) -> Floats:
        """The nearest float of every draw's number; a single float if all have the same number."""
        return self.spread(np.array([float(number) for number in self.exact]))

    def spread(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers in the same order, one for each draw; a single number if it is for all."""
        return numbers[:1] if self._owner is None else numbers[self._owner]

    def __getitem__(self, draw: int) -> Fraction:
        return self.exact[0 if self._owner is None else int(self._owner[draw])]


Proposals = tuple[Integers, NDArray[np.bool_]]  # values, and which of them are accepted


def _laplace(scale: _Each) -> Proposals:
    """Proposals for discrete Laplace values.

    The magnitude is step * G + R with G geometric and R uniform below step, accepted with probability exp(-R / scale);
    a negative zero is rejected. The power of two `step` keeps G small enough for floats to decide it.
    """
    steps = [1 << max(0, int(exact).bit_length() - 17) for exact in scale.exact]
    step = scale.spread(np.array(steps, dtype=np.int64))
    draws = words(scale.total, np.uint64)
    negative = (draws & np.uint64(1)).astype(bool)
    stepped = scale.like([exact / size for exact, size in zip(scale.exact, steps, strict=True)])
    magnitude = _geometric(draws >> np.uint64(1), stepped, _LARGEST // step)
    kept = np.ones(scale.total, dtype=np.bool_)
    if max(steps) > 1:  # if step is 1, R is 0 and accepted
        rest = (words(scale.total, np.uint64) & (step - 1).astype(np.uint64)).astype(np.int64)
        magnitude = magnitude * step + rest
        kept = _coins(rest / scale.floats, lambda i: int(rest[i]) / scale[i])
    kept &= ~negative | (magnitude > 0)
    return np.where(negative, -magnitude, magnitude), kept


def _geometric(draws: NDArray[np.uint64], scale: _Each, largest: Integers) -> Integers:
    """floor(-scale * ln U) for the uniform numbers that begin with these 63-bit draws, scale below 2^17."""
    factor = scale.floats
    value = -factor * np.log((draws.astype(np.float64) + 0.5) * 2.0**-63)
    result = np.floor(value)
    fraction = value - result
    slack = (value + factor) * _SLACK
    # The relative width of the cell of a draw below 2^46 is too large for the slack to cover.
    unsure = (fraction < slack) | (fraction > 1 - slack) | (draws < np.uint64(2**46))
    integers = result.astype(np.int64)
    for i in np.flatnonzero(unsure):
        most = int(np.broadcast_to(largest, len(draws))[i])
        integers[i] = min(floor_log(Uniform(int(draws[i]), 63), scale[int(i)]), most)
    return integers


def _gaussian(variance: _Each) -> Proposals:
    """Proposals for discrete Gaussian values: Laplace values of scale floor(sigma) + 1."""
    scales = [Fraction(isqrt(int(exact)) + 1) for exact in variance.exact]
    proposals, kept = _laplace(variance.like(scales))
    centre = variance.like([exact / scale for exact, scale in zip(variance.exact, scales, strict=True)])
    twice = variance.like([2 * exact for exact in variance.exact])
    distance = np.abs(proposals) - centre.floats
    kept &= _coins(distance * distance / twice.floats, lambda i: (abs(int(proposals[i])) - centre[i]) ** 2 / twice[i])
    return proposals, kept


def _coins(exponents: Floats, exact: Callable[[int], Fraction], start: int = 0) -> NDArray[np.bool_]:
    """Independent coins: the i-th shows heads with probability exp(-exact(start + i)), about exp(-exponents[i])."""
    draws = words(len(exponents), np.uint32)
    margin = np.exp(-exponents) * 2.0**32 - draws
    slack = 2.0**32 * _SLACK
    heads: NDArray[np.bool_] = margin >= 1 + slack
    for i in np.flatnonzero((margin > -slack) & ~heads):
        heads[i] = below(Uniform(int(draws[i]), 32), Fraction(1), exact(start + int(i)))
    return heads


def _fill(exact: Sequence[Fraction], sizes: Sequence[int], propose: Callable[[_Each], Proposals]) -> list[Integers]:
    """For the i-th number, `sizes[i]` values: the first accepted ones of its own proposals."""
    drawn = [np.empty(size, dtype=np.int64) for size in sizes]
    missing = {part: size for part, size in enumerate(sizes) if size}
    while missing:
        counts = _next(missing)
        values, kept = propose(_Each.of([exact[part] for part in counts], list(counts.values())))
        start = 0
        for part, count in counts.items():
            mine = slice(start, start + count)
            accepted = values[mine][kept[mine]][: missing[part]]
            filled = sizes[part] - missing[part]
            drawn[part][filled : filled + len(accepted)] = accepted
            missing[part] -= len(accepted)
            if not missing[part]:
                del missing[part]
            start += count
    return drawn


def _next(missing: Mapping[int, int]) -> dict[int, int]:
    """The number of values to propose next for each number, as far as a block has room."""
    counts: dict[int, int] = {}
    room = _BLOCK
    for part, size in missing.items():
        count = min(_BLOCK, size + size // 4 + 8)
        if counts and count > room:
            break
        counts[part] = count
        room -= count
    return counts


def _best(scores: Integers) -> int:
    if scores.dtype != np.int64 or scores.ndim != 1 or len(scores) == 0:
        raise TypeError(f"scores are {scores.dtype} of shape {scores.shape}; expected a non-empty vector of int64")
    return int(scores.max())


def _deficits(scores: Integers, best: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Blocks of best - scores, each with its first index."""
    for start in range(0, len(scores), _BLOCK):
        # Unsigned arithmetic wraps to the true difference even if it exceeds the int64 range.
        yield start, np.uint64(best % 2**64) - scores[start : start + _BLOCK].astype(np.uint64)


def _ratio(numerators: NDArray[np.int64] | NDArray[np.uint64], scale: Fraction) -> Floats:
    ratio: Floats = numerators.astype(np.float64) / float(scale)
    return ratio


def _check(name: str, value: Fraction, low: int, high: int) -> None:
    if not value.denominator <= value.numerator << low or not value <= 2**high:
        raise BudgetError(
            f"a {name} of {Decimal(value.numerator) / value.denominator:.3g} is out of range",
            expected=f"between 2^-{low} and 2^{high}: change epsilon or rho, or count in other units",
        )
