"""PMW-Bypass, the peer: our own implementation of Kostopoulou et al., Turbo (SOSP 2023), at its published settings.

A question is measured directly ("bypass", Laplace noise at the accuracy asked for) while the histogram is not ready for
it, and the measured value trains the histogram from outside: a multiplicative step on the question's bins whenever the
two differ by more than tau alpha. The histogram is ready for a question when each of its bins was in at least so many
steps (`visits`). Then a sparse vector tests the histogram's answer at threshold alpha / 2: a pass is free; a failure is
answered by a fresh Laplace value, makes a step, and raises the bins' demand to the least number of steps among them
plus `patience`. The step is rate / 8 in the exponent; the published default lowers the rate as a question's bins gather
steps.

Cost, pure epsilon: ln(1/beta) / (alpha n) for a bypass; 3 e for a sparse vector (threshold noise 1/e, test noise 1/e,
hence e + 2e) from its opening to its failure, and e for the value after a failure, with e the least for which a test
and the value fail with probability beta: exp(-2x) + (1/2 + x/4) exp(-x) = beta, x = alpha n e / 2. In zCDP each pure
part costs half its square. In the peer's favour: the number of rows is given, and every answer is recorded, so a
repeat is free on every route. Noise is numpy's, seeded: this is a simulation, nothing private.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import brentq

from online_sessions.workloads import Held, Workload

Bins = tuple[NDArray[np.int64], NDArray[np.int64]]  # a question's bins: each of the first plus each of the second

SCHEDULE = ((100, 0.2), (50, 0.5), (0, 2.0))  # from so many steps on, the rate


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`visits` and `patience` of the heuristic, the learning rate (or its schedule), and the margin tau."""

    visits: float
    patience: float
    rates: tuple[tuple[int, float], ...] = SCHEDULE
    tau: float = 0.05


PUBLISHED = {
    "100-5": Settings(visits=100, patience=5),
    "1-1": Settings(visits=1, patience=1),
    "10-1": Settings(visits=10, patience=1),
    "1000-1": Settings(visits=1000, patience=1),
    "100-5, rate 0.4": Settings(visits=100, patience=5, rates=((0, 0.4),)),
    "5-1, rate 4": Settings(visits=5, patience=1, rates=((0, 4.0),), tau=0.01),
}


class Reply(NamedTuple):
    """A number of rows, and the route it took."""

    found: float
    route: str


class Bypass:
    """The peer on one table."""

    def __init__(self, workload: Workload, alpha: float, beta: float, settings: Settings, seed: int) -> None:
        self.epsilon = 0.0
        self.rho = 0.0
        self._counts = workload.counts
        self._rows = workload.rows
        self._alpha = alpha
        self._settings = settings
        self._direct = math.log(1 / beta) / (alpha * workload.rows)
        self._tested = tested_epsilon(alpha, beta, workload.rows)
        self._shape = workload.schema.shape(workload.schema.names)
        size = math.prod(self._shape)
        self._weights = np.full(size, 1.0 / size)
        self._total = 1.0
        self._steps = np.zeros(size)
        self._demands = np.full(size, float(settings.visits))
        self._threshold: float | None = None
        self._rng = np.random.default_rng([seed, 7])
        self._others: dict[tuple[int, ...], NDArray[np.int64]] = {}
        self._strides = [math.prod(self._shape[i + 1 :]) for i in range(len(self._shape))]

    def ask(self, number: int, held: Held) -> Reply:
        """The answer to a question that was not asked before."""
        bins = self._bins(held)
        exact = int(self._counts[number])
        mass, least, lacking = _look(self._weights, self._steps, self._demands, *bins)
        public = mass / self._total
        if lacking:
            value = (exact + self._laplace(self._direct)) / self._rows
            self._charge(self._direct)
            margin = self._settings.tau * self._alpha
            if abs(value - public) > margin:
                self._step(bins, least, 1 if value > public else -1)
            return Reply(value * self._rows, "bypass")
        if self._threshold is None:
            self._charge(3 * self._tested)
            self._threshold = self._alpha / 2 * self._rows + self._laplace(self._tested)
        if abs(exact - public * self._rows) + self._laplace(self._tested) < self._threshold:
            return Reply(public * self._rows, "histogram")
        self._threshold = None
        self._charge(self._tested)
        value = (exact + self._laplace(self._tested)) / self._rows
        _set(self._demands, least + self._settings.patience, *bins)
        self._step(bins, least, 1 if value > public else -1)
        return Reply(value * self._rows, "failed test")

    def _step(self, bins: Bins, least: float, sign: int) -> None:
        rate = next(rate for start, rate in self._settings.rates if least >= start)
        self._total += _grow(self._weights, self._steps, math.exp(sign * rate / 8), *bins)
        if not 1e-100 < self._total < 1e100:
            self._weights /= self._weights.sum()
            self._total = 1.0

    def _bins(self, held: Held) -> Bins:
        levels = dict(held)
        named = self._sums(levels.items())
        key = tuple(levels)
        if key not in self._others:
            self._others[key] = self._sums((i, range(n)) for i, n in enumerate(self._shape) if i not in levels)
        return named, self._others[key]

    def _sums(self, levels: Iterable[tuple[int, Iterable[int]]]) -> NDArray[np.int64]:
        """Flat places: sums of one offset for each of these columns."""
        places = np.zeros(1, dtype=np.int64)
        for position, held in levels:
            offsets = np.array(tuple(held), dtype=np.int64) * self._strides[position]
            places = (places[:, None] + offsets).reshape(-1)
        return places

    def _laplace(self, epsilon: float) -> float:
        return float(self._rng.laplace(scale=1 / epsilon))

    def _charge(self, epsilon: float) -> None:
        self.epsilon += epsilon
        self.rho += epsilon**2 / 2


def tested_epsilon(alpha: float, beta: float, rows: int) -> float:
    """The epsilon of one sparse-vector noise at which a test and its fallback fail with probability beta."""
    x = brentq(lambda x: math.exp(-2 * x) + (0.5 + x / 4) * math.exp(-x) - beta, 1e-3, 200.0)
    return float(2 * x / (alpha * rows))


@njit(cache=True)
def _look(weights, steps, demands, named, others):  # type: ignore[no-untyped-def]
    """The weight of some bins, the least number of steps among them, and whether any has had too few."""
    mass, least, lacking = 0.0, np.inf, False
    for first in named:
        for second in others:
            i = first + second
            mass += weights[i]
            least = min(least, steps[i])
            lacking |= steps[i] < demands[i]
    return mass, least, lacking


@njit(cache=True)
def _grow(weights, steps, factor, named, others):  # type: ignore[no-untyped-def]
    """One multiplicative step on some bins; how much weight they gained."""
    gained = 0.0
    for first in named:
        for second in others:
            i = first + second
            gained += weights[i] * (factor - 1.0)
            weights[i] *= factor
            steps[i] += 1.0
    return gained


@njit(cache=True)
def _set(values, value, named, others):  # type: ignore[no-untyped-def]
    for first in named:
        for second in others:
            values[first + second] = value
