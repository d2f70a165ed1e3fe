"""View: a question in terms of residuals: what it needs of every set of columns, and how noise reaches it.

Counts over columns S split into orthogonal parts, one for every subset A of S: what A says beyond its own subsets
(`maquette.estimates.residuals`). A question over S is a sum over these parts, so its estimate is a sum of estimates and
its noise variance is sum_A gain_A / precision_A. A question that factors into one vector per column is never
enumerated; any other is written out over the cells of S. Public computation.

A part can also be measured in other bases (`maquette.session.precision.bases`), in which ranges or sums have less
noise. What several bases say is averaged with one weight each for the whole part.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns
from maquette.query import Contrasts
from maquette.schema import Schema
from maquette.session.precision.description import Description, parts_of

Values = NDArray[np.float64]
Part = tuple[Values, Values]  # coefficients in counts, and their variances
Read = Callable[[Columns], Part]

NEGLIGIBLE = 1e-18


class Component(NamedTuple):
    """What a part contributes to one number, in counts, and the variance of its noise."""

    value: float
    variance: float


class Outline(NamedTuple):
    """Of the contrast for one number: its largest entry, and the factor that converts it to counts."""

    largest: int
    factor: float


NOTHING: Mapping[Columns, Component] = MappingProxyType({})
Mixture = Mapping[Columns, Mapping[Columns, float]]  # by part: the keys from which it is read, and their weights
UNMIXED: Mixture = MappingProxyType({})

CELLS: Columns = ("*",)  # the part that is one noisy histogram of the whole universe, without its total


class View(ABC):
    """How every cell of a marginal depends on the parts of its columns."""

    def __init__(self, schema: Schema, columns: Columns, shape: tuple[int, ...], description: Description) -> None:
        self.schema = schema
        self.columns = columns
        self.shape = shape
        self.description = description
        self._kept: dict[Columns, Values] = {}
        self.weight = math.prod(self.shape)  # the numbers that it keeps, about

    @cached_property
    def parts(self) -> tuple[Columns, ...]:
        """Every subset of the columns; a column with one level has no part of its own."""
        return parts_of(self.schema, self.columns)

    @cached_property
    def gains(self) -> dict[Columns, float]:
        """For every part with non-zero gain: variance of the noisiest cell per unit of the part's variance."""
        gains = {part: self._gain(part) for part in self.parts}
        return {part: gain for part, gain in gains.items() if gain > NEGLIGIBLE}

    @cached_property
    def others(self) -> dict[Columns, dict[Columns, float]]:
        """For parts that can be measured in other bases: the gain by key, relative to `gains`."""
        return {}

    @cached_property
    def bases(self) -> tuple[tuple[Columns, tuple[tuple[Columns, float], ...]], ...]:
        """Every part with the keys under which it can be measured, and their gains relative to the part's own."""
        return tuple((part, ((part, 1.0), *self.others.get(part, {}).items())) for part in self.gains)

    @property
    def ranged(self) -> bool:
        """Whether it holds a range of several levels of an ordered column."""
        return False

    def sources(self, mixed: Mixture, part: Columns) -> list[tuple[Columns, float]]:
        """The keys from which a part is read, each with its weight."""
        return list(mixed[part].items()) if part in mixed else [(part, 1.0)]

    def look(
        self,
        read: Read,
        instead: Mapping[Columns, Component] = NOTHING,
        mixed: Mixture = UNMIXED,
    ) -> tuple[Values, Values]:
        """Estimate and variance of every cell, in counts; `instead` replaces some parts of a single number."""
        if not self.shape:
            return self._look_once(read, instead, mixed)
        values, variances = np.zeros(self.shape), np.zeros(self.shape)
        for part in self.gains:
            for key, weight in self.sources(mixed, part):
                coefficients, noise = read(key)
                values += weight * self._project(key, coefficients, 1)
                variances += weight**2 * self._project(key, noise, 2)
        return values, variances

    def _look_once(self, read: Read, instead: Mapping[Columns, Component], mixed: Mixture) -> tuple[Values, Values]:
        """`look` for a single number, computed from its shares."""
        own = [instead[part] for part in self.gains if part in instead]
        keys = [source for part in self.gains if part not in instead for source in self.sources(mixed, part)]
        value, variance = sum(one.value for one in own), sum(one.variance for one in own)
        if keys:
            coefficients, noises = zip(*(read(key) for key, _ in keys), strict=True)
            shares = np.concatenate(
                [self._flat(key) if weight == 1.0 else weight * self._flat(key) for key, weight in keys]
            )
            value += float(shares @ np.concatenate(coefficients, axis=None))
            variance += float(shares**2 @ np.concatenate(noises, axis=None))
        return np.array(value), np.array(variance)

    def sizes(self, key: Columns, shape: tuple[int, ...]) -> Values:
        """The squared weights of every cell under a key whose numbers have this shape, added up."""
        return self._project(key, np.ones(shape), 2)

    def _spread_out(self, part: Columns, size: int) -> Values:
        return self._shares(part).reshape(*self.shape, size) if self.shape else self._flat(part)

    def _flat(self, part: Columns) -> Values:
        if part not in self._kept:
            self._kept[part] = self._shares(part).reshape(-1)
        return self._kept[part]

    def component(self, part: Columns) -> tuple[Contrasts, float] | None:
        """What a part contributes to a single number: one contrast, and the factor that converts it to counts."""
        return None

    def outline(self, part: Columns) -> Outline | None:
        """The size of that contrast, computed before it is built."""
        return None

    def covariance(
        self,
        other: View,
        read: Read,
        instead: Mapping[Columns, Component] = NOTHING,
        mixed: tuple[Mixture, Mixture] = (UNMIXED, UNMIXED),
    ) -> Values:
        """The covariance of the noise of two views of the same shape, cell by cell; `mixed` of both in turn."""
        total = np.zeros(self.shape)
        for part in self.gains:
            if part not in other.gains or part in instead:
                continue
            theirs = dict(other.sources(mixed[1], part))
            for key, weight in self.sources(mixed[0], part):
                if key in theirs:
                    noise = read(key)[1].reshape(-1)
                    one, two = (view._spread_out(key, len(noise)) for view in (self, other))
                    total += weight * theirs[key] * (one * two * noise).sum(axis=-1)
        return total

    @abstractmethod
    def peak(self, part: Columns) -> float:
        """The gain of one coefficient of a part: the largest square of a share."""

    @abstractmethod
    def _gain(self, part: Columns) -> float:
        """Variance of the noisiest cell per unit of a part's variance."""

    @abstractmethod
    def _project(self, part: Columns, block: Values, power: int) -> Values:
        """Sum a block of coefficients with the shares of every cell, raised to `power`."""

    @abstractmethod
    def _shares(self, part: Columns) -> Values:
        """The shares: the axes of the cells, then those of the part."""
