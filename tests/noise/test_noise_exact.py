"""The float filter and the exact arithmetic behind it give the same answer, and the right one at the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from noise_checks import geometric

from maquette.curator import exact, noise
from maquette.curator.exact import Uniform, below, floor_log

EXPONENTS = [Fraction(1, 10**9), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(40), Fraction(10**15, 7)]
SCALES = [Fraction(1, 1000), Fraction(1, 2), Fraction(10), Fraction(12345, 67), Fraction(2**17 - 1)]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mpmath.workdps(300):
        yield


def threshold_word(exponent: Fraction, bits: int) -> int:
    return int(mpmath.floor(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**bits))


def boundary_word(scale: Fraction, m: int, bits: int) -> int:
    return threshold_word(m / scale, bits)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("bits", [32, 63, 64])
def test_a_word_off_the_threshold_decides_and_the_word_on_it_asks_for_more_bits(
    exponent: Any, bits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = threshold_word(exponent, bits)
    asked: list[int] = []
    drawn = [0]

    def scripted(count: int, dtype: type) -> np.ndarray:
        asked.append(count)
        return np.array(drawn, dtype=dtype)

    monkeypatch.setattr(exact, "words", scripted)
    drawn[0] = 2**64 - 1
    if word > 0:
        assert below(Uniform(word - 1, bits), Fraction(1), exponent)
    if word + 1 < 2**bits:
        assert not below(Uniform(word + 1, bits), Fraction(1), exponent)
    assert asked == []
    assert not below(Uniform(word, bits), Fraction(1), exponent)
    assert asked
    if exponent < 1000:
        drawn[0] = 0
        assert below(Uniform(word, bits), Fraction(1), exponent)


def test_a_certain_coin_is_certain_without_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "words", lambda *_: pytest.fail("asked for bits"))
    assert below(Uniform(2**64 - 1, 64), Fraction(1), Fraction(0))


def test_impossible_looking_events_stay_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(-5000) is positive: U below it must be accepted, where a float would say zero."""
    assert below(Uniform(0, 8000), Fraction(1), Fraction(5000))
    assert not below(Uniform(1, 7000), Fraction(1), Fraction(5000))
    monkeypatch.setattr(exact, "words", lambda count, dtype: np.ones(count, dtype=dtype))
    assert not below(Uniform(0, 64), Fraction(1), Fraction(10**20))


@pytest.mark.parametrize("scale", SCALES)
def test_floor_log_changes_exactly_at_exp_of_minus_m_over_scale(scale: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "words", lambda *_: pytest.fail("asked for bits"))
    for m in (1, 2, 7, 20):
        word = boundary_word(scale, m, 400)
        if word > 0:
            assert floor_log(Uniform(word - 1, 400), scale) == m
            assert floor_log(Uniform(word + 1, 400), scale) == m - 1


def test_floor_log_reveals_bits_while_it_straddles(monkeypatch: pytest.MonkeyPatch) -> None:
    word = boundary_word(Fraction(10), 5, 63)
    for fill, expected in ((0, 5), (2**64 - 1, 4)):
        monkeypatch.setattr(exact, "words", lambda count, dtype, fill=fill: np.full(count, fill, dtype=dtype))
        assert floor_log(Uniform(word, 63), Fraction(10)) == expected


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("scale", SCALES)
def test_the_float_filter_agrees_with_exact_arithmetic(scale: Any) -> None:
    rng = np.random.default_rng(1)
    near = [max(0, boundary_word(scale, m, 63) + offset) for m in range(1, 40) for offset in (-2, -1, 1, 2)]
    draws = np.concatenate([rng.integers(0, 2**63, 300, dtype=np.uint64), np.array(near, dtype=np.uint64)])
    draws = draws[draws > 0]
    filtered = geometric(draws, scale)
    assert [floor_log(Uniform(int(d), 63), scale) for d in draws] == filtered.tolist()


