"""Noise that can be seeded, sessions without a durable ledger, and exact answers, for tests of their mathematics.

The noise is drawn by numpy: good enough to test intervals, never for privacy.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from gate_tools import Counts, tallied
from maquette.curator import Measurement
from maquette.privacy import DiscreteGaussian, DiscreteLaplace
from maquette.query import Contrasts, LinearQuery, Marginal, Program, Statement, question
from maquette.query.linear import Term
from maquette.schema import Schema
from maquette.session.precision.product_view import ProductView
from maquette.session.pricing import Pricing
from maquette.session.question import Goal, Question, goals_of

opening: Any = importlib.import_module("maquette.session.opening")
transcript: Any = importlib.import_module("maquette.session.transcript")

Integers = NDArray[np.int64]
Values = NDArray[np.float64]
MeasuredQuestion = Marginal | Contrasts

FREE = mq.Budget(rho=1.0).accountant.loss(0, 0.0)
TABLED = 40.0  # below this deviation the discrete law is written out; above it a rounded normal is the same


class SeededNoise:
    """Discrete Laplace and Gaussian noise from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        deviation = float(variance) ** 0.5
        if deviation > TABLED:
            return np.rint(self.rng.normal(0.0, deviation, size)).astype(np.int64)
        values, cumulative = _law(round(float(variance), 9))
        drawn: Integers = values[np.searchsorted(cumulative, self.rng.random(size))]
        return drawn

    def laplace(self, scale: Fraction, size: int) -> Integers:
        stop = -np.expm1(-1.0 / float(scale))
        return (self.rng.geometric(stop, size) - self.rng.geometric(stop, size)).astype(np.int64)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        raise AssertionError("sessions select nothing")

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        raise AssertionError("sessions select nothing")


class NoNoise(SeededNoise):
    """Zeros, whatever is asked for."""

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        return np.zeros(size, dtype=np.int64)

    def laplace(self, scale: Fraction, size: int) -> Integers:
        return np.zeros(size, dtype=np.int64)


@functools.cache
def _law(variance: float) -> tuple[Integers, Values]:
    reach = int(12 * variance**0.5) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * variance))
    cumulative = np.cumsum(weights / weights.sum())
    cumulative[-1] = 1.0
    return values, cumulative


class SwiftCurator(mq.Curator):
    """A curator for one session that measures beside the ledger: the same questions, units and laws."""

    def __init__(self, keeper: mq.Curator, noise: SeededNoise, tallies: dict[str, Integers], counts: Integers) -> None:
        self.__dict__.update(keeper.__dict__)
        self._source = noise
        self._keeps_values = False  # counts of levels are all it has
        self._tallies = tallies
        self._counts = counts

    def measure_many(self, questions: Any, *, shares: Any = (), **_: Any) -> tuple[Measurement, ...]:
        return tuple(self._measured(question, units) for question, units in zip(questions, shares, strict=True))

    def _measured(self, question: MeasuredQuestion, units: int) -> Measurement:
        accountant, relation = self.budget.accountant, self.relation
        if question.key not in self._tallies:
            self._tallies[question.key] = tallied(Counts(question.schema, self._counts), question)
        event: DiscreteGaussian | DiscreteLaplace
        if self.budget.accounting == "pure":
            scale = accountant.laplace_scale(units, Fraction(relation.l1(question)))
            event, drawn = DiscreteLaplace(scale, Fraction(1)), self._source.laplace(scale, question.cells)
        else:
            variance = accountant.gaussian_variance(units, Fraction(relation.l2_squared(question)))
            event, drawn = DiscreteGaussian(variance, Fraction(1)), self._source.gaussian(variance, question.cells)
        values = (self._tallies[question.key] + drawn.reshape(question.shape)) / question.grid
        return Measurement(question, values, event, FREE)


