"""Refined records: their tables are closer to the model's, and nothing impossible appears."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis_checks import random_mixture

from maquette.hypothesis import GraphicalModel, Mixture, refined, refining
from maquette.schema import Boolean, Integer, Schema

SIZES = (4, 3, 6, 2, 5, 3, 7, 2)
WIDE = Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate(SIZES)])


def tables(model: Mixture | GraphicalModel, records: np.ndarray, k: int) -> list[np.ndarray]:
    """For every set of k columns, the counts minus the expected ones."""
    found = []
    for columns in combinations(range(len(model.schema)), k):
        names = [model.schema.names[i] for i in columns]
        counts = np.zeros(model.schema.shape(names))
        np.add.at(counts, tuple(records[:, list(columns)].T), 1)
        found.append(counts - len(records) * model.marginal(names))
    return found


def squares(errors: list[np.ndarray]) -> float:
    return float(sum((each**2).sum() for each in errors))


def distance(errors: list[np.ndarray], rows: int) -> float:
    return float(np.mean([np.abs(each).sum() for each in errors])) / (2 * rows)


@pytest.fixture(scope="module")
def model() -> Mixture:
    return random_mixture(WIDE, [(name,) for name in WIDE.names], components=20)


def test_refined_records_are_at_most_half_as_far_in_pairs_and_two_thirds_in_triples(model: Mixture) -> None:
    rows, rng = 3000, np.random.default_rng(0)
    drawn = model.draw(rows, rng)
    after = refined(model, drawn)
    assert after.dtype == np.int32
    assert after.shape == drawn.shape
    assert distance(tables(model, after, 2), rows) < 0.5 * distance(tables(model, drawn, 2), rows)
    assert distance(tables(model, after, 3), rows) < 0.67 * distance(tables(model, drawn, 3), rows)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("seed", range(5))
def test_no_move_increases_the_sum_of_squared_errors(seed: int, model: Mixture) -> None:
    rng = np.random.default_rng(seed)
    records = rng.integers(0, SIZES, (200, len(SIZES))).astype(np.int32)
    before = squares(tables(model, records, 2)) + squares(tables(model, records, 3))
    for _ in range(3):
        records = refined(model, records)
        after = squares(tables(model, records, 2)) + squares(tables(model, records, 3))
        assert after <= before
        before = after


def test_records_are_drawn_and_refined_by_sample(model: Mixture) -> None:
    drawn = model.draw(500, np.random.default_rng(3))
    assert np.array_equal(model.sample(500, np.random.default_rng(3)), refined(model, drawn))


def test_impossible_combinations_and_cells_of_no_mass_stay_empty() -> None:
    names = [f"c{i}" for i in range(8)]
    barred = dict.fromkeys(names[:5], "true")
    schema = Schema([Boolean(name) for name in names], impossible=[barred])
    mask = np.zeros((2, 2), dtype=np.bool_)
    mask[1, 1] = True
    also = [(("c6", "c7"), mask)]
    model = GraphicalModel(schema, [("c5", "c6"), ("c0", "c7")], zeros=[*schema.zeros, *also])
    model = model.with_potentials({("c0", "c7"): np.array([[0.0, 1.0], [2.0, 0.5]])})
    records = model.sample(1000, np.random.default_rng(1))
    assert not records[:, :5].all(axis=1).any()
    assert not records[:, 6:].all(axis=1).any()
    assert not np.array_equal(records, model.draw(1000, np.random.default_rng(1)))


def test_what_would_take_long_is_left_as_it_is(model: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = model.draw(300, np.random.default_rng(0))
    triples = refined(model, drawn)
    monkeypatch.setattr(refining, "_TABLES", 40)  # eight columns have 28 pairs and 56 triples
    pairs = refined(model, drawn)
    assert not np.array_equal(pairs, triples)
    assert squares(tables(model, pairs, 2)) < squares(tables(model, drawn, 2))
    monkeypatch.setattr(refining, "_WORK", 1000)
    assert refined(model, drawn) is drawn


def test_a_column_of_very_many_levels_is_left_as_it_is() -> None:
    schema = Schema([Integer("wide", 0, 2**18), *WIDE.columns[:4]])
    model = random_mixture(schema, [(name,) for name in schema.names], components=3)
    drawn = model.draw(400, np.random.default_rng(0))
    after = refined(model, drawn)
    assert np.array_equal(after[:, 0], drawn[:, 0])
    assert not np.array_equal(after, drawn)


def test_few_columns_few_records_and_none(model: Mixture) -> None:
    drawn = model.draw(99, np.random.default_rng(0))
    assert refined(model, drawn) is drawn
    for schema in (Schema([Boolean("a")]), Schema([Boolean("a"), Boolean("b")]), WIDE):
        made = random_mixture(schema, [schema.names[i : i + 1] for i in range(len(schema))])
        assert made.sample(0, np.random.default_rng(0)).shape == (0, len(schema))
        assert made.sample(1, np.random.default_rng(0)).shape == (1, len(schema))
