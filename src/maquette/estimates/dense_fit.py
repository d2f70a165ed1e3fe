"""Fit: the distribution over an enumerable universe that best explains noisy coefficients.

Minimises the noise-weighted squared residuals over the simplex by accelerated mirror descent in the entropy geometry:
every step multiplies the model by an exponential of the residuals, like one step of multiplicative weights for all
measurements at once, starting from independent columns. It stops when residuals are at noise level, which keeps the
model close to independence where the data say nothing. Public computation: it sees released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.residuals import Residuals
from maquette.query import orthonormal
from maquette.schema import impossible_cells

Values = NDArray[np.float64]

FINISH = 150
REPEATS = 3
NEWTON = 400  # quasi-Newton steps
PENALTY = 3.0
GROUP = 32  # neighbouring axes are transformed together up to this size of their matrix


@dataclass(frozen=True)
class Fitted:
    """A distribution over all cells (shaped as the universe), its log-weights, and its mean squared residual."""

    probabilities: Values
    log_weights: Values
    residual: float
    steps: int


def fit(
    residuals: Residuals,
    *,
    start: Values | None = None,
    steps: int = 400,
    target: float = 0.0,
    progress: Callable[[int, float], None] | None = None,
) -> Fitted:
    """Fit a dense distribution to everything measured; impossible combinations of the schema get exactly zero.

    `start` are log-weights (default: the product of the measured one-way marginals). Ends after `steps` or when the
    mean squared residual over its variance is below `target`. If the noise is so small that descent has not reached its
    level by then, a penalised maximum-entropy fit by a quasi-Newton method brings the model there, and descent
    finishes.
    """
    descent = _Descent(residuals)
    fitted = descent.run(_independent(residuals) if start is None else start, steps, target, progress)
    for _ in range(REPEATS if steps >= FINISH else 0):
        if fitted.residual <= max(1.0, target):
            break
        fitted = descent.run(descent.entropy_fit(fitted.log_weights), FINISH, target, progress)
    return fitted


def _independent(residuals: Residuals) -> Values:
    """Log-weights under which columns are independent, each as measured; every level keeps some mass."""
    schema = residuals.schema
    logs = np.zeros(schema.shape(schema.names))
    for axis, name in enumerate(schema.names):
        if residuals.covers((name,)):
            counts, variances = residuals.marginal((name,))
            floor = np.maximum(np.sqrt(variances) / 2, 1e-9)
            levels = np.log(np.maximum(counts, floor))
            logs += levels.reshape([-1 if i == axis else 1 for i in range(logs.ndim)])
    return logs


class _Descent:
    """Accelerated mirror descent with restarts; the step size adapts to what is accepted."""

    def __init__(self, residuals: Residuals) -> None:
        schema = residuals.schema
        self._shape = schema.shape(schema.names)
        self._matrices = _grouped(self._shape)
        closed = impossible_cells(schema)
        self._closed = None if closed is None else closed.reshape(-1)
        rows = residuals.rows
        places, targets, variances = [], [], []
        index = np.arange(math.prod(self._shape)).reshape(self._shape)
        for columns, values, variance in residuals:
            if not columns:
                continue
            block = tuple(slice(1, None) if name in columns else 0 for name in schema.names)
            # The full transform gives the coefficient of a set divided by the root of the number of cells outside it.
            lift = math.sqrt(
                math.prod(size for name, size in zip(schema.names, self._shape, strict=True) if name not in columns)
            )
            places.append(index[block].reshape(-1))
            targets.append((values / (rows * lift)).reshape(-1))
            variances.append((variance / (rows * lift) ** 2).reshape(-1))
        self._places = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
        self._targets = np.concatenate(targets) if targets else np.zeros(0)
        self._precisions = 1.0 / np.concatenate(variances) if variances else np.zeros(0)

    def run(self, start: Values, steps: int, target: float, progress: Callable[[int, float], None] | None) -> Fitted:
        logs = start.reshape(-1).copy()
        probabilities, pull, loss = self._evaluate(logs)
        ahead, momentum, done = logs, 0, 0
        step = 1.0 / max(float(np.abs(pull).max(initial=0.0)), 1e-300)
        for done in range(1, steps + 1):
            if loss <= target or step < 1e-300:
                break
            advanced = ahead + step * pull
            candidate = advanced + momentum / (momentum + 3) * (advanced - logs)
            evaluated = self._evaluate(candidate)
            if evaluated[2] <= loss:
                logs, ahead, momentum = advanced, candidate, momentum + 1
                probabilities, pull, loss = evaluated
                step *= 1.05
            elif momentum == 0:
                step *= 0.5
            else:
                ahead, momentum, step = logs, 0, step * 0.8
                probabilities, pull, loss = self._evaluate(ahead)
            if progress is not None:
                progress(done, loss)
        centred = ahead - self._open(ahead).max(initial=0.0)
        return Fitted(probabilities.reshape(self._shape), centred.reshape(self._shape), loss, done)

    def _evaluate(self, logs: Values) -> tuple[Values, Values, float]:
        """The distribution of these log-weights, the gradient of the residuals at each cell, and their mean square."""
        logs = self._open(logs)
        weights = np.exp(logs - logs.max(initial=-np.inf))
        probabilities = weights / weights.sum()
        errors = self._targets - self._transform(probabilities, self._matrices)[self._places]
        loss = float((errors**2 * self._precisions).mean()) if len(errors) else 0.0
        return probabilities, self._spread(errors * self._precisions), loss

    def _open(self, logs: Values) -> Values:
        """Log-weights without impossible cells. The descent keeps finite numbers for those, which nothing reads."""
        return logs if self._closed is None else np.where(self._closed, -np.inf, logs)

    def entropy_fit(self, start: Values) -> Values:
        """Log-weights of the exponential family member that minimises log Z - theta . target + penalty, from `start`.

        The dual of maximum entropy with tolerances: at the optimum each residual is PENALTY * deviation * theta, so
        coefficients that need no large parameter are fitted well within their noise. Smooth and strictly convex.
        """
        from scipy.optimize import minimize

        unit = math.sqrt(math.prod(self._shape))  # features of order one
        targets, penalty = self._targets * unit, PENALTY * unit / np.sqrt(self._precisions)

        def objective(theta: Values) -> tuple[float, Values]:
            logs = self._open(self._spread(theta * unit))
            top = float(logs.max())
            weights = np.exp(logs - top)
            mass = float(weights.sum())
            means = self._transform(weights / mass, self._matrices)[self._places] * unit
            value = math.log(mass) + top - float(theta @ targets) + 0.5 * float((penalty * theta**2).sum())
            return value, means - targets + penalty * theta

        first = self._transform(start.reshape(-1), self._matrices)[self._places] / unit
        options = {"maxiter": NEWTON, "maxcor": 20}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
        return self._spread(np.asarray(found.x) * unit)

    def _spread(self, coefficients: Values) -> Values:
        """Cells from coefficients at the measured places."""
        full = np.zeros(math.prod(self._shape))
        full[self._places] = coefficients
        return self._transform(full, [matrix.T for matrix in self._matrices])

    def _transform(self, cells: Values, matrices: list[Values]) -> Values:
        """Each product moves the leading axes to the end, so that after all of them the order is as before."""
        for matrix in matrices:
            cells = (matrix @ cells.reshape(len(matrix), -1)).T.reshape(-1)
        return cells


def _grouped(shape: tuple[int, ...]) -> list[Values]:
    """One orthonormal matrix per run of neighbouring axes."""
    groups: list[Values] = [np.ones((1, 1))]
    for size in shape:
        if len(groups[-1]) * size <= GROUP or len(groups[-1]) == 1:
            groups[-1] = np.asarray(np.kron(groups[-1], orthonormal(size)), dtype=np.float64)
        else:
            groups.append(orthonormal(size))
    return groups