def test_coins_near_their_threshold_agree_with_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    exponents = [Fraction(i, 37) for i in range(200)]
    words = [[min(2**32 - 1, max(0, threshold_word(x, 32) + o)) for x in exponents] for o in (-2, -1, 1, 2)]
    for row in words:
        monkeypatch.setattr(noise, "words", lambda count, dtype, row=row: np.array(row, dtype=dtype))
        coins = noise._coins(np.array([float(x) for x in exponents]), lambda i: exponents[i])
        assert coins.tolist() == [below(Uniform(w, 32), Fraction(1), x) for w, x in zip(row, exponents, strict=True)]


def test_unsure_draws_go_to_exact_arithmetic_with_the_bits_already_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deliberately useless filter (everything unsure) leaves the answers unchanged."""
    draws = np.random.default_rng(2).integers(2**50, 2**63, 200, dtype=np.uint64)
    expected = geometric(draws, Fraction(100))
    monkeypatch.setattr(noise, "_SLACK", 1.0)
    monkeypatch.setattr(exact, "words", lambda *_: pytest.fail("these words need no further bits"))
    assert geometric(draws, Fraction(100)).tolist() == expected.tolist()


def test_the_filter_refuses_to_decide_inside_its_error_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving a word across a boundary by one unit is below float precision at large scales: exact must be called."""
    calls: list[int] = []
    monkeypatch.setattr(noise, "floor_log", lambda u, s: calls.append(u.low) or floor_log(u, s))
    word = boundary_word(Fraction(2**17 - 1), 50_000, 63)
    result = geometric(np.array([word - 1, word + 1], dtype=np.uint64), Fraction(2**17 - 1))
    assert result.tolist() == [50_000, 49_999]
    assert len(calls) == 2


def test_the_integer_cover_of_the_exponential_mechanism_is_never_below_the_true_weight() -> None:
    """The acceptance probability must be at most one for every candidate, or the law would be bent."""
    scale = Fraction(997, 13)
    deficits = np.concatenate([np.arange(0, 60_000, 7), [10**9, 10**15]])
    weights = np.ldexp(np.exp(-noise._ratio(deficits, scale)), 40).astype(np.int64) + 2
    for d, w in zip(deficits[::50], weights[::50], strict=True):
        assert int(w) >= mpmath.exp(-int(d) * mpmath.mpf(scale.denominator) / scale.numerator) * 2**40
    assert weights[-1] == 2


@pytest.mark.parametrize("digits", [20, 41, 62])
def test_enclosures_of_exp_and_ln_hold_the_truth_and_are_narrow(digits: Any) -> None:
    """The truth to 200 digits; an enclosure of `digits` digits holds it, and is no wider than it needs to be."""
    far = Context(prec=200, Emin=MIN_EMIN, Emax=MAX_EMAX)
    for numerator in (1, 3, 2**40 + 1, 2**63 - 25, 2**64 - 1):
        low, high = exact._log_bounds(numerator, 64, digits)
        truth = 64 * Fraction(far.ln(Decimal(2))) - Fraction(far.ln(Decimal(numerator)))
        assert low < truth < high
        assert high - low <= Fraction(64 * 200, 10**digits)
    for exponent in (Fraction(1, 3), Fraction(7), Fraction(10**6, 7), Fraction(1, 10**30)):
        low, high = exact._exp_bounds(exponent, digits)
        truth = Fraction(far.exp(far.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))))
        assert low < truth < high
        assert exponent > 64 * digits or high - low <= truth * (1 + exponent) * Fraction(4, 10 ** (digits - 1))
    assert exact._exp_bounds(Fraction(0), digits) == (Fraction(1), Fraction(1))


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(2**17 - 1)])
def test_every_draw_below_2_to_the_46_is_settled_by_exact_arithmetic(
    scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(noise, "floor_log", lambda u, s: calls.append(u.low) or floor_log(u, s))
    far = [0, 1, 2, 3, 100, 2**20, 2**40 + 7, 2**45, 2**46 - 1]
    geometric(np.array(far, dtype=np.uint64), scale)
    assert calls == far
