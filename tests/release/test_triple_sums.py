"""Measured triples in the fit of a mixture: gradients as plain sums give them, and how often they are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_mixture_fit import PLAIN, columns_of, evidence, planted, sets_of

from maquette.estimates import mixture_fit, triple_sums
from maquette.estimates.triple_sums import Triples, TripleSums

WIDTH, COUNT = 11, 6


def made(seed: int = 0) -> tuple[list[Triples], dict[str, Any]]:
    """Two sets of triples, and components."""
    rng = np.random.default_rng(seed)

    def table(*shape: int) -> Any:
        return rng.normal(0, 1, shape).astype(np.float32)

    first = Triples.joined((slice(0, 2), slice(2, 5)), [slice(5, 9), slice(9, 11)], [table(6, 4), table(6, 2)], [2, 3])
    second = Triples.joined((slice(2, 5), slice(5, 9)), [slice(9, 11)], [table(12, 2)], [0.5])
    given = {"features": table(COUNT, WIDTH), "weights": np.abs(table(COUNT))}
    return [first, second], given


def summed(triples: list[Triples], features: Any, weights: Any, **named: bool) -> tuple[Any, Any, float]:
    gradient, scores = np.zeros((COUNT, WIDTH), np.float32), np.zeros(COUNT, np.float32)
    sums = TripleSums(triples, WIDTH, COUNT)
    squares = sums.add(features, weights, gradient, scores, **named)
    return gradient, scores, squares


def squares_of(triples: list[Triples], features: Any, weights: Any) -> float:
    total = 0.0
    for each in triples:
        one, two = (features[:, place] for place in each.places)
        cells = np.einsum("k,ka,kb,kc->abc", weights, one, two, features[:, each.others]).reshape(each.target.shape)
        total += float((each.precision * (cells - each.target) ** 2).sum())
    return total


def test_gradients_are_those_of_half_the_squares() -> None:
    triples, given = made()
    features, weights = (given[name].astype(np.float64) for name in ("features", "weights"))
    gradient, scores, squares = summed(triples, **given)
    assert squares == pytest.approx(squares_of(triples, features, weights), rel=1e-5)

    def slope(target: Any, place: Any) -> float:
        ends = []
        for step in (1e-5, -1e-5):
            kept = target[place]
            target[place] = kept + step
            ends.append(squares_of(triples, features, weights) / 2)
            target[place] = kept
        return (ends[0] - ends[1]) / 2e-5

    wanted = np.array([[slope(features, (k, i)) for i in range(WIDTH)] for k in range(COUNT)])
    assert gradient == pytest.approx(wanted, rel=1e-3, abs=1e-4 * np.abs(wanted).max())
    wanted = np.array([slope(weights, k) for k in range(COUNT)])
    assert scores == pytest.approx(wanted, rel=1e-3, abs=1e-4 * np.abs(wanted).max())


def test_what_is_not_computed_anew_is_that_of_the_last_time() -> None:
    triples, given = made()
    sums = TripleSums(triples, WIDTH, COUNT)
    found = []
    for times, anew in ((1, True), (2, False), (2, True)):
        gradient, scores = np.zeros((COUNT, WIDTH), np.float32), np.zeros(COUNT, np.float32)
        squares = sums.add(times * given["features"], given["weights"], gradient, scores, anew=anew)
        found.append((squares, gradient.tobytes(), scores.tobytes()))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("far", "stages"), [(0.0, 3), (math.inf, 1)], ids=["far from the noise", "near it"])
def test_a_fit_computes_them_seldom_while_it_is_far_from_the_noise(
    monkeypatch: pytest.MonkeyPatch, far: float, stages: int
) -> None:
    """They are most of the work; columns and pairs have gradients of their own in every step."""
    taken: list[bool] = []
    add = triple_sums.TripleSums.add

    def added(self: Any, *given: Any, anew: bool = True) -> float:
        taken.append(anew)
        return add(self, *given, anew=anew)

    monkeypatch.setattr(triple_sums.TripleSums, "add", added)
    monkeypatch.setattr(mixture_fit, "FAR", far)
    monkeypatch.setattr(mixture_fit, "TARGET", 0.0)
    truth = planted(PLAIN)
    found = evidence(truth, [*sets_of(PLAIN, 2), *sets_of(PLAIN, 3)], 4.0, noise=2.0)
    mixture_fit.components(found, columns_of(truth, 4.0), count=8, stages=3)
    first = [step % mixture_fit.SELDOM == 0 for step in range(stages * mixture_fit.EACH)]
    assert taken[: len(first)] == first
    assert all(taken[len(first) :]) == (far > 0)
    assert taken[-1]  # the residual at the end
