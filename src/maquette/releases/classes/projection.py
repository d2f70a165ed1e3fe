"""Projection: noise on all 1- and 2-way parities of two-level columns, then the nearest matrix a table could have.

With the two levels of a column read as -1 and +1, the means of all columns and of all products of two columns form a
moment matrix M = E[(1, x)(1, x)^T], which is positive semidefinite with ones on its diagonal. Such matrices form the
elliptope, a convex set that contains the true matrix; so the nearest one to a noisy matrix is nearer to the truth than
the noisy matrix was, and much nearer if the table is small.

Privacy: one `Curator.measure_many` of signed sums, each moved by 1 by an added or removed row and by 2 by a replaced
one; where the number of rows is private, a tenth of the price buys an estimate. The projection is post-processing.
Accuracy: with d columns, n rows and a price of rho, the root mean squared error of a parity is of the order of
d^(1/4) / (sqrt(n) rho^(1/4)), against d / (n sqrt(rho)) for the noise alone: it is better while n is below about
d^(3/2) / sqrt(rho). Reference: Nikolov, Talwar and Zhang 2013; Dwork, Nikolov and Talwar 2015; Mechanisms §8.7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import Evidence, Residuals, spread, units_for
from maquette.hypothesis import Arrays, saving
from maquette.privacy import DiscreteGaussian
from maquette.query import LinearQuery, Marginal, Parities, residual
from maquette.releases.artifact import Model, Release, certified
from maquette.releases.classes.coefficients import ParityAnswers
from maquette.releases.classes.moments import MAX_COLUMNS, MomentModel, project_moments, two_level
from maquette.schema import Schema
from maquette.theory import projection as theory

Values = NDArray[np.float64]

MOST_K = 4
EXACT = 1e-12  # variance of a public number of rows
COUNTED = 1e-3  # a row count with less noise than this is exact
ROWS_SHARE = 0.1  # share of the price for the number of rows where it is private
_TOLERANCE = 1e-9  # tolerance of the diagonal
_MOST_STEPS = 200
_SHORTEST = 2.0**-30
_SIGNS = np.array([-1, 1])  # signs of the two levels of a column


@dataclass(frozen=True, eq=False, repr=False)
class ParityModel:
    """Every marginal of at most two of some two-level columns, from a moment matrix whose first row holds the means.

    Everything here is post-processing of the measurement: asking costs nothing.
    """

    kind: ClassVar[str] = "parities"
    schema: Schema
    columns: tuple[str, ...]
    moments: Values

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of at most two columns, axes in the order asked.

        The parity is moved, if necessary, into the range that its two means allow, so that no cell is negative and
        marginals that share a column agree on it.
        """
        places = self._places(columns)
        if not places:
            return np.ones(())
        means = self.moments[0, places]
        if len(places) == 1:
            return np.asarray((1 + _SIGNS * means[0]) / 2)
        low, high = abs(means.sum()) - 1, 1 - abs(means[0] - means[1])
        parity = min(max(self.moments[places[0], places[1]], low), high)
        first, second = _SIGNS[:, None], _SIGNS[None, :]
        return np.asarray(1 + first * means[0] + second * means[1] + first * second * parity) / 4

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        if query.schema != self.schema:
            raise QueryError("the query was built for another schema", advice="build it from the model's schema")
        return float((query.weights() * self.marginal(query.columns)).sum())

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records whose expected parities come close to the model's; all columns must have been measured.

        The signs of two jointly normal numbers with correlation c have correlation (2/pi) arcsin(c), so normals with
        correlations sin(pi M / 2), made feasible, reproduce M. The first normal stands for the constant one.
        """
        if set(self.columns) != set(self.schema.names):
            missing = ", ".join(name for name in self.schema.names if name not in self.columns)
            raise QueryError(f"records need every column, and {missing} was not measured", advice="project all columns")
        values, vectors = np.linalg.eigh(project_parities(np.sin(np.pi / 2 * self.moments)))
        normals = rng.standard_normal((rows, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        agree = (normals[:, 1:] >= 0) == (normals[:, :1] >= 0)
        order = [self.columns.index(name) for name in self.schema.names]
        return np.asarray(agree[:, order], dtype=np.int32)

    def facts(self) -> dict[str, Any]:
        """The columns."""
        return {"columns": list(self.columns)}

    def arrays(self) -> Arrays:
        """The moment matrix."""
        return {"moments": self.moments}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        columns = two_level(schema, facts["columns"])
        return cls(schema, columns, saving.array(arrays, "moments", [len(columns) + 1] * 2))

    def _places(self, columns: Sequence[str]) -> list[int]:
        for name in Marginal(self.schema, columns).names:
            if name not in self.columns:
                raise QueryError(f"column {name!r} was not measured", advice=f"columns are {', '.join(self.columns)}")
        if len(columns) > 2:
            raise QueryError(
                f"the question is about {len(columns)} columns",
                expected="at most two, whose marginals the projection knows",
                advice="sample records and count on them, or release a workload of wider marginals",
            )
        return [self.columns.index(name) + 1 for name in columns]

    def __repr__(self) -> str:
        return f"ParityModel({len(self.columns)} columns)"


def projection(
    curator: Curator,
    columns: Sequence[str] | None = None,
    *,
    k: int = 2,
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """All marginals of at most k of these two-level columns (default: of all columns), for `epsilon` or `rho`.

    Without a price it spends what remains. k is 2 (for hundreds of columns), 3 or 4 (for up to 24). Privacy and
    accuracy: see the module, and `maquette.theory.projection`; under a budget with a delta the certificate states the
    root mean squared error of a parity that is exceeded with probability at most beta.
    """
    names = _check(curator, columns, k, beta)
    with curator.account("projection") as account:
        measure = _pairs if k == 2 else partial(_wide, k=k)
        model, evidence, law = measure(curator, names, units_for(curator, epsilon, rho))
    promise = _promise(len(names), k, law, evidence.rows, beta)
    certificate = certified(curator, "projection", account, accuracy=promise)
    return Release(curator.schema, model, evidence, certificate)


def _check(curator: Curator, columns: Sequence[str] | None, k: int, beta: float) -> tuple[str, ...]:
    """The columns in the order of the schema; refused before anything is charged."""
    names = curator.schema.names if columns is None else tuple(columns)
    wide = [name for name in names if curator.schema[name].size != 2]
    if wide or len(names) < 2 or len(set(names)) < len(names):
        raise QueryError(
            f"the columns are {', '.join(names) or 'none'}{'; not of two levels: ' if wide else ''}{', '.join(wide)}",
            expected="at least two different columns of two levels each",
            advice="List the columns to use",
        )
    if k not in range(2, MOST_K + 1) or not 0 < beta < 1:
        raise QueryError(f"got k={k} and beta={beta}", expected=f"2 to {MOST_K} columns and 0 < beta < 1")
    if k > 2 and not max(4, k) <= len(names) <= MAX_COLUMNS:
        raise QueryError(
            f"{len(names)} columns cannot be projected at k={k}", expected=f"4 to {MAX_COLUMNS}", advice="or take k=2"
        )
    return tuple(name for name in curator.schema.names if name in names)  # the order in which files name columns


class _Law(NamedTuple):
    """The noise, in rows: of a parity, and of the number of rows; whether it is Gaussian."""

    parity: float
    rows: float
    gaussian: bool


def _promise(columns: int, k: int, law: _Law, rows: float, beta: float) -> str | None:
    """The theorem for the certificate. An error of the row estimate moves every parity by at most its share.

    Laplace noise is not sub-Gaussian, so that under a pure budget there is no promise.
    """
    if not law.gaussian:
        return None
    exact = law.rows < COUNTED
    off = 0.0 if exact else law.rows * math.sqrt(2 * math.log(4 / beta)) / rows
    doubt = beta if exact else beta / 2
    error = off + theory.root_mean_square(attributes=columns, k=k, scale=law.parity / rows, beta=doubt)
    if error >= 1:
        return None
    return f"root mean squared error of a parity at most {error:.4g} with probability {1 - beta:.3g}"


def _pairs(curator: Curator, names: tuple[str, ...], units: int) -> tuple[Model, Evidence, _Law]:
    """Noisy means and pairs, and the nearest feasible matrix."""
    noisy, evidence, parity = _measure(curator, names, units)
    count = math.sqrt(max(0.0, float(evidence.marginal(())[1])))
    gaussian = curator.budget.accountant.currency != "pure"
    model = ParityModel(curator.schema, names, project_parities(noisy / evidence.rows))
    return model, evidence, _Law(parity, count, gaussian)


def _wide(curator: Curator, names: tuple[str, ...], units: int, *, k: int) -> tuple[Model, Evidence, _Law]:
    """Noisy parities of up to k columns, all with the same noise, and the nearest feasible ones."""
    schema, public = curator.schema, curator.relation.rows_are_public
    sizes = [math.comb(len(names), level) for level in range(1, k + 1)]
    asked: list[Any] = [Parities(schema, names, level) for level in range(1, k + 1)]
    shares = [float(size) for size in sizes]
    if not public:
        asked, shares = [*asked, Marginal(schema)], [*shares, ROWS_SHARE / (1 - ROWS_SHARE) * sum(sizes)]
    measured = curator.measure_many(asked, shares=shares, units=units)
    rows = curator.count_rows() if public else max(1.0, float(measured[-1].values))
    levels = (np.array([rows]), *(np.asarray(each.values, dtype=np.float64) for each in measured[:k]))
    variances = (0.0 if public else spread(measured[-1]) ** 2, *(spread(each) ** 2 for each in measured[:k]))
    gaussian = isinstance(measured[0].event, DiscreteGaussian)
    evidence = ParityAnswers(schema, names, k, levels, variances, gaussian)
    nearest = project_moments([level / rows for level in levels[1:]], len(names))
    law = _Law(math.sqrt(variances[1]), math.sqrt(variances[0]), gaussian)
    return MomentModel(schema, names, (np.ones(1), *nearest)), evidence, law


def project_parities(noisy: NDArray[np.floating[Any]]) -> Values:
    """The nearest positive semidefinite matrix with ones on its diagonal, in the Frobenius norm.

    `noisy` is symmetric; its own diagonal is ignored. For d up to a few hundred.

    The Lagrange multipliers y of the diagonal minimise the smooth convex function |(G + Diag y)+|^2 / 2 - sum(y),
    where + drops negative eigenvalues; the answer is (G + Diag y)+ at the minimum, found by Newton's method with a line
    search. Reference: Qi and Sun 2006, A quadratically convergent Newton method for computing the nearest correlation
    matrix.
    """
    target = np.array(noisy, dtype=np.float64)
    if target.ndim != 2 or target.shape[0] != target.shape[1] or not np.isfinite(target).all():
        raise QueryError(f"got shape {target.shape}", expected="a square matrix of finite numbers")
    if not np.allclose(target, target.T):
        raise QueryError(
            "the matrix is not symmetric",
            expected="a symmetric matrix",
            advice="copy the measured upper triangle to the lower one",
        )
    target = (target + target.T) / 2
    np.fill_diagonal(target, 1.0)
    point = _Dual(target, np.zeros(len(target)))
    for _ in range(_MOST_STEPS):
        if np.abs(point.gradient).max() <= _TOLERANCE:
            break
        step, length = point.newton_step(), 1.0
        while (tried := _Dual(target, point.y + length * step)).value > point.value and length > _SHORTEST:
            length /= 2
        point = tried
    return point.matrix()


class _Dual:
    """The dual function of the projection at one vector of multipliers, with its eigenvalues."""

    def __init__(self, target: Values, y: Values) -> None:
        self.y = y
        self._values, self._vectors = np.linalg.eigh(target + np.diag(y))
        self._positive = np.maximum(self._values, 0.0)
        self.value = float((self._positive**2).sum() / 2 - y.sum())
        self.gradient: Values = self._vectors**2 @ self._positive - 1

    def newton_step(self) -> Values:
        """Minus the inverse of the generalised Hessian times the gradient, by conjugate gradients."""
        gaps = np.abs(self._values[:, None]) + np.abs(self._values[None, :])
        sums = self._positive[:, None] + self._positive[None, :]
        slopes = np.divide(sums, gaps, out=np.zeros_like(sums), where=gaps > 0)
        size = float(np.linalg.norm(self.gradient))
        damping = 1e-4 * min(1.0, size)  # the Hessian may be singular

        def hessian(h: Values) -> Values:
            inner = slopes * (self._vectors.T @ (h[:, None] * self._vectors))
            product: Values = ((self._vectors @ inner) * self._vectors).sum(axis=1) + damping * h
            return product

        step = np.zeros_like(self.y)
        residual = -self.gradient
        direction, norm = residual, float(residual @ residual)
        for _ in range(len(step)):
            if norm <= (min(0.1, size) * size) ** 2:
                break
            image = hessian(direction)
            rate = norm / float(direction @ image)
            step = step + rate * direction
            residual = residual - rate * image
            norm, before = float(residual @ residual), norm
            direction = residual + norm / before * direction
        return step

    def matrix(self) -> Values:
        """The positive part, scaled to a diagonal of exactly one."""
        kept: Values = (self._vectors * self._positive) @ self._vectors.T
        scale = np.sqrt(np.diagonal(kept))
        kept = kept / np.outer(scale, scale)
        np.fill_diagonal(kept, 1.0)
        return (kept + kept.T) / 2


def _measure(curator: Curator, names: Sequence[str], units: int) -> tuple[Values, Residuals, float]:
    """A noisy moment matrix in rows, the measurements as evidence, with the row count, and the noise of a parity."""
    schema, public = curator.schema, curator.relation.rows_are_public
    sets = [*itertools.combinations(names, 1), *itertools.combinations(names, 2)]
    parities = [residual(schema, columns) for columns in sets]
    total = [] if public else [Marginal(schema)]
    shares = [ROWS_SHARE / (1 - ROWS_SHARE) * len(sets)] * len(total) + [1.0] * len(sets)
    measured = curator.measure_many([*total, *parities], shares=shares, units=units)
    evidence = Residuals(schema)
    for measurement in measured:
        evidence.add(measurement)
    if public:
        evidence.combine((), np.array(curator.count_rows()), np.array(EXACT))
    moments = np.diag(np.full(len(names) + 1, evidence.rows))
    upper = np.triu_indices(len(moments), 1)
    # A residual counts the first level as +1, a parity the second.
    moments[upper] = [(-1) ** len(s) * m.values.item() for s, m in zip(sets, measured[len(total) :], strict=True)]
    moments.T[upper] = moments[upper]
    return moments, evidence, spread(measured[-1])
