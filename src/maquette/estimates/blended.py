"""Blended models: the average of several models of the same rows.

Where models err in different ways, their average errs less than each: noise that one follows the other may not, and a
dependency that one cannot hold is half held. Post-processing: it sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.estimates.merged import MergedModel
from maquette.hypothesis import Arrays, GraphicalModel, Mixture, WeightedRecords, saving
from maquette.query import LinearQuery
from maquette.schema import Schema

Values = NDArray[np.float64]
Part = GraphicalModel | MergedModel | Mixture | WeightedRecords
PARTS: dict[str, type[Part]] = {each.kind: each for each in (GraphicalModel, MergedModel, Mixture, WeightedRecords)}


class BlendedModel:
    """The distribution whose every probability is the mean of those of its parts."""

    kind: ClassVar[str] = "blended"

    def __init__(self, parts: Sequence[Part]) -> None:
        if not parts or any(part.schema != parts[0].schema for part in parts):
            raise QueryError("the models to average have different schemas", expected="models of one schema")
        self.parts = tuple(parts)

    @property
    def schema(self) -> Schema:
        """The universe of the models."""
        return self.parts[0].schema

    def answer(self, query: LinearQuery) -> float:
        """The mean of the models' answers, as a fraction of rows."""
        return sum(part.answer(query) for part in self.parts) / len(self.parts)

    def marginal(self, columns: Sequence[str]) -> Values:
        """The mean of the models' probabilities over the cells of these columns."""
        return self.mean([part.marginal(columns) for part in self.parts])

    @staticmethod
    def mean(tables: Sequence[Values]) -> Values:
        """The table of the average, from those of all parts."""
        return np.asarray(np.mean(tables, axis=0))

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, as many from each model, in random order."""
        return self._joined(rows, rng, [part.sample for part in self.parts])

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records without refinement, for large samples; `start` is that of every part."""
        return self._joined(rows, rng, [partial(part.draw, start=start) for part in self.parts])

    def _joined(self, rows: int, rng: np.random.Generator, draws: Sequence[Any]) -> NDArray[np.int32]:
        counts = [rows // len(draws)] * len(draws)
        for extra in rng.permutation(len(draws))[: rows % len(draws)]:
            counts[extra] += 1
        drawn = np.concatenate([draw(count, rng) for draw, count in zip(draws, counts, strict=True)])
        return np.asarray(rng.permutation(drawn), dtype=np.int32)

    def facts(self) -> dict[str, Any]:
        """What each model says of itself."""
        return {"parts": [saving.described(part) for part in self.parts]}

    def arrays(self) -> Arrays:
        """The numbers of each model."""
        found: dict[str, NDArray[Any]] = {}
        for i, part in enumerate(self.parts):
            found.update(saving.prefixed(f"part{i}", part.arrays()))
        return found

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        listed = list(facts["parts"])
        if not 1 <= len(listed) <= len(PARTS) or any(part["kind"] not in PARTS for part in listed):
            raise saving.unfit("models to average are of unknown kinds")
        made = [
            PARTS[part["kind"]].restore(schema, {**part, "cost": facts.get("cost")}, saving.inside(f"part{i}", arrays))
            for i, part in enumerate(listed)
        ]
        return cls(made)

    def __repr__(self) -> str:
        return f"BlendedModel({', '.join(map(repr, self.parts))})"
