"""How to split a budget: what a release may spend, and how much of it each residual gets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import BudgetError, BudgetExceeded
from maquette.estimates.residuals import Columns, subsets
from maquette.query import Marginal, orthonormal
from maquette.schema import Schema

REWEIGHTINGS = 8

Array = NDArray[np.float64]


def units_for(curator: Curator, epsilon: float | None, rho: float | None, units: int | None = None) -> int:
    """The ledger units a release may spend: those asked for, or all that remain; more is refused without a charge."""
    accountant, delta = curator.budget.accountant, curator.budget.delta
    left = curator.budget.limit - curator.ledger.spent()
    if epsilon is None and rho is None and units is None:
        if left <= 0:
            raise BudgetExceeded(
                "nothing remains of the budget",
                advice="Nothing was charged. What was published can be asked for ever; more would need a larger budget",
                requested=accountant.loss(1, delta).epsilon,
                remaining=0.0,
            )
        return left
    if units is not None and not (epsilon is None and rho is None):
        raise BudgetError(f"got epsilon={epsilon}, rho={rho} and units={units}", expected="one of the three, or none")
    wanted = accountant.share(epsilon=epsilon, rho=rho, delta=delta) if units is None else units
    if wanted > left:
        asked, remaining = accountant.loss(wanted, delta), accountant.loss(left, delta)
        raise BudgetExceeded(
            f"this release asks for {asked} but only {remaining} remains",
            advice="Nothing was charged. Ask for less, or leave epsilon and rho out to spend what remains",
            requested=asked.epsilon,
            remaining=remaining.epsilon,
        )
    return wanted


class Allocation:
    """The split of one charge over all residuals of a workload that makes its expected error least.

    Measuring residual A at variance s_A (per orthonormal coefficient) costs p_A / s_A, with p_A = prod (n - 1) / n the
    squared L2 norm of what one row moves, and puts s_A * size_A / prod of the other sizes into the cells of every table
    T that holds A. Cauchy-Schwarz gives shares in proportion to sqrt(p_A v_A) for squared error. Laplace noise
    (`linear`) costs c_A / sqrt(s_A / 2), with c_A the L1 norm of what one row moves, and its shares are c_A^(2/3)
    v_A^(1/3). Tables are reweighted until the sum of their standard deviations, not of their variances, is least.
    Public inputs only.
    """

    def __init__(self, schema: Schema, tables: Iterable[Columns], *, linear: bool = False) -> None:
        self._schema = schema
        self._tables = [
            tuple(sorted({name for name in table if schema[name].size > 1}, key=schema.position)) for table in tables
        ]
        self.sets = sorted({part for table in self._tables for part in subsets(table)}, key=lambda s: (len(s), s))
        self._place = {part: i for i, part in enumerate(self.sets)}
        cost = _l1_cost if linear else _l2_cost
        self._costs = np.array([math.prod(map(cost, schema.shape(part))) for part in self.sets])
        self._linear = linear
        self._power = 2 / 3 if linear else 1 / 2
        self.shares = self._solve()

    def _solve(self) -> Array:
        weights = np.ones(len(self._tables))
        for _ in range(REWEIGHTINGS):
            value = self._value(weights)
            shares = self._costs**self._power * value ** (1 - self._power)
            shares /= shares.sum()
            weights = 1.0 / np.maximum(self.spreads(shares), 1e-300)
        return shares

    def _value(self, weights: Array) -> Array:
        value = np.zeros(len(self.sets))
        for table, weight in zip(self._tables, weights, strict=True):
            for part, gain in self._gains(table):
                value[part] += weight * gain
        return value

    def _gains(self, table: Columns) -> Iterable[tuple[int, float]]:
        """How much of a residual's variance the cells of a table collect, times the number of cells."""
        cells = self._schema.cells(table)
        for part in subsets(table):
            size = math.prod(n - 1 for n in self._schema.shape(part))
            others = cells / self._schema.cells(part)
            yield self._place[part], cells * size / others

    def spreads(self, shares: Array) -> Array:
        """For each table, the root of cells times total variance, if the whole charge buys a precision of one."""
        variances = 2 * (self._costs / shares) ** 2 if self._linear else self._costs / shares
        return np.array([math.sqrt(sum(variances[part] * gain for part, gain in self._gains(t))) for t in self._tables])

    def expected_error(self, accounting: str, amount: float, rows: float) -> float:
        """The mean over tables of half the expected L1 error, as a fraction of rows, before any fit.

        For one row added or removed; if a privacy unit moves the contrasts by a larger factor, divide `rows` by that
        factor.
        """
        precision = {"pure": amount, "zcdp": math.sqrt(2 * amount), "gdp": math.sqrt(amount)}[accounting]
        spread = float(self.spreads(self.shares).mean()) / precision
        return math.sqrt(2 / math.pi) * spread / 2 / rows


def _l2_cost(size: int) -> float:
    return (size - 1) / size


@cache
def _l1_cost(size: int) -> float:
    return float(np.abs(orthonormal(size)[1:]).sum(axis=0).max())


def tables_of(schema: Schema, marginals: Sequence[Marginal]) -> list[Columns]:
    """The column sets of a workload's marginals, in schema order, without repeats."""
    found = {marginal.columns for marginal in marginals}
    return sorted(found, key=lambda columns: (len(columns), [schema.position(name) for name in columns]))
