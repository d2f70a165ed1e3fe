"""Estimation: the convex fit against brute force over small universes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maquette as mq
from maquette.estimates import graphical_fit
from maquette.estimates.graphical_fit import Counted, Estimated, estimates
from maquette.estimates.residuals import Columns, Residuals, backward, forward, subsets
from maquette.hypothesis.graphical import GraphicalModel

SCHEMA = mq.Schema([mq.Integer("a", 0, 2), mq.Boolean("b"), mq.Integer("c", 0, 3)])
ROWS = 1000.0
PAIRS: list[Columns] = [("a", "b"), ("b", "c")]


def measured(seed: int, deviation: float, tables: list[Columns] = PAIRS) -> tuple[Residuals, np.ndarray]:
    """Noisy residuals of a random distribution, and the distribution."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(24, 0.5)).reshape(3, 2, 4)
    residuals = Residuals(SCHEMA)
    for part in sorted({part for table in tables for part in subsets(table)}):
        cells = marginal(truth, part) * ROWS
        block = forward(cells)[(slice(1, None),) * len(part)]
        noise = rng.normal(0, deviation, block.shape) if part else 0.0
        residuals.combine(part, np.asarray(block + noise), np.full(block.shape, deviation**2))
    return residuals, truth


def marginal(cells: np.ndarray, columns: Columns) -> np.ndarray:
    gone = tuple(i for i, name in enumerate(SCHEMA.names) if name not in columns)
    return np.asarray(cells.sum(axis=gone))


def fitted(residuals: Residuals, *, target: float = 0.0, start: Estimated | None = None, steps: int = 300) -> Estimated:
    cliques = [columns for columns, _, _ in residuals.stored() if columns]
    return list(estimates(GraphicalModel(SCHEMA, cliques), residuals, target=target, start=start, steps=steps))[-1]


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_the_penalised_optimum_over_the_whole_universe(seed: int) -> None:
    """By enumeration: the member of the family with these parameters, and a gradient of zero; the problem is convex."""
    residuals, _ = measured(seed, 20.0)
    cliques = [columns for columns, _, _ in residuals.stored() if columns]
    found = list(itertools.islice(estimates(GraphicalModel(SCHEMA, cliques), residuals, steps=2000), 2))[-1]
    logs = np.zeros((3, 2, 4))
    for columns, values, _ in residuals:
        if len(columns) == 1:
            counts, variances = residuals.marginal(columns)
            logs += spread(np.log(np.maximum(counts, np.sqrt(variances) / 2)), columns)
        if columns:
            coefficients = np.zeros(SCHEMA.shape(columns))
            coefficients[(slice(1, None),) * len(columns)] = found.parameters[columns].reshape(values.shape)
            logs += spread(backward(coefficients), columns)
    cells = np.exp(logs - logs.max())
    cells /= cells.sum()
    np.testing.assert_allclose(found.model.marginal(SCHEMA.names), cells, atol=1e-10)
    for columns, values, variances in residuals:
        if columns:
            means = forward(marginal(cells, columns))[(slice(1, None),) * len(columns)]
            ridge = found.penalty / ROWS * variances * found.parameters[columns].reshape(values.shape)
            np.testing.assert_allclose(means + ridge, values / ROWS, atol=1e-6)


def spread(table: np.ndarray, columns: Columns) -> np.ndarray:
    """A table with axes of length one for the other columns."""
    return table.reshape([SCHEMA[name].size if name in columns else 1 for name in SCHEMA.names])


def test_exact_measurements_are_met() -> None:
    residuals, truth = measured(0, 1e-3)
    found = fitted(residuals, target=1.0)
    for table in PAIRS:
        np.testing.assert_allclose(found.model.marginal(table), marginal(truth, table), atol=1e-3)


def test_the_fit_stops_at_noise_level_and_not_before() -> None:
    residuals, _ = measured(1, 30.0)
    fits = list(estimates(GraphicalModel(SCHEMA, [*PAIRS, ("a",), ("b",), ("c",)]), residuals, target=0.6))
    assert fits[-1].residual <= 0.6
    assert all(fit.residual > 0.6 for fit in fits[:-1])


