"""Histograms: each column measured separately, all at once; enough for sums over columns such as distances."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import Residuals, units_for
from maquette.hypothesis import GraphicalModel, on_simplex
from maquette.query import LinearQuery, Marginal, Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.public_rows import fix_rows
from maquette.schema import Schema

LOOKED_AT = 256  # about this many evenly spaced queries decide how the charge is split
LEAST = 1e-300  # mass of a level that has none in a histogram: its logarithm is finite


def histograms(
    curator: Curator, workload: Workload, *, epsilon: float | None = None, rho: float | None = None
) -> Release:
    """Release the histogram of each column that the workload's queries, all sums over columns, are about.

    Privacy: one `Curator.measure_many`; the split of the charge follows from the queries alone. Accuracy: an unbiased
    estimate of every sum over these columns with exact noise variance (the intervals), for any number of queries: with
    d columns of s levels each, weights of range 1/d and rho-zCDP, a standard deviation of about sqrt(s / 24 rho) rows
    for distances, for any d. Other questions are answered as if columns were independent, without a guarantee.
    """
    schema = curator.schema
    spreads = _spreads(workload)
    power = 1 / 3 if curator.budget.accountant.currency == "pure" else 1 / 2  # minimises the variance of a sum
    questions = [Marginal(schema, [name]) for name in spreads]
    shares = [spread**power for spread in spreads.values()]
    with curator.account("histograms") as account:
        measured = curator.measure_many(questions, units=units_for(curator, epsilon, rho), shares=shares)
    residuals = Residuals(schema)
    for measurement in measured:
        residuals.add(measurement)
    fix_rows(curator, residuals)
    found = {name: on_simplex(residuals.marginal((name,))[0] / residuals.rows) for name in spreads}
    certificate = certified(curator, "histograms", account)
    return Release(schema, independent(schema, found), residuals, certificate)


def independent(schema: Schema, found: Mapping[str, NDArray[np.float64]]) -> GraphicalModel:
    """Independent columns with these histograms; columns without one are uniform."""
    model = GraphicalModel(schema, [(name,) for name in found])
    return model.with_potentials({(name,): np.log(np.maximum(masses, LEAST)) for name, masses in found.items()})


def _spreads(workload: Workload) -> dict[str, float]:
    """For each column, the mean squared deviation of what it adds to a query, summed over its levels."""
    looked = range(0, workload.size, max(1, workload.size // LOOKED_AT))
    spreads: dict[str, float] = {}
    for index in looked:
        for name, spread in _spread(workload[index]).items():
            spreads[name] = spreads.get(name, 0.0) + spread / len(looked)
    if not spreads:
        raise QueryError("no query of this workload depends on any column", advice="there is nothing to measure")
    return {name: spreads[name] for name in workload.schema.names if name in spreads}


def _spread(query: LinearQuery) -> dict[str, float]:
    if query.sum is None:
        raise QueryError(
            f"{query!r} is not a sum over columns",
            advice='histograms of single columns cannot answer it. Use another method, such as "everything"',
        )
    parts = query.sum.parts.values()
    return {name: float(((p - p.mean()) ** 2).sum()) for name, p in zip(query.sum.columns, parts, strict=True)}
