"""L1, L2 and L3: every noise vector against the reference, exact epsilon of tiny instances, epsilon from samples."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import log
from typing import Any

import pytest
import sparse_vector_checks as checks
from sparse_vector_checks import FORMS, Subject

from maquette.audit.reference import (
    GuardNoise,
    ScriptedNoise,
    ScriptExhausted,
    epsilon_lower_bound,
    pattern_probabilities,
    patterns,
)
from maquette.curator.noise import ExactNoise
from maquette.curator.sparse_vector import SparseVector, resampled

SOUND = Subject()


def loss(guard: GuardNoise, pattern: Any, stream: Any, change: Any) -> float:
    moved = [value + d for value, d in zip(stream, change, strict=True)]
    p, q = (pattern_probabilities(guard, pattern, [[v] for v in s]).item() for s in (stream, moved))
    return abs(log(p / q))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("hits", "runs"), [(1, 2_000), (2, 20_000)])
def test_transcript_and_scales_equal_the_reference_on_every_noise_vector(hits: Any, runs: Any) -> None:
    assert checks.matches_the_reference_on_every_noise(SOUND, hits=hits) > runs


@pytest.mark.thorough(fast=12)
@pytest.mark.parametrize("form", ["resampled", "unresampled"])
@pytest.mark.parametrize("numeric", [False, True])
@pytest.mark.parametrize("hits", [1, 2, 3])
def test_exact_epsilon_is_at_most_the_claim(form: Any, numeric: Any, hits: Any) -> None:
    checks.keeps_its_epsilon(SOUND, form, hits=hits, numeric=numeric)


@pytest.mark.parametrize("form", ["resampled", "unresampled"])
def test_exact_epsilon_with_sensitivity_two_and_six_queries(form: Any) -> None:
    checks.keeps_its_epsilon(SOUND, form, hits=2, sensitivity=2, length=4, values=(-16, 0, 18))
    checks.keeps_its_epsilon(SOUND, form, hits=2, length=6, values=(-8, 9))


@pytest.mark.parametrize("hits", [1, 2, 5])
def test_exact_cost_of_the_zcdp_form_is_at_most_the_claim_and_nearly_reaches_it(hits: Any) -> None:
    tests, answers = checks.keeps_its_rho(SOUND, hits=hits)
    assert tests > 0.9 * 0.45
    assert answers > 0.99 * 0.05


def test_one_hit_is_tight() -> None:
    """80 easy queries near the threshold and one hit: the claim of one is reached, so the noise is not wasteful."""
    guard = checks.guard_of(resampled(epsilon=1, hits=1))
    pattern, change = [False] * 80 + [True], [1] * 80 + [-1]
    reached = max(loss(guard, pattern, [v] * 80 + [w], change) for v, w in product((0, 10, 20), (-60, -30, 0)))
    assert 0.999 < reached <= 1 + 1e-9


STREAMS = [(0, 0, 0), (1, 1, 1), (-3, -3, 5), (4, -4, 4), (-6, -6, -6), (6, 6, 6), (-8, -8, 9)]


@pytest.mark.parametrize(("query_scale", "expected"), [(4.0, 0.63), (2.0, 1.21)])
def test_above_threshold_on_the_streams_of_the_theory(query_scale: Any, expected: Any) -> None:
    guard = GuardNoise(1, 2.0, query_scale, refreshed=True)
    worst = max(
        loss(guard, pattern, stream[: len(pattern)], change)
        for stream in STREAMS
        for pattern in patterns(3, 1)
        for change in product((-1, 0, 1), repeat=len(pattern))
    )
    assert worst == pytest.approx(expected, abs=5e-3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("hits", "equal", "optimal", "ignored"), [(2, 0.63, 0.89, 1.25), (3, 0.50, 0.77, 1.50), (5, 0.40, 0.64, 1.97)]
)
def test_one_threshold_for_all_hits_on_the_streams_of_the_theory(
    hits: Any, equal: Any, optimal: Any, ignored: Any
) -> None:
    pattern = [False] * 3 + [True] * hits
    values = (-30, -12, -6, -3, 0, 3, 6, 12, 30)

    def worst(threshold_scale: float, query_scale: float) -> float:
        guard = GuardNoise(hits, threshold_scale, query_scale, refreshed=False)
        return max(
            loss(guard, pattern, [a] * 3 + [b] * hits, [s] * 3 + [t] * hits)
            for a, b, s, t in product(values, values, (-1, 0, 1), (-1, 0, 1))
        )

    share = (2 * hits) ** (2 / 3)
    assert worst(2, 4 * hits) == pytest.approx(equal, abs=6e-3)
    assert worst(1 + share, 2 * hits * (1 + share) / share) == pytest.approx(optimal, abs=6e-3)
    assert worst(2, 4) == pytest.approx(ignored, abs=6e-3)


@pytest.mark.parametrize("queries", [10, 100])
def test_no_threshold_noise_loses_with_every_easy_query(queries: Any) -> None:
    guard = GuardNoise(1, None, 10.0, refreshed=True)
    assert loss(guard, [False] * queries, [60] * queries, [1] * queries) == pytest.approx(queries / 10, rel=1e-2)


def test_no_query_noise_has_infinite_loss() -> None:
    guard = GuardNoise(1, 2.0, None, refreshed=True)
    assert pattern_probabilities(guard, [False, True], [[0], [1]]).item() > 0.1
    assert pattern_probabilities(guard, [False, True], [[1], [1]]).item() == 0


@pytest.mark.parametrize("form", FORMS)
def test_pattern_probabilities_sum_to_one(form: Any) -> None:
    guard = checks.guard_of(checks.settings_of(form, 1, hits=2))
    stream = [[3], [-2], [0], [5]]
    total = sum(pattern_probabilities(guard, p, stream[: len(p)]).item() for p in patterns(4, 2))
    assert total == pytest.approx(1, abs=1e-12)


class Prefetched:
    """Production noise fetched in bulk, so that many short runs are affordable."""

    def __init__(self) -> None:
        self._stock: dict[Fraction, list[int]] = {}

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        stock = self._stock.setdefault(scale, [])
        if not stock:
            stock.extend(ExactNoise().laplace(scale, 50_000).tolist())
        return [stock.pop()]


def test_sampled_epsilon_stays_below_the_exact_one_and_the_exact_one_is_found() -> None:
    """L3 on a telling and likely event of a one-hit guard: no hit in five tests just below the threshold."""
    trials, stream, change = 40_000, [-2] * 5, [1] * 5
    settings, pattern = resampled(epsilon=1, hits=1), [False] * 5
    exact = loss(checks.guard_of(settings), pattern, stream, change)
    noise: Any = Prefetched()
    seen: list[int] = []
    for values in (stream, [v + d for v, d in zip(stream, change, strict=True)]):
        runs = (checks.run(SparseVector(settings, 0, noise), [(v, v) for v in values]) for _ in range(trials))
        seen.append(sum(all(not above for above, _ in outcomes) for outcomes in runs))
    bound = epsilon_lower_bound(seen[0], seen[1], trials)
    assert 0.4 * exact < bound <= exact <= 1


def test_a_script_too_short_says_so() -> None:
    noise = ScriptedNoise([1])
    with pytest.raises(ScriptExhausted, match="0 of 1 were left"):
        noise.laplace(Fraction(1), 1), noise.gaussian(Fraction(2), 3)
    assert [tuple(call) for call in noise.calls] == [("laplace", 1, 1), ("gaussian", 2, 3)]
