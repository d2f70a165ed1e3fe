"""The baselines every method must beat: independent noise on every marginal of the workload."""

from __future__ import annotations

from importlib.metadata import version

from maquette.curator import Curator
from maquette.query import Workload
from maquette.release.artifact import Certificate, Release


def laplace(curator: Curator, workload: Workload, *, epsilon: float | None = None, rho: float | None = None) -> Release:
    """Discrete Laplace noise on every cell of every marginal.

    Privacy: one `Curator.measure_many`. Accuracy: with m marginals under add-remove each cell has noise of scale
    m / epsilon under a pure budget. MECHANISMS §1.1.
    """
    return _independent(curator, workload, "laplace", epsilon, rho)


def gaussian(
    curator: Curator, workload: Workload, *, epsilon: float | None = None, rho: float | None = None
) -> Release:
    """Discrete Gaussian noise on every cell of every marginal; needs delta > 0.

    Privacy: one `Curator.measure_many`. Accuracy: with m marginals under add-remove each cell has deviation
    sqrt(m / (2 rho)). MECHANISMS §1.2.
    """
    return _independent(curator, workload, "gaussian", epsilon, rho)


def _independent(curator: Curator, workload: Workload, law: str, epsilon: float | None, rho: float | None) -> Release:
    if epsilon is None and rho is None:
        epsilon = curator.remaining.epsilon
    measured = curator.measure_many(
        list(workload.marginals), epsilon=epsilon, rho=rho, noise="laplace" if law == "laplace" else "gaussian"
    )
    cost = curator.cost_of(measured)
    certificate = Certificate(
        epsilon=cost.epsilon,
        delta=cost.delta,
        rho=cost.rho,
        relation=str(curator.relation),
        method=law,
        schema=curator.schema.digest,
        charges=tuple(charge.description for charge in curator.ledger.charges()),
        version=version("maquette"),
    )
    return Release(curator.schema, measured, certificate, cost)
