"""Hypothesis: the contract of every public model — answer, take a step, sample.

A hypothesis never sees a row. It is a fold of its update rule over a transcript of released (query, value) pairs, so
it is deterministic, free of charge, and can be rebuilt from the transcript alone. Values are fractions of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.query import LinearQuery
from maquette.schema import Schema


class Hypothesis(Protocol):
    """A public model of the table with an update rule (a database update algorithm)."""

    @property
    def schema(self) -> Schema:
        """The universe it models."""

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""

    def update(self, query: LinearQuery, value: float) -> None:
        """One step of the update rule towards a released value (a fraction of rows)."""

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records whose marginals stay close to the model's (low-variance rounding)."""

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """T(alpha): the most updates a sequence can make whose queries were all off by alpha or more."""
