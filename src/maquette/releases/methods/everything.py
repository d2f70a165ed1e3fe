"""Measure everything: all residuals of a workload at once, optimally allocated, then one fit.

Where the universe can be enumerated and the budget is not tiny this beats adaptive selection: nothing is spent on
choosing, every marginal's noise is independent and as small as the workload allows, and the fit shares strength.
"""

from __future__ import annotations

from maquette.curator import Curator
from maquette.estimates import Allocation, DenseModel, Residuals, check_dense, fit, units_for
from maquette.query import Marginal, Workload, residual
from maquette.releases.artifact import Release, certified
from maquette.releases.progress import Progress
from maquette.releases.public_rows import fix_rows

STEPS = 600
NOISE_LEVEL = 0.5  # mean squared residual over variance at which descent stops: below it the model would fit noise
COARSE = 20


def everything(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    steps: int = STEPS,
    progress: bool | None = None,
) -> Release:
    """Release a dense model fitted to every residual of the workload.

    Privacy: one `Curator.measure_many` of contrasts; allocation and fit are public. Accuracy: unbiased estimates of
    every covered query with exact noise variance (the intervals), and a model that is usually closer. Interrupting the
    fit releases a coarser one: what was measured is paid for.
    """
    schema = curator.schema
    check_dense(schema)
    allocation = Allocation(schema, workload.tables, linear=curator.budget.accountant.currency == "pure")
    questions = [residual(schema, part) if part else Marginal(schema) for part in allocation.sets]
    with curator.account("everything") as account:
        units = units_for(curator, epsilon, rho, units)
        measured = curator.measure_many(questions, units=units, shares=list(allocation.shares))
    residuals = Residuals(schema)
    for measurement in measured:
        residuals.add(measurement)
    fix_rows(curator, residuals)
    with Progress("fitting", steps, progress) as shown:
        try:
            fitted = fit(residuals, steps=steps, target=NOISE_LEVEL, progress=shown.update)
        except KeyboardInterrupt:
            fitted = fit(residuals, steps=COARSE)
    return Release(
        schema,
        DenseModel(schema, fitted.probabilities),
        residuals,
        certified(curator, "everything", account),
    )
