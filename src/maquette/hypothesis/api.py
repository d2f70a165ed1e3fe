"""Hypothesis: the contract of every public model — answer, take a step, sample, be saved.

A hypothesis never sees a row. It is a fold of its update rule over a transcript of released (query, value) pairs, so
it is deterministic, free of charge, and can be rebuilt from the transcript alone. Values are fractions of rows.

A class that keeps this contract, and whose `cls(schema, alpha=alpha)` is a fresh model with steps for errors of alpha,
works wherever Maquette takes an update rule: offline, online, in MWEM, in saved files and in plans. Three more members
are optional: `practical(schema, rows)`, a classmethod that returns a fresh model with steps for practical use on about
`rows` rows; `check(query)`, which refuses a question that the model cannot learn from before anything is charged; and
`draw(rows, rng, start)`, records for one batch of a long stream, whose systematic draw starts at `start` in [0, 1) or,
if that is None, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maquette.query import LinearQuery
from maquette.schema import Schema

Arrays = Mapping[str, NDArray[Any]]


@runtime_checkable
class Savable(Protocol):
    """An object that can be part of a saved release and be restored from it."""

    kind: ClassVar[str]
    """The name of the class in files; for a class of an installed package, the name of its entry point."""

    def facts(self) -> dict[str, Any]:
        """Small plain values: strings, numbers, and lists and dictionaries of them."""

    def arrays(self) -> Arrays:
        """Its numbers: arrays of booleans, integers or floats, all finite."""

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The object that `facts` and `arrays` describe; DataError if they do not fit. A file can be made by anyone.

        `facts` also has `cost`, the loss of the release, as its certificate states it. `maquette.hypothesis.saving` has
        the checks.
        """


class Hypothesis(Savable, Protocol):
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
        """T(alpha): the maximum number of updates, if every query that caused one was off by alpha or more."""
