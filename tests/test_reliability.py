"""The page of figures is what the recorded figures say; the scripts behind it see broken doors and broken noise."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import grids  # noqa: E402
import recording  # noqa: E402
import reliability  # noqa: E402
import sampled  # noqa: E402
from maquette.curator.sparse_vector import SparseVector  # noqa: E402
from maquette.privacy.pure import PureAccountant  # noqa: E402


def test_the_page_is_what_the_figures_say() -> None:
    written = reliability.PAGE.read_text(encoding="utf-8")
    assert written == reliability.page(recording.recorded()), "run `python benchmarks/reliability.py`"


def test_records_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "results" / "figures.json"
    recording.record("one", {"runs": 3}, path)
    recording.record("two", {"runs": 4}, path)
    recording.record("one", {"runs": 5}, path)
    assert {name: each["runs"] for name, each in recording.recorded(path).items()} == {"one": 5, "two": 4}
    assert "version" in recording.recorded(path)["one"]
    text = reliability.page(recording.recorded(path))
    assert "| one |  | runs 5 |" in text
    assert reliability.MISSING in text


def _some(family: Callable[[], Iterable[Callable[[], Any]]], count: int) -> list[bool]:
    return [run()[0] for run in itertools.islice(family(), count)]


@pytest.mark.thorough
def test_every_family_of_grids_agrees_on_its_first_runs() -> None:
    for family in grids.FAMILIES:
        agreed = _some(family, 60)
        assert agreed
        assert all(agreed), family.__name__


def test_grids_see_broken_doors() -> None:
    draw = SparseVector._draw_threshold
    with mock.patch.object(SparseVector, "_draw_threshold", lambda self: min(draw(self), self.threshold)):
        assert not all(_some(grids.sparse_vectors, 16_000))
    scale = PureAccountant.laplace_scale
    with mock.patch.object(PureAccountant, "laplace_scale", lambda *given: scale(*given) / 2):
        assert not any(_some(grids.measurements, 13))


@pytest.mark.thorough
def test_samples_stay_below_the_exact_epsilon_and_see_too_little_noise() -> None:
    pair = sampled._selection("exponential", 1.0)
    sound = sampled.audited(pair, 20_000)
    assert not sound["violated"]
    assert 0.5 < sound["exact"] <= 1.0
    power = sound["caught_if_noise_is_short_by"]
    assert power is not None
    exponentials = sampled.NOISE.exponentials
    with mock.patch.object(
        sampled.ExactNoise, "exponentials", lambda _, s, scale, n: exponentials(s, scale * 2 / 5, n)
    ):
        assert sampled.audited(pair, 20_000)["violated"]


def test_events_of_samples_are_of_every_kind() -> None:
    found = sampled.events(sampled._selection("exponential", 1.0))
    assert len(found) == 4 + 2 * 2 + 2
    assert all(isinstance(event, np.ndarray) and 0 < event.sum() < 4 for event in found)


def test_every_recorded_survivor_is_on_the_page() -> None:
    figures = recording.recorded()["mutation"]
    page = (ROOT / "docs" / "theory" / "survivors.md").read_text(encoding="utf-8").splitlines()
    for path, file in figures["files"].items():
        listed = "\n".join(line for line in page if line.startswith(f"| `{path}` |"))
        missing = [after for after in file["survived"] if "`{}`".format(after.replace("|", "\\|")) not in listed]
        assert not missing, f"survivors of {path} that docs/theory/survivors.md does not argue about: {missing}"
        assert file["argued"] == len(file["survived"]) == file["tried"] - file["killed"]


def test_noise_in_blocks_uses_every_value_once() -> None:
    drawn = [np.arange(4), np.arange(4, 8), np.arange(100, 104)]
    with mock.patch.object(sampled.ExactNoise, "laplace", side_effect=drawn):
        noise = sampled.InBlocks()
        one = [int(noise.laplace(Fraction(1), 1)[0]) for _ in range(8)]
        other = [int(noise.laplace(Fraction(2), 1)[0]) for _ in range(4)]
    assert one == list(range(8))
    assert other == list(range(100, 104))
