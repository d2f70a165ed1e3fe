"""Trace: how a loop reached its model, round by round, in released numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maquette.curator import Measurement

MEAN = math.sqrt(2 / math.pi)  # mean of |noise|, in standard deviations of a normal law


@dataclass(frozen=True)
class Step:
    """One measurement: what was measured, and how far the model was from it.

    `distance` is the total variation distance between the model's table before the update and the noisy one (for a
    single number the difference), as a fraction of rows; `noise` is the distance that noise alone causes on average.
    Both are functions of released numbers, so keeping them costs nothing.
    """

    round: int
    columns: tuple[str, ...]
    distance: float
    noise: float


def step_of(number: int, measured: Measurement, before: object, rows: float) -> Step:
    """The step in which `measured` was compared with the model's counts `before`."""
    values = np.asarray(measured.values)
    each = 0.5 if values.size > 1 else 1.0
    distance = each * float(np.abs(values - np.asarray(before, dtype=np.float64)).sum()) / rows
    return Step(number, measured.marginal.columns, distance, each * MEAN * measured.deviation * values.size / rows)
