"""Sums beside counts: the values of numeric columns, added up over all rows and by single columns.

Privacy: one `measure_many` of `ValueSums`; each is priced by the range of its column. How the price is split follows
from the model, which is released, so it is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import DataError
from maquette.privacy import DiscreteGaussian
from maquette.query import ValueSums, Workload
from maquette.releases.sum_shares import split_of
from maquette.schema import Schema

SHARE = 0.5  # of the price of a release whose workload asks for sums

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SumTable:
    """The noisy sums of a column, over all rows or by the levels of another, and the deviation of each."""

    column: str
    by: str | None
    values: Values
    deviation: float
    gaussian: bool

    def half_width(self, confidence: float, weights: Values) -> float:
        """How far noise can have moved a weighted sum of the values."""
        if self.gaussian:
            return NormalDist().inv_cdf((1 + confidence) / 2) * self.deviation * float(np.sqrt((weights**2).sum()))
        used = max(int((weights != 0).sum()), 1)  # each within its own tail: their sum is too
        return self.deviation / math.sqrt(2) * math.log(used / (1 - confidence)) * float(np.abs(weights).sum())

    def facts(self) -> dict[str, Any]:
        """What a saved file says of it."""
        return {"column": self.column, "by": self.by, "deviation": self.deviation, "gaussian": self.gaussian}


def measure_sums(curator: Curator, workload: Workload, model: Any, rows: float, units: int) -> list[SumTable]:
    """The sums that a workload asks for, for `units`, split as `split_of` says."""
    asked, shares = split_of(curator, workload, model, rows, units)
    note = {"sums": list(workload.sums)}  # columns of a charge are those of its cells, not the one added up
    measured = curator.measure_many(asked, units=units, shares=shares, note=note)
    return [
        SumTable(
            q.column,
            q.names[0] if q.names else None,
            np.asarray(m.values * float(q.step)),
            m.deviation * float(q.step),
            isinstance(m.event, DiscreteGaussian),
        )
        for q, m in zip(asked, measured, strict=True)
    ]


def told_of(tables: Sequence[SumTable]) -> list[str]:
    """What was bought of each column's sums, one line each."""
    lines = []
    for whole in (table for table in tables if table.by is None):
        by = [str(table.by) for table in tables if table.column == whole.column and table.by is not None]
        also = f"and by {', '.join(by)}" if by else "and by no column"
        lines.append(
            f"sums of {whole.column}: over all rows, with a deviation of {whole.deviation:,.4g}, {also}; tables "
            "that noise would hide are not bought"
        )
    return lines


def sum_for(tables: Sequence[SumTable], question: ValueSums | None) -> SumTable | None:
    """The table that answers a question about one column's values; None if it was not bought."""
    if question is None or len(question.columns) > 1:
        return None
    by = question.columns[0] if question.columns else None
    return next((table for table in tables if (table.column, table.by) == (question.column, by)), None)


def restore(schema: Schema, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> list[SumTable]:
    """Tables of sums from a saved file; anything that does not fit the schema is refused."""
    tables = []
    for i, fact in enumerate(facts):
        column, by = schema[str(fact["column"])].name, fact["by"]
        shape = () if by is None else (schema[str(by)].size,)
        values, deviation = np.asarray(arrays[str(i)], dtype=np.float64), float(fact["deviation"])
        if values.shape != shape or not np.isfinite(values).all() or not 0 <= deviation < math.inf:
            raise DataError(f"the sums of {column!r} do not fit the schema", advice="get the original file")
        tables.append(SumTable(column, None if by is None else str(by), values, deviation, bool(fact["gaussian"])))
    return tables
