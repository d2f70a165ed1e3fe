"""Linear weights: the slides' multiplicative weights, which multiply by 1 - r query instead of an exponential."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.hypothesis.multiplicative_weights import MultiplicativeWeights, Step
from maquette.schema import Schema


class LinearWeights(MultiplicativeWeights):
    """A distribution over every cell; where it was too high, D ~ (1 - r q) D, where too low, D ~ (1 - r (1 - q)) D.

    r = 1 - exp(-4 alpha), at which the bound on updates is that of the exponential step, for queries that are not 0 or
    1 as well. Privacy: post-processing of released values. Accuracy: T(alpha) = ln N / (2 alpha^2). Reference: Ullman's
    slides, with the proof of `theory.regret`.

    >>> from maquette import Boolean, Schema, where
    >>> model = LinearWeights(schema := Schema([Boolean("smoker")]), alpha=0.1)
    >>> model.update(where(schema, "smoker"), 0.2)
    >>> round(model.answer(where(schema, "smoker")), 4)  # (1 - r) / (2 - r)
    0.4013
    """

    kind: ClassVar[str] = "linear-weights"

    def __init__(
        self,
        schema: Schema,
        *,
        alpha: float | None = None,
        step: Step = "linear",
        prior: NDArray[np.float64] | None = None,
        floor: float = 1e-6,
    ) -> None:
        super().__init__(schema, alpha=alpha, step=step, prior=prior, floor=floor)
