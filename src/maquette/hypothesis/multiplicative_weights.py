"""Multiplicative weights: a distribution over the whole universe, multiplied up or down where it was wrong.

Also the step rule and the small checks that the other update rules share with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import REACH, Cells, Grid, Pattern, Values
from maquette.hypothesis.sampling import sample_cells
from maquette.query import LinearQuery
from maquette.schema import Schema

MAX_CELLS = 2**28

Step = Literal["theory", "book", "exact", "linear"]


@dataclass(frozen=True, kw_only=True)
class StepRule:
    """How far a step goes: the exponent eta in `weight *= exp(eta * query)`.

    theory: 4 alpha times the sign of the gap, T = K / (2 alpha^2) updates, where K bounds KL(table || start).
    book: alpha / 2 times the sign of the gap, T = 4 K / alpha^2 (Dwork-Roth, section 5.2).
    linear: the slides' `weight *= 1 - r * query` (of 1 - query where the model is too low), r = 1 - exp(-4 alpha), with
    the T of "theory": ln(1 - r f) >= f ln(1 - r), so the potential falls as for a 0/1 query (`theory.regret`).
    exact: the Bregman projection, after which the answer equals the value; it has no bound on updates, since a noisy
    value may overshoot. Values are kept inside the query's range by a fraction `floor` of it: 1/(2n) for about n rows.
    """

    step: Step = "theory"
    alpha: float | None = None
    floor: float = 1e-6

    def __post_init__(self) -> None:
        if self.step not in get_args(Step):
            raise QueryError(f"there is no step {self.step!r}", expected=f"one of {', '.join(get_args(Step))}")
        if self.alpha is not None:
            check_alpha(self.alpha)
        if not 0 < self.floor < 0.5:
            raise QueryError(f"floor is {self.floor}", expected="a number between 0 and 1/2; 1/(2n) suits about n rows")

    def facts(self) -> dict[str, Any]:
        """The settings, as a saved file keeps them."""
        return {"step": self.step, "alpha": self.alpha, "floor": self.floor}

    @classmethod
    def restore(cls, facts: Mapping[str, Any]) -> StepRule:
        """The rule of these settings."""
        floor = saving.number(facts, "floor")
        return cls(step=facts["step"], alpha=saving.optional(facts, "alpha"), floor=floor)

    def eta(self, value: float, answer: float, spread: Callable[[], tuple[Values, Values]]) -> float:
        """The exponent for a released value; `spread` gives the query's weights and the mass on each."""
        sign = float(np.sign(gap(value, answer)))
        if self.step == "exact":
            return bregman_step(*spread(), value, self.floor)
        if self.alpha is None:
            raise QueryError(
                f"the step {self.step!r} needs alpha, the error it is to correct", advice="or take step='exact'"
            )
        return sign * (self.alpha / 2.0 if self.step == "book" else 4.0 * self.alpha)

    def exponents(self, eta: float, weights: Values) -> Values:
        """The logarithm of what a step multiplies each mass by, up to a common constant."""
        if self.step != "linear":
            return np.asarray(eta * weights)
        return np.asarray(np.log1p(math.expm1(-abs(eta)) * (weights if eta < 0 else 1.0 - weights)))

    def max_updates(self, potential: float) -> float:
        """T(alpha) from a bound on the potential at the start."""
        if self.alpha is None or self.step == "exact":
            return math.inf
        return 4.0 * potential / self.alpha**2 if self.step == "book" else potential / (2.0 * self.alpha**2)


