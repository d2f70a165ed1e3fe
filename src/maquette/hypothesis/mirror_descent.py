"""Mirror descent: one update rule for every strongly convex potential, over vectors with one number per cell."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import Cells, Grid, check_schema, positions_of
from maquette.hypothesis.multiplicative_weights import check_alpha, gap
from maquette.hypothesis.rule import Rule
from maquette.hypothesis.sampling import sample_cells
from maquette.query import LinearQuery
from maquette.schema import Schema

MAX_CELLS = 2**26
_COARSE = 2.0**40  # above this size a shift by one is lost to rounding

Potential = Literal["norm", "entropy"]
Vector = NDArray[np.float64]


class VectorModel(ABC):
    """A model that stores one number per cell, of either sign; the answer is its inner product with the query."""

    def __init__(self, schema: Schema) -> None:
        if schema.size > MAX_CELLS:
            raise QueryError(
                f"{schema!r} has more cells than the {MAX_CELLS:,} that this model can list",
                advice="use MultiplicativeWeights up to 2^28 cells, or WeightedRecords beyond",
            )
        self.schema = schema
        self._vector = np.zeros(schema.shape(schema.names))

    @abstractmethod
    def _step(self, weights: Vector, gap: float) -> None:
        """Move `_vector` along a query's weights; `gap` is the released value minus the answer."""

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows; outside [0, 1] where the vector is not a distribution."""
        check_schema(query, self.schema)
        return float((self.marginal(query.columns) * query.weights()).sum())

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value."""
        distance = gap(value, self.answer(query))
        weights = query.weights(self.schema.names)
        if distance != 0.0 and weights.any():
            self._step(weights, distance)

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""
        positions = positions_of(self.schema, columns)
        summed = self._vector.sum(axis=tuple(i for i in range(len(self.schema)) if i not in positions))
        return np.asarray(np.transpose(summed, np.argsort(np.argsort(positions))), order="C")

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records from the nearest distribution; each cell appears its share of `rows` times, rounded."""
        return sample_cells(Cells.of(Grid(self.schema), on_simplex(self._vector)), rows, rng)


class MirrorDescent(VectorModel):
    """Steps in the dual of a potential, using only the sign of the gap.

    norm: half the squared p-norm, 1 < p <= 2, starting from zero; p = 2 is the Perceptron, p near 1 behaves as
    multiplicative weights (default p = 1 + 1/ln N). entropy: on the simplex, starting from uniform, which is
    multiplicative weights itself.

    `norm` is a public bound on ||x||_p / ||x||_1 of the table's histogram x, `query_norm` on ||f||_q of every query,
    q = p/(p-1); by default 1 and N^(1/q), which hold for every table and every query. A query beyond its bound is
    refused before it is paid for. Never compute `norm` from the rows.

    Privacy: post-processing of released values. Accuracy: T(alpha) = norm^2 query_norm^2 / ((p-1) alpha^2), at most
    e^2 ln N / alpha^2 at the defaults; ln N / (2 alpha^2) for entropy (Jain and Thakurta 2012; Mechanisms §4.2).
    """

    kind: ClassVar[str] = "mirror-descent"

    def __init__(
        self,
        schema: Schema,
        *,
        alpha: float,
        p: float | None = None,
        psi: Potential = "norm",
        norm: float = 1.0,
        query_norm: float | None = None,
    ) -> None:
        super().__init__(schema)
        self.alpha = check_alpha(alpha)
        self.p = _default_p(schema.size) if p is None else p
        if psi not in get_args(Potential):
            raise QueryError(f"there is no potential {psi!r}", expected=f"one of {', '.join(get_args(Potential))}")
        if not 1.0 < self.p <= 2.0:
            raise QueryError(
                f"p is {p}", expected="a number in (1, 2]: 2 is the Perceptron, near 1 is multiplicative weights"
            )
        if psi == "entropy" and (norm != 1.0 or query_norm is not None):
            raise QueryError("norms are for psi='norm'", advice="leave norm and query_norm out, or give p")
        self.norm, self.query_norm = check_norms(norm, query_norm)
        self._psi = psi
        self._dual = np.zeros(schema.shape(schema.names))
        self._vector = self._mirror()

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """T(alpha) at the default p, for any table and any query."""
        return norm_bound(schema.size, check_alpha(alpha), _default_p(schema.size))

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha and potential."""
        if self._psi == "entropy":
            return math.log(self.schema.size) / (2.0 * self.alpha**2)
        return norm_bound(self.schema.size, self.alpha, self.p, self.norm, self.query_norm)

    def check(self, query: LinearQuery) -> None:
        """Refuse a query whose norm exceeds `query_norm`."""
        check_query_norm(query, self.query_norm, self.p)

    def facts(self) -> dict[str, Any]:
        """The settings."""
        given = (self.norm, self.query_norm) != (1.0, None)
        norms = {"norm": self.norm, "query_norm": self.query_norm} if given else {}
        return {"alpha": self.alpha, "p": self.p, "psi": self._psi, **norms}

    def arrays(self) -> Arrays:
        """The dual point, which determines the vector."""
        return {"dual": self._dual}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        dual = saving.array(arrays, "dual", schema.shape(schema.names), most=saving.LARGEST)
        norm = saving.number(facts, "norm") if "norm" in facts else 1.0
        bound = saving.optional(facts, "query_norm") if "query_norm" in facts else None
        alpha, p = saving.number(facts, "alpha"), saving.number(facts, "p")
        model = cls(schema, alpha=alpha, p=p, psi=facts["psi"], norm=norm, query_norm=bound)
        model._dual = dual
        model._vector = model._mirror()
        return model

    def _step(self, weights: Vector, gap: float) -> None:
        if self._psi == "entropy":
            eta = 4.0 * self.alpha
        else:
            eta = self.alpha * (self.p - 1.0) / squared_norm(weights, self.p / (self.p - 1.0))
        self._dual += math.copysign(eta, gap) * weights
        self._vector = self._mirror()

    def _mirror(self) -> Vector:
        """The primal point that belongs to the dual point: the gradient of the conjugate potential."""
        q = self.p / (self.p - 1.0)
        largest = np.abs(self._dual).max()
        if self._psi == "entropy":
            self._dual -= self._dual.max()
            weights = np.exp(self._dual)
            return np.asarray(weights / weights.sum())
        if q == 2.0 or largest == 0.0:
            return self._dual.copy()
        # Half the squared q-norm has gradient sign(t) |t|^(q-1) / ||t||_q^(q-2); scaled so that no power overflows.
        size = np.abs(self._dual) / largest
        return np.asarray(
            np.sign(self._dual) * size ** (q - 1.0) * (largest / squared_norm(size, q) ** (q / 2.0 - 1.0))
        )

    def __repr__(self) -> str:
        kind = "entropy" if self._psi == "entropy" else f"p = {self.p:g}"
        return f"MirrorDescent({self.schema.size:,} cells, {kind})"


