"""Results of the doors: released numbers and the distribution of their noise, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Loss, deviation, half_width
from maquette.query import Contrasts, Marginal

NoiseEvent = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy values of a question, in counts; every value has independent noise of the same distribution."""

    question: Marginal | Contrasts
    values: NDArray[np.float64] = field(repr=False)
    event: NoiseEvent
    cost: Loss
    grid: int = 0
    """Measured values are whole numbers of 1/grid; the question's own grid unless the door gives another."""

    def __post_init__(self) -> None:
        if not self.grid:
            object.__setattr__(self, "grid", self.question.grid)

    @property
    def marginal(self) -> Marginal:
        """The question, if it is a marginal; otherwise an error."""
        if not isinstance(self.question, Marginal):
            raise QueryError(f"{self.question!r} is not a marginal")
        return self.question

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of one value, in counts."""
        return deviation(self.event) / self.grid

    def half_width(self, confidence: float) -> float:
        """Half-width of the noise interval of one value at this confidence, in counts."""
        return half_width(self.event, confidence) / self.grid


@dataclass(frozen=True, eq=False)
class Errors:
    """Noisy L1 distances between private marginals and public answers, in counts."""

    values: NDArray[np.float64] = field(repr=False)
    event: NoiseEvent
    grid: int
    cost: Loss

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of one distance, in counts."""
        return deviation(self.event) / self.grid


@dataclass(frozen=True)
class Chosen:
    """The result of a selection: a marginal (or candidate) by `index`, and for single cells the cell and its sign."""

    index: int
    cell: tuple[int, ...] | None
    sign: int | None
    cost: Loss


@dataclass(frozen=True)
class Tested:
    """The result of one guard test: whether the public answer is wrong, and a fresh noisy count on a numeric hit."""

    above: bool
    count: float | None
