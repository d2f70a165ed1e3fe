"""Sums over columns from the measurements of single columns: unbiased, with exact noise variance, in any dimension."""

from __future__ import annotations

import math

import numpy as np

from maquette.estimates.evidence import Estimate, Evidence
from maquette.estimates.residuals import Columns, Residuals, Values, forward
from maquette.query import Sum


def estimate_sum(evidence: Evidence, query: Sum | None) -> Estimate | None:
    """The total of an additive query, in counts; None if one of its columns was not measured or it is not additive.

    Its residual coefficients are a constant and those of single columns: nothing is expanded over the cells of all
    columns together, as `Residuals.estimate` would.
    """
    if query is None or not isinstance(evidence, Residuals):
        return None
    needed: list[Columns] = [(), *((name,) for name in query.columns)]
    if any(columns not in evidence for columns in needed):
        return None
    shares: dict[Columns, Values] = {
        (): np.array(query.constant + sum(float(part.mean()) for part in query.parts.values()))
    }
    for name, part in zip(query.columns, query.parts.values(), strict=True):
        shares[name,] = forward(part)[1:]
    total = variance = largest = 0.0
    for columns, values, variances in evidence:
        if columns in shares:
            noise = shares[columns] ** 2 * variances
            total += float((shares[columns] * values).sum())
            variance += float(noise.sum())
            largest = max(largest, float(noise.max(initial=0.0)))
    if not (evidence.gaussian or evidence.separate):
        largest = variance  # a single noise value may account for all of it
    return Estimate(total, math.sqrt(variance), math.sqrt(largest), evidence.gaussian)