class MultiplicativeWeights:
    """A distribution over every cell of the universe, updated multiplicatively.

    Privacy: post-processing of released values; it never sees a row. Accuracy: if every query that causes an update is
    off by alpha or more and its value by less, there are at most T(alpha) = ln N / (2 alpha^2) updates for N cells
    (Mechanisms §4.2); `prior` (public) replaces ln N by max ln(1 / prior). Memory: eight bytes per cell. Time: an
    update is deferred to the next answer and done in the same pass over memory, which skips runs of cells that neither
    needs. Without alpha a model can be asked and sampled; only exact steps update it. Between updates several threads
    may ask.

    >>> from maquette import Boolean, Integer, Schema, where
    >>> schema = Schema([Integer("age", 0, 99, width=10), Boolean("smoker")])
    >>> model = MultiplicativeWeights(schema, step="exact")
    >>> model.update(where(schema, "smoker"), 0.2)
    >>> round(model.answer(where(schema, "age < 50 AND smoker")), 6)
    0.1
    """

    kind: ClassVar[str] = "multiplicative-weights"

    def __init__(
        self,
        schema: Schema,
        *,
        alpha: float | None = None,
        step: Step = "theory",
        prior: NDArray[np.float64] | None = None,
        floor: float = 1e-6,
    ) -> None:
        if schema.size > MAX_CELLS:
            raise QueryError(
                f"{schema!r} has more cells than the {MAX_CELLS:,} that can be listed",
                advice="use WeightedRecords on a public list of records, or a schema with fewer columns or wider bins",
            )
        self.schema = schema
        self._rule = StepRule(step=step, alpha=alpha, floor=floor)
        self._grid = Grid(schema)
        self._cells = Cells(self._grid)
        self._waiting: Pattern | None = None  # the factors of the last update, until the next pass
        self._asked: tuple[LinearQuery, Pattern, float] | None = None
        self._potential = math.log(schema.size)
        if prior is not None:
            start = check_masses(prior, schema.shape(schema.names))
            self._potential = -math.log(start.min()) if start.min() > 0.0 else math.inf
            self.scale_marginal(schema.names, start)
            self._settle()

    @classmethod
    def practical(cls, schema: Schema, rows: float) -> Self:
        """A fresh model with exact steps."""
        return cls(schema, step="exact", floor=min(0.25, 1 / (2 * rows)))

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """ln N / (2 alpha^2)."""
        return StepRule(alpha=alpha).max_updates(math.log(schema.size))

    @property
    def alpha(self) -> float | None:
        """The error that a step corrects; None where steps are exact."""
        return self._rule.alpha

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step and prior."""
        return self._rule.max_updates(self._potential)

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        return self._ask(query)[1]

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value; theory and book steps use only the sign of value - answer."""
        pattern, answer = self._ask(query)
        eta = self._rule.eta(value, answer, lambda: self._spread(pattern, answer))
        if eta != 0.0:
            self._wait(pattern.mapped(lambda weights: np.exp(self._rule.exponents(eta, weights))))

    def scale_marginal(self, columns: Sequence[str], factors: NDArray[np.float64]) -> None:
        """Multiply each cell by the factor of its cell of `columns`; measured / model marginal makes an exact step."""
        # Only ratios of factors matter, so they are normalised. Zero becomes the smallest factor of one step.
        relative = check_masses(factors, self.schema.shape(columns))
        self._wait(self._grid.table(columns, np.maximum(relative / relative.max(), 1.0 / REACH)))

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""
        self._settle()
        return self._grid.marginal(columns, self._cells.tally)

    def sample(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records; each cell appears its share of `rows` times, rounded down or up."""
        self._settle()
        return sample_cells(self._cells, rows, rng, start)

    def facts(self) -> dict[str, Any]:
        """The settings, and the bound on the initial potential."""
        return {**self._rule.facts(), "potential": self._potential if math.isfinite(self._potential) else None}

    def arrays(self) -> Arrays:
        """The mass of every cell."""
        return {"cells": self.marginal(self.schema.names)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe, up to rounding in the last bits."""
        cells, rule = saving.array(arrays, "cells", schema.shape(schema.names)), StepRule.restore(facts)
        model = cls(schema, alpha=rule.alpha, step=rule.step, floor=rule.floor, prior=cells)
        potential = saving.optional(facts, "potential")
        model._potential = math.inf if potential is None else potential
        return model

    def _ask(self, query: LinearQuery) -> tuple[Pattern, float]:
        asked = self._asked
        if asked is None or asked[0] != query:
            pattern = self._grid.pattern(query)
            answer = self._cells.sweep(self._waiting, pattern)
            self._waiting, self._asked = None, (asked := (query, pattern, answer))
        return asked[1:]

    def _wait(self, factors: Pattern) -> None:
        self._settle()
        self._waiting, self._asked = factors, None

    def _settle(self) -> None:
        if self._waiting is not None:
            self._cells.sweep(self._waiting, None)
            self._waiting = None

    def _spread(self, pattern: Pattern, answer: float) -> tuple[Values, Values]:
        """The query's weights and the mass on each; for a predicate the answer determines both."""
        if np.isin(pattern.table, (0.0, 1.0)).all():
            return np.unique(pattern.table), np.array([1.0 - answer, answer])[np.unique(pattern.table).astype(int)]
        return pattern.table.reshape(-1), self._cells.tally(pattern).reshape(-1)

    def __repr__(self) -> str:
        return f"MultiplicativeWeights({self.schema.size:,} cells, step {self._rule.step})"


def bregman_step(weights: Values, masses: Values, value: float, floor: float) -> float:
    """The exponent that moves the mean weight under `masses` to `value`, kept `floor` away from the extremes."""
    low, high = float(weights.min()), float(weights.max())
    limit = math.log(REACH)
    if low == high:
        return 0.0
    target = min(max(value, low + floor * (high - low)), high - floor * (high - low))

    def excess(eta: float) -> float:
        exponents = eta * weights
        tilted = masses * np.exp(exponents - exponents.max())
        return float((weights * tilted).sum() / tilted.sum()) - target

    if excess(limit) <= 0.0:
        return limit
    if excess(-limit) >= 0.0:
        return -limit
    from scipy.optimize import brentq

    return float(brentq(excess, -limit, limit, xtol=1e-15, rtol=8.9e-16))


def gap(value: float, answer: float) -> float:
    """The released value minus the answer; a value that is not finite is refused."""
    if not math.isfinite(value):
        raise QueryError(f"the value of an update is {value}", expected="a finite fraction of rows")
    return value - answer


def check_alpha(alpha: float) -> float:
    """Check alpha, the error to correct, a fraction of rows."""
    if not 0.0 < alpha <= 1.0:
        raise QueryError(f"alpha is {alpha}", expected="a number in (0, 1], a fraction of rows")
    return alpha


def check_masses(masses: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Check the shape of masses and normalise them."""
    masses = np.asarray(masses, dtype=np.float64)
    if masses.shape != shape:
        raise QueryError(f"got shape {masses.shape}", expected=f"one mass for each of {shape}")
    if not (np.isfinite(masses).all() and masses.min() >= 0.0 < masses.max()):
        raise QueryError("masses must be finite, not negative and not all zero")
    return np.asarray(masses / masses.sum())
