"""Bare tables: steps or waves of one column without a row for everything, read together with a number of rows.

A table that counts everything anew spends a quarter of its price on it. Where the number of rows n is known, a
question w is h n plus what w - h says, which the half waves (`steps`) or the waves tell alone: 2.5 counts for all
ranges of 32 levels that begin or end with their column, where a table with a row for everything needs 4.3; for all
ranges 3.1 instead of 6. For waves h is the mean of w, since their rows sum to zero. Half waves span everything, so h is
free: it is linear in w, and least squares for a number of rows whose precision is 1 / EVEN of that of the half waves.
One row of the table moves the matrix by about its scale, as it moves the other kinds; prices use the exact length.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.query.contrasts import Matrix
from maquette.query.waves import KEPT, sines, waves

Values = NDArray[np.float64]
BareBasis = Literal["bare steps", "bare waves"]

BARE_BASES: tuple[BareBasis, ...] = get_args(BareBasis)
EVEN = 2.5  # about what it is where one number of rows serves a few columns of 32 levels


class BareReading(NamedTuple):
    """Weights over the levels times `table` are weights of the numbers measured; times `rows`, that of n."""

    table: Values
    rows: Values


class BareQuestions(NamedTuple):
    """Of each question of the family: its weight of n, and its variance if every number measured has variance one."""

    rows: Values
    own: Values


def bare_matrix(size: int, kind: BareBasis, scale: int) -> Matrix:
    """The half waves, or the waves, in whole numbers."""
    if kind == "bare waves":
        return waves(size, scale)
    return np.asarray(np.rint(sines(size, 0.5, scale)).astype(np.int64))


@lru_cache(KEPT)
def bare_reading(size: int, kind: BareBasis, scale: int) -> BareReading:
    """How questions about one column are read, per unit scale."""
    inverse = np.linalg.pinv(bare_matrix(size, kind, scale) / scale).astype(np.float64)
    if kind == "bare waves":
        found = BareReading(inverse, np.full(size, 1 / size))
    else:
        everything = inverse.sum(axis=0)
        rows = inverse @ everything / (EVEN + everything @ everything)
        found = BareReading(inverse - np.outer(rows, everything), rows)
    for array in found:
        array.flags.writeable = False
    return found


@lru_cache(KEPT)
def bare_questions(size: int, kind: BareBasis, scale: int) -> BareQuestions:
    """The questions that a bare table is bought for: ranges at an end of the column, or all ranges."""
    table, rows = bare_reading(size, kind, scale)
    to = np.vstack([np.zeros(size), np.tri(size)])  # up to each level
    ends, weights = to @ table, to @ rows
    if kind == "bare steps":  # all levels both begin and end there
        own = np.vstack([ends[1:], ends[-1] - ends[1:-1]])
        found = BareQuestions(np.append(weights[1:], weights[-1] - weights[1:-1]), (own**2).sum(axis=1))
    else:
        products = ends @ ends.T
        lengths = np.diag(products)[:, None] + np.diag(products)[None, :] - 2 * products
        pairs = np.triu_indices(size + 1, 1)
        found = BareQuestions((weights[None, :] - weights[:, None])[pairs], lengths[pairs])
    for array in found:
        array.flags.writeable = False
    return found
