"""Estimation against mirror descent in mbi: another algorithm for the same measurements, and the same least squares."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from test_estimation import PAIRS, ROWS, SCHEMA, fitted, measured

from maquette.estimates.residuals import Columns, Residuals, forward
from maquette.query import orthonormal

NAMES = tuple(SCHEMA.names)
CYCLE: list[Columns] = [*PAIRS, ("a", "c")]
STEPS = 3000
RELATIVE, ABSOLUTE = 1e-4, 1e-3  # of half the sum of squared residuals over their variances


def objective(residuals: Residuals, cells: np.ndarray) -> float:
    """Half the sum of squared residuals over their variances, of a distribution written out in full."""
    total = 0.0
    for columns, values, variances in residuals:
        gone = tuple(i for i, name in enumerate(NAMES) if name not in columns)
        if columns:
            found = forward(cells.sum(axis=gone) * ROWS)[(slice(1, None),) * len(columns)]
            total += float(((found - values) ** 2 / variances).sum()) / 2
    return total


def descended(mbi: Any, residuals: Residuals) -> np.ndarray:
    """The distribution that mirror descent finds."""
    measurements = []
    for columns, values, variances in residuals:
        if columns:
            parts: list[Any] = [orthonormal(size)[1:] for size in SCHEMA.shape(columns)]
            contrasts = functools.reduce(np.kron, parts)
            deviation = float(np.sqrt(variances.reshape(-1)[0]))
            query = functools.partial(_combined, contrasts)
            measurements.append(mbi.LinearMeasurement(values.reshape(-1), columns, deviation, query=query))
    domain = mbi.Domain(NAMES, SCHEMA.shape(NAMES))
    model = mbi.estimation.MirrorDescent().estimate(domain, measurements, known_total=ROWS, iters=STEPS)
    return np.asarray(model.project(NAMES).datavector(flatten=False)) / ROWS


def _combined(contrasts: np.ndarray, table: Any) -> Any:
    return contrasts @ table.datavector()


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "tables"), [(1, PAIRS), (2, CYCLE), (3, CYCLE)])
def test_an_independent_library_comes_to_the_same_objective(seed: int, tables: list[Columns]) -> None:
    """With so much noise that no distribution meets what was measured, and next to no penalty."""
    mbi = pytest.importorskip("mbi", reason="mbi, the independent oracle of estimation, is not installed")
    import jax

    residuals, _ = measured(seed, 60.0, tables)
    with jax.enable_x64(True):
        theirs = descended(mbi, residuals)
    ours = fitted(residuals, steps=2000).model.marginal(NAMES)
    least = objective(residuals, theirs)
    assert least > 0.1, "the measurements can be met: there is nothing to compare"
    assert objective(residuals, ours) == pytest.approx(least, rel=RELATIVE, abs=ABSOLUTE)
    for table in tables:
        gone = tuple(i for i, name in enumerate(NAMES) if name not in table)
        np.testing.assert_allclose(ours.sum(axis=gone), theirs.sum(axis=gone), atol=2e-3)
