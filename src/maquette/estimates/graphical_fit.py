"""Estimation: the potentials of a graphical model that explain noisy coefficients, convex and warm-started.

Among the distributions of the model take the one with

    least   KL(p, independent columns) + 1 / (2 * penalty * rows) * sum of squared residuals over their variances

(everything as fractions of rows). At penalty 1 this is the most likely table of `rows` rows drawn from independent
columns, given the noise; real columns depend on each other, so the penalty is lowered until the residuals are as small
as the noise says they should be. The dual is smooth and convex in one parameter for each measured number. Its gradient
is the difference between the model's coefficients and the measured ones, from one pass over the junction tree; a
quasi-Newton method needs some tens of gradients. Public computation: it sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.lengths import Lengths
from maquette.estimates.residuals import Columns, Residuals
from maquette.hypothesis import GraphicalModel
from maquette.query import orthonormal

Values = NDArray[np.float64]

START = 0.1  # the first penalty
STEEP, GENTLE = 0.2, 0.7  # the penalty falls by a factor between these, depending on how large the residuals still are
STAGES = 8  # maximum number of penalties tried
STEPS = 100  # quasi-Newton steps for each penalty
AGAIN = 40  # quasi-Newton steps after targets were lengthened
MEMORY = 20
TARGET = 0.6  # mean squared residual over variance at which descent stops: below it the model would fit noise


@dataclass(frozen=True)
class Counted:
    """Counts of the levels of one column, each with its own variance."""

    column: str
    values: Values
    variances: Values


@dataclass(frozen=True)
class Estimated:
    """A fitted model, the parameters that make it (by measured set, for a warm start) and its mean squared residual."""

    model: GraphicalModel
    parameters: dict[Columns, Values]
    residual: float
    penalty: float


def estimates(
    model: GraphicalModel,
    residuals: Residuals,
    *,
    counted: Sequence[Counted] = (),
    start: Estimated | None = None,
    target: float = TARGET,
    steps: int = STEPS,
    gradients: int | None = None,
    lengthen: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> Iterator[Estimated]:
    """Successively better fits of the cliques of `model` to everything measured; the first takes no step.

    Every measured set must be a clique of the model. `counted` are measurements of single columns beside the residuals.
    `start` is an earlier fit, of fewer measurements perhaps. Ends when the mean squared residual over its variance is
    below `target`, after STAGES penalties, or after `gradients` gradients; with `lengthen`, a last fit undoes the
    shrinkage of pairs that stand out of their noise. The caller may stop after any of the fits: each is a complete
    model.
    """
    problem = _Problem(model, residuals, counted, _independent(model, residuals, counted))
    penalty = START if start is None else min(START, 2 * start.penalty)
    parameters = problem.pack(start.parameters if start else {})
    best = fitted = problem.estimated(parameters, penalty)
    yield best
    for done in range(1, STAGES + 1):
        left = None if gradients is None else gradients - problem.gradients
        if not problem.size or best.residual <= target or (left is not None and left <= 0):
            break
        before = fitted.residual
        parameters, converged = problem.minimise(parameters, penalty, steps, left)
        fitted = problem.estimated(parameters, penalty)
        if fitted.residual < best.residual:
            best = fitted
            yield best
        if progress is not None:
            progress(done, best.residual)
        # Unfinished descent says nothing about the penalty: keep it while the residuals still fall fast, or rise.
        if converged or before / 2 <= fitted.residual <= before:
            penalty *= min(GENTLE, max(STEEP, target / max(fitted.residual, 1e-300)))
    if lengthen and problem.size:
        yield problem.lengthened(best)


def _independent(
    model: GraphicalModel, residuals: Residuals, counted: Sequence[Counted]
) -> dict[tuple[str, ...], Values]:
    """Log-potentials under which columns are independent, each as measured; every level keeps some mass."""
    measured = {each.column: (each.values, each.variances) for each in counted}
    logs: dict[tuple[str, ...], Values] = {}
    for name in model.schema.names:
        if residuals.covers((name,)):
            measured[name] = residuals.marginal((name,))
        if name in measured and (name,) in model.cliques:
            counts, variances = measured[name]
            logs[(name,)] = np.log(np.maximum(counts, np.maximum(np.sqrt(variances) / 2, 1e-9)))
    return logs


@dataclass
class _Block:
    """Numbers measured over one clique: all coefficients but the constant along every axis, or plain cells."""

    key: Columns
    clique: Columns
    targets: Values
    variances: Values
    cells: bool
    numbers: slice = field(default_factory=lambda: slice(0))  # positions of its numbers among those of all blocks

    def features(self, marginal: Values) -> Values:
        """The measured numbers, as a table gives them."""
        return marginal if self.cells else _along(marginal, [_contrasts(size) for size in marginal.shape])

    def spread(self, parameters: Values) -> Values:
        """The log-potential of these parameters: the transpose of `features`."""
        if self.cells:
            return parameters
        return _along(parameters, [_contrasts(size + 1).T for size in self.targets.shape])


def _along(table: Values, matrices: Sequence[Values]) -> Values:
    """One matrix along each axis; each product moves the leading axis to the end, so that the order is as before."""
    flat = table.reshape(-1)
    for matrix in matrices:
        flat = (matrix @ flat.reshape(matrix.shape[1], -1)).T.reshape(-1)
    return flat.reshape([len(matrix) for matrix in matrices])


@cache
def _contrasts(size: int) -> Values:
    return orthonormal(size)[1:]


class _Problem:
    """The dual: log Z - theta . measured + penalty * rows / 2 * sum of variance * theta^2, and its gradient."""

    def __init__(
        self,
        model: GraphicalModel,
        residuals: Residuals,
        counted: Sequence[Counted],
        base: Mapping[tuple[str, ...], Values],
    ) -> None:
        self._model, self._base = model, base
        self._shapes = {clique: model.schema.shape(clique) for clique in model.cliques}
        self._rows = residuals.rows
        self._blocks = [
            _Block(columns, columns, values / self._rows, variances / self._rows**2, cells=False)
            for columns, values, variances in residuals
            if columns
        ]
        for each in counted:
            values, variances = each.values / self._rows, each.variances / self._rows**2
            self._blocks.append(_Block((each.column, "counted"), (each.column,), values, variances, cells=True))
        self.size = self.gradients = 0  # numbers that were measured, and gradients taken
        for block in self._blocks:
            block.numbers = slice(self.size, self.size + block.targets.size)
            self.size = block.numbers.stop
        self._targets = self._joined([block.targets for block in self._blocks])
        self._variances = self._joined([block.variances for block in self._blocks])
        # An orthonormal coefficient has a curvature of about one cell's share of the mass.
        shares = [np.full(block.targets.shape, 1.0 / model.schema.cells(block.clique)) for block in self._blocks]
        self._curvature = self._joined(shares)

    @staticmethod
    def _joined(parts: Sequence[Values]) -> Values:
        return np.concatenate([part.reshape(-1) for part in parts]) if parts else np.zeros(0)

    def pack(self, parameters: Mapping[Columns, Values]) -> Values:
        """Parameters as one vector; zero for those not given."""
        packed = np.zeros(self.size)
        for block in self._blocks:
            if block.key in parameters:
                packed[block.numbers] = parameters[block.key]
        return packed

    def _at(self, parameters: Values) -> GraphicalModel:
        potentials = {clique: np.zeros(shape) for clique, shape in self._shapes.items()}
        for clique, logs in self._base.items():
            potentials[clique] += logs
        for block in self._blocks:
            potentials[block.clique] += block.spread(parameters[block.numbers])
        return self._model.with_potentials(potentials)

    def _means(self, model: GraphicalModel) -> Values:
        marginals = model.clique_marginals()
        return self._joined([block.features(marginals[block.clique]) for block in self._blocks])

    def estimated(self, parameters: Values, penalty: float) -> Estimated:
        """The model of these parameters, and how far it is from what was measured."""
        model = self._at(parameters)
        errors = self._means(model) - self._targets
        residual = float((errors**2 / self._variances).mean()) if self.size else 0.0
        kept = {block.key: parameters[block.numbers].copy() for block in self._blocks}
        return Estimated(model, kept, residual, penalty)

    def lengthened(self, fitted: Estimated) -> Estimated:
        """The fit with departures from independence as long as the measured pairs say."""
        measured, parameters, lengths = self._targets, self.pack(fitted.parameters), Lengths()
        independent = self._means(self._at(np.zeros(self.size)))
        pairs = [block for block in self._blocks if len(block.clique) == 2]
        if pairs:
            means, targets = self._means(self._at(parameters)), measured.copy()
            for block in pairs:
                at = block.numbers
                tables = measured[at], means[at], independent[at]
                targets[at] = lengths.target(block.key, tables, 1.0 / self._variances[at], block.targets.size)
            self._targets = targets
            parameters, _ = self.minimise(parameters, fitted.penalty, AGAIN)
        self._targets = measured
        return self.estimated(parameters, fitted.penalty)

    def minimise(
        self, parameters: Values, penalty: float, steps: int, gradients: int | None = None
    ) -> tuple[Values, bool]:
        """The parameters that minimise the dual, starting from these, and whether `steps` steps were enough."""
        from scipy.optimize import minimize

        ridge = penalty * self._rows * self._variances
        scale = 1.0 / np.sqrt(ridge + self._curvature)

        def objective(scaled: Values) -> tuple[float, Values]:
            self.gradients += 1
            theta = scaled * scale
            model = self._at(theta)
            gradient = self._means(model) - self._targets + ridge * theta
            value = model.log_partition - float(theta @ self._targets) + 0.5 * float((ridge * theta**2).sum())
            return value, gradient * scale

        options = {"maxiter": steps, "maxcor": MEMORY, "ftol": 1e-13, "gtol": 1e-9}
        if gradients is not None:
            options["maxfun"] = gradients
        found = minimize(objective, parameters / scale, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x) * scale, bool(found.success)
