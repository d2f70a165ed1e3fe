"""Hypothesis: the contract of every public model — answer, take a step, sample, be saved.

A hypothesis never sees a row. It is a fold of its update rule over a transcript of released (query, value) pairs, so
it is deterministic, free of charge, and can be rebuilt from the transcript alone. Values are fractions of rows.

A class that keeps this contract, and whose `cls(schema, alpha=alpha)` is a fresh model with steps for errors of alpha,
works by itself wherever Maquette takes an update rule: offline, online, in MWEM, in saved files and in plans. Two more
members are welcome and not asked for: `practical(schema, rows)`, a classmethod that makes a fresh model with steps for
practical use on a number of rows, and `check(query)`, which refuses a question that the model cannot learn from before
anything is paid.
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
    """What can stand in a saved release and be restored from it."""

    kind: ClassVar[str]
    """The name of its class in files; for a class of an installed package, that of its entry point."""

    def facts(self) -> dict[str, Any]:
        """What is small and plain: texts, numbers, and lists and dictionaries of them."""

    def arrays(self) -> Arrays:
        """Its numbers: arrays of booleans, integers or floats, all finite."""

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """What `facts` and `arrays` were of; DataError where they do not fit. A file can be made by anyone.

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
        """T(alpha): the most updates a sequence can make whose queries were all off by alpha or more."""