def squared_norm(vector: Vector, q: float) -> float:
    """The squared q-norm of a vector without negative entries."""
    return float((vector * vector).sum()) if q == 2.0 else float((vector**q).sum() ** (2.0 / q))


def on_simplex(vector: Vector) -> Vector:
    """The nearest distribution in Euclidean distance: shift by a constant and cut at zero."""
    if np.abs(vector).max(initial=0.0) > _COARSE:  # a shift does not change the nearest distribution
        vector = vector - vector.max()
    ordered = np.sort(vector, axis=None)[::-1]
    shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, vector.size + 1)
    shift = shifts[np.flatnonzero(ordered > shifts)[-1]]
    return np.asarray(np.maximum(vector - shift, 0.0))


def check_norms(norm: float, query_norm: float | None) -> tuple[float, float | None]:
    """Check public bounds on the norms of a table and of queries."""
    if not 0.0 < norm <= 1.0:
        raise QueryError(
            f"norm is {norm}", expected="a number in (0, 1], a bound on ||x||_p / ||x||_1 of the table (p = 2: ||x||_2)"
        )
    if query_norm is not None and not 0.0 < query_norm < math.inf:
        raise QueryError(
            f"query_norm is {query_norm}", expected="a bound above 0 on the dual norm of every query, or None"
        )
    return norm, query_norm


def check_query_norm(query: LinearQuery, most: float | None, p: float) -> None:
    """Refuse a query whose norm, dual to p, exceeds the bound that T was computed for."""
    if most is None:
        return
    q = p / (p - 1.0)
    repeated = query.schema.size / query.schema.cells(query.columns)  # cells that share a weight
    size = math.sqrt(squared_norm(query.weights(), q)) * repeated ** (1.0 / q)
    if size > most * (1 + 1e-9):
        raise QueryError(
            f"this question has a norm of {size:.4g}, more than query_norm={most:.4g}",
            expected="questions within the bound that the number of updates was computed for",
            advice="ask a narrower question, or start again with a larger query_norm",
        )


def _default_p(size: int) -> float:
    return 1.0 + 1.0 / max(1.0, math.log(size))


def norm_bound(size: int, alpha: float, p: float, norm: float = 1.0, query_norm: float | None = None) -> float:
    """T(alpha) = norm^2 query_norm^2 / ((p-1) alpha^2); infinite for more points than a float can represent."""
    logs = 2.0 * math.log(norm) - 2.0 * math.log(alpha) - math.log(p - 1.0)
    logs += 2.0 * (p - 1.0) / p * math.log(size) if query_norm is None else 2.0 * math.log(query_norm)
    return math.exp(logs) if logs < 700 else math.inf


def norm_rule(schema: Schema, *, p: float | None = None, norm: float = 1.0, query_norm: float | None = None) -> Rule:
    """Mirror descent for tables and queries of bounded norms, at any resolution; give it as `hypothesis` or to `plan`.

    T(alpha) = norm^2 query_norm^2 / ((p-1) alpha^2): what a loop promises, its rounds and its noise follow from it. p
    is 1 + 1/ln N by default; p = 2 is the Perceptron, whose norm is the Euclidean one, at least N^(-1/2).

    >>> from maquette import Integer, Schema
    >>> schema = Schema([Integer("cell", 0, 12_999)])
    >>> [round(norm_rule(schema, p=2.0, norm=norm).updates(0.1)) for norm in (1.0, 0.05)]
    [1300000, 3250]
    """
    MirrorDescent(schema, alpha=1.0, p=p, norm=norm, query_norm=query_norm)  # refuses what makes no sense
    order = _default_p(schema.size) if p is None else p
    return Rule(
        lambda alpha: norm_bound(schema.size, min(alpha, 1.0), order, norm, query_norm),
        lambda alpha: MirrorDescent(schema, alpha=alpha, p=order, norm=norm, query_norm=query_norm),
        name=MirrorDescent.kind,
    )
