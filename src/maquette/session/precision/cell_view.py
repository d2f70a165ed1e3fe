"""CellView: any question over a small universe, which is measured as one histogram. Public computation."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from maquette.estimates import Columns
from maquette.schema import Schema
from maquette.session.precision.description import Description
from maquette.session.precision.view import CELLS, Values, View

STEPS = 8  # from half of the cells to all of them


class CellView(View):
    """Any question over a small universe: the weight of every cell, minus the mean weight."""

    def __init__(self, schema: Schema, weights: Values, shape: tuple[int, ...], description: Description) -> None:
        super().__init__(schema, schema.names, shape, description)
        cells = weights.reshape(-1, schema.size)
        self._means = cells.mean(axis=1)
        self._deviations = cells - self._means[:, None]
        self.weight = self._deviations.size

    @cached_property
    def parts(self) -> tuple[Columns, ...]:
        """The number of rows, and the histogram."""
        return (), CELLS

    @property
    def hardest(self) -> tuple[View, ...]:
        """Questions of this description over half of the cells or more: no question of the same mean has more noise."""
        size = self.schema.size
        counts = sorted({math.ceil(size * (STEPS + i) / (2 * STEPS)) for i in range(STEPS + 1)})
        held = [(np.arange(size) < count).astype(np.float64) for count in counts]
        return tuple(CellView(self.schema, weights, (), self.description) for weights in held)

    def _shares(self, part: Columns) -> Values:
        return np.asarray(self._deviations if part else self._means[:, None])

    def _gain(self, part: Columns) -> float:
        return float((self._shares(part) ** 2).sum(axis=1).max(initial=0.0))

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return float((self._shares(part) ** 2).max(initial=0.0))

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        return np.asarray((self._shares(part) ** power @ block.reshape(-1)).reshape(self.shape))
