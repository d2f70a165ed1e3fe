"""Tables: a release that consists of its measurements only; each query is answered from one measured marginal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.errors import QueryError
from maquette.estimates.check import restored_noise
from maquette.estimates.evidence import Estimate, spread
from maquette.hypothesis import Arrays, saving
from maquette.privacy import DiscreteGaussian, Loss
from maquette.query import LinearQuery, Marginal
from maquette.schema import Schema

Values = NDArray[np.float64]


class Tables:
    """Measured marginals as model and evidence at once: the smallest one that covers a question answers it."""

    kind: ClassVar[str] = "tables"

    def __init__(self, schema: Schema, measurements: Iterable[Measurement]) -> None:
        self.schema = schema
        self.measurements = sorted(measurements, key=lambda measured: measured.marginal.cells)

    @property
    def rows(self) -> float:
        """The total of the marginal with the least noise in it, at least one."""
        best = min(self.measurements, key=lambda table: table.deviation**2 * table.marginal.cells)
        return max(1.0, float(best.values.sum()))

    def covers(self, columns: Sequence[str]) -> bool:
        """Whether one marginal holds all these columns."""
        return any(set(columns) <= set(table.marginal.names) for table in self.measurements)

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells: noisy counts, negative ones set to zero, normalised to sum to one."""
        table = self._covering(columns)
        names = table.marginal.names
        summed = table.values.sum(axis=tuple(i for i, name in enumerate(names) if name not in columns))
        kept = [name for name in names if name in columns]
        counts = np.maximum(np.transpose(summed, [kept.index(name) for name in columns]), 0.0)
        total = float(counts.sum())
        return counts / total if total > 0 else np.full(counts.shape, 1.0 / counts.size)

    def answer(self, query: LinearQuery) -> float:
        """The unbiased estimate, as a fraction of the estimated rows."""
        columns = query.columns
        return self.estimate(query.weights(columns), columns).total / self.rows

    def estimate(self, weights: Values, columns: tuple[str, ...]) -> Estimate:
        """The weighted sum of the cells of one marginal."""
        table = self._covering(columns)
        names = table.marginal.names
        deviation = spread(table)
        repeats = np.expand_dims(weights, tuple(range(weights.ndim, len(names))))
        order = [*columns, *(name for name in names if name not in columns)]
        cells = np.transpose(table.values, [names.index(name) for name in order])
        repeated = math.prod(cells.shape[weights.ndim :])
        norm = math.sqrt(float((weights**2).sum()) * repeated)
        return Estimate(
            total=float((repeats * cells).sum()),
            deviation=deviation * norm,
            largest=deviation * float(np.abs(weights).max(initial=0.0)),
            gaussian=isinstance(table.event, DiscreteGaussian),
        )

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Not possible: separate tables are not a distribution over records."""
        raise QueryError(
            "independent noisy tables cannot be sampled: they describe no common set of rows",
            advice='release with method="everything" or "adaptive" for synthetic rows',
        )

    def facts(self) -> dict[str, Any]:
        """The columns of every table, and the law of its noise."""
        listed = [{"columns": list(t.marginal.names), "event": t.event.as_dict()} for t in self.measurements]
        return {"tables": listed}

    def arrays(self) -> Arrays:
        """The noisy counts of every table."""
        return {str(i): table.values for i, table in enumerate(self.measurements)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The tables that `facts` and `arrays` describe."""
        listed = list(facts["tables"])
        if not listed:
            raise saving.unfit("list of measured tables is empty")
        return cls(schema, [_table(schema, i, one, arrays, facts["cost"]) for i, one in enumerate(listed)])

    def _covering(self, columns: Sequence[str]) -> Measurement:
        for name in columns:
            self.schema.position(name)
        for table in self.measurements:
            if set(columns) <= set(table.marginal.names):
                return table
        measured = ", ".join(" x ".join(table.marginal.names) for table in self.measurements[:5])
        more = ", ..." if len(self.measurements) > 5 else ""
        raise QueryError(
            f"this release has no marginal over {', '.join(columns)} together",
            advice=f"it measured {measured}{more}. Release a workload that covers these columns",
        )


def _table(schema: Schema, place: int, facts: Mapping[str, Any], arrays: Arrays, cost: Loss) -> Measurement:
    event = restored_noise(facts["event"], "tables have")
    marginal = Marginal(schema, saving.names(facts, "columns"))
    return Measurement(marginal, saving.array(arrays, str(place), marginal.shape), event, cost)
