"""Where randomness comes from: no seed, no shared state, no float noise; and the range of what is accepted."""

from __future__ import annotations

import ast
import inspect
import os
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from noise_checks import geometric

import maquette.curator
from maquette.curator import exact, noise
from maquette.curator.noise import ExactNoise, round_scale_up
from maquette.errors import BudgetError

CURATOR = Path(maquette.curator.__file__).parent
FORBIDDEN = {"random", "rvs", "default_rng", "RandomState", "Generator"}


def forbidden_randomness(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        else:
            continue
        found += [name for name in names if name in FORBIDDEN]
    return found


@pytest.mark.parametrize("path", sorted(CURATOR.rglob("*.py")), ids=lambda p: p.name)
def test_no_other_randomness_behind_the_wall(path: Any) -> None:
    assert forbidden_randomness(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy.random",
        "from numpy.random import laplace",
        "from numpy import random as r",
        "np.random.laplace()",
        "stats.laplace.rvs()",
        "x.default_rng(1)",
    ],
)
def test_the_lint_sees_other_randomness(source: Any) -> None:
    assert forbidden_randomness(source)


def test_there_is_no_seed() -> None:
    assert list(inspect.signature(ExactNoise).parameters) == []
    assert not vars(ExactNoise())
    draws = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        draws.append(ExactNoise().laplace(Fraction(10**9), 4).tolist())
    assert draws[0] != draws[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_draw_different_noise() -> None:
    source = ExactNoise()
    source.laplace(Fraction(10**9), 4)
    outputs = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, source.laplace(Fraction(10**9), 4).tobytes())
            finally:
                os._exit(0)
        os.close(writer)
        outputs.append(os.read(reader, 32))
        os.close(reader)
        os.waitpid(child, 0)
    parent = source.laplace(Fraction(10**9), 4).tobytes()
    assert all(len(o) == 32 for o in outputs)
    assert len({*outputs, parent}) == 3


def test_all_words_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(exact.os, "urandom", lambda n: asked.append(n) or urandom(n))
    ExactNoise().laplace(Fraction(10), 100)
    assert sum(asked) >= 800


@pytest.mark.parametrize("size", [0, 1, 2, 1000, noise._BLOCK + 1])
def test_sizes(size: Any) -> None:
    for values in (ExactNoise().laplace(Fraction(1, 2), size), ExactNoise().gaussian(Fraction(1, 2), size)):
        assert values.shape == (size,)
        assert values.dtype == np.int64


@pytest.mark.parametrize("scale", [Fraction(x) for x in (0, -1, 2.0**-31, 2**50 + 1, 10**400)])
def test_scales_out_of_range_are_refused_with_numbers(scale: Any) -> None:
    source, scores = ExactNoise(), np.zeros(2, dtype=np.int64)
    for draw in (
        lambda: source.laplace(scale, 1),
        lambda: source.exponential(scores, scale),
        lambda: source.permute_and_flip(scores, scale),
    ):
        with pytest.raises(BudgetError, match=r"out of range; expected between 2\^-30 and 2\^50"):
            draw()
    with pytest.raises(BudgetError, match="Gaussian variance"):
        source.gaussian(scale * abs(scale) - Fraction(scale == 0), 1)


def test_values_saturate_instead_of_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits zero is U = 0, an infinite magnitude: the value stops at 2^62 - 1 and never changes sign."""
    revealed = iter([0, 0, 0])
    monkeypatch.setattr(exact, "words", lambda count, dtype: np.full(count, next(revealed, 1), dtype=dtype))
    largest = noise._LARGEST
    assert geometric(np.array([0], dtype=np.uint64), Fraction(2**16), 100).tolist() == [100]
    assert largest + 2**34 < 2**63


@pytest.mark.parametrize("value", [1e-3, 0.1, 1 / 3, 1.0, 10.0, 12345.678, 1e12, Fraction(2, 3), Fraction(10**30, 7)])
def test_up_never_lowers_a_scale_and_adds_at_most_one_part_in_a_million(value: Any) -> None:
    rounded = round_scale_up(value)
    assert Fraction(value) <= rounded <= Fraction(value) * (1 + Fraction(1, 2**20))
    assert rounded.denominator & (rounded.denominator - 1) == 0
    assert round_scale_up(rounded) == rounded


def test_up_keeps_short_numbers() -> None:
    assert [round_scale_up(x) for x in (1.0, 0.5, 3.0, 40.0)] == [1, Fraction(1, 2), 3, 40]


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_up_refuses_what_is_not_a_scale(value: Any) -> None:
    with pytest.raises(BudgetError, match="positive finite"):
        round_scale_up(value)