@contextmanager
def swift_sessions(keeper: mq.Curator, counts: Integers) -> Iterator[Callable[..., mq.Session]]:
    """Opens sessions from seeds, many a second: one curator behind all, and views computed once.

    `counts` is the table itself, by the cells of the universe.
    """
    tallies: dict[str, Integers] = {}

    pricing, read, texts = Pricing(keeper), Question.of, dict[object, Question]()

    def remembered(schema: Schema, asked: Any, context: Any = None) -> Question:
        key = schema, asked, context and context.key
        if key not in texts:
            texts[key] = read(schema, asked, context)
        return texts[key]

    def open_session(seed: int, **settings: Any) -> mq.Session:
        with mock.patch.object(opening, "Pricing", return_value=pricing):
            return mq.online(SwiftCurator(keeper, SeededNoise(seed), tallies, counts), **settings)

    with (
        mock.patch.object(Question, "of", remembered),
        mock.patch.object(Goal, "view", functools.cache(Goal.view)),
        mock.patch.object(ProductView, "component", functools.cache(ProductView.component)),
        mock.patch.object(transcript, "residual", functools.cache(transcript.residual)),
    ):
        yield open_session


def curator_of(
    schema: Schema, rows: Mapping[str, Any], budget: mq.Budget, noise: Any = None, **settings: Any
) -> mq.Curator:
    return mq.Curator(mq.open_table(rows, schema), budget, noise=noise, **settings)


def cells_of(schema: Schema, columns: tuple[str, ...], chosen: NDArray[np.bool_]) -> LinearQuery:
    """The question about any cells of some columns, one term for each."""
    terms = [
        Term(1.0, {schema.position(n): np.eye(schema[n].size)[i] for n, i in zip(columns, cell, strict=True)})
        for cell in np.argwhere(chosen)
    ]
    return LinearQuery(schema, terms or [Term(0.0, {})])


def counts_of(schema: Schema, rows: Mapping[str, Any]) -> Integers:
    """The table by the cells of the universe."""
    counts = np.zeros(schema.shape(schema.names), dtype=np.int64)
    np.add.at(counts, tuple(schema[name].encode(rows[name]) for name in schema.names), 1)
    return counts


class Truth:
    """Exact answers, from the weights of every point of the universe."""

    def __init__(self, schema: Schema, counts: Integers) -> None:
        self.schema = schema
        self.counts = counts.reshape(-1)
        self._known: dict[Any, Values] = {}

    def of(self, asked: str | LinearQuery) -> Values:
        """All numbers of an answer, groups first, then the outputs of each; NaN where an average has no rows.

        Groups are those that the condition allows, which `tests/sql/test_possible_groups.py` tests.
        """
        if asked not in self._known:
            parsed = question(self.schema, asked)
            assert not isinstance(parsed, Program), "a truth without post-processing"
            self._known[asked] = self._statement(parsed) if isinstance(parsed, Statement) else self._fraction(parsed)
        return self._known[asked]

    def _fraction(self, query: LinearQuery) -> Values:
        return np.array([query.weights(self.schema.names).reshape(-1) @ self.counts / self.counts.sum()])

    def _statement(self, statement: Statement) -> Values:
        columns = []
        for output in statement.outputs:
            if output.measure is None:
                continue
            measured, *below = (self._total(goal) for goal in goals_of(output))
            value = output.measure.scale * measured
            if below:
                with np.errstate(invalid="ignore"):
                    value = output.measure.centre + value / below[0]
            columns.append(value.reshape(-1)[statement.shown.reshape(-1)])
        return np.stack(columns, axis=-1).reshape(-1)

    def _total(self, goal: Goal) -> Values:
        cells = np.array(
            [query.weights(self.schema.names).reshape(-1) @ self.counts for _, query in goal.marginal.queries()]
        ).reshape(goal.marginal.shape)
        return np.asarray(cells[..., 1] - cells[..., 0] if goal.signed else cells)


def numbers(answer: mq.Answered) -> list[mq.Answer]:
    """Every number of an answer, in the order of `Truth.of`."""
    return list(answer.numbers)
