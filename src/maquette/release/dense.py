"""Dense models: when the universe can be enumerated, and the model a fit leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights
from maquette.query import LinearQuery
from maquette.schema import Schema

MAX_CELLS = 2**24


def check_dense(schema: Schema) -> None:
    """Refuse a universe that a dense fit cannot hold, before anything is charged."""
    if schema.size > MAX_CELLS:
        raise QueryError(
            f"the universe has {schema.size:.3g} cells, more than the {MAX_CELLS:,} a dense model can hold; release "
            'fewer or coarser columns, or use method="gaussian", which needs no model'
        )


class DenseModel:
    """A finished distribution over the universe; it keeps the very numbers it was made from, so that saving is exact.

    Privacy: post-processing of released values.
    """

    def __init__(self, schema: Schema, probabilities: NDArray[np.float64]) -> None:
        self.schema = schema
        self.probabilities = probabilities
        self._weights = MultiplicativeWeights(schema, step="exact", prior=probabilities)

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        return self._weights.answer(query)

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities over the cells of these columns, axes in the order asked."""
        return self._weights.marginal(columns)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, every cell as often as its share of `rows`, rounded down or up."""
        return self._weights.sample(rows, rng)

    def __repr__(self) -> str:
        return f"DenseModel({self.schema.size:,} cells)"
