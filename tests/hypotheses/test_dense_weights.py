"""The dense kernels against plain log-weights, their numerical safety, exact steps and whole-marginal steps."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis_checks import SMALL, random_query

from maquette.hypothesis import MultiplicativeWeights, kernels
from maquette.hypothesis.multiplicative_weights import MAX_CELLS, Step, bregman_step
from maquette.query import LinearQuery, where
from maquette.schema import Boolean, Integer, Schema

WIDE = Schema([Integer(f"c{i}", 0, size - 1) for i, size in enumerate((3, 4, 1, 2, 5, 2, 6, 3, 2, 4))])
ENGINES = ("numpy", "compiled", "gathered", "narrow", "threads")
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


def use(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy; compiled; and compiled: patterns gathered in the kernel, marginals by class of places, many threads."""
    monkeypatch.setattr(kernels, "_PLAIN", 2**30 if engine == "numpy" else 0)
    monkeypatch.setattr(kernels, "_SPREAD", 0 if engine == "gathered" else 2**20)
    monkeypatch.setattr(kernels, "_NEAR", 0 if engine == "narrow" else 2**17)
    monkeypatch.setattr(kernels, "_FEW", 0 if engine == "threads" else 2**30)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


class LogWeights:
    """The rule as it is written in the theory: logarithms over every cell."""

    def __init__(self, schema: Schema) -> None:
        self.names = schema.names
        self.logs = np.zeros(schema.shape(schema.names))

    @property
    def masses(self) -> np.ndarray:
        weights = np.exp(self.logs - self.logs.max())
        return weights / weights.sum()

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        letters = {name: chr(97 + i) for i, name in enumerate(self.names)}
        return np.einsum(f"{''.join(letters.values())}->{''.join(letters[c] for c in columns)}", self.masses)


@pytest.mark.thorough(fast=1)
@EVERY_ENGINE
@pytest.mark.parametrize("step", ["theory", "book", "exact"])
def test_kernels_agree_with_log_weights(engine: str, step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    use(engine, monkeypatch)
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(WIDE.size, 0.05)).reshape(WIDE.shape(WIDE.names))
    model, plain = MultiplicativeWeights(WIDE, alpha=0.3, step=step), LogWeights(WIDE)
    for turn in range(40):
        query = random_query(WIDE, rng)
        weights = query.weights(WIDE.names)
        answer, value = float((weights * plain.masses).sum()), float((weights * table).sum())
        assert model.answer(query) == pytest.approx(answer, abs=1e-12)
        model.update(query, value)
        eta = {"theory": 1.2, "book": 0.15}.get(step, 0.0) * np.sign(value - answer)
        if step == "exact":
            eta = bregman_step(weights.reshape(-1), plain.masses.reshape(-1), value, 1e-6)
        plain.logs += eta * weights
        if turn % 8 == 0:
            columns = [str(name) for name in rng.permutation(WIDE.names)[: rng.integers(0, 5)]]
            assert np.allclose(model.marginal(columns), plain.marginal(columns), rtol=0, atol=1e-12)
    assert np.allclose(model.marginal(WIDE.names), plain.masses, rtol=1e-8, atol=1e-15)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("step", ["theory", "exact"])
