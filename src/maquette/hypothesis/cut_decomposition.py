"""Cut decomposition: a signed sum of cuts, one term for each cut that the model got wrong (Frieze and Kannan)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import Cells, Grid, check_schema, positions_of
from maquette.hypothesis.mirror_descent import MAX_CELLS, on_simplex
from maquette.hypothesis.multiplicative_weights import check_alpha, gap
from maquette.hypothesis.sampling import sample_cells
from maquette.query import LinearQuery
from maquette.schema import Schema

CutStep = Literal["theory", "centred", "exact"]
Values = NDArray[np.float64]

_BLOCK = 1024  # terms expanded over the cells at a time


class CutDecomposition:
    """A signed number per cell, stored as a sum of products: `model += step * query`, without listing the cells.

    Steps. theory: alpha / ||f||^2 times the sign of the gap, starting from zero; on cuts this is the rule of Frieze and
    Kannan, alpha / (|S| |T|), on other queries the Perceptron's. centred: the same along f minus its mean, starting
    from uniform; nothing is lost, as every table has total 1, and it takes a quarter of the updates. exact: the whole
    gap, centred, after which the answer equals the value; with noisy values it has no bound on updates.

    Privacy: post-processing of released values. Accuracy: T(alpha) = norm^2 area / alpha^2 (theory), where `norm` is a
    public bound on ||x||_2 / ||x||_1 of the table's histogram x, and `area` bounds ||f||^2 of every query (default N;
    larger queries are refused). For a simple graph norm is m^(-1/2) for m edges, so T = |V|^2 / (m alpha^2); area is
    |V|^2 / 4 for bipartitions. centred: (norm^2 - 1/N) a (1 - a/N) / alpha^2, a = min(area, N/2). Never compute norm
    from the rows. Mechanisms §4.2, §4.6.

    Memory and time of an answer grow with updates times the sum of the column sizes, or with the number of cells where
    that is smaller. Universes too large to list can be asked and updated, but not sampled.

    >>> from maquette.query.classes.cuts import cut, edge_schema
    >>> schema = edge_schema(1000)
    >>> model = CutDecomposition(schema, alpha=0.1, norm=10_000**-0.5)
    >>> model.update(cut(schema, range(500)), 0.5)
    >>> round(model.answer(cut(schema, range(250))), 6), round(model.update_bound)
    (0.05, 10000)
    """

    kind: ClassVar[str] = "cut-decomposition"

    def __init__(
        self, schema: Schema, *, alpha: float, step: CutStep = "theory", norm: float = 1.0, area: float | None = None
    ) -> None:
        self.schema = schema
        self.alpha = check_alpha(alpha)
        if step not in get_args(CutStep):
            raise QueryError(f"there is no step {step!r}", expected=f"one of {', '.join(get_args(CutStep))}")
        self._size = _float(schema.size)
        least = 1.0 / math.sqrt(self._size)
        if not least * (1 - 1e-12) <= norm <= 1.0:
            raise QueryError(
                f"norm is {norm}",
                expected=f"a bound on ||x||_2 / ||x||_1 of the table, from "
                f"{least:.3g} (the least over {schema.size:,} cells) to 1",
            )
        if area is not None and not area > 0.0:
            raise QueryError(f"area is {area}", expected="a positive number, a bound on ||f||^2 of every query")
        self.step = step
        self.norm = norm
        self.area = self._size if area is None else min(float(area), self._size)
        self._level = 0.0 if step == "theory" else 1.0 / self._size  # added to every cell, beside the products
        self._terms = _Terms(schema.shape(schema.names))
        self._dense: Values | None = None

    @classmethod
    def practical(cls, schema: Schema, rows: float) -> Self:
        """A fresh model with exact steps."""
        return cls(schema, alpha=1.0, step="exact")

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """N / alpha^2, without knowledge of the table or the queries; `update_bound` uses norm, area and step."""
        return _float(schema.size) / check_alpha(alpha) ** 2

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step, norm and area."""
        if self.step == "exact":
            return math.inf
        if self.step == "theory":
            return self.norm**2 * self.area / self.alpha**2
        area = min(self.area, self._size / 2)
        return max(0.0, self.norm**2 - 1 / self._size) * area * (1 - area / self._size) / self.alpha**2

    @property
    def terms(self) -> int:
        """Number of products stored, not counting those already expanded over the cells."""
        return self._terms.count

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows; outside [0, 1] where the numbers are not a distribution."""
        return self._ask(query)[1]

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value."""
        asked, answer = self._ask(query)
        distance = gap(value, answer)
        norm = asked.squared_norm if self.step == "theory" else asked.squared_norm - asked.total**2 / self._size
        if distance == 0.0 or norm <= 1e-12 * asked.squared_norm:
            return
        size = (distance if self.step == "exact" else math.copysign(self.alpha, distance)) / norm
        if self.step != "theory":
            self._level -= size * asked.total / self._size
        self._terms.add(asked, size)
        self._write_out()

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""
        positions = positions_of(self.schema, columns)
        cells = self.schema.cells(columns)
        if cells > MAX_CELLS:
            raise QueryError(
                f"{cells:,} cells over {len(columns)} columns are too many to list", advice="ask for fewer columns"
            )
        kept = sorted(positions)
        table = self._terms.table(kept) + self._level * _float(self.schema.size // cells)
        if self._dense is not None:
            table += self._dense.sum(axis=tuple(i for i in range(len(self.schema)) if i not in kept))
        return np.asarray(np.transpose(table, [kept.index(position) for position in positions]), order="C")

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records from the nearest distribution; each cell appears its share of `rows` times, rounded."""
        return sample_cells(Cells.of(Grid(self.schema), on_simplex(self.marginal(self.schema.names))), rows, rng)

    def facts(self) -> dict[str, Any]:
        """The settings, and the number added to every cell."""
        area = None if self.area == self._size else self.area
        return {"alpha": self.alpha, "step": self.step, "norm": self.norm, "area": area, "level": self._level}

    def arrays(self) -> Arrays:
        """The products, and the cells over which earlier ones were expanded."""
        return self._terms.arrays() | ({} if self._dense is None else {"cells": self._dense})

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        settings = {name: saving.number(facts, name) for name in ("alpha", "norm")}
        model = cls(schema, step=facts["step"], area=saving.optional(facts, "area"), **settings)
        model._level = saving.number(facts, "level", most=saving.LARGEST)
        model._terms = _Terms.restore(schema.shape(schema.names), arrays)
        if "cells" in arrays:
            model._dense = saving.array(arrays, "cells", schema.shape(schema.names), most=saving.LARGEST)
        return model

    def _ask(self, query: LinearQuery) -> tuple[_Products, float]:
        check_schema(query, self.schema)
        asked = _Products(self.schema.shape(self.schema.names), query)
        if asked.squared_norm > self.area * (1 + 1e-9):
            raise QueryError(
                f"the question has ||f||^2 = {asked.squared_norm:,.6g}, more than the area {self.area:,.6g} that this "
                "model was promised for every question",
                advice="ask about fewer cells, or give the model a larger area",
            )
        answer = self._level * asked.total + self._terms.dot(asked)
        if self._dense is not None:
            answer += sum(_contracted(self._dense, term, asked) for term in range(len(asked.coefficients)))
        return asked, answer

    def _write_out(self) -> None:
        """Store the cells instead, once the products take more numbers than the universe has cells."""
        if self.schema.size <= min(MAX_CELLS, self._terms.numbers):
            table = self._terms.table(range(len(self.schema)))
            self._dense = table if self._dense is None else self._dense + table
            self._terms = _Terms(self._terms.sizes)

    def __repr__(self) -> str:
        return f"CutDecomposition({self.schema.size:,} cells, step {self.step})"


class _Products:
    """A query as a sum of products: one coefficient per product, and per column one row of weights for each product."""

    def __init__(self, sizes: Sequence[int], query: LinearQuery) -> None:
        self.coefficients = np.array([term.coefficient for term in query.terms])
        self.factors: list[Values | None] = []  # None where no product depends on the column
        for position, size in enumerate(sizes):
            used = [term.factors.get(position) for term in query.terms]
            ones = np.ones(size)
            alike = all(factor is None for factor in used)
            self.factors.append(None if alike else np.array([ones if factor is None else factor for factor in used]))
        self.sizes = sizes
        count = len(self.coefficients)
        totals, squares = np.ones(count), np.ones((count, count))
        for size, factor in zip(sizes, self.factors, strict=True):
            totals *= float(size) if factor is None else factor.sum(axis=1)
            squares *= float(size) if factor is None else factor @ factor.T
        self.total = float(self.coefficients @ totals)
        self.squared_norm = float(self.coefficients @ squares @ self.coefficients)


class _Terms:
    """Products in order of arrival; inner products with a query are computed without listing cells."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.count = 0
        self._coefficients = np.zeros(0)
        self._factors = [np.zeros((0, size)) for size in sizes]

    def arrays(self) -> dict[str, Values]:
        """Coefficients, and for each column the weights of every product."""
        factors = {f"factor-{i}": held[: self.count] for i, held in enumerate(self._factors)}
        return {"coefficients": self._coefficients[: self.count], **factors}

    @classmethod
    def restore(cls, sizes: Sequence[int], arrays: Arrays) -> _Terms:
        """The terms that `arrays` describe."""
        terms = cls(sizes)
        terms._coefficients = saving.array(arrays, "coefficients", [saving.ANY], most=saving.LARGEST)
        terms.count = len(terms._coefficients)
        terms._factors = [
            saving.array(arrays, f"factor-{i}", [terms.count, size], most=1.0) for i, size in enumerate(sizes)
        ]
        return terms

    @property
    def numbers(self) -> int:
        """How many numbers the products take."""
        return self.count * sum(self.sizes)

    def add(self, products: _Products, scale: float) -> None:
        """Append a multiple of a query."""
        last = self.count + len(products.coefficients)
        if last > len(self._coefficients):
            self._grow(max(last, 2 * len(self._coefficients), 16))
        self._coefficients[self.count : last] = scale * products.coefficients
        for held, factor in zip(self._factors, products.factors, strict=True):
            held[self.count : last] = 1.0 if factor is None else factor
        self.count = last

    def _grow(self, room: int) -> None:
        self._coefficients = np.concatenate([self._coefficients, np.zeros(room - len(self._coefficients))])
        self._factors = [np.concatenate([held, np.zeros((room - len(held), held.shape[1]))]) for held in self._factors]

    def dot(self, asked: _Products) -> float:
        """The inner product of all terms with a query."""
        if not self.count:
            return 0.0
        products = np.outer(self._coefficients[: self.count], asked.coefficients)
        for held, factor in zip(self._factors, asked.factors, strict=True):
            rows = held[: self.count]
            products *= rows.sum(axis=1)[:, None] if factor is None else rows @ factor.T
        return float(products.sum())

    def table(self, positions: Sequence[int]) -> Values:
        """The sum of all terms over the cells of these columns, in this order."""
        shape = [self.sizes[position] for position in positions]
        ends = [math.prod(shape[:cut]) for cut in range(len(shape) + 1)]
        middle = min(range(len(ends)), key=lambda cut: max(ends[cut], ends[-1] // ends[cut]))
        table = np.zeros((ends[middle], ends[-1] // ends[middle]))
        for first in range(0, self.count, _BLOCK):
            rows = slice(first, min(first + _BLOCK, self.count))
            weights = self._coefficients[rows].copy()
            for position, held in enumerate(self._factors):
                if position not in positions:
                    weights *= held[rows].sum(axis=1)
            left, right = (self._spread(side, rows) for side in (positions[:middle], positions[middle:]))
            table += (left * weights[:, None]).T @ right
        return table.reshape(shape)

    def _spread(self, positions: Sequence[int], rows: slice) -> Values:
        """For each of these terms its products over the cells of some columns."""
        cells = np.ones((rows.stop - rows.start, 1))
        for position in positions:
            held = self._factors[position][rows]
            cells = (cells[:, :, None] * held[:, None, :]).reshape(len(cells), -1)
        return cells


def _contracted(dense: Values, term: int, asked: _Products) -> float:
    """The inner product of a table with one product of a query, one column after the other from the last."""
    for factor in reversed(asked.factors):
        dense = dense.sum(axis=-1) if factor is None else dense @ factor[term]
    return float(asked.coefficients[term] * dense)


def _float(size: int) -> float:
    try:
        return float(size)
    except OverflowError:  # more points than a float can represent
        return math.inf
