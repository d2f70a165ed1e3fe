"""Median: a net of candidate tables; every update removes half of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.kernels import Cells, Grid, check_schema, positions_of
from maquette.hypothesis.multiplicative_weights import check_alpha, gap
from maquette.hypothesis.sampling import sample_cells
from maquette.query import LinearQuery, LowSensitivityQuery
from maquette.schema import Schema

MAX_NET = 2**26
_ROUNDING = 1e-9  # answers closer than this may compare either way

Values = NDArray[np.float64]


class Median:
    """Answers with the lower median of the remaining candidates; an update drops those on the wrong side of it.

    Privacy: post-processing of released values. Accuracy: at most T = floor(log2 |net|) updates, for linear and
    low-sensitivity queries alike, if the net is finer than alpha: for every table and every query asked some candidate
    is within `tolerance` < alpha. The inequality is strict: with tolerance = alpha, as printed in the sources, a tie
    deletes the last consistent candidate (Mechanisms §4.4, errata A6 and A7). A step that would remove every candidate,
    which no valid value can cause, changes nothing. Answers to different queries need not come from one table.
    """

    kind: ClassVar[str] = "median"

    def __init__(self, schema: Schema, net: NDArray[np.float64], *, alpha: float, tolerance: float) -> None:
        self.schema = schema
        self._net = _checked(schema, np.asarray(net, dtype=np.float64))
        self.alpha, self.tolerance = check_alpha(alpha), tolerance
        if not 0.0 <= tolerance < alpha - _ROUNDING:
            raise QueryError(
                f"the net's tolerance is {tolerance:g}",
                expected=f"at least 0 and strictly less than alpha = {alpha:g}",
                advice="Take a finer net or a larger alpha",
            )
        self._alive = np.ones(len(self._net), dtype=np.bool_)
        self._asked: tuple[LinearQuery | LowSensitivityQuery, Values] | None = None

    @classmethod
    def multisets(cls, schema: Schema, rows: int, *, alpha: float, tolerance: float | None = None) -> Median:
        """The net of all tables of `rows` rows, for tiny universes.

        Rounding any distribution over N cells to this net moves no linear query by more than N / (4 rows), the default
        tolerance; it is 0 for tables of exactly `rows` rows.
        """
        cells = schema.size
        count = math.comb(cells + rows - 1, rows) if cells * rows <= MAX_NET else math.inf
        if rows < 1 or count * cells > MAX_NET:
            raise QueryError(
                f"tables of {rows:,} rows over {cells:,} cells are {count:.3g} candidates",
                expected=f"at least one row and at most {MAX_NET:,} numbers in all",
                advice="Take fewer rows, or give a net of your own",
            )
        chosen = np.array(list(combinations_with_replacement(range(cells), rows)))
        net = np.stack([(chosen == cell).sum(axis=1) for cell in range(cells)], axis=1) / rows
        return cls(schema, net, alpha=alpha, tolerance=cells / (4.0 * rows) if tolerance is None else tolerance)

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """log2 of the multisets in a net fine enough for every linear query and table; `update_bound` uses this net.

        Infinite if such a net is too large to list.
        """
        cells = schema.size
        if cells > MAX_NET:
            return math.inf
        rows = math.floor(cells / (4.0 * check_alpha(alpha))) + 1
        logs = math.lgamma(cells + rows) - math.lgamma(rows + 1) - math.lgamma(cells)
        return logs / math.log(2.0)

    @property
    def update_bound(self) -> float:
        """T for this net."""
        return float(len(self._net).bit_length() - 1)

    @property
    def alive(self) -> int:
        """The number of remaining candidates."""
        return int(self._alive.sum())

    def answer(self, query: LinearQuery | LowSensitivityQuery) -> float:
        """The lower median of the candidates' answers."""
        return float(_lower_median(self._answers(query)[self._alive]))

    def update(self, query: LinearQuery | LowSensitivityQuery, value: float) -> None:
        """Drop the candidates that answer with the median, or lie on the other side of it from `value`."""
        answers, median = self._answers(query), self.answer(query)
        side = gap(value, median)
        kept = self._alive & (answers < median if side < 0.0 else answers > median)
        if side != 0.0 and kept.any():
            self._alive = kept

    def marginal(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The median of each cell of these columns separately, axes in the order asked; the sum need not be one."""
        positions = positions_of(self.schema, columns)
        gone = tuple(i + 1 for i in range(len(self.schema)) if i not in positions)
        medians = _lower_median(self._histograms[self._alive].sum(axis=gone))
        return np.asarray(np.transpose(medians, np.argsort(np.argsort(positions))), order="C")

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records of one remaining candidate: the one nearest to the average of all remaining ones."""
        living = self._net[self._alive]
        central = living[np.abs(living - living.mean(axis=0)).sum(axis=1).argmin()]
        return sample_cells(Cells.of(Grid(self.schema), central), rows, rng)

    def facts(self) -> dict[str, Any]:
        """The settings."""
        return {"alpha": self.alpha, "tolerance": self.tolerance}

    def arrays(self) -> Arrays:
        """The candidates, and which of them remain."""
        return {"net": self._net, "alive": self._alive}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        net = saving.array(arrays, "net", [saving.ANY, schema.size])
        alive = saving.array(arrays, "alive", [len(net)], np.bool_)
        if not alive.any():
            raise saving.unfit("candidates are all removed")
        model = cls(schema, net, alpha=saving.number(facts, "alpha"), tolerance=saving.number(facts, "tolerance"))
        model._alive = alive
        return model

    @property
    def _histograms(self) -> Values:
        return self._net.reshape(-1, *self.schema.shape(self.schema.names))

    def _answers(self, query: LinearQuery | LowSensitivityQuery) -> Values:
        asked = self._asked
        if asked is None or asked[0] != query:
            self._asked = asked = query, self._evaluated(query)
        return asked[1]

    def _evaluated(self, query: LinearQuery | LowSensitivityQuery) -> Values:
        if isinstance(query, LowSensitivityQuery):
            return np.array([query(histogram) for histogram in self._histograms])
        check_schema(query, self.schema)
        return np.asarray(self._net @ query.weights(self.schema.names).reshape(-1))

    def __repr__(self) -> str:
        return f"Median({self.alive:,} of {len(self._net):,} candidates alive)"


def _lower_median(answers: Values) -> Values:
    middle = (len(answers) - 1) // 2
    return np.asarray(np.partition(answers, middle, axis=0)[middle])


def _checked(schema: Schema, net: Values) -> Values:
    if net.size > MAX_NET or net.ndim != 2 or net.shape[1] != schema.size or not len(net):
        raise QueryError(
            f"got shape {net.shape}",
            expected=f"at least one candidate with a mass for each of {schema.size:,} cells, "
            f"and at most {MAX_NET:,} numbers",
        )
    if not (np.isfinite(net).all() and (net >= 0.0).all() and np.allclose(net.sum(axis=1), 1.0)):
        raise QueryError("every candidate must be a normalised histogram: masses of 0 or more that sum to one")
    return net
