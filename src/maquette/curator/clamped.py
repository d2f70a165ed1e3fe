"""Clamped values: how many lie outside of their column's declared range and are set to its nearest end.

Privacy: none. The numbers are exact, so for the custodian's own terminal only; nothing of a release or a session
depends on them. Many of them mean that a range, or the century of two-digit years, is declared wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from maquette.curator.engines.encoding import present_sql
from maquette.curator.sources import looked_at, reading
from maquette.schema import Column, Date, Integer, Number, Schema

FAR = 2.0**52  # beyond every declared number
FIRST, LAST = "1800-01-01", "2199-12-31"


@dataclass(frozen=True)
class Clamped:
    """How many of a column's values were below and above its declared range."""

    column: str
    below: int
    above: int
    rows: int


def clamped_values(
    source: object, schema: Schema, *, missing: Sequence[str] = (), delimiter: str | None = None
) -> list[Clamped]:
    """The columns of numbers and dates with values outside of their range."""
    probes = {column.name: probe for column in schema if (probe := _probe(column)) is not None}
    if not probes:
        return []
    with looked_at(source, schema.names, schema.file.changed(delimiter=delimiter)) as read:
        names = read.identifiers(list(probes))
        codes = [f"{wide.code_sql(present_sql(names[name], missing))}" for name, (wide, _, _) in probes.items()]
        rows = read.relation.project(", ".join(f"{code} AS k{i}" for i, code in enumerate(codes)))
        asked = [
            f"count(*) FILTER (k{i} >= 0 AND k{i} < {low}), count(*) FILTER (k{i} > {high} AND k{i} < {wide.known})"
            for i, (wide, low, high) in enumerate(probes.values())
        ]
        ((total, *counts),) = reading("the rows", lambda: rows.aggregate(f"count(*), {', '.join(asked)}").fetchall())
    found = [Clamped(name, counts[2 * i], counts[2 * i + 1], total) for i, name in enumerate(probes)]
    return [one for one in found if one.below or one.above]


def _probe(column: Column) -> tuple[Date | Number, int, int] | None:
    """A column that reads the same texts over a wide range, and its first and last level inside the declared range."""
    if isinstance(column, Date):
        wide = replace(column, low=FIRST, high=LAST, unit="day")
        return wide, int(wide.encode([column.low])[0]), int(wide.encode([column.high])[0])
    if not isinstance(column, Integer | Number):
        return None
    low, high = (
        float(column.boundaries[0]),
        float(column.high if isinstance(column, Integer) else column.boundaries[-1]),
    )
    settings = column.as_dict()
    written = {
        name: settings[name] for name in ("decimal", "thousands", "marks", "nullable", "missing") if name in settings
    }
    return Number(column.name, edges=[-FAR, low, math.nextafter(high, math.inf), FAR], **written), 1, 1
