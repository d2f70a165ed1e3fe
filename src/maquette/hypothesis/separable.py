"""Separable weights: one histogram for each column, for queries that are sums over columns, such as distances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import REACH, Values, check_schema, positions_of
from maquette.hypothesis.multiplicative_weights import Step, StepRule, gap
from maquette.hypothesis.sampling import decode, snake, systematic
from maquette.query import MAX_OUTPUT, LinearQuery, Sum
from maquette.schema import Schema

JOINT = 2**20  # universes up to this many cells are sampled as a whole
ROUNDING = 1e-9  # tolerance when a query's range is compared with a share


class Separable:
    """Independent columns, each with its own histogram; an update multiplies all of them at once.

    A query is a sum over columns, q(x) = constant + sum_j g_j(x_j). Every column has a public share a_j; shares sum to
    one and are equal by default. A distance over a `Box` has the box's `shares`. A step towards a value multiplies
    histogram j by exp(eta g_j / a_j), eta = +-4 alpha. Other queries can be asked, and are answered as if columns were
    independent, but cannot be learned from.

    Privacy: post-processing of released values; it never sees a row. Accuracy: T(alpha) = K / (2 alpha^2) updates with
    K = sum_j a_j ln s_j <= ln s for any number of columns of s levels: the potential sum_j a_j KL(x_j, H_j) starts at K
    or less and falls by eta gap - eta^2 V / 8 >= 2 alpha^2 if V = sum_j range(g_j)^2 / a_j is at most one, as it is
    when the range of every g_j is at most a_j (Mechanisms §4.8, where a_j = 1/d). Theory steps refuse queries with a
    larger V. Memory and time: the sum of the columns' levels.

    >>> from maquette import Number, Schema
    >>> from maquette.query import Box
    >>> box = Box(Schema([Number("east", 0, 10, bins=100), Number("north", 0, 20, bins=200)]))
    >>> model = Separable(box.schema, shares=box.shares, step="exact")
    >>> corner = box.distance({"east": 0, "north": 0})
    >>> model.update(corner, 0.25)
    >>> round(box.in_units(model.answer(corner)), 3)
    7.5
    """

    kind: ClassVar[str] = "separable"

    def __init__(
        self,
        schema: Schema,
        *,
        alpha: float | None = None,
        step: Step = "theory",
        shares: Mapping[str, float] | None = None,
        floor: float = 1e-6,
    ) -> None:
        self.schema = schema
        self.shares = _checked(schema, shares)
        self._shares = {schema.position(name): share for name, share in self.shares.items()}
        if step == "linear":
            raise QueryError("a sum over columns has no linear step", expected="one of theory, book, exact")
        self._rule = StepRule(step=step, alpha=alpha, floor=floor)
        self._logs = [np.zeros(column.size) for column in schema]
        self._masses = [np.full(column.size, 1.0 / column.size) for column in schema]

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """The mean of ln s over the columns, over 2 alpha^2: T with equal shares; `update_bound` uses its own."""
        return StepRule(alpha=alpha).max_updates(_potential(schema, _checked(schema, None)))

    @property
    def alpha(self) -> float | None:
        """The error that a step corrects; None where steps are exact."""
        return self._rule.alpha

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step and shares, for the queries that `check` accepts."""
        return self._rule.max_updates(_potential(self.schema, self.shares))

    def check(self, query: LinearQuery) -> None:
        """Refuse a query that this model cannot learn from within its bound; call it before paying for a value."""
        self._sum(query)

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        check_schema(query, self.schema)
        return sum(
            term.coefficient * math.prod(float(factor @ self._masses[p]) for p, factor in term.factors.items())
            for term in query.terms
        )

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value; theory and book steps use only the sign of value - answer."""
        answer = self.answer(query)
        off = gap(value, answer)
        parts = self._sum(query).parts
        if self._rule.step == "exact":
            eta = self._exact(parts, off, query.bounds)
        else:
            eta = self._rule.eta(value, answer, lambda: (np.zeros(1), np.ones(1)))
        for position, part in parts.items() if eta != 0.0 else ():
            logs = self._logs[position] + eta / self._shares[position] * part
            self._logs[position] = logs - logs.max()
            self._masses[position] = _normalised(self._logs[position])

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""
        positions = positions_of(self.schema, columns)
        if self.schema.cells(columns) > MAX_OUTPUT:
            raise QueryError(
                f"{self.schema.cells(columns):,} cells over {len(columns)} columns are more than {MAX_OUTPUT:,}",
                advice="ask for fewer columns",
            )
        table = np.ones(())
        for position in positions:
            table = np.multiply.outer(table, self._masses[position])
        return np.asarray(table)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records: each level of each column appears its share of `rows` times, rounded down or up.

        In a small universe so does each cell; in a larger one the columns are shuffled independently.
        """
        sizes = self.schema.shape(self.schema.names)
        if self.schema.size <= JOINT:
            records = decode(np.arange(self.schema.size), sizes)
            order = snake(records, sizes)
            masses = self.marginal(self.schema.names).reshape(-1)
            return records[order[systematic(masses[order], rows, rng)]]
        return np.stack([systematic(masses, rows, rng) for masses in self._masses], axis=1).astype(np.int32)

    def facts(self) -> dict[str, Any]:
        """The settings."""
        return {**self._rule.facts(), "shares": self.shares}

    def arrays(self) -> Arrays:
        """The logarithm of every column's histogram."""
        return {f"logs-{i}": logs for i, logs in enumerate(self._logs)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        logs = [
            saving.array(arrays, f"logs-{i}", [column.size], most=saving.LARGEST) for i, column in enumerate(schema)
        ]
        rule, shares = StepRule.restore(facts), {name: saving.number(facts["shares"], name) for name in facts["shares"]}
        model = cls(schema, alpha=rule.alpha, step=rule.step, floor=rule.floor, shares=shares)
        model._logs, model._masses = logs, [_normalised(each) for each in logs]
        return model

    def _sum(self, query: LinearQuery) -> Sum:
        check_schema(query, self.schema)
        sums = query.sum
        if sums is None:
            raise QueryError(
                f"{query!r} is not a sum over columns, the only kind that separable weights learn from",
                advice="ask it of a model of the whole universe, such as multiplicative weights",
            )
        still = [self.schema.names[position] for position in sums.parts if position not in self._shares]
        if still:
            raise QueryError(
                f"the query is about {', '.join(still)}, which this model gives no share",
                advice=f"it learns about {', '.join(self.shares)}",
            )
        spread = sum(float(part.max()) ** 2 / self._shares[position] for position, part in sums.parts.items())
        if spread > 1 + ROUNDING and self._rule.step != "exact":
            raise QueryError(
                f"the query's weights do not fit the model's shares (the sum of range^2 / share is {spread:.3g}, at "
                "most 1 is allowed), so the bound on updates would not hold",
                advice="give the model the shares of the queries, such as shares=box.shares",
            )
        return sums

    def _exact(self, parts: Mapping[int, Values], off: float, bounds: tuple[float, float]) -> float:
        """The exponent that makes the answer equal to the value, kept within its bounds by `floor` times its range."""
        low, high = bounds
        if low == high:
            return 0.0
        answer = {p: float(part @ self._masses[p]) for p, part in parts.items()}
        base = low + sum(answer.values())
        inside = self._rule.floor * (high - low)
        target = min(max(base + off, low + inside), high - inside)
        limit = min(math.log(REACH) / float(part.max() / self._shares[p]) for p, part in parts.items())

        def excess(eta: float) -> float:
            total = low - target
            for position, part in parts.items():
                tilted = _normalised(self._logs[position] + eta / self._shares[position] * part)
                total += float(part @ tilted)
            return total

        if excess(limit) <= 0.0:
            return limit
        if excess(-limit) >= 0.0:
            return -limit
        from scipy.optimize import brentq

        return float(brentq(excess, -limit, limit, xtol=1e-15, rtol=8.9e-16))

    def __repr__(self) -> str:
        return f"Separable({len(self.shares)} columns, step {self._rule.step})"


def _checked(schema: Schema, shares: Mapping[str, float] | None) -> dict[str, float]:
    """The shares of columns, normalised to sum to one."""
    given = dict.fromkeys(schema.names, 1.0) if shares is None else dict(shares)
    for name in given:
        schema.position(name)
    if not given or not all(math.isfinite(share) and share > 0.0 for share in given.values()):
        raise QueryError(f"shares are {given!r}", expected="positive numbers for some columns, such as box.shares")
    total = math.fsum(given.values())
    return {name: float(share) / total for name, share in given.items()}


def _potential(schema: Schema, shares: Mapping[str, float]) -> float:
    return math.fsum(share * math.log(schema[name].size) for name, share in shares.items())


def _normalised(logs: Values) -> Values:
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum())
