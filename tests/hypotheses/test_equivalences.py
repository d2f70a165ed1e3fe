"""Rules that are one another in a corner, and changes of the question that must not change the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis_checks import SMALL, all_records, instance, line, random_query, updates, weigh

from maquette.hypothesis import MirrorDescent, MultiplicativeWeights, Perceptron, WeightedRecords
from maquette.query import LinearQuery
from maquette.schema import Boolean, Integer, Schema

CELLS = 32


def test_mirror_descent_with_entropy_is_multiplicative_weights() -> None:
    rng = np.random.default_rng(0)
    weights, entropy = MultiplicativeWeights(SMALL, alpha=0.1), MirrorDescent(SMALL, alpha=0.1, psi="entropy")
    assert entropy.update_bound == weights.update_bound
    for _ in range(200):
        query, value = random_query(SMALL, rng), float(rng.random())
        assert weights.answer(query) == pytest.approx(entropy.answer(query), abs=1e-12)
        weights.update(query, value)
        entropy.update(query, value)


def test_mirror_descent_at_p_two_is_the_perceptron_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    additive, euclidean = Perceptron(SMALL, alpha=0.1), MirrorDescent(SMALL, alpha=0.1, p=2.0)
    assert additive.update_bound == pytest.approx(euclidean.update_bound)
    for _ in range(100):
        query, value = random_query(SMALL, rng), float(rng.random())
        additive.update(query, value)
        euclidean.update(query, value)
        assert additive.marginal(SMALL.names).tobytes() == euclidean.marginal(SMALL.names).tobytes()


def test_mirror_descent_near_p_one_needs_logarithmically_many_updates() -> None:
    for cells in (32, 2**10, 2**20):
        bound = MirrorDescent.max_updates(Schema([Integer("x", 0, cells - 1)]), 0.1)
        assert bound <= math.e**2 * math.log(cells) / 0.01 * (1 + 1e-9)
    rng, schema = np.random.default_rng(2), line(256)
    _, queries = instance(256, "sets", rng)
    table = np.eye(256)[3]
    near_one, two, weights = (
        sum(1 for _ in updates(model, table, queries, 0.2, "random", rng, 10**4))
        for model in (
            MirrorDescent(schema, alpha=0.2),
            MirrorDescent(schema, alpha=0.2, p=2.0),
            MultiplicativeWeights(schema, alpha=0.2),
        )
    )
    assert weights < near_one < two / 2


def test_weighted_records_over_every_cell_are_multiplicative_weights() -> None:
    rng = np.random.default_rng(3)
    for step in ("theory", "exact"):
        dense = MultiplicativeWeights(SMALL, alpha=0.1, step=step)
        listed = WeightedRecords(SMALL, all_records(SMALL), alpha=0.1, step=step)
        for _ in range(30):
            query, value = random_query(SMALL, rng), float(rng.uniform(0.3, 0.7))
            assert dense.answer(query) == pytest.approx(listed.answer(query), abs=1e-9)
            dense.update(query, value)
            listed.update(query, value)


def test_weighted_records_reach_universes_that_cannot_be_listed() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(200)])
    rng = np.random.default_rng(4)
    model = WeightedRecords(schema, rng.integers(0, 2, (500, 200)), step="exact")
    pair = LinearQuery.product(schema, {"b3": [0.0, 1.0], "b150": [0.0, 1.0]})
    model.update(pair, 0.6)
    assert model.answer(pair) == pytest.approx(0.6)
    assert model.marginal(["b150", "b3"])[1, 1] == pytest.approx(0.6)
    sampled = model.sample(1000, rng)
    assert abs((sampled[:, 3] & sampled[:, 150]).mean() - 0.6) < 0.02
    assert WeightedRecords.max_updates(schema, 0.1) == pytest.approx(200 * math.log(2) / 0.02)


def test_weights_saved_from_records_start_another_model() -> None:
    model = WeightedRecords(SMALL, all_records(SMALL), step="exact")
    model.update(random_query(SMALL, np.random.default_rng(5)), 0.3)
    again = WeightedRecords(SMALL, model.records, weights=model.weights)
    assert np.allclose(again.marginal(SMALL.names), model.marginal(SMALL.names), rtol=1e-14)


@pytest.mark.parametrize("rule", ["weights", "perceptron", "norm"])
def test_relabelling_the_universe_relabels_the_model(rule: str) -> None:
    rng, schema = np.random.default_rng(6), line(CELLS)
    order = rng.permutation(CELLS)

    def make() -> MultiplicativeWeights | Perceptron | MirrorDescent:
        match rule:
            case "weights":
                return MultiplicativeWeights(schema, alpha=0.1)
            case "perceptron":
                return Perceptron(schema, alpha=0.1)
            case _:
                return MirrorDescent(schema, alpha=0.1)

    here, there = make(), make()
    for _ in range(50):
        weights, value = rng.random(CELLS), float(rng.random())
        here.update(weigh(schema, weights), value)
        there.update(weigh(schema, weights[order]), value)
    assert np.allclose(here.marginal(["x"])[order], there.marginal(["x"]), rtol=0, atol=1e-12)


def test_the_order_of_columns_does_not_matter() -> None:
    rng = np.random.default_rng(7)
    swapped = Schema([SMALL["c"], SMALL["a"], SMALL["b"]])
    here, there = MultiplicativeWeights(SMALL, alpha=0.1), MultiplicativeWeights(swapped, alpha=0.1)
    for _ in range(30):
        factors = {name: rng.random(SMALL[name].size) for name in SMALL.names}
        value = float(rng.random())
        here.update(LinearQuery.product(SMALL, factors), value)
        there.update(LinearQuery.product(swapped, factors), value)
    assert np.allclose(here.marginal(("b", "c", "a")), there.marginal(("b", "c", "a")), rtol=0, atol=1e-13)


def test_constants_change_nothing() -> None:
    rng = np.random.default_rng(8)
    prior = rng.dirichlet(np.ones(SMALL.size)).reshape(SMALL.shape(SMALL.names))
    model = MultiplicativeWeights(SMALL, alpha=0.1, prior=prior)
    scaled = MultiplicativeWeights(SMALL, alpha=0.1, prior=1e200 * prior)
    for _ in range(20):
        query, value = random_query(SMALL, rng), float(rng.random())
        model.update(query, value)
        scaled.scale_marginal(["a"], np.full(3, 1e-200))
        scaled.update(query, value)
        scaled.update(LinearQuery.constant(SMALL), value)
    assert np.allclose(model.marginal(SMALL.names), scaled.marginal(SMALL.names), rtol=1e-12)


def test_the_complement_of_a_query_takes_the_same_step() -> None:
    rng = np.random.default_rng(9)
    here, there = MultiplicativeWeights(SMALL, alpha=0.1), MultiplicativeWeights(SMALL, alpha=0.1)
    for _ in range(30):
        query, value = random_query(SMALL, rng), float(rng.random())
        here.update(query, value)
        there.update(~query, 1 - value)
    assert np.allclose(here.marginal(SMALL.names), there.marginal(SMALL.names), rtol=0, atol=1e-12)
