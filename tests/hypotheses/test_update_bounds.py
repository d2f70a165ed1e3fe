"""Theorems: no sequence of valid updates is longer than T(alpha), and every one lowers the potential as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis_checks import ADVERSARIES, Adversary, divergence, instance, line, updates, weigh

from maquette.hypothesis import MirrorDescent, MultiplicativeWeights, Perceptron, WeightedRecords
from maquette.hypothesis.mirror_descent import VectorModel
from maquette.hypothesis.multiplicative_weights import Step

CELLS = 32
EVERY_ADVERSARY = pytest.mark.parametrize("adversary", ADVERSARIES)
KINDS = ("sets", "weights")
SLACK = 1e-12


def worst_case(alpha: float, step: Step) -> tuple[int, float]:
    """The longest sequence over adversaries and instances, and the bound."""
    rng, longest, bound = np.random.default_rng(0), 0, 0.0
    for kind in KINDS:
        for adversary in ADVERSARIES:
            table, queries = instance(CELLS, kind, rng)
            model = MultiplicativeWeights(line(CELLS), alpha=alpha, step=step)
            bound = model.update_bound
            made = sum(1 for _ in updates(model, table, queries, alpha, adversary, rng, bound))
            longest = max(longest, made)
    return longest, bound


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(
    ("alpha", "step", "bound"),
    [(0.3, "theory", 19.3), (0.2, "theory", 43.3), (0.1, "theory", 173.3), (0.3, "book", 154.0), (0.2, "book", 346.6)],
)
def test_multiplicative_weights_never_exceed_their_update_bound(alpha: float, step: Step, bound: float) -> None:
    longest, promised = worst_case(alpha, step)
    assert promised == pytest.approx(bound, rel=0.003)
    assert 0.25 * promised < longest <= promised


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("step", "expected", "bound"), [("theory", 185, 346.6), ("book", 1286, 2772.6)])
def test_nested_sets_come_within_a_factor_two_of_the_bound(step: Step, expected: int, bound: float) -> None:
    alpha, cells = 0.1, 1024
    model = MultiplicativeWeights(line(cells), alpha=alpha, step=step)
    made = 0
    while (masses := model.marginal(["x"]))[0] <= 1 - alpha:
        others = np.argsort(-masses, kind="stable")
        chosen, held = np.zeros(cells), masses[0]
        chosen[0] = 1.0
        for cell in others[others != 0]:
            if held + masses[cell] <= 1 - alpha:
                chosen[cell] = 1.0
                held += masses[cell]
        model.update(weigh(model.schema, chosen), 1.0)
        made += 1
    assert model.update_bound == pytest.approx(bound, abs=0.1)
    assert made == pytest.approx(expected, rel=0.02)


def test_the_printed_bound_of_the_book_is_eight_times_the_tight_one() -> None:
    schema = line(CELLS)
    tight = MultiplicativeWeights(schema, alpha=0.1).update_bound
    assert MultiplicativeWeights(schema, alpha=0.1, step="book").update_bound == pytest.approx(8 * tight)
    assert MultiplicativeWeights.max_updates(schema, 0.1) == tight


def test_the_tight_bound_does_not_hold_for_the_step_of_the_book() -> None:
    longest, _ = worst_case(0.2, "book")
    assert longest > MultiplicativeWeights.max_updates(line(CELLS), 0.2)


@EVERY_ADVERSARY
def test_a_public_prior_replaces_the_size_of_the_universe(adversary: Adversary) -> None:
    rng, alpha = np.random.default_rng(1), 0.1
    table, queries = instance(CELLS, "sets", rng)
    prior = 0.9 * table + 0.1 / CELLS
    model = MultiplicativeWeights(line(CELLS), alpha=alpha, prior=prior)
    assert model.update_bound == pytest.approx(math.log(10 * CELLS) / (2 * alpha**2))
    assert sum(1 for _ in updates(model, table, queries, alpha, adversary, rng, 1000)) <= model.update_bound


@EVERY_ADVERSARY
@pytest.mark.parametrize("kind", KINDS)
def test_weighted_records_never_exceed_the_bound_of_their_list(kind: str, adversary: Adversary) -> None:
    rng, alpha = np.random.default_rng(2), 0.1
    table, queries = instance(CELLS, kind, rng)
    listed = np.union1d(np.flatnonzero(table), np.arange(0, CELLS, 4))
    model = WeightedRecords(line(CELLS), listed[:, None], alpha=alpha)
    assert model.update_bound == pytest.approx(math.log(len(listed)) / (2 * alpha**2))
    assert 0 < sum(1 for _ in updates(model, table, queries, alpha, adversary, rng, 1000)) <= model.update_bound


@EVERY_ADVERSARY
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["theory", "book", "norm", "near-two"])
def test_vector_models_never_exceed_their_update_bound(rule: str, kind: str, adversary: Adversary) -> None:
    rng, alpha, schema = np.random.default_rng(3), 0.3, line(CELLS)
    table, queries = instance(CELLS, kind, rng)
    norm = math.sqrt(float((table**2).sum()))
    model: VectorModel
    match rule:
        case "norm":
            model = MirrorDescent(schema, alpha=alpha)
        case "near-two":
            model = MirrorDescent(schema, alpha=alpha, p=1.9)
        case _:
            model = Perceptron(schema, alpha=alpha, step="theory" if rule == "theory" else "book", norm=norm)
    assert isinstance(model, Perceptron | MirrorDescent)
    made = sum(1 for _ in updates(model, table, queries, alpha, adversary, rng, model.update_bound))
    assert 0 < made <= model.update_bound


def test_a_perceptron_that_confuses_fractions_with_counts_exceeds_the_bound() -> None:
    """Printed (erratum A9): a step of alpha / N on unnormalised data. It has to be alpha n / N."""
    cells, rows, alpha = 4, 50, 0.5
    table, queries = np.array([rows, 0.0, 0.0, 0.0]), np.eye(cells)
    bound = float((table**2).sum()) / rows**2 * cells / alpha**2
    for step, holds in ((alpha / cells, False), (alpha * rows / cells, True)):
        vector, made = np.zeros(cells), 0
        while (off := np.flatnonzero(np.abs(queries @ (table - vector)) >= alpha * rows)).size:
            vector += np.sign(queries[off[0]] @ (table - vector)) * step * queries[off[0]]
            made += 1
        assert (made <= bound) == holds


@EVERY_ADVERSARY
@pytest.mark.parametrize("kind", KINDS)
def test_divergence_drops_by_four_alpha_gap_less_two_alpha_squared(kind: str, adversary: Adversary) -> None:
    rng, alpha = np.random.default_rng(4), 0.15
    table, queries = instance(CELLS, kind, rng)
    model = MultiplicativeWeights(line(CELLS), alpha=alpha)
    steps = 0
    for weights, before, after in updates(model, table, queries, alpha, adversary, rng, 500):
        off = abs(weights @ (table - before))
        drop = divergence(table, before) - divergence(table, after)
        assert drop >= 4 * alpha * off - 2 * alpha**2 - SLACK >= 2 * alpha**2 - 2 * SLACK
        steps += 1
    assert steps > 5


def test_a_step_of_four_gaps_drops_divergence_by_two_squared_gaps() -> None:
    rng, schema = np.random.default_rng(5), line(CELLS)
    tightest = math.inf
    for _ in range(100):
        start, table = rng.dirichlet(np.ones(CELLS)), rng.dirichlet(np.full(CELLS, 0.2))
        weights = rng.integers(0, 2, CELLS).astype(float)
        off = abs(float(weights @ (table - start)))
        model = MultiplicativeWeights(schema, alpha=off, prior=start)
        model.update(weigh(schema, weights), float(weights @ table))
        drop = divergence(table, start) - divergence(table, model.marginal(["x"]))
        assert drop >= 2 * off**2 - SLACK
        tightest = min(tightest, drop / (2 * off**2))
    assert tightest < 1.05


def test_an_exact_step_drops_divergence_by_that_of_the_two_answers() -> None:
    rng, schema = np.random.default_rng(6), line(CELLS)
    for _ in range(50):
        start, table = rng.dirichlet(np.ones(CELLS)), rng.dirichlet(np.ones(CELLS))
        weights = (np.arange(CELLS) < rng.integers(1, CELLS)).astype(float)
        rng.shuffle(weights)
        old, new = (np.array([weights @ p, 1 - weights @ p]) for p in (start, table))
        model = MultiplicativeWeights(schema, step="exact", prior=start)
        model.update(weigh(schema, weights), float(new[0]))
        drop = divergence(table, start) - divergence(table, model.marginal(["x"]))
        assert drop == pytest.approx(divergence(new, old), abs=1e-10)


@EVERY_ADVERSARY
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["theory", "book"])
def test_squared_distance_drops_by_alpha_squared_over_the_squared_norm(
    step: str, kind: str, adversary: Adversary
) -> None:
    rng, alpha = np.random.default_rng(7), 0.3
    table, queries = instance(CELLS, kind, rng)
    model = Perceptron(line(CELLS), alpha=alpha, step="theory" if step == "theory" else "book")
    for weights, before, after in updates(model, table, queries, alpha, adversary, rng, model.update_bound):
        drop = ((table - before) ** 2).sum() - ((table - after) ** 2).sum()
        assert drop >= alpha**2 / (CELLS if step == "book" else weights @ weights) - SLACK


@EVERY_ADVERSARY
@pytest.mark.parametrize("p", [1.1, 1.3, 1.7, 2.0])
def test_the_bregman_divergence_of_a_p_norm_drops_as_stated(p: float, adversary: Adversary) -> None:
    rng, alpha, q = np.random.default_rng(8), 0.3, p / (p - 1)

    def half_square(vector: np.ndarray) -> float:
        return 0.5 * float((np.abs(vector) ** p).sum() ** (2 / p))

    def bregman(table: np.ndarray, point: np.ndarray) -> float:
        norm = (np.abs(point) ** p).sum() ** (1 / p)
        slope = np.sign(point) * np.abs(point) ** (p - 1) * (norm ** (2 - p) if norm else 0.0)
        return half_square(table) - half_square(point) - float(slope @ (table - point))

    table, queries = instance(CELLS, "weights", rng)
    model = MirrorDescent(line(CELLS), alpha=alpha, p=p)
    for weights, before, after in updates(model, table, queries, alpha, adversary, rng, model.update_bound):
        promised = alpha**2 * (p - 1) / (2 * (weights**q).sum() ** (2 / q))
        assert bregman(table, before) - bregman(table, after) >= promised - 1e-9


def test_kaczmarz_inside_the_simplex_steps_by_the_gap_and_gives_back_the_constant() -> None:
    rng, schema = np.random.default_rng(10), line(CELLS)
    weights, gap = rng.random(CELLS), 0.01
    model = Perceptron(schema, alpha=0.1, step="kaczmarz")
    model.update(weigh(schema, weights), float(weights.mean()) + gap)
    expected = 1 / CELLS + gap / (weights @ weights) * (weights - weights.mean())
    assert expected.min() > 0.0
    assert np.allclose(model.marginal(["x"]), expected, rtol=0, atol=1e-15)


def test_kaczmarz_never_moves_away_from_the_table_and_finds_it() -> None:
    rng, schema = np.random.default_rng(9), line(CELLS)
    model = Perceptron(schema, alpha=0.1, step="kaczmarz")
    table = rng.dirichlet(np.full(CELLS, 0.3))
    distance = [float(((table - model.marginal(["x"])) ** 2).sum())]
    for _ in range(300):
        weights = rng.integers(0, 2, CELLS).astype(float)
        model.update(weigh(schema, weights), float(weights @ table))
        distance.append(float(((table - model.marginal(["x"])) ** 2).sum()))
    assert (np.diff(distance) <= SLACK).all()
    assert distance[-1] < 1e-3 * distance[0]


def test_the_printed_direction_is_wrong_outside_its_guard() -> None:
    """Printed (erratum D1): increase when f(D) - z < tau. An answer a little too high would be raised; it must fall."""
    schema, tau = line(8), 0.2
    query = weigh(schema, (np.arange(8) < 4).astype(float))
    model = MultiplicativeWeights(schema, alpha=0.05)
    value = 0.4
    printed_increases = model.answer(query) - value < tau
    model.update(query, value)
    assert printed_increases
    assert model.answer(query) < 0.5
