"""The slides' linear update: its regret, its bound on updates, and what goes wrong if it is changed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.hypothesis import GraphicalModel, MultiplicativeWeights, Separable, WeightedRecords
from maquette.query import LinearQuery
from maquette.theory import regret

Values = NDArray[np.float64]
Update = Callable[[Values, Values, float], Values]


def linear(point: Values, losses: Values, eta: float) -> Values:
    made = point * (1 - regret.linear_rate(eta=eta) * losses)
    return np.asarray(made / made.sum())


def exponential(point: Values, losses: Values, eta: float) -> Values:
    made = point * np.exp(-eta * losses)
    return np.asarray(made / made.sum())


def suffered(update: Update, experts: int, rounds: int, kind: str, seed: int) -> float:
    """The regret against the best expert, under losses that an adversary chooses with the model in view."""
    rng = np.random.default_rng(seed)
    eta = regret.best_rate(universe=experts, rounds=rounds)
    point, total, own = np.full(experts, 1 / experts), np.zeros(experts), 0.0
    for turn in range(rounds):
        if kind == "hostile":  # half of the mass loses, and the expert that lost least so far never does
            order = np.argsort(-point, kind="stable")
            losses = np.zeros(experts)
            losses[order[np.cumsum(point[order]) <= 0.5 + 0.1 * (turn % 3)]] = 1.0
            losses[int(np.argmin(total))] = 0.0
        else:
            losses = rng.random(experts) if kind == "real" else (rng.random(experts) < 0.5).astype(float)
        own += float(point @ losses)
        total += losses
        point = update(point, losses, eta)
    return own - float(total.min())


@pytest.mark.parametrize("update", [linear, exponential])
@pytest.mark.parametrize("kind", ["hostile", "real", "sets"])
def test_regret_never_exceeds_its_bound(update: Update, kind: str) -> None:
    for experts, rounds in ((4, 30), (16, 100), (64, 400)):
        for seed in range(5):
            assert suffered(update, experts, rounds, kind, seed) <= regret.least(universe=experts, rounds=rounds)


def test_the_divergence_falls_as_the_proof_says() -> None:
    """Every step, for losses in [0, 1] that are not 0 or 1: at least eta <D_t - D, L> - eta^2 / 8."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        size = int(rng.integers(2, 9))
        data, model = rng.dirichlet(np.full(size, 0.5)) + 1e-12, rng.dirichlet(np.full(size, 0.5)) + 1e-9
        losses, eta = rng.random(size), float(rng.uniform(0.01, 3.0))
        after = linear(model / model.sum(), losses, eta)
        fall = float((data * np.log(after / (model / model.sum()))).sum())
        assert fall >= eta * float((model / model.sum() - data) @ losses) - eta**2 / 8 - 1e-9


def hostile_updates(step: str, alpha: float, rate: float = 1.0) -> int:
    """Updates on queries that the model has wrong by alpha or more, against a table at one end of a line."""
    cells = 64
    schema = mq.Schema([mq.Integer("x", 0, cells - 1)])
    model = MultiplicativeWeights(schema, alpha=rate * alpha, step=step)  # type: ignore[arg-type]
    made = 0
    while made < 5000:
        masses = model.marginal(["x"])
        order = np.argsort(-masses, kind="stable")
        chosen = np.zeros(cells)
        chosen[order[order != 0][np.cumsum(masses[order[order != 0]]) <= 1.0]] = 1.0
        query = LinearQuery.product(schema, {"x": (0.2 + 0.6 * chosen).tolist()})
        if model.answer(query) - 0.2 < alpha:  # the whole table is at 0, where the query is 0.2
            break
        model.update(query, 0.2)
        made += 1
    return made


def test_linear_steps_keep_the_bound_of_the_tight_ones() -> None:
    for alpha in (0.3, 0.2, 0.1):
        assert hostile_updates("linear", alpha) <= math.log(64) / (2 * alpha**2)
    assert hostile_updates("linear", 0.2, rate=0.1) > math.log(64) / (2 * 0.2**2), "a mutant: steps ten times too small"


@pytest.mark.parametrize("sharp", [True, False])
def test_a_linear_step_is_the_slides_formula(sharp: bool) -> None:
    """By hand, in both directions; on 0/1 queries it is the exponential step."""
    schema = mq.Schema([mq.Integer("x", 0, 4)])
    weights = np.array([0.0, 1.0, 1.0, 0.0, 1.0]) if sharp else np.array([0.1, 0.9, 0.4, 0.0, 1.0])
    query, rate = LinearQuery.product(schema, {"x": weights.tolist()}), 1 - math.exp(-0.8)
    for value, losses in ((0.0, weights), (1.0, 1 - weights)):
        expected = 0.2 * (1 - rate * losses)
        for model in (
            MultiplicativeWeights(schema, alpha=0.2, step="linear"),
            WeightedRecords(schema, np.arange(5)[:, None], alpha=0.2, step="linear"),
            GraphicalModel(schema, [("x",)], alpha=0.2, step="linear"),
        ):
            model.update(query, value)
            np.testing.assert_allclose(model.marginal(["x"]), expected / expected.sum(), rtol=1e-12)
        usual = MultiplicativeWeights(schema, alpha=0.2)
        usual.update(query, value)
        assert np.allclose(usual.marginal(["x"]), expected / expected.sum()) == sharp


def test_the_slides_picture() -> None:
    """Four experts at 1/4 with losses 1, 0, 1, 0 go to .20, .30, .20, .30 at r = 1/3."""
    made = linear(np.full(4, 0.25), np.array([1.0, 0.0, 1.0, 0.0]), -math.log(2 / 3))
    np.testing.assert_allclose(made, [0.2, 0.3, 0.2, 0.3], rtol=1e-12)


def test_a_linear_model_is_saved_with_its_step() -> None:
    schema = mq.Schema([mq.Integer("x", 0, 4)])
    model = MultiplicativeWeights(schema, alpha=0.2, step="linear")
    model.update(LinearQuery.product(schema, {"x": [0.0, 0.5, 1.0, 0.0, 0.0]}), 1.0)
    again = MultiplicativeWeights.restore(schema, model.facts(), model.arrays())
    assert again.facts() == model.facts()
    assert again.update_bound == model.update_bound


def test_refusals() -> None:
    schema = mq.Schema([mq.Integer("x", 0, 4)])
    with pytest.raises(mq.QueryError, match="no linear step"):
        Separable(schema, alpha=0.1, step="linear")
    with pytest.raises(mq.QueryError, match="rounds is 0 in the bound least"):
        regret.least(universe=10, rounds=0)
