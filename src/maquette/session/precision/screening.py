"""Screening: which expectations of a menu can give a question its least width, seen for all of them at once.

An account's width is the least over a menu of expectations, each at several scales. Computed one by one that was most
of what a plan cost. Here all are computed together, in arrays, and in another order of additions, so the numbers may
differ in their last digits: they only tell which few are worth the exact computation, whose result is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns

if TYPE_CHECKING:
    from maquette.session.precision.account import Expectation, Noise

CLOSE = 1e-9  # relative: far more than the rounding of either computation
Values = NDArray[np.float64]


class Screen:
    """A menu of expectations as arrays over the keys of a question; `own` are keys whose weight is known."""

    def __init__(self, menu: Sequence[Expectation], keys: Sequence[Columns], own: Sequence[float]) -> None:
        expected = [[one.keys.get(key, one.other) for key in keys] for one in menu]
        known = np.array(own) > 0
        facts = np.array(expected).reshape(len(menu), len(keys), 2)
        self._known = known if known.any() else None
        self._inverse = np.where(known, 1.0, 1.0 / facts[:, :, 0])
        self._tight = np.where(known, np.array(own, dtype=float), facts[:, :, 1]) ** -2
        self._levels = np.array([one.level for one in menu])
        self._start = self._tight.sum(axis=1) / 2 - np.log([one.share for one in menu])

    def widths(self, noises: Sequence[Noise], nats: float, units: Values, shares: Values) -> tuple[Values, Values]:
        """Widths by unit and expectation, and how large the terms are of which each is a difference."""
        variance, weight, sure, _ = np.array(noises).T
        level, square = self._levels, units[:, None] ** 2
        ratio = sure * self._inverse
        size, times = (level[:, None] * ratio) ** 2 / variance, weight * variance / ratio
        pull, both = times * self._tight, times**2 * size
        # Shared keys are known for a variance in units: their l^2 V grows with it, that of a known weight falls.
        power = square if self._known is None else np.where(self._known, 1.0 / square, square)
        nats_of = nats - np.log(shares)[:, None] + self._start
        nats_of = nats_of + np.log1p(power[:, None, :] * (size / self._tight)).sum(axis=2) / 2
        if self._known is None:
            slope = pull.sum(axis=1) / square
            fixed = (times * pull).sum(axis=1) / square**2
        else:
            there = self._known
            slope = pull[:, ~there].sum(axis=1) / square + pull[:, there].sum(axis=1)
            held = times * pull
            fixed = held[:, ~there].sum(axis=1) / square**2 + held[:, there].sum(axis=1)
        scale = units[:, None] / level
        root = 2 * np.sqrt(nats_of * (both.sum(axis=1) / square + fixed) / 2)
        return np.maximum(0.0, root - slope) * scale, slope * scale

    def near(
        self, noises: Sequence[Noise], nats: float, scales: Sequence[float], finer: Sequence[tuple[float, float]]
    ) -> Iterator[list[list[int]]]:
        """For each scale, the places in the menu and among the finer scales that may have the least width, in order."""
        steps, shares = np.array(finer).T
        units = np.multiply.outer(np.array(scales), steps).reshape(-1)
        with np.errstate(all="ignore"):
            widths, terms = self.widths(noises, nats, units, np.tile(shares, len(scales)))
            doubt = CLOSE * (widths + terms)
            least = (widths + doubt).reshape(len(scales), -1).min(axis=1)
            there = (widths - doubt).reshape(len(scales), len(steps), -1) <= least[:, None, None]
        for one in there:
            places = np.argwhere(one.T if one.any() else np.ones(one.T.shape))  # all, where a number is not finite
            yield places.tolist()


def screen_of(
    kept: dict[tuple[Columns, ...], Screen], menu: Sequence[Expectation], noises: Mapping[Columns, Noise]
) -> Screen:
    """The screen of a question's keys, kept by them."""
    key = tuple(noises)
    found = kept.get(key)
    if found is None:
        found = kept[key] = Screen(menu, key, [noise.spread for noise in noises.values()])
    return found
