"""The fit: a distribution that reaches what was measured, whatever the labels, and breaks on nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from release_checks import BINARY, SCHEMA, counts, records

import maquette as mq
from maquette.estimates.dense_fit import Fitted, _Descent, fit
from maquette.estimates.residuals import Residuals, forward, subsets
from maquette.schema import Schema

Table = np.ndarray


def evidence(schema: Schema, tables: dict[tuple[str, ...], Table], variance: float) -> Residuals:
    """Residuals of marginals with so much noise in every cell."""
    residuals = Residuals(schema)
    for columns, values in tables.items():
        coefficients = forward(np.asarray(values, dtype=np.float64))
        for part in subsets(columns):
            lift = math.prod(schema[name].size for name in columns if name not in part)
            block = coefficients[tuple(slice(1, None) if name in part else 0 for name in columns)] * math.sqrt(lift)
            residuals.combine(part, block, np.full(block.shape, variance * lift))
    return residuals


def two_way(schema: Schema, rows: np.ndarray, smooth: float = 0.0) -> dict[tuple[str, ...], Table]:
    pairs = itertools.combinations(schema.names, 2)
    return {names: counts(schema, rows, names) + smooth for names in pairs}


def marginal(schema: Schema, fitted: Fitted, columns: Sequence[str]) -> Table:
    gone = tuple(i for i, name in enumerate(schema.names) if name not in columns)
    return np.asarray(fitted.probabilities.sum(axis=gone))


def is_distribution(fitted: Fitted) -> bool:
    cells = fitted.probabilities
    return bool(np.isfinite(cells).all() and cells.min() >= 0 and abs(cells.sum() - 1) < 1e-9)


@pytest.mark.parametrize("schema", [BINARY, SCHEMA], ids=["binary", "mixed"])
@pytest.mark.parametrize("variance", [1.0, 1e-4])
def test_without_noise_the_fit_reaches_every_table(schema: Schema, variance: float) -> None:
    """Smoothed so that every cell is positive: then a distribution with exactly these marginals exists."""
    tables: dict[tuple[str, ...], Table] = {}
    cells = counts(schema, records(schema, 2000), schema.names) + 5.0
    for names in itertools.combinations(schema.names, 2):
        tables[names] = cells.sum(axis=tuple(i for i, n in enumerate(schema.names) if n not in names))
    fitted = fit(evidence(schema, tables, variance), steps=600)
    assert is_distribution(fitted)
    for columns, table in tables.items():
        assert np.abs(marginal(schema, fitted, columns) - table / cells.sum()).max() < 1e-3
    assert fitted.residual < 1.0


def test_a_target_stops_the_fit_at_the_noise() -> None:
    residuals = evidence(SCHEMA, two_way(SCHEMA, records(SCHEMA, 2000)), 25.0)
    early = fit(residuals, steps=600, target=1.0)
    late = fit(residuals, steps=600)
    assert early.residual <= 1.0
    assert early.steps < late.steps
    assert late.residual < early.residual


def test_the_fit_is_deterministic_and_restarts_where_it_stood() -> None:
    residuals = evidence(SCHEMA, two_way(SCHEMA, records(SCHEMA, 500)), 4.0)
    first, second = fit(residuals, steps=80), fit(residuals, steps=80)
    assert first.probabilities.tobytes() == second.probabilities.tobytes()
    again = fit(residuals, start=first.log_weights, steps=0)
    assert np.allclose(again.probabilities, first.probabilities, rtol=1e-9, atol=1e-15)


def test_tiny_noise_is_reached_through_the_entropy_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strong dependence and noise of a thousandth of a row: descent alone is not there after 150 steps."""
    called = []
    original = _Descent.entropy_fit

    def spy(self: _Descent, start: Table) -> Table:
        called.append(True)
        return original(self, start)

    monkeypatch.setattr(_Descent, "entropy_fit", spy)
    rows = records(BINARY, 100_000)
    residuals = evidence(BINARY, two_way(BINARY, rows, 1e-3), 1e-6)
    fitted = fit(residuals, steps=150)
    assert called
    assert is_distribution(fitted)
    for names, table in two_way(BINARY, rows).items():
        assert np.abs(marginal(BINARY, fitted, names) - table / 100_000).max() < 1e-4


@given(seed=st.integers(0, 50), data=st.data())
@settings(max_examples=10)
def test_relabelling_levels_and_permuting_columns_permutes_the_fit(seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    tables = {n: t + rng.normal(0, 3, t.shape) for n, t in two_way(SCHEMA, records(SCHEMA, 1000, seed)).items()}
    order = data.draw(st.permutations(SCHEMA.names))
    levels = {name: rng.permutation(SCHEMA[name].size) for name in SCHEMA.names}
    moved = Schema([mq.Integer(name, 0, SCHEMA[name].size - 1) for name in order])
    other = {}
    for names, table in tables.items():
        mixed = table[np.ix_(*(levels[name] for name in names))]
        axes = tuple(sorted(names, key=moved.position))
        other[axes] = np.transpose(mixed, [names.index(name) for name in axes])
    first, second = fit(evidence(SCHEMA, tables, 9.0), steps=600), fit(evidence(moved, other, 9.0), steps=600)
    back = np.transpose(second.probabilities, [order.index(name) for name in SCHEMA.names])
    assert second.residual == pytest.approx(first.residual, rel=1e-3)
    expected = first.probabilities[np.ix_(*(levels[name] for name in SCHEMA.names))]
    assert 0.5 * np.abs(back - expected).sum() < 0.01


EXTREMES: dict[str, tuple[dict[tuple[str, ...], Table], float]] = {
    "all negative": ({("smoker", "age"): np.full((2, 4), -50.0)}, 4.0),
    "no rows": ({("smoker", "age"): np.zeros((2, 4))}, 1.0),
    "one cell holds all": ({("smoker", "age"): np.eye(2, 4)[:1] * 1e9 * np.ones((2, 1)) * [[1], [0]]}, 1e-6),
    "huge noise": ({("region",): np.array([1e12, -1e12, 3.0])}, 1e24),
    "tiny noise, impossible values": ({("smoker",): np.array([100.0, -300.0]), ("region",): np.ones(3)}, 1e-9),
    "contradiction": ({("smoker",): np.array([5.0, 5.0]), ("smoker", "age"): np.full((2, 4), 1e6)}, 1e-3),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("steps", [3, 200])
def test_extreme_measurements_still_give_a_distribution(name: str, steps: int) -> None:
    tables, variance = EXTREMES[name]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        fitted = fit(evidence(SCHEMA, tables, variance), steps=steps)
    assert is_distribution(fitted)
    assert np.isfinite(fitted.log_weights).all()
    assert math.isfinite(fitted.residual)


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (2,), (40,), (1, 3)])
def test_one_column_and_one_cell(sizes: tuple[int, ...]) -> None:
    schema = Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])
    target = np.arange(1.0, math.prod(sizes) + 1).reshape(sizes)
    fitted = fit(evidence(schema, {schema.names: 100 * target}, 1e-3), steps=600)
    assert fitted.probabilities.shape == sizes
    assert np.abs(fitted.probabilities - target / target.sum()).max() < 1e-4


def test_nothing_measured_is_uniform() -> None:
    fitted = fit(Residuals(SCHEMA), steps=5)
    assert np.allclose(fitted.probabilities, 1 / SCHEMA.size)
