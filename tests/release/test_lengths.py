"""Lengths: the shrinkage of penalised fits is undone where a table stands out of its noise, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.estimates import KnownColumn, Residuals, components, estimates, forward
from maquette.estimates.lengths import MOST, Lengths
from maquette.hypothesis import GraphicalModel

ROWS = 10_000.0
SIZES = {"a": 12, "b": 2, "c": 6, "d": 5}
SCHEMA = mq.Schema([mq.Integer(name, 0, size - 1) for name, size in SIZES.items()])
PAIRS = (("a", "b"), ("c", "d"))


def leaning() -> np.ndarray:
    """The second of two columns is more likely the larger the first one is."""
    chance = np.linspace(0.2, 0.5, SIZES["a"])
    return np.stack([1 - chance, chance], axis=1) / SIZES["a"]


def evidence(seed: int, deviation: float) -> tuple[Residuals, dict[str, KnownColumn]]:
    """A strong pair, and one that is nothing but noise."""
    rng = np.random.default_rng(seed)
    even = np.full((SIZES["c"], SIZES["d"]), 1 / SIZES["c"] / SIZES["d"])
    truth = {("a", "b"): leaning(), ("c", "d"): even}
    found = Residuals(SCHEMA)
    found.combine((), np.array(ROWS), np.array(1.0))
    known = {}
    for pair, cells in truth.items():
        values = ROWS * forward(cells)[1:, 1:]
        found.combine(pair, values + rng.normal(0, deviation, values.shape), np.full(values.shape, deviation**2))
        for axis, name in enumerate(pair):
            share = cells.sum(axis=1 - axis)
            known[name] = KnownColumn(ROWS * share, np.full(len(share), 1.0), share)
            found.combine((name,), ROWS * forward(share)[1:], np.ones(len(share) - 1))
    return found, known


def tree(found: Residuals, *, lengthen: bool) -> np.ndarray:
    model = GraphicalModel(SCHEMA, [columns for columns, _, _ in found.stored() if columns])
    *_, fitted = estimates(model, found, lengthen=lengthen)
    return fitted.model.marginal(("a", "b"))


def mixture(found: Residuals, known: dict[str, KnownColumn]) -> np.ndarray:
    fitted = components(found, known, count=64)
    tables = {columns[0]: table for columns, table in fitted.tables}
    return np.einsum("k,ki,kj->ij", fitted.weights, tables["a"], tables["b"])


def length(cells: np.ndarray) -> float:
    """The departure of a table from independence, along that of the true one, as a part of it."""
    apart = leaning() - np.multiply.outer(leaning().sum(axis=1), leaning().sum(axis=0))
    return float((apart * cells).sum() / (apart**2).sum())


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "deviation"), [("tree", 20.0), ("mixture", 5.0)])
def test_a_dependence_that_stands_out_of_its_noise_is_not_shrunk(
    model: str, deviation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over evidence of the fitted length: three hundredths or more are missing without, and fewer with."""
    before, after = [], []
    for seed in range(3):
        found, known = evidence(seed, deviation)
        if model == "tree":
            before.append(length(tree(found, lengthen=False)))
            after.append(length(tree(found, lengthen=True)))
            continue
        after.append(length(mixture(found, known)))
        with monkeypatch.context() as patch:
            patch.setattr("maquette.estimates.mixture_fit.ROUNDS", 0)
            before.append(length(mixture(found, known)))
    assert np.mean(before) < 0.97 < np.mean(after) < 1.03


def shrunk(factor: float, count: int, strength: float, seed: int) -> tuple[float, float]:
    """The extra length found after a fit that keeps a part of every number, and the one that would be best."""
    rng = np.random.default_rng(seed)
    truth = strength * rng.standard_normal(count)
    measured = truth + rng.standard_normal(count)
    fitted = factor * measured
    lengths = Lengths()
    lengths.target(("a", "b"), (measured, fitted, np.zeros(count)), 1.0, count)
    return lengths.extra["a", "b"], float((truth - fitted) @ fitted / (fitted @ fitted))


def test_the_extra_length_is_at_most_the_best_one_in_the_mean() -> None:
    """Stein's lemma with every coefficient counted: too little rather than too much, and nearly right if strong."""
    strong = np.mean([shrunk(0.85, 40, 6.0, seed) for seed in range(200)], axis=0)
    assert strong[1] - 0.05 < strong[0] <= strong[1] + 0.005


def test_noise_alone_is_not_lengthened() -> None:
    found = [shrunk(factor, 40, 0.0, seed)[0] for factor in (0.1, 0.5, 0.9) for seed in range(50)]
    assert max(found) == 0.0 or np.mean(found) < 0.02


def test_a_departure_is_at_most_doubled() -> None:
    lengths = Lengths()
    moved = lengths.target(("a", "b"), (100.0 * np.ones(9), np.ones(9), np.zeros(9)), 1.0, 9)
    assert lengths.extra["a", "b"] == MOST
    assert moved == pytest.approx(np.full(9, 101.0))
