"""Guess bins for a long tail: where equal bins would put most values into one of them, bins grow with the number.

Incomes from 0 to 400,000 in 20 equal bins are nearly all in the first one, which says nothing about them. Edges at
round numbers, such as 1,000, 1,500, 2,000, 3,000, 5,000 and 7,000, follow them at every size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from maquette.schema.integers import Integer
from maquette.schema.numbers import Number

if TYPE_CHECKING:
    import duckdb

MOST = 0.5  # share of the values on one side of zero, atoms apart, from which one bin holds too many
SMALL = 0.1  # share of the values whose size is below the first edge
SERIES = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0))  # of every power of ten: the first one with few bins


def with_tails(
    column: Integer | Number, texts: duckdb.DuckDBPyRelation, number: str, most_bins: int
) -> Integer | Number:
    """The column, with bins that grow where equal ones would not tell its values apart; `number` reads a text."""
    if column.known < 4:
        return column
    atoms = ", ".join(repr(float(atom)) for atom in column.atoms)
    apart = f" AND {number} NOT IN ({atoms})" if atoms else ""
    values = texts.filter(f"known IS NOT NULL AND {number} IS NOT NULL{apart}").project(
        f"abs({number}) AS size, {number} < 0 AS below, CAST(seen AS BIGINT) AS seen, "
        f"{column.code_sql('known')} AS level"
    )
    found = values.aggregate("CAST(sum(seen) AS BIGINT), below", "level, below").fetchall()
    side = max(([int(n) for n, sign in found if sign is each] for each in (False, True)), key=sum)
    if not side or max(side) <= MOST * sum(side):
        return column
    running = values.filter("size > 0").project("size, sum(seen) OVER (ORDER BY size) AS upto")
    ((first,),) = running.filter(f"upto >= {SMALL * sum(int(n) for n, _ in found)!r}").aggregate("min(size)").fetchall()
    low, high = float(column.boundaries[0]), float(column.ends[1][-1])
    if first is None or not 0 < first < max(abs(low), abs(high)):
        return column
    digits = 0 if isinstance(column, Integer) else column.precision
    tried = [_edges(low, high, float(first), series, digits) for series in SERIES]
    edges = next((each for each in tried if len(each) <= most_bins + 1), tried[-1])
    if isinstance(column, Number):
        return replace(column, low=None, high=None, bins=None, edges=edges)
    return Number(
        column.name,
        edges=edges,
        precision=0,
        atoms=tuple(map(float, column.atoms)),
        decimal=column.decimal,
        thousands=column.thousands,
        marks=column.marks,
        nullable=column.nullable,
        missing=column.missing,
    )


def _edges(low: float, high: float, first: float, series: tuple[float, ...], digits: int | None) -> list[float]:
    """Round numbers from the last one up to `first`, on both sides of zero, within the range; its ends."""
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(max(abs(low), abs(high)))) + 1)
    sizes = [float(f"{step * 10.0**power:.12g}") for power in powers for step in series]
    begin = max((size for size in sizes if size <= first), default=first)
    sizes = [size for size in sizes if size >= begin and (digits is None or round(size, digits) == size)]
    inside = {edge for size in (0.0, *sizes) for edge in (-size, size) if low < edge < high}
    return sorted({low, high} | {edge + 0.0 for edge in inside})
