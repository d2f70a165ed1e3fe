"""Dense models: a check that the universe can be enumerated, and the model that a fit makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import Arrays, MultiplicativeWeights, decode, refined, saving, systematic
from maquette.query import LinearQuery
from maquette.schema import Schema, impossible_cells

MAX_CELLS = 2**24
NOTHING = 2.0**-370  # all impossible cells together weigh less than this in the kernels, which cannot store zero


def check_dense(schema: Schema) -> None:
    """Refuse a universe that a dense fit cannot hold, before anything is charged."""
    if schema.size > MAX_CELLS:
        raise QueryError(
            f"the universe has {schema.size:.3g} cells, more than the {MAX_CELLS:,} a dense model can hold",
            advice='use method="graphical", whose model needs no list of cells, or release fewer or coarser columns',
        )


def rule_out(model: object) -> None:
    """Condition dense weights on possible combinations; other models are left alone.

    Call it at the start and after every update. It only brings the model closer to a table without impossible rows:
    with m the mass removed, KL(table, model) falls by ln 1 / (1 - m). So the bound on updates still holds.
    """
    if isinstance(model, MultiplicativeWeights) and model.schema.impossible:
        possible = ~np.asarray(impossible_cells(model.schema))
        model.scale_marginal(model.schema.names, possible.astype(np.float64))


class DenseModel:
    """A finished distribution over the universe; it keeps the numbers it was made from, so that saving is exact.

    Mass on impossible combinations of the schema, if there is any, goes to the possible ones in proportion.

    Privacy: post-processing of released values.
    """

    kind: ClassVar[str] = "dense"

    def __init__(self, schema: Schema, probabilities: NDArray[np.float64]) -> None:
        self.schema = schema
        self._closed = impossible_cells(schema)
        self.probabilities = probabilities if self._closed is None else _without(probabilities, self._closed)
        self._weights = MultiplicativeWeights(schema, step="exact", prior=self.probabilities)

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        value = self._weights.answer(query)
        return 0.0 if self._closed is not None and value < NOTHING else value

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities over the cells of these columns, axes in the order asked."""
        cells = self._weights.marginal(columns)
        return cells if self._closed is None else np.where(cells < NOTHING, 0.0, cells)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, drawn and then refined: tables of two and three columns are close to the model's."""
        return refined(self, self.draw(rows, rng))

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records; each cell appears its share of `rows` times, rounded down or up."""
        records = self._weights.sample(rows, rng, start)
        if self._closed is not None:
            # Rounding may move a step slightly past its cell, into one of no mass: draw those again.
            astray = np.flatnonzero(self._closed[tuple(records.T)])
            again = systematic(self.probabilities.reshape(-1), len(astray), rng)
            records[astray] = decode(again, self.probabilities.shape)
        return records

    def facts(self) -> dict[str, Any]:
        """Nothing: the arrays say everything."""
        return {}

    def arrays(self) -> Arrays:
        """The probability of every cell."""
        return {"cells": self.probabilities}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `arrays` describe."""
        return cls(schema, saving.array(arrays, "cells", schema.shape(schema.names)))

    def __repr__(self) -> str:
        return f"DenseModel({self.schema.size:,} cells)"


def _without(probabilities: NDArray[np.float64], closed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The distribution conditional on possible cells; uniform over them if they had no mass."""
    if not probabilities[closed].any():
        return probabilities
    kept = np.where(closed, 0.0, probabilities)
    total = float(kept.sum())
    return np.asarray(kept / total if total > 0.0 else ~closed / np.count_nonzero(~closed))
