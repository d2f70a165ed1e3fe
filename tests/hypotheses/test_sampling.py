"""Low-variance rounding: counts are rounded shares, and small samples keep the marginals."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from maquette.hypothesis import kernels
from maquette.hypothesis.kernels import Cells, Grid
from maquette.hypothesis.sampling import sample_cells, snake, systematic
from maquette.schema import Integer, Schema


def universe(*sizes: int) -> Schema:
    return Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])


def mixture(schema: Schema, rng: np.random.Generator) -> np.ndarray:
    """Correlated columns: a mixture of three products."""
    total = np.zeros(schema.shape(schema.names))
    for _ in range(3):
        product = np.ones(())
        for column in schema:
            product = np.multiply.outer(product, rng.dirichlet(np.full(column.size, 0.7)))
        total += product / 3
    return total


def counted(schema: Schema, records: np.ndarray) -> np.ndarray:
    counts = np.zeros(schema.shape(schema.names))
    np.add.at(counts, tuple(records.T), 1)
    return counts


@pytest.mark.parametrize("sizes", [(7,), (3, 5, 4), (2,) * 13, (2000, 3)])
@pytest.mark.parametrize("rows", [1, 17, 1000, 40_000])
def test_every_cell_is_taken_as_often_as_its_share_rounded_down_or_up(sizes: tuple[int, ...], rows: int) -> None:
    schema, rng = universe(*sizes), np.random.default_rng(0)
    masses = rng.dirichlet(np.full(schema.size, 0.3)).reshape(schema.shape(schema.names))
    masses.reshape(-1)[:: max(2, schema.size // 50)] = 0.0
    masses /= masses.sum()
    counts = counted(schema, sample_cells(Cells.of(Grid(schema), masses), rows, rng))
    assert counts.sum() == rows
    assert (np.floor(rows * masses - 1e-6) <= counts).all()
    assert (counts <= np.ceil(rows * masses + 1e-6)).all()


def test_shares_are_right_on_average() -> None:
    rng, masses = np.random.default_rng(1), np.array([0.1, 0.02, 0.5, 0.0, 0.38])
    draws = 20_000
    total = sum(np.bincount(systematic(masses, 3, rng), minlength=5) for _ in range(draws))
    deviation = np.sqrt(draws * 0.25)
    assert np.abs(total - 3 * draws * masses).max() < 6 * deviation


def test_small_samples_keep_one_and_two_way_marginals_far_better_than_independent_draws() -> None:
    schema, rng, rows = universe(4, 3, 2, 2, 3, 2, 2, 4, 2, 2), np.random.default_rng(2), 1000
    masses = mixture(schema, rng)
    cells = Cells.of(Grid(schema), masses)

    def error(counts: np.ndarray) -> float:
        gone = [tuple(set(range(10)) - set(pair)) for pair in combinations(range(10), 2)]
        return float(np.mean([np.abs((counts / rows - masses).sum(axis=axes)).sum() for axes in gone]))

    ours = np.mean([error(counted(schema, sample_cells(cells, rows, rng))) for _ in range(8)])
    drawn = [rng.multinomial(rows, masses.reshape(-1)).reshape(masses.shape) for _ in range(8)]
    assert ours < 0.6 * np.mean([error(counts) for counts in drawn])


def test_the_beginning_of_a_sample_is_a_sample() -> None:
    schema = universe(2, 500)
    cells = Cells(Grid(schema))
    records = sample_cells(cells, 10_000, np.random.default_rng(3))
    assert abs(records[:1000, 0].mean() - 0.5) < 0.1


def test_the_snake_visits_every_cell_and_changes_one_column_by_one_level_at_a_time() -> None:
    sizes = (3, 4, 2, 5)
    records = np.indices(sizes).reshape(4, -1).T
    walked = records[snake(records, sizes)]
    assert len(np.unique(walked, axis=0)) == math.prod(sizes)
    assert (np.abs(np.diff(walked, axis=0)).sum(axis=1) == 1).all()


def test_runs_are_walked_as_one_snake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_RUN", 8)
    sizes = (5, 3, 3)
    cells = Cells(Grid(universe(*sizes)))
    assert cells.grid.shape == (5, 9)
    records = sample_cells(cells, 15, np.random.default_rng(5))
    every = np.indices(sizes).reshape(3, -1).T
    places = np.flatnonzero((every[snake(every, sizes)][:, None] == records).all(axis=2).any(axis=1))
    assert (np.diff(places) == 3).all()


@pytest.mark.thorough
def test_a_million_rows_from_four_million_cells() -> None:
    schema, rng = universe(*(2,) * 22), np.random.default_rng(4)
    cells = Cells(Grid(schema))
    records = sample_cells(cells, 1_000_000, rng)
    assert records.shape == (1_000_000, 22)
    assert np.abs(records.mean(axis=0) - 0.5).max() < 0.002
