"""Noise of many scales drawn at once: the law of each is its own, exactly, and nothing is shared between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maquette.audit.reference import discrete_gaussian, discrete_laplace, goodness_of_fit
from maquette.curator import exact, noise
from maquette.curator.noise import ExactNoise
from maquette.errors import BudgetError

RARE = 1e-6
SOURCE = ExactNoise()
SCALES = [Fraction(7, 3), Fraction(2**40), Fraction(1, 2), Fraction(2**19, 3), Fraction(10)]
LAWS: dict[str, Callable[..., Any]] = {"laplaces": discrete_laplace, "gaussians": discrete_gaussian}
Draw = Callable[[Sequence[Fraction], Sequence[int]], list[np.ndarray]]


def each_follows_its_law(law: str, draw: Draw) -> None:
    """Two scales in turn, each value a draw of its own, beside draws of other sizes and scales."""
    pair, copies = [Fraction(7, 3), Fraction(6)], 60_000
    drawn = draw([*SCALES, *(pair * copies), Fraction(3)], [3] * len(SCALES) + [1] * (2 * copies) + [100_000])
    assert [len(values) for values in drawn[: len(SCALES)]] == [3] * len(SCALES)
    singles = np.concatenate(drawn[len(SCALES) : -1])
    for scale, values in zip([*pair, Fraction(3)], (singles[::2], singles[1::2], drawn[-1]), strict=True):
        reach = int(40 * scale) + 2
        counts = np.bincount(np.clip(values, -reach, reach) + reach, minlength=2 * reach + 1)
        assert goodness_of_fit(counts, LAWS[law](np.arange(-reach, reach + 1), float(scale))) > RARE
    both = np.corrcoef(singles[::2], singles[1::2])[0, 1]
    assert abs(both) < 5 / np.sqrt(copies), "the draws of one call depend on each other"


def as_exact_arithmetic_has_it(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same words, floats and exact arithmetic come to the same values, whichever scale a word is for."""
    sizes = [2, 3, 1, 2, 4]

    def drawn(slack: float) -> list[list[int]]:
        rng = np.random.default_rng(7)
        with monkeypatch.context() as patch:
            patch.setattr(noise, "words", lambda count, dtype: rng.integers(0, np.iinfo(dtype).max, count, dtype=dtype))
            patch.setattr(exact, "words", lambda *_: pytest.fail("these words need no further bits"))
            patch.setattr(noise, "_SLACK", slack)
            return [values.tolist() for values in getattr(SOURCE, law)(SCALES, sizes)]

    assert drawn(noise._SLACK) == drawn(1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("law", LAWS)
def test_each_of_many_scales_has_its_law(law: str) -> None:
    each_follows_its_law(law, getattr(SOURCE, law))


@pytest.mark.parametrize("law", LAWS)
def test_draws_that_floats_leave_open_are_settled_at_their_own_scale(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_exact_arithmetic_has_it(law, monkeypatch)


@pytest.mark.parametrize("law", LAWS)
def test_many_scales_of_one_draw_each_are_one_look_at_the_randomness(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    words = noise.words
    monkeypatch.setattr(noise, "words", lambda count, dtype: asked.append(count) or words(count, dtype))
    for scales in ([Fraction(5)], [Fraction(5), Fraction(7), Fraction(9, 2)] * 10):
        asked.clear()
        drawn = getattr(SOURCE, law)(scales, [1] * len(scales))
        assert [len(values) for values in drawn] == [1] * len(scales)
        assert len(asked) <= 6  # at most thrice the two looks: a miss of nine proposals is rare


def test_sizes_and_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_BLOCK", 64)
    sizes = [0, 1, 1000, 0, 63, 65]
    for law in LAWS:
        drawn = getattr(SOURCE, law)([Fraction(3)] * 6, sizes)
        assert [(len(values), values.dtype) for values in drawn] == [(size, np.int64) for size in sizes]
        assert getattr(SOURCE, law)([], []) == []
        with pytest.raises(BudgetError, match="out of range"):
            getattr(SOURCE, law)([Fraction(3), Fraction(0)], [1, 1])


def _one_scale_for_all(law: str) -> Draw:
    return lambda scales, sizes: getattr(SOURCE, law)([scales[0]] * len(scales), sizes)


def _neighbours_share(law: str) -> Draw:
    def draw(scales: Sequence[Fraction], sizes: Sequence[int]) -> list[np.ndarray]:
        drawn = getattr(SOURCE, law)(scales, sizes)
        for i in range(len(SCALES) + 1, len(drawn) - 1, 20):
            drawn[i] = drawn[i - 1]
        return drawn

    return draw


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mutant", [_one_scale_for_all, _neighbours_share])
@pytest.mark.parametrize("law", LAWS)
def test_a_broken_draw_of_many_is_killed(mutant: Callable[[str], Draw], law: str) -> None:
    with pytest.raises(AssertionError):
        each_follows_its_law(law, mutant(law))


@pytest.mark.parametrize("law", LAWS)
def test_exact_arithmetic_at_the_scale_of_another_is_killed(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise._Each, "__getitem__", lambda self, draw: self.exact[0])
    with pytest.raises(AssertionError):
        as_exact_arithmetic_has_it(law, monkeypatch)
