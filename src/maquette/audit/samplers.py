"""L4: samplers against their distributions, by many draws, and by scripted random words where draws are too slow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from maquette.audit.reference.laws import discrete_gaussian, discrete_laplace, exponential_law, permute_and_flip_law
from maquette.audit.reference.statistics import goodness_of_fit
from maquette.curator import ExactNoise

RARE = 1e-7  # p-value below which a sample fails
SCALES = (Fraction(1, 2), Fraction(7, 3), Fraction(40))


def check_laws(draws: int = 200_000) -> int:
    """Discrete Laplace and Gaussian values, and both selections, by chi-square."""
    source = ExactNoise()
    for scale in SCALES:
        reach = int(12 * scale) + 8
        support = np.arange(-reach, reach + 1)
        for kind, values, law in (
            ("Laplace", source.laplace(scale, draws), discrete_laplace(support, float(scale))),
            ("Gaussian", source.gaussian(scale, draws), discrete_gaussian(support, float(scale))),
        ):
            inside = np.abs(values) <= reach
            counts = np.bincount(values[inside] + reach, minlength=len(support))
            counts = np.append(counts, (~inside).sum())
            p = goodness_of_fit(counts, np.append(law, max(0.0, 1 - law.sum())))
            assert p > RARE, f"{kind} noise of {scale}: p = {p:.1e}"
    scores = np.array([0, 0, 3, 5, 5, -2], dtype=np.int64)
    for kind, choose, law_of in (
        ("exponential mechanism", source.exponential, exponential_law),
        ("permute-and-flip", source.permute_and_flip, permute_and_flip_law),
    ):
        chosen = np.bincount([choose(scores, SCALES[1]) for _ in range(draws // 40)], minlength=len(scores))
        p = goodness_of_fit(chosen, law_of(scores, float(SCALES[1])))
        assert p > RARE, f"{kind}: p = {p:.1e}"
    return 2 * len(SCALES) * draws + 2 * (draws // 40)


def check_large_scales(draws: int = 100_000) -> None:
    """Scales too large to count every value: magnitude, sign and low bits."""
    for scale in (Fraction(2**18), Fraction(2**30 + 1)):
        values = ExactNoise().laplace(scale, draws)
        mean = float(np.abs(values).mean()) / float(scale)
        assert abs(mean - 1) < 6 / np.sqrt(draws), f"scale {scale}: mean magnitude {mean}"
        assert abs(float((values > 0).mean()) - 0.5) < 3 / np.sqrt(draws), f"scale {scale}: signs"
        assert goodness_of_fit(np.bincount(values & 15, minlength=16), np.full(16, 1 / 16)) > RARE


@contextmanager
def _words(first: list[int], rest: int, more: int) -> Iterator[None]:
    """Scripted random words: the first call gets `first` (then words that make large values), later calls get `rest`.

    `more` are the further bits that an exact decision requests; coins always show heads.
    """
    calls = iter(range(1_000))

    def words(count: int, dtype: Any) -> np.ndarray:
        if dtype is np.uint32:
            return np.zeros(count, dtype=dtype)
        drawn = np.full(count, rest, dtype=np.uint64)
        if next(calls) == 0:
            drawn[:] = 2**60
            drawn[: len(first)] = first
        return drawn

    def bits(count: int, dtype: Any) -> np.ndarray:
        return np.full(count, more, dtype=dtype)

    noise, exact = (importlib.import_module(f"maquette.curator.{name}") for name in ("noise", "exact"))
    with mock.patch.object(noise, "words", words), mock.patch.object(exact, "words", bits):
        yield


def check_minus_zero() -> None:
    """Minus zero is rejected at every scale: otherwise zero would be twice as likely as it should be."""
    minus_zero = 2**64 - 1  # the lowest bit is the sign; the others give magnitude 0
    for scale in (Fraction(3), Fraction(2**16), Fraction(2**17 + 1), Fraction(2**20), Fraction(2**40)):
        with _words([minus_zero], rest=0, more=2**64 - 1):
            value = int(ExactNoise().laplace(scale, 1)[0])
        assert value != 0, f"scale {scale}: minus zero was taken for a draw of zero"


def check_far_tail() -> None:
    """A draw in the far tail requests further bits: two draws with equal first bits may be far apart."""
    for scale in (Fraction(1000), Fraction(10**6)):
        found = []
        for more in (0, 2**64 - 1):
            with _words([2], rest=0, more=more):  # the uniform number lies in [1, 2) / 2^63
                found.append(int(ExactNoise().laplace(scale, 1)[0]))
        apart = (found[0] - found[1]) / float(scale)
        assert abs(apart - np.log(2)) < 0.1, f"scale {scale}: the far tail is decided without its further bits"


def check_nothing_shared() -> None:
    """Two draws never repeat: no seed, no state."""
    one, two = (ExactNoise().laplace(Fraction(2**40), 50) for _ in range(2))
    assert len(np.unique(np.concatenate([one, two]))) == 100, "draws repeat"


CHECKS: tuple[Callable[[], Any], ...] = (
    check_laws,
    check_large_scales,
    check_minus_zero,
    check_far_tail,
    check_nothing_shared,
)
