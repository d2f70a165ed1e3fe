"""Evidence: unbiased estimates with known noise, from which a release takes its intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.hypothesis import Arrays, Savable, saving
from maquette.privacy import DiscreteGaussian, sum_half_width
from maquette.schema import Schema

Values = NDArray[np.float64]

STEP = 1.0  # noise moves a total of weights in [0, 1] by whole counts or less


@dataclass(frozen=True)
class Estimate:
    """A total in counts, the standard deviation of its noise, and the largest part of that due to one noise value."""

    total: float
    deviation: float
    largest: float
    gaussian: bool

    def half_width(self, confidence: float) -> float:
        """How far the noise can have moved the total."""
        width = sum_half_width(self.deviation, self.largest, confidence, gaussian=self.gaussian)
        # The normal law of the same standard deviation, rounded to whole counts, is no narrower than the discrete one.
        return width + STEP / 2 if self.gaussian and width else width


def spread(measurement: Measurement) -> float:
    """The standard deviation, in counts, of the continuous law of the same scale, for which tail bounds are proven."""
    event = measurement.event
    continuous = event.variance if isinstance(event, DiscreteGaussian) else 2 * event.scale**2
    return math.sqrt(continuous) / measurement.question.grid


class Evidence(Savable, Protocol):
    """Measurements that can estimate queries without a model."""

    @property
    def rows(self) -> float:
        """The estimated number of rows."""

    def covers(self, columns: Sequence[str]) -> bool:
        """Whether a query over these columns can be estimated without a model."""

    def estimate(self, weights: Values, columns: tuple[str, ...]) -> Estimate:
        """The unbiased total of a query with these weights over the cells of `columns` (in schema order)."""


@dataclass(frozen=True)
class NoEvidence:
    """For models whose accuracy is a theorem: no query can be estimated without them."""

    kind: ClassVar[str] = "none"
    rows: float

    def covers(self, columns: Sequence[str]) -> bool:
        """Nothing is covered."""
        return False

    def estimate(self, weights: Values, columns: tuple[str, ...]) -> Estimate:
        """Never called, since nothing is covered."""
        raise LookupError("there is no evidence beside the model")

    def facts(self) -> dict[str, Any]:
        """The number of rows."""
        return {"rows": self.rows}

    def arrays(self) -> Arrays:
        """None."""
        return {}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The number of rows that `facts` has."""
        return cls(saving.number(facts, "rows"))
