"""Integer statistics behind the doors: rounding public answers, scoring errors, and bounds that keep them in 64 bits.

Sensitivities hold for exact integers only, so nothing here may wrap, saturate or raise depending on the rows. Whether a
question is small enough is decided before any charge from public numbers, for every table of at most MAX_ROWS rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.curator import plain
from maquette.curator.compiled import Compiled
from maquette.curator.engines.api import MAX_ROWS
from maquette.errors import QueryError
from maquette.privacy import Relation

WEIGHT = 2**12  # selection weights are rounded to multiples of the largest / WEIGHT (coarser on a fine grid)
LARGEST = 2**62  # integer statistics stay below this

Arrays = list[NDArray[np.int64]]


class Scorer:
    """Integer scores weight * (error - penalty) on one grid, their sensitivity, and a public bound on their size."""

    def __init__(
        self,
        relation: Relation,
        marginals: Sequence[Compiled],
        public: Arrays,
        *,
        weights: Sequence[float] | None,
        penalties: Sequence[float] | None,
        over: str,
    ) -> None:
        count = len(marginals)
        raw = np.ones(count) if weights is None else plain.array(weights)
        off = np.zeros(count) if penalties is None else plain.array(penalties)
        if raw.shape != (count,) or not (np.isfinite(raw) & (raw > 0)).all():
            raise QueryError(
                f"got {raw.size} weights, or one that is not positive",
                expected=f"{count} positive numbers, one per question",
            )
        if off.shape != (count,) or not np.isfinite(off).all():
            raise QueryError(
                f"got {off.size} penalties, or one that is not finite",
                expected=f"{count} finite numbers, one per question",
            )
        grid = max(m.grid for m in marginals)
        unit = 1 if weights is None else WEIGHT if grid == 1 else WEIGHT // 16
        self.weights = [max(1, round(float(weight / raw.max()) * unit)) for weight in raw]
        self.penalties = [round(float(penalty) * grid) for penalty in off]
        self._lift = [grid // m.grid for m in marginals]
        self._over = over
        moves = [relation.one_cell(m) if over == "cells" else relation.l1(m) for m in marginals]
        self.sensitivity = max(
            weight * move * lift for weight, move, lift in zip(self.weights, moves, self._lift, strict=True)
        )
        for i, m in enumerate(marginals):
            error = (reach(m) + absolute_total(public[i])) * self._lift[i]
            check_reach(error + abs(self.penalties[i]), self.weights[i])

    def scores(self, i: int, error: NDArray[np.int64], signed: bool) -> NDArray[np.int64]:
        """Scores of one marginal, from the exact errors of its cells."""
        flat = error.reshape(-1) * self._lift[i]
        if self._over == "marginals":
            raw = np.array([np.abs(flat).sum()], dtype=np.int64)
        else:
            raw = np.concatenate([flat, -flat]) if signed else np.abs(flat)
        scores: NDArray[np.int64] = self.weights[i] * (raw - self.penalties[i])
        return scores


def check_reach(largest: int, factor: int) -> None:
    """Refuse a question whose statistic might not fit in 64 bits on some table; decided from public numbers alone."""
    if largest * factor >= LARGEST:
        raise QueryError(
            f"the numbers in this question could reach {largest * factor:.3g}, too large to add exactly",
            advice="use smaller public answers, weights or penalties",
        )


def reach(question: Compiled) -> int:
    """The largest sum of absolute values that any table of MAX_ROWS rows can have."""
    moves = question.moves
    return MAX_ROWS * moves.size * (1 if moves.gains is None else moves.gains[1])


def absolute_total(public: NDArray[np.int64]) -> int:
    """The sum of absolute values, in exact arithmetic."""
    largest = int(np.abs(public).max(initial=0))
    return largest * public.size if largest * public.size < LARGEST else int(np.abs(public.astype(object)).sum())


def rounded_to(values: NDArray[np.float64], grid: int) -> NDArray[np.int64]:
    """Public answers (in counts) as whole numbers of 1/grid."""
    if not np.isfinite(values).all() or (np.abs(values) > LARGEST / grid / 4).any():
        raise QueryError("public answers must be finite numbers of rows")
    return np.rint(values * grid).astype(np.int64)
