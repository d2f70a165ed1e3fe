"""Published constants that fail: each test substitutes the printed one into the proof and shows where it breaks."""

from __future__ import annotations

import math
from functools import partial

import pytest

from maquette.audit.reference import laplace_tail
from maquette.theory import composition, offline, online, updates
from maquette.theory.selection import exponential_error
from maquette.theory.solve import fixed_point

ROWS, UNIVERSE, QUERIES, EPSILON, DELTA, BETA = 10**6, 2**10, 1000, 1.0, 1e-9, 0.05
BOOK = partial(updates.multiplicative_weights_book, UNIVERSE)


def _requirement(alpha: float, delta: float) -> float:
    rounds = BOOK(alpha / 2)
    each = offline.book_round_epsilon(rounds=rounds, epsilon=EPSILON, delta=delta)
    return offline.book_requirement(rounds=rounds, queries=QUERIES, round_epsilon=each, rows=ROWS, beta=BETA)


def _theorem_5_7(constant: float, delta: float) -> float:
    """The fixed point of theorem 5.7 with a given constant in front."""

    def statement(alpha: float) -> float:
        rounds = BOOK(alpha / 2)
        growth = rounds if delta == 0 else math.sqrt(rounds * math.log(1 / delta))
        return constant * growth / (ROWS * EPSILON) * math.log(2 * rounds * QUERIES / BETA)

    return fixed_point(statement)


@pytest.mark.parametrize(("delta", "printed", "corrected"), [(0.0, 8, 32), (DELTA, 16, 64)])
def test_theorem_5_7_needs_four_times_its_printed_constants(delta: float, printed: int, corrected: int) -> None:
    claimed = _theorem_5_7(printed, delta)
    assert _requirement(claimed, delta) == pytest.approx(4 * claimed)
    proven = _theorem_5_7(corrected, delta)
    assert _requirement(proven, delta) == pytest.approx(proven)
    ours = offline.book(updates=BOOK, queries=QUERIES, epsilon=EPSILON, delta=delta, rows=ROWS, beta=BETA)
    assert ours == pytest.approx(proven, rel=1e-12)


@pytest.mark.parametrize(("queries", "probability"), [(1000, 0.80), (10**6, 0.13)])
def test_numeric_answers_miss_the_printed_accuracy_of_theorem_3_28(queries: int, probability: float) -> None:
    hits = 1000
    scale = online.resampled_approximate(hits=hits, epsilon=EPSILON, delta=DELTA).answer / ROWS
    unit = (math.sqrt(512) + 1) * math.sqrt(hits * math.log(2 / DELTA)) / (EPSILON * ROWS)
    printed = unit * (math.log(queries) + math.log(4 * hits / BETA))
    corrected = online.numeric_sparse_accuracy(
        hits=hits, queries=queries, epsilon=EPSILON, delta=DELTA, rows=ROWS, beta=BETA
    )

    def some_answer_misses(alpha: float) -> float:
        return -math.expm1(hits * math.log1p(-math.exp(-alpha / scale)))

    assert some_answer_misses(printed) == pytest.approx(probability, abs=0.006)
    assert some_answer_misses(printed) > 5 * BETA / 2
    assert some_answer_misses(corrected) <= BETA / 2


def _stopping_error(alpha: float, queries: int) -> float:
    """What a stop proves: threshold 3 alpha/4, plus the measurement noise, plus the error of the selection."""
    rounds = BOOK(alpha / 2)
    each = offline.book_round_epsilon(rounds=rounds, epsilon=EPSILON, delta=0.0)
    measured = math.log(2 * rounds / BETA) / (each * ROWS)
    selected = exponential_error(candidates=queries, epsilon=each, gamma=BETA / (2 * rounds), rows=ROWS)
    return 0.75 * alpha + measured + selected


def _lecture_theorem_4(queries: int) -> float:
    def statement(alpha: float) -> float:
        rounds = BOOK(alpha / 2)
        each = offline.book_round_epsilon(rounds=rounds, epsilon=EPSILON, delta=0.0)
        selected = exponential_error(candidates=queries, epsilon=each, gamma=BETA / (2 * rounds), rows=ROWS)
        return max(4 * math.log(2 * rounds / BETA) / (each * ROWS), 2 * selected)

    return fixed_point(statement)


def test_lecture_theorem_4_proves_only_three_halves_of_its_alpha() -> None:
    claimed = _lecture_theorem_4(queries=1)
    assert _stopping_error(claimed, queries=1) == pytest.approx(1.5 * claimed)
    claimed = _lecture_theorem_4(QUERIES)
    assert _stopping_error(claimed, QUERIES) > 1.25 * claimed
    corrected = offline.book(updates=BOOK, queries=QUERIES, epsilon=EPSILON, delta=0.0, rows=ROWS, beta=BETA)
    assert _stopping_error(corrected, QUERIES) <= corrected


def test_natural_logarithm_is_too_few_updates_for_the_median() -> None:
    # Eight databases that answer one query 0, 1/8, .. 7/8, and an adversary who always points above the lower median.
    alive, halvings = list(range(8)), 0
    while len(alive) > 1:
        alive = alive[(len(alive) - 1) // 2 + 1 :]
        halvings += 1
    assert math.floor(math.log(8)) < halvings == updates.median(math.log(8))


def test_theorem_5_3_fails_for_a_large_epsilon_and_ours_does_not() -> None:
    epsilon, delta, rounds = 100.0, 1e-2, 1000
    printed = epsilon / (4 * math.sqrt(rounds * math.log(1 / delta)))
    assert composition.optimal(accesses=2 * rounds, epsilon=printed, delta=delta) > 1.2 * epsilon
    ours = offline.book_round_epsilon(rounds=rounds, epsilon=epsilon, delta=delta)
    assert composition.advanced(accesses=2 * rounds, epsilon=ours, delta=delta) <= 1.0


def test_silence_without_threshold_noise_has_no_pure_bound() -> None:
    scale, tests = 10.0, 100
    near, far = laplace_tail([50, 51], scale)  # probabilities that a statistic that far above stays silent
    silence = tests * math.log(near / far)
    assert silence == pytest.approx(10.0)  # and it grows with the number of tests, which are not paid for
    assert silence > online.lazy_epsilon(hits=1, rate=1 / scale, delta=DELTA)
    assert tests * math.log(near) < math.log(DELTA)  # so rare a transcript is what delta covers