def test_a_fit_with_few_gradients_ends_early_and_is_a_model_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    residuals, _ = measured(0, 1.0)
    cliques = [columns for columns, _, _ in residuals.stored() if columns]
    taken: list[None] = []
    means = graphical_fit._Problem._means
    monkeypatch.setattr(graphical_fit._Problem, "_means", lambda *given: (taken.append(None), means(*given))[1])
    found = list(estimates(GraphicalModel(SCHEMA, cliques), residuals, target=0.0, gradients=7))
    few = len(taken)
    assert few < 7 + 25  # a line search is not cut short, and each fit is looked at once
    assert found[-1].model.marginal(SCHEMA.names).sum() == pytest.approx(1.0)
    list(estimates(GraphicalModel(SCHEMA, cliques), residuals, target=0.0))
    assert len(taken) - few > 2 * few


def test_every_fit_on_the_way_is_a_model_and_the_last_is_the_closest() -> None:
    residuals, _ = measured(2, 5.0)
    fits = list(estimates(GraphicalModel(SCHEMA, [*PAIRS, ("a",), ("b",), ("c",)]), residuals))
    assert len(fits) > 1
    assert all(fit.model.marginal(SCHEMA.names).sum() == pytest.approx(1) for fit in fits)
    assert all(after.residual < before.residual for before, after in itertools.pairwise(fits))


def test_a_warm_start_with_one_more_table_arrives_at_the_same_fit() -> None:
    residuals, _ = measured(3, 20.0)
    more, _ = measured(3, 20.0, [*PAIRS, ("a", "c")])
    first = fitted(residuals, target=0.6)
    warm, cold = fitted(more, target=0.9, start=first), fitted(more, target=0.9)
    np.testing.assert_allclose(warm.model.marginal(SCHEMA.names), cold.model.marginal(SCHEMA.names), atol=0.05)
    assert max(warm.residual, cold.residual) <= 0.9


def test_overlapping_measurements_combine_by_inverse_variance() -> None:
    """A vague count of a column beside precise residuals moves the fit little, a precise one beside vague much."""
    residuals, truth = measured(4, 20.0)
    cliques = [columns for columns, _, _ in residuals.stored() if columns]
    wrong = np.array([ROWS, 0.0, 0.0])
    for deviation, near in ((2000.0, marginal(truth, ("a",))), (0.5, wrong / ROWS)):
        extra = [Counted("a", wrong, np.full(3, deviation**2))]
        last = list(estimates(GraphicalModel(SCHEMA, cliques), residuals, counted=extra))[-1]
        np.testing.assert_allclose(last.model.marginal(("a",)), near, atol=0.06)


@pytest.mark.thorough
def test_thousands_of_tables_are_fitted() -> None:
    """Pairs of neighbours among 400 yes/no columns, each measured twice."""
    schema = mq.Schema([mq.Boolean(f"b{i}") for i in range(400)])
    rng = np.random.default_rng(0)
    residuals = Residuals(schema)
    residuals.combine((), np.array(ROWS), np.array(1.0))
    names = schema.names
    sets: list[Columns] = [(name,) for name in names]
    sets += [(names[i], names[i + step]) for i in range(400) for step in (1, 2, 3) if i + step < 400]
    for columns in sets * 2:
        shape = (1,) * len(columns)
        residuals.combine(columns, rng.normal(0, 50, shape), np.full(shape, 25.0))
    fits = list(estimates(GraphicalModel(schema, sets), residuals, target=1.0))
    assert len(sets) > 1500
    assert fits[-1].residual <= 1.0


def test_nothing_measured_is_the_uniform_model() -> None:
    residuals = Residuals(SCHEMA)
    (only,) = estimates(GraphicalModel(SCHEMA, []), residuals)
    np.testing.assert_allclose(only.model.marginal(("a",)), 1 / 3)
