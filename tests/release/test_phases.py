"""Progress of a combined release: a part of the work that is predicted, which never goes back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maquette as mq
from maquette.releases import watch_progress
from maquette.releases.methods.gathered import WIDE, Gathered, fits_of
from maquette.releases.methods.phases import STEPS, Phases, asking, growing, laying_out, mixing
from maquette.releases.progress import Progress


def test_every_phase_takes_the_part_that_was_predicted_for_it() -> None:
    told: list[int] = []
    with watch_progress(lambda _, done, steps: told.append(done)), Progress("fitting", STEPS, False) as shown:
        phases = Phases(shown, [1.0, 2.0, 1.0])
        phases.told(0.5)
        phases.end()
        phases.predict([6.0, 3.0])  # less is left for the second: the bar stays at a quarter
        phases.told(0.0)
        phases.told(0.5, 0.1)
        phases.end()
        phases.told(2.0)  # never beyond its own part
        phases.end()
    assert told == [125, 250, 250, 500, 750, 1000, 1000]


@pytest.mark.parametrize("work", [[0.0, 0.0], [0.0, 1.0]])
def test_phases_without_work_end_at_once(work: list[float]) -> None:
    with Progress("fitting", STEPS, False) as shown:
        phases = Phases(shown, work)
        for _ in work:
            phases.end()


def test_work_grows_with_what_it_is_about() -> None:
    assert asking(20_000) > asking(5_000) > 0
    assert growing(10**5, 600, 300) > growing(10**4, 600, 300) > growing(10**4, 300, 300) > 0
    assert mixing(1000, 100, 400) == pytest.approx(4 * mixing(500, 100, 400))


def test_the_tables_to_come_are_expected_before_they_are_measured() -> None:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(WIDE)])
    found, pairs = Gathered(schema, list(schema.names)), list(itertools.combinations(schema.names, 2))
    blind, expecting = fits_of(found, 10**5), fits_of(found, 10**5, pairs)
    assert all(more > 1.5 * less for more, less in zip(expecting, blind, strict=True))
    for pair in pairs:
        found.coarse.combine(pair, np.ones((1, 1)), np.ones((1, 1)))
    assert fits_of(found, 10**5) == expecting  # once they are measured, the same
    assert laying_out(2000) == pytest.approx(2 * laying_out(1000))
