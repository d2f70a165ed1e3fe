"""Weighted records: multiplicative weights over a public list of records instead of the whole universe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import check_schema, positions_of, totals
from maquette.hypothesis.multiplicative_weights import Step, StepRule, check_masses
from maquette.hypothesis.sampling import snake, systematic
from maquette.query import MAX_OUTPUT, LinearQuery
from maquette.schema import Schema


class WeightedRecords:
    """A distribution over public encoded records, such as a sample of an earlier release; the universe may be any size.

    Privacy: post-processing of released values and public records. Accuracy: T(alpha) = ln(m) / (2 alpha^2) for m
    records, if the table's own records are among them (Mechanisms §4.2 on the universe of the listed records). For
    other tables there is no bound: it comes as close as weights on these records allow. `weights` (public) replace the
    equal weights at the start. Memory: the records, and a few numbers for each.
    """

    kind: ClassVar[str] = "records"

    def __init__(
        self,
        schema: Schema,
        records: NDArray[np.integer[Any]],
        *,
        weights: NDArray[np.float64] | None = None,
        alpha: float | None = None,
        step: Step = "theory",
        floor: float = 1e-6,
    ) -> None:
        self.schema = schema
        self.records = _checked(schema, np.asarray(records))
        self._rule = StepRule(step=step, alpha=alpha, floor=floor)
        count = len(self.records)
        start = np.full(count, 1.0 / count) if weights is None else check_masses(weights, (count,))
        with np.errstate(divide="ignore"):
            self._logs = np.log(start)
        self._potential = -float(self._logs.min())
        self._weights = start

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """ln N / (2 alpha^2), which holds for any list of distinct records; `update_bound` uses this list."""
        return StepRule(alpha=alpha).max_updates(math.log(schema.size))

    @property
    def alpha(self) -> float | None:
        """The error that a step corrects; None where steps are exact."""
        return self._rule.alpha

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, step, and records."""
        return self._rule.max_updates(self._potential)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probability of each record."""
        return self._weights.copy()

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        return float((self._weights * self._evaluate(query)).sum())

    def update(self, query: LinearQuery, value: float) -> None:
        """One step towards a released value; theory and book steps use only the sign of value - answer."""
        values = self._evaluate(query)
        answer = float((self._weights * values).sum())
        eta = self._rule.eta(value, answer, lambda: (values, self._weights))
        self._logs += self._rule.exponents(eta, values)
        self._logs -= self._logs.max()
        self._weights = np.exp(self._logs)
        self._weights /= self._weights.sum()

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The model's answers to all cells of these columns, axes in the order asked."""
        if self.schema.cells(columns) > MAX_OUTPUT:
            raise QueryError(
                f"{self.schema.cells(columns):,} cells over {len(columns)} columns are more than {MAX_OUTPUT:,}",
                advice="ask for fewer columns",
            )
        entries = np.zeros(len(self.records), dtype=np.int64)
        for position in positions_of(self.schema, columns):
            entries = entries * self.schema.columns[position].size + self.records[:, position]
        shape = self.schema.shape(columns)
        return totals(entries, self._weights, math.prod(shape)).reshape(shape)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records; each appears its share of `rows` times, rounded down or up."""
        order = snake(self.records, self.schema.shape(self.schema.names))
        return self.records[order[systematic(self._weights[order], rows, rng)]]

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """As `sample`, for large samples; `start` is where the systematic draw begins."""
        order = snake(self.records, self.schema.shape(self.schema.names))
        return self.records[order[systematic(self._weights[order], rows, rng, start)]]

    def facts(self) -> dict[str, Any]:
        """The settings; empty if steps are exact, as in every release."""
        if self._rule == StepRule(step="exact"):
            return {}
        return {**self._rule.facts(), "potential": self._potential if math.isfinite(self._potential) else None}

    def arrays(self) -> Arrays:
        """The records and their weights."""
        return {"records": self.records, "weights": self._weights}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        records = saving.array(arrays, "records", [saving.ANY, len(schema)], np.int32)
        weights = saving.array(arrays, "weights", [len(records)])
        rule = StepRule.restore(facts) if "step" in facts else StepRule(step="exact")
        model = cls(schema, records, weights=weights, alpha=rule.alpha, step=rule.step, floor=rule.floor)
        if abs(float(weights.sum()) - 1.0) <= 1e-12:
            model._weights = weights  # to the last bit, as it was
        if "step" in facts:
            potential = saving.optional(facts, "potential")
            model._potential = math.inf if potential is None else potential
        return model

    def _evaluate(self, query: LinearQuery) -> NDArray[np.float64]:
        check_schema(query, self.schema)
        return query.evaluate(self.records)

    def __repr__(self) -> str:
        return f"WeightedRecords({len(self.records):,} records, step {self._rule.step})"


def _checked(schema: Schema, records: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    sizes = np.array(schema.shape(schema.names))
    if records.ndim != 2 or records.shape[1] != len(sizes) or not len(records):
        raise QueryError(
            f"got an array of shape {records.shape}",
            expected=f"at least one encoded record with {len(sizes)} columns",
            advice="encode rows with schema.encode",
        )
    if not ((records >= 0) & (records < sizes)).all():
        raise QueryError("a record has a code outside its column's levels", advice="encode rows with schema.encode")
    return records.astype(np.int32)
