"""The public model of a session: answers questions without a guarantee; a guard tests it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import DenseModel, Residuals, estimates, fit, forward, raked
from maquette.hypothesis import GraphicalModel, JunctionTree
from maquette.query import LinearQuery
from maquette.releases import Start
from maquette.session.precision.view import CELLS
from maquette.session.transcript import Transcript

Values = NDArray[np.float64]

MAX_CELLS = 2**18  # of the universe: a dense fit over more cells takes longer than an analyst waits
MAX_TREE = 2**16  # cells of a junction tree, where the universe is larger
STEPS = 200
NOISE_LEVEL = 0.5


class Model(Protocol):
    """What a session needs of a hypothesis."""

    def answer(self, query: LinearQuery) -> float:
        """The answer, as a fraction of rows."""

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of these columns."""


def model_of(transcript: Transcript, start: Start | None = None) -> Model:
    """The model that best explains what a session has measured; deterministic and free.

    With a `start` that is closer to what was measured than independent columns are, it is the rows of the start,
    reweighted to have the measured tables of that model; before anything is measured, the start itself.
    """
    if start is None or transcript.has(CELLS):
        return _fitted(transcript)
    residuals = transcript.residuals()
    sets = [columns for columns, _, _ in residuals if columns]
    if not sets:
        return start.model
    own = _fitted(transcript)
    if not _closer(start, residuals):
        return own
    whole = [columns for columns in sets if not any(set(columns) < set(other) for other in sets)]
    wanted = {columns: own.marginal(columns) for columns in whole}
    return raked(transcript.schema, start.records, start.weights, wanted, {})


def _closer(start: Start, residuals: Residuals) -> bool:
    """Whether a start is closer to the measured coefficients than even columns that are independent."""
    rows, theirs, alone = residuals.rows, 0.0, 0.0
    for columns, values, variances in residuals:
        if columns:
            inner = tuple(slice(1, None) for _ in columns)
            expected = forward(np.asarray(start.model.marginal(columns)) * rows)[inner]
            theirs += float(((expected - values) ** 2 / variances).sum())
            alone += float((values**2 / variances).sum())
    return theirs < alone


def _fitted(transcript: Transcript) -> Model:
    schema = transcript.schema
    if transcript.has(CELLS):
        cells = np.maximum(transcript.histogram(), 0.0).reshape(schema.shape(schema.names))
        total = float(cells.sum())
        return DenseModel(schema, cells / total if total > 0 else np.full(cells.shape, 1.0 / cells.size))
    residuals = transcript.residuals()
    if schema.size > MAX_CELLS:
        return _graphical(residuals)
    return DenseModel(schema, fit(residuals, steps=STEPS, target=NOISE_LEVEL).probabilities)


def _graphical(residuals: Residuals) -> Model:
    """A graphical model of the measured sets that fit in a junction tree, the most informative first."""
    schema = residuals.schema
    zeros = [columns for columns, _ in schema.zeros]
    tree = JunctionTree({column.name: column.size for column in schema}, [*((name,) for name in schema.names), *zeros])
    kept = Residuals(schema)
    measured = {columns: (values, variance) for columns, values, variance in residuals}
    for columns in sorted(measured, key=lambda columns: (len(columns) > 1, -_surprise(*measured[columns]))):
        if len(columns) > 1:
            if tree.cells_with(columns) > MAX_TREE:
                continue
            tree = tree.with_cliques([columns])
        kept.combine(columns, *measured[columns])
    cliques = [(name,) for name in schema.names] + [columns for columns, _, _ in kept if len(columns) > 1]
    *_, fitted = estimates(GraphicalModel(schema, cliques, zeros=schema.zeros), kept)
    return fitted.model


def _surprise(values: Values, variance: Values) -> float:
    """How far the coefficients of a set are from zero, in excess of their noise."""
    return float((values**2 / variance - 1.0).sum())
