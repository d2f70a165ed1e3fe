"""Residuals: exact without noise, unbiased with the variance of generalised least squares, and split at least error."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from release_checks import BINARY, SCHEMA, Seeded, counts, open_records, records, table_of

import maquette as mq
from gate_tools import exact_by_records
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Measurement
from maquette.errors import QueryError
from maquette.estimates.residuals import Residuals, subsets
from maquette.estimates.shares import Allocation
from maquette.privacy import UNITS_PER_ONE, DiscreteGaussian, DiscreteLaplace, Loss
from maquette.query import Contrasts, Marginal, residual
from maquette.schema import Schema

FREE = Loss(epsilon=0.0, delta=0.0, rho=0.0, units=0, currency="zcdp")
ONE_LEVEL = Schema([mq.Category("only", ["a"]), mq.Boolean("b"), mq.Category("c", ["x", "y", "z"])])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])


def measured(question: Marginal | Contrasts, truth: np.ndarray, variance: float = 1.0) -> Measurement:
    return Measurement(question, truth.astype(np.float64), DiscreteGaussian(Fraction(variance), Fraction(1)), FREE)


def questions_of(schema: Schema, columns: tuple[str, ...]) -> list[Marginal | Contrasts]:
    """A marginal, as the residuals of all its subsets."""
    varied = tuple(name for name in columns if schema[name].size > 1)
    return [residual(schema, part) if part else Marginal(schema) for part in subsets(varied)]


@pytest.mark.thorough
@given(schema=schemas(), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=60)
def test_without_noise_the_counts_come_back(schema: Schema, seed: int, data: st.DataObject) -> None:
    rows = records(schema, 50, seed)
    columns = tuple(data.draw(st.lists(st.sampled_from(schema.names), unique=True, min_size=1)))
    asked: list[Marginal | Contrasts] = [Marginal(schema, columns), *questions_of(schema, columns)]
    chosen = data.draw(st.sampled_from([asked, asked[:1], asked[1:]]))
    with mq.Curator(open_records(schema, rows), mq.Budget(rho=9.0, delta=1e-9), noise=ScriptedNoise([0] * 9999)) as c:
        measurements = c.measure_many(chosen, rho=1.0)
    residuals = Residuals(schema)
    for measurement in measurements:
        residuals.add(measurement)
    ordered = tuple(sorted(columns, key=schema.position))
    found, _ = residuals.marginal(ordered)
    assert residuals.covers(columns)
    assert np.allclose(found, counts(schema, rows, ordered), atol=1e-8)
    assert residuals.rows == pytest.approx(50)


@pytest.mark.parametrize(
    "columns", [[("smoker", "region")], [("smoker", "region"), ("region", "age"), ("age",)], [("age", "smoker")] * 3]
)
def test_estimates_and_variances_are_those_of_generalised_least_squares(columns: list[tuple[str, ...]]) -> None:
    """Repeats and overlaps included: the dense computation inverts the whole Gram matrix of what was measured."""
    rng = np.random.default_rng(5)
    rows = records(SCHEMA, 300)
    full = counts(SCHEMA, rows, SCHEMA.names).reshape(-1)
    residuals, designs, values, weights = Residuals(SCHEMA), [], [], []
    for i, names in enumerate(columns):
        question = residual(SCHEMA, names) if i == 2 and len(columns) > 1 else Marginal(SCHEMA, names)
        design = _design(question)
        variance = float((1 + 2 * i) * (design**2).max())
        noisy = design @ full + rng.normal(0, math.sqrt(variance), len(design))
        residuals.add(measured(question, noisy.reshape(question.shape), variance))
        designs.append(design)
        values.append(noisy)
        weights.append(np.full(len(design), 1 / variance))
    stacked, precision = np.vstack(designs), np.concatenate(weights)
    inverse = np.linalg.pinv(stacked.T @ (precision[:, None] * stacked), rcond=1e-10)
    best = inverse @ stacked.T @ (precision * np.concatenate(values))
    for names in {part for table in columns for part in subsets(_ordered(table))}:
        over = _design(Marginal(SCHEMA, names))
        found, variances = residuals.marginal(names)
        assert np.allclose(found.reshape(-1), over @ best, atol=1e-6)
        assert np.allclose(variances.reshape(-1), np.diag(over @ inverse @ over.T), atol=1e-8)
        query = np.random.default_rng(1).random(SCHEMA.shape(names))
        estimate = residuals.estimate(query, names)
        assert estimate.total == pytest.approx(float(query.reshape(-1) @ over @ best))
        assert estimate.deviation**2 == pytest.approx(float(query.reshape(-1) @ over @ inverse @ over.T @ query.flat))


def test_a_set_that_was_not_measured_is_not_covered() -> None:
    residuals = Residuals(SCHEMA)
    residuals.add(measured(residual(SCHEMA, ("smoker", "region")), np.zeros((1, 2))))
    assert not residuals.covers(("smoker", "region"))
    residuals.add(measured(Marginal(SCHEMA, ("region", "smoker")), np.ones((3, 2))))
    assert residuals.covers(("smoker", "region"))
    assert not residuals.covers(("age",))
    assert residuals.rows == pytest.approx(6)
    assert Residuals(SCHEMA).rows == 1.0


def test_other_contrasts_are_refused() -> None:
    with pytest.raises(QueryError, match="residual"):
        Residuals(SCHEMA).add(measured(Contrasts(Marginal(SCHEMA, ["region"]), [np.eye(3, dtype=int)]), np.zeros(3)))


def test_columns_of_one_level_say_nothing_and_cost_nothing() -> None:
    allocation = Allocation(ONE_LEVEL, [("only", "b", "c"), ("only",)])
    assert allocation.sets == [(), ("b",), ("c",), ("b", "c")]
    residuals = Residuals(ONE_LEVEL)
    residuals.add(measured(Marginal(ONE_LEVEL, ("only", "c")), np.array([[3.0, 2.0, 1.0]])))
    assert residuals.covers(("only",))
    found, _ = residuals.marginal(("only", "c"))
    assert np.allclose(found, [[3.0, 2.0, 1.0]])


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2), (7,), (4, 3, 5)])
def test_residual_contrasts_are_orthogonal_and_blind_to_every_subset(sizes: tuple[int, ...]) -> None:
    schema = Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])
    contrasts = residual(schema, schema.names)
    matrix = _design(contrasts)
    gram = matrix @ matrix.T
    assert np.array_equal(gram, np.diag(np.diag(gram)))
    assert contrasts.cells == math.prod(size - 1 for size in sizes)
    cells = np.zeros(sizes)
    for part in subsets(schema.names):
        if part != schema.names:
            smaller = np.random.default_rng(len(part)).integers(0, 99, schema.shape(part))
            cells = cells + smaller.reshape([schema[name].size if name in part else 1 for name in schema.names])
    assert not contrasts.combine(cells.astype(np.int64)).any()


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("schema", [BINARY, SCHEMA], ids=["binary", "mixed"])
def test_shares_are_a_split_that_no_small_change_improves(schema: Schema, linear: bool) -> None:
    tables = list(itertools.combinations(schema.names, 2))
    allocation = Allocation(schema, tables, linear=linear)
    assert allocation.shares.sum() == pytest.approx(1)
    least = allocation.spreads(allocation.shares).sum()
    equal = allocation.spreads(np.full(len(allocation.sets), 1 / len(allocation.sets))).sum()
    assert least < 0.99 * equal
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = allocation.shares * np.exp(rng.normal(0, 0.2, len(allocation.sets)))
        assert allocation.spreads(other / other.sum()).sum() >= least * (1 - 1e-6)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", ["pure", "zcdp", "gdp"])
@pytest.mark.parametrize("schema", [BINARY, SCHEMA], ids=["binary", "mixed"])
def test_expected_error_is_the_error_that_happens(schema: Schema, currency: str) -> None:
    """Mean over 40 releases of the total variation of every table, before any fit; the spread of that mean is 2%."""
    rows = records(schema, 500)
    tables = list(itertools.combinations(schema.names, 2))
    allocation = Allocation(schema, tables, linear=currency == "pure")
    settings = {"epsilon": 2.0} if currency == "pure" else {"rho": 0.5, "delta": 1e-9, "accounting": currency}
    budget, noise = mq.Budget(**settings), Seeded(3)
    truth = {names: counts(schema, rows, names) for names in tables}
    questions = [residual(schema, part) if part else Marginal(schema) for part in allocation.sets]
    errors = []
    for _ in range(40):
        with mq.Curator(table_of(schema, 500), budget, noise=noise) as curator:
            price = {"epsilon": 2.0} if currency == "pure" else {"rho": 0.5}
            residuals = Residuals(schema)
            for measurement in curator.measure_many(questions, shares=list(allocation.shares), **price):  # type: ignore[arg-type]
                residuals.add(measurement)
        errors += [np.abs(residuals.marginal(names)[0] - truth[names]).sum() / 2 / 500 for names in tables]
    expected = allocation.expected_error(currency, budget.limit / UNITS_PER_ONE, 500)
    assert np.mean(errors) == pytest.approx(expected, rel=0.12)


def test_laplace_marginals_are_not_taken_for_independent_coefficients() -> None:
    """One cell of one Laplace marginal is one noise value: its interval must not shrink as if it were a sum of many."""
    event = DiscreteLaplace(Fraction(10), Fraction(1))
    residuals = Residuals(BINARY)
    residuals.add(Measurement(Marginal(BINARY, BINARY.names), np.zeros((2,) * 5), event, FREE))
    cell = np.zeros((2,) * 5)
    cell[0, 0, 0, 0, 0] = 1.0
    width = residuals.estimate(cell, BINARY.names).half_width(1 - 1e-6)
    assert width >= 10 * math.log(1e6) - 1


def _ordered(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(names, key=SCHEMA.position))


def _design(question: Marginal | Contrasts) -> np.ndarray:
    """The question as a matrix over all cells of the universe."""
    schema = question.schema
    universe = np.stack(np.unravel_index(np.arange(schema.size), schema.shape(schema.names)), axis=1)
    return np.stack([exact_by_records(question, universe[i : i + 1]).reshape(-1) for i in range(schema.size)], axis=1)
