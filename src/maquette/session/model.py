"""The public model of a session: what to say where nothing is promised, and what a guard tests."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.query import LinearQuery
from maquette.release.dense import DenseModel
from maquette.release.fit import fit
from maquette.release.residuals import Residuals
from maquette.schema import Schema
from maquette.session.lens import CELLS
from maquette.session.transcript import Transcript

Values = NDArray[np.float64]

MAX_CELLS = 2**18  # a fit over more takes longer than an analyst waits
STEPS = 200
NOISE_LEVEL = 0.5


class Model(Protocol):
    """What a session needs of a hypothesis."""

    def answer(self, query: LinearQuery) -> float:
        """The answer, as a fraction of rows."""


class Independent:
    """Columns without any relation to each other, each as it was measured, or uniform."""

    def __init__(self, schema: Schema, residuals: Residuals) -> None:
        self._levels = {schema.position(name): _levels(residuals, name) for name in schema.names}

    def answer(self, query: LinearQuery) -> float:
        """The sum over products of one mean for each column."""
        return sum(
            term.coefficient * math.prod(float(factor @ self._levels[p]) for p, factor in term.factors.items())
            for term in query.terms
        )


def model_of(transcript: Transcript) -> Model:
    """The model that best explains what a session has measured; deterministic, and free of charge."""
    schema = transcript.schema
    if transcript.has(CELLS):
        cells = np.maximum(transcript.histogram(), 0.0).reshape(schema.shape(schema.names))
        total = float(cells.sum())
        return DenseModel(schema, cells / total if total > 0 else np.full(cells.shape, 1.0 / cells.size))
    residuals = transcript.residuals()
    if schema.size > MAX_CELLS:
        return Independent(schema, residuals)
    return DenseModel(schema, fit(residuals, steps=STEPS, target=NOISE_LEVEL).probabilities)


def _levels(residuals: Residuals, name: str) -> Values:
    """The shares of a column's levels."""
    size = residuals.schema[name].size
    if not residuals.covers((name,)):
        return np.full(size, 1.0 / size)
    counts = np.maximum(residuals.marginal((name,))[0], 0.0)
    total = float(counts.sum())
    return counts / total if total > 0 else np.full(size, 1.0 / size)
