"""Release: what a custodian publishes — answers, marginals and a certificate, with no way back to the rows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.privacy.interval import sum_half_width
from maquette.query import Expression, LinearQuery, Marginal, Statement, question
from maquette.release.answer import Answer, AnswerTable
from maquette.release.assemble import assemble
from maquette.schema import Schema

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was promised, under which relation, for which schema, and at what price."""

    epsilon: float
    delta: float
    rho: float | None
    relation: str
    method: str
    schema: str
    charges: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class _Derived:
    """Cells that are weighted sums of measured cells, each with the bound of its own noise."""

    values: Values
    measurement: Measurement
    norms: Values
    largest: Values

    def half_width(self, confidence: float) -> Values:
        event, grid = self.measurement.event, self.measurement.marginal.grid
        widths = [
            sum_half_width(event, float(norm), float(largest), confidence) / grid
            for norm, largest in zip(self.norms.reshape(-1), self.largest.reshape(-1), strict=True)
        ]
        return np.reshape(widths, self.values.shape)


class Release:
    """Noisy marginals over given column sets; a question is answered from the narrowest one that covers it.

    Everything here is post-processing of the measurements: asking costs nothing.
    """

    def __init__(
        self, schema: Schema, measurements: Iterable[Measurement], certificate: Certificate, cost: Loss
    ) -> None:
        self.schema = schema
        self.certificate = certificate
        self.cost = cost
        self._tables = sorted(measurements, key=lambda measured: measured.marginal.cells)

    @cached_property
    def rows(self) -> float:
        """The estimated number of rows: the total of the marginal with the least noise in it."""
        best = min(self._tables, key=lambda table: table.deviation**2 * table.marginal.cells)
        return max(1.0, float(best.values.sum()))

    def marginal(self, *columns: str) -> Values:
        """Estimated probabilities over the cells of these columns, axes in the order asked; cells sum to one."""
        table = self._covering(columns)
        names = table.marginal.names
        summed = table.values.sum(axis=tuple(i for i, name in enumerate(names) if name not in columns))
        kept = [name for name in names if name in columns]
        counts = np.maximum(np.transpose(summed, [kept.index(name) for name in columns]), 0.0)
        total = counts.sum()
        return counts / total if total > 0 else np.full(counts.shape, 1.0 / counts.size)

    def answer(self, asked: str | Expression | LinearQuery, *, confidence: float = 0.95) -> Answer | AnswerTable:
        """Answer SQL or a predicate from the release, free of charge."""
        parsed = question(self.schema, asked)
        if isinstance(parsed, Statement):
            estimates = {m.key: self._estimate(m) for m in parsed.marginals}
            return assemble(parsed, estimates, confidence, _nothing(self.cost), "derived")
        derived = self._estimate(Marginal(self.schema, (), parsed))
        count, width = float(derived.values), float(derived.half_width(confidence))
        low, high = (min(1.0, max(0.0, bound / self.rows)) for bound in (count - width, count + width))
        return Answer(
            value=count / self.rows,
            low=low,
            high=high,
            confidence=confidence,
            count=count,
            source="derived",
            cost=_nothing(self.cost),
        )

    def _covering(self, columns: Sequence[str]) -> Measurement:
        for name in columns:
            self.schema.position(name)
        for table in self._tables:
            if set(columns) <= set(table.marginal.names):
                return table
        measured = ", ".join(" x ".join(table.marginal.names) for table in self._tables[:5])
        raise QueryError(
            f"this release has no marginal over {', '.join(columns)} together; it measured {measured}"
            f"{', ...' if len(self._tables) > 5 else ''}. Release a workload that covers these columns"
        )

    def _estimate(self, wanted: Marginal) -> _Derived:
        """Cells of a marginal as weighted sums of one measured table."""
        table = self._covering(wanted.columns)
        values, norms, largest = (np.zeros(wanted.shape) for _ in range(3))
        for cell, query in wanted.queries():
            weights = query.weights(table.marginal.names)
            values[cell] = (weights * table.values).sum()
            norms[cell] = np.sqrt((weights**2).sum())
            largest[cell] = weights.max()
        return _Derived(values, table, norms, largest)

    def __repr__(self) -> str:
        return f"Release({self.certificate.method}, {len(self._tables)} marginals, cost {self.cost})"

    def _repr_html_(self) -> str:
        facts = {
            "method": self.certificate.method,
            "marginals": str(len(self._tables)),
            "protects": self.certificate.relation,
            "cost": str(self.cost),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return f"<table><caption>Release</caption>{rows}</table>"


def _nothing(cost: Loss) -> Loss:
    """A loss of zero in the same currency."""
    return Loss(epsilon=0.0, delta=0.0, rho=None if cost.rho is None else 0.0, units=0, currency=cost.currency)
