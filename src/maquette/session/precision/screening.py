"""Screening: which expectations of a menu can give a question its least width, seen for all of them at once.

An account's width is the least over a menu of expectations, each at several scales. Computed one by one that was most
of what a plan cost. Here all are computed together, in arrays, and in another order of additions, so the numbers may
differ in their last digits: they only tell which few are worth the exact computation, whose result is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns

if TYPE_CHECKING:
    from maquette.session.precision.account import Expectation, Noise

CLOSE = 1e-9  # relative: far more than the rounding of either computation
Values = NDArray[np.float64]


class Screen:
    """A menu of expectations, at some scales and finer ones, as arrays over the keys of a question.

    `own` are the spreads of keys whose weight in the answer is known, and 0 for all others; `finer` has pairs of a
    factor and its share of the doubt.
    """

    def __init__(
        self,
        menu: Sequence[Expectation],
        scales: Sequence[float],
        finer: Sequence[tuple[float, float]],
        own: Mapping[Columns, float],
    ) -> None:
        known = np.array(list(own.values())) > 0
        facts = np.array([[one.keys.get(key, one.other) for key in own] for one in menu])
        self._inverse = np.where(known, 1.0, 1.0 / facts[:, :, 0])
        self._tight = np.where(known, np.array(list(own.values()), dtype=float), facts[:, :, 1]) ** -2
        self._levels = np.array([one.level for one in menu])[:, None]
        self._shape = len(scales), len(finer), len(menu)
        steps, shares = np.array(finer).T
        units = np.multiply.outer(np.array(scales), steps).reshape(-1, 1)
        start = self._tight.sum(axis=1) / 2 - np.log([one.share for one in menu])
        self._start = start - np.tile(np.log(shares), len(scales))[:, None]
        self._scale = units / self._levels.T
        # Shared keys are known for a variance in units: their l^2 V grows with it, that of a known weight falls.
        self._power = np.where(known, units**-2, units**2)[:, None, :]
        self._once, self._twice = np.where(known, 1.0, units**-2).T, np.where(known, 1.0, units**-4).T
        self._squares = units**-2

    def near(self, noises: Sequence[Noise], nats: float) -> Iterator[list[tuple[int, int]]]:
        """For each scale, the places in the menu and among the finer scales that may have the least width, in order."""
        with np.errstate(all="ignore"):
            variance, weight, sure, _ = np.fromiter(chain.from_iterable(noises), float).reshape(len(noises), -1).T
            ratio = sure * self._inverse
            size, times = (self._levels * ratio) ** 2 / variance, weight * variance / ratio
            pull = times * self._tight
            level = np.log1p(self._power * (size / self._tight)).sum(axis=2) / 2 + self._start + nats
            slope = (pull @ self._once).T
            square = (times**2 * size).sum(axis=1) * self._squares + ((times * pull) @ self._twice).T
            terms = slope * self._scale
            widths = np.maximum(0.0, np.sqrt(2 * level * square) * self._scale - terms)
            doubt = CLOSE * (widths + terms)
            scales, steps, menu = self._shape
            least = (widths + doubt).reshape(scales, -1).min(axis=1)
            there = (widths - doubt).reshape(scales, -1) <= least[:, None]
        for one in there:
            places = np.flatnonzero(one).tolist() or range(steps * menu)  # all, where a number is not finite
            yield sorted((place % menu, place // menu) for place in places)
