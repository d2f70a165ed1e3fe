"""Exponential mechanism and permute-and-flip: exact law, exact privacy loss, int64 extremes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import noise_checks as checks
import numpy as np
import pytest

from maquette.audit.reference import exponential_law, goodness_of_fit, permute_and_flip_law
from maquette.curator import exact, noise
from maquette.curator.noise import ExactNoise

SOURCE = ExactNoise()
SCORES = [[0, 1, 3], [4, 4, 4], [0, 0, 0, 7, 9], [-5, 10, 2, 10, 8, 9]]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("scores", SCORES)
def test_exponential_mechanism_law(scores: Any) -> None:
    checks.selection_follows_its_law(SOURCE.exponential, exponential_law, scores, Fraction(7, 3), 8_000)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("scores", SCORES)
def test_permute_and_flip_law(scores: Any) -> None:
    checks.selection_follows_its_law(SOURCE.permute_and_flip, permute_and_flip_law, scores, Fraction(7, 3), 8_000)


def test_adding_a_constant_to_all_scores_changes_nothing() -> None:
    shifted = [score + 10**15 for score in SCORES[0]]
    checks.selection_follows_its_law(SOURCE.exponential, exponential_law, shifted, Fraction(7, 3), 3_000)
    checks.selection_follows_its_law(SOURCE.permute_and_flip, permute_and_flip_law, shifted, Fraction(7, 3), 3_000)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("select", [SOURCE.exponential, SOURCE.permute_and_flip])
def test_selection_across_blocks(select: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_BLOCK", 3)
    scores = np.array([9, 0, 9, 9, 0, 0, 9, 0], dtype=np.int64)
    counts = np.bincount([select(scores, Fraction(1, 10)) for _ in range(3_000)], minlength=8)
    assert goodness_of_fit(counts, np.where(scores == 9, 0.25, 0)) > checks.RARE


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(
    ("epsilon", "em", "pf"),
    [(0.5, (0.422, 0.500, 0.0311), (0.500, 0.840, 0.0805)), (1, (0.935, 1.00, 0.1233), (1.00, 1.63, 0.3054)),
     (2, (1.98, 2.00, 0.474), (2.00, 2.97, 0.935))],
)  # fmt: skip
def test_exact_privacy_loss_of_selection(epsilon: Any, em: Any, pf: Any) -> None:
    measured = checks.selection_losses(exponential_law, 2 / epsilon)
    assert measured == pytest.approx(em, rel=5e-3)
    assert measured[0] <= epsilon * (1 + 1e-9)
    assert measured[1] <= epsilon * (1 + 1e-9)
    assert measured[2] <= epsilon**2 / 8
    measured = checks.selection_losses(permute_and_flip_law, 2 / epsilon)
    assert measured == pytest.approx(pf, rel=5e-3)
    assert measured[0] <= epsilon * (1 + 1e-9)
    assert measured[2] <= epsilon**2 / 2


@pytest.mark.thorough
def test_same_choice_as_opendp_gumbel() -> None:
    import opendp.prelude as dp

    scores, draws = np.array([0, 3, 5, 9], dtype=np.int64), 3_000
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = dp.m.make_noisy_max(domain, dp.linf_distance(T="i64"), dp.zero_concentrated_divergence(), 4.0)
    counts = np.bincount([theirs(scores.tolist()) for _ in range(draws)], minlength=4)
    dp.disable_features("contrib")
    assert goodness_of_fit(counts, exponential_law(scores, 4.0)) > checks.RARE
    checks.selection_follows_its_law(SOURCE.exponential, exponential_law, scores.tolist(), Fraction(4), draws)


def test_differences_beyond_int64_do_not_wrap() -> None:
    low, high = -(2**63), 2**63 - 1
    for scores, winner in (([low, high], 1), ([high, low, low], 0), ([low, low + 1], None)):
        vector = np.array(scores, dtype=np.int64)
        for select in (SOURCE.exponential, SOURCE.permute_and_flip):
            assert select(vector, Fraction(10)) in ((winner,) if winner is not None else (0, 1))


def test_every_candidate_stays_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of exp(-2000), zero in any float, is still chosen by the bits that choose it."""
    monkeypatch.setattr(noise.secrets, "randbelow", lambda _: 0)
    monkeypatch.setattr(exact, "words", lambda count, dtype: np.zeros(count, dtype=dtype))
    assert SOURCE.exponential(np.array([0, 2000], dtype=np.int64), Fraction(1)) == 0


def test_a_million_candidates_with_one_clear_winner() -> None:
    scores = np.zeros(1_000_000, dtype=np.int64)
    scores[777_777] = 10**15
    assert SOURCE.exponential(scores, Fraction(10**12)) == 777_777
    assert SOURCE.permute_and_flip(scores, Fraction(10**12)) == 777_777


@pytest.mark.parametrize("bad", [np.array([0.5, 1.0]), np.array([], dtype=np.int64), np.zeros((2, 2), dtype=np.int64)])
def test_scores_that_are_not_integers_are_refused(bad: Any) -> None:
    for select in (SOURCE.exponential, SOURCE.permute_and_flip):
        with pytest.raises(TypeError, match="expected a non-empty vector of int64"):
            select(bad, Fraction(1))
