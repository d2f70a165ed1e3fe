"""Lengths: undoing the shrinkage of a penalised fit, one number for each table.

A penalty pulls every coefficient of a fit towards independence, by about the same part. Where a table stands out of its
noise, that is too much: averages by group move towards the average of all. So the departure of a fitted table m from
the independent one q keeps its direction, and its length is estimated again from the measured table y. With y = theta +
noise of variance v, Stein's lemma gives

    E <theta - m, m - q>  =  E <y - m, m - q> - v E div m,

where div m, the degrees of freedom of the fit, is at most the number of coefficients. The gain of a step along m - q is
the first expression over |m - q|^2; with all coefficients counted it is underestimated, so a table that is mostly noise
is not touched. The step is not taken by the table itself but asked of the next fit, whose target becomes
y + extra (m - q). Post-processing: it sees released numbers only.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

MOST = 1.0  # the largest part of a departure that is added to a target

Key = tuple[str, ...]
Values = NDArray[np.float64]
Table = TypeVar("Table", NDArray[np.float32], Values)


class Lengths:
    """What is added to the target of every table, as a part of its departure from independence."""

    def __init__(self) -> None:
        self.extra: dict[Key, float] = {}

    def target(self, key: Key, tables: tuple[Table, Table, Table], precision: Values | float, count: int) -> Table:
        """What the next fit of a table should aim at: `tables` are as measured, as fitted and of independent columns.

        `count` is the number of measured coefficients, `precision` that of the cells or coefficients in `tables`.
        """
        measured, fitted, independent = tables
        apart = fitted - independent
        along = float((precision * (measured - fitted) * apart).sum()) - count
        gain = along / max(float((precision * apart * apart).sum()), 1.0)
        self.extra[key] = min(max(self.extra.get(key, 0.0) + gain, 0.0), MOST)
        moved: Table = measured + measured.dtype.type(self.extra[key]) * apart
        return moved
