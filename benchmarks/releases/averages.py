"""How wrong sums and averages are: of each numeric column over all rows, and within the levels of one other column.

Errors are divided by the mean size of the column's values, so 0.03 is three percent for a column that is not negative.
The exact numbers are those of the table as its schema holds it: a value is the middle of its bin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from releases.distance import Values, counted

Answers = Callable[[tuple[int, ...]], Values]
FEWEST = 30  # rows of a group whose average is compared


def numeric(schema: mq.Schema) -> list[int]:
    """The columns that have averages."""
    kinds = (mq.Integer, mq.Number)
    return [i for i, column in enumerate(schema) if isinstance(column, kinds)]


def grouping(schema: mq.Schema, target: str | None) -> int:
    """The column to group by: the target, or the smallest category, or the smallest column."""
    if target is not None:
        return schema.position(target)
    sizes = [column.size for column in schema]
    named = [i for i, column in enumerate(schema) if isinstance(column, mq.Category | mq.Boolean)]
    return min(named or range(len(sizes)), key=lambda i: (sizes[i], i))


def totals(table: Values, middles: Values) -> tuple[Values, Values]:
    """The sum of the values and the mass of known values, along the first axis; the null level is left out."""
    known = table[: len(middles)]
    return np.tensordot(middles, known, axes=(0, 0)), known.sum(axis=0)


def apart(true: Values, found: Values, middles: Values, rows: int) -> tuple[float, float]:
    """Of tables as fractions: the error of sums, and of averages weighted by the true size of their group."""
    typical = float(totals(true, np.abs(middles))[0].sum() / max(totals(true, middles)[1].sum(), 1e-12)) or 1.0
    sums, masses = totals(true, middles)
    found_sums, found_masses = totals(found, middles)
    compared = masses * rows >= FEWEST
    if not compared.any():
        return 0.0, 0.0
    average = np.divide(found_sums, found_masses, out=np.full_like(found_sums, middles.mean()), where=found_masses > 0)
    wrong = np.abs(average - sums / np.where(masses > 0, masses, 1.0))[compared]
    of_sums = float(np.abs(found_sums - sums).sum() / typical)
    return of_sums, float(np.average(wrong, weights=masses[compared]) / typical)


def errors(schema: mq.Schema, codes: NDArray[np.int32], target: str | None, answers: Answers) -> dict[str, float]:
    """The mean error of averages and sums over the numeric columns; the worst of the grouped averages."""
    sizes, by = list(schema.shape(schema.names)), grouping(schema, target)
    rows = codes.astype(np.int64)
    measured: dict[str, list[float]] = {"average": [], "average by group": [], "sum by group": []}
    for i in numeric(schema):
        if i == by:
            continue
        middles = np.asarray(schema[schema.names[i]].midpoints, dtype=float)
        alone = counted(rows, sizes, (i,))[:, None] / len(codes)
        measured["average"].append(apart(alone, answers((i,))[:, None], middles, len(codes))[1])
        pair = (min(i, by), max(i, by))
        true, found = counted(rows, sizes, pair) / len(codes), answers(pair)
        if by < i:
            true, found = true.T, found.T
        of_sums, of_averages = apart(true, found, middles, len(codes))
        measured["sum by group"].append(of_sums)
        measured["average by group"].append(of_averages)
    if not measured["average"]:
        return {}
    means = {name: float(np.mean(values)) for name, values in measured.items()}
    return {**means, "worst average": max(measured["average by group"])}
