"""The baselines every method must beat: independent noise on every marginal of the workload."""

from __future__ import annotations

from typing import Literal

from maquette.curator import Curator
from maquette.estimates import Tables, units_for
from maquette.query import Marginal, Workload
from maquette.releases.artifact import Release, certified


def laplace(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """Discrete Laplace noise on every cell of every marginal.

    Privacy: one `Curator.measure_many`. Accuracy: with m marginals under add-remove each cell has noise of scale
    m / epsilon under a pure budget. Mechanisms §1.1.
    """
    return _independent(curator, workload, "laplace", units_for(curator, epsilon, rho, units))


def gaussian(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """Discrete Gaussian noise on every cell of every marginal; needs delta > 0.

    Privacy: one `Curator.measure_many`. Accuracy: with m marginals under add-remove each cell has standard deviation
    sqrt(m / (2 rho)). Mechanisms §1.2.
    """
    return _independent(curator, workload, "gaussian", units_for(curator, epsilon, rho, units))


def _independent(curator: Curator, workload: Workload, law: Literal["laplace", "gaussian"], units: int) -> Release:
    tables = [Marginal(curator.schema, columns) for columns in workload.tables]
    with curator.account(law) as account:
        measured = curator.measure_many(tables, units=units, noise=law)
    certificate = certified(curator, law, account)
    model = Tables(curator.schema, measured)
    return Release(curator.schema, model, model, certificate)
