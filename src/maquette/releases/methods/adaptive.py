"""Adaptive release: measure whole marginals where the model is most wrong, fit, repeat.

The practical form of iterative construction (MWEM with its known improvements): whole marginals chosen by L1 error
minus expected noise, Gaussian measurements, exact replay of everything measured until residuals are at noise level,
a zCDP filter over rounds whose budget grows when a round taught nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Measurement
from maquette.estimates import (
    DenseModel,
    Fitted,
    Residuals,
    Step,
    check_dense,
    fit,
    step_of,
    units_for,
)
from maquette.query import Marginal, Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.progress import Progress
from maquette.releases.public_rows import fix_rows

START = 0.15  # share of the budget for all one-way marginals
SELECT = 0.1  # share of a round for selection
ROUNDS = 8  # rounds per column, before annealing
STEPS = 60
POLISH = 600


def adaptive(
    curator: Curator,
    workload: Workload,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
    rounds: int | None = None,
    progress: bool | None = None,
) -> Release:
    """Release a dense model built round by round; interrupting it releases what has been paid for.

    Privacy: each round is one `select_worst` and one `measure`, charged to the ledger as a filter, with weights,
    penalties, round budgets and the decision to stop computed from released numbers only.
    """
    check_dense(curator.schema)
    with curator.account("adaptive") as account:
        run = _Run(curator, workload, units_for(curator, epsilon, rho, units), rounds)
        with Progress("rounds", 100, progress) as shown:
            try:
                while run.round():
                    shown.update(round(100 * run.share_spent), run.fitted.residual)
                run.polish()
            except KeyboardInterrupt:
                pass  # release the model as it stands, with everything that was paid for
    # Cost from the account: an access that was charged and then interrupted gave nothing, but it was paid.
    certificate = certified(curator, "adaptive", account)
    model = DenseModel(curator.schema, run.fitted.probabilities)
    return Release(curator.schema, model, run.residuals, certificate, trace=run.trace)


@dataclass
class _Run:
    """The state of one adaptive release; everything in it is public."""

    curator: Curator
    workload: Workload
    units: int
    rounds: int | None

    def __post_init__(self) -> None:
        self.schema = self.curator.schema
        self.candidates = [Marginal(self.schema, columns) for columns in self.workload.tables]
        self.residuals = Residuals(self.schema)
        self.fitted: Fitted = fit(self.residuals, steps=0)
        self.trace: list[Step] = []
        self.spent = 0
        wanted = self.rounds or min(ROUNDS * len(self.schema), 4 * len(self.candidates))
        self.each = (1 - START) * self.units / wanted
        self._measure_singles()

    @property
    def share_spent(self) -> float:
        """The share of the release's budget that is spent."""
        return min(1.0, self.spent / self.units)

    def _measure_singles(self) -> None:
        names = [name for name in self.schema.names if any(name in c.columns for c in self.candidates)]
        self._take(self.curator.measure_many([[name] for name in names], units=int(START * self.units)))
        fix_rows(self.curator, self.residuals)
        self._refit()

    def _take(self, measured: tuple[Measurement, ...]) -> None:
        self.spent += sum(measurement.cost.units for measurement in measured)
        for measurement in measured:
            self.residuals.add(measurement)

    def _refit(self) -> None:
        self.fitted = fit(self.residuals, start=self.fitted.log_weights, steps=STEPS, target=0.5)

    def _model(self, marginal: Marginal) -> NDArray[np.float64]:
        gone = tuple(i for i, name in enumerate(self.schema.names) if name not in marginal.columns)
        counts: NDArray[np.float64] = self.fitted.probabilities.sum(axis=gone) * self.residuals.rows
        return counts

    def round(self) -> bool:
        """One selection, one measurement, one refit; False when the budget is gone."""
        left = self.units - self.spent
        if left < 0.2 * self.each:
            return False
        spend = left if left < 2 * self.each else self.each
        answers = [self._model(candidate) for candidate in self.candidates]
        noise = self._deviation(spend * (1 - SELECT))
        chosen = self.curator.select_worst(
            self.candidates,
            answers,
            units=int(spend * SELECT),
            over="marginals",
            penalties=[math.sqrt(2 / math.pi) * noise * candidate.cells for candidate in self.candidates],
        )
        self.spent += chosen.cost.units
        best = self.candidates[chosen.index]
        before = answers[chosen.index]
        measured = self.curator.measure(best, units=int(spend * (1 - SELECT)))
        self.trace.append(step_of(len(self.trace) + 1, measured, before, self.residuals.rows))
        self._take((measured,))
        self._refit()
        moved = float(np.abs(self._model(best) - before).sum())
        if moved <= math.sqrt(2 / math.pi) * noise * best.cells:
            self.each *= 2
        return True

    def _deviation(self, units: float) -> float:
        """The standard deviation of one cell of a marginal that costs `units`."""
        accountant, relation = self.curator.budget.accountant, self.curator.relation
        if accountant.currency == "pure":
            return math.sqrt(2) * float(accountant.laplace_scale(int(units), Fraction(relation.l1(self.candidates[0]))))
        return math.sqrt(accountant.gaussian_variance(int(units), Fraction(relation.l2_squared(self.candidates[0]))))

    def polish(self) -> None:
        """Fit what was measured as closely as its noise allows."""
        self.fitted = fit(self.residuals, start=self.fitted.log_weights, steps=POLISH)