def test_bits_do_not_depend_on_threads_nor_on_how_patterns_are_read_nor_on_what_is_asked_between(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for engine in ("compiled", "gathered", "threads"):
        use(engine, monkeypatch)
        rng = np.random.default_rng(1)
        model = MultiplicativeWeights(WIDE, alpha=0.1, step=step)
        answers = []
        for turn in range(30):
            query = random_query(WIDE, rng)
            if engine != "compiled" and turn % 3 == 0:
                model.answer(random_query(WIDE, np.random.default_rng(turn)))
            model.update(query, float(rng.uniform(0.3, 0.7)))
            answers.append(model.answer(query))
        seen.add((tuple(answers), model.marginal(["c1", "c7"]).tobytes(), model.marginal(WIDE.names).tobytes()))
    assert len(seen) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(("engine", "column"), [("numpy", "within"), ("compiled", "within"), ("numpy", "across")])
def test_weights_survive_ten_thousand_steps_one_way_and_come_back(
    engine: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(engine, monkeypatch)
    monkeypatch.setattr(kernels, "_RUN", 32)
    schema = Schema([Integer("across", 0, 39), Integer("within", 0, 29)])
    levels = np.arange(schema[column].size)
    model = MultiplicativeWeights(schema, alpha=0.25)
    first = LinearQuery.product(schema, {column: levels == 0})
    tilted = LinearQuery.product(schema, {column: levels / levels[-1]})
    for _ in range(5000):
        model.update(first, 2.0)
        model.update(tilted, -1.0)
    assert model.answer(first) == pytest.approx(1.0, abs=1e-12)
    masses = model.marginal(schema.names)
    assert masses.min() > 0.0
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    steps = 0
    while model.answer(first) > 0.5:
        model.update(first, -1.0)
        steps += 1
    assert 100 < steps <= 1100 * math.log(2)  # no further down than the floors of a run and of its cells


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_a_run_whose_weights_all_shrink_is_brought_back_into_range(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(engine, monkeypatch)
    schema = Schema([Integer("x", 0, 1), Integer("y", 0, 2047)])
    factors = np.ones((2, 2048))
    factors[1] = np.linspace(1e-30, 2e-30, 2048)
    model = MultiplicativeWeights(schema, step="exact")
    for _ in range(4):
        model.scale_marginal(["x", "y"], factors)
    for _ in range(4):
        model.scale_marginal(["x", "y"], 1 / factors)
    assert np.allclose(model.marginal(["x", "y"]), 1 / 4096, rtol=1e-12)


@EVERY_ENGINE
def test_scaling_a_whole_marginal_fits_it_exactly(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(engine, monkeypatch)
    rng = np.random.default_rng(2)
    model = MultiplicativeWeights(WIDE, step="exact")
    for columns in (["c9", "c1"], ["c0", "c4", "c6"], ["c8"], [], list(WIDE.names)):
        target = rng.dirichlet(np.ones(WIDE.cells(columns))).reshape(WIDE.shape(columns))
        model.scale_marginal(columns, target / model.marginal(columns))
        assert np.allclose(model.marginal(columns), target, rtol=1e-10, atol=1e-14)


def test_iterated_marginal_steps_reach_consistent_marginals() -> None:
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.full(SMALL.size, 0.5)).reshape(SMALL.shape(SMALL.names))
    targets = {("a", "b"): table.sum(axis=2), ("b", "c"): table.sum(axis=0), ("c", "a"): table.sum(axis=1).T}
    model = MultiplicativeWeights(SMALL, step="exact")
    for _ in range(300):
        for columns, target in targets.items():
            model.scale_marginal(columns, target / model.marginal(columns))
    assert all(np.allclose(model.marginal(c), t, atol=1e-6) for c, t in targets.items())


def test_a_cell_scaled_by_zero_is_all_but_gone_and_can_return() -> None:
    model = MultiplicativeWeights(SMALL, step="exact")
    smoker = where(SMALL, "b = 1")
    model.scale_marginal(["b"], np.array([1.0, 0.0]))
    assert 0.0 < model.answer(smoker) < 1e-100
    model.update(smoker, 0.25)
    assert model.answer(smoker) == pytest.approx(0.25)


@EVERY_ENGINE
def test_an_exact_step_answers_the_value(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(engine, monkeypatch)
    rng = np.random.default_rng(4)
    for _ in range(15):
        model, query = MultiplicativeWeights(WIDE, step="exact"), random_query(WIDE, rng)
        low, high = query.bounds
        for share in (0.3, 0.001, 0.9):
            value = low + share * (high - low)
            model.update(query, value)
            assert model.answer(query) == pytest.approx(value, abs=1e-9)


def test_an_exact_step_stays_a_floor_away_from_the_extremes() -> None:
    query = where(SMALL, "b = 1")
    for value, reached in ((-0.2, 0.005), (0.0, 0.005), (1.0, 0.995), (1.7, 0.995)):
        model = MultiplicativeWeights(SMALL, step="exact", floor=0.005)
        model.update(query, value)
        assert model.answer(query) == pytest.approx(reached, abs=1e-12)


def test_a_universe_of_two_million_cells_is_split_between_threads() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(21)])
    model, rng = MultiplicativeWeights(schema, step="exact"), np.random.default_rng(5)
    for _ in range(6):
        chosen = rng.choice(21, 3, replace=False)
        query = LinearQuery.product(schema, {f"b{i}": [0.0, 1.0] for i in chosen})
        model.update(query, 0.3)
        assert model.answer(query) == pytest.approx(0.3, abs=1e-12)
        assert model.marginal([f"b{i}" for i in chosen])[1, 1, 1] == pytest.approx(0.3, abs=1e-12)
    assert model.marginal([]) == pytest.approx(1.0, abs=1e-12)
    assert MAX_CELLS == 2**28


def test_questions_over_all_columns_at_once_need_no_table_of_the_universe() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(27)])
    grid = kernels.Grid(schema)
    everyone = LinearQuery.product(schema, {name: [0.0, 1.0] for name in schema.names})
    pattern = grid.pattern(~everyone)
    assert grid.shape == (2**16, 2**11)
    assert pattern.table.size == 4
    assert pattern.table[pattern.rows[-1], pattern.index[-1]] == 0.0
    assert pattern.table[pattern.rows[0], pattern.index[-1]] == 1.0
