"""TableView: any question, written out over the cells of its columns. Public computation."""

from __future__ import annotations

import math

import numpy as np

from maquette.estimates import Columns, forward
from maquette.schema import Schema
from maquette.session.precision.description import weighed
from maquette.session.precision.view import Values, View


class TableView(View):
    """Any question: the weights of every cell, written out over the columns."""

    def __init__(self, schema: Schema, columns: Columns, weights: Values, shape: tuple[int, ...]) -> None:
        super().__init__(schema, columns, shape, weighed(schema, columns, weights))
        self._coefficients = np.stack([forward(cell) for cell in weights.reshape((-1, *schema.shape(columns)))])
        self.weight = self._coefficients.size

    def _gain(self, part: Columns) -> float:
        return float((self._shares(part) ** 2).reshape(len(self._coefficients), -1).sum(axis=1).max(initial=0.0))

    def peak(self, part: Columns) -> float:
        """The largest square of a share."""
        return float((self._shares(part) ** 2).max(initial=0.0))

    def _project(self, part: Columns, block: Values, power: int) -> Values:
        shares = self._shares(part).reshape(len(self._coefficients), -1)
        return np.asarray((shares**power @ block.reshape(-1)).reshape(self.shape))

    def _shares(self, part: Columns) -> Values:
        lift = math.prod(self.schema[name].size for name in self.columns if name not in part)
        block = tuple(slice(1, None) if name in part else 0 for name in self.columns)
        return np.asarray(self._coefficients[(slice(None), *block)] / math.sqrt(lift))
