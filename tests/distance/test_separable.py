"""Separable weights: multiplicative weights in one column, and T(alpha) updates in any number of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from distance_checks import ADVERSARIES, Adversary, cube, random_sums, update_sequence

from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights, Separable
from maquette.query import Box, LinearQuery, additive, where
from maquette.schema import Boolean, Integer, Schema
from maquette.theory import distance as theory, updates as update_theory

EVERY_ADVERSARY = pytest.mark.parametrize("adversary", ADVERSARIES)


@pytest.mark.parametrize("step", ["theory", "book", "exact"])
def test_in_one_column_they_are_multiplicative_weights(step: str) -> None:
    schema, rng = Schema([Integer("x", 0, 19)]), np.random.default_rng(0)
    alpha = None if step == "exact" else 0.05
    one = Separable(schema, alpha=alpha, step=step)  # type: ignore[arg-type]
    other = MultiplicativeWeights(schema, alpha=alpha, step=step)  # type: ignore[arg-type]
    assert one.update_bound == other.update_bound
    table = rng.dirichlet(np.full(20, 2.0))
    for _ in range(60):
        query = additive(schema, {"x": rng.random(20)}) if rng.random() < 0.5 else where(schema, "x < 7")
        value = float(query.weights(["x"]) @ table) + 0.02 * float(rng.uniform(-1, 1))
        one.update(query, value)
        other.update(query, value)
        assert np.allclose(one.marginal(["x"]), other.marginal(["x"]), rtol=1e-9, atol=1e-13)
        assert one.answer(query) == pytest.approx(other.answer(query), abs=1e-12)


def test_small_steps_are_those_of_multiplicative_weights_on_the_whole_universe() -> None:
    """A product stays one under exp(eta q); with equal shares the columns move d times as far as there."""
    schema, rng = Schema([Integer("a", 0, 3), Integer("b", 0, 3)]), np.random.default_rng(1)
    one, other = Separable(schema, alpha=0.1), MultiplicativeWeights(schema, alpha=0.2)
    for _ in range(20):
        query = additive(schema, {"a": rng.random(4), "b": rng.random(4)})
        side = rng.choice([-1.0, 1.0])
        one.update(query, one.answer(query) + side)
        other.update(query, other.answer(query) + side)
    assert np.allclose(one.marginal(["a", "b"]), other.marginal(["a", "b"]), atol=1e-12)


@pytest.mark.thorough(fast=2)
@EVERY_ADVERSARY
@pytest.mark.parametrize("columns", [1, 2, 5, 20, 50])
def test_separable_weights_never_exceed_their_update_bound(columns: int, adversary: Adversary) -> None:
    alpha, levels, rng = 0.05, 20, np.random.default_rng(columns)
    schema = cube(columns, levels)
    model = Separable(schema, alpha=alpha)
    assert (
        model.update_bound == pytest.approx(update_theory.separable(levels, alpha)) == pytest.approx(599.15, abs=0.01)
    )
    assert Separable.max_updates(schema, alpha) == pytest.approx(model.update_bound)
    corner = rng.integers(0, 3, (30, columns)).astype(np.int32)  # far from uniform in every column
    queries = random_sums(schema, 60, rng)
    truth = np.array([query.evaluate(corner).mean() for query in queries])
    made = sum(1 for _ in update_sequence(model, truth, queries, alpha, adversary, rng))
    assert 0 < made <= 599


def test_nested_sets_in_every_column_come_close_to_the_bound() -> None:
    """All rows in one corner, and in every column sets of the likeliest other levels: the slowest way to learn it."""
    alpha, levels, columns = 0.1, 64, 10
    schema = cube(columns, levels)
    model, made = Separable(schema, alpha=alpha), 0
    while (masses := model.marginal(["x0"]))[0] <= 1 - alpha:
        chosen, held = np.zeros(levels), masses[0]
        chosen[0] = 1.0
        for level in 1 + np.argsort(-masses[1:], kind="stable"):
            if held + masses[level] <= 1 - alpha:
                chosen[level], held = 1.0, held + masses[level]
        model.update(additive(schema, dict.fromkeys(schema.names, chosen)), 1.0)
        made += 1
    assert 0.4 * model.update_bound < made <= model.update_bound


@pytest.mark.thorough
@EVERY_ADVERSARY
def test_the_weighted_divergence_drops_by_two_squared_alphas(adversary: Adversary) -> None:
    alpha, rng = 0.08, np.random.default_rng(3)
    schema = Schema([Integer("a", 0, 4), Integer("b", 0, 40), Integer("c", 0, 12)])
    box = Box(schema)
    model = Separable(schema, alpha=alpha, shares=box.shares)
    sizes = schema.shape(schema.names)
    rows = np.stack([rng.integers(0, max(1, size // 3), 50) for size in sizes], axis=1).astype(np.int32)
    histograms = [np.bincount(rows[:, i], minlength=size) / 50 for i, size in enumerate(sizes)]
    queries = [box.distance(place) for place in rng.random((40, 3)) * [4, 40, 12]]
    truth = np.array([query.evaluate(rows).mean() for query in queries])

    def potential() -> float:
        total = 0.0
        for name, held in zip(schema.names, histograms, strict=True):
            there = held > 0
            total += box.shares[name] * float((held[there] * np.log(held[there] / model.marginal([name])[there])).sum())
        return total

    before, made = potential(), 0
    assert before <= sum(box.shares[name] * math.log(schema[name].size) for name in schema.names)
    for _ in update_sequence(model, truth, queries, alpha, adversary, rng):
        after = potential()
        assert before - after >= 2 * alpha**2 - 1e-12
        before, made = after, made + 1
    assert 0 < made <= model.update_bound
    assert model.update_bound == pytest.approx(
        theory.updates([(box.shares[name], schema[name].size) for name in schema.names], alpha)
    )


def test_a_step_without_the_columns_shares_breaks_the_drop() -> None:
    """Printed for equal columns: H_j *= exp(4 alpha phi_j). With unequal ones it is g_j / share_j that goes there."""
    schema, alpha = Schema([Integer("a", 0, 1), Integer("b", 0, 1)]), 0.2
    wide = additive(schema, {"a": [0, 1], "b": [0, 1]}, shares={"a": 0.99, "b": 0.01})
    with pytest.raises(QueryError, match="do not fit the model's shares"):
        Separable(schema, alpha=alpha).update(wide, 1.0)
    Separable(schema, alpha=alpha, shares={"a": 0.99, "b": 0.01}).update(wide, 1.0)


def test_exact_steps_answer_their_value() -> None:
    schema, rng = cube(12, 30), np.random.default_rng(4)
    model = Separable(schema, step="exact")
    for query in random_sums(schema, 20, rng):
        low, high = query.bounds
        value = float(rng.uniform(low + 0.02 * (high - low), high - 0.02 * (high - low)))
        model.update(query, value)
        assert model.answer(query) == pytest.approx(value, abs=1e-9)
    assert model.update_bound == math.inf


def test_products_are_answered_as_if_columns_were_independent() -> None:
    schema, rng = cube(4, 6), np.random.default_rng(5)
    model = Separable(schema, step="exact")
    for query in random_sums(schema, 6, rng):
        model.update(query, float(np.clip(model.answer(query) + 0.1, 0, 1)))
    both = where(schema, "x0 < 0.5 AND x2 >= 0.5")
    assert model.answer(both) == pytest.approx(float((model.marginal(schema.names) * both.weights(schema.names)).sum()))


def test_large_universes_are_sampled_column_by_column() -> None:
    schema, rng = cube(50, 100), np.random.default_rng(6)
    model = Separable(schema, alpha=0.05)
    for query in random_sums(schema, 10, rng):
        model.update(query, 0.9)
    records = model.sample(2000, rng)
    assert records.shape == (2000, 50)
    for i, name in enumerate(schema.names):
        counts = np.bincount(records[:, i], minlength=100)
        assert np.abs(counts - 2000 * model.marginal([name])).max() < 1 + 1e-6
    assert abs(np.corrcoef(records[:, 0], records[:, 1])[0, 1]) < 6 / math.sqrt(2000)


SMALL = Schema([Boolean("a"), Integer("b", 0, 2)])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Separable(SMALL, shares={}), "positive numbers for some columns"),
        (lambda: Separable(SMALL, shares={"a": 0.0}), "positive numbers for some columns"),
        (lambda: Separable(SMALL, shares={"z": 1.0}), "no column 'z'"),
        (lambda: Separable(SMALL, alpha=2.0), "alpha is .*; expected a number in"),
        (lambda: Separable(SMALL).update(additive(SMALL, {"a": [0, 1], "b": [0, 0, 1]}), 0.9), "needs alpha"),
        (lambda: Separable(SMALL, alpha=0.1).check(where(SMALL, "a AND b = 1")), "not a sum over columns"),
        (lambda: Separable(SMALL, alpha=0.1).update(where(SMALL, "a AND b = 1"), 0.5), "not a sum over columns"),
        (lambda: Separable(SMALL, alpha=0.1, shares={"a": 1}).check(where(SMALL, "b = 1")), "gives no share"),
        (lambda: Separable(SMALL, alpha=0.1).check(where(SMALL, "a")), r"range\^2 / share is 2, at most 1 is allowed"),
        (lambda: Separable(cube(50, 100)).marginal(cube(50, 100).names), "ask for fewer columns"),
    ],
)
def test_refusals_say_what_to_do(build: object, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        build()  # type: ignore[operator]


def test_a_refused_update_changes_nothing() -> None:
    model = Separable(SMALL, alpha=0.1)
    before = model.marginal(SMALL.names).tobytes()
    with pytest.raises(QueryError):
        model.update(where(SMALL, "a AND b = 1"), 0.9)
    assert model.marginal(SMALL.names).tobytes() == before
    model.update(LinearQuery.constant(SMALL), 0.3)
    assert model.marginal(SMALL.names).tobytes() == before
