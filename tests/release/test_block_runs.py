"""Sums over blocks of cells, and numbers taken from all cells of a block, against the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from maquette.estimates.block_runs import LONG, BlockRuns


@pytest.mark.parametrize("lengths", [[2, 2, 2], [1], [3, 3, 5, 2, 2], [2, LONG, LONG, LONG + 3], [LONG + 1, 4, 4]])
def test_runs_do_what_repeating_would(lengths: list[int]) -> None:
    rng = np.random.default_rng(1)
    cells = rng.random((4, sum(lengths)), dtype=np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    runs = BlockRuns(lengths)
    sums = runs.summed(cells)
    assert sums == pytest.approx(np.add.reduceat(cells, starts, axis=1), rel=1e-5)
    scaled, moved = cells.copy(), cells.copy()
    runs.multiply(scaled, sums)
    runs.subtract(moved, sums)
    spread = np.repeat(sums, lengths, axis=1)
    assert (scaled == cells * spread).all()
    assert (moved == cells - spread).all()
