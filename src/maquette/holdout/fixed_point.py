"""Whole numbers for the methods that add noise: rows and noise are never combined in floating point."""

from __future__ import annotations

import numpy as np

from maquette.holdout.statistic import Values

FINE = 2**20  # a row contributes a whole number of 1/FINE; FINE is the same for every statistic, so it reveals nothing
SLACK = 4 / FINE  # exceeds all rounding together: rows and guesses to the grid, scales to short fractions, tails


def total(values: Values) -> int:
    """The sum over the rows in units of 1/FINE, exact. Sensitivity FINE under relation "replace"."""
    return int(np.rint(values.numbers.astype(np.float64) * FINE).astype(np.int64).sum())


def fraction(units: int, rows: int) -> float:
    """A released number of units as a fraction of rows, clipped to [0, 1]."""
    return min(1.0, max(0.0, units / (rows * FINE)))
